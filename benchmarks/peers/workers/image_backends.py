"""Image encoders of other libraries, from pixels uint8 [n, 224, 224, 3] to vectors, and Pillow's preparation of a JPEG."""
import io
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

SIZE = 224
CROP_PADDING = 32
TOP_CLASSES = 10
BATCHES = [1, 4, 16]


def prepare(data):
    """EfficientNet-Lite0's crop and size: engine/prepare/image/image_preparer.h has the same lines."""
    from PIL import Image, ImageOps
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    w, h = image.size
    side = max(1, min(w, h) * SIZE // (SIZE + CROP_PADDING))
    left, top = (w - side + 1) // 2, (h - side + 1) // 2
    return np.asarray(image.crop((left, top, left + side, top + side)).resize((SIZE, SIZE), Image.BICUBIC))


def centre(pixels):
    top = (pixels.shape[0] - SIZE) // 2
    return pixels[top:top + SIZE, top:top + SIZE]


class Conse:
    """EfficientNet's logits as a vector of the text space (engine/libtorch/encode/conse_head); of a ViT nothing."""

    def __init__(self, models, network):
        self.labels = np.load(os.path.join(models, "efficientnet/labels.npy")) if network == "efficientnet" else None

    def __call__(self, rows):
        if self.labels is None:
            return rows
        top = np.argpartition(-rows, TOP_CLASSES, axis=1)[:, :TOP_CLASSES]
        weights = np.exp(np.take_along_axis(rows, top, 1) - rows.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        vectors = np.einsum("bk,bkd->bd", weights, self.labels[top])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def slices(count, size):
    return [slice(i, min(i + size, count)) for i in range(0, count, size)]


class Torch:
    def __init__(self, deps, models, threads, network):
        import torch
        from export_models import clip_image, efficientnet
        torch.set_num_threads(threads)
        self.torch = torch
        self.module = efficientnet(deps) if network == "efficientnet" else clip_image(os.path.join(models, "clip-vit-b-32"))
        self.module = self.module.to(memory_format=torch.channels_last)
        self.conse = Conse(models, network)
        self.version = f"torch {torch.__version__}"
        self.settings = [{"batch": batch} for batch in BATCHES]
        self.one = {"batch": 1}

    def encode(self, pixels, batch=4):
        with self.torch.inference_mode():
            return np.concatenate([self.conse(self.module(self.torch.from_numpy(np.ascontiguousarray(pixels[part]))).numpy())
                                   for part in slices(len(pixels), batch)])


class OnnxRuntime:
    def __init__(self, deps, models, threads, network, file):
        import onnxruntime
        self.sessions = {}
        for team in {1, threads}:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = team
            self.sessions[team] = onnxruntime.InferenceSession(os.path.join(models, network, file), options,
                                                               providers=["CPUExecutionProvider"])
        self.conse = Conse(models, network)
        self.pool = ThreadPoolExecutor(threads)
        self.version = f"onnxruntime {onnxruntime.__version__}"
        self.settings = [{"batch": batch, "team": team} for batch in BATCHES for team in sorted({1, threads})]
        self.one = {"batch": 1, "team": threads}

    def encode(self, pixels, batch=1, team=1):
        session = self.sessions[team]
        parts = slices(len(pixels), batch)

        def run(part):
            return self.conse(session.run(None, {"pixels": pixels[part]})[0])

        return np.concatenate(list(self.pool.map(run, parts) if team == 1 and len(parts) > 1 else map(run, parts)))


class OpenVino:
    def __init__(self, deps, models, threads, network, file, precision=None):
        import openvino
        core = openvino.Core()
        model = core.read_model(os.path.join(models, network, file))
        common = {"INFERENCE_NUM_THREADS": threads}
        if precision:
            common["INFERENCE_PRECISION_HINT"] = precision
        many = core.compile_model(model, "CPU", {"PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": threads, **common})
        self.single = core.compile_model(model, "CPU", {"PERFORMANCE_HINT": "LATENCY", **common}).create_infer_request()
        self.queue = openvino.AsyncInferQueue(many, threads)
        self.conse = Conse(models, network)
        self.version = f"openvino {openvino.__version__}, {many.get_property('INFERENCE_PRECISION_HINT').get_type_name()}"
        self.settings = [{"batch": batch} for batch in BATCHES]
        self.one = {"batch": 1}

    def encode(self, pixels, batch=1):
        if len(pixels) == 1:
            self.single.infer({"pixels": pixels})
            return self.conse(self.single.get_output_tensor().data.copy())
        parts = slices(len(pixels), batch)
        results = [None] * len(parts)
        self.queue.set_callback(lambda request, at: results.__setitem__(at, request.get_output_tensor().data.copy()))
        for at, part in enumerate(parts):
            self.queue.start_async({"pixels": pixels[part]}, at)
        self.queue.wait_all()
        return np.concatenate([self.conse(rows) for rows in results])


class Pillow:
    """Decode, crop and resize alone."""

    def __init__(self, deps, models, threads):
        import PIL
        from PIL import features
        self.version = f"Pillow {PIL.__version__}, libjpeg-turbo {features.version('libjpeg_turbo')}"
