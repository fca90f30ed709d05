"""Set-up's bookkeeping: hashes, files left alone or replaced whole, manifests; and its messages where it cannot go on."""

import hashlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from contextlib import redirect_stdout
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

from dependencies import (  # noqa: E402
    CUDA_COMPILER_ITEMS, CUDA_ITEM, CUDA_RUNTIME_ITEMS, DEV_ITEMS, ITEMS, Manifest, PYTHON_PACKAGES)
from progress import Step  # noqa: E402
from wheels import Lock, SetupError, download, place  # noqa: E402


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.said = io.StringIO()
        redirection = redirect_stdout(self.said)
        redirection.__enter__()
        self.addCleanup(redirection.__exit__, None, None, None)
        self.step = Step(1, 1, "test")

    def wheel(self, members, name="pack-1.0-py3-none-any.whl"):
        path = self.folder / name
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in members.items():
                archive.writestr(member, content)
        return path


class PlaceTest(FolderTest):
    def place(self, members):
        return place(self.wheel(members), lambda name: name.removeprefix("pack/") if name.startswith("pack/") else None,
                     self.folder / "deps", self.step)

    def test_wanted_members_are_unpacked_and_the_others_are_not(self):
        files = self.place({"pack/a/one.h": b"1", "pack/two.h": b"22", "other/three.h": b"333"})
        self.assertEqual(files, {"a/one.h": 1, "two.h": 2})
        self.assertEqual((self.folder / "deps/a/one.h").read_bytes(), b"1")
        self.assertEqual(sorted(p.name for p in (self.folder / "deps").rglob("*.h")), ["one.h", "two.h"])

    def test_a_file_that_is_there_already_is_left_alone_so_builds_do_not_see_a_change(self):
        self.place({"pack/one.h": b"same"})
        path = self.folder / "deps/one.h"
        os.utime(path, (1_000_000, 1_000_000))
        before = path.stat()
        self.place({"pack/one.h": b"same"})
        self.assertEqual((path.stat().st_ino, path.stat().st_mtime), (before.st_ino, before.st_mtime))

    def test_a_changed_file_is_replaced_while_who_has_the_old_one_open_keeps_it(self):
        self.place({"pack/lib.so": b"old!"})
        with open(self.folder / "deps/lib.so", "rb") as held:
            self.place({"pack/lib.so": b"new!"})
            self.assertEqual(held.read(), b"old!")
        self.assertEqual((self.folder / "deps/lib.so").read_bytes(), b"new!")


class DownloadTest(FolderTest):
    """pip is played by a shell command that leaves a file, as a broken mirror would."""

    def setUp(self):
        super().setUp()
        self.good = self.wheel({"pack/x": b"x"}, "good.whl").read_bytes()
        (self.folder / "lock").write_text(f"pack==1.0 --hash=sha256:{hashlib.sha256(self.good).hexdigest()}\n")
        self.lock = Lock(self.folder / "lock")
        self.downloads = self.folder / "downloads"

    def pip(self, content, code=0):
        (self.folder / "content").write_bytes(content)
        script = (f"echo run >> {self.folder}/runs; cp {self.folder}/content {self.downloads}/pack-1.0-py3-none-any.whl; "
                  f"echo Progress 5000000 of 9000000; echo the reason; exit {code}")
        return ["/bin/sh", "-c", script]

    def runs(self):
        return (self.folder / "runs").read_text().count("run") if (self.folder / "runs").exists() else 0

    def test_a_wheel_with_another_hash_is_refused(self):
        with self.assertRaisesRegex(SetupError, "not the file that deps.lock names"):
            download(self.lock, "pack", self.downloads, self.pip(b"evil"), self.step)

    def test_a_whole_wheel_from_an_interrupted_run_is_used_again(self):
        first = download(self.lock, "pack", self.downloads, self.pip(self.good), self.step)
        second = download(self.lock, "pack", self.downloads, self.pip(self.good), self.step)
        self.assertEqual((first, self.runs()), (second, 1))

    def test_a_damaged_wheel_from_an_interrupted_run_is_fetched_again(self):
        self.downloads.mkdir()
        (self.downloads / "pack-1.0-py3-none-any.whl").write_bytes(self.good[:50])
        wheel = download(self.lock, "pack", self.downloads, self.pip(self.good), self.step)
        self.assertEqual((wheel.read_bytes(), self.runs()), (self.good, 1))

    def test_a_failing_pip_is_quoted_and_the_message_says_how_to_go_on(self):
        with self.assertRaisesRegex(SetupError, "could not fetch pack 1.0:\nthe reason\n.*same command again"):
            download(self.lock, "pack", self.downloads, self.pip(b"", code=1), self.step)


