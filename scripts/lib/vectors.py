"""Reads the vectors of answers, in any encoding of the contract."""

import struct


def numbers(embedding):
    """The numbers of one vector as floats; of a binary one 1.0 and -1.0."""
    if embedding.float16:
        return list(struct.unpack(f"<{len(embedding.float16) // 2}e", embedding.float16))
    if embedding.int8:
        return [number * embedding.scale for number in struct.unpack(f"{len(embedding.int8)}b", embedding.int8)]
    if embedding.binary:
        bits = (byte >> shift & 1 for byte in embedding.binary for shift in range(7, -1, -1))
        return [1.0 if bit else -1.0 for _, bit in zip(range(embedding.dimensions), bits)]
    return list(embedding.float32)
