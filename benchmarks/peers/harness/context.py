"""What all parts of a run share: where things are, how much of everything, and what is wanted."""
import fnmatch
import os
import sys

from harness import machine


class Context:
    def __init__(self, options, root, deps):
        self.options, self.root, self.deps = options, root, deps
        self.folder = os.path.join(root, "benchmarks/peers")
        self.peers = os.path.join(deps, "peers")
        self.models = os.path.join(self.peers, "models")
        cpus = sorted(os.sched_getaffinity(0))
        self.threads = options.threads or len(cpus)
        if self.threads > len(cpus):
            raise SystemExit(f"--threads {self.threads}: this process may use {len(cpus)} CPUs")
        self.cpus = ",".join(map(str, cpus[:self.threads]))
        # The load generator has what is left; on a machine without spare cores it shares them with the server.
        spare = cpus[self.threads:]
        self.load_cpus = ",".join(map(str, spare or cpus))
        self.shared_cpus = not spare
        self.environment = machine.contender_environment(self.threads, options.isa)
        self.environment["TRIBUTARY_DEPS"] = deps
        for setting in options.tributary_env:
            name, _, value = setting.partition("=")
            self.environment[name] = value
        self.out = os.path.abspath(options.out)
        self.scratch = os.path.join(self.out, "scratch")
        self.logs = os.path.join(self.out, "logs")
        for folder in (self.scratch, self.logs):
            os.makedirs(folder, exist_ok=True)
        quick = options.quick
        self.repetitions = options.repetitions or (2 if quick else 5)
        self.server_repetitions = options.repetitions or (1 if quick else 3)
        self.seconds = 0.2 if quick else 3.0
        self.latency_items = 5 if quick else 300
        self.tries = 1 if quick else 100  # settings of a peer tried on a workload
        self.texts = 16 if quick else 512
        self.images = 4 if quick else 64
        self.probe_seconds = 1.0 if quick else 8.0
        self.probe_calls = 20 if quick else 100  # at least, so that 99 % means one call that may fail
        self.warm_up_seconds = 0.5 if quick else 1.0
        self.slos = [2000] if quick else [50, 100]  # ms; quick runs may share the machine
        self.workloads = {}

    def program(self, name):
        folder = {"tributary-server": "server"}.get(name, "benchmarks")
        path = os.path.join(self.root, self.options.build, folder, name)
        if not os.path.exists(path):
            raise SystemExit(f"{path} is missing: build it (benchmarks/README.md says how)")
        return path

    def vit_config(self):
        """A configuration of the CLIP folder with seeded weights."""
        path = os.path.join(self.scratch, "vit.yaml")
        folder = os.path.join(self.models, "clip-vit-b-32")
        with open(path, "w", encoding="utf-8") as file:
            file.write("server:\n  listen: 127.0.0.1:0\nmetrics:\n  listen: ''\nmodels:\n  - name: vit\n"
                       f"    text:\n      folder: {folder}\n    image:\n      folder: {folder}\n")
        return path

    def wanted(self, name):
        return any(fnmatch.fnmatch(name, pattern) for pattern in self.options.only)

    def wanted_workload(self, name):
        return any(fnmatch.fnmatch(name, pattern) for pattern in self.options.workloads)

    def say(self, text):
        print(text, file=sys.stderr, flush=True)
