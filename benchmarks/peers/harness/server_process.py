"""The servers, each started with the settings its makers give for throughput on a CPU, and stopped again. A server is asked
for one vector before it counts as ready."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from harness import machine, wire, workloads

START_SECONDS = 300
TRITON_KINDS = {"text": ["TEXT"], "image": ["IMAGE"], "pair": ["TEXT", "IMAGE"]}
TRITON_MAX_BATCH = 32


class ServerError(Exception):
    pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One running server. Subclasses say how it is started, asked and understood."""
    protocol = "grpc"
    kinds = ("text",)
    connections = 4

    def __init__(self, name, context):
        self.name, self.context = name, context
        self.port = free_port()
        self._log = os.path.join(context.logs, f"server-{name}.log")
        self._process = None
        self.ready_seconds = None

    # What a subclass gives: command() -> (argv, environment, folder); payload(kind, text, image) -> bytes;
    # path(kind); vectors(answer) -> list of vectors.

    def start(self):
        argv, environment, folder = self.command()
        with open(os.path.join(self.context.deps, "photos/rocket.jpg"), "rb") as file:
            photo = file.read()
        started = time.monotonic()
        with open(self._log, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(["taskset", "-c", self.context.cpus, *argv], stdout=log, stderr=log, cwd=folder,
                                             stdin=subprocess.DEVNULL, env=self.context.environment | environment,
                                             start_new_session=True)
        try:
            while True:
                try:
                    self.ask(self.kinds[0], "ready?", photo)
                    break
                except urllib.error.HTTPError as error:  # up, and unable: waiting would not help
                    raise ServerError(f"{error}: {error.read()[:500].decode(errors='replace')}") from error
                except Exception as error:  # not up yet, in whatever way the client library says so
                    if self._process.poll() is not None:
                        raise ServerError(f"ended with {self._process.returncode}: {self.log_end()}") from error
                    if time.monotonic() - started > START_SECONDS:
                        raise ServerError(f"not ready within {START_SECONDS} s ({error}): {self.log_end()}") from error
                    time.sleep(0.05)
        except ServerError:
            self.stop()
            raise
        self.ready_seconds = time.monotonic() - started

    def ask(self, kind, text, image):
        """One call, by a plain client: the vectors."""
        payload = self.payload(kind, text, image)
        if self.protocol == "http":
            request = urllib.request.Request(f"http://127.0.0.1:{self.port}{self.path(kind)}", payload,
                                             {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                return self.vectors(answer.read())
        import grpc
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            call = channel.unary_unary(self.path(kind), request_serializer=bytes, response_deserializer=bytes)
            return self.vectors(call(payload, timeout=60))

    def check_running(self):
        if self._process.poll() is not None:
            raise ServerError(f"ended with {self._process.returncode} under load: {self.log_end()}")

    def memory(self):
        return machine.resident_megabytes(self._process.pid)

    def cpu_seconds(self):
        return machine.cpu_seconds(self._process.pid)

    def log_end(self):
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return file.read()[-1500:].strip() or "it printed nothing"

    def stop(self):
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self._process.pid, signal.SIGKILL)  # its own session: what it may have left, and nothing else
        except ProcessLookupError:
            pass
        self._process.wait()


class Tributary(Server):
    kinds = ("text", "image", "pair")

    def __init__(self, name, context, settings=()):
        super().__init__(name, context)
        self.settings = [f"lanes.count={context.threads}", *settings]

    def command(self):
        argv = [self.context.program("tributary-server"), "--config", os.path.join(self.context.root, "config/tributary.yaml")]
        for setting in [f"server.listen=127.0.0.1:{self.port}", "metrics.listen=", *self.settings]:
            argv += ["--set", setting]
        return argv, {}, self.context.root

    def payload(self, kind, text, image):
        return wire.tributary_request(text if kind != "image" else None, image if kind != "text" else None)

    def path(self, kind):
        return wire.TRIBUTARY[kind]

    def vectors(self, answer):
        return wire.tributary_vectors(answer)


class Triton(Server):
    """nvidia-pytriton's tritonserver, python backend only. One instance a core, each with one OpenVINO thread."""
    kinds = ("text", "image", "pair")

    def command(self):
        context = self.context
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        site = os.path.join(context.peers, f"triton/lib/python{version}/site-packages")
        if not os.path.isdir(site):
            raise ServerError(f"{site} is missing: benchmarks/peers/setup makes it")
        server = os.path.join(site, "pytriton/tritonserver")
        backends = os.path.join(context.scratch, "triton-backends")
        shutil.rmtree(backends, ignore_errors=True)
        shutil.copytree(os.path.join(server, "backends"), backends)
        stub = os.path.join(backends, "python/triton_python_backend_stub")
        shutil.copy(os.path.join(server, f"python_backend_stubs/{version}/triton_python_backend_stub"), stub)
        os.chmod(stub, 0o755)
        repository = self.repository()
        argv = [os.path.join(server, "bin/tritonserver"), "--model-repository", repository, "--backend-directory", backends,
                "--grpc-port", str(self.port), "--grpc-address", "127.0.0.1", "--allow-http", "false", "--allow-metrics", "false",
                "--disable-auto-complete-config"]
        # The stub wants the wheel's own libraries, and libpython where this Python keeps it.
        libraries = [os.path.join(site, "nvidia_pytriton.libs"), os.path.join(sys.base_prefix, "lib")]
        environment = {"LD_LIBRARY_PATH": os.pathsep.join(libraries), "PYTHONPATH": site}
        return argv, environment, context.scratch

    def repository(self):
        context = self.context
        repository = os.path.join(context.scratch, "triton-models")
        shutil.rmtree(repository, ignore_errors=True)
        for kind, inputs in TRITON_KINDS.items():
            folder = os.path.join(repository, kind)
            os.makedirs(os.path.join(folder, "1"))
            shutil.copy(os.path.join(context.folder, "triton/model.py"), os.path.join(folder, "1/model.py"))
            parameters = {"kind": kind, "models": context.models, "threads": "1", "precision": "",
                          "tokenizer": os.path.join(context.deps, "models/all-minilm-l6-v2/tokenizer.json")}
            with open(os.path.join(folder, "config.pbtxt"), "w", encoding="utf-8") as file:
                file.write(f'name: "{kind}"\nbackend: "python"\nmax_batch_size: {TRITON_MAX_BATCH}\n'
                           + "".join(f'input {{ name: "{name}" data_type: TYPE_STRING dims: [ 1 ] }}\n' for name in inputs)
                           + 'output { name: "VECTOR" data_type: TYPE_FP32 dims: [ 384 ] }\n'
                           f"instance_group {{ count: {context.threads} kind: KIND_CPU }}\n"
                           "dynamic_batching { max_queue_delay_microseconds: 0 }\n"
                           + "".join(f'parameters {{ key: "{k}" value {{ string_value: "{v}" }} }}\n'
                                     for k, v in parameters.items()))
        return repository

    def payload(self, kind, text, image):
        return wire.triton_request(kind, text if kind != "image" else None, image if kind != "text" else None)

    def path(self, kind):
        return wire.TRITON_INFER

    def vectors(self, answer):
        return wire.triton_vectors(answer)


class Infinity(Server):
    """infinity-emb: HTTP, JSON. One model and kind a server."""
    protocol = "http"
    connections = 512  # one call each at a time

    def __init__(self, name, context, engine, kind="text"):
        super().__init__(name, context)
        self.engine, self.kinds = engine, (kind,)

    def command(self):
        context = self.context
        program = os.path.join(context.peers, "infinity/bin/infinity_emb")
        if not os.path.exists(program):
            raise ServerError(f"{program} is missing: benchmarks/peers/setup makes it")
        folder = self.folder()
        argv = [program, "v2", "--model-id", ".", "--engine", self.engine, "--device", "cpu", "--port", str(self.port), "--host",
                "127.0.0.1", "--served-model-name", "m", "--no-model-warmup", "--log-level", "warning", "--dtype", "float32"]
        if self.engine == "optimum":
            argv += ["--pooling-method", "mean"]
        return argv, {"PYTHONWARNINGS": "ignore"}, folder

    def folder(self):
        """The hub folder; for optimum a copy with the ONNX graph in its root."""
        if self.kinds == ("image",):
            return os.path.join(self.context.models, "clip-vit-b-32")
        source = os.path.join(self.context.deps, "models/all-minilm-l6-v2")
        copy = os.path.join(self.context.scratch, f"infinity-{self.engine}")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy)
        # The limit of the other servers: by its own files optimum would take 512 tokens.
        path = os.path.join(copy, "tokenizer_config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config | {"model_max_length": workloads.MAX_TOKENS}, file)
        if self.engine == "optimum":
            # Its own pooling: the graph ends at the hidden states.
            shutil.copy(os.path.join(self.context.models, "minilm/hidden.onnx"), os.path.join(copy, "model.onnx"))
        return copy

    def payload(self, kind, text, image):
        return wire.infinity_request("m", text if kind != "image" else None, image if kind == "image" else None)

    def path(self, kind):
        return "/embeddings"

    def vectors(self, answer):
        return wire.infinity_vectors(answer)


def all_servers(context):
    """name -> maker, Tributary first."""
    ours = {"tributary": lambda: Tributary("tributary", context)}
    if machine.has_bf16():  # elsewhere fp32 is what auto takes
        ours["tributary-fp32"] = lambda: Tributary("tributary-fp32", context,
                                                   ["models.0.text.dtype=fp32", "models.0.image.dtype=fp32"])
    return ours | {
        "infinity-torch": lambda: Infinity("infinity-torch", context, "torch"),
        "infinity-optimum": lambda: Infinity("infinity-optimum", context, "optimum"),
        "infinity-clip": lambda: Infinity("infinity-clip", context, "torch", "image"),
        "triton-openvino": lambda: Triton("triton-openvino", context),
    }
