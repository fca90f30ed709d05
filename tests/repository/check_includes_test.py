"""Tests of check_includes.py on small trees of its own: it must fail when an arrow is broken."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("check_includes.py")

ALLOWED = {
    "engine/base/clock.h": "<chrono>",
    "engine/api/types.h": '"engine/base/clock.h"',
    "engine/lane/lane.h": '"engine/schedule/batch.h"',
    "engine/pipeline/flow.cc": '"engine/lane/lane.h"',
    "engine/libtorch/encode/bert.cc": "<ATen/ATen.h>",
    "server/embed_service.cc": '"tributary/v1/embedding_service.pb.h"',
    "server/main.cc": '"engine/libtorch/engine_factory.h"',
    "benchmarks/client/main.cc": '"tributary/v1/embedding_service.grpc.pb.h"',
    "tests/server/x_test.cc": '"server/embed_service.h"',
}

BROKEN = {
    "engine/base/a.h": '"engine/api/types.h"',
    "engine/api/a.h": '"engine/queue/work_item.h"',
    "engine/queue/a.h": '"engine/schedule/batch.h"',
    "engine/admission/a.h": '"engine/queue/work_item.h"',
    "engine/prepare/text/a.cc": '"engine/queue/modality_queue.h"',
    "engine/schedule/a.cc": '"engine/lane/lane.h"',
    "engine/lane/a.cc": '"engine/schedule/batch_scheduler.h"',
    "engine/fuse/a.cc": '"engine/pipeline/pipeline.h"',
    "engine/pipeline/a.cc": '"engine/libtorch/engine_factory.h"',
    "engine/lane/b.cc": "<c10/core/ScalarType.h>",
    "engine/lane/c.cc": "<cuda_runtime.h>",
    "engine/pipeline/b.cc": "<prometheus/counter.h>",
    "engine/libtorch/a.cc": "<grpcpp/grpcpp.h>",
    "engine/api/b.h": '"google/protobuf/message.h"',
    "engine/base/b.h": "<spdlog/spdlog.h>",
    "engine/api/c.h": '"tributary/v1/embedding_service.pb.h"',
    "engine/brand_new/a.h": '"engine/api/types.h"',
    "engine/lane/d.cc": '"tests/support/fake_device.h"',
    "server/grpc_server.cc": '"engine/libtorch/engine_factory.h"',
    "server/main.cc": '"engine/libtorch/encode/bert.h"',
    "server/a.cc": '"engine/pipeline/pipeline.h"',
    "server/b.cc": "<torch/torch.h>",
    "benchmarks/client/main.cc": '"engine/api/types.h"',
    "tests/server/x_test.cc": "<ATen/ATen.h>",
}


def run_on(files):
    with tempfile.TemporaryDirectory() as root:
        for name, header in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"// A file.\n#include {header}\n", encoding="utf-8")
        return subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)


class CheckIncludes(unittest.TestCase):
    def test_a_tree_that_keeps_to_the_arrows_passes(self):
        result = run_on(ALLOWED)
        self.assertEqual((result.returncode, result.stdout), (0, "all arrows are one-way\n"))

    def test_each_broken_arrow_fails_and_is_named_with_file_and_line(self):
        for name, header in BROKEN.items():
            with self.subTest(name=name, header=header):
                result = run_on({**ALLOWED, name: header})
                self.assertEqual(result.returncode, 1)
                self.assertEqual(len(result.stdout.splitlines()), 1, result.stdout)
                self.assertIn(f"{name}:2: includes {header[1:-1]}: ", result.stdout)


if __name__ == "__main__":
    unittest.main()
