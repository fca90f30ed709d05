#!/usr/bin/env python3
"""Makes the goldens of the image path: tests/golden/image/.

Pictures: small ones of every format, made here, and four photos of the scikit-image wheel (chelsea = cat: Stefan van der
Walt, CC0; coffee: Rachel Michetti, public domain; rocket: SpaceX, CC0; astronaut: NASA, public domain), scaled down.
Expected pixels: Pillow. Expected logits: the PyTorch original (efficientnet_lite_pytorch 0.1.0).

  generate_image.py --model-code FOLDER --weights model.safetensors

where FOLDER holds the unpacked wheel of efficientnet_lite_pytorch. Needs Pillow, numpy, scikit-image, torch, safetensors.
"""
import argparse
import io
import json
import os
import struct
import sys
import zlib

import numpy as np
import PIL
from PIL import Image, ImageOps, features

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "image")
FORMAT_SIZE = 48  # output side of the format cases: small files, and every pixel compared
PHOTO_SIZE = 224
CROP_PADDING = 32


def preprocess(data, size):
    """The reference: see engine/prepare/image/image_preparer.h."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    w, h = image.size
    side = max(1, min(w, h) * size // (size + CROP_PADDING))
    left, top = (w - side + 1) // 2, (h - side + 1) // 2
    image = image.crop((left, top, left + side, top + side)).resize((size, size), Image.BICUBIC)
    return np.asarray(image)


def picture(width, height, channels=3):
    """Something with edges, gradients and colours, not symmetric in any way."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    planes = [
        127 + 120 * np.sin(x / 7.0 + y / 31.0),
        255.0 * (x + 2 * y) / (width + 2 * height),
        np.where((x // 9 + y // 6) % 2 == 0, 230, 40) * (0.5 + 0.5 * y / height),
        255.0 * (0.2 + 0.8 * x / width),
    ]
    planes = [np.where((x < width / 4) & (y < height / 3), 255 - p, p) for p in planes]
    return np.clip(np.stack(planes[:channels], -1), 0, 255).astype(np.uint8)


def encode(image, fmt, **options):
    out = io.BytesIO()
    image.save(out, fmt, **options)
    return out.getvalue()


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width, height, depth, colour, rows, interlaced=False, extra=b""):
    """A PNG by hand, for what Pillow does not write. rows(x0, y0, dx, dy) -> the packed rows of one pass."""
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    body = b""
    for x0, y0, dx, dy in passes if interlaced else [(0, 0, 1, 1)]:
        body += b"".join(b"\0" + row for row in rows(x0, y0, dx, dy))
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(body, 9))
            + chunk(b"IEND", b""))


def rows_of(array, depth):
    """Packed rows of array [h, w, c] at 1, 2, 4, 8 or 16 bits."""
    def rows(x0, y0, dx, dy):
        part = array[y0::dy, x0::dx]
        if part.size == 0:
            return []
        if depth == 16:
            return [row.astype(">u2").tobytes() for row in part]
        if depth == 8:
            return [row.astype(np.uint8).tobytes() for row in part]
        packed = []
        for row in part.reshape(part.shape[0], -1):
            bits = ((row[:, None] >> np.arange(depth - 1, -1, -1)) & 1).astype(np.uint8)
            packed.append(np.packbits(bits.reshape(-1)).tobytes())
        return packed
    return rows


