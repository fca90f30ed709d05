"""A server program as a child process, on ports the system picks, for tests in Python."""

import signal
import subprocess
import time

# Loading under a sanitizer on a busy machine takes long; a test that waits this long has failed anyway.
START_SECONDS = 200


class ServerProcess:
    """Running and ready once constructed. `folder` gets its log and its port file."""

    def __init__(self, program, config, folder):
        ports = folder / "ports"
        self.log = folder / "log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [program, "--config", config, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
                 "--port-file", ports],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.ports = {}
        deadline = time.monotonic() + START_SECONDS
        # The file appears once the server is ready; asked for often, as there is nothing to be told by.
        while not self.ports:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the server did not start:\n{self.log.read_text()}")
            time.sleep(0.05)
            if ports.exists():
                self.ports = dict(line.split("=") for line in ports.read_text().splitlines())
        self.address = f"127.0.0.1:{self.ports['grpc_port']}"
        self.metrics_address = f"127.0.0.1:{self.ports['metrics_port']}"

    def stop(self):
        """Ends it as an operator does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def kill(self):
        self.process.kill()
        self.process.wait()
