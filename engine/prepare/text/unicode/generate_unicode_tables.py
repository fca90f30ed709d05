#!/usr/bin/env python3
"""Writes unicode_tables.cc: what Hugging Face tokenizers does with every single code point.

The reference mixes tables of several Unicode versions (cleaning and marks of 8, normal forms of 9, lower case of its
Rust release, Oniguruma's letters, the grapheme clusters of its Unicode crate), so no Unicode library agrees with it
everywhere. This script asks the reference itself.
Run with the Python that has the pinned `tokenizers` (tests/golden/README.md); takes about a minute.
"""
import os
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../../tests/golden"))
from charsmap import charsmap  # noqa: E402

CODES = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
SYLLABLES = range(0xAC00, 0xD7A4)


def bert(**on):
    flags = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**flags, **on}).normalize_str


def is_cut_out(splitter):
    """The code points that `splitter` makes a piece of their own."""
    cut = splitter.pre_tokenize_str
    return [c for c in CODES if len(cut(f"\x01{chr(c)}\x01")) == 3 and c != 1]


def single_characters():
    """The tables of single characters, by name; and the facts the C++ side relies on, asserted."""
    clean, cjk = bert(clean_text=True), bert(handle_chinese_chars=True)
    strip, lower = bert(strip_accents=True), bert(lowercase=True)
    nfd, split = normalizers.NFD().normalize_str, pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    strip_accents = normalizers.StripAccents().normalize_str

    t = {name: [] for name in ("Removed", "Ideographs", "Marks", "Punctuation", "Whitespace", "CombiningMarks")}
    decomposed, lowered = {}, {}
    for code in CODES:
        c = chr(code)
        cleaned = clean(c)
        if cleaned == "":
            t["Removed"].append(code)
        words = [word for word, _ in split(f"a{c}a")]
        if words == ["a", "a"]:
            t["Whitespace"].append(code)
        elif words == ["a", c, "a"]:
            t["Punctuation"].append(code)
        assert cleaned in ("", " " if code in t["Whitespace"][-1:] else c), hex(code)
        if cjk(c) != c:
            t["Ideographs"].append(code)
        if strip(c) == "":
            t["Marks"].append(code)
        if strip_accents(c) == "":
            t["CombiningMarks"].append(code)
        if nfd(c) != c and code not in SYLLABLES:
            decomposed[code] = [ord(x) for x in nfd(c)]
        if lower(c) != c:
            lowered[code] = [ord(x) for x in lower(c)]

    # What char_table.cc relies on when it treats the steps of BertNormalizer as a map of single code points.
    ideograph_set = set(t["Ideographs"])
    special = set(t["Removed"]) | set(t["Whitespace"])
    for code, parts in decomposed.items():
        assert len(parts) <= 4, hex(code)
        assert code in t["Whitespace"] or not special & set(parts), hex(code)
        assert code in ideograph_set or not set(parts) & ideograph_set, hex(code)
        assert not set(parts) & decomposed.keys(), hex(code)
    not_words = special | set(t["Punctuation"]) | ideograph_set
    for code, parts in lowered.items():
        assert not not_words & set(parts), hex(code)

    t["Letters"] = is_cut_out(pre_tokenizers.Split(Regex(r"\p{L}"), "isolated"))
    t["Numbers"] = is_cut_out(pre_tokenizers.Split(Regex(r"\p{N}"), "isolated"))
    t["Numerics"] = is_cut_out(pre_tokenizers.Digits(individual_digits=True))
    words = pre_tokenizers.Whitespace().pre_tokenize_str
    t["WordChars"] = [c for c in CODES if words(f"a{chr(c)}a") == [(f"a{chr(c)}a", (0, 3))]]
    spaces = is_cut_out(pre_tokenizers.Split(Regex(r"\s"), "isolated"))
    assert spaces == t["Whitespace"]
    for kind in ("Letters", "Numbers", "WordChars"):
        assert not set(spaces) & set(t[kind])
    assert not set(t["Letters"]) & set(t["Numbers"])
    return t, decomposed, lowered


def normal_forms(decomposed):
    """Compatibility decompositions, combining classes and compositions."""
    nfd, nfc = normalizers.NFD().normalize_str, normalizers.NFC().normalize_str
    nfkd = normalizers.NFKD().normalize_str
    compatible = {c: [ord(x) for x in nfkd(chr(c))] for c in CODES if c not in SYLLABLES and nfkd(chr(c)) != nfd(chr(c))}

    # Non-starters: what the reference swaps with U+0334 (class 1) or U+0345 (class 240). Classes never change between
    # versions, so their values may come from Python.
    def swaps(pair):
        return nfd("a" + pair) != "a" + pair

    def is_non_starter(code):
        return code not in decomposed and (swaps(chr(code) + "\u0334") or swaps("\u0345" + chr(code)))

    classes = {c: unicodedata.combining(chr(c)) for c in range(0x300, 0x110000)
               if unicodedata.combining(chr(c)) and is_non_starter(c)}

    # A pair composes to what decomposes to it in one step; which does, and in this version, the reference says.
    pairs = []
    for code in decomposed:
        step = unicodedata.decomposition(chr(code)).split()
        if len(step) == 2 and not step[0].startswith("<"):
            first, second = (int(x, 16) for x in step)
            if nfc(chr(first) + chr(second)) == chr(code):
                pairs.append((first, second, code))
    for code, parts in decomposed.items():
        stays = nfc(chr(code)) == chr(code)
        assert stays == any(p[2] == code for p in pairs), hex(code)
    return compatible, classes, pairs


