#!/usr/bin/env python3
"""Makes the tokeniser goldens in tests/golden/tokenizer from the reference; also the texts of compare_tokenizer.py.

  generate_tokenizer.py HUB_FOLDER     needs sentence-transformers; versions.json records what was used

Files: odd.json (texts that go wrong elsewhere, with all their ids), lines.bin (a hash of the ids of every line: corpus.txt,
mixed lines, fuzz lines, every code point), switches.bin (hashes of fuzz lines for every setting of the normaliser).
The generated lines are made again by tokenizer_golden_test.cc: change both together.
"""
import json
import os
import struct
import sys

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer")
MIXED_LINES, FUZZ_LINES, SWITCH_LINES = 20000, 10000, 400
LAST_CODE_POINT_LINE = 0x30000  # planes 0 to 2; above there is nothing but tags and private use
MASK = (1 << 64) - 1


class Random:
    """splitmix64."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % bound


# First code point and count: where fuzz lines take their characters. The last two are drawn from rarely mapped planes.
BLOCKS = [(0x00, 0x80), (0x61, 26), (0x61, 26), (0x41, 26), (0x20, 1), (0x80, 0x1D0), (0x300, 0x70), (0x370, 0x190),
          (0x590, 0x270), (0x900, 0x700), (0x1100, 0x100), (0x1E00, 0x200), (0x2000, 0x70), (0x3000, 0x100),
          (0x4E00, 0x5200), (0xAC00, 0x2BA4), (0xF900, 0x700), (0x0, 0xD800), (0x10000, 0x10000), (0x1F300, 0x700)]
SNIPPETS = ["[SEP]", "[CLS]", "[MASK]", "[PAD]", "[UNK]", "[sep]", "[SEP", "##ing", "embedding", "\u0130", "\u00df",
            "\ufb01", "e\u0301", "\u1e9b\u0323", "\u302e\u1b44", "\U0001d165\U0001d16d", "\u00ad", "\u200b", "\ufffd", "\r\n"]


def fuzz_line(seed):
    random = Random(seed)
    out = []
    for _ in range(1 + random.below(48)):
        if random.below(12) == 0:
            out.append(SNIPPETS[random.below(len(SNIPPETS))])
            continue
        first, count = BLOCKS[random.below(len(BLOCKS))]
        out.append(chr(first + random.below(count)))
    return "".join(out)


# What the families' tokenisers treat apart.
FAMILY_SNIPPETS = ["<s>", "</s>", "<mask>", " <mask> ", "<pad>", "<unk>", "<|endoftext|>", "<|startoftext|>", "<|im_start|>", "[MASK]",
                   "[CLS]", "[SEP]", "<bos>", "<eos>", "<extra_id_0>", "    ", "  ", "\t\t", "\n\n", "\r\n", " \n ", "\u2581",
                   "\u2581\u2581", "</w>", "'s", "'RE", "'ll", "'\u017f", "don't", "it's", "ing", " the", "tion", "2024", "3.14",
                   "\u00a9\u200d", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1eb\U0001f1f7", "\u1112\u1161\u11ab",
                   "\u0915\u094d\u0937", "e\u0301", "\uff76\uff9e", "\u00a0", "\u3000", "<0x41>", "``", "''", "word", "WORD", "\u0130"]


def family_line(seed):
    random = Random(seed ^ 0x66616D696C79)
    out = []
    for _ in range(1 + random.below(40)):
        if random.below(3) == 0:
            out.append(FAMILY_SNIPPETS[random.below(len(FAMILY_SNIPPETS))])
            continue
        first, count = BLOCKS[random.below(len(BLOCKS))]
        out.append(chr(first + random.below(count)))
    return "".join(out)


def mixed_line(corpus, seed):
    random = Random(seed ^ 0x6D69786564)
    out = []
    for _ in range(1 + random.below(32)):
        words = corpus[random.below(len(corpus))].split(" ")
        out.append(words[random.below(len(words))])
        if random.below(16) != 0:
            out.append(" ")
    return "".join(out)


def code_point_lines(end):
    """Every code point between two letters, 20 to a line."""
    codes = [c for c in range(end) if not 0xD800 <= c <= 0xDFFF]
    return [" ".join(f"a{chr(c)}b" for c in codes[i:i + 20]) for i in range(0, len(codes), 20)]


def read_corpus():
    with open(os.path.join(FOLDER, "corpus.txt"), encoding="utf-8", newline="\n") as file:
        return file.read().split("\n")[:-1]


def odd_texts():
    words = "the quick brown fox jumps over a lazy dog while embeddings flow into one river of batches".split()
    texts = ["", " ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u0000", "\u0001\u0002", "\u007f", "\u0085", "\ufeff", "\ufffd",
             "a", "A", ".", "...", "a.b", "Hello, world!", "hello\u0000world", "hello\u0001world", "tab\tseparated",
             "line\nbreak", "carriage\rreturn", "vertical\vtab", "form\ffeed", "next\u0085line", "soft\u00adhyphen",
             "zero\u200bwidth", "zero\u200djoiner", "word\u2060joiner", "bom\ufeffinside", "line\u2028separator",
             "paragraph\u2029separator", "no-break\u00a0space", "thin\u2009space", "ogham\u1680space", "ideographic\u3000space",
             "mongolian\u180evowel", "\u202eright to left override\u202c", "\u2066isolate\u2069", "tag \U000e0041\U000e007f",
             "private \ue000 use", "private \U000f0000 use", "unassigned \u0378", "noncharacter \ufffe", "\uffff", "\U0010ffff"]
    texts += ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🇫🇷", "1️⃣", "I ❤️ you", "❤", "☕ coffee", "a😀b", "🏴\U000e0067\U000e0062\U000e007f", "🫠🫡", "✈️ to 東京",
              "é", "e\u0301", "E\u0301", "e\u0301\u0327", "e\u0327\u0301", "a\u0300\u0316\u0301", "\u0301", "\u0301\u0301", " \u0301a",
              "Zo\u0308e", "naïve café", "NAÏVE CAFÉ", "Ångström", "\u212bngstrom", "\u212a", "\u2126", "\ufb01ne", "ﬀ", "ǆ", "ǅ", "Ǆ",
              "ß", "ẞ", "STRASSE straße", "İstanbul", "ISTANBUL", "ısı", "Σίσυφος", "ΣΊΣΥΦΟΣ", "ΟΔΟΣ", "Ὀδυσσεύς", "ᾳ", "ᾼ", "Ω",
              "Привет, мир", "ПРИВЕТ", "ёлка", "й", "и\u0306", "Їжак", "Ѐ", "ѝ", "ҐҐ", "Ꭰ", "ꭰ", "Ა", "ა", "𐐀", "𐐨",
              "中文", "中文 text", "北京大学", "日本語テキスト", "ひらがな", "カタカナ", "ｶﾀｶﾅ", "がぎぐ", "か\u3099", "パ", "ー", "한국어", "한국어 텍스트", "가", "\u1100\u1161",
              "각", "\u1100\u1161\u11a8", "\u11a8", "힣", "豈", "\uf900", "\ufa0e", "𠀀", "\U0002b820", "\U0002b920", "\U00030000", "㐀", "〇", "々", "「引用」", "、。", "Ａｂｃ１２３",
              "שלום עולם", "שָׁלוֹם", "مرحبا بالعالم", "مُحَمَّد", "السلام عليكم", "ﷺ", "ﻼ", "اردو", "فارسی", "٠١٢٣", "۱۲۳", "،؛؟",
              "नमस्ते दुनिया", "हिन्दी", "क़", "क\u093c", "বাংলা", "তামিল", "தமிழ்", "తెలుగు", "ಕನ್ನಡ", "മലയാളം", "ไทย", "ภาษาไทย", "ລາວ", "မြန်မာ", "ខ្មែរ", "བོད་ཡིག", "አማርኛ", "ქართული", "հայերեն",
              "Tiếng Việt", "Ðường", "ạ\u0302", "ộ", "o\u0323\u0302", "o\u0302\u0323", "\u1b44\u302e", "a\u302e\u1b44", "\u0344", "\u0f73", "\U0001d15e", "\U0001d160\U0001d165"]
    texts += ["[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]", "[CLS] [SEP]", "[SEP][SEP]", "a[SEP]b", "a [MASK] b", "[sep]", "[Sep]",
              "[ SEP ]", "[SEP", "SEP]", "[[SEP]]", "[S[SEP]EP]", "[SE\u0000P]", "\u0301[SEP]\u0301", "[CLS]text[SEP]", "[unused0]", "[unused1] x",
              "##", "##ing", "a ##ing", "#hashtag", "@user", "http://example.com/a?b=c&d=%20", "user@example.com", "C++20", "C#",
              "a_b_c", "snake_case", "camelCase", "--flag=value", "$100", "€100", "£5", "¥", "100%", "3.14", "1,000,000", "1e-5", "½", "²", "№", "™", "©", "…", "–", "—",
              "“quoted”", "‘single’", "«guillemets»", "don't", "don’t", "l'été", "¿qué?", "¡hola!", "a·b", "a•b", "a→b", "≠", "≤", "=\u0338", "∑", "√2", "^", "`", "~", "|", "\\", "<html>", "&amp;",
              "\u037e", "\u1fef", "\u2000x", "\u2329", "\u0387", "\u2e2e", "\u2e52", "\U00010100", "\U0001e95e", "\u0970", "\u055a", "\u1735",
              "unaffable", "embeddings", "supercalifragilisticexpialidocious", "pneumonoultramicroscopicsilicovolcanoconiosis", "xyzzyqwrt", "zzzzzzzz", "ðŸ˜€"]
    texts += ["a" * n for n in (99, 100, 101, 102, 1000)] + ["é" * 100, "é" * 101, "e\u0301" * 100, "e\u0301" * 101, "中" * 101, "한" * 34, "😀" * 101, "\u0301" * 200 + "a", "\u302e\u1b44" * 60]
    texts += ["a" * 100 + "." + "b" * 101 + " c", "." * 300, "中" * 300, "[SEP]" * 300, " ".join(["word"] * 254), " ".join(["word"] * 255),
              " ".join(["unaffable"] * 100), "a b " * 126 + "c d e", " ".join(words[i * 7 % len(words)] for i in range(10000)), " " * 5000, "\u0000" * 5000, "x" * 20000]
    return texts


class Reference:
    """sentence-transformers' own tokeniser, cut at its max_seq_length, not padded."""

    def __init__(self, folder):
        import sentence_transformers
        model = sentence_transformers.SentenceTransformer(folder, device="cpu")
        self.tokenizer, self.max_tokens = model.tokenizer, model.max_seq_length

    def ids(self, texts, side="right"):
        self.tokenizer.truncation_side = side
        return self.tokenizer(texts, truncation=True, max_length=self.max_tokens)["input_ids"]


