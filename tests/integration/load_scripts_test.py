"""benchmarks/scripts against a running server over the fake model, for tenths of a second instead of minutes.

As closed loops: that a machine under test holds a rate is not what is tested here.
"""

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/support"))
from server_process import ServerProcess  # noqa: E402: found by the line above

# With this seed every kind is among the first eight calls of the scripts' mix.
SHORT = ["--rate=0", "--concurrency=8", "--duration=0.3", "--seed=4", "--warmup=0", "--slo=600000", "--deadline=600",
         "--image-sizes=32x32"]


class GrowingMemory(http.server.BaseHTTPRequestHandler):
    """A metrics page on which the server's memory grows by `step` bytes with every look."""

    memory = 0
    step = 0

    def do_GET(self):
        type(self).memory += self.step
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"process_resident_memory_bytes {self.memory}\n".encode())

    def log_message(self, *_):
        pass


class LoadScriptsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        config = Path(folder.name) / "config.yaml"
        config.write_text("models:\n  - name: fake\n    text: {folder: unused}\n")
        cls.server = ServerProcess(os.environ["TRIBUTARY_FAKE_SERVER"], config, Path(folder.name))
        cls.addClassCleanup(cls.server.kill)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def script(self, name, *arguments, metrics="", flags=(), bench=os.environ["TRIBUTARY_BENCH"]):
        return subprocess.run(
            [ROOT / "benchmarks/scripts" / name, "--target", self.server.address, "--out", self.out, "--metrics", metrics,
             *arguments, "--", *SHORT, *flags],
            env={**os.environ, "TRIBUTARY_BENCH": str(bench)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False)

    def passes(self, name, *arguments, **more):
        done = self.script(name, *arguments, **more)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def result(self, name):
        return json.loads((self.out / f"{name}.json").read_text())

    def kinds(self, name):
        return set(self.result(name)["result"]["kinds"])

    def bench_that_fails(self, pattern):
        """The bench, but a run with a flag like this ends with 3 after its table."""
        program = self.out / "bench"
        program.write_text(f'#!/bin/sh\n"{os.environ["TRIBUTARY_BENCH"]}" "$@" || exit\n'
                           f'case "$*" in *{pattern}*) exit 3 ;; esac\n')
        program.chmod(0o755)
        return program

    def test_smoke_calls_every_rpc_with_every_kind(self):
        out = self.passes("smoke", metrics=self.server.metrics_address)
        self.assertIn("smoke: every kind answers", out)
        for kind, rpc in (("text", "EmbedText"), ("image", "EmbedImage"), ("pair", "EmbedPair"),
                          ("batch", "EmbedText"), ("stream", "EmbedStream")):
            metrics = self.result(f"smoke-{kind}")["server_metrics"]
            started = f'tributary_rpc_started_total{{method="{rpc}"}}'
            self.assertGreater(metrics["after"][started], metrics["before"][started], rpc)
        self.assertEqual(self.kinds("smoke-stream"), {"text", "image", "pair"})

    def test_smoke_fails_with_the_first_error(self):
        done = self.script("smoke", flags=["--model=unknown"])
        self.assertNotEqual(done.returncode, 0)  # 1, or 3 where the bench gives up first
        self.assertIn("FAILED: error_ratio is 1, above 0", done.stdout)
        self.assertNotIn("every kind answers", done.stdout)

    def test_ramp_ends_at_the_first_rate_that_is_not_good(self):
        done = self.script("ramp", bench=self.bench_that_fails("ramp-20"))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("ramp: good up to 10 calls/s", done.stdout)
        self.assertFalse((self.out / "ramp-40.json").exists())

        none = self.script("ramp", bench=self.bench_that_fails("ramp-5"))
        self.assertEqual(none.returncode, 1, none.stdout)
        self.assertIn("ramp: good up to 0 calls/s", none.stdout)

    def test_soak_sends_every_kind_and_watches_the_memory(self):
        for growth, code in ((0, 0), (100, 1)):
            class Page(GrowingMemory):
                memory = 100
                step = growth
            with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as page:
                thread = threading.Thread(target=page.serve_forever)
                thread.start()
                done = self.script("soak", "--minutes", "2", metrics=f"127.0.0.1:{page.server_port}")
                page.shutdown()
                thread.join()
            self.assertEqual(done.returncode, code, done.stdout)
            self.assertIn("soak: server memory", done.stdout)
        self.assertEqual(self.kinds("soak"), {"text", "image", "pair"})

        failed = self.script("soak", "--minutes", "2", flags=["--model=unknown"])
        self.assertNotEqual(failed.returncode, 0)
        self.assertIn("FAILED: error_ratio is 1, above 0.001", failed.stdout)
        self.assertNotEqual(self.script("soak", "--minutes", "0").returncode, 0)

    def test_mixed_shows_the_bulk_work_and_fails_with_it(self):
        out = self.passes("mixed")
        self.assertEqual(self.kinds("mixed-alone"), {"text", "image", "pair"})
        self.assertEqual(self.kinds("mixed-beside-bulk"), {"text", "image", "pair"})
        bulk = self.result("mixed-bulk")
        self.assertEqual((bulk["config"]["bulk"], bulk["config"]["stream"], bulk["exit_code"]), (True, True, 0))
        self.assertIn((self.out / "mixed-bulk.txt").read_text(), out)

        for pattern in ("--bulk", "mixed-beside"):
            done = self.script("mixed", bench=self.bench_that_fails(pattern))
            self.assertEqual(done.returncode, 3, done.stdout)
            self.assertIn((self.out / "mixed-bulk.txt").read_text(), done.stdout)

    def test_a_script_without_a_target_says_how_it_is_called(self):
        for name in ("smoke", "ramp", "soak", "mixed"):
            done = subprocess.run([ROOT / "benchmarks/scripts" / name], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"usage: {name} --target HOST:PORT", done.stderr)


if __name__ == "__main__":
    unittest.main()
