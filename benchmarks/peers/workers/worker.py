"""A peer as a process of its own: loads one library's model, then does what its standard input says. The protocol is that of
offline.cc, and one op more: {"op":"tune"} tries the library's settings on a workload and keeps the fastest.

  worker.py CONTENDER DEPS MODELS THREADS
"""
import json
import os
import sys
import time

import numpy as np

import image_backends
import text_backends

CONTENDERS = {
    "sentence-transformers-fp32": lambda *a: text_backends.SentenceTransformers(*a, "float32"),
    "sentence-transformers-bf16": lambda *a: text_backends.SentenceTransformers(*a, "bfloat16"),
    "onnxruntime-fp32": lambda *a: text_backends.OnnxRuntime(*a, "minilm/model.onnx"),
    "onnxruntime-fp32-fused": lambda *a: text_backends.OnnxRuntime(*a, "minilm/fused.onnx"),
    "onnxruntime-int8": lambda *a: text_backends.OnnxRuntime(*a, "minilm/int8.onnx"),
    "openvino-fp32": lambda *a: text_backends.OpenVino(*a, "minilm/model.onnx", "f32"),
    "openvino-default": lambda *a: text_backends.OpenVino(*a, "minilm/model.onnx"),
    "openvino-int8": lambda *a: text_backends.OpenVino(*a, "minilm/int8.xml"),
    "ctranslate2-fp32": lambda *a: text_backends.CTranslate2(*a, "float32"),
    "ctranslate2-int8": lambda *a: text_backends.CTranslate2(*a, "int8"),
    "hf-tokenizers": text_backends.HfTokenizers,
    "pillow": image_backends.Pillow,
}
for network in ("efficientnet", "vit"):
    CONTENDERS |= {
        f"torch-{network}": lambda *a, n=network: image_backends.Torch(*a, n),
        f"onnxruntime-{network}-fp32": lambda *a, n=network: image_backends.OnnxRuntime(*a, n, "model.onnx"),
        f"onnxruntime-{network}-int8": lambda *a, n=network: image_backends.OnnxRuntime(*a, n, "int8.onnx"),
        f"openvino-{network}-fp32": lambda *a, n=network: image_backends.OpenVino(*a, n, "model.onnx", "f32"),
        f"openvino-{network}-default": lambda *a, n=network: image_backends.OpenVino(*a, n, "model.onnx"),
        f"openvino-{network}-int8": lambda *a, n=network: image_backends.OpenVino(*a, n, "int8.xml"),
    }


def read_workload(path):
    with open(path, encoding="utf-8") as file:
        workload = json.load(file)
    if workload["kind"] == "text":
        return workload["texts"]
    loaded = []
    for path in workload["paths"]:
        with open(path, "rb") as file:
            loaded.append(file.read())
    if workload["kind"] == "jpeg":
        return loaded
    pixels = [np.frombuffer(data, np.uint8).reshape(workload["height"], workload["width"], 3) for data in loaded]
    return np.stack([image_backends.centre(p) for p in pixels])


def time_passes(items, seconds, work):
    cpu, start, done = time.process_time(), time.perf_counter(), 0
    while True:
        work()
        done += items
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return {"items": done, "seconds": elapsed, "cpu_seconds": time.process_time() - cpu}


class Worker:
    def __init__(self, backend):
        self.backend, self.workloads, self.chosen = backend, {}, {}

    def run(self, command):
        op = command["op"]
        if op == "info":
            return {"version": self.backend.version}
        name = command["workload"]
        if op == "load":
            self.workloads[name] = read_workload(command["file"])
            return {"items": len(self.workloads[name])}
        inputs = self.workloads[name]
        if op == "tune":
            return self.tune(name, inputs, command["tries"])
        if op == "embed":
            vectors = np.ascontiguousarray(self.encode(name, inputs), np.float32)
            vectors.tofile(command["out"])
            return {"rows": len(vectors), "dimension": vectors.shape[1]}
        if op == "throughput":
            return time_passes(len(inputs), command["seconds"], lambda: self.encode(name, inputs))
        if op == "latency":
            return self.latency(inputs, command["seconds"], command["items"])
        if op == "tokenise":
            return time_passes(len(inputs), command["seconds"], lambda: self.backend.tokenise(inputs))
        if op == "ids":
            with open(command["out"], "w", encoding="utf-8") as file:
                json.dump(self.backend.ids(inputs), file)
            return {"rows": len(inputs)}
        if op == "prepare":
            return time_passes(len(inputs), command["seconds"], lambda: [image_backends.prepare(data) for data in inputs])
        if op == "pixels":
            np.stack([image_backends.prepare(data) for data in inputs]).tofile(command["out"])
            return {"rows": len(inputs)}
        raise ValueError(f"unknown op '{op}'")

    def encode(self, name, inputs):
        return self.backend.encode(inputs, **self.chosen.get(name, {}))

    def tune(self, name, inputs, tries):
        """One pass each after a short warm-up: batches of another size are other shapes, and kernels are made for shapes."""
        part = inputs[:max(1, len(inputs) // 4)]
        tried = []
        for setting in self.backend.settings[:tries]:
            self.backend.encode(part, **setting)
            start = time.perf_counter()
            self.backend.encode(part, **setting)
            tried.append({"setting": setting, "per_second": len(part) / (time.perf_counter() - start)})
        self.chosen[name] = max(tried, key=lambda t: t["per_second"])["setting"]
        return {"chosen": self.chosen[name], "tried": tried}

    def latency(self, inputs, seconds, items):
        micros, start = [], time.perf_counter()
        while len(micros) < items and (not micros or time.perf_counter() - start < seconds):
            at = len(micros) % len(inputs)
            one = inputs[at:at + 1]
            sent = time.perf_counter()
            self.backend.encode(one, **self.backend.one)
            micros.append((time.perf_counter() - sent) * 1e6)
        return {"micros": micros}


def main(contender, deps, models, threads):
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # what libraries print goes to the log

    def answer(**values):
        answers.write(json.dumps(values) + "\n")

    start = time.perf_counter()
    try:
        worker = Worker(CONTENDERS[contender](deps, models, int(threads)))
    except Exception as error:  # any library's any error: the harness reports it
        answer(ok=False, error=f"{type(error).__name__}: {error}"[:1500])
        return
    answer(ok=True, ready=True, load_seconds=time.perf_counter() - start)
    for line in sys.stdin:
        try:
            answer(ok=True, **worker.run(json.loads(line)))
        except Exception as error:  # likewise
            answer(ok=False, error=f"{type(error).__name__}: {error}"[:1500])


if __name__ == "__main__":
    main(*sys.argv[1:5])
