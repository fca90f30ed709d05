#!/usr/bin/env python3
"""Makes the goldens of the learned fusion modules: tests/golden/fusion/.

One folder a module, as models[].fusion.folder takes it (config.json, model.safetensors, random weights), and beside it
parts.f32 [B, 2, D] (0 text, 1 image; zeros where one is not there), mask.f32 [B, 2] and fused.f32 [B, D], little-endian
float32. Of the pairs a third has both parts, a third the text only, a third the image only. versions.json says by what.

The references are the modules below, of stock torch.nn layers, in fp32.

Needs torch, safetensors, numpy.
"""
import json
import os
import sys

import numpy as np
import safetensors
import torch
from safetensors.torch import save_file
from torch import nn

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fusion")
DIMENSION = 24
PAIRS = 12


class ConcatProjection(nn.Module):
    def __init__(self, dimension, hidden_size, layer_norm=False, layer_norm_eps=1e-5):
        super().__init__()
        self.absent = nn.Parameter(torch.randn(2, dimension))
        if hidden_size is None:
            self.projection = nn.Linear(2 * dimension, dimension)
        else:
            self.up = nn.Linear(2 * dimension, hidden_size)
            self.down = nn.Linear(hidden_size, dimension)
        if layer_norm:
            self.norm = nn.LayerNorm(dimension, eps=layer_norm_eps)

    def forward(self, parts, mask):
        x = torch.where(mask[:, :, None] > 0, parts, self.absent).flatten(1)
        x = self.down(nn.functional.gelu(self.up(x))) if hasattr(self, "up") else self.projection(x)
        return self.norm(x) if hasattr(self, "norm") else x


class Gated(nn.Module):
    def __init__(self, dimension):
        super().__init__()
        self.gate = nn.Linear(2 * dimension, dimension)

    def forward(self, parts, mask):
        text, image = parts.unbind(1)
        gate = torch.sigmoid(self.gate(torch.cat([text, image], 1)))
        both = gate * text + (1 - gate) * image
        return torch.where(mask[:, 1:] == 0, text, torch.where(mask[:, :1] == 0, image, both))


class CrossAttention(nn.Module):
    def __init__(self, dimension, num_hidden_layers, num_attention_heads, mlp_ratio=4, layer_norm_eps=1e-5):
        super().__init__()
        self.class_token = nn.Parameter(torch.randn(1, dimension))
        self.part_embedding = nn.Parameter(torch.randn(2, dimension))
        layer = nn.TransformerEncoderLayer(dimension, num_attention_heads, int(dimension * mlp_ratio), dropout=0,
                                           activation="gelu", layer_norm_eps=layer_norm_eps, batch_first=True,
                                           norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_hidden_layers, nn.LayerNorm(dimension, eps=layer_norm_eps),
                                             enable_nested_tensor=False)
        self.projection = nn.Linear(dimension, dimension)

    def forward(self, parts, mask):
        tokens = torch.cat([self.class_token.expand(len(parts), 1, -1), parts + self.part_embedding], 1)
        absent = torch.cat([torch.zeros(len(mask), 1, dtype=torch.bool), mask == 0], 1)
        return self.projection(self.encoder(tokens, src_key_padding_mask=absent)[:, 0])


MODULES = {
    "concat_projection": (ConcatProjection, dict(hidden_size=40, layer_norm=True, layer_norm_eps=1e-6)),
    "concat_projection-one_layer": (ConcatProjection, dict(hidden_size=None)),
    "gated": (Gated, {}),
    "cross_attention": (CrossAttention, dict(num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2.5)),
}


def pairs(generator):
    parts = nn.functional.normalize(torch.randn(PAIRS, 2, DIMENSION, generator=generator), dim=2)
    mask = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]).repeat(PAIRS // 3, 1)
    return parts * mask[:, :, None], mask


def make(name, seed):
    kind, options = MODULES[name]
    torch.manual_seed(seed)
    module = kind(DIMENSION, **options).eval()
    with torch.no_grad():
        # Away from ones and zeros, so that a gain, bias or token that is forgotten shows.
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        parts, mask = pairs(torch.Generator().manual_seed(seed))
        fused = module(parts, mask)
    folder = os.path.join(HERE, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as out:
        json.dump({"fusion": name.split("-")[0], "dimension": DIMENSION, **options}, out, indent=1)
        out.write("\n")
    save_file({key: value.contiguous() for key, value in module.state_dict().items()},
              os.path.join(folder, "model.safetensors"))
    for file, tensor in (("parts.f32", parts), ("mask.f32", mask), ("fused.f32", fused)):
        tensor.numpy().astype("<f4").tofile(os.path.join(folder, file))


def main():
    torch.set_num_threads(1)
    for seed, name in enumerate(MODULES, 1):
        make(name, seed)
    with open(os.path.join(HERE, "versions.json"), "w", encoding="ascii") as out:
        json.dump({"python": sys.version.split()[0], "torch": torch.__version__, "safetensors": safetensors.__version__,
                   "numpy": np.__version__}, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
