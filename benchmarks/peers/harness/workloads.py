"""The inputs: cut from real text and real photos by a seed, written once, named by their hash in the results. Needs the
tokenizers and Pillow of the peers' environment."""
import hashlib
import io
import json
import math
import os
import random

FIXED_TOKENS = [16, 32, 128, 256]  # 512 tokens run as 256: MiniLM's limit, where every contender truncates
MAX_TOKENS = 256

# Mixed: class, share, median tokens, sigma of the log-normal.
MIXED = [("query", 0.6, 9, 0.5), ("passage", 0.3, 78, 0.4), ("chunk", 0.1, 260, 0.3)]

# Heights of the JPEGs, 4:3.
JPEG_HEIGHTS = [320, 480, 720, 1080]
RGB_SIDES = {"efficientnet": 256, "vit": 224}  # the centre crop of 224 out of 256 is the identity, and so is CLIP's 224


def corpus_words(root):
    """Words of the bench client's corpus, then of the package descriptions of this machine."""
    with open(os.path.join(root, "benchmarks/client/corpus.txt"), encoding="utf-8") as file:
        words = file.read().split()
    status = "/var/lib/dpkg/status"
    if os.path.exists(status):
        with open(status, encoding="utf-8") as file:
            description = False
            for line in file:
                if line.startswith("Description:"):
                    description = True
                elif not line.startswith(" "):
                    description = False
                elif description and line.strip() != ".":
                    words += line.split()
    return words


class TextCutter:
    """Consecutive words of the corpus with an exact number of tokens."""

    def __init__(self, words, tokenizer, seed):
        self.words, self.tokenizer, self.draw = words, tokenizer, random.Random(f"texts {seed}")

    def count(self, words):
        return len(self.tokenizer.encode(" ".join(words)).ids)

    def cut(self, tokens):
        """`tokens` with the two special ones; at least 3."""
        first = self.draw.randrange(len(self.words) - tokens)
        low, high = 0, tokens  # words: no word has fewer than one token
        while low < high:
            middle = (low + high + 1) // 2
            if self.count(self.words[first:first + middle]) <= tokens:
                low = middle
            else:
                high = middle - 1
        chosen = self.words[first:first + low]
        return " ".join(chosen + ["the"] * (tokens - self.count(chosen)))


def mixed_lengths(count, seed):
    """(class, tokens) of `count` texts, shuffled. The shares are exact to one text."""
    draw = random.Random(f"lengths {seed}")
    lengths = []
    for index, (name, share, median, sigma) in enumerate(MIXED):
        last = index == len(MIXED) - 1
        for _ in range(count - len(lengths) if last else round(count * share)):
            # Of text without its special tokens; longer than the limit is truncated by every contender alike.
            tokens = 2 + max(1, round(draw.lognormvariate(math.log(median), sigma)))
            lengths.append((name, min(tokens, 512)))
    draw.shuffle(lengths)
    return lengths


def text_workloads(root, tokenizer, count, seed):
    cutter = TextCutter(corpus_words(root), tokenizer, seed)
    workloads = {}
    for tokens in FIXED_TOKENS:
        workloads[f"text-{tokens}"] = {"kind": "text", "texts": [cutter.cut(tokens) for _ in range(fewer(count, tokens))]}
    lengths = mixed_lengths(count, seed)
    workloads["text-mixed"] = {"kind": "text", "texts": [cutter.cut(tokens) for _, tokens in lengths],
                               "classes": [name for name, _ in lengths]}
    for workload in workloads.values():
        run = [min(MAX_TOKENS, len(tokenizer.encode(text).ids)) for text in workload["texts"]]
        workload["tokens_run"] = {"mean": sum(run) / len(run), "max": max(run)}
    return workloads


