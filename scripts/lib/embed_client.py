"""Embeds texts and image files with a running server and prints a JSON line for each: scripts/embed runs it."""

import argparse
import json
import sys
from pathlib import Path

import grpc
from tributary.v1 import embedding_service_pb2 as pb

from vectors import numbers

ENCODINGS = {"float32": pb.ENCODING_FLOAT32, "float16": pb.ENCODING_FLOAT16, "int8": pb.ENCODING_INT8,
             "binary": pb.ENCODING_BINARY}


def call(channel, method, request):
    method = channel.unary_unary(f"/tributary.v1.EmbeddingService/{method}",
                                 request_serializer=type(request).SerializeToString,
                                 response_deserializer=pb.EmbedResponse.FromString)
    return method(request, timeout=60).results


def show(name, result, part):
    if result.HasField("error"):
        print(json.dumps({"input": name, "error": result.error.message}))
        return False
    vector = numbers(getattr(result.embeddings, part))
    print(json.dumps({"input": name, "micros": result.times.total_micros,
                      "embedding": [round(value, 6) for value in vector]}))
    return True


def main():
    parser = argparse.ArgumentParser(prog="embed", description="Embeds texts and image files.")
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--image", action="append", default=[], metavar="FILE")
    parser.add_argument("--address", default="127.0.0.1:50051", help="of the server (default: %(default)s)")
    parser.add_argument("--model", default="", help="default: the server's default model")
    parser.add_argument("--encoding", choices=ENCODINGS, default="float32", help="of the answer (default: %(default)s)")
    parser.add_argument("--dimensions", type=int, default=0, metavar="N", help="only the first N numbers")
    parser.add_argument("--prompt", metavar="NAME", help="put before texts; '': none (default: the model's)")
    arguments = parser.parse_args()
    if not arguments.texts and not arguments.image:
        parser.error("nothing to embed: give a text or --image FILE")
    options = pb.EmbedOptions(model=arguments.model, encoding=ENCODINGS[arguments.encoding],
                              dimensions=arguments.dimensions, prompt_name=arguments.prompt)
    good = True
    try:
        with grpc.insecure_channel(arguments.address) as channel:
            if arguments.texts:
                request = pb.EmbedTextRequest(texts=[pb.TextInput(text=text) for text in arguments.texts],
                                              options=options)
                for text, result in zip(arguments.texts, call(channel, "EmbedText", request), strict=True):
                    good &= show(text, result, "text")
            if arguments.image:
                files = [Path(name).read_bytes() for name in arguments.image]
                request = pb.EmbedImageRequest(images=[pb.ImageInput(encoded=file) for file in files], options=options)
                for name, result in zip(arguments.image, call(channel, "EmbedImage", request), strict=True):
                    good &= show(name, result, "image")
    except grpc.RpcError as error:
        sys.exit(f"embed: {error.code().name}: {error.details()}")
    except OSError as error:
        sys.exit(f"embed: {error}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
