"""Exports a model for the server's second door (engine/libtorch/exported): scripts/export runs it.

The folder it makes holds the module, its manifest tributary.json, and copies of the model's tokeniser and configuration
files. The module is run against the eager model before anything is said to be done.
"""

import argparse
import importlib
import json
import os
import shutil
import sys
from pathlib import Path

TORCH = "2.11."
PACKAGES = {"text": ("torch", "transformers"), "image": ("torch", "timm")}
HOW_TO_GET_THEM = """Make an environment that has them, and name its Python (about 5 GB, once):
  python3 -m venv ~/export-python
  ~/export-python/bin/pip install torch==2.11.0 transformers sentence-transformers timm
  TRIBUTARY_EXPORT_PYTHON=~/export-python/bin/python scripts/export ..."""


def fail(message):
    sys.exit(f"export: {message}")


def arguments():
    parser = argparse.ArgumentParser(
        prog="export", description="Exports a model into a folder that the server serves.",
        epilog="The module is code: serve only exports that you or someone you trust made.")
    parser.add_argument("--model", required=True,
                        help="text: a folder as the hubs have it; image: a timm name, or a folder of one")
    parser.add_argument("--kind", required=True, choices=("text", "image"))
    parser.add_argument("--format", required=True, choices=("aoti", "torchscript"),
                        help="aoti: compiled, for this processor or GPU and its like; torchscript: runs anywhere")
    parser.add_argument("--out", required=True, type=Path, help="folder to make; must not exist or be empty")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="fp32", choices=("fp32", "bf16", "fp16"))
    parser.add_argument("--max-batch", type=int, default=256, help="inputs of one batch (default: %(default)s)")
    parser.add_argument("--random-weights", type=int, metavar="SEED", help="random weights: to try an architecture out")
    parser.add_argument("--max-length", type=int, help="text: tokens (default: what the model's files say)")
    parser.add_argument("--attention", default="auto", choices=("auto", "sdpa", "eager"),
                        help="text: transformers' attention; auto: sdpa, and eager where that cannot be exported")
    parser.add_argument("--output", default="token_states", choices=("token_states", "vectors"),
                        help="text: pool in the server (from modules.json), or export the pooling too")
    parser.add_argument("--pooling", help="text: mean, cls, lasttoken, ...; for folders without modules.json")
    parser.add_argument("--normalise", action="store_true", help="the vectors are meant to be L2-normalised")
    return parser.parse_args()


def check_packages(kind):
    missing = []
    for name in PACKAGES[kind]:
        try:
            importlib.import_module(name)
        except ImportError as error:
            missing.append(f"{name} ({error})")
    if missing:
        fail(f"{sys.executable} cannot import {', '.join(missing)}.\n{HOW_TO_GET_THEM}")
    import torch
    if not torch.__version__.startswith(TORCH):
        print(f"export: torch {torch.__version__} is not the {TORCH}0 the server is tested with; its modules may not "
              "load.", file=sys.stderr)


def main():
    options = arguments()
    if options.out.exists() and any(options.out.iterdir() if options.out.is_dir() else [options.out]):
        fail(f"{options.out} exists and is not empty.")
    if options.max_batch < 1 or (options.max_length is not None and options.max_length < 2):
        fail("--max-batch must be at least 1, --max-length at least 2.")
    check_packages(options.kind)
    if Path(options.model).is_dir() or options.random_weights is not None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    if options.device == "cuda" and not torch.cuda.is_available():
        fail("--device cuda needs a GPU here: a package is compiled for the one it is made on.")
    # The server runs one thread a lane; compiled loops take the number of threads they are made with.
    torch.set_num_threads(1)
    torch.manual_seed(options.random_weights or 0)

    import export_formats
    source = importlib.import_module(f"export_{options.kind}").load(options)
    partial = options.out.with_name(options.out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        source.write_files(partial)
        file = export_formats.export(source, options, partial)
        parameters = list(source.module.parameters()) + list(source.module.buffers())
        manifest = {
            "format": 1, "kind": options.kind,
            "module": {"file": file, "type": options.format, "device": options.device, "dtype": options.dtype,
                       "parameter_count": sum(part.numel() for part in parameters),
                       "parameter_bytes": sum(part.numel() * part.element_size() for part in parameters)},
            **source.manifest(),
        }
        (partial / "tributary.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        worst = export_formats.verify(source, options, partial / file)
        if options.out.exists():
            options.out.rmdir()
        partial.rename(options.out)
    except export_formats.ExportError as error:
        fail(str(error))
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    print(f"{options.out}: {options.format} for {options.device}, {options.dtype}; against the eager model: "
          f"largest difference {worst.difference:.1e}, least cosine {worst.cosine:.7f} over {worst.runs} batches")


if __name__ == "__main__":
    main()
