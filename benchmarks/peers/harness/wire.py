"""The few protobuf fields the harness sends and reads, written by hand: no generated code to agree with. Field numbers are
those of proto/tributary/v1/embedding_service.proto and of KServe's v2 grpc_service.proto (inference.ModelInfer)."""
import json
import struct

TRIBUTARY = {"text": "/tributary.v1.EmbeddingService/EmbedText", "image": "/tributary.v1.EmbeddingService/EmbedImage",
             "pair": "/tributary.v1.EmbeddingService/EmbedPair"}
TRITON_INFER = "/inference.GRPCInferenceService/ModelInfer"
TRITON_READY = "/inference.GRPCInferenceService/ModelReady"


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, content):
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def fields(message):
    """(number, content) of a message's fields; content: bytes, or an int of a varint."""
    at = 0

    def read_varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = read_varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, read_varint()
            continue
        length = read_varint() if kind == 2 else {1: 8, 5: 4}[kind]
        yield key >> 3, message[at:at + length]
        at += length


def first(message, number, otherwise=b""):
    return next((content for found, content in fields(message) if found == number), otherwise)


def tributary_request(text=None, image=None):
    text_input = field(1, text.encode()) if text is not None else None
    image_input = field(1, image) if image is not None else None
    if text_input is not None and image_input is not None:
        return field(1, field(1, text_input) + field(2, image_input))
    return field(1, text_input if text_input is not None else image_input)


def tributary_vectors(answer):
    """The last vector of each result: of a pair, the fused one."""
    vectors = []
    for result in (content for number, content in fields(answer) if number == 1):
        embeddings = first(result, 1)
        if not embeddings:
            raise ValueError(f"an input failed: {first(result, 2)!r}")
        vectors.append(floats(first([content for _, content in fields(embeddings)][-1], 1)))
    return vectors


def floats(data):
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def triton_request(model, text=None, image=None):
    """One row of one BYTES tensor each."""
    inputs = raw = b""
    for name, content in (("TEXT", None if text is None else text.encode()), ("IMAGE", image)):
        if content is not None:
            shape = varint(3 << 3 | 2) + varint(2) + varint(1) + varint(1)  # packed int64 [1, 1]
            inputs += field(5, field(1, name.encode()) + field(2, b"BYTES") + shape)
            raw += field(7, struct.pack("<I", len(content)) + content)
    return field(1, model.encode()) + inputs + field(6, field(1, b"VECTOR")) + raw


def triton_vectors(answer):
    return [floats(first(answer, 6))]


def infinity_request(model, text=None, image=None):
    if text is not None:
        return json.dumps({"model": model, "input": [text]}).encode()
    import base64
    uri = "data:image/jpeg;base64," + base64.b64encode(image).decode()
    return json.dumps({"model": model, "input": [uri], "modality": "image"}).encode()


def infinity_vectors(answer):
    return [item["embedding"] for item in json.loads(answer)["data"]]
