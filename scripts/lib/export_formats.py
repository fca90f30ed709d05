"""The two formats of export_model.py: making a module file, and running it against the eager model."""

import ctypes
import logging
import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

# What export and eager may differ by: rounding in another order. The cosine is of each input's vectors, flattened.
LEAST_COSINE = {"fp32": 0.99999, "bf16": 0.999, "fp16": 0.999}


class ExportError(Exception):
    """Said to the user as it is."""


@dataclass
class Worst:
    difference: float = 0.0
    cosine: float = 1.0
    runs: int = 0


def randomise(model, seed):
    """Weights that make every part matter: start values leave biases, norms and some branches without effect."""
    generator = torch.Generator().manual_seed(seed)
    means = [tensor for name, tensor in model.named_buffers() if name.endswith("running_mean")]
    with torch.no_grad():
        for tensor in [*model.parameters(), *means]:
            noise = torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
            if tensor.dim() < 2:
                tensor.add_(0.15 * noise)
            else:
                tensor.copy_(noise / math.sqrt(tensor[0].numel()))
    return model


def export(source, options, folder):
    """Writes the module into `folder`, returns the file's name."""
    for logger in ("torch._inductor", "torch.utils.cpp_extension"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options.format == "torchscript":
            return trace(source, folder)
        return compile_package(source, options, folder)


def trace(source, folder):
    module = torch.jit.trace(source.module, source.example(), strict=False, check_trace=False)
    torch.jit.freeze(module.eval()).save(str(folder / "model.pt"))
    return "model.pt"


def compile_package(source, options, folder):
    program = with_fallback(source, options, lambda: torch.export.export(
        source.module, source.example(), dynamic_shapes=source.dynamic_shapes()))
    # Not linked to libtorch.so, which is an empty library that brings all of CUDA: the server, which has what it stands
    # for, finds it there already.
    configuration = {"aot_inductor.link_libtorch": False}
    if options.device == "cpu":
        configuration["cpp.threads"] = 1  # lanes bring the parallelism
    torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "model.pt2"),
                                             inductor_configs=configuration)
    return "model.pt2"


def with_fallback(source, options, attempt):
    try:
        return attempt()
    except Exception as error:  # torch.export raises many kinds
        if options.attention != "auto" or not source.use_eager_attention():
            raise ExportError(f"the model cannot be exported: {error}") from error
        print("export: this attention cannot be exported; trying again with eager attention")
    try:
        return attempt()
    except Exception as error:
        raise ExportError(f"the model cannot be exported, with eager attention either: {error}") from error


def load(options, path):
    if options.format == "aoti":
        for name in ("c10", "torch_cpu", *(("c10_cuda", "torch_cuda") if options.device == "cuda" else ())):
            # Python has them, but not where a library that does not name them would look.
            ctypes.CDLL(str(Path(torch.__file__).parent / f"lib/lib{name}.so"), mode=ctypes.RTLD_GLOBAL)
        return torch._inductor.aoti_load_package(str(path))
    return torch.jit.load(str(path), map_location=options.device)


def verify(source, options, path):
    """Runs both on batches of many shapes: a dimension that was baked in, or a mask that was traced away, shows."""
    module = load(options, path)
    worst = Worst()
    with torch.no_grad():
        for inputs, keep in source.trials():
            expected = source.module(*inputs)
            try:
                found = module(*inputs)
            except Exception as error:
                shapes = [list(part.shape) for part in inputs]
                raise ExportError(f"the export fails on inputs of {shapes}: {error}") from error
            if isinstance(found, (list, tuple)):
                found = found[0]
            shape = [list(part.shape) for part in inputs]
            if found.shape != expected.shape or found.dtype != expected.dtype:
                raise ExportError(f"on inputs of {shape} the export gives {found.dtype} {list(found.shape)}, "
                                  f"the model {expected.dtype} {list(expected.shape)}")
            compare(keep(expected), keep(found), options.dtype, shape, worst)
            worst.runs += 1
    return worst


def compare(expected, found, dtype, shape, worst):
    for one, other in zip(expected, found, strict=True):
        one, other = one.double().flatten(), other.double().flatten()
        if not torch.isfinite(other).all():
            raise ExportError(f"on inputs of {shape} the export gives numbers that are not finite")
        both_zero = not one.any() and not other.any()
        cosine = 1.0 if both_zero else torch.nn.functional.cosine_similarity(one, other, dim=0).item()
        worst.difference = max(worst.difference, (one - other).abs().max().item())
        worst.cosine = min(worst.cosine, cosine)
        if cosine < LEAST_COSINE[dtype]:
            raise ExportError(f"on inputs of {shape} the export differs from the model: cosine {cosine:.6f}, "
                              f"at least {LEAST_COSINE[dtype]} is asked for")
