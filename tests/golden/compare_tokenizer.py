#!/usr/bin/env python3
"""Compares the product's token ids with the installed reference, live, on as many lines as asked for.

  compare_tokenizer.py DUMP HUB_FOLDER [--lines 20000] [--fuzz 20000] [--code-points 0x110000] [--seed 1] [FILE ...]
  compare_tokenizer.py DUMP TOKENIZER.json ...

DUMP is the program tributary-tokenizer-dump. Of a folder the reference is sentence-transformers, of a single file it is
tokenizers alone. FILEs are extra texts, one a line. Exits 1 where anything differs.
The committed goldens (generate_tokenizer.py) show the same in the tests without Python; this script is for new seeds,
new corpora and new versions of the reference. .ci/run calls it for every family, with few lines.
"""
import argparse
import os
import shutil
import struct
import subprocess
import sys
import tempfile

import generate_tokenizer as golden
import generate_tokenizer_families as families

MAX_TOKENS = 512  # of a single file, which has no limit of its own


def product_ids(dump, folder, texts, max_tokens=0):
    data = b"".join(struct.pack("<I", len(t)) + t for t in (text.encode() for text in texts))
    out = subprocess.run([dump, folder, str(max_tokens)], input=data, stdout=subprocess.PIPE, check=True).stdout
    ids, at = [], 0
    while at < len(out):
        (count,) = struct.unpack_from("<I", out, at)
        ids.append(list(struct.unpack_from(f"<{count}i", out, at + 4)))
        at += 4 + 4 * count
    return ids


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dump")
    parser.add_argument("folder")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--lines", type=int, default=20000)
    parser.add_argument("--fuzz", type=int, default=20000)
    parser.add_argument("--code-points", type=lambda text: int(text, 0), default=0x110000, help="those below it")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    if os.path.isdir(args.folder):
        folder, reference_ids = args.folder, golden.Reference(args.folder).ids
    else:
        folder, reference_ids = tempfile.mkdtemp(), families.reference(args.folder, MAX_TOKENS)
        shutil.copy(args.folder, os.path.join(folder, "tokenizer.json"))
        with open(os.path.join(folder, "sentence_bert_config.json"), "w") as file:
            file.write(f'{{"max_seq_length": {MAX_TOKENS}}}')
    corpus = golden.read_corpus()
    first = args.seed << 32
    sets = {
        "odd texts": golden.odd_texts(),
        "corpus": corpus,
        "mixed": [golden.mixed_line(corpus, first + i) for i in range(args.lines)],
        "fuzz": [golden.fuzz_line(first + i) for i in range(args.fuzz)],
        "family fuzz": [golden.family_line(first + i) for i in range(args.fuzz)],
        "every code point": golden.code_point_lines(args.code_points),
    }
    for name in args.files:
        with open(name, encoding="utf-8", errors="ignore", newline="\n") as file:
            sets[name] = [line.rstrip("\n") for line in file]
    failed = False
    for name, texts in sets.items():
        expected, actual = reference_ids(texts), product_ids(args.dump, folder, texts)
        wrong = [i for i in range(len(texts)) if expected[i] != actual[i]]
        print(f"{name}: {len(texts)} texts, {len(wrong)} differ")
        for i in wrong[:5]:
            print(f"  {texts[i]!r}\n    reference {expected[i]}\n    product   {actual[i]}")
        failed = failed or bool(wrong)
    if folder != args.folder:
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
