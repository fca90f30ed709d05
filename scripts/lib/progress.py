"""Progress of the set-up's steps: one line that changes on a terminal, a line every few seconds in a log."""

import sys
import time

LOG_INTERVAL_SECONDS = 5.0


class Step:
    """One numbered step. `update` may be called as often as one likes; `done` closes the line."""

    def __init__(self, number, total, title):
        self._head = f"[{number}/{total}] {title}: "
        self._started = time.monotonic()
        self._shown = self._started  # a step that is over within the interval gets one line in a log
        self._terminal = sys.stdout.isatty()

    def update(self, text):
        now = time.monotonic()
        if self._terminal:
            print(f"\r\033[K{self._head}{text}", end="", flush=True)
        elif now - self._shown >= LOG_INTERVAL_SECONDS:
            print(f"{self._head}{text}", flush=True)
            self._shown = now

    def done(self, text):
        seconds = time.monotonic() - self._started
        start = "\r\033[K" if self._terminal else ""
        print(f"{start}{self._head}{text}" + (f" ({seconds:.0f} s)" if seconds >= 0.5 else ""), flush=True)
