#!/usr/bin/env python3
"""Makes the goldens of the image encoder families: tests/golden/image_families/.

One folder a family, as the hubs lay them out: a tiny random model written by save_pretrained. Beside it golden.json (the
size of the images, what a byte becomes), pixels.u8 (random images [N, height, width, 3]), hidden.f32 (what the last layer
gives, before any norm of the whole) and pooled.f32 (the vectors, not normalised), little-endian. versions.json says by
what.

The references are transformers' own classes (eager attention), one image at a time.

  generate_image_families.py [--compare DUMPS] [NAME ...]      (without names: all)

--compare writes nothing to the source tree: it makes every folder anew with other random images and weights under DUMPS,
for a live comparison (tests/engine/libtorch/image_families_test.cc reads the folder named by TRIBUTARY_IMAGE_GOLDENS).

Needs torch, transformers, numpy; timm with --compare.
"""
import argparse
import json
import math
import os
import shutil

import numpy as np
import torch
import transformers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "image_families")
IMAGES = 3

IMAGENET = dict(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
CLIP = dict(mean=(0.48145466, 0.4578275, 0.40821073), std=(0.26862954, 0.26130258, 0.27577711))
HALF = dict(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))

VISION = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=24,
              patch_size=8)
DINO = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2, image_size=28, patch_size=7)
TEXT = dict(vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
            max_position_embeddings=8, bos_token_id=0, eos_token_id=1)


def pooler_output(output, model):
    return output.pooler_output.flatten(1)


def families():
    t = transformers
    return {
        # A whole model: the text tower's tensors are there too. The keys that have their default values are left out.
        "clip": dict(
            model=lambda: t.CLIPModel(t.CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=20)),
            base=lambda model: model.vision_model, norm=CLIP,
            pooled=lambda output, model: model.visual_projection(output.pooler_output),
            drop={"vision_config": ("hidden_act", "layer_norm_eps", "num_channels", "projection_dim", "model_type")}),
        "clip_vision_model": dict(
            model=lambda: t.CLIPVisionModel(t.CLIPVisionConfig(**{**VISION, "hidden_act": "gelu"})),
            norm=CLIP, dtype=torch.float16),
        "clip_vision_model-projection": dict(
            model=lambda: t.CLIPVisionModelWithProjection(t.CLIPVisionConfig(**VISION, projection_dim=12)),
            base=lambda model: model.vision_model, norm=CLIP, shard="40KB",
            pooled=lambda output, model: model.visual_projection(output.pooler_output)),
        # Images of 25 x 25, patches of 8: a row and a column of pixels are left out.
        "siglip": dict(
            model=lambda: t.SiglipModel(t.SiglipConfig(text_config=TEXT, vision_config={**VISION, "image_size": 25})),
            base=lambda model: model.vision_model, norm=HALF, dtype=torch.bfloat16, size=(25, 25),
            drop={"vision_config": ("hidden_act", "layer_norm_eps", "num_channels", "vision_use_head")}),
        "siglip_vision_model": dict(
            model=lambda: t.SiglipVisionModel(t.SiglipVisionConfig(**VISION)), norm=HALF),
        "siglip_vision_model-headless": dict(
            model=lambda: t.SiglipVisionModel(t.SiglipVisionConfig(**VISION, vision_use_head=False)), norm=HALF,
            pooled=lambda output, model: output.last_hidden_state.mean(1)),
        "vit": dict(model=lambda: t.ViTModel(t.ViTConfig(**VISION, pooler_output_size=20)), norm=HALF),
        # A classifier, without a pooler; images and patches that are not square; no bias.
        "vit-classifier": dict(
            model=lambda: t.ViTForImageClassification(t.ViTConfig(
                **{**VISION, "image_size": (24, 32), "patch_size": (4, 8)}, qkv_bias=False, num_labels=7)),
            base=lambda model: model.vit, norm=IMAGENET, size=(24, 32),
            pooled=lambda output, model: output.last_hidden_state[:, 0],
            logits=lambda pooled, model: model.classifier(pooled)),
        "dinov2": dict(model=lambda: t.Dinov2Model(t.Dinov2Config(**DINO)), norm=IMAGENET),
        # Smaller images than the positions are for, and pixels that fill no patch.
        "dinov2-smaller": dict(model=lambda: t.Dinov2Model(t.Dinov2Config(**DINO, use_swiglu_ffn=True)), norm=IMAGENET,
                               size=(16, 16)),
        "dinov2-wider": dict(
            model=lambda: t.Dinov2ForImageClassification(t.Dinov2Config(**DINO)), base=lambda model: model.dinov2,
            norm=IMAGENET, size=(21, 42)),
        "dinov2_with_registers": dict(
            model=lambda: t.Dinov2WithRegistersModel(t.Dinov2WithRegistersConfig(**DINO, num_register_tokens=3)),
            norm=IMAGENET),
        "dinov2_with_registers-smaller": dict(
            model=lambda: t.Dinov2WithRegistersModel(t.Dinov2WithRegistersConfig(**DINO, use_swiglu_ffn=True)),
            norm=IMAGENET, size=(21, 14)),
        "resnet": dict(
            model=lambda: t.ResNetForImageClassification(t.ResNetConfig(
                embedding_size=8, hidden_sizes=[16, 24, 32], depths=[1, 2, 1], num_labels=7)),
            base=lambda model: model.resnet, norm=IMAGENET, size=(40, 40),
            logits=lambda pooled, model: model.classifier(pooled)),
        "resnet-basic": dict(
            model=lambda: t.ResNetModel(t.ResNetConfig(
                embedding_size=8, hidden_sizes=[8, 16], depths=[2, 1], layer_type="basic")),
            norm=IMAGENET, size=(31, 44), dtype=torch.float16),
        "resnet-v1": dict(
            model=lambda: t.ResNetModel(t.ResNetConfig(
                embedding_size=8, hidden_sizes=[16, 24], depths=[2, 2], downsample_in_first_stage=True,
                downsample_in_bottleneck=True)),
            norm=IMAGENET, size=(33, 33)),
        "convnext": dict(
            model=lambda: t.ConvNextForImageClassification(t.ConvNextConfig(
                hidden_sizes=[8, 12, 16], depths=[1, 2, 1], num_stages=3, layer_scale_init_value=1.0, num_labels=7)),
            base=lambda model: model.convnext, norm=IMAGENET, size=(40, 40),
            logits=lambda pooled, model: model.classifier(pooled)),
        # No layer scale; rows and columns that fill no patch, or no pair of them.
        "convnext-plain": dict(
            model=lambda: t.ConvNextModel(t.ConvNextConfig(
                hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, layer_scale_init_value=0.0, patch_size=3)),
            norm=IMAGENET, size=(41, 52)),
        "convnextv2": dict(
            model=lambda: t.ConvNextV2Model(t.ConvNextV2Config(hidden_sizes=[8, 16], depths=[2, 1], num_stages=2)),
            norm=IMAGENET, size=(32, 32), dtype=torch.bfloat16),
    }


