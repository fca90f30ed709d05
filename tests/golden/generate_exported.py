#!/usr/bin/env python3
"""Makes the goldens of exported models: tests/golden/exported/, tiny TorchScript modules with their manifests.

text/       ids, mask, positions, types -> (token states, vectors); golden.json: ids, and what PyTorch makes of them
named/      the same states in a dictionary
image/      f32 pixels -> vectors; golden.json: vectors of pixel i = i * 97 % 251
custom_op/  uses the operator of tests/engine/libtorch/exported_test_op.cc
wrong/      modules that do not do what a manifest says; tests write the manifests
versions.json says by what. Needs torch.
"""
import json
import os

import torch

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "exported")
WORDS = ("[PAD] [UNK] [CLS] [SEP] [MASK] a cat looks at the camera dog sees rocket on launch pad cup of coffee red "
         "blue").split()
VOCABULARY = 32
MAX_TOKENS = 64
WIDTH = 8
LENGTHS = (1, 2, 8, 17, 63, 64)
SIDE = 16
POOLED = {
    "mean": lambda states: states.mean(0), "cls": lambda states: states[0], "lasttoken": lambda states: states[-1],
    "max": lambda states: states.max(0).values,
}


class Text(torch.nn.Module):
    """A token's state depends on all tokens of its text, and on none of the padding."""

    def __init__(self):
        super().__init__()
        self.word = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.position = torch.nn.Embedding(MAX_TOKENS, WIDTH)
        self.kind = torch.nn.Embedding(2, WIDTH)
        self.mix = torch.nn.Linear(2 * WIDTH, WIDTH)

    def states(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, types: torch.Tensor):
        x = self.word(ids) + self.position(positions) + self.kind(types)
        weights = mask.to(x.dtype).unsqueeze(2)
        mean = (x * weights).sum(1, keepdim=True) / weights.sum(1, keepdim=True)
        return torch.tanh(self.mix(torch.cat([x, mean.expand_as(x)], 2)))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, types: torch.Tensor):
        states = self.states(ids, mask, positions, types)
        weights = mask.to(states.dtype).unsqueeze(2)
        return states, (states * weights).sum(1) / weights.sum(1)


class Named(Text):
    def forward(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, types: torch.Tensor):
        return {"last_hidden_state": self.states(ids, mask, positions, types), "mask": mask}


class Image(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 4, 3, stride=2)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, WIDTH)

    def vectors(self, pixels: torch.Tensor):
        return self.head(torch.relu(self.norm(self.stem(pixels))).mean([2, 3]))

    def forward(self, pixels: torch.Tensor):
        return self.vectors(pixels)


class StaticBatch(Image):
    def forward(self, pixels: torch.Tensor):
        return self.vectors(pixels).reshape(3, -1)


class NotFinite(Image):
    def forward(self, pixels: torch.Tensor):
        return self.vectors(pixels) / pixels.sum().mul(0)


class Half(Image):
    def forward(self, pixels: torch.Tensor):
        return self.vectors(pixels).half()


class Maskless(torch.nn.Module):
    """As if traced over texts without padding."""

    def __init__(self):
        super().__init__()
        self.word = torch.nn.Embedding(VOCABULARY, WIDTH)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor):
        return self.word(ids).mean(1)


class CustomOp(Image):
    def forward(self, pixels: torch.Tensor):
        return torch.ops.tributary_test.scale(self.vectors(pixels), 2.0)


