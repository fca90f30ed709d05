#!/usr/bin/env python3
"""Makes small tokenisers of every family, and their goldens, in tests/golden/tokenizer/families.

  generate_tokenizer_families.py [NAME ...]     needs transformers; ../tokenizer/versions.json has the versions used

NAME.json is a tokenizer.json: a vocabulary trained on corpus.txt in the pipeline that transformers writes for the family
(or, where its hub folders have another, in that). NAME.bin has a hash of the ids of each line of `lines()`, cut at
MAX_TOKENS. tokenizer_families_test.cc makes the lines again: change both together.
"""
import json
import os
import sys
import unicodedata
from collections import Counter

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

import generate_tokenizer as golden
from charsmap import charsmap

FOLDER = os.path.join(golden.FOLDER, "families")
MAX_TOKENS = 64
FAMILY_LINES = 2000
GPT2_ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
BYTE_PIECES = [f"<0x{byte:02X}>" for byte in range(256)]
PUNCTUATION = r"""[!"\#\$%\&'\(\)\*\+,\-\./:;<=>\?@\[\\\]\^_`\{\|\}\~]"""
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def odd_texts():
    with open(os.path.join(golden.FOLDER, "odd.json")) as file:
        return [entry["text"] for entry in json.load(file)]


def lines():
    return odd_texts() + golden.read_corpus()[::10] + [golden.family_line(i) for i in range(FAMILY_LINES)]


def common_lines(characters):
    """Lines of the corpus in its most frequent characters, so that a small vocabulary has room for words."""
    corpus = golden.read_corpus()
    common = {c for c, _ in Counter("".join(corpus)).most_common(characters)}
    return [line for line in corpus if set(line) <= common]


def train_bpe(size, pre_tokenizer, normalizer=None, corpus=None, **options):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(corpus or golden.read_corpus(), trainers.BpeTrainer(vocab_size=size, show_progress=False, **options))
    model = json.loads(tokenizer.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [tuple(merge) for merge in model["merges"]]


def train_unigram(size, normalizer):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    trainer = trainers.UnigramTrainer(vocab_size=size, show_progress=False, special_tokens=["<unk>"], unk_token="<unk>")
    tokenizer.train_from_iterator(common_lines(500), trainer)
    return [tuple(entry) for entry in json.loads(tokenizer.to_str())["model"]["vocab"][1:]]


def train_word_piece(size, normalizer, pre_tokenizer):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=size, show_progress=False, special_tokens=special)
    tokenizer.train_from_iterator(common_lines(500), trainer)
    return tokenizer.get_vocab()


def numbered(*lists):
    return {piece: i for i, piece in enumerate(dict.fromkeys(piece for pieces in lists for piece in pieces))}


def nfkc_map():
    """A character map of the kind SentencePiece compiles into its models, small."""
    rules = {chr(c): "" for c in [*range(1, 9), 0xB, *range(0xE, 0x20), 0x7F, 0x8F, 0x9F, 0xAD]}
    rules.update({chr(c): " " for c in [9, 0xA, 0xC, 0xD, 0xA0, 0x1680, *range(0x2000, 0x2010), 0x2028, 0x2029, 0x3000, 0xFEFF, 0xFFFD]})
    rules.update({chr(c): unicodedata.normalize("NFKC", chr(c)) for c in [
        *range(0xA1, 0x180), *range(0x1F1, 0x1F4), *range(0x2100, 0x2150), *range(0x2460, 0x2480), *range(0xFB00, 0xFB07),
        *range(0xFF01, 0xFFA0), 0x1D400, 0x1D401, 0xFDFA, 0xAC01] if unicodedata.normalize("NFKC", chr(c)) != chr(c)})
    for base in "AEIOUaeiounyc":
        for mark in "\u0300\u0301\u0302\u0303\u0308\u0327":
            composed = unicodedata.normalize("NFC", base + mark)
            if len(composed) == 1:
                rules[base + mark] = composed
    rules.update({"\uff76\uff9e": "\u30ac", "\u304b\u3099": "\u304c", "\u1100\u1161": "\uac00", "\r\n": " "})
    return charsmap({key.encode(): to.encode() for key, to in rules.items()})


def roberta():
    from transformers import RobertaTokenizer
    pieces, merges = train_bpe(2600, pre_tokenizers.ByteLevel(), initial_alphabet=GPT2_ALPHABET)
    vocab = numbered(["<s>", "<pad>", "</s>", "<unk>"], pieces, ["<mask>"])
    mask = AddedToken("<mask>", lstrip=True, normalized=True)
    return RobertaTokenizer(vocab=vocab, merges=merges, mask_token=mask).backend_tokenizer


