"""cmake --install makes a tree that can be moved: its programs find their libraries and files in it, and nowhere else."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class InstalledTreeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir=os.getcwd())  # a build folder has room for LibTorch
        cls.addClassCleanup(folder.cleanup)
        first = Path(folder.name) / "first"
        subprocess.run([os.environ["TRIBUTARY_CMAKE"], "--install", os.environ["TRIBUTARY_BUILD"], "--prefix", first],
                       stdout=subprocess.DEVNULL, check=True)
        cls.tree = first.rename(Path(folder.name) / "elsewhere")

    def run_program(self, name, *arguments):
        environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
        return subprocess.run([self.tree / "bin" / name, *arguments], env=environment, capture_output=True, text=True,
                              check=False)

    def test_the_server_runs_on_the_libraries_of_its_tree(self):
        version = self.run_program("tributary-server", "--version")
        self.assertEqual(version.returncode, 0, version.stderr)
        self.assertRegex(version.stdout, r"\(LibTorch 2\.")
        found = subprocess.run(["ldd", self.tree / "bin/tributary-server"], capture_output=True, text=True, check=True,
                               env={"PATH": os.environ["PATH"]}).stdout
        libraries = dict(re.findall(r"(lib(?:torch|c10|cu)\S*) => (.*?)(?: \(0x|\n)", found))
        self.assertIn("libtorch_cpu.so", libraries)
        for name, path in libraries.items():
            self.assertEqual(Path(path).resolve().parent, (self.tree / "lib/tributary").resolve(), name)

    def test_the_server_finds_the_installed_configuration_and_labels(self):
        check = self.run_program("tributary-server", "--check-config")
        self.assertEqual(check.returncode, 0, check.stderr)
        labels = self.tree / "share/tributary/config/imagenet-1k-labels.txt"
        self.assertIn(str(labels), check.stdout)
        self.assertTrue(labels.is_file())

    def test_the_bench_client_takes_its_words_from_the_installed_corpus(self):
        corpus = self.tree / "share/tributary/corpus.txt"
        self.assertEqual(corpus.read_bytes(), (ROOT / "benchmarks/client/corpus.txt").read_bytes())
        corpus.write_bytes(b"")
        done = self.run_program("tributary-bench", "--target=127.0.0.1:1")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, f"tributary-bench: corpus '{corpus}' has no words or is missing\n")


if __name__ == "__main__":
    unittest.main()
