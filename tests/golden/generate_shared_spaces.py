#!/usr/bin/env python3
"""Makes the goldens of the models with a text and an image tower in one space, and of their text towers alone, beside
those of generate_families.py: tests/golden/families/.

Tiny random models written by save_pretrained, with golden.json, hidden.f32 and pooled.f32 of the text tower as
generate_families.py has them (pooled: get_text_features, from ids of many lengths). Folders of two towers also have one
of the small tokenisers of tests/golden/tokenizer/families, a preprocessor_config.json, and shared.json: texts and
pictures of tests/golden/image with the vectors that the reference makes of them from start to end (texts.f32,
images.f32), logit scale (after exp) and bias.

  generate_shared_spaces.py [NAME ...]      (without names: all)

Needs torch, torchvision, transformers, sentence-transformers, numpy, Pillow.
"""
import json
import os
import shutil
import sys

import numpy as np
import torch
import transformers as t

import generate_families as families
import generate_image_processors as processors

HERE = families.HERE
TOKENIZERS = os.path.join(os.path.dirname(HERE), "tokenizer", "families")
MAX_TOKENS = families.MAX_TOKENS
PICTURES = ["photo_cat.jpg", "photo_coffee.jpg", "jpeg_exif_6.jpg"]
TEXTS = ["", "a", "a photo of a cat", "Une tasse de café, s'il vous plaît !", "Фотография кота", "猫の写真",
         "a cat " * 100, "one two three four five six seven eight nine ten " * 20]
TEXT = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
            max_position_embeddings=MAX_TOKENS)
VISION = dict(hidden_size=28, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40, image_size=32,
              patch_size=8)
ALONE = {**TEXT, "vocab_size": families.VOCABULARY}


def clip(text, vision):
    # One key of each tower differs from its default, the others' defaults are in the product too.
    return t.CLIPModel(t.CLIPConfig(text_config=text, vision_config=vision, projection_dim=20))


def siglip(text, vision):
    return t.SiglipModel(t.SiglipConfig(text_config=text, vision_config=vision))


MODELS = {
    "clip": dict(
        make=lambda: clip({**TEXT, "vocab_size": 2732, "eos_token_id": 2731}, VISION), tokenizer="clip",
        tokenizer_config={"tokenizer_class": "CLIPTokenizer", "pad_token": "<|endoftext|>",
                          "model_max_length": MAX_TOKENS},
        processor={"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 32},
                   "crop_size": {"height": 32, "width": 32}}),
    "siglip": dict(
        make=lambda: siglip({**TEXT, "vocab_size": 1502}, {**VISION, "hidden_size": 24}), tokenizer="siglip",
        tokenizer_config={"tokenizer_class": "SiglipTokenizer", "pad_token": {"content": "</s>"},
                          "model_max_length": MAX_TOKENS},
        processor={"image_processor_type": "SiglipImageProcessor", "size": {"height": 32, "width": 32}}),
    # SigLIP 2 of one size: the same model with Gemma's kind of tokeniser, which has no limit of its own.
    "siglip-2": dict(
        make=lambda: siglip({**TEXT, "vocab_size": 1561, "projection_size": 20, "hidden_act": "gelu_pytorch_tanh"},
                            {**VISION, "hidden_size": 20}), tokenizer="siglip2",
        tokenizer_config={"tokenizer_class": "GemmaTokenizer", "pad_token": "<pad>",
                          "model_max_length": 1000000000000000019884624838656},
        processor={"image_processor_type": "SiglipImageProcessor", "size": {"height": 32, "width": 32},
                   "resample": 2}),
    # The first configurations' wrong end token: the largest id counts. A gelu, and no projection.
    "clip_text_model": dict(
        make=lambda: t.CLIPTextModel(t.CLIPTextConfig(**ALONE, eos_token_id=2, bos_token_id=0, hidden_act="gelu"))),
    "clip_text_model-projection": dict(
        make=lambda: t.CLIPTextModelWithProjection(t.CLIPTextConfig(**ALONE, eos_token_id=95, projection_dim=16))),
    "siglip_text_model": dict(make=lambda: t.SiglipTextModel(t.SiglipTextConfig(**ALONE, projection_size=16))),
}


