"""Runs clang-tidy 19 over our own sources, as many at once as there are CPUs, and shows what it finds.

What was clean is remembered in $TRIBUTARY_DEPS/tidy by the content of the source, of our headers that it includes, of the
configuration and of the command: a second run looks at what has changed.

The compile commands are g++'s. Its precompiled headers mean nothing to clang, so they are taken out: the sources then
include what the precompiled header includes, which is what they say they include anyway.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("engine", "server", "benchmarks", "tests")
PROGRESS_SECONDS = 15


def for_clang(command):
    """`command` without ccache in front and without what belongs to g++'s precompiled headers."""
    words = shlex.split(command)
    compiler = next(index for index, word in enumerate(words) if os.path.basename(word).startswith(("c++", "g++")))
    kept = []
    rest = iter(words[compiler:])
    for word in rest:
        if word == "-include":
            header = next(rest)
            if "cmake_pch" not in header:
                kept += [word, header]
        elif word != "-Winvalid-pch":
            kept.append(word)
    # Flags that silence false alarms of g++ are not known to clang. What is deprecated g++ reports, and of its own
    # standard library (std::stable_sort's buffer) only clang complains.
    return [*kept, "-Wno-unknown-warning-option", "-Wno-deprecated-declarations"]


def write_database(build, target):
    """Writes our sources' compile commands to `target`; returns source -> command, the slowest first."""
    entries = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        if source.is_relative_to(ROOT) and source.relative_to(ROOT).parts[0] in FOLDERS:
            entries.append({"directory": entry["directory"], "file": entry["file"],
                            "arguments": for_clang(entry["command"])})
    target.mkdir(parents=True, exist_ok=True)
    (target / "compile_commands.json").write_text(json.dumps(entries))
    # LibTorch's headers take far longer than anything else: started last, one of them would run alone at the end.
    entries.sort(key=lambda entry: ("libtorch" not in entry["file"], entry["file"]))
    return {entry["file"]: entry["arguments"] for entry in entries}


def included(build):
    """Source -> the headers of this checkout (generated ones too) that the last build saw it include."""
    said = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                          check=True).stdout
    headers = {}
    for block in said.split("\n\n"):
        files = [(build / line.strip()).resolve() for line in block.splitlines()[1:]]
        own = sorted(file for file in files if file.is_relative_to(ROOT))
        for source in own:
            if source.suffix == ".cc":
                headers.setdefault(str(source), set()).update(own)
    return headers


def tool_version():
    return subprocess.run(["clang-tidy-19", "--version"], text=True, stdout=subprocess.PIPE, check=True).stdout


def fingerprint(version, source, command, headers):
    """Of everything clang-tidy's answer for `source` depends on, the distribution's own headers aside."""
    folders = [folder for folder in Path(source).parents if folder.is_relative_to(ROOT)]
    configurations = [folder / ".clang-tidy" for folder in folders if (folder / ".clang-tidy").exists()]
    parts = [version, *(file.read_text() for file in configurations), " ".join(command).replace(str(ROOT), "")]
    for file in sorted({Path(source), *headers}):
        parts += [str(file.relative_to(ROOT)), file.read_text(errors="replace")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def lint(database, source):
    started = time.monotonic()
    done = subprocess.run(["clang-tidy-19", "--quiet", "-p", str(database), source], cwd=ROOT, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    # stderr counts suppressed warnings of system headers; it matters only where clang-tidy itself fails.
    said = done.stdout if done.returncode == 0 or done.stdout else done.stderr
    return source, done.returncode, said, time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, help="a build folder, built: generated headers have to be there")
    parser.add_argument("sources", nargs="*", help="only sources whose path contains one of these")
    arguments = parser.parse_args()
    database = arguments.build / "tidy"
    commands = write_database(arguments.build, database)
    sources = [source for source in commands
               if not arguments.sources or any(part in source for part in arguments.sources)]
    if not sources:
        sys.exit(f"no source of ours in {arguments.build}/compile_commands.json")

    memory = Path(os.environ["TRIBUTARY_DEPS"]) / "tidy"
    memory.mkdir(parents=True, exist_ok=True)
    headers, version = included(arguments.build), tool_version()
    prints = {source: fingerprint(version, source, commands[source], headers.get(source, ())) for source in sources}
    known = sum((memory / prints[source]).exists() for source in sources)
    sources = [source for source in sources if not (memory / prints[source]).exists()]
    print(f"{known} files are clean as they were, {len(sources)} to look at", flush=True)

    bad, times, shown = [], [], time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for run in concurrent.futures.as_completed([pool.submit(lint, database, source) for source in sources]):
            source, code, said, seconds = run.result()
            times.append((seconds, source))
            if code == 0:
                (memory / prints[source]).touch()
            else:
                bad.append(source)
                print(said, flush=True)
            if time.monotonic() - shown >= PROGRESS_SECONDS:
                print(f"{len(times)} of {len(sources)} files", flush=True)
                shown = time.monotonic()
    slowest = ", ".join(f"{Path(source).name} {seconds:.0f} s" for seconds, source in sorted(times, reverse=True)[:3])
    print(f"{len(sources)} files, {len(bad)} with findings (slowest: {slowest}).")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
