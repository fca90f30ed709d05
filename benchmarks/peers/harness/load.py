"""One run of load against a server by tributary-peer-load: files in, calls out."""
import json
import os
import struct
import subprocess

from harness import arrivals, figures

GIVE_UP_SECONDS = 10
MIN_ANSWER_BYTES = 384 * 4  # a vector of float32; an error inside an answer is shorter, JSON is longer


class Load:
    """The calls of one workload in one server's words."""

    def __init__(self, context, server, workload, kind, inputs, classes):
        self.context, self.workload, self.kind, self.classes = context, workload, kind, classes
        self._payloads = os.path.join(context.scratch, f"{server.name}.{workload}.payloads")
        self.count = len(inputs)
        with open(self._payloads, "wb") as file:
            for text, image in inputs:
                payload = server.payload(kind, text, image)
                file.write(struct.pack("<Q", len(payload)) + payload)

    def open_loop(self, server, kind, rate, seconds, slo_ms, seed):
        times = arrivals.send_times(kind, rate, seconds, seed)
        order = arrivals.payload_order(len(times), self.count, seed)
        if not times:
            raise ValueError(f"no call in {seconds} s at {rate} a second")
        calls, client = self._run(server, zip(times, order), deadline=slo_ms / 1e3)
        result = figures.summary(calls, seconds, slo_ms, self.classes, rate)
        return result | client

    def closed_loop(self, server, clients, seconds, seed):
        order = arrivals.payload_order(max(self.count, 4096), self.count, seed)
        calls, client = self._run(server, ((0, payload) for payload in order), closed=clients, closed_seconds=seconds)
        # Calls still open at the end were not answered within the window.
        answered = [call for call in calls if call.code == 0 and call.done <= seconds * 1e9]
        latencies = [call.done - call.sent for call in answered]
        return {"calls_per_second": len(answered) / seconds, "p50_ms": figures.milliseconds(figures.percentile(latencies, 0.5)),
                "p99_ms": figures.milliseconds(figures.percentile(latencies, 0.99)),
                "errors": sum(call.code != 0 for call in calls)} | client

    def _run(self, server, planned, **flags):
        plan = os.path.join(self.context.scratch, "plan.bin")
        out = os.path.join(self.context.scratch, "calls.bin")
        with open(plan, "wb") as file:
            for due, payload in planned:
                file.write(struct.pack("<QQ", due, payload))
        arguments = {"protocol": server.protocol, "address": f"127.0.0.1:{server.port}", "path": server.path(self.kind),
                     "payloads": self._payloads, "calls": plan, "out": out, "give_up": GIVE_UP_SECONDS,
                     "connections": server.connections, "min_answer_bytes": MIN_ANSWER_BYTES, **flags}
        before = server.cpu_seconds()
        told = subprocess.run(["taskset", "-c", self.context.load_cpus, self.context.program("tributary-peer-load"),
                               *[f"{key}={value}" for key, value in arguments.items()]], stdout=subprocess.PIPE, check=True)
        server.check_running()
        client = json.loads(told.stdout)
        with open(out, "rb") as file:
            calls = figures.read_calls(file.read())
        return calls, {"client_cpus_used": client["cpu_seconds"] / client["elapsed_seconds"],
                       "server_cpus_used": (server.cpu_seconds() - before) / client["elapsed_seconds"]}
