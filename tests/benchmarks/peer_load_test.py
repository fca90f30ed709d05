#!/usr/bin/env python3
"""tributary-peer-load over HTTP against servers made here: what it records of answers, errors and silence. TRIBUTARY_PEER_LOAD
names the program."""
import http.server
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../benchmarks/peers"))
from harness import figures  # noqa: E402

CONNECTION, SHORT, UNANSWERED = 3, 4, 1  # benchmarks/peers/load.h
BODY = b"x" * 2000


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what the request's body says: ok, chunked, short, error, or nothing at all."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.seen.append((self.path, asked))
        if asked == "silence":
            self.server.release.wait(30)
            self.close_connection = True
            return
        self.send_response(503 if asked == "error" else 200)
        if asked == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(BODY), BODY))
            self.wfile.write(b"0\r\n\r\n")
            return
        body = b"tiny" if asked == "short" else BODY
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # connections that wait to be accepted


class PeerLoad(unittest.TestCase):
    def setUp(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.seen, self.server.release = [], threading.Event()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.folder = tempfile.TemporaryDirectory()
        self.port = self.server.server_address[1]

    def tearDown(self):
        self.server.release.set()
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()

    def load(self, payloads, calls, **flags):
        def path(name):
            return os.path.join(self.folder.name, name)

        with open(path("payloads"), "wb") as file:
            for payload in payloads:
                file.write(struct.pack("<Q", len(payload)) + payload.encode())
        with open(path("calls"), "wb") as file:
            for due_ms, payload in calls:
                file.write(struct.pack("<QQ", due_ms * 1_000_000, payload))
        arguments = {"protocol": "http", "address": f"127.0.0.1:{self.port}", "path": "/embed", "payloads": path("payloads"),
                     "calls": path("calls"), "out": path("out"), "connections": 64, "min_answer_bytes": 1536, "give_up": 20, **flags}
        told = subprocess.run([os.environ["TRIBUTARY_PEER_LOAD"], *[f"{k}={v}" for k, v in arguments.items()]], check=True,
                              stdout=subprocess.PIPE)
        self.assertGreater(json.loads(told.stdout)["elapsed_seconds"], 0)
        with open(path("out"), "rb") as file:
            return figures.read_calls(file.read())

    def test_every_planned_call_is_sent_when_due_with_its_payload_and_its_answer_recorded(self):
        calls = self.load(["ok", "chunked"], [(i, i % 2) for i in range(40)])
        self.assertEqual([call.payload for call in calls], [i % 2 for i in range(40)])
        self.assertEqual({call.code for call in calls}, {0})
        self.assertTrue(all(call.due <= call.sent <= call.done and call.answer_bytes > 2000 for call in calls))
        self.assertEqual(sorted(self.server.seen), sorted([("/embed", "ok"), ("/embed", "chunked")] * 20))

    def test_errors_and_answers_too_short_for_a_vector_do_not_count_as_answers(self):
        calls = self.load(["ok", "error", "short"], [(i, i % 3) for i in range(9)])
        self.assertEqual([call.code for call in calls], [0, 503, SHORT] * 3)

    def test_a_call_that_is_never_answered_is_given_up(self):
        calls = self.load(["silence", "ok"], [(0, 0), (1, 1)], give_up=0.2)
        self.assertEqual([(call.code, call.done < 0) for call in calls], [(UNANSWERED, True), (0, False)])

    def test_calls_beyond_the_connections_are_not_sent_and_say_so(self):
        calls = self.load(["silence"], [(0, 0)] * 3, connections=2, give_up=0.2)
        self.assertEqual([call.code for call in calls], [UNANSWERED, UNANSWERED, figures.NOT_SENT])
        self.assertEqual(calls[2].sent, -1)

    def test_a_server_that_is_not_there_is_a_broken_connection(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
            calls = self.load(["ok"], [(0, 0)], address=f"127.0.0.1:{unused.getsockname()[1]}")
        self.assertEqual([call.code for call in calls], [CONNECTION])

    def test_a_closed_loop_keeps_its_clients_busy_and_goes_round_its_payloads(self):
        calls = self.load(["ok", "chunked"], [(0, 0), (0, 1)], closed=3, closed_seconds=0.5)
        self.assertGreater(len(calls), 3)
        self.assertEqual({call.code for call in calls}, {0})
        self.assertEqual([call.payload for call in calls[:4]], [0, 1, 0, 1])
        edges = sorted([(call.sent, 1) for call in calls] + [(call.done, -1) for call in calls])
        in_flight = most = 0
        for _, change in edges:
            in_flight += change
            most = max(most, in_flight)
        self.assertEqual(most, 3)


if __name__ == "__main__":
    unittest.main()