def tensor(output, name="pooler_output"):
    return output if isinstance(output, torch.Tensor) else output[name]


def text_vectors(model, ids):
    if hasattr(model, "get_text_features"):
        return tensor(model.get_text_features(input_ids=ids))
    output = model(input_ids=ids)
    return output["text_embeds"] if "text_embeds" in output else output["pooler_output"]


def token_ids(tower, length, generator):
    """Random ones; for CLIP two ends among them, or none where there is no room."""
    ids = torch.randint(0, tower.config.vocab_size, (1, length), generator=generator)
    if isinstance(tower, t.CLIPTextModel) and length > 2:
        ids[0, [length // 2, length - 1]] = tower.config.eos_token_id
    return ids


def write(folder, name, vectors):
    np.concatenate(vectors).astype("<f4").tofile(os.path.join(folder, name))


def make_shared(folder, model, options):
    shutil.copy(os.path.join(TOKENIZERS, options["tokenizer"] + ".json"), os.path.join(folder, "tokenizer.json"))
    for name, content in (("tokenizer_config.json", options["tokenizer_config"]),
                          ("preprocessor_config.json", options["processor"])):
        with open(os.path.join(folder, name), "w", encoding="ascii") as out:
            json.dump(content, out, indent=1)
            out.write("\n")
    pad = options["tokenizer_config"]["pad_token"]
    tokenizer = t.PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "tokenizer.json"),
                                          pad_token=pad["content"] if isinstance(pad, dict) else pad)
    padding = "max_length" if isinstance(model, t.SiglipModel) else False
    processor = processors.load(folder)
    texts, images = [], []
    for text in TEXTS:
        ids = tokenizer(text, truncation=True, max_length=MAX_TOKENS, padding=padding, return_tensors="pt").input_ids
        texts.append(text_vectors(model, ids).numpy())
    for name in PICTURES:
        pixels = processor(processors.open_picture(name, processor.do_convert_rgb), return_tensors="pt")["pixel_values"]
        images.append(tensor(model.get_image_features(pixel_values=pixels)).numpy())
    write(folder, "texts.f32", texts)
    write(folder, "images.f32", images)
    bias = model.logit_bias.item() if hasattr(model, "logit_bias") else 0
    with open(os.path.join(folder, "shared.json"), "w", encoding="ascii") as out:
        json.dump({"texts": TEXTS, "pictures": PICTURES, "logit_scale": model.logit_scale.exp().item(),
                   "logit_bias": bias}, out, indent=1)
        out.write("\n")


def make(name, options):
    seed = 2000 + sum(name.encode())
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = options["make"]().eval()
    model.set_attn_implementation("eager")
    families.randomise(model, generator)
    if "tokenizer" in options:
        for parameter in model.parameters():
            parameter.data = parameter.data.to(torch.float16)
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    model.float()
    tower = getattr(model, "text_model", model)
    ids, hidden, pooled = [], [], []
    with torch.no_grad():
        for length in families.LENGTHS:
            text = token_ids(tower, length, generator)
            ids.append(text[0].tolist())
            hidden.append(tower(input_ids=text).last_hidden_state[0].numpy())
            pooled.append(text_vectors(model, text).numpy())
        if "tokenizer" in options:
            make_shared(folder, model, options)
    with open(os.path.join(folder, "golden.json"), "w", encoding="ascii") as out:
        json.dump({"hidden_size": hidden[0].shape[1], "dimensions": pooled[0].shape[1], "max_tokens": MAX_TOKENS,
                   "ids": ids}, out, separators=(",", ":"))
    write(folder, "hidden.f32", hidden)
    write(folder, "pooled.f32", pooled)
    size = sum(os.path.getsize(os.path.join(folder, file)) for file in os.listdir(folder))
    print(f"{name}: {size / 1000:.0f} kB, largest hidden value {max(abs(part).max() for part in hidden):.2f}")
    assert size < 320_000, name


def main():
    torch.set_num_threads(1)
    for name, options in MODELS.items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make(name, options)


if __name__ == "__main__":
    main()
