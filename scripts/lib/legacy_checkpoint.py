"""Reads a state dict from a .pth file of torch's legacy format (before the zip format), without torch.

A .pth file is a pickle, and a pickle may run any function it names. This reader hands out exactly what a state dict of
dense tensors needs: OrderedDict, the tensor constructor and the storage types below, each mapped to a class of ours.
Whatever else the file names is refused before it can run.

The format (torch/serialization.py, _legacy_load): five pickles one after the other: a magic number, a protocol version,
facts about the writing machine, the object itself with its storages named by persistent ids, and the list of storage
keys; then, for each key, the number of elements (int64) and the elements, little endian.
"""

import collections
import pickle
import struct
from dataclasses import dataclass

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001


class CheckpointError(ValueError):
    """The file is no legacy checkpoint, is damaged, or names something a state dict does not need."""


@dataclass(frozen=True)
class ElementType:
    name: str  # as safetensors spells it
    bytes: int


class Storage:
    """The elements of one or more tensors. `data` is filled once the pickles are read."""

    def __init__(self, element, count):
        self.element = element
        self.count = count
        self.data = b""


@dataclass
class Tensor:
    """A dense tensor: where its elements lie in a storage. Offset and strides count elements."""

    storage: Storage
    offset: int
    shape: tuple
    strides: tuple

    @property
    def element_type(self):
        return self.storage.element

    @property
    def bytes(self):
        return _count(self.shape) * self.element_type.bytes

    def tobytes(self):
        """The elements in row-major order, little endian. A transposed tensor is put in order here."""
        elements = memoryview(self.storage.data).cast(_UNSIGNED_OF_WIDTH[self.element_type.bytes])
        if _is_row_major(self.shape, self.strides):
            return elements[self.offset:self.offset + _count(self.shape)].tobytes()
        *outer_shape, length = self.shape
        *outer_strides, step = self.strides
        starts = [self.offset]
        for extent, stride in zip(outer_shape, outer_strides, strict=True):
            starts = [start + index * stride for start in starts for index in range(extent)]
        span = (length - 1) * step + 1
        return b"".join(elements[start:start + span:step].tobytes() for start in starts)


STORAGE_TYPES = {
    "FloatStorage": ElementType("F32", 4),
    "DoubleStorage": ElementType("F64", 8),
    "HalfStorage": ElementType("F16", 2),
    "BFloat16Storage": ElementType("BF16", 2),
    "LongStorage": ElementType("I64", 8),
    "IntStorage": ElementType("I32", 4),
    "ShortStorage": ElementType("I16", 2),
    "CharStorage": ElementType("I8", 1),
    "ByteStorage": ElementType("U8", 1),
    "BoolStorage": ElementType("BOOL", 1),
}

# memoryview formats that move elements of a width unchanged.
_UNSIGNED_OF_WIDTH = {1: "B", 2: "H", 4: "I", 8: "Q"}


def _count(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def _is_row_major(shape, strides):
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _rebuild_tensor(storage, offset, shape, strides, requires_grad=False, backward_hooks=None, metadata=None):
    """Stands in for torch._utils._rebuild_tensor_v2."""
    del requires_grad, backward_hooks, metadata
    integers = [offset, *shape, *strides]
    if not isinstance(storage, Storage) or any(type(n) is not int or n < 0 for n in integers):
        raise CheckpointError("a tensor is described by something else than a storage and sizes")
    if len(shape) != len(strides) or 0 in shape or 0 in strides:
        raise CheckpointError(f"a tensor of shape {tuple(shape)} and strides {tuple(strides)} is not dense")
    last = offset + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    # No more elements than the storage has: a tensor that repeats elements could claim any amount of memory.
    if last >= storage.count or _count(shape) > storage.count:
        raise CheckpointError(f"a tensor of shape {tuple(shape)} reaches past its storage of {storage.count} elements")
    return Tensor(storage, offset, tuple(shape), tuple(strides))


class _StateDictUnpickler(pickle.Unpickler):
    def __init__(self, file, bytes_in_file):
        super().__init__(file)
        self._bytes_in_file = bytes_in_file
        self.storages = {}

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild_tensor
        if module == "torch" and name in STORAGE_TYPES:
            return STORAGE_TYPES[name]
        raise CheckpointError(f"the file names {module}.{name}, which a state dict does not need")

    def persistent_load(self, pid):
        # ("storage", type, key, device, number of elements, view): views shared parts of storages in torch before 0.4.
        if not isinstance(pid, tuple) or len(pid) != 6 or pid[0] != "storage":
            raise CheckpointError(f"unknown persistent id {pid!r}")
        _, element, key, _, count, view = pid
        if not isinstance(element, ElementType) or type(count) is not int or count < 0 or view is not None:
            raise CheckpointError(f"unknown storage {pid!r}")
        if count * element.bytes > self._bytes_in_file:
            raise CheckpointError(f"storage {key} claims {count} elements, more than the file holds")
        storage = self.storages.setdefault(key, Storage(element, count))
        if (storage.element, storage.count) != (element, count):
            raise CheckpointError(f"storage {key} is described in two ways")
        return storage


def _load(unpickler, what):
    try:
        return unpickler.load()
    except CheckpointError:
        raise
    except Exception as error:  # a damaged pickle raises nearly anything
        raise CheckpointError(f"{what} is damaged: {type(error).__name__}: {error}") from error


def read_state_dict(path):
    """The file's tensors by name, in the file's order. Raises CheckpointError."""
    with open(path, "rb") as file:
        bytes_in_file = file.seek(0, 2)
        file.seek(0)
        if _load(_StateDictUnpickler(file, bytes_in_file), "the magic number") != MAGIC:
            raise CheckpointError(f"{path} is no legacy torch checkpoint")
        if _load(_StateDictUnpickler(file, bytes_in_file), "the protocol version") != PROTOCOL:
            raise CheckpointError(f"{path} has an unknown protocol version")
        machine = _load(_StateDictUnpickler(file, bytes_in_file), "the machine's description")
        if not isinstance(machine, dict) or machine.get("little_endian") is not True:
            raise CheckpointError(f"{path} was not written on a little-endian machine")
        unpickler = _StateDictUnpickler(file, bytes_in_file)
        tensors = _load(unpickler, "the state dict")
        if not isinstance(tensors, dict) or not all(
                isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in tensors.items()):
            raise CheckpointError(f"{path} holds something else than named tensors")
        keys = _load(_StateDictUnpickler(file, bytes_in_file), "the list of storages")
        if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(map(str, unpickler.storages)):
            raise CheckpointError(f"{path} lists other storages than its tensors use")
        for key in keys:
            storage = unpickler.storages[key]
            head = file.read(8)
            if len(head) != 8 or struct.unpack("<q", head)[0] != storage.count:
                raise CheckpointError(f"storage {key} is not as long as its tensors say")
            storage.data = file.read(storage.count * storage.element.bytes)
            if len(storage.data) != storage.count * storage.element.bytes:
                raise CheckpointError(f"{path} ends within storage {key}")
        if file.read(1):
            raise CheckpointError(f"{path} goes on after its last storage")
    return tensors
