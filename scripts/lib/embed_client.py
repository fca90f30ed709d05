"""Embeds texts and image files with a running server and prints a JSON line for each: scripts/embed runs it."""

import argparse
import json
import sys
from pathlib import Path

import grpc
from tributary.v1 import embedding_service_pb2 as pb


def call(channel, method, request):
    method = channel.unary_unary(f"/tributary.v1.EmbeddingService/{method}",
                                 request_serializer=type(request).SerializeToString,
                                 response_deserializer=pb.EmbedResponse.FromString)
    return method(request, timeout=60).results


def show(name, result, part):
    if result.HasField("error"):
        print(json.dumps({"input": name, "error": result.error.message}))
        return False
    vector = getattr(result.embeddings, part).float32
    print(json.dumps({"input": name, "micros": result.times.total_micros,
                      "embedding": [round(value, 6) for value in vector]}))
    return True


def main():
    parser = argparse.ArgumentParser(prog="embed", description="Embeds texts and image files.")
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--image", action="append", default=[], metavar="FILE")
    parser.add_argument("--address", default="127.0.0.1:50051", help="of the server (default: %(default)s)")
    arguments = parser.parse_args()
    if not arguments.texts and not arguments.image:
        parser.error("nothing to embed: give a text or --image FILE")
    good = True
    try:
        with grpc.insecure_channel(arguments.address) as channel:
            if arguments.texts:
                request = pb.EmbedTextRequest(texts=[pb.TextInput(text=text) for text in arguments.texts])
                for text, result in zip(arguments.texts, call(channel, "EmbedText", request), strict=True):
                    good &= show(text, result, "text")
            if arguments.image:
                files = [Path(name).read_bytes() for name in arguments.image]
                request = pb.EmbedImageRequest(images=[pb.ImageInput(encoded=file) for file in files])
                for name, result in zip(arguments.image, call(channel, "EmbedImage", request), strict=True):
                    good &= show(name, result, "image")
    except grpc.RpcError as error:
        sys.exit(f"embed: {error.code().name}: {error.details()}")
    except OSError as error:
        sys.exit(f"embed: {error}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