def made(module, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in list(module.named_parameters()) + list(module.named_buffers()):
            if tensor.is_floating_point():
                noise = torch.randn(tensor.shape, generator=generator)
                tensor.copy_(noise.abs() + 0.5 if "running_var" in name else noise * 0.5)
    return module.eval()


def script(module, name):
    path = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    torch.jit.script(module).save(path)
    print(f"{name}: {os.path.getsize(path)} bytes")


def write(name, value):
    path = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as out:
        out.write(value if isinstance(value, str) else json.dumps(value, indent=1) + "\n")


def text_files(folder, output):
    roles = ("ids", "attention_mask", "position_ids", "token_type_ids")
    write(f"{folder}/tributary.json", {
        "format": 1, "kind": "text",
        "module": {"file": "model.pt", "type": "torchscript", "device": "cpu", "dtype": "fp32", "parameter_count": 920},
        "inputs": [{"role": role, "dtype": "int64"} for role in roles],
        "output": {"dtype": "float32", "dimension": WIDTH, **output},
        "batch": {"max": 16}, "length": {"max": MAX_TOKENS}, "vocabulary_size": VOCABULARY, "pad_id": 0,
        "pooling": ["mean"], "normalise": True})
    write(f"{folder}/config.json", {"vocab_size": VOCABULARY, "max_position_embeddings": MAX_TOKENS})
    write(f"{folder}/vocab.txt", "\n".join(WORDS) + "\n")
    write(f"{folder}/tokenizer_config.json", {"model_max_length": MAX_TOKENS})


def image_files(folder, **module):
    write(f"{folder}/tributary.json", {
        "format": 1, "kind": "image",
        "module": {"file": "model.pt", "type": "torchscript", "device": "cpu", "dtype": "fp32", **module},
        "inputs": [{"role": "pixels", "dtype": "float32"}],
        "output": {"holds": "vectors", "index": 0, "dtype": "float32", "dimension": WIDTH},
        "batch": {"max": 16}, "image": {"size": SIDE, "layout": "nchw"}})
    write(f"{folder}/preprocessor_config.json", {
        "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
        "image_mean": [0.5, 0.25, 0.125], "image_std": [0.25, 0.5, 0.75]})


def image_golden(module):
    pixels = torch.tensor([i * 97 % 251 for i in range(SIDE * SIDE * 3)]).reshape(SIDE, SIDE, 3).float()
    values = (pixels / 255 - torch.tensor([0.5, 0.25, 0.125])) / torch.tensor([0.25, 0.5, 0.75])
    return module(values.permute(2, 0, 1).unsqueeze(0))[0].tolist()


def main():
    torch.set_num_threads(1)
    # So that TorchScript knows the operator; the server gets it from the test's own library.
    torch.library.define("tributary_test::scale", "(Tensor x, float factor) -> Tensor")
    torch.library.impl("tributary_test::scale", "default", lambda x, factor: x * factor)
    text, image = made(Text(), 1), made(Image(), 2)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        ids = [torch.randint(0, VOCABULARY, (length,), generator=generator) for length in LENGTHS]
        states = [text(one[None], torch.ones(1, len(one), dtype=torch.long), torch.arange(len(one))[None],
                       torch.zeros(1, len(one), dtype=torch.long))[0][0] for one in ids]
        script(text, "text/model.pt")
        text_files("text", {"holds": "token_states", "index": 0})
        write("text/golden.json", {"ids": [one.tolist() for one in ids],
                                   **{name: [pool(one).tolist() for one in states] for name, pool in POOLED.items()}})
        named = Named().eval()
        named.load_state_dict(text.state_dict())
        script(named, "named/model.pt")
        text_files("named", {"holds": "token_states", "name": "last_hidden_state"})
        script(image, "image/model.pt")
        image_files("image", parameter_count=148)
        write("image/golden.json", {"vector": image_golden(image)})
        custom = CustomOp().eval()
        custom.load_state_dict(image.state_dict())
        script(custom, "custom_op/model.pt")
        image_files("custom_op", libraries=["libtributary_test_ops.so"])
    for name, module in {"static_batch": StaticBatch(), "not_finite": NotFinite(), "half": Half(),
                         "maskless": Maskless()}.items():
        script(made(module, 4), f"wrong/{name}.pt")
    write("versions.json", json.dumps({"torch": torch.__version__}) + "\n")


if __name__ == "__main__":
    main()