def grapheme_flags():
    """The flags of normalise/graphemes.cc. Asked of Precompiled, with a map that makes a Z of each cluster of less than
    six bytes and of each character of longer ones: pairs are made visible by a mark of two bytes behind them."""
    rules = {bytes([byte]): b"Z" for byte in range(1, 256)}
    rules[b"\n"] = b"|"
    normalise = normalizers.Precompiled(charsmap(rules)).normalize_str
    mark, vowel, trail, lead, joiner, picture = "\u0300", "\u1161", "\u11a8", "\u1100", "\u200d", "\u00a9"
    consonant, linker, other_consonant = "\u0915", "\u094d", "\u0924"
    codes = [c for c in CODES if c >= 0x80 and c not in SYLLABLES]  # ASCII: controls only

    def counts(make):
        found = []
        for start in range(0, len(codes), 4096):
            lines = normalise("\n".join(make(chr(c)) for c in codes[start:start + 4096]) + "\n").split("|")
            found += [len(line) for line in lines[:-1]]
        assert len(found) == len(codes)
        return dict(zip(codes, found))

    def those(make, count):
        return {c for c, n in counts(make).items() if n == count}

    attaches = those(lambda c: "a" + c, 1)
    prepends = those(lambda c: c + "a", 1) - attaches
    picture_first = those(lambda c: c + joiner + picture + mark, 4) - attaches - prepends
    picture_extend = those(lambda c: picture + c + joiner + picture + mark, 5) & attaches
    consonants = those(lambda c: c + linker + other_consonant + mark, 4) - attaches - prepends
    linkers = those(lambda c: consonant + c + other_consonant + mark, 4) & attaches
    conjunct_extend = those(lambda c: consonant + c + linker + other_consonant + mark, 5) & attaches
    to_lead = those(lambda c: c + lead + mark, 3)
    to_vowel = those(lambda c: c + vowel + mark, 3)
    to_trail = those(lambda c: c + trail + mark, 3)
    wide = {c for c in codes if c > 0xFFFF}
    controls = {c for c in those(lambda c: c + mark, 2) if c not in wide} - attaches
    hangul = {0x100: (to_lead & to_vowel) - to_trail, 0x200: (to_vowel & to_trail) - to_lead, 0x400: to_trail - to_vowel}
    flags = {}
    for bit, members in {1: controls, 2: attaches, 4: prepends, 8: picture_first, 16: picture_extend, 32: consonants,
                         64: linkers, 128: conjunct_extend, **hangul}.items():
        for code in members - prepends if bit >= 0x100 else members:
            flags[code] = flags.get(code, 0) | bit
    flags.update({c: 1 for c in [*range(0x20), 0x7F]})
    return flags


class Writer:
    def __init__(self):
        self.out = [
            f"// Generated by generate_unicode_tables.py from Hugging Face tokenizers {tokenizers.__version__}; do not edit.",
            '#include "engine/prepare/text/unicode/unicode_tables.h"', "", "// clang-format off",
            "namespace tributary::unicode {", "namespace {", ""]
        self.functions = []

    def add(self, kind, name, items):
        self.out.append(f"constexpr {kind} k{name}[] = {{")
        line = ""
        for item in items:
            if len(line) + len(item) > 116:
                self.out.append(line)
                line = ""
            line += item + ","
        self.out.extend([line, "};", ""])
        self.functions.append(f"std::span<const {kind}> {name}() {{ return k{name}; }}")

    def add_ranges(self, name, codes):
        self.add("Range", name, [f"{{{a:#x},{b:#x}}}" for a, b, _ in spans({c: 0 for c in codes})])

    def write(self, path):
        tail = ["}  // namespace", "", *self.functions, "", "}  // namespace tributary::unicode", ""]
        with open(path, "w") as file:
            file.write("\n".join(self.out + tail))


def spans(values):
    """Runs of neighbouring codes with one value."""
    found = []
    for code, value in sorted(values.items()):
        if found and found[-1][1] == code - 1 and found[-1][2] == value:
            found[-1][1] = code
        else:
            found.append([code, code, value])
    return found


def main():
    tables, decomposed, lowered = single_characters()
    compatible, classes, pairs = normal_forms(decomposed)
    tables["MarkStarters"] = sorted(set(tables["Marks"]) - classes.keys() - decomposed.keys())

    writer = Writer()
    for name, codes in tables.items():
        writer.add_ranges(name, codes)
    for name, table in (("Decompositions", decomposed), ("LowerCase", lowered)):
        writer.add("Mapping", name, [f"{{{c:#x},{{{','.join(hex(p) for p in parts)}}}}}" for c, parts in table.items()])
    flat = [part for parts in compatible.values() for part in parts]
    firsts, first = [], 0
    for code, parts in compatible.items():
        firsts.append(f"{{{code:#x},{first},{len(parts)}}}")
        first += len(parts)
    writer.add("Expansion", "CompatibilityDecompositions", firsts)
    writer.add("char32_t", "CompatibilityParts", [hex(part) for part in flat])
    writer.add("CombiningClass", "CombiningClasses", [f"{{{c:#x},{k}}}" for c, k in classes.items()])
    writer.add("Composition", "Compositions", [f"{{{a:#x},{b:#x},{c:#x}}}" for a, b, c in pairs])
    writer.add("GraphemeRange", "GraphemeClasses", [f"{{{a:#x},{b:#x},{v}}}" for a, b, v in spans(grapheme_flags())])
    writer.write(os.path.join(HERE, "unicode_tables.cc"))


if __name__ == "__main__":
    main()