def large_families():
    """With --compare only: they cannot be tiny. At the gain of the others, 60 layers make the reference's own rounding,
    fp32 against fp64, 2e-4."""
    import timm
    return {f"tf_efficientnet_lite{i}": dict(
        timm=f"tf_efficientnet_lite{i}", model=lambda i=i: timm.create_model(f"tf_efficientnet_lite{i}"),
        norm=HALF, size=(side, side), gain=1.0) for i, side in enumerate((224, 240, 260, 280, 300))}


def randomise(model, generator, gain):
    """Weights that make every part matter: the libraries' own start values leave biases, norms, layer scales and tokens
    without effect. gain: what a layer does to the size of numbers, and so to the rounding of the ones before it."""
    def noise(tensor, scale):
        return torch.randn(tensor.shape, generator=generator) * scale
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "token" in name or "position" in name or "probe" in name or "class_embedding" in name:
                tensor.copy_(noise(tensor, 0.5))
            elif tensor.dim() < 2:
                tensor.add_(noise(tensor, 0.15))
            elif "grn" in name:
                tensor.copy_(noise(tensor, 0.3))
            else:
                tensor.copy_(noise(tensor, gain / math.sqrt(tensor[0].numel())))
        for name, tensor in model.named_buffers():
            if "running_mean" in name:
                tensor.copy_(noise(tensor, 0.3))
            elif "running_var" in name:
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)


def drop_defaults(folder, drop):
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as source:
        config = json.load(source)
    for section, keys in drop.items():
        for key in keys:
            config[section].pop(key)
    with open(path, "w", encoding="ascii") as out:
        json.dump(config, out, indent=1)


