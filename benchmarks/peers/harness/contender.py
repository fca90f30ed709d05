"""A process that measures itself when told, one JSON object a line: Tributary (tributary-offline) and its peers
(workers/worker.py) speak the same."""
import json
import os
import selectors
import signal
import subprocess
import time


class ContenderError(Exception):
    pass


class Contender:
    def __init__(self, name, command, environment, cpus, log_folder, groups, start_seconds=300):
        self.name, self.groups = name, groups
        self._log = os.path.join(log_folder, name + ".log")
        started = time.monotonic()
        with open(self._log, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(["taskset", "-c", cpus, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=log, env=environment, start_new_session=True)
        self._unread = b""
        try:
            self.ready = self._read(start_seconds)
        except ContenderError:
            self.stop()
            raise
        self.ready["start_seconds"] = time.monotonic() - started

    @property
    def pid(self):
        return self._process.pid

    def ask(self, timeout=600, **command):
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ContenderError(f"{self.name} is gone: {error}; {self._log_end()}") from error
        return self._read(timeout)

    def _read(self, timeout):
        until = time.monotonic() + timeout
        while True:
            line = self._line(until, timeout)
            if line.startswith(b"{"):  # libraries print what they like
                answer = json.loads(line)
                if not answer.get("ok"):
                    raise ContenderError(answer.get("error", "no reason given"))
                return answer

    def _line(self, until, timeout):
        output = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0, until - time.monotonic())):
                    raise ContenderError(f"{self.name}: no answer within {timeout} s")
                data = os.read(output, 1 << 16)
                if not data:
                    raise ContenderError(f"{self.name} ended: {self._log_end()}")
                self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def _log_end(self):
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return file.read()[-1500:].strip() or "it printed nothing"

    def stop(self):
        if self._process.poll() is None:
            self._process.stdin.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)  # its own session: only what it started
                self._process.wait()