def ids_hash(ids):
    """FNV-1a over the ids' little-endian bytes, folded to 32 bits."""
    value = 0xCBF29CE484222325
    for byte in struct.pack(f"<{len(ids)}i", *ids):
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return (value ^ (value >> 32)) & 0xFFFFFFFF


def write_hashes(name, all_ids):
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(struct.pack(f"<{len(all_ids)}I", *map(ids_hash, all_ids)))


def switch_settings():
    """Every setting of (clean_text, handle_chinese_chars, strip_accents, lowercase), by the bits of a number."""
    return [[bool(bits >> i & 1) for i in range(4)] for bits in range(16)]


def main():
    folder = sys.argv[1]
    reference = Reference(folder)
    texts = odd_texts()
    ids, ids_start = reference.ids(texts), reference.ids(texts, side="left")
    odd = [{"text": t, "ids": i} if i == s else {"text": t, "ids": i, "ids_start": s}
           for t, i, s in zip(texts, ids, ids_start)]
    with open(os.path.join(FOLDER, "odd.json"), "w", encoding="ascii") as file:
        file.write("[\n" + ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in odd) + "\n]\n")

    corpus = read_corpus()
    lines = (corpus + [mixed_line(corpus, i) for i in range(MIXED_LINES)] + [fuzz_line(i) for i in range(FUZZ_LINES)]
             + code_point_lines(LAST_CODE_POINT_LINE))
    write_hashes("lines.bin", reference.ids(lines))

    from tokenizers import Tokenizer, normalizers
    all_ids = []
    for clean, chinese, strip, lower in switch_settings():
        tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        tokenizer.normalizer = normalizers.BertNormalizer(clean, chinese, strip, lower)
        tokenizer.no_padding()
        tokenizer.enable_truncation(reference.max_tokens)
        all_ids += [e.ids for e in tokenizer.encode_batch([fuzz_line(i) for i in range(SWITCH_LINES)])]
    write_hashes("switches.bin", all_ids)

    import sentence_transformers
    import tokenizers
    import transformers
    versions = {m.__name__: m.__version__ for m in (sentence_transformers, tokenizers, transformers)}
    versions["odd_texts"], versions["lines"] = len(odd), len(lines)
    with open(os.path.join(FOLDER, "versions.json"), "w") as file:
        json.dump(versions, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
