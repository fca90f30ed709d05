#!/usr/bin/env python3
"""Makes the goldens of the text encoder families: tests/golden/families/.

One folder a family, as the hubs lay them out: a tiny random model written by save_pretrained, its pooling and, for some,
the modules after it. Beside them golden.json (token ids), hidden.f32 (the reference's last hidden states, all texts
after each other) and pooled.f32 (its vectors before normalising), little-endian float32. versions.json says by what.

The references are transformers' own classes (eager attention) and sentence-transformers' own Pooling and Dense, one text
at a time: no padding. The one exception is explained at gte_ntk.

  generate_families.py [NAME ...]      (without names: all)

Needs torch, transformers, sentence-transformers, numpy.
"""
import json
import math
import os
import shutil
import sys

import numpy as np
import sentence_transformers
import torch
import transformers
from sentence_transformers.base.modules import Dense
from sentence_transformers.sentence_transformer.modules import Pooling

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "families")
VOCABULARY = 96
MAX_TOKENS = 96  # past the sliding windows, the exact buckets of MPNet and one bucket of token totals
LENGTHS = (1, 2, 17, MAX_TOKENS - 1, MAX_TOKENS)

BERT_LIKE = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)


def gte_ntk(folder, model):
    """GTE as the hub has it, model_type "new". Its rope_scaling of type ntk is not in transformers' own class, so that it
    is put there: fixed NTK scaling, https://kexue.fm/archives/9706, formula 6."""
    theta, factor = 20000.0, 8.0
    rotary = model.base_model.rotary_emb
    dim = rotary.inv_freq.numel() * 2
    inv_freq = 1.0 / ((theta * factor) ** (torch.arange(0, dim, 2).float() / dim)) / factor ** (2 / dim)
    rotary.inv_freq.copy_(inv_freq)
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as source:
        config = json.load(source)
    del config["rope_parameters"]
    config.update(model_type="new", architectures=["NewForMaskedLM"], position_embedding_type="rope", rope_theta=theta,
                  rope_scaling={"type": "ntk", "factor": factor}, layer_norm_type="layer_norm", pack_qkv=True,
                  logn_attention_scale=False, logn_attention_clip1=False, unpad_inputs=False)
    with open(path, "w", encoding="ascii") as out:
        json.dump(config, out, indent=1)


