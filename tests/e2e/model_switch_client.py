"""The client's side of model_switch_test.py: callers that never stop, and an operator who loads, replaces and unloads.

usage: model_switch_client.py ADDRESS ADMIN_ADDRESS SERVER_PID MODEL_FOLDER
"""

import os
import sys
import threading

import grpc
from tributary.v1 import admin_service_pb2 as admin
from tributary.v1 import embedding_service_pb2 as pb

CALLERS = 4
ROUNDS = 5
# Of the allocator and the kernel, not of a model (90 MB of weights, as much again laid out for the processor).
SLACK_BYTES = 40 << 20


class Caller(threading.Thread):
    """Embeds with one model until told to stop; counts its calls, keeps every error."""

    def __init__(self, channel, model):
        super().__init__()
        self.calls = 0
        self.errors = []
        self.revisions = set()
        self._embed = channel.unary_unary("/tributary.v1.EmbeddingService/EmbedText",
                                          request_serializer=pb.EmbedTextRequest.SerializeToString,
                                          response_deserializer=pb.EmbedResponse.FromString)
        self._model = model
        self._stopping = threading.Event()

    def run(self):
        texts = [pb.TextInput(text="a river " * n) for n in (1, 5, 40)]
        request = pb.EmbedTextRequest(texts=texts, options=pb.EmbedOptions(model=self._model))
        while not self._stopping.is_set():
            try:
                answer = self._embed(request, timeout=60)
                self.errors += [result.error.message for result in answer.results if result.HasField("error")]
                self.revisions.add(answer.model_revision)
            except grpc.RpcError as error:
                self.errors.append(f"{error.code().name}: {error.details()}")
            self.calls += 1

    def stop(self):
        self._stopping.set()
        self.join()
        if self.errors:
            sys.exit(f"{len(self.errors)} of {self.calls} calls of '{self._model}' failed: {self.errors[:3]}")
        return self.calls


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))


def main():
    address, admin_address, pid, folder = sys.argv[1:]
    with grpc.insecure_channel(address) as channel, grpc.insecure_channel(admin_address) as admin_channel:
        load = admin_channel.unary_unary("/tributary.v1.AdminService/LoadModel",
                                         request_serializer=admin.LoadModelRequest.SerializeToString,
                                         response_deserializer=pb.Model.FromString)
        unload = admin_channel.unary_unary("/tributary.v1.AdminService/UnloadModel",
                                           request_serializer=admin.UnloadModelRequest.SerializeToString,
                                           response_deserializer=admin.UnloadModelResponse.FromString)

        def load_second(max_tokens):
            config = f"{{name: second, text: {{folder: '{folder}', dtype: fp32, max_tokens: {max_tokens}}}}}"
            model = load(admin.LoadModelRequest(config=config), timeout=300)
            if model.max_tokens != max_tokens:
                sys.exit(f"loaded with max_tokens {max_tokens}, serves {model.max_tokens}")

        defaults = [Caller(channel, "minilm") for _ in range(CALLERS)]
        for caller in defaults:
            caller.start()
        calls = 0
        resident = []
        for _ in range(ROUNDS):
            load_second(64)
            seconds = [Caller(channel, "second") for _ in range(2)]
            for caller in seconds:
                caller.start()
            load_second(128)  # replaces the other under load
            calls += sum(caller.stop() for caller in seconds)
            unload(admin.UnloadModelRequest(name="second"), timeout=120)
            resident.append(resident_bytes(pid))
        calls += sum(caller.stop() for caller in defaults)
        # The first two rounds pay for what is kept for good: threads' arenas, kernels' code, staging.
        growth = max(resident[2:]) - resident[1]
        print(f"{calls} calls, none failed, while models were loaded {2 * ROUNDS} times; resident MiB after each unload: "
              f"{[bytes_ >> 20 for bytes_ in resident]}")
        # A sanitizer's allocator keeps what is freed, to find its later use.
        if growth > SLACK_BYTES and not os.environ["TRIBUTARY_SANITIZER"]:
            sys.exit(f"memory grew by {growth >> 20} MiB over {ROUNDS - 2} rounds: {[bytes_ >> 20 for bytes_ in resident]}")


if __name__ == "__main__":
    main()
