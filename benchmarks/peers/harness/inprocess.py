"""Encoders, tokenisers and image preparation in process: Tributary's engine and other libraries, taking turns."""
import json
import os
import sys

from harness import figures, machine
from harness.contender import Contender, ContenderError

TEXT = "text"
TEXT_MODES = ("throughput", "latency")

# The vector every other one is compared with.
REFERENCE = {"text": "sentence-transformers-fp32", "rgb-efficientnet": "torch-efficientnet", "rgb-vit": "torch-vit",
             "tokenise": "hf-tokenizers", "prepare": "pillow"}


def peers():
    """name -> workload group."""
    found = {"sentence-transformers-fp32": TEXT}
    if machine.has_bf16():
        found["sentence-transformers-bf16"] = TEXT
    for name in ("onnxruntime-fp32", "onnxruntime-fp32-fused", "onnxruntime-int8", "openvino-fp32", "openvino-default",
                 "openvino-int8", "ctranslate2-fp32", "ctranslate2-int8"):
        found[name] = TEXT
    found["hf-tokenizers"] = "tokenise"
    found["pillow"] = "prepare"
    for network in ("efficientnet", "vit"):
        found[f"torch-{network}"] = f"rgb-{network}"
        for name in ("onnxruntime-{}-fp32", "onnxruntime-{}-int8", "openvino-{}-fp32", "openvino-{}-default", "openvino-{}-int8"):
            found[name.format(network)] = f"rgb-{network}"
    return found


def tributary(context):
    """name -> (workload groups, arguments of tributary-offline). fp32 beside the other libraries' fp32, auto and int8 beside
    their fastest."""
    threads = ["--set", f"lanes.count={context.threads}", "--set", f"prepare.threads={context.threads}"]
    base = ["--config", os.path.join(context.root, "config/tributary.yaml"), *threads]

    def typed(dtype, image="fp32"):
        return [*base, "--set", f"models.0.text.dtype={dtype}", "--set", f"models.0.image.dtype={image}"]

    vit = ["--config", context.vit_config(), *threads]
    return {
        "tributary-fp32": ([TEXT, "rgb-efficientnet", "tokenise", "prepare"], typed("fp32")),
        "tributary-auto": ([TEXT, "rgb-efficientnet"], typed("auto", "auto")),
        "tributary-int8": ([TEXT], typed("int8")),
        "tributary-vit-fp32": (["rgb-vit"], [*vit, "--set", "models.0.image.dtype=fp32"]),
        "tributary-vit-auto": (["rgb-vit"], vit),
    }


def group_of(workload):
    for group in ("text", "tokenise", "rgb-efficientnet", "rgb-vit"):
        if workload.startswith(group):
            return group
    return "prepare"


def modes(group):
    return {"tokenise": ("tokenise",), "prepare": ("prepare",)}.get(group, TEXT_MODES)