def fewer(count, tokens):
    """Long texts are fewer, so that a pass of the slowest contender takes seconds."""
    return max(8, min(count, count * 64 // tokens))


def multilingual(root):
    """The tokeniser's differential corpus: 20 languages."""
    with open(os.path.join(root, "tests/golden/tokenizer/corpus.txt"), encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def photos(folder):
    from PIL import Image
    return [Image.open(os.path.join(folder, name)).convert("RGB") for name in sorted(os.listdir(folder))
            if name.endswith((".png", ".jpg"))]


def image_workloads(photo_folder, out, count, seed):
    """JPEGs of every height and raw squares, each a differently placed cut of a photo, so that no two are alike."""
    from PIL import Image
    draw = random.Random(f"images {seed}")
    sources = photos(photo_folder)

    def picture(width, height):
        source = sources[draw.randrange(len(sources))]
        scale = draw.uniform(0.6, 0.95)
        w = min(source.width, source.height * width / height) * scale
        h = w * height / width
        left, top = draw.uniform(0, source.width - w), draw.uniform(0, source.height - h)
        return source.resize((width, height), Image.BICUBIC, box=(left, top, left + w, top + h))

    def save(name, data):
        path = os.path.join(out, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    workloads = {}
    paths = []
    for index in range(count):
        height = JPEG_HEIGHTS[index % len(JPEG_HEIGHTS)]
        buffer = io.BytesIO()
        picture(height * 4 // 3 // 2 * 2, height).save(buffer, "JPEG", quality=85)
        paths.append(save(f"{height}p-{index}.jpg", buffer.getvalue()))
    workloads["image-jpeg"] = {"kind": "jpeg", "paths": paths,
                               "classes": [f"{JPEG_HEIGHTS[i % len(JPEG_HEIGHTS)]}p" for i in range(count)]}
    vga = []
    for index in range(max(1, count // 4)):
        buffer = io.BytesIO()
        picture(640, 480).save(buffer, "JPEG", quality=85)
        vga.append(save(f"vga-{index}.jpg", buffer.getvalue()))
    workloads["image-640x480"] = {"kind": "jpeg", "paths": vga}
    for name, side in RGB_SIDES.items():
        paths = [save(f"{name}-{i}.rgb", picture(side, side).tobytes()) for i in range(count)]
        workloads[f"rgb-{name}"] = {"kind": "rgb", "width": side, "height": side, "paths": paths}
    return workloads


def write_all(root, deps, out, texts, images, seed):
    """Writes every workload below `out`; returns what the results say of them: file, hash, number of inputs."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(os.path.join(deps, "models/all-minilm-l6-v2/tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    os.makedirs(out, exist_ok=True)
    workloads = text_workloads(root, tokenizer, texts, seed)
    lines = multilingual(root)
    english = [line for line in lines if line.isascii()]
    step = max(1, len(lines) // (texts * 8))  # quick runs take fewer
    workloads["tokenise-english"] = {"kind": "text", "texts": english[::step]}
    workloads["tokenise-multilingual"] = {"kind": "text", "texts": lines[::step]}
    workloads.update(image_workloads(os.path.join(deps, "photos"), out, images, seed))
    described = {}
    for name, workload in workloads.items():
        path = os.path.join(out, name + ".json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(workload, file)
        described[name] = {"file": path, "kind": workload["kind"], "inputs": len(workload.get("texts") or workload["paths"]),
                           "sha256": content_hash(workload)}
        for key in ("tokens_run", "classes"):
            if key in workload:
                described[name][key] = workload[key]
    return described


def content_hash(workload):
    digest = hashlib.sha256()
    for text in workload.get("texts", []):
        digest.update(text.encode() + b"\0")
    for path in workload.get("paths", []):
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:16]


def inputs(described):
    """What `write_all` wrote: [(text, None)] or [(None, bytes)]."""
    with open(described["file"], encoding="utf-8") as file:
        workload = json.load(file)
    if workload["kind"] == "text":
        return [(text, None) for text in workload["texts"]]
    loaded = []
    for path in workload["paths"]:
        with open(path, "rb") as file:
            loaded.append((None, file.read()))
    return loaded