def clip():
    from transformers import CLIPTokenizer
    normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    split = pre_tokenizers.Split(Regex(r"""'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""), "removed", invert=True)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    pieces, merges = train_bpe(2600, pre_tokenizers.Sequence([split, byte_level]), normalizer, end_of_word_suffix="</w>",
                               initial_alphabet=GPT2_ALPHABET)
    vocab = numbered(GPT2_ALPHABET, [c + "</w>" for c in GPT2_ALPHABET], pieces, ["<|startoftext|>", "<|endoftext|>"])
    return CLIPTokenizer(vocab=vocab, merges=merges).backend_tokenizer


def qwen():
    """Qwen3-Embedding: Qwen2's tokeniser and an end token."""
    from transformers import Qwen2Tokenizer
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"),
                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    pieces, merges = train_bpe(2600, split, normalizers.NFC(), initial_alphabet=GPT2_ALPHABET)
    tokenizer = Qwen2Tokenizer(vocab=numbered(pieces), merges=merges).backend_tokenizer
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False)])
    end = tokenizer.token_to_id("<|endoftext|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", end)])])
    return tokenizer


def modern_bert():
    pieces, merges = train_bpe(2600, pre_tokenizers.ByteLevel(add_prefix_space=False), normalizers.NFC(), initial_alphabet=GPT2_ALPHABET)
    tokenizer = Tokenizer(models.BPE(vocab=numbered(["|||IP_ADDRESS|||", "<|padding|>", "<|endoftext|>"], pieces), merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_tokens([AddedToken("|||IP_ADDRESS|||", normalized=True)])
    tokenizer.add_special_tokens(["<|padding|>", "<|endoftext|>"])
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in range(8, 1, -1)])
    tokenizer.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[PAD]", AddedToken("[MASK]", lstrip=True, normalized=False)])
    special = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    return tokenizer


def llama3():
    """cl100k's pattern, words before merges, a space before everything."""
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")), "isolated"),
                                     pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)])
    pieces, merges = train_bpe(1300, split, initial_alphabet=GPT2_ALPHABET)
    vocab = numbered(pieces, ["Ġunmerged", "ĠWORD"])
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=True))
    tokenizer.pre_tokenizer = split
    tokenizer.add_special_tokens(["<|begin_of_text|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", begin)])])
    return tokenizer


def metaspace_bpe(size):
    return train_bpe(size, pre_tokenizers.Metaspace(), corpus=common_lines(500), limit_alphabet=400)


