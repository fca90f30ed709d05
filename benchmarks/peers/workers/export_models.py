"""Makes what the peers run from the folders Tributary runs: ONNX graphs, their int8 forms, a CTranslate2 model, and a CLIP
folder with seeded weights. Everything is local; run again, it makes only what is missing. What fails is written down in
made.json with its reason, and its contenders are reported as not measured.

  export_models.py DEPS OUT
"""
import json
import os
import shutil
import sys
import traceback

import numpy as np
import torch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
OPSET = 17
TIMM_LITE0 = "tf_efficientnet_lite0"
SEED = 1


def divided_attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **unused):
    """Plain attention with a division where transformers multiplies: the form that ONNX Runtime's optimiser fuses."""
    scores = query @ key.transpose(2, 3) / (query.shape[-1] ** 0.5) + attention_mask
    return (torch.softmax(scores, dim=-1) @ value).transpose(1, 2).contiguous(), None


class TextModel(torch.nn.Module):
    """Ids to the normalised mean, as sentence-transformers has it: pooling is in the graph, so no contender pays for numpy."""

    def __init__(self, folder):
        super().__init__()
        from transformers import AttentionInterface, AutoModel
        AttentionInterface.register("divided", divided_attention)
        self.model = AutoModel.from_pretrained(folder, attn_implementation="divided", dtype=torch.float32)

    def hidden(self, input_ids, attention_mask, token_type_ids):
        # An additive mask of four dimensions is taken as it is: the traced graph keeps the plain attention that optimisers know.
        mask = (1.0 - attention_mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        hidden = self.model.embeddings(input_ids=input_ids, token_type_ids=token_type_ids)
        for layer in self.model.encoder.layer:
            hidden = layer(hidden, mask)
            hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        return hidden

    def forward(self, input_ids, attention_mask, token_type_ids):
        hidden = self.hidden(input_ids, attention_mask, token_type_ids)
        weights = attention_mask.unsqueeze(-1).float()
        pooled = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(pooled, dim=1)


class HiddenStates(TextModel):
    """Without the pooling, for servers that do it themselves."""

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.hidden(input_ids, attention_mask, token_type_ids)


class ImageModel(torch.nn.Module):
    """Pixels uint8 [B, 224, 224, 3] to what the network says: the arithmetic before it is in the graph."""

    def __init__(self, network, mean, deviation):
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("scale", 1 / torch.tensor(deviation).view(1, -1, 1, 1))

    def forward(self, pixels):
        return self.network((pixels.permute(0, 3, 1, 2).float() - self.mean) * self.scale)


class ClipImage(torch.nn.Module):
    def __init__(self, folder):
        super().__init__()
        from transformers import CLIPVisionModelWithProjection
        self.model = CLIPVisionModelWithProjection.from_pretrained(folder, attn_implementation="eager")

    def forward(self, pixel_values):
        return torch.nn.functional.normalize(self.model(pixel_values=pixel_values)[0], dim=1)


def efficientnet(deps):
    """timm's EfficientNet-Lite0 with the weights the server has: the same tensors under other names, in the same order."""
    import timm
    from safetensors.torch import load_file
    network = timm.create_model(TIMM_LITE0, pretrained=False).eval()
    stored = load_file(os.path.join(deps, "models/efficientnet-lite0/model.safetensors"))
    state = {}

    def take(name, source):
        for kind in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            if f"{source}.{kind}" in stored:
                state[f"{name}.{kind}"] = stored.pop(f"{source}.{kind}")

    take("conv_stem", "_conv_stem")
    take("bn1", "_bn0")
    index = 0
    for s, stage in enumerate(network.blocks):
        for b, block in enumerate(stage):
            name, source = f"blocks.{s}.{b}", f"_blocks.{index}"
            expands = hasattr(block, "conv_pwl")
            if expands:
                take(f"{name}.conv_pw", f"{source}._expand_conv")
                take(f"{name}.bn1", f"{source}._bn0")
            take(f"{name}.conv_dw", f"{source}._depthwise_conv")
            take(f"{name}.bn2" if expands else f"{name}.bn1", f"{source}._bn1")
            take(f"{name}.conv_pwl" if expands else f"{name}.conv_pw", f"{source}._project_conv")
            take(f"{name}.bn3" if expands else f"{name}.bn2", f"{source}._bn2")
            index += 1
    take("conv_head", "_conv_head")
    take("bn2", "_bn1")
    take("classifier", "_fc")
    if stored:
        raise ValueError(f"tensors left over: {sorted(stored)}")
    network.load_state_dict(state)
    return ImageModel(network, [127.0] * 3, [128.0] * 3).eval()


def clip_image(clip_folder):
    mean, deviation = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
    return ImageModel(ClipImage(clip_folder), [m * 255 for m in mean], [d * 255 for d in deviation]).eval()


def make_clip_folder(out):
    """A hub folder of CLIP with ViT-B/32's vision tower and seeded weights. Its text tower is small: it is not measured."""
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel
    vocabulary = os.path.join(ROOT, "tests/golden/tokenizer/families/clip.json")
    with open(vocabulary, encoding="utf-8") as file:
        size = len(json.load(file)["model"]["vocab"])
    torch.manual_seed(SEED)
    config = CLIPConfig(text_config={"vocab_size": size, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                                     "num_attention_heads": 2, "max_position_embeddings": 77, "eos_token_id": size - 1,
                                     "bos_token_id": size - 2, "pad_token_id": size - 1},
                        vision_config={}, projection_dim=512)
    CLIPModel(config).eval().save_pretrained(out)
    CLIPImageProcessor().save_pretrained(out)
    shutil.copy(vocabulary, os.path.join(out, "tokenizer.json"))
    with open(os.path.join(out, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 77, "bos_token": "<|startoftext|>",
                   "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}, file)


def labels(deps):
    """ConSE's label vectors: the class names through the reference text encoder."""
    from sentence_transformers import SentenceTransformer
    with open(os.path.join(ROOT, "config/imagenet-1k-labels.txt"), encoding="utf-8") as file:
        names = [line.strip() for line in file if line.strip()]
    model = SentenceTransformer(os.path.join(deps, "models/all-minilm-l6-v2"), device="cpu")
    model.max_seq_length = 256
    return model.encode([f"a photo of a {name}" for name in names], normalize_embeddings=True)


def export(module, arguments, names, axes, output, path):
    with torch.inference_mode():
        torch.onnx.export(module, arguments, path, input_names=names, output_names=[output], opset_version=OPSET, dynamo=False,
                          dynamic_axes={name: axes for name in names} | {output: {0: "batch"}})


def export_text(deps, path, kind=TextModel, output="vector"):
    module = kind(os.path.join(deps, "models/all-minilm-l6-v2")).eval()
    ids = torch.randint(1000, 2000, (2, 11))
    export(module, (ids, torch.ones_like(ids), torch.zeros_like(ids)), ["input_ids", "attention_mask", "token_type_ids"],
           {0: "batch", 1: "length"}, output, path)


def export_image(module, output, path):
    pixels = torch.randint(0, 255, (2, 224, 224, 3), dtype=torch.uint8)
    export(module, (pixels,), ["pixels"], {0: "batch"}, output, path)


def fuse_text(source, path):
    """Fused attention, LayerNorm and GELU, where the optimiser recognises them."""
    from onnxruntime.transformers import optimizer
    fused = optimizer.optimize_model(source, model_type="bert", num_heads=12, hidden_size=384, opt_level=1)
    fused.save_model_to_file(path)
    return fused.get_fused_operator_statistics()


def quantise_text(source, path):
    """Dynamic int8 of the fused graph. Without VNNI the 8-bit dot product saturates at 16 bits: weights then have 7 bits."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    quantize_dynamic(source, path, weight_type=QuantType.QInt8, per_channel=True, reduce_range=not has_vnni(),
                     op_types_to_quantize=["MatMul", "Attention"])


def quantise_image(source, path, pixels):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = [{"pixels": p[None]} for p in pixels]

        def get_next(self):
            return self.left.pop() if self.left else None

    quant_pre_process(source, path + ".pre", skip_symbolic_shape=True)
    quantize_static(path + ".pre", path, Reader(), quant_format=QuantFormat.QDQ, per_channel=True, reduce_range=not has_vnni())
    os.remove(path + ".pre")


def has_vnni():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next(line for line in file if line.startswith("flags"))
    return any(flag in flags for flag in ("avx512_vnni", "avx_vnni", "amx_int8"))


def openvino_int8(source, path, samples, transformer):
    """Full quantisation by NNCF; where that fails, int8 weights alone."""
    import nncf
    import openvino
    model = openvino.Core().read_model(source)
    kind = nncf.ModelType.TRANSFORMER if transformer else None
    try:
        model = nncf.quantize(model, nncf.Dataset(samples), model_type=kind, subset_size=len(samples))
        how = f"nncf {nncf.__version__}, activations and weights"
    except Exception:  # what NNCF cannot quantise it says in many ways
        traceback.print_exc()
        model = nncf.compress_weights(openvino.Core().read_model(source))
        how = f"nncf {nncf.__version__}, weights only"
    openvino.save_model(model, path, compress_to_fp16=False)
    return how


def ctranslate2_model(deps, path, compute):
    from ctranslate2.converters import TransformersConverter
    TransformersConverter(os.path.join(deps, "models/all-minilm-l6-v2")).convert(path, quantization=compute, force=True)


def text_samples(deps):
    """Calibration texts: the bench client's corpus from its end, which the workloads seldom draw."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(os.path.join(deps, "models/all-minilm-l6-v2/tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    with open(os.path.join(ROOT, "benchmarks/client/corpus.txt"), encoding="utf-8") as file:
        words = file.read().split()[-6000:]
    samples = []
    for index in range(64):
        ids = tokenizer.encode(" ".join(words[index * 90:index * 90 + 5 + 7 * (index % 12)])).ids
        samples.append({"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), np.int64),
                        "token_type_ids": np.zeros((1, len(ids)), np.int64)})
    return samples


def image_samples(deps):
    from PIL import Image
    samples = []
    for name in sorted(os.listdir(os.path.join(deps, "photos"))):
        if name.endswith((".png", ".jpg")):
            photo = Image.open(os.path.join(deps, "photos", name)).convert("RGB")
            for share in (0.5, 0.7, 0.9):
                side = int(min(photo.size) * share)
                samples.append(np.asarray(photo.crop((0, 0, side, side)).resize((224, 224), Image.BICUBIC)))
    return samples


class Maker:
    def __init__(self, out):
        self.out, self.notes = out, {}
        os.makedirs(out, exist_ok=True)
        self.path = os.path.join(out, "made.json")
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                self.notes = json.load(file)

    def make(self, name, build):
        """build(path) -> note; `name` below the folder is there afterwards, or the note says why not."""
        path = os.path.join(self.out, name)
        if self.notes.get(name, {}).get("ok") and os.path.exists(path):
            return
        print(f"making {name}", flush=True)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            note = build(path)
            self.notes[name] = {"ok": True, "note": note}
        except Exception as error:  # any library's any error: noted, reported, the others go on
            traceback.print_exc()
            self.notes[name] = {"ok": False, "error": f"{type(error).__name__}: {error}"[:2000]}
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(self.notes, file, indent=1)


def main(deps, out):
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0))))
    maker = Maker(out)

    def at(name):
        return os.path.join(out, name)

    maker.make("minilm/model.onnx", lambda path: export_text(deps, path))
    maker.make("minilm/hidden.onnx", lambda path: export_text(deps, path, HiddenStates, "last_hidden_state"))
    maker.make("minilm/fused.onnx", lambda path: fuse_text(at("minilm/model.onnx"), path))
    maker.make("minilm/int8.onnx", lambda path: quantise_text(at("minilm/fused.onnx"), path))
    maker.make("minilm/int8.xml", lambda path: openvino_int8(at("minilm/model.onnx"), path, text_samples(deps), True))
    for compute in ("float32", "int8"):
        maker.make(f"minilm/ctranslate2-{compute}", lambda path, c=compute: ctranslate2_model(deps, path, c))
    maker.make("efficientnet/labels.npy", lambda path: np.save(path, labels(deps)))
    maker.make("efficientnet/model.onnx", lambda path: export_image(efficientnet(deps), "logits", path))
    maker.make("efficientnet/int8.onnx", lambda path: quantise_image(at("efficientnet/model.onnx"), path, image_samples(deps)))
    images = [{"pixels": sample[None]} for sample in image_samples(deps)]
    maker.make("efficientnet/int8.xml", lambda path: openvino_int8(at("efficientnet/model.onnx"), path, images, False))
    maker.make("clip-vit-b-32", make_clip_folder)
    maker.make("vit/model.onnx", lambda path: export_image(clip_image(at("clip-vit-b-32")), "vector", path))
    maker.make("vit/int8.onnx", lambda path: quantise_image(at("vit/model.onnx"), path, image_samples(deps)))
    maker.make("vit/int8.xml", lambda path: openvino_int8(at("vit/model.onnx"), path, images, True))


if __name__ == "__main__":
    main(*sys.argv[1:3])