class ManifestTest(FolderTest):
    def test_an_item_is_there_only_while_its_files_and_what_it_is_made_from_are_unchanged(self):
        manifest = Manifest(self.folder, "item", "version 1")
        self.assertFalse(manifest.fits())
        (self.folder / "file").write_bytes(b"123")
        manifest.write({"file": 3})
        self.assertTrue(manifest.fits())
        self.assertFalse(Manifest(self.folder, "item", "version 2").fits())
        (self.folder / "file").write_bytes(b"12")
        self.assertFalse(manifest.fits())
        (self.folder / "file").unlink()
        self.assertFalse(manifest.fits())

    def test_files_an_earlier_version_left_are_removed(self):
        (self.folder / "old").write_bytes(b"1")
        (self.folder / "kept").write_bytes(b"1")
        Manifest(self.folder, "item", "version 1").write({"old": 1, "kept": 1})
        Manifest(self.folder, "item", "version 2").write({"kept": 1})
        self.assertEqual(((self.folder / "old").exists(), (self.folder / "kept").exists()), (False, True))

    def test_a_manifest_cut_short_counts_as_none(self):
        (self.folder / "installed").mkdir()
        (self.folder / "installed/item.json").write_text('{"key": "')
        self.assertFalse(Manifest(self.folder, "item", "version 1").fits())


class LockTest(unittest.TestCase):
    def test_every_package_the_set_up_uses_is_locked_to_a_version_and_a_hash(self):
        lock = Lock(ROOT / "scripts" / "deps.lock")
        items = (*ITEMS, *DEV_ITEMS, CUDA_ITEM, *CUDA_COMPILER_ITEMS, *CUDA_RUNTIME_ITEMS)
        packages = {item.package for item in items} | set(PYTHON_PACKAGES)
        for package in packages:
            self.assertRegex(lock.version(package), r"^\d+(\.\d+)+$")
            self.assertTrue(lock.hashes(package), package)


class ScriptTest(unittest.TestCase):
    def setup(self, *arguments, **environment):
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run([ROOT / "scripts/setup", *arguments], env={**os.environ, "TRIBUTARY_DEPS": folder,
                                  **environment}, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

    def test_an_unknown_argument_is_named(self):
        done = self.setup("--cdua")
        self.assertEqual(done.returncode, 1)
        self.assertIn("unknown argument '--cdua'", done.stderr)

    def test_on_another_distribution_it_says_what_to_install_and_how_to_go_on(self):
        with tempfile.NamedTemporaryFile("w") as release:
            release.write('ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04 LTS"\n')
            release.flush()
            done = self.setup(TRIBUTARY_OS_RELEASE=release.name)
        self.assertEqual(done.returncode, 1)
        for words in ("Ubuntu 24.04 LTS", "libgrpc++-dev", "TRIBUTARY_NO_PACKAGES=1"):
            self.assertIn(words, done.stderr)

    def test_without_root_and_sudo_it_says_which_command_to_run_once(self):
        with tempfile.TemporaryDirectory() as tools, tempfile.NamedTemporaryFile("w") as release:
            release.write('ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian 12"\n')
            release.flush()
            for name, script in (("dpkg-query", "exit 1"), ("id", "echo 1000"), ("sudo", "exit 1")):
                path = Path(tools) / name
                path.write_text(f"#!/bin/sh\n{script}\n")
                path.chmod(0o755)
            done = self.setup(TRIBUTARY_OS_RELEASE=release.name, PATH=f"{tools}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("sudo apt-get update && sudo apt-get install", done.stderr)


if __name__ == "__main__":
    unittest.main()
