#!/usr/bin/env python3
"""Keeps the arrows between folders one-way, by reading the #include lines.

Usage: check_includes.py ROOT. Prints every broken arrow and exits 1 if there is one. (Dependency files of the compiler
would not do: a precompiled header hides what a source includes.)
"""

import pathlib
import re
import sys

WORK_ITEM = ["engine/queue/work_item.h", "engine/queue/drop_item.h"]
BATCH = ["engine/schedule/batch.h", "engine/schedule/batch_executor.h"]
BUCKETS = ["engine/schedule/length_buckets.h"]  # pure; encoders pad token totals to the scheduler's buckets
API = ["engine/api/", "engine/base/"]
STAGES = [f"engine/{stage}/" for stage in ("admission", "prepare", "queue", "schedule", "lane", "fuse")]
PROTO = ["tributary/v1/"]  # generated code

# Folder -> what of our own code it may include, beside itself. The longest matching folder or file counts.
ARROWS = {
    "engine/base/": [],
    "engine/api/": ["engine/base/"],
    "engine/files/": [],
    "engine/admission/": API,
    "engine/queue/": API,
    "engine/prepare/": API + WORK_ITEM + ["engine/files/"],
    "engine/schedule/": API + ["engine/queue/"],
    "engine/lane/": API + WORK_ITEM + BATCH,
    "engine/fuse/": API + WORK_ITEM,
    "engine/pipeline/": API + STAGES,
    "engine/libtorch/": API + WORK_ITEM + BATCH + BUCKETS + ["engine/files/", "engine/lane/", "engine/prepare/", "engine/pipeline/"],
    "server/": API + PROTO,
    "server/main.cc": API + PROTO + ["server/"] + [f"engine/libtorch/{door}.h" for door in
                                               ("check_model", "engine_factory", "families_table")],
    "benchmarks/client/": PROTO,
    "benchmarks/micro/": ["engine/", "server/", "tests/support/"] + PROTO,
    "benchmarks/peers/": ["engine/", "server/"],
    "tests/": ["engine/", "server/", "benchmarks/"] + PROTO,
}

RPC_AND_METRICS = re.compile(r"(grpc|grpcpp|google|prometheus|spdlog|civetweb|tributary)/")
TORCH = re.compile(r"(torch|ATen|c10|caffe2|nvrtc)/|cuda|cudnn|cublas")
TORCH_FOLDERS = ("engine/libtorch/", "tests/engine/libtorch/", "benchmarks/micro/")

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
OWN = ("engine/", "server/", "benchmarks/", "tests/", "tributary/")
SOURCES = {".h", ".cc", ".cu", ".cuh", ".cpp", ".hpp"}


def complaint(file, header):
    """Why `file` may not include `header` (both relative to the root); None if it may."""
    if file.startswith("engine/") and RPC_AND_METRICS.match(header):
        return "the engine knows no RPC, protobuf, metrics or logging library"
    if TORCH.match(header) and not file.startswith(TORCH_FOLDERS):
        return "torch and CUDA headers belong to engine/libtorch only"
    if not header.startswith(OWN):
        return None
    folder = max((f for f in ARROWS if file.startswith(f)), key=len, default=None)
    if folder is None:
        return "no arrows are written down for this folder (tests/repository/check_includes.py)"
    if header.startswith((folder, *ARROWS[folder])):
        return None
    return f"{folder} may only use {', '.join(ARROWS[folder]) or 'itself'}"


def broken_arrows(root):
    root = pathlib.Path(root)
    for top in ("engine", "server", "benchmarks", "tests"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SOURCES or not path.is_file():
                continue
            file = path.relative_to(root).as_posix()
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                found = INCLUDE.match(line)
                header = found and (found[1] or found[2])
                why = header and complaint(file, header)
                if why:
                    yield f"{file}:{number}: includes {header}: {why}"


def main():
    broken = list(broken_arrows(sys.argv[1]))
    print("\n".join(broken) or "all arrows are one-way")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
