"""The reader that turns a .pth file into safetensors: right numbers, and nothing of the file's is ever run."""

import collections
import hashlib
import io
import json
import os
import pickle
import struct
import sys
import tempfile
import types
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import legacy_checkpoint  # noqa: E402
import safetensors_file  # noqa: E402


class _FakeStorage:
    """A storage as torch's pickler sees it: written as a persistent id."""

    def __init__(self, kind, key, fmt, values):
        self.kind, self.key, self.count = kind, key, len(values)
        self.data = struct.pack(f"<{len(values)}{fmt}", *values)
        self.claimed = self.count


class _FakeTensor:
    def __init__(self, storage, offset, shape, strides):
        self.arguments = (storage, offset, shape, strides, False, collections.OrderedDict())

    def __reduce__(self):
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.arguments


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        if isinstance(obj, _FakeStorage):
            return ("storage", getattr(sys.modules["torch"], obj.kind), obj.key, "cpu", obj.claimed, None)
        return None


def _fake_torch():
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in ("FloatStorage", "LongStorage", "QUInt8Storage"):
        setattr(torch, name, type(name, (), {"__module__": "torch"}))

    def _rebuild_tensor_v2():
        pass

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    return {"torch": torch, "torch._utils": utils}


def _pickled(obj):
    out = io.BytesIO()
    _Pickler(out, protocol=2).dump(obj)
    return out.getvalue()


