"""Text encoders of other libraries, from strings to normalised vectors. Each has settings that a short trial on the workload
chooses among, so that every peer runs at its best."""
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

MAX_TOKENS = 256
BATCHES = [8, 32, 64]


class Tokens:
    """Hugging Face tokenizers, without padding: the batch is padded to its longest text."""

    def __init__(self, deps):
        from tokenizers import Tokenizer
        self.tokenizer = Tokenizer.from_file(os.path.join(deps, "models/all-minilm-l6-v2/tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)

    def ids(self, texts):
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(texts)]


def padded(rows):
    ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
    mask = np.zeros_like(ids)
    for row, values in enumerate(rows):
        ids[row, :len(values)] = values
        mask[row, :len(values)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def sorted_batches(rows, size):
    """Indices in batches of texts of like length, the longest first, as sentence-transformers does it."""
    order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
    return [order[i:i + size] for i in range(0, len(order), size)]


class SentenceTransformers:
    def __init__(self, deps, models, threads, dtype):
        import sentence_transformers
        import torch
        torch.set_num_threads(threads)
        self.model = sentence_transformers.SentenceTransformer(os.path.join(deps, "models/all-minilm-l6-v2"), device="cpu",
                                                               model_kwargs={"dtype": getattr(torch, dtype)})
        self.model.max_seq_length = MAX_TOKENS
        self.version = f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}"
        self.settings = [{"batch": batch} for batch in BATCHES]

    def encode(self, texts, batch=32):
        vectors = self.model.encode(texts, batch_size=batch, normalize_embeddings=True, show_progress_bar=False,
                                    convert_to_numpy=False, convert_to_tensor=True)
        return vectors.float().numpy()

    one = {"batch": 1}


class OnnxRuntime:
    """One session with a team of threads, or as many callers as threads, each running whole batches alone."""

    def __init__(self, deps, models, threads, file):
        import onnxruntime
        self.tokens = Tokens(deps)
        self.threads = threads
        self.sessions = {team: self._session(onnxruntime, os.path.join(models, file), team) for team in {1, threads}}
        self.pool = ThreadPoolExecutor(threads)
        self.version = f"onnxruntime {onnxruntime.__version__}"
        self.settings = [{"batch": batch, "team": team} for batch in BATCHES for team in sorted({1, threads})]
        self.one = {"batch": 1, "team": threads}

    @staticmethod
    def _session(onnxruntime, path, team):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = team
        options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def encode(self, texts, batch=32, team=1):
        rows = self.tokens.ids(texts)
        session = self.sessions[team]
        names = {value.name for value in session.get_inputs()}
        batches = sorted_batches(rows, batch)

        def run(indices):
            fed = {name: value for name, value in padded([rows[i] for i in indices]).items() if name in names}
            return session.run(None, fed)[0]

        parts = self.pool.map(run, batches) if team == 1 and len(batches) > 1 else map(run, batches)
        return gathered(batches, parts, len(rows))


def gathered(batches, parts, count):
    vectors = None
    for indices, part in zip(batches, parts):
        if vectors is None:
            vectors = np.empty((count, part.shape[1]), np.float32)
        vectors[indices] = part
    return vectors


class OpenVino:
    """Throughput hint with as many streams as threads for many texts, latency hint for one."""

    def __init__(self, deps, models, threads, file, precision=None):
        import openvino
        self.tokens = Tokens(deps)
        core = openvino.Core()
        model = core.read_model(os.path.join(models, file))
        common = {"INFERENCE_NUM_THREADS": threads}
        if precision:
            common["INFERENCE_PRECISION_HINT"] = precision
        many = core.compile_model(model, "CPU", {"PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": threads, **common})
        self.single = core.compile_model(model, "CPU", {"PERFORMANCE_HINT": "LATENCY", **common}).create_infer_request()
        self.names = {value.get_any_name() for value in model.inputs}
        self.queue = openvino.AsyncInferQueue(many, threads)
        self.version = f"openvino {openvino.__version__}, {many.get_property('INFERENCE_PRECISION_HINT').get_type_name()}"
        self.settings = [{"batch": batch} for batch in [1, *BATCHES]]
        self.one = {"batch": 1}

    def feed(self, rows):
        return {name: value for name, value in padded(rows).items() if name in self.names}

    def encode(self, texts, batch=8):
        rows = self.tokens.ids(texts)
        if len(rows) == 1:
            self.single.infer(self.feed(rows))
            return self.single.get_output_tensor().data.copy()
        batches = sorted_batches(rows, batch)
        parts = [None] * len(batches)
        self.queue.set_callback(lambda request, at: parts.__setitem__(at, request.get_output_tensor().data.copy()))
        for at, indices in enumerate(batches):
            self.queue.start_async(self.feed([rows[i] for i in indices]), at)
        self.queue.wait_all()
        return gathered(batches, parts, len(rows))


class CTranslate2:
    def __init__(self, deps, models, threads, compute):
        import ctranslate2
        self.tokens = Tokens(deps)
        folder = os.path.join(models, f"minilm/ctranslate2-{compute}")
        self.encoders = {workers: ctranslate2.Encoder(folder, device="cpu", compute_type=compute, inter_threads=workers,
                                                      intra_threads=threads // workers) for workers in {1, threads}}
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads)
        self.version = f"ctranslate2 {ctranslate2.__version__}, {next(iter(self.encoders.values())).compute_type}"
        self.settings = [{"batch": batch, "workers": workers} for batch in BATCHES for workers in sorted({1, threads})]
        self.one = {"batch": 1, "workers": 1}

    def encode(self, texts, batch=32, workers=1):
        rows = self.tokens.ids(texts)
        batches = sorted_batches(rows, batch)

        def run(indices):
            chosen = [rows[i] for i in indices]
            hidden = np.array(self.encoders[workers].forward_batch(chosen).last_hidden_state)
            mask = padded(chosen)["attention_mask"][..., None].astype(np.float32)
            pooled = (hidden * mask).sum(1) / mask.sum(1)
            return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)

        parts = self.pool.map(run, batches) if workers > 1 and len(batches) > 1 else map(run, batches)
        return gathered(batches, parts, len(rows))


class HfTokenizers:
    """Tokenising alone."""

    def __init__(self, deps, models, threads):
        import tokenizers
        self.tokens = Tokens(deps)
        self.version = f"tokenizers {tokenizers.__version__}"

    def tokenise(self, texts):
        # One by one on one thread, as Tributary's figure is; encode_batch would use all cores.
        for text in texts:
            self.tokens.tokenizer.encode(text)

    def ids(self, texts):
        return [self.tokens.tokenizer.encode(text).ids for text in texts]
