#!/usr/bin/env python3
"""Makes tests/golden/image_processors/: what transformers' image processors on Pillow make of the pictures of tests/golden/image.

  generate_image_processors.py

Each folder is a hub folder's preprocessing alone, with small sizes, and golden.json: pictures and shape. pixels.u8: the
reference without rescale and normalise, u8 [pictures, height, width, 3]; values.f32: the first picture's values, f32
[height, width, 3]. Of sizes over 64 only every 16th row and column is kept ("step"). golden.json also says how far the
processor on torchvision (the "Fast" one) is from the one on Pillow, in levels; null: it cannot do this at all.
Needs Pillow, numpy, torch, torchvision, transformers; versions.json says which made the committed files.
"""
import json
import os
import shutil

import numpy as np
import PIL
import torch
import torchvision
import transformers
from PIL import Image, ImageOps, features
from transformers import AutoImageProcessor

HERE = os.path.dirname(os.path.abspath(__file__))
PICTURES = os.path.join(HERE, "image")
OUT = os.path.join(HERE, "image_processors")

SHAPES = ["jpeg_420.jpg", "png_1x2000.png", "png_2000x1.png", "png_3x2.png", "png_1x1.png", "jpeg_exif_6.jpg"]
KINDS = ["jpeg_cmyk.jpg", "png_rgb_16bit.png", "png_gray_16bit.png", "png_palette.png", "jpeg_gray.jpg"]
TRANSPARENT = ["png_rgba.png", "png_palette_transparent.png", "png_gray_alpha.png", "png_rgba_16bit.png",
               "png_rgb_transparent.png", "webp_alpha_lossless.webp"]


def square(side):
    return {"height": side, "width": side}