class InProcess:
    def __init__(self, context):
        self.context = context
        self.section = {"contenders": {}, "equivalence": {}, "results": []}
        self.running = {}

    def run(self):
        try:
            commands = self.commands()
            wanted = [name for name in commands if self.context.wanted(name)]
            # Nothing is timed without its reference.
            needed = {REFERENCE[group] for name in wanted for group in commands[name][0]}
            for name, (groups, command) in commands.items():
                if name in wanted or name in needed:
                    self.start(name, groups, command)
            for workload, described in self.context.workloads.items():
                if self.context.wanted_workload(workload):
                    self.measure(workload, described)
        finally:
            for contender in self.running.values():
                contender.stop()
        return self.section

    def commands(self):
        context = self.context
        worker = os.path.join(context.folder, "workers/worker.py")
        commands = {name: (groups, [context.program("tributary-offline"), *arguments])
                    for name, (groups, arguments) in tributary(context).items()}
        for name, group in peers().items():
            commands[name] = ([group], [sys.executable, worker, name, context.deps, context.models, str(context.threads)])
        return commands

    def start(self, name, groups, command):
        self.context.say(f"starting {name}")
        noted = self.section["contenders"][name] = {"groups": groups}
        try:
            contender = Contender(name, command, self.context.environment, self.context.cpus, self.context.logs, groups)
        except (ContenderError, OSError) as error:
            noted["error"] = str(error)
            self.context.say(f"{name} does not start: {str(error).splitlines()[-1][:200]}")
            return
        self.running[name] = contender
        noted["start"] = contender.ready
        noted["info"] = contender.ask(op="info")
        noted["rest_megabytes"] = machine.resident_megabytes(contender.pid)

    def measure(self, workload, described):
        group = group_of(workload)
        reference = REFERENCE[group]
        names = [name for name, contender in self.running.items() if group in contender.groups]
        names.sort(key=lambda name: name != reference)  # the reference answers first
        if not names:
            return
        expected = None
        equal = self.section["equivalence"][workload] = {}
        for name in list(names):
            try:
                self.running[name].ask(op="load", workload=workload, file=described["file"])
                if group not in ("tokenise", "prepare") and not name.startswith("tributary"):
                    tuned = self.running[name].ask(op="tune", workload=workload, tries=self.context.tries, timeout=1800)
                    self.section["contenders"][name].setdefault("settings", {})[workload] = tuned["chosen"]
                answer = self.answer(name, group, workload)
                if name == reference:
                    expected = answer
                if expected is not None:
                    equal[name] = compare(group, answer, expected)
            except ContenderError as error:
                self.fail(name, names, workload, error)
        for mode in modes(group):
            self.take_turns(mode, workload, names)

    def answer(self, name, group, workload):
        """What the contender makes of the workload, read back from a file: vectors, ids or pixels."""
        path = os.path.join(self.context.scratch, f"{name}.{workload}.out")
        if os.path.exists(path):
            os.remove(path)
        op = {"tokenise": "ids", "prepare": "pixels"}.get(group, "embed")
        told = self.running[name].ask(op=op, workload=workload, out=path)
        if op == "ids":
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        import numpy as np
        if op == "pixels":
            return np.fromfile(path, np.uint8).reshape(told["rows"], -1)
        return np.fromfile(path, np.float32).reshape(told["rows"], told["dimension"])

    def take_turns(self, mode, workload, names):
        context = self.context
        context.say(f"{workload}, {mode}: {', '.join(names)}")
        values = {name: [] for name in names}
        cpu = {name: [] for name in names}
        for repetition, name in [(-1, name) for name in names] + figures.turns(names, context.repetitions):
            if name not in names:
                continue
            try:
                told = self.running[name].ask(op=mode, workload=workload, seconds=context.seconds, items=context.latency_items)
            except ContenderError as error:
                self.fail(name, names, workload, error)
                continue
            if repetition < 0:
                continue  # the warm-up round
            if mode == "latency":
                values[name].append(figures.percentile(told["micros"], 0.5) / 1e3)
            else:
                values[name].append(told["items"] / told["seconds"])
                cpu[name].append(told["cpu_seconds"] / told["seconds"])
        for name in names:
            result = {"workload": workload, "mode": mode, "contender": name, **figures.spread(values[name])}
            if cpu[name]:
                result["cpus_used"] = figures.spread(cpu[name])["median"]
            self.section["results"].append(result)
            self.section["contenders"][name]["load_megabytes"] = machine.resident_megabytes(self.running[name].pid)

    def fail(self, name, names, workload, error):
        self.context.say(f"{name} fails on {workload}: {error}")
        self.section["contenders"][name]["error"] = f"{workload}: {error}"
        names.remove(name)


def compare(group, answer, expected):
    if group == "tokenise":
        return {"identical": sum(a == b for a, b in zip(answer, expected, strict=True)), "rows": len(expected)}
    import numpy as np
    if group == "prepare":
        difference = np.abs(answer.astype(np.int16) - expected.astype(np.int16))
        return {"max_difference": int(difference.max()), "mean_difference": float(difference.mean())}
    if answer.shape != expected.shape:
        raise ContenderError(f"gives {answer.shape} numbers where the reference gives {expected.shape}")
    values = (answer * expected).sum(1) / (np.linalg.norm(answer, axis=1) * np.linalg.norm(expected, axis=1))
    return {"min_cosine": float(values.min()), "mean_cosine": float(values.mean())}


def reference_of(context, rows):
    """(kind, dimension) -> vectors of `rows` by the reference libraries, for servers that take texts and JPEGs."""
    import numpy as np

    from workers.image_backends import prepare

    def ask(contender, workload, name):
        path = os.path.join(context.scratch, f"reference-{name}.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(workload, file)
        out = os.path.join(context.scratch, f"reference-{name}.f32")
        contender.ask(op="load", workload=name, file=path)
        told = contender.ask(op="embed", workload=name, out=out)
        return np.fromfile(out, np.float32).reshape(told["rows"], told["dimension"])

    def pixels(images, name):
        paths = []
        for index, data in enumerate(images):
            paths.append(os.path.join(context.scratch, f"reference-{name}-{index}.rgb"))
            prepare(data).tofile(paths[-1])
        return {"kind": "rgb", "width": 224, "height": 224, "paths": paths}

    worker = os.path.join(context.folder, "workers/worker.py")

    def started(name):
        command = [sys.executable, worker, name, context.deps, context.models, str(context.threads)]
        return Contender(name, command, context.environment, context.cpus, context.logs, [])

    text = started("sentence-transformers-fp32")
    texts = ask(text, {"kind": "text", "texts": rows["text"]}, "text")
    pair_texts = ask(text, {"kind": "text", "texts": [t for t, _ in rows["pair"]]}, "pair-text")
    text.stop()
    image = started("torch-efficientnet")
    images = ask(image, pixels(rows["image"], "image"), "image")
    pair_images = ask(image, pixels([i for _, i in rows["pair"]], "pair"), "pair-image")
    image.stop()
    vit = started("torch-vit")
    vit_images = ask(vit, pixels(rows["image"], "vit"), "vit")
    vit.stop()
    pairs = 0.5 * pair_texts + 0.5 * pair_images
    found = {("text", 384): texts, ("image", 384): images, ("pair", 384): pairs, ("image", 512): vit_images}
    return {key: value.tolist() for key, value in found.items()}
