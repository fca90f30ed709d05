"""Servers under the same load, taking turns: goodput within an SLO by search, closed loop, and overload."""
import urllib.error

from harness import figures, inprocess, server_process, workloads
from harness.load import Load
from harness.server_process import ServerError

CLOSED_CLIENTS = 32
OVERLOAD = [1.5, 2.0]
ARRIVALS = ["poisson", "bursty"]
SEARCHED = ["text-mixed", "text-16", "text-128", "text-256", "image-jpeg", "pair"]
FULL = "text-mixed"
START_RATE = {"text": 50, "image": 20, "pair": 20}
CHECKED_ROWS = 16
LOWEST_RATE = 2  # calls a second; a server that does not hold it gets 0
NEAR = 1.2  # a later repetition's search steps by this from what the one before found


def kind_of(workload):
    return workload.split("-")[0]


class Servers:
    overload_of = (FULL,)

    def __init__(self, context):
        self.context = context
        self.section = {"closed_clients": CLOSED_CLIENTS, "contenders": {}, "goodput": [], "closed": [], "alone": [], "overload": [],
                        "runs": []}
        self.inputs = {}
        self.classes = {}
        self.found = {}   # (server, workload, arrivals, slo) -> rates of the repetitions
        self.peak = {}    # likewise: the result at the last found rate
        self.closed = {}  # (server, workload) -> calls per second
        self.alone = {}   # likewise, one client: p50 beside the in-process one is what the server adds
        self.over = {}    # (server, workload, slo, factor) -> results

    def makers(self):
        return server_process.all_servers(self.context)

    def searched(self):
        return [name for name in SEARCHED if self.context.wanted_workload(name)]

    def run(self):
        self.read_inputs()
        self.reference = reference_vectors(self.context, self.inputs)  # before a server runs beside it
        makers = {name: make for name, make in self.makers().items() if self.context.wanted(name)}
        for name in makers:
            self.section["contenders"][name] = {"ready_seconds": []}
        for repetition, name in figures.turns(makers, self.context.server_repetitions):
            noted = self.section["contenders"][name]
            if noted.get("error"):
                continue
            self.context.say(f"repetition {repetition + 1}: {name}")
            server = makers[name]()
            try:
                server.start()
                noted["ready_seconds"].append(server.ready_seconds)
                noted.setdefault("rest_megabytes", server.memory())
                self.block(server, repetition, noted)
                noted["load_megabytes"] = server.memory()
            except (ServerError, OSError, ValueError, urllib.error.URLError, RuntimeError) as error:
                noted["error"] = f"{type(error).__name__}: {error}"
                self.context.say(f"{name}: {noted['error'][-300:]}")
            finally:
                server.stop()
        self.conclude()
        return self.section

    def read_inputs(self):
        described = self.context.workloads
        for name in ["text-mixed", "text-16", "text-32", "text-128", "text-256", "image-jpeg"]:
            self.inputs[name] = workloads.inputs(described[name])
            self.classes[name] = described[name].get("classes")
        texts, images = self.inputs["text-32"], self.inputs["image-jpeg"]
        self.inputs["pair"] = [(texts[i % len(texts)][0], image) for i, (_, image) in enumerate(images)]
        self.classes["pair"] = None

    def block(self, server, repetition, noted):
        """All of one server's loads of one repetition."""
        if repetition == 0:
            self.check(server, noted)
        for workload in self.searched():
            kind = kind_of(workload)
            if kind not in server.kinds or noted.get("unequal", {}).get(kind):
                continue
            load = Load(self.context, server, workload, kind, self.inputs[workload], self.classes[workload])
            load.closed_loop(server, CLOSED_CLIENTS, self.context.warm_up_seconds, repetition)  # shapes met, kernels made
            result = load.closed_loop(server, CLOSED_CLIENTS, self.context.probe_seconds, repetition)
            self.closed.setdefault((server.name, workload), []).append(result)
            one = load.closed_loop(server, 1, self.context.probe_seconds / 2, repetition)
            self.alone.setdefault((server.name, workload), []).append(one)
            for arrival, slo in self.conditions(workload):
                self.search(server, load, workload, arrival, slo, repetition)

    def conditions(self, workload):
        """(arrivals, SLO): Poisson under every SLO and bursty under the widest for mixed lengths, else only the widest."""
        slos = self.context.slos
        poisson, bursty = ARRIVALS
        return [(poisson, slo) for slo in slos] + [(bursty, slos[-1])] if workload == FULL else [(poisson, slos[-1])]

    def check(self, server, noted):
        """Before any timing: the vectors of the first inputs of every kind beside the reference's."""
        for kind in server.kinds:
            rows = self.inputs[{"text": "text-mixed", "image": "image-jpeg", "pair": "pair"}[kind]][:CHECKED_ROWS]
            answers = [server.ask(kind, text, image)[0] for text, image in rows]
            reference = self.reference.get((kind, len(answers[0])))
            if reference is None:
                noted.setdefault("not_compared", {})[kind] = f"vectors of {len(answers[0])} numbers: another model"
                continue
            low, mean = figures.cosines(answers, reference)
            noted.setdefault("equivalence", {})[kind] = {"min_cosine": low, "mean_cosine": mean}
            noted["min_cosine"] = min(noted.get("min_cosine", 1), low)
            if low < 0.9:  # int8 peers reach 0.9; below, it is another answer, and its speed means nothing
                noted.setdefault("unequal", {})[kind] = True
                self.context.say(f"{server.name}: {kind} vectors differ (cosine {low:.3f}), not measured")

    def search(self, server, load, workload, arrival, slo, repetition):
        key = (server.name, workload, arrival, slo)
        start = self.found[key][-1] if self.found.get(key) and self.found[key][-1] > 0 else START_RATE[kind_of(workload)]
        context = self.context

        def window(rate):
            return max(context.probe_seconds, context.probe_calls / rate)

        def probe(rate):
            load.open_loop(server, arrival, rate, context.warm_up_seconds + 2 / rate, slo, seed=1000 + repetition)
            result = load.open_loop(server, arrival, rate, window(rate), slo, seed=repetition)
            return figures.passes(result) and result["held"], result

        tolerance = 0.5 if self.context.options.quick else 0.05
        rate, best, probes = figures.search_rate(probe, start, tolerance, NEAR if repetition else 2.0, LOWEST_RATE)
        self.found.setdefault(key, []).append(rate)
        self.section["runs"].append({"server": server.name, "workload": workload, "arrivals": arrival, "slo_ms": slo,
                                     "repetition": repetition, "rate": rate, "best": best,
                                     "probes": [{k: p[k] for k in ("rate", "passed")}
                                                | {k: p["result"][k] for k in ("goodput_ratio", "p99_ms", "held")} for p in probes]})
        self.context.say(f"  {workload}, {arrival}, {slo} ms: {rate:.1f} calls/s")
        if best is None:
            return
        self.peak[key] = best
        if workload in self.overload_of and arrival == ARRIVALS[0]:
            for factor in OVERLOAD:
                result = load.open_loop(server, arrival, rate * factor, window(rate), slo, seed=2000 + repetition)
                self.over.setdefault((server.name, workload, slo, factor), []).append((rate, best, result))

    def conclude(self):
        for (name, workload, arrival, slo), rates in self.found.items():
            self.section["goodput"].append({"server": name, "workload": workload, "arrivals": arrival, "slo_ms": slo,
                                            **figures.spread(rates), "at_best": self.peak.get((name, workload, arrival, slo))})
        for (name, workload), results in self.closed.items():
            self.section["closed"].append({"server": name, "workload": workload, "runs": results,
                                           **figures.spread([r["calls_per_second"] for r in results])})
        for (name, workload), results in self.alone.items():
            medians = [run["p50_ms"] for run in results if run["p50_ms"] is not None]
            if medians:
                self.section["alone"].append({"server": name, "workload": workload, "runs": results, **figures.spread(medians)})
        for (name, workload, slo, factor), results in self.over.items():
            goodput = figures.spread([result["goodput"] for _, _, result in results])
            shares = [figures.of_peak(result, best) for _, best, result in results]
            classes = {label: figures.spread([of_class[label] for _, of_class in shares if of_class.get(label) is not None])["median"]
                       for label in shares[0][1] if any(of_class.get(label) is not None for _, of_class in shares)}
            self.section["overload"].append({"server": name, "workload": workload, "slo_ms": slo, "factor": factor, **goodput,
                                             "of_peak": figures.spread([whole for whole, _ in shares])["median"], "classes": classes, "runs": [r for _, _, r in results]})


def reference_vectors(context, inputs):
    """(kind, dimension) -> the reference's vectors of the first inputs; a pair's is the mean of its parts'. Made once."""
    if not hasattr(context, "reference"):
        context.reference = inprocess.reference_of(context, {
            "text": [text for text, _ in inputs["text-mixed"][:CHECKED_ROWS]],
            "image": [image for _, image in inputs["image-jpeg"][:CHECKED_ROWS]],
            "pair": inputs["pair"][:CHECKED_ROWS]})
    return context.reference
