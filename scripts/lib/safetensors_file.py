"""Writes tensors as a safetensors file (https://huggingface.co/docs/safetensors): header length (u64), JSON header, data."""

import json
import os
import struct

ALIGNMENT_BYTES = 8


def write(path, tensors):
    """Writes `tensors` (name -> legacy_checkpoint.Tensor) to `path`, which appears whole or not at all."""
    # Widest elements first keeps every tensor aligned; then by name, so that equal content gives an equal file.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_type.bytes, name))
    header = {}
    offset = 0
    for name in names:
        header[name] = {"dtype": tensors[name].element_type.name, "shape": list(tensors[name].shape),
                        "data_offsets": [offset, offset + tensors[name].bytes]}
        offset += tensors[name].bytes
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % ALIGNMENT_BYTES)
    partial = f"{path}.partial"
    with open(partial, "wb") as file:
        file.write(struct.pack("<Q", len(head)))
        file.write(head)
        for name in names:
            file.write(tensors[name].tobytes())
    os.replace(partial, path)
