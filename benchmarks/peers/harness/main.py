"""benchmarks/peers/run: measures, writes JSON, then table and plot. benchmarks/README.md says what is measured and how."""
import argparse
import datetime
import json
import os
import signal
import sys

from harness import machine, table
from harness.context import Context

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))


def parse():
    parser = argparse.ArgumentParser(prog="benchmarks/peers/run", description="Tributary beside its peers.")
    parser.add_argument("part", choices=["inprocess", "servers", "ablations", "all", "report"], nargs="?", default="all")
    parser.add_argument("--quick", action="store_true", help="tiny workloads, to try the harness; no figures to quote")
    parser.add_argument("--threads", type=int, default=0, help="cores and threads of every contender; 0: all of this process")
    parser.add_argument("--isa", choices=["native", "avx2"], default="native", help="avx2: hold every library that can be to AVX2")
    parser.add_argument("--repetitions", type=int, default=0, help="0: 5 in process and 3 of servers, quick 2 and 1")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="contenders (openvino-*); repeatable")
    parser.add_argument("--workloads", action="append", default=[], metavar="PATTERN", help="workloads (text-*); repeatable")
    parser.add_argument("--build", default="build/release", help="build folder of tributary-offline, -peer-load and -server")
    parser.add_argument("--out", default="", help="folder of the results; default build/peers/TIME")
    parser.add_argument("--json", default="", help="report: the file to render; else where results go (OUT/results.json)")
    parser.add_argument("--tributary-env", action="append", default=[], metavar="NAME=VALUE", help="of every process; repeatable")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.only = options.only or ["*"]
    quick = ["text-16", "text-mixed", "tokenise-*", "image-*", "rgb-*", "pair"]
    options.workloads = options.workloads or (quick if options.quick else ["*"])
    started = datetime.datetime.now(datetime.timezone.utc)
    options.started = started.strftime("%Y-%m-%dT%H:%M:%SZ")
    options.out = options.out or os.path.join(ROOT, "build/peers", started.strftime("%Y-%m-%d-%H%M%S"))
    return options


def measure(options):
    from harness import ablations, inprocess, servers, workloads
    deps = os.environ["TRIBUTARY_DEPS"]
    context = Context(options, ROOT, deps)
    context.say("writing the workloads")
    context.workloads = workloads.write_all(ROOT, deps, os.path.join(context.out, "workloads"), context.texts, context.images,
                                            options.seed)
    with open(os.path.join(context.models, "made.json"), encoding="utf-8") as file:
        made = json.load(file)
    report = {
        "schema": 1, "tool": "benchmarks/peers", "started": options.started, "commit": machine.commit(ROOT),
        "quick": options.quick, "threads": context.threads, "seed": options.seed,
        "machine": machine.describe(options.isa), "models_made": made,
        "client_shares_cores": context.shared_cpus,
        "workloads": {name: {k: v for k, v in w.items() if k not in ("file", "classes")} for name, w in context.workloads.items()},
    }
    parts = {"inprocess": inprocess.InProcess, "servers": servers.Servers, "ablations": ablations.Ablations}
    path = options.json or os.path.join(context.out, "results.json")
    for name, part in parts.items():
        if options.part in (name, "all"):
            report[name] = part(context).run()
            with open(path, "w", encoding="utf-8") as file:  # after each part: a later failure loses nothing
                json.dump(report, file, indent=1)
    return path


def render(path):
    from harness import plot
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    base = os.path.splitext(path)[0]
    with open(base + ".md", "w", encoding="utf-8") as file:
        file.write(table.render(report))
    plot.draw(report, base + ".png")
    print(f"{path}\n{base}.md\n{base}.png")


def main():
    # As Ctrl-C: what was started is stopped on the way out.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    options = parse()
    if options.part == "report":
        if not options.json:
            raise SystemExit("report needs --json FILE")
        render(options.json)
    else:
        render(measure(options))


if __name__ == "__main__":
    main()
