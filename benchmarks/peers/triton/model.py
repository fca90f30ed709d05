"""A Triton python-backend model: Hugging Face tokenizers or Pillow, then OpenVINO. Triton's dynamic batcher forms the
batches; what it hands over at once is sorted by length and padded here, which is the most a user of Triton can do."""
import io
import json
import os
import sys

# The stub's interpreter is an isolated one, which does not read PYTHONPATH by itself.
sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)

import numpy as np  # noqa: E402
import openvino  # noqa: E402
import triton_python_backend_utils as pb_utils  # noqa: E402
from PIL import Image, ImageOps  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

SIZE, CROP_PADDING, TOP_CLASSES, MAX_TOKENS = 224, 32, 10, 256
TEXT_BATCH = 8  # rows of one OpenVINO call: texts of like length


def prepare(data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    w, h = image.size
    side = max(1, min(w, h) * SIZE // (SIZE + CROP_PADDING))
    left, top = (w - side + 1) // 2, (h - side + 1) // 2
    return np.asarray(image.crop((left, top, left + side, top + side)).resize((SIZE, SIZE), Image.BICUBIC))


class TritonPythonModel:
    def initialize(self, args):
        told = {key: value["string_value"] for key, value in json.loads(args["model_config"])["parameters"].items()}
        core = openvino.Core()
        settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": int(told["threads"])}
        if told["precision"]:
            settings["INFERENCE_PRECISION_HINT"] = told["precision"]
        models = told["models"]
        self.text = self.image = None
        if told["kind"] in ("text", "pair"):
            self.tokenizer = Tokenizer.from_file(told["tokenizer"])
            self.tokenizer.no_padding()
            self.tokenizer.enable_truncation(MAX_TOKENS)
            self.text = core.compile_model(os.path.join(models, "minilm/model.onnx"), "CPU", settings).create_infer_request()
        if told["kind"] in ("image", "pair"):
            self.labels = np.load(os.path.join(models, "efficientnet/labels.npy"))
            self.image = core.compile_model(os.path.join(models, "efficientnet/model.onnx"), "CPU", settings).create_infer_request()
        self.names = {value.get_any_name() for value in self.text.get_compiled_model().inputs} if self.text else set()

    def execute(self, requests):
        """One row a request of the harness, more where a client sends more."""
        rows, vectors = [], None
        texts, images = [], []
        for request in requests:
            text, image = (pb_utils.get_input_tensor_by_name(request, name) for name in ("TEXT", "IMAGE"))
            count = (text or image).as_numpy().shape[0]
            rows.append(count)
            texts += [value[0].decode() for value in text.as_numpy()] if text is not None else []
            images += [value[0] for value in image.as_numpy()] if image is not None else []
        if texts:
            vectors = self.embed_texts(texts)
        if images:
            parts = self.embed_images(images)
            vectors = parts if vectors is None else normalised(0.5 * vectors + 0.5 * parts)
        responses, at = [], 0
        for count in rows:
            tensor = pb_utils.Tensor("VECTOR", np.ascontiguousarray(vectors[at:at + count], np.float32))
            responses.append(pb_utils.InferenceResponse(output_tensors=[tensor]))
            at += count
        return responses

    def embed_texts(self, texts):
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch_fast(texts)]
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        vectors = np.empty((len(ids), 384), np.float32)
        for first in range(0, len(order), TEXT_BATCH):
            chosen = order[first:first + TEXT_BATCH]
            padded = np.zeros((len(chosen), len(ids[chosen[0]])), np.int64)
            mask = np.zeros_like(padded)
            for row, index in enumerate(chosen):
                padded[row, :len(ids[index])] = ids[index]
                mask[row, :len(ids[index])] = 1
            fed = {"input_ids": padded, "attention_mask": mask, "token_type_ids": np.zeros_like(padded)}
            self.text.infer({name: fed[name] for name in self.names})
            vectors[chosen] = self.text.get_output_tensor().data
        return vectors

    def embed_images(self, images):
        self.image.infer({"pixels": np.stack([prepare(data) for data in images])})
        logits = self.image.get_output_tensor().data
        top = np.argpartition(-logits, TOP_CLASSES, axis=1)[:, :TOP_CLASSES]
        weights = np.exp(np.take_along_axis(logits, top, 1) - logits.max(1, keepdims=True))
        return normalised(np.einsum("bk,bkd->bd", weights, self.labels[top]))


def normalised(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