def gemma():
    """EmbeddingGemma: the whole text is one word."""
    from transformers import GemmaTokenizer
    pieces, merges = metaspace_bpe(2600)
    runs = ["\u2581" * n for n in (2, 4, 8)]
    merges = [("\u2581" * n, "\u2581" * n) for n in (1, 2, 4)] + merges
    vocab = numbered(["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"], BYTE_PIECES, runs, pieces)
    tokenizer = GemmaTokenizer(vocab=vocab, merges=merges).backend_tokenizer
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("\n\n", "\t\t", "<image_soft_token>")])
    special = [(name, tokenizer.token_to_id(name)) for name in ("<bos>", "<eos>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A <eos>", special_tokens=special)
    return tokenizer


def siglip2():
    from transformers import Siglip2Tokenizer
    pieces, merges = metaspace_bpe(1300)
    vocab = numbered(["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"], BYTE_PIECES, pieces)
    tokenizer = Siglip2Tokenizer(vocab=vocab, merges=merges).backend_tokenizer
    special = [("<eos>", tokenizer.token_to_id("<eos>"))]
    tokenizer.post_processor = processors.TemplateProcessing(single="$A <eos>", special_tokens=special)
    return tokenizer


def mistral():
    """Llama's and Mistral's of today: a space before the first piece only; without byte fallback, to meet <unk>."""
    pieces, merges = metaspace_bpe(1300)
    tokenizer = Tokenizer(models.BPE(vocab=numbered(["<unk>", "<s>", "</s>"], pieces), merges=merges, unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def llama():
    """Llama's of before: a space before every stretch of text; here each unknown character for itself."""
    pieces, merges = metaspace_bpe(1300)
    tokenizer = Tokenizer(models.BPE(vocab=numbered(["<unk>", "<s>", "</s>"], pieces), merges=merges, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.add_special_tokens([AddedToken(name, normalized=True) for name in ("<unk>", "<s>", "</s>")])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def xlm_roberta():
    from transformers import XLMRobertaTokenizer
    normalizer = normalizers.Precompiled(nfkc_map())
    vocab = [(name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")] + train_unigram(3000, normalizer) + [("<mask>", 0.0)]
    mask = AddedToken("<mask>", lstrip=True, normalized=True)
    tokenizer = XLMRobertaTokenizer(vocab=vocab, mask_token=mask).backend_tokenizer
    tokenizer.normalizer = normalizer
    return tokenizer


def t5():
    from transformers import T5Tokenizer
    normalizer = normalizers.Precompiled(nfkc_map())
    vocab = [(name, 0.0) for name in ("<pad>", "</s>", "<unk>")] + train_unigram(3000, normalizer)
    vocab += [(f"<extra_id_{i}>", 0.0) for i in (3, 2, 1, 0)]
    tokenizer = T5Tokenizer(vocab=vocab, extra_ids=4).backend_tokenizer
    tokenizer.normalizer = normalizer
    return tokenizer


def siglip():
    """The tokenizer.json of SigLIP's folders: T5's with the text made plain first."""
    normalizer = normalizers.Sequence([
        normalizers.Lowercase(), normalizers.Replace(Regex(PUNCTUATION), ""), normalizers.Replace(Regex(r"\s+"), " "),
        normalizers.Strip(), normalizers.Precompiled(nfkc_map())])
    vocab = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + train_unigram(1500, normalizer)
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=2))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def albert():
    normalizer = normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
        normalizers.Lowercase(), normalizers.Precompiled(nfkc_map()), normalizers.Replace(Regex(" {2,}"), " ")])
    vocab = [(name, 0.0) for name in ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")] + train_unigram(1500, normalizer)
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=1))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "<unk>", "[CLS]", "[SEP]", AddedToken("[MASK]", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def unigram_bytes():
    """Unigram with byte fallback over the whole text; Nmt and the other normal forms."""
    normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(" ", "\u2581")])
    vocab = [("<unk>", 0.0)] + [(piece, -20.0) for piece in BYTE_PIECES] + train_unigram(1200, normalizers.NFKC())
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=True))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\n", "contiguous")
    return tokenizer


def mpnet():
    from transformers import MPNetTokenizer
    pieces = train_word_piece(2000, normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer())
    pieces = [p for p in sorted(pieces, key=pieces.get) if p not in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    vocab = numbered(["<s>", "<pad>", "</s>", "[UNK]"], pieces, ["<mask>"])
    return MPNetTokenizer(vocab=vocab).backend_tokenizer


def distilbert():
    """Cased."""
    normalizer = normalizers.BertNormalizer(lowercase=False)
    vocab = train_word_piece(1200, normalizer, pre_tokenizers.BertPreTokenizer())
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def other_word_piece():
    """WordPiece with none of BERT's steps: those no family above has, and every kind of added token."""
    normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip(left=True, right=False)])
    split = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("contiguous"),
                                     pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Split("e", "merged_with_previous"),
                                     pre_tokenizers.Split("n", "merged_with_next")])
    tokenizer = Tokenizer(models.WordPiece(train_word_piece(1200, normalizer, split), unk_token="[UNK]", max_input_chars_per_word=12))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, split
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    tokenizer.add_tokens([AddedToken("WORD", single_word=True), AddedToken("ing", single_word=True, normalized=False),
                          AddedToken("<mask>", rstrip=True), AddedToken("'s", lstrip=True, rstrip=True, normalized=False),
                          AddedToken("d\u00a0", lstrip=True), AddedToken("w\u0130d", normalized=True)])
    return tokenizer


FAMILIES = [roberta, clip, qwen, modern_bert, llama3, gemma, siglip2, mistral, llama, xlm_roberta, t5, siglip, albert, unigram_bytes,
            mpnet, distilbert, other_word_piece]


def reference(path, max_tokens=MAX_TOKENS):
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return lambda texts: [encoding.ids for encoding in tokenizer.encode_batch(texts)]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for family in FAMILIES:
        name = family.__name__
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        tokenizer = json.loads(family().to_str())
        for key in ("truncation", "padding", "decoder"):
            tokenizer[key] = None
        path = os.path.join(FOLDER, name + ".json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(tokenizer, file, ensure_ascii=False, separators=(",", ":"))
            file.write("\n")
        golden.write_hashes(os.path.join("families", name + ".bin"), reference(path)(lines()))


if __name__ == "__main__":
    main()
