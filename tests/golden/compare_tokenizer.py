#!/usr/bin/env python3
"""Compares the product's token ids with the installed reference, live, on as many lines as asked for.

  compare_tokenizer.py DUMP HUB_FOLDER [--lines 20000] [--fuzz 20000] [--seed 1] [FILE ...]

DUMP is the program tributary-tokenizer-dump. FILEs are extra texts, one a line. Exits 1 at the first difference kinds.
The committed goldens (generate_tokenizer.py) show the same in CI without Python; this script is for new seeds, new
corpora and new versions of the reference.
"""
import argparse
import struct
import subprocess
import sys

import generate_tokenizer as golden


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
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    reference = golden.Reference(args.folder)
    corpus = golden.read_corpus()
    first = args.seed << 32
    sets = {
        "odd texts": golden.odd_texts(),
        "corpus": corpus,
        "mixed": [golden.mixed_line(corpus, first + i) for i in range(args.lines)],
        "fuzz": [golden.fuzz_line(first + i) for i in range(args.fuzz)],
        "every code point": golden.code_point_lines(0x110000),
    }
    for name in args.files:
        with open(name, encoding="utf-8", errors="ignore", newline="\n") as file:
            sets[name] = [line.rstrip("\n") for line in file]
    failed = False
    for name, texts in sets.items():
        expected, actual = reference.ids(texts), product_ids(args.dump, args.folder, texts)
        wrong = [i for i in range(len(texts)) if expected[i] != actual[i]]
        print(f"{name}: {len(texts)} texts, {len(wrong)} differ")
        for i in wrong[:5]:
            print(f"  {texts[i]!r}\n    reference {expected[i]}\n    product   {actual[i]}")
        failed = failed or bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
