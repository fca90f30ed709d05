#!/usr/bin/env python3
"""Compares the product's pixels with the installed transformers on Pillow, live, on random pictures.

  compare_image_processor.py DUMP [FOLDER ...] [--pictures 200] [--processors 40] [--seed 1]

DUMP is the program tributary-image-dump. FOLDERs are hub folders; without any, random preprocessor_config.json files of
every processor served, and each processor's defaults. Exits 1 where a byte differs by more than 1 or a value by more than
its share of that. The committed goldens (generate_image_processors.py) show the same without Python; this script is for
new seeds and new versions of the reference.
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image, ImageOps

import generate_image as pictures
import generate_image_processors as golden

NAMES = ["CLIP", "Siglip", "ViT", "Bit", "DeiT", "ConvNext", "EfficientNet"]


def random_picture(rng):
    w, h = [int(2 ** rng.uniform(0, 9)) for _ in range(2)]
    if rng.random() < 0.1:
        w, h = (w, 1 + rng.randrange(3000)) if rng.random() < 0.5 else (1 + rng.randrange(3000), h)
    channels = rng.choice([3, 3, 4])
    array = pictures.picture(w, h, channels)
    if rng.random() < 0.4:
        array = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 256, array.shape, dtype=np.uint8)
    image = Image.fromarray(array)
    options = {"exif": pictures.exif_of(rng.randrange(1, 9))}
    kind = rng.choice(["PNG", "PNG", "JPEG", "WEBP"])
    if kind == "JPEG":
        return pictures.encode(image.convert("RGB"), kind, quality=90, **options)
    if kind == "WEBP":
        return pictures.encode(image, kind, lossless=True, exact=True, **options)
    return pictures.encode(image, kind, **options)


def random_config(rng):
    side = lambda: rng.randrange(8, 300)
    config = {"image_processor_type": rng.choice(NAMES) + "ImageProcessor" + rng.choice(["", "Fast"])}
    if "ConvNext" in config["image_processor_type"]:
        config["size"] = rng.choice([side(), {"shortest_edge": side()}, {"shortest_edge": 384 + side()}])
        config["crop_pct"] = rng.uniform(0.5, 1)
    else:
        config["do_center_crop"] = rng.random() < 0.6
        config["crop_size"] = rng.choice([side(), {"height": side(), "width": side()}])
        config["size"] = rng.choice([side(), {"height": side(), "width": side()}, [side(), side()]]
                                    + [{"shortest_edge": side()}] * (2 * config["do_center_crop"]))
        if not config["do_center_crop"] and isinstance(config["size"], int):
            config["default_to_square"] = True
    config["resample"] = rng.randrange(6)
    for key, chance in (("do_rescale", 0.8), ("do_normalize", 0.8), ("rescale_offset", 0.5), ("include_top", 0.5)):
        if rng.random() < 0.5:
            config[key] = rng.random() < chance
    if rng.random() < 0.5:
        config["image_mean"] = [rng.uniform(0, 1) for _ in range(3)]
        config["image_std"] = [rng.uniform(0.1, 1) for _ in range(3)]
    return config


def product(dump, folder, files):
    data = b"".join(struct.pack("<I", len(f)) + f for f in files)
    out = subprocess.run([dump, folder], input=data, stdout=subprocess.PIPE, check=True).stdout
    at, blocks = 0, []
    for _ in files:
        w, h = struct.unpack_from("<II", out, at)
        n = w * h * 3
        blocks.append((np.frombuffer(out, np.uint8, n, at + 8).reshape(h, w, 3),
                       np.frombuffer(out, "<f4", n, at + 8 + n).reshape(h, w, 3)))
        at += 8 + 5 * n
    return blocks


def compare(dump, folder, files):
    """Largest difference in levels, and largest in values relative to what one level makes."""
    import io
    processor = golden.load(folder)
    levels = share = 0
    for file, (rgb, values) in zip(files, product(dump, folder, files)):
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
        image = image if processor.do_convert_rgb else image.convert("RGB")
        expected = golden.pixels(processor, image)
        assert expected.shape == rgb.shape, (expected.shape, rgb.shape)
        levels = max(levels, int(np.abs(expected.astype(int) - rgb.astype(int)).max()))
        expected = golden.values(processor, image)
        share = max(share, float(np.abs(expected - values).max() / max(1.0, np.abs(expected).max())))
    return levels, share


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dump")
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--processors", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    files = [random_picture(rng) for _ in range(args.pictures)]
    for name in sorted(os.listdir(golden.PICTURES)):
        if name.endswith((".jpg", ".png", ".webp")):
            with open(os.path.join(golden.PICTURES, name), "rb") as file:
                files.append(file.read())
    failed = False

    def check(label, folder, some):
        nonlocal failed
        levels, share = compare(args.dump, folder, some)
        print(f"{label}: {len(some)} pictures, off by {levels} levels, values by {share:.1e} of the largest")
        failed = failed or levels > 1 or (levels == 0 and share > 1e-6)

    for folder in args.folders:
        check(folder, folder, files)
    if not args.folders:
        configs = [{"image_processor_type": name + "ImageProcessor"} for name in NAMES]
        configs += [random_config(rng) for _ in range(args.processors)]
        for config in configs:
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "preprocessor_config.json"), "w") as file:
                    json.dump(config, file)
                check(json.dumps(config), folder, rng.sample(files, min(len(files), 60)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
