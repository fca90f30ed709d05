"""Text models for export_model.py: a transformers or sentence-transformers folder."""

import json
import random
import shutil
from pathlib import Path

import torch
import transformers
from export_formats import ExportError, randomise

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# What the server reads beside the module; weights stay behind.
FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json",
         "sentence_bert_config.json")
ROOT_FILES = ("modules.json", "config_sentence_transformers.json")
SEED = 17


class TokenStates(torch.nn.Module):
    """ids, attention_mask int64 [B, L] -> last hidden states [B, L, H]."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, attention_mask):
        return self.model(input_ids=ids, attention_mask=attention_mask).last_hidden_state


class Vectors(torch.nn.Module):
    """The whole chain of sentence-transformers: ids, attention_mask int64 [B, L] -> vectors [B, D]."""

    def __init__(self, chain):
        super().__init__()
        self.chain = chain

    def forward(self, ids, attention_mask):
        features = {"input_ids": ids, "attention_mask": attention_mask}
        for module in self.chain:
            features = module(features)
        return features["sentence_embedding"]


def read(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


class TextSource:
    def __init__(self, options):
        self.options = options
        self.folder = Path(options.model)
        if not self.folder.is_dir():
            raise ExportError(f"--model {options.model} is no folder: text models are read from one, as the hubs have "
                              "it")
        self.modules = read(self.folder / "modules.json")
        places = [entry["path"] for entry in self.modules if entry["type"].endswith(".Transformer")] or [""]
        self.transformer = self.folder / places[0]
        self.place = places[0]
        self.transformers_model = None
        self.module = self.vectors() if options.output == "vectors" else self.states()
        self.module.eval().to(options.device)
        self.config = self.transformers_model.config.get_text_config()
        self.max_length = self.longest()
        with torch.no_grad():
            self.dimension = self.module(*self.example()).shape[-1]

    def load_model(self):
        attention = "sdpa" if self.options.attention == "auto" else self.options.attention
        how = dict(attn_implementation=attention, dtype=DTYPES[self.options.dtype])
        if self.options.random_weights is not None:
            config = transformers.AutoConfig.from_pretrained(self.transformer)
            return randomise(transformers.AutoModel.from_config(config, **how), self.options.random_weights)
        return transformers.AutoModel.from_pretrained(self.transformer, **how)

    def states(self):
        if not self.modules and not self.options.pooling:
            raise ExportError(f"{self.folder} has no modules.json: --pooling must say how token states become a vector")
        if self.modules and (self.options.pooling or self.options.normalise):
            raise ExportError(f"{self.folder}/modules.json says the pooling and normalising: leave --pooling and "
                              "--normalise out")
        self.transformers_model = self.load_model()
        return TokenStates(self.transformers_model)

    def vectors(self):
        if self.options.random_weights is not None or self.options.pooling:
            raise ExportError("--output vectors exports the folder's own chain: without --random-weights and --pooling")
        try:
            import sentence_transformers
        except ImportError as error:
            raise ExportError(f"--output vectors needs sentence-transformers: {error}") from error
        attention = "sdpa" if self.options.attention == "auto" else self.options.attention
        chain = sentence_transformers.SentenceTransformer(str(self.folder), device="cpu", model_kwargs={
            "attn_implementation": attention, "dtype": DTYPES[self.options.dtype]})
        self.transformers_model = chain[0].auto_model
        return Vectors(chain)

    def use_eager_attention(self):
        if self.transformers_model.config._attn_implementation == "eager":
            return False
        self.transformers_model.set_attn_implementation("eager")
        return True

    def longest(self):
        limits = [self.options.max_length, read(self.transformer / "sentence_bert_config.json").get("max_seq_length")]
        if limits[1] is None:
            limits.append(read(self.transformer / "tokenizer_config.json").get("model_max_length"))
        positions = getattr(self.config, "max_position_embeddings", None)
        if positions and self.config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet"):
            positions -= self.config.pad_token_id + 1  # their positions count from behind the padding's
        known = [int(limit) for limit in (*limits, positions) if limit and limit < 1e9]
        if not known:
            raise ExportError("no file says how long a text may be: give --max-length")
        return min(known)

    def padding(self):
        return getattr(self.config, "pad_token_id", None) or 0

    def batch(self, lengths, padded=None):
        """Texts of random ids, none of them padding's, padded as the server pads them."""
        choose = random.Random(SEED + sum(lengths))
        size = padded or max(lengths)
        ids = torch.full((len(lengths), size), self.padding())
        mask = torch.zeros_like(ids)
        usable = [id for id in range(min(self.config.vocab_size, 1000)) if id != self.padding()]
        for row, length in enumerate(lengths):
            ids[row, :length] = torch.tensor(choose.choices(usable, k=length))
            mask[row, :length] = 1
        return ids.to(self.options.device), mask.to(self.options.device)

    def example(self):
        # With padding: a trace over none may leave the mask out.
        most = min(24, self.max_length)
        return self.batch([most, most // 2 + 1, 1])

    def dynamic_shapes(self):
        batch = torch.export.Dim("batch", min=1, max=max(self.options.max_batch, 3))
        length = torch.export.Dim("length", min=1, max=max(self.max_length, 2))
        return {"ids": {0: batch, 1: length}, "attention_mask": {0: batch, 1: length}}

    def trials(self):
        most, longest = min(self.options.max_batch, 64), self.max_length
        short = min(8, longest)
        for lengths, padded in (([1], 1), ([1], short), ([short], short), ([longest], longest),
                                ([short] * most, short), ([min(17, longest), 1, min(5, longest)][:most], None),
                                ([max(longest - 1, 1), max(longest // 3, 1)][:most], None)):
            inputs = self.batch(lengths, padded)
            yield inputs, lambda output, of=lengths: self.kept(output, of)

    def kept(self, output, lengths):
        """What is used of an output: states of padding mean nothing."""
        if self.options.output == "vectors":
            return list(output)
        return [states[:length] for states, length in zip(output, lengths, strict=True)]

    def manifest(self):
        roles = [{"role": role, "dtype": "int64"} for role in ("ids", "attention_mask")]
        dtype = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[self.options.dtype]
        manifest = {"inputs": roles,
                    "output": {"holds": self.options.output, "index": 0, "dtype": dtype, "dimension": self.dimension},
                    "batch": {"min": 1, "max": self.options.max_batch},
                    "length": {"min": 1, "max": self.max_length},
                    "vocabulary_size": self.config.vocab_size, "pad_id": self.padding()}
        if self.options.output == "vectors":
            normalise = any(entry["type"].endswith(".Normalize") for entry in self.modules)
            manifest["normalise"] = normalise or self.options.normalise
        elif not self.modules:
            manifest["pooling"] = self.options.pooling.split(",")
            manifest["normalise"] = self.options.normalise
        return manifest

    def write_files(self, out):
        vectors = self.options.output == "vectors"
        place = "" if vectors else self.place
        (out / place).mkdir(parents=True, exist_ok=True)
        for name in FILES:
            if (self.transformer / name).is_file():
                shutil.copyfile(self.transformer / name, out / place / name)
        if not any((out / place / name).is_file() for name in ("tokenizer.json", "vocab.txt")):
            transformers.AutoTokenizer.from_pretrained(self.transformer).save_pretrained(out / place)
        for name in ROOT_FILES:
            if (self.folder / name).is_file() and not (vectors and name == "modules.json"):
                shutil.copyfile(self.folder / name, out / name)
        for entry in self.modules:
            if not vectors and entry["path"] not in ("", self.place) and (self.folder / entry["path"]).is_dir():
                shutil.copytree(self.folder / entry["path"], out / entry["path"])


def load(options):
    try:
        return TextSource(options)
    except ExportError as error:
        raise SystemExit(f"export: {error}") from error
