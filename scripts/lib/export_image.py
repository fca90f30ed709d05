"""Image models for export_model.py: timm's, pooled, without their classifier."""

import json
import math
from pathlib import Path

import timm
import torch
from export_formats import ExportError, randomise

DTYPES = {"fp32": ("float32", torch.float32), "bf16": ("bfloat16", torch.bfloat16), "fp16": ("float16", torch.float16)}
PILLOW_FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
SEED = 17


class ImageSource:
    def __init__(self, options):
        self.options = options
        folder = Path(options.model)
        name = f"local-dir:{folder}" if folder.is_dir() else options.model
        try:
            model = timm.create_model(name, pretrained=options.random_weights is None, num_classes=0)
        except Exception as error:  # timm and the hub raise many kinds
            raise ExportError(f"timm cannot make {name}: {error}. Without a network: a folder, or "
                              "--random-weights SEED") from error
        if options.random_weights is not None:
            randomise(model, options.random_weights)
        self.dtype_name, self.dtype = DTYPES[options.dtype]
        self.module = model.eval().to(options.device, self.dtype)
        self.data = timm.data.resolve_model_data_config(model)
        channels, self.size, width = self.data["input_size"]
        if channels != 3 or width != self.size:
            raise ExportError(f"{name} takes {self.data['input_size']}; the server gives squares of three channels")
        with torch.no_grad():
            self.dimension = self.module(*self.example()).shape[-1]

    def use_eager_attention(self):
        return False

    def pixels(self, images):
        generator = torch.Generator().manual_seed(SEED + images)
        pixels = torch.randn(images, 3, self.size, self.size, generator=generator)
        return (pixels.to(self.options.device, self.dtype),)

    def example(self):
        return self.pixels(min(2, self.options.max_batch))

    def dynamic_shapes(self):
        return ({0: torch.export.Dim("batch", min=1, max=max(self.options.max_batch, 2))},)

    def trials(self):
        for images in sorted({1, 2, 3, min(self.options.max_batch, 8)}):
            if images <= self.options.max_batch:
                yield self.pixels(images), list
        yield (torch.zeros_like(self.pixels(1)[0]),), list

    def manifest(self):
        return {"inputs": [{"role": "pixels", "dtype": self.dtype_name}],
                "output": {"holds": "vectors", "index": 0, "dtype": self.dtype_name, "dimension": self.dimension},
                "batch": {"min": 1, "max": self.options.max_batch},
                "image": {"size": self.size, "layout": "nchw", "normalise": self.options.normalise}}

    def write_files(self, out):
        """preprocessor_config.json: what timm.data.create_transform does, in the words of transformers' processors."""
        filter_name = self.data["interpolation"]
        if filter_name not in PILLOW_FILTERS:
            raise ExportError(f"interpolation '{filter_name}' is none of {', '.join(PILLOW_FILTERS)}")
        resized = math.floor(self.size / self.data["crop_pct"])
        processor = {"do_convert_rgb": True, "do_resize": True, "resample": PILLOW_FILTERS[filter_name],
                     "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
                     "image_mean": list(self.data["mean"]), "image_std": list(self.data["std"])}
        side = {"height": self.size, "width": self.size}
        if self.data["crop_mode"] == "center":
            processor.update(image_processor_type="BitImageProcessor", size={"shortest_edge": resized},
                             do_center_crop=True, crop_size=side)
        elif self.data["crop_mode"] == "squash" and resized == self.size:
            processor.update(image_processor_type="ViTImageProcessor", size=side)
        else:
            raise ExportError(f"crop_mode '{self.data['crop_mode']}' with crop_pct {self.data['crop_pct']} is not "
                              "served")
        (out / "preprocessor_config.json").write_text(json.dumps(processor, indent=1) + "\n", encoding="utf-8")


def load(options):
    try:
        return ImageSource(options)
    except ExportError as error:
        raise SystemExit(f"export: {error}") from error
