"""The quickstart's server and client, without its set-up and build: the real program, the default config and models."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEPS = Path(os.environ["TRIBUTARY_DEPS"])
sys.path.append(str(ROOT / "tests/support"))
from server_process import ServerProcess  # noqa: E402: found by the line above


class QuickstartTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        stubs = self.folder / "stubs"
        stubs.mkdir()
        protos = DEPS / "protos"
        subprocess.run([os.environ["TRIBUTARY_PROTOC"], f"--proto_path={ROOT / 'proto'}", f"--proto_path={protos}",
                        f"--python_out={stubs}", ROOT / "proto/tributary/v1/embedding_service.proto",
                        protos / "google/rpc/status.proto"], check=True)

    def start(self, program):
        server = ServerProcess(program, ROOT / "config/tributary.yaml", self.folder)
        self.addCleanup(server.kill)
        return server

    def run_script(self, name, *arguments):
        return subprocess.run([DEPS / "python/bin/python", ROOT / "scripts/lib" / name, *arguments],
                              env={**os.environ, "PYTHONPATH": str(self.folder / "stubs"),
                                   "PYTHONDONTWRITEBYTECODE": "1"},
                              capture_output=True, text=True, check=False)

    def client(self, server):
        return self.run_script("quickstart_client.py", server.address, DEPS / "photos")

    def test_each_photo_is_nearest_to_its_own_caption_and_the_server_ends_cleanly(self):
        server = self.start(os.environ["TRIBUTARY_SERVER"])
        health = subprocess.run([os.environ["TRIBUTARY_SERVER"], "--check-health", server.address],
                                capture_output=True, text=True, check=False)
        self.assertEqual((health.returncode, health.stdout), (0, "SERVING\n"))

        done = self.client(server)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for photo, caption in (("chelsea.png", "a cat looking at the camera"),
                               ("coffee.png", "a cup of coffee on a saucer"), ("rocket.jpg", "a rocket on its launch pad")):
            self.assertRegex(done.stdout, rf"(?m)^  {photo} +{caption} ")

        with urllib.request.urlopen(f"http://{server.metrics_address}/metrics", timeout=30) as answer:
            self.assertIn("tributary_", answer.read().decode())
        self.assertEqual(server.stop(), 0, server.log.read_text())

    def test_a_vector_comes_back_in_every_encoding_and_a_size_the_model_lacks_is_refused(self):
        server = self.start(os.environ["TRIBUTARY_SERVER"])

        def embed(*arguments):
            return self.run_script("embed_client.py", "a cat", "--address", server.address, *arguments)

        def vector(encoding):
            done = embed("--encoding", encoding)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return json.loads(done.stdout)["embedding"]

        exact = vector("float32")
        printed = 1e-6  # the script rounds to six places
        for number, half, byte, sign in zip(exact, vector("float16"), vector("int8"), vector("binary"), strict=True):
            self.assertAlmostEqual(half, number, delta=abs(number) / 2048 + printed)
            self.assertAlmostEqual(byte, number, delta=max(map(abs, exact)) / 127 / 2 + printed)
            if abs(number) > printed:
                self.assertEqual(sign, 1 if number > 0 else -1)

        refused = embed("--dimensions", "100")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("INVALID_ARGUMENT: dimensions is 100, model 'minilm' gives 384 only", refused.stderr)
        self.assertIn("model 'minilm' has no prompts", embed("--prompt", "query").stderr)
        self.assertEqual(server.stop(), 0, server.log.read_text())

    def test_vectors_that_mean_nothing_make_the_client_fail_and_name_the_photo(self):
        server = self.start(os.environ["TRIBUTARY_FAKE_SERVER"])
        done = self.client(server)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "is nearest to '.*', not to '.*'")
        self.assertEqual(server.stop(), 0, server.log.read_text())


if __name__ == "__main__":
    unittest.main()