# name -> (files, pictures)
CASES = {
    "clip": ({"preprocessor_config.json": {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 20},
                                           "crop_size": square(20)}}, SHAPES + KINDS + TRANSPARENT),
    # As OpenAI's folders have it.
    "clip-first": ({"preprocessor_config.json": {
        "crop_size": 18, "do_center_crop": True, "do_normalize": True, "do_resize": True,
        "feature_extractor_type": "CLIPFeatureExtractor", "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711], "resample": 3, "size": 21}}, SHAPES),
    "clip-smaller-than-crop": ({"preprocessor_config.json": {
        "image_processor_type": "CLIPImageProcessorFast", "size": {"shortest_edge": 16},
        "crop_size": {"height": 19, "width": 27}}}, SHAPES),
    "siglip": ({"preprocessor_config.json": {"image_processor_type": "SiglipImageProcessor",
                                             "size": {"height": 18, "width": 26}, "do_convert_rgb": None}}, SHAPES),
    # Loses more rows than columns: Pillow 13 begins with the vertical pass.
    "siglip-wide": ({"preprocessor_config.json": {"image_processor_type": "SiglipImageProcessor",
                                                  "size": {"height": 12, "width": 58}}}, ["jpeg_exif_6.jpg"]),
    # As transformers 5 writes it.
    "siglip-processor": ({"processor_config.json": {"image_processor": {
        "image_processor_type": "SiglipImageProcessor", "size": square(16), "resample": 2, "do_rescale": True,
        "rescale_factor": 0.00392156862745098, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]},
        "processor_class": "SiglipProcessor"}}, SHAPES),
    # As the first ViT folders have it: no processor is named.
    "vit": ({"preprocessor_config.json": {"do_normalize": True, "do_resize": True, "image_mean": [0.5, 0.4, 0.6],
                                          "image_std": [0.5, 0.25, 0.3], "size": 20},
             "config.json": {"model_type": "vit"}}, SHAPES + TRANSPARENT[:1]),
    "dinov2": ({"preprocessor_config.json": {
        "crop_size": square(18), "do_center_crop": True, "do_convert_rgb": True, "do_normalize": True,
        "do_rescale": True, "do_resize": True, "image_mean": [0.485, 0.456, 0.406],
        "image_processor_type": "BitImageProcessor", "image_std": [0.229, 0.224, 0.225], "resample": 3,
        "rescale_factor": 0.00392156862745098, "size": {"shortest_edge": 23}}}, SHAPES),
    "deit": ({"preprocessor_config.json": {"feature_extractor_type": "DeiTFeatureExtractor", "size": 23,
                                           "crop_size": 20}}, SHAPES),
    "convnext": ({"preprocessor_config.json": {"image_processor_type": "ConvNextImageProcessor", "size": 20,
                                               "crop_pct": 0.875}}, SHAPES),
    "convnext-384": ({"preprocessor_config.json": {"feature_extractor_type": "ConvNextFeatureExtractor",
                                                   "size": {"shortest_edge": 384}}}, SHAPES[:3]),
    "efficientnet": ({"preprocessor_config.json": {
        "image_processor_type": "EfficientNetImageProcessor", "size": square(20), "resample": 0,
        "rescale_factor": 0.00784313725490196, "rescale_offset": True, "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.47853944, 0.4732864, 0.47434163]}}, SHAPES),
    "efficientnet-crop": ({"preprocessor_config.json": {
        "image_processor_type": "EfficientNetImageProcessor", "size": square(24), "crop_size": square(19),
        "do_center_crop": True, "include_top": False}}, SHAPES),
    "no-resize": ({"preprocessor_config.json": {"image_processor_type": "CLIPImageProcessor", "do_resize": False,
                                                "crop_size": square(31)}}, SHAPES),
    "no-rescale": ({"preprocessor_config.json": {"image_processor_type": "ViTImageProcessor", "size": square(12),
                                                 "do_rescale": False, "image_mean": 100.0, "image_std": 50.5}},
                   SHAPES[:1]),
    "no-normalise": ({"preprocessor_config.json": {"image_processor_type": "ViTImageProcessor", "size": [12, 14],
                                                   "do_normalize": False}}, SHAPES[:1]),
}
for number, name in enumerate(["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]):
    CASES[f"filter-{name}"] = ({"preprocessor_config.json": {
        "image_processor_type": "SiglipImageProcessor", "size": {"height": 14, "width": 17}, "resample": number}}, SHAPES)


def open_picture(name, converts):
    """What the reference is given. Without do_convert_rgb it takes RGB only: then the caller converts."""
    image = ImageOps.exif_transpose(Image.open(os.path.join(PICTURES, name)))
    return image if converts else image.convert("RGB")


def values(processor, image):
    return processor(image, return_tensors="np")["pixel_values"][0].transpose(1, 2, 0)


def pixels(processor, image):
    """Before rescale and normalise."""
    off = {"do_rescale": False, "do_normalize": False}
    if "EfficientNet" in type(processor).__name__:
        off["include_top"] = False
    out = processor(image, return_tensors="np", **off)["pixel_values"][0].transpose(1, 2, 0)
    assert np.array_equal(out, out.astype(np.uint8))
    return out.astype(np.uint8)


def load(folder, backend="pil"):
    return AutoImageProcessor.from_pretrained(folder, backend=backend)


def main():
    torch.set_num_threads(1)
    for name, (files, pictures) in CASES.items():
        folder = os.path.join(OUT, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for file, content in files.items():
            with open(os.path.join(folder, file), "w") as out:
                json.dump(content, out, indent=1)
                out.write("\n")
        slow, fast = load(folder), load(folder, "torchvision")
        images = [open_picture(p, slow.do_convert_rgb) for p in pictures]
        all_pixels = np.stack([pixels(slow, image) for image in images])
        try:
            fast_pixels = np.stack([pixels(fast, image) for image in images])
            distance = int(np.abs(all_pixels.astype(int) - fast_pixels.astype(int)).max())
        except NotImplementedError:  # a filter that torchvision does not have
            distance = None
        height, width = all_pixels.shape[1:3]
        step = 16 if max(height, width) > 64 else 1
        golden = {"pictures": pictures, "height": height, "width": width, "step": step,
                  "processor": type(slow).__name__, "torchvision_is_off_by": distance}
        all_pixels[:, ::step, ::step].tofile(os.path.join(folder, "pixels.u8"))
        values(slow, images[0])[::step, ::step].astype("<f4").tofile(os.path.join(folder, "values.f32"))
        with open(os.path.join(folder, "golden.json"), "w") as out:
            json.dump(golden, out, indent=1)
            out.write("\n")
        print(name, type(slow).__name__, all_pixels.shape, "torchvision off by", distance)
    versions = {"Pillow": PIL.__version__, "numpy": np.__version__, "torch": torch.__version__,
                "torchvision": torchvision.__version__, "transformers": transformers.__version__}
    versions.update({lib: features.version(lib) for lib in ("libjpeg_turbo", "webp", "zlib")})
    with open(os.path.join(OUT, "versions.json"), "w") as out:
        json.dump(versions, out, indent=1, sort_keys=True)
        out.write("\n")


if __name__ == "__main__":
    main()