HEAD = (_pickled(legacy_checkpoint.MAGIC) + _pickled(legacy_checkpoint.PROTOCOL) +
        _pickled({"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}))


def _tail(storages):
    return _pickled([s.key for s in storages]) + b"".join(struct.pack("<q", s.count) + s.data for s in storages)


class LegacyCheckpointTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "model.pth"
        saved = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
        sys.modules.update(_fake_torch())

        def restore():
            for name, module in saved.items():
                if module is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = module
        self.addCleanup(restore)

    def read(self, content):
        self.path.write_bytes(content)
        return legacy_checkpoint.read_state_dict(self.path)

    def assert_refused(self, content, pattern):
        with self.assertRaisesRegex(legacy_checkpoint.CheckpointError, pattern):
            self.read(content)

    def checkpoint(self, tensors, storages):
        return HEAD + _pickled(collections.OrderedDict(tensors)) + _tail(storages)

    def test_tensors_come_back_with_their_names_types_shapes_and_numbers(self):
        floats = _FakeStorage("FloatStorage", "1", "f", [9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        longs = _FakeStorage("LongStorage", "2", "q", [7])
        tensors = self.read(self.checkpoint({
            "weight": _FakeTensor(floats, 1, (2, 3), (3, 1)), "count": _FakeTensor(longs, 0, (), ())}, [floats, longs]))
        self.assertEqual(list(tensors), ["weight", "count"])
        self.assertEqual((tensors["weight"].shape, tensors["weight"].element_type.name), ((2, 3), "F32"))
        self.assertEqual(struct.unpack("<6f", tensors["weight"].tobytes()), (1, 2, 3, 4, 5, 6))
        self.assertEqual(struct.unpack("<q", tensors["count"].tobytes()), (7,))

    def test_a_transposed_tensor_is_put_in_row_major_order(self):
        floats = _FakeStorage("FloatStorage", "1", "f", [float(n) for n in range(24)])
        tensors = self.read(self.checkpoint({"t": _FakeTensor(floats, 0, (4, 3, 2), (1, 4, 12))}, [floats]))
        expected = tuple(i + 4 * j + 12 * k for i in range(4) for j in range(3) for k in range(2))
        self.assertEqual(struct.unpack("<24f", tensors["t"].tobytes()), expected)

    def test_the_safetensors_file_holds_the_same_tensors_aligned(self):
        floats = _FakeStorage("FloatStorage", "1", "f", [1.0, 2.0, 3.0])
        longs = _FakeStorage("LongStorage", "2", "q", [7])
        tensors = self.read(self.checkpoint({
            "b": _FakeTensor(floats, 0, (3,), (1,)), "a": _FakeTensor(longs, 0, (), ())}, [floats, longs]))
        target = self.path.with_suffix(".safetensors")
        safetensors_file.write(target, tensors)
        content = target.read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + length])
        self.assertEqual(length % 8, 0)
        self.assertEqual(header, {"a": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]},
                                  "b": {"dtype": "F32", "shape": [3], "data_offsets": [8, 20]}})
        self.assertEqual(content[8 + length:], struct.pack("<q3f", 7, 1, 2, 3))

    def test_a_file_that_names_a_function_is_refused_and_the_function_does_not_run(self):
        marker = self.path.with_name("ran")

        class Hostile:
            def __reduce__(self):
                return os.system, (f"touch {marker}",)

        for content in (_pickled(Hostile()), HEAD + _pickled({"weight": Hostile()}),
                        HEAD + pickle.dumps({"weight": Hostile()}, protocol=4),
                        HEAD + _pickled({}) + _pickled([Hostile()])):
            self.assert_refused(content, "system, which a state dict does not need")
        self.assertFalse(marker.exists())

    def test_builtins_and_other_parts_of_torch_are_refused(self):
        for module, name in (("builtins", "eval"), ("builtins", "getattr"), ("collections", "Counter"),
                             ("torch", "load"), ("torch", "QUInt8Storage"), ("torch._utils", "_rebuild_parameter")):
            content = f"c{module}\n{name}\n.".encode()
            self.assert_refused(HEAD + content, f"{module}.{name}, which a state dict does not need")

    def test_a_dotted_name_reaches_nothing_inside_an_allowed_class(self):
        content = pickle.PROTO + b"\x04" + b"\x8c\x0bcollections\x8c\x12OrderedDict.__init\x93."
        self.assert_refused(HEAD + content, "which a state dict does not need")

    def test_a_tensor_that_reaches_past_or_repeats_its_storage_is_refused(self):
        floats = _FakeStorage("FloatStorage", "1", "f", [1.0, 2.0, 3.0, 4.0])
        for offset, shape, strides in ((1, (2, 2), (2, 1)), (0, (2, 2), (4, 1)), (5, (), ()), (0, (1 << 40,), (0,)),
                                       (0, (2, 2, 2), (1, 1, 1))):
            content = self.checkpoint({"t": _FakeTensor(floats, offset, shape, strides)}, [floats])
            self.assert_refused(content, "reaches past its storage|is not dense")
        content = self.checkpoint({"t": _FakeTensor(floats, -1, (2,), (1,))}, [floats])
        self.assert_refused(content, "something else than a storage and sizes")

    def test_a_storage_larger_than_the_file_is_refused_before_memory_is_taken(self):
        floats = _FakeStorage("FloatStorage", "1", "f", [1.0])
        floats.claimed = 1 << 50
        self.assert_refused(self.checkpoint({"t": _FakeTensor(floats, 0, (1,), (1,))}, [floats]), "more than the file")

    def test_every_truncation_and_anything_after_the_end_is_refused(self):
        floats = _FakeStorage("FloatStorage", "1", "f", [1.0, 2.0])
        content = self.checkpoint({"t": _FakeTensor(floats, 0, (2,), (1,))}, [floats])
        self.assertEqual(len(self.read(content)), 1)
        for length in range(len(content)):
            self.assert_refused(content[:length], "damaged|ends within|is not as long")
        self.assert_refused(content + b"x", "goes on after")

    def test_another_format_is_refused(self):
        self.assert_refused(b"PK\x03\x04" + bytes(100), "damaged|no legacy torch checkpoint")
        self.assert_refused(_pickled(1), "no legacy torch checkpoint")


@unittest.skipUnless("TRIBUTARY_DEPS" in os.environ, "needs the dependency folder")
class DefaultImageModelTest(unittest.TestCase):
    def test_the_converted_default_model_is_what_torch_and_safetensors_make_of_it(self):
        # SHA-256 of safetensors.torch.save_file(torch.load(pth), path) with torch 2.11.0 and safetensors 0.8.0.
        model = Path(os.environ["TRIBUTARY_DEPS"]) / "models" / "efficientnet-lite0" / "model.safetensors"
        self.assertEqual(hashlib.sha256(model.read_bytes()).hexdigest(), "f46ec1c3cb680f7b6e592fd971a28f301ca2deef2db22f51ce7d8e69c6b5d28e")


if __name__ == "__main__":
    unittest.main()