def exif_of(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif.tobytes()


def format_cases():
    w, h = 90, 67
    rgb = picture(w, h)
    rgba = picture(w, h, 4)
    gray = rgb[..., 0]
    image = Image.fromarray(rgb)
    cases = {
        "jpeg_420.jpg": encode(image, "JPEG", quality=80),
        "jpeg_444.jpg": encode(image, "JPEG", quality=90, subsampling=0),
        "jpeg_422.jpg": encode(image, "JPEG", quality=85, subsampling=1),
        "jpeg_progressive.jpg": encode(image, "JPEG", quality=80, progressive=True),
        "jpeg_restart.jpg": encode(image, "JPEG", quality=80, restart_marker_rows=1),
        "jpeg_gray.jpg": encode(Image.fromarray(gray), "JPEG", quality=80),
        "jpeg_cmyk.jpg": encode(image.convert("CMYK"), "JPEG", quality=85),
        "jpeg_rgb.jpg": encode(image, "JPEG", quality=85, keep_rgb=True),
        "png_rgb.png": encode(image, "PNG"),
        "png_gray.png": encode(Image.fromarray(gray), "PNG"),
        "png_gray_alpha.png": encode(Image.fromarray(rgba[..., [0, 3]], "LA"), "PNG"),
        "png_rgba.png": encode(Image.fromarray(rgba), "PNG"),
        "png_palette.png": encode(image.quantize(60), "PNG"),
        "png_palette_transparent.png": encode(image.quantize(14), "PNG", transparency=3),
        "png_bilevel.png": encode(Image.fromarray(gray).convert("1"), "PNG"),
        "png_gray_2bit.png": png(w, h, 2, 0, rows_of(gray[..., None] >> 6, 2)),
        "png_gray_4bit.png": png(w, h, 4, 0, rows_of(gray[..., None] >> 4, 4)),
        "png_gray_transparent.png": png(w, h, 8, 0, rows_of(gray[..., None], 8), extra=chunk(b"tRNS", b"\0\x80")),
        "png_rgb_transparent.png": png(w, h, 8, 2, rows_of(rgb, 8), extra=chunk(b"tRNS", b"\0\x80\0\x10\0\x20")),
        # Values below and above 255: Pillow clips, it does not scale.
        "png_gray_16bit.png": png(w, h, 16, 0, rows_of(gray[..., None].astype(np.uint32) * 3 // 2, 16)),
        "png_rgb_16bit.png": png(w, h, 16, 2, rows_of(rgb.astype(np.uint32) * 257 - (rgb > 7) * 100, 16)),
        "png_rgba_16bit.png": png(w, h, 16, 6, rows_of(rgba.astype(np.uint32) * 257 - (rgba > 7) * 100, 16)),
        "png_interlaced.png": png(w, h, 8, 2, rows_of(rgb, 8), interlaced=True),
        "png_interlaced_gray_1bit.png": png(w, h, 1, 0, rows_of(gray[..., None] >> 7, 1), interlaced=True),
        "png_interlaced_16bit.png": png(w, h, 16, 2, rows_of(rgb.astype(np.uint32) * 257, 16), interlaced=True),
        "png_1x1.png": encode(Image.fromarray(rgb[5:6, 7:8]), "PNG"),
        "png_1x2000.png": encode(Image.fromarray(picture(1, 2000)), "PNG"),
        "png_2000x1.png": encode(Image.fromarray(picture(2000, 1)), "PNG"),
        "png_3x2.png": encode(Image.fromarray(rgb[:2, 40:43]), "PNG"),
        "png_exact.png": encode(Image.fromarray(picture(80, 80)), "PNG"),  # the crop has the output's size
        "png_exif_6.png": encode(image, "PNG", exif=exif_of(6)),
        "webp_lossy.webp": encode(image, "WEBP", quality=80),
        "webp_lossless.webp": encode(image, "WEBP", lossless=True),
        "webp_alpha.webp": encode(Image.fromarray(rgba), "WEBP", quality=80),
        "webp_alpha_lossless.webp": encode(Image.fromarray(rgba), "WEBP", lossless=True, exact=True),
        "webp_animated.webp": encode(image, "WEBP", save_all=True, duration=100, quality=80,
                                     append_images=[ImageOps.invert(image), ImageOps.mirror(image)]),
        "webp_exif_8.webp": encode(image, "WEBP", quality=80, exif=exif_of(8)),
        "jpeg_xmp_3.jpg": encode(image, "JPEG", quality=80,
                                 xmp=b'<x:xmpmeta><rdf:Description tiff:Orientation="3"/></x:xmpmeta>'),
        "jpeg_trailing_data.jpg": encode(image, "JPEG", quality=80) + b"a video may follow" * 20,
        "jpeg_exif_broken.jpg": encode(image, "JPEG", quality=80, exif=b"Exif\0\0MM\0*\xff\xff\xff\xf0"),
    }
    # The YCCK form of CMYK: Pillow writes plain CMYK only; the Adobe marker's transform flag says how to read it.
    cmyk = cases["jpeg_cmyk.jpg"]
    at = cmyk.index(b"Adobe")
    cases["jpeg_ycck.jpg"] = cmyk[:at + 11] + b"\2" + cmyk[at + 12:]
    # An animation whose first frame covers a part of the canvas.
    cases["webp_offset_frame.webp"] = webp_offset_frame(image.crop((0, 0, 60, 40)), w, h, 10, 8)
    for orientation in range(1, 9):
        cases[f"jpeg_exif_{orientation}.jpg"] = encode(image, "JPEG", quality=75, exif=exif_of(orientation))
    return cases


def webp_offset_frame(image, width, height, left, top):
    still = encode(image, "WEBP", lossless=True)
    u24 = lambda value: struct.pack("<I", value)[:3]
    riff = lambda kind, body: kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) & 1)
    frame = (u24(left // 2) + u24(top // 2) + u24(image.width - 1) + u24(image.height - 1) + u24(100) + b"\0"
             + still[12:])
    body = (b"WEBP" + riff(b"VP8X", b"\x02\0\0\0" + u24(width - 1) + u24(height - 1))
            + riff(b"ANIM", b"\xff\xff\xff\xff\0\0") + riff(b"ANMF", frame) + riff(b"ANMF", frame))
    return b"RIFF" + struct.pack("<I", len(body)) + body


def photo(name):
    import skimage
    path = os.path.join(os.path.dirname(skimage.__file__), "data", name)
    image = Image.open(path).convert("RGB")
    image.thumbnail((320, 320), Image.LANCZOS)
    return encode(image, "JPEG", quality=82)


def benchmark_photo():
    """What benchmarks/micro/image_benchmark.cc decodes: the coffee photo at the usual 640 x 480."""
    import skimage
    path = os.path.join(os.path.dirname(skimage.__file__), "data", "coffee.png")
    image = ImageOps.fit(Image.open(path).convert("RGB"), (640, 480), Image.LANCZOS)
    return encode(image, "JPEG", quality=85)


def write(name, data):
    with open(os.path.join(HERE, name), "wb") as out:
        out.write(data)


def write_ppm(name, pixels):
    write(name, b"P6\n%d %d\n255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes())


def label_vectors():
    """A stand-in for the label matrix [1000, 384] that a test can make too: exact in float32."""
    i = np.arange(1000 * 384, dtype=np.int64)
    return (((i * 7919) % 10007) / 8192.0 - 0.5).astype(np.float32).reshape(1000, 384)


def conse(logits, top=10):
    """Norouzi et al. 2014: probabilities of the top classes, renormalised, weight the labels' vectors."""
    p = np.exp(logits.astype(np.float64) - logits.max())
    p /= p.sum()
    best = np.argsort(-p)[:top]
    return ((p[best] / p[best].sum()) @ label_vectors()[best].astype(np.float64)).astype(np.float32)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--model-code", required=True)
    arguments.add_argument("--weights", required=True)
    options = arguments.parse_args()
    os.makedirs(HERE, exist_ok=True)

    for name, data in format_cases().items():
        write(name, data)
        write_ppm(name.rsplit(".", 1)[0] + ".ppm", preprocess(data, FORMAT_SIZE))

    sys.path.insert(0, options.model_code)
    import torch
    from efficientnet_lite_pytorch import EfficientNet
    from safetensors.torch import load_file
    torch.manual_seed(0)
    model = EfficientNet.from_name("efficientnet-lite0")
    model.load_state_dict(load_file(options.weights))
    model.eval()
    for name, source in {"cat": "chelsea.png", "coffee": "coffee.png", "rocket": "rocket.jpg",
                         "astronaut": "astronaut.png"}.items():
        data = photo(source)
        pixels = preprocess(data, PHOTO_SIZE)
        with torch.no_grad():
            x = (torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float() - 127) / 128
            logits = model(x)[0].numpy()
        write(f"photo_{name}.jpg", data)
        if name in ("cat", "coffee"):
            write_ppm(f"photo_{name}.ppm", pixels)
        write(f"photo_{name}.logits.f32", logits.astype("<f4").tobytes())
        write(f"photo_{name}.conse.f32", conse(logits).astype("<f4").tobytes())
        print(name, pixels.shape, "class", int(logits.argmax()))

    write("benchmark_640x480.jpg", benchmark_photo())

    versions = {"Pillow": PIL.__version__, "torch": torch.__version__, "numpy": np.__version__,
                "efficientnet_lite_pytorch": "0.1.0"}
    versions.update({name: features.version(name) for name in ("libjpeg_turbo", "webp", "zlib")})
    write("versions.json", (json.dumps(versions, indent=1, sort_keys=True) + "\n").encode())


if __name__ == "__main__":
    main()