def save_timm(folder, model, family):
    from safetensors.torch import save_file
    os.makedirs(folder)
    save_file(model.state_dict(), os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as out:
        json.dump({"architecture": family["timm"], "num_classes": 1000, "num_features": 1280,
                   "pretrained_cfg": {"input_size": [3, *family["size"]]}}, out, indent=1)


def run(model, family, value):
    """(hidden states, vector, logits or None) of one image."""
    if "timm" in family:
        hidden = model.forward_features(value)
        return hidden, model.forward_head(hidden, pre_logits=True), model(value)
    output = family.get("base", lambda model: model)(model)(value, output_hidden_states=True)
    vector = family.get("pooled", pooler_output)(output, model)
    return output.hidden_states[-1], vector, family["logits"](vector, model) if "logits" in family else None


def make(root, name, family, seed):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = family["model"]().eval()
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("eager")
    randomise(model, generator, family.get("gain", 1.2))
    if "dtype" in family:
        for parameter in model.parameters():
            parameter.data = parameter.data.to(family["dtype"])
    folder = os.path.join(root, name)
    shutil.rmtree(folder, ignore_errors=True)
    if "timm" in family:
        save_timm(folder, model, family)
    else:
        model.save_pretrained(folder, **({"max_shard_size": family["shard"]} if "shard" in family else {}))
    if "drop" in family:
        drop_defaults(folder, family["drop"])
    model = model.float()
    config = family.get("base", lambda model: model)(model).config if "timm" not in family else None
    side = getattr(config, "image_size", None)
    height, width = family["size"] if "size" in family else (side, side)

    pixels = torch.randint(0, 256, (IMAGES, height, width, 3), generator=generator, dtype=torch.uint8)
    pixels[0, :3] = 255  # some of the extremes
    pixels[1, :, :5] = 0
    # As the processors compute it: a byte over 255, then mean and deviation.
    mean, std = (torch.tensor(family["norm"][key], dtype=torch.float64) for key in ("mean", "std"))
    values = ((pixels.double() / 255 - mean) / std).float().permute(0, 3, 1, 2)
    hidden, pooled, logits = [], [], []
    with torch.no_grad():
        for value in values:
            states, vector, scores = run(model, family, value[None])
            hidden.append(states[0].contiguous().numpy())
            pooled.append(vector[0].numpy())
            if scores is not None:
                logits.append(scores[0].numpy())
    golden = {"height": height, "width": width, "images": IMAGES, "dimensions": len(pooled[0]),
              "scale": (1 / (255 * std)).tolist(), "shift": (-mean / std).tolist()}
    with open(os.path.join(folder, "golden.json"), "w", encoding="ascii") as out:
        json.dump(golden, out, separators=(",", ":"))
    pixels.numpy().tofile(os.path.join(folder, "pixels.u8"))
    np.stack(hidden).astype("<f4").tofile(os.path.join(folder, "hidden.f32"))
    np.stack(pooled).astype("<f4").tofile(os.path.join(folder, "pooled.f32"))
    if logits:
        np.stack(logits).astype("<f4").tofile(os.path.join(folder, "logits.f32"))
    size = sum(os.path.getsize(os.path.join(place, file)) for place, _, files in os.walk(folder) for file in files)
    cosine = torch.nn.functional.cosine_similarity(*torch.tensor(np.stack(pooled[:2])), dim=0)
    print(f"{name}: {size / 1000:.0f} kB, largest hidden value {max(abs(part).max() for part in hidden):.2f}, "
          f"cosine of two images {cosine:.3f}")
    assert size < 300_000 or "timm" in family, name


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--compare", metavar="DUMPS")
    arguments.add_argument("--seed", type=int, default=1000)
    arguments.add_argument("names", nargs="*")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    root = options.compare or HERE
    os.makedirs(root, exist_ok=True)
    everything = families() | (large_families() if options.compare else {})
    for name, family in everything.items():
        if not options.names or name in options.names:
            make(root, name, family, options.seed + sum(name.encode()))
    with open(os.path.join(root, "versions.json"), "w", encoding="ascii") as out:
        json.dump({"transformers": transformers.__version__, "torch": torch.__version__, "numpy": np.__version__}, out)
        out.write("\n")


if __name__ == "__main__":
    main()
