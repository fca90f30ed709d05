"""The quickstart's client: embeds captions, photos and pairs over gRPC and says which caption is nearest to which photo.

It is also an example: everything below main() needs only grpcio, protobuf and the messages protoc made from the contract
(scripts/quickstart puts them on PYTHONPATH).
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import grpc
from tributary.v1 import embedding_service_pb2 as pb

# photo -> the caption that has to be nearest to it. The astronaut's is not checked: the image model does not know any.
CHECKED = {"chelsea.png": "a cat looking at the camera", "coffee.png": "a cup of coffee on a saucer",
           "rocket.jpg": "a rocket on its launch pad"}
PHOTOS = ("chelsea.png", "coffee.png", "rocket.jpg", "astronaut.png")
CAPTIONS = (*CHECKED.values(), "a woman in a space suit", "a red sports car on a mountain road",
            "a bowl of fresh fruit")
TIMED_CALLS = 20


class Client:
    """The calls of tributary.v1.EmbeddingService that return embeddings."""

    def __init__(self, channel):
        self._channel = channel

    def _call(self, method, request):
        call = self._channel.unary_unary(f"/tributary.v1.EmbeddingService/{method}",
                                         request_serializer=type(request).SerializeToString,
                                         response_deserializer=pb.EmbedResponse.FromString)
        results = call(request, timeout=60).results
        for result in results:
            if result.HasField("error"):
                raise RuntimeError(f"{method}: {result.error.message}")
        return results

    def embed_texts(self, texts):
        return self._call("EmbedText", pb.EmbedTextRequest(texts=[pb.TextInput(text=text) for text in texts]))

    def embed_images(self, files):
        return self._call("EmbedImage", pb.EmbedImageRequest(images=[pb.ImageInput(encoded=file) for file in files]))

    def embed_pairs(self, pairs):
        return self._call("EmbedPair", pb.EmbedPairRequest(pairs=[
            pb.PairInput(text=pb.TextInput(text=text), image=pb.ImageInput(encoded=file)) for text, file in pairs]))


def is_serving(channel):
    """The standard health check of the whole server, its two tiny messages written by hand: {} -> {status: SERVING}."""
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    return check(b"", timeout=10) == b"\x08\x01"


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5


def milliseconds(seconds):
    return f"{seconds * 1000:.1f} ms"


def timed(call):
    started = time.perf_counter()
    value = call()
    return value, time.perf_counter() - started


def print_table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))


def nearest_captions(captions, photos, photo_times):
    """Prints the table and returns photo -> nearest caption."""
    rows = [("photo", "nearest caption", "cosine", "second nearest", "cosine", "answered in")]
    nearest = {}
    for name, vector in photos.items():
        ranked = sorted(((cosine(vector, other), caption) for caption, other in captions.items()), reverse=True)
        (best, caption), (second, second_caption) = ranked[:2]
        rows.append((name, caption, f"{best:.3f}", second_caption, f"{second:.3f}", milliseconds(photo_times[name])))
        nearest[name] = caption
    print_table(rows)
    return nearest


def print_pairs(pairs, results, captions):
    """For each pair's fused vector, the caption it is nearest to and how near it is to its own two parts."""
    rows = [("pair", "fused: nearest caption", "cosine", "to its text", "to its photo")]
    for (photo, caption), result in zip(pairs, results, strict=True):
        parts = result.embeddings
        fused = parts.fused.float32
        score, near = max((cosine(fused, vector), other) for other, vector in captions.items())
        rows.append((f"{photo} + '{caption}'", near, f"{score:.3f}", f"{cosine(fused, parts.text.float32):.3f}",
                     f"{cosine(fused, parts.image.float32):.3f}"))
    print_table(rows)


def print_latencies(client, photo, caption):
    """Median round trip of calls with one input, and where the server spent it."""
    rows = [("one input a call", "round trip", "preparing", "queue and lane", "computing", "fusing")]
    for name, call in (("EmbedText", lambda: client.embed_texts([caption])),
                       ("EmbedImage", lambda: client.embed_images([photo])),
                       ("EmbedPair", lambda: client.embed_pairs([(caption, photo)]))):
        runs = [timed(call) for _ in range(TIMED_CALLS)]
        times = [results[0].times for results, _ in runs]

        def median(micros_of, times=times):
            return milliseconds(statistics.median(micros_of(t) for t in times) / 1e6)

        rows.append((name, milliseconds(statistics.median(seconds for _, seconds in runs)),
                     median(lambda t: t.prepare_wait_micros + t.prepare_micros),
                     median(lambda t: t.queue_micros + t.lane_micros), median(lambda t: t.compute_micros),
                     median(lambda t: t.fusion_micros)))
    print_table(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("photos", type=Path)
    arguments = parser.parse_args()

    with grpc.insecure_channel(arguments.address) as channel:
        if not is_serving(channel):
            sys.exit(f"the server at {arguments.address} does not say SERVING")
        client = Client(channel)
        files = {name: (arguments.photos / name).read_bytes() for name in PHOTOS}

        results, seconds = timed(lambda: client.embed_texts(CAPTIONS))
        captions = {text: result.embeddings.text.float32 for text, result in zip(CAPTIONS, results, strict=True)}
        print(f"\n{len(captions)} captions in one EmbedText call: {len(next(iter(captions.values())))} numbers each, "
              f"in {milliseconds(seconds)}")
        photos, photo_times = {}, {}
        for name, file in files.items():
            results, photo_times[name] = timed(lambda file=file: client.embed_images([file]))
            photos[name] = results[0].embeddings.image.float32
        print(f"{len(photos)} photos, one EmbedImage call each:\n")
        nearest = nearest_captions(captions, photos, photo_times)
        print("\n  (No class of ImageNet, from which the image model knows the world, is close to an astronaut.)")

        # One pair that belongs together and one that does not.
        pairs = [("chelsea.png", CHECKED["chelsea.png"]), ("rocket.jpg", CHECKED["coffee.png"])]
        results, seconds = timed(lambda: client.embed_pairs([(text, files[photo]) for photo, text in pairs]))
        print(f"\n{len(pairs)} pairs in one EmbedPair call, in {milliseconds(seconds)}:\n")
        print_pairs(pairs, results, captions)

        print(f"\nMedians of {TIMED_CALLS} calls, one at a time:\n")
        print_latencies(client, files["chelsea.png"], CHECKED["chelsea.png"])

    wrong = [f"{photo} is nearest to '{nearest[photo]}', not to '{caption}'" for photo, caption in CHECKED.items()
             if nearest[photo] != caption]
    if wrong:
        sys.exit("\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