def families():
    t = transformers
    offset = dict(max_position_embeddings=MAX_TOKENS + 2, pad_token_id=1)
    every_mode = tuple(Pooling.POOLING_MODES)
    return {
        # With the prefix and the head of the pre-training class; all pooling modes side by side.
        "bert": dict(
            model=lambda: t.BertForMaskedLM(t.BertConfig(**BERT_LIKE, max_position_embeddings=MAX_TOKENS)),
            pooling=every_mode),
        "distilbert": dict(
            model=lambda: t.DistilBertModel(t.DistilBertConfig(
                vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=48,
                max_position_embeddings=MAX_TOKENS)),
            pooling="cls"),
        "roberta": dict(
            model=lambda: t.RobertaForMaskedLM(t.RobertaConfig(**BERT_LIKE, **offset, type_vocab_size=1)),
            dtype=torch.float16, pooling="mean"),
        "xlm-roberta": dict(
            model=lambda: t.XLMRobertaModel(t.XLMRobertaConfig(**BERT_LIKE, **offset, type_vocab_size=1,
                                                               layer_norm_eps=1e-5)),
            pooling="cls"),
        "mpnet": dict(
            model=lambda: t.MPNetModel(t.MPNetConfig(**BERT_LIKE, **offset)),
            shard="40KB", pooling="mean"),
        "nomic_bert": dict(
            model=lambda: t.NomicBertModel(t.NomicBertConfig(**BERT_LIKE, max_position_embeddings=MAX_TOKENS)),
            pooling="mean"),
        "gte": dict(
            model=lambda: t.GteModel(t.GteConfig(**BERT_LIKE, max_position_embeddings=MAX_TOKENS)),
            pooling="cls"),
        "new": dict(
            model=lambda: t.GteForMaskedLM(t.GteConfig(**BERT_LIKE, max_position_embeddings=MAX_TOKENS,
                                                       type_vocab_size=0)),
            edit=gte_ntk, pooling="cls"),
        "modernbert": dict(
            model=lambda: t.ModernBertForMaskedLM(t.ModernBertConfig(
                **{**BERT_LIKE, "num_hidden_layers": 3}, max_position_embeddings=MAX_TOKENS, local_attention=16,
                pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2,
                layer_types=["full_attention", "sliding_attention", "sliding_attention"])),
            pooling="mean"),
        "qwen3": dict(
            model=lambda: t.Qwen3ForCausalLM(t.Qwen3Config(
                **BERT_LIKE, num_key_value_heads=2, head_dim=16, max_position_embeddings=MAX_TOKENS,
                tie_word_embeddings=True)),
            dtype=torch.bfloat16, pooling="lasttoken"),
        # What their configurations allow and the models on the hub do not use: biases everywhere; windows.
        "modernbert-biases": dict(
            model=lambda: t.ModernBertModel(t.ModernBertConfig(
                **BERT_LIKE, max_position_embeddings=MAX_TOKENS, local_attention=16, norm_bias=True, attention_bias=True,
                mlp_bias=True, pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2)),
            pooling="cls"),
        "qwen3-windows": dict(
            model=lambda: t.Qwen3Model(t.Qwen3Config(
                **BERT_LIKE, num_key_value_heads=4, head_dim=8, max_position_embeddings=MAX_TOKENS, attention_bias=True,
                use_sliding_window=True, sliding_window=16, max_window_layers=1)),
            pooling="mean_sqrt_len_tokens"),
        "gemma3_text": dict(
            model=lambda: t.Gemma3TextModel(t.Gemma3TextConfig(
                **{**BERT_LIKE, "hidden_size": 40, "num_hidden_layers": 3}, num_key_value_heads=2, head_dim=16,
                max_position_embeddings=MAX_TOKENS, query_pre_attn_scalar=12, sliding_window=16,
                use_bidirectional_attention=True,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
            pooling="mean",
            dense=[dict(out_features=64, bias=False, activation_function=torch.nn.Identity()),
                   dict(out_features=24, bias=True, activation_function=torch.nn.Tanh())]),
        # The same class, causal: windows look back only.
        "gemma3_text-causal": dict(
            model=lambda: t.Gemma3TextModel(t.Gemma3TextConfig(
                **BERT_LIKE, num_key_value_heads=1, head_dim=8, max_position_embeddings=MAX_TOKENS,
                query_pre_attn_scalar=8, sliding_window=16,
                layer_types=["sliding_attention", "full_attention"])),
            pooling="weightedmean"),
    }


def randomise(model, generator):
    """Weights that make every part matter: the libraries' own start values leave biases and norms without effect."""
    def noise(tensor, scale):
        return torch.randn(tensor.shape, generator=generator) * scale
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if tensor.dim() < 2:
                tensor.add_(noise(tensor, 0.15))
            elif "embed" in name or "bias" in name:
                tensor.copy_(noise(tensor, 0.5))
            else:
                tensor.copy_(noise(tensor, 1.5 / math.sqrt(tensor.shape[1])))


def write_modules(folder, family, hidden_size, generator):
    modules = [Pooling(hidden_size, pooling_mode=family["pooling"])]
    for options in family.get("dense", []):
        modules.append(Dense(modules[-1].get_embedding_dimension(), **options))
        randomise(modules[-1], generator)
    types = ["Transformer"] + [type(module).__name__ for module in modules] + ["Normalize"]
    places = [""] + [f"{i}_{name}" for i, name in enumerate(types) if i > 0]
    with open(os.path.join(folder, "modules.json"), "w", encoding="ascii") as out:
        json.dump([{"idx": i, "name": str(i), "path": place, "type": f"sentence_transformers.models.{name}"}
                   for i, (name, place) in enumerate(zip(types, places))], out, indent=1)
    for module, place in zip(modules, places[1:]):
        os.makedirs(os.path.join(folder, place))
        module.save(os.path.join(folder, place))
    return modules


def make(name, family):
    seed = 1000 + sum(name.encode())
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = family["model"]().eval()
    model.set_attn_implementation("eager")
    randomise(model, generator)
    if "dtype" in family:
        # Not the buffers: the frequencies of rotary positions are fp32 whatever the weights are.
        for parameter in model.parameters():
            parameter.data = parameter.data.to(family["dtype"])
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **({"max_shard_size": family["shard"]} if "shard" in family else {}))
    generation = os.path.join(folder, "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)
    if "edit" in family:
        family["edit"](folder, model)
    base = model.base_model.float()
    hidden_size = base.config.hidden_size
    modules = write_modules(folder, family, hidden_size, generator)

    ids, hidden, pooled = [], [], []
    with torch.no_grad():
        for length in LENGTHS:
            # All ids, those of padding too: written in a text they are tokens like others, but RoBERTa's positions skip them.
            text = torch.randint(0, VOCABULARY, (1, length), generator=generator)
            states = base(input_ids=text, attention_mask=torch.ones_like(text)).last_hidden_state
            features = {"token_embeddings": states, "attention_mask": torch.ones_like(text)}
            for module in modules:
                features = module(features)
            ids.append(text[0].tolist())
            hidden.append(states[0].numpy())
            pooled.append(features["sentence_embedding"][0].numpy())
    with open(os.path.join(folder, "golden.json"), "w", encoding="ascii") as out:
        json.dump({"hidden_size": hidden_size, "dimensions": len(pooled[0]), "max_tokens": MAX_TOKENS, "ids": ids}, out,
                  separators=(",", ":"))
    np.concatenate(hidden).astype("<f4").tofile(os.path.join(folder, "hidden.f32"))
    np.stack(pooled).astype("<f4").tofile(os.path.join(folder, "pooled.f32"))
    size = sum(os.path.getsize(os.path.join(place, file)) for place, _, files in os.walk(folder) for file in files)
    print(f"{name}: {size / 1000:.0f} kB, largest hidden value {max(abs(part).max() for part in hidden):.2f}")
    assert size < 300_000, name


def main():
    torch.set_num_threads(1)
    os.makedirs(HERE, exist_ok=True)
    for name, family in families().items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make(name, family)
    with open(os.path.join(HERE, "versions.json"), "w", encoding="ascii") as out:
        json.dump({"transformers": transformers.__version__, "sentence-transformers": sentence_transformers.__version__,
                   "torch": torch.__version__, "numpy": np.__version__}, out)
        out.write("\n")


if __name__ == "__main__":
    main()
