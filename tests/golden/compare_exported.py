#!/usr/bin/env python3
"""Exports a transformers and a timm model by scripts/export, in both formats, and compares the engine's vectors with
those of the Python originals.

  compare_exported.py DUMP ROOT      (DUMP: the program tributary-exported-dump; ROOT: of the sources)

Runs under the Python that TRIBUTARY_EXPORT_PYTHON names (torch, transformers, timm); without it the test is skipped.
Needs a C++ compiler, which AOTInductor compiles with. Exits 1 where anything differs.
"""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

LEAST_COSINE = 0.99999
LARGEST_DIFFERENCE = 1e-4
TIMM_MODEL, SEED = "resnet18.tv_in1k", 7
VOCABULARY, MAX_TOKENS = 96, 96
LENGTHS = (1, 2, 3, 7, 8, 9, 17, 33, 40, 64, 95, 96)


def export(root, out, kind, model, form, *more):
    command = [str(root / "scripts/export"), "--kind", kind, "--model", str(model), "--format", form, "--out", str(out),
               *more]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: code {result.returncode}\n{result.stdout}")
    print(result.stdout.strip().splitlines()[-1].replace(str(out.parent) + "/", ""), flush=True)


def engine_vectors(dump, kind, folder, inputs):
    result = subprocess.run([dump, kind, str(folder)], input=b"".join(inputs), stdout=subprocess.PIPE, check=True)
    vectors, at = [], 0
    while at < len(result.stdout):
        (count,) = struct.unpack_from("<I", result.stdout, at)
        vectors.append(struct.unpack_from(f"<{count}f", result.stdout, at + 4))
        at += 4 + 4 * count
    return vectors


def compare(name, found, expected):
    import torch
    found, expected = torch.tensor(found).double(), torch.stack(expected).double()
    if found.shape != expected.shape:
        sys.exit(f"{name}: {list(found.shape)} numbers, expected {list(expected.shape)}")
    cosine = torch.nn.functional.cosine_similarity(found, expected).min().item()
    difference = (found - expected).abs().max().item()
    print(f"{name}: {len(found)} vectors, least cosine {cosine:.8f}, largest difference {difference:.1e}, "
          f"largest number {expected.abs().max().item():.2f}", flush=True)
    if not cosine >= LEAST_COSINE or not difference <= LARGEST_DIFFERENCE:
        sys.exit(f"{name}: differs")


def text_model(folder):
    """A tiny BERT as the hubs have it, with random weights; returns (model, texts)."""
    import torch
    import transformers
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import generate_families
    torch.manual_seed(SEED)
    model = transformers.BertModel(transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=MAX_TOKENS)).eval()
    model.set_attn_implementation("eager")
    generator = torch.Generator().manual_seed(SEED)
    generate_families.randomise(model, generator)
    model.save_pretrained(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(VOCABULARY - 5)]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="ascii")
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 96}', encoding="ascii")
    return model, [torch.randint(1, VOCABULARY, (length,), generator=generator) for length in LENGTHS]


def check_text(dump, root, work):
    import torch
    folder = work / "bert"
    folder.mkdir()
    model, texts = text_model(folder)
    with torch.no_grad():
        expected = [model(input_ids=ids[None]).last_hidden_state[0].mean(0) for ids in texts]
    inputs = [struct.pack(f"<I{len(ids)}i", len(ids), *ids.tolist()) for ids in texts]
    for form in ("torchscript", "aoti"):
        out = work / f"text-{form}"
        export(root, out, "text", folder, form, "--pooling", "mean")
        compare(f"tiny BERT, {form}, engine against transformers", engine_vectors(dump, "text", out, inputs), expected)


def check_image(dump, root, work):
    import timm
    import torch
    # The same weights as scripts/export makes from this seed.
    sys.path.insert(0, str(root / "scripts/lib"))
    from export_formats import randomise
    model = randomise(timm.create_model(TIMM_MODEL, pretrained=False, num_classes=0), SEED).eval()
    data = timm.data.resolve_model_data_config(model)
    side = data["input_size"][1]
    # Pictures that its preprocessing only crops: the short side has the size it resizes to.
    whole = int(side / data["crop_pct"])
    generator = torch.Generator().manual_seed(SEED)
    pictures = [torch.randint(0, 256, (whole, whole, 3), generator=generator, dtype=torch.uint8) for _ in range(5)]
    offset = (whole - side) // 2
    mean, deviation = torch.tensor(data["mean"]), torch.tensor(data["std"])
    with torch.no_grad():
        expected = [model((((picture[offset:offset + side, offset:offset + side].float() / 255 - mean) / deviation)
                           .permute(2, 0, 1)[None]))[0] for picture in pictures]
    inputs = [struct.pack("<I", whole) + picture.numpy().tobytes() for picture in pictures]
    for form in ("torchscript", "aoti"):
        out = work / f"image-{form}"
        export(root, out, "image", TIMM_MODEL, form, "--random-weights", str(SEED), "--max-batch", "32")
        compare(f"{TIMM_MODEL}, {form}, engine against timm", engine_vectors(dump, "image", out, inputs), expected)


def main():
    python = os.environ.get("TRIBUTARY_EXPORT_PYTHON")
    if not python:
        print("skipped: TRIBUTARY_EXPORT_PYTHON names no Python with torch, transformers and timm")
        return
    dump, root = sys.argv[1], pathlib.Path(sys.argv[2])
    if os.environ.get("TRIBUTARY_EXPORT_RUNNING") != "1":
        os.environ["TRIBUTARY_EXPORT_RUNNING"] = "1"
        os.execv(python, [python, "-B", *sys.argv])
    import torch
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        check_text(dump, root, pathlib.Path(work))
        check_image(dump, root, pathlib.Path(work))


if __name__ == "__main__":
    main()
