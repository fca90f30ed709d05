#!/usr/bin/env python3
"""The arithmetic of benchmarks/peers, with the standard library alone: schedules, goodput, searches, turns, tables, wire."""
import os
import struct
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../benchmarks/peers"))
from harness import arrivals, figures, table, wire  # noqa: E402

MS = 1_000_000


def call(due_ms, done_ms, code=0, payload=0, sent_ms=None):
    return figures.Call(payload, due_ms * MS, (due_ms if sent_ms is None else sent_ms) * MS, done_ms * MS, code, 2000)


class Arrivals(unittest.TestCase):
    def test_the_same_seed_gives_the_same_times_and_another_seed_others(self):
        for kind in arrivals.KINDS:
            self.assertEqual(arrivals.send_times(kind, 50, 10, 1), arrivals.send_times(kind, 50, 10, 1))
            self.assertNotEqual(arrivals.send_times(kind, 50, 10, 1), arrivals.send_times(kind, 50, 10, 2))

    def test_both_kinds_keep_the_rate_asked_for(self):
        for kind in arrivals.KINDS:
            # 20,000 calls: five standard deviations of a Poisson count are 3.5 %; bursts vary more.
            self.assertAlmostEqual(len(arrivals.send_times(kind, 200, 100, 3)) / 20000, 1, delta=0.1)

    def test_times_ascend_and_stay_within_the_window(self):
        for kind in arrivals.KINDS:
            times = arrivals.send_times(kind, 300, 5, 1)
            self.assertEqual(times, sorted(times))
            self.assertLess(times[-1], 5e9)

    def test_bursty_arrivals_vary_more_than_a_poisson_process(self):
        def dispersion(kind):  # variance over mean of the calls of 100 ms; a Poisson process has 1
            counts = [0] * 2000
            for time in arrivals.send_times(kind, 200, 200, 5):
                counts[time // (100 * MS)] += 1
            mean = sum(counts) / len(counts)
            return sum((count - mean) ** 2 for count in counts) / len(counts) / mean

        self.assertAlmostEqual(dispersion("poisson"), 1, delta=0.2)
        self.assertGreater(dispersion("bursty"), 3)

    def test_every_payload_comes_equally_often(self):
        order = arrivals.payload_order(700, 7, 1)
        self.assertEqual([order.count(p) for p in range(7)], [100] * 7)

    def test_an_unknown_kind_or_no_rate_is_an_error(self):
        self.assertRaises(ValueError, arrivals.send_times, "uniform", 1, 1, 1)
        self.assertRaises(ValueError, arrivals.send_times, "poisson", 0, 1, 1)


class Figures(unittest.TestCase):
    def test_a_percentile_is_the_smallest_value_that_covers_its_share(self):
        self.assertEqual(figures.percentile([5, 1, 4, 2, 3], 0.5), 3)
        self.assertEqual(figures.percentile(range(1, 101), 0.99), 99)
        self.assertEqual(figures.percentile([7], 0.01), 7)
        self.assertIsNone(figures.percentile([], 0.5))

    def test_spread_has_the_median_of_an_even_count_between_its_middle_values(self):
        self.assertEqual(figures.spread([4, 1, 3, 2])["median"], 2.5)
        self.assertEqual((figures.spread([3, 1, 2])["low"], figures.spread([3, 1, 2])["high"]), (1, 3))

    def test_late_failed_unsent_and_unanswered_calls_all_count_against_goodput(self):
        calls = [call(0, 50), call(0, 51), call(0, 10, code=1004), call(0, -1, code=1), call(0, -1, code=figures.NOT_SENT)]
        result = figures.summary(calls, 2.0, 50)
        self.assertEqual((result["calls"], result["answered"], result["good"]), (5, 2, 1))
        self.assertEqual((result["goodput"], result["goodput_ratio"]), (0.5, 0.2))
        self.assertEqual(result["codes"], {"0": 2, "1": 1, "1004": 1, "2": 1})

    def test_latency_counts_from_when_the_call_was_due_not_from_when_it_was_sent(self):
        self.assertEqual(figures.summary([call(0, 60, sent_ms=40)], 1, 50)["good"], 0)

    def test_a_client_that_sends_late_or_not_at_all_has_not_held_the_load(self):
        self.assertTrue(figures.summary([call(i, i + 1) for i in range(100)], 1, 50)["held"])
        self.assertFalse(figures.summary([call(i, i + 40, sent_ms=i + 30) for i in range(100)], 1, 50)["held"])
        unsent = [call(0, -1, code=figures.NOT_SENT)] * 2 + [call(i, i + 1) for i in range(98)]
        self.assertFalse(figures.summary(unsent, 1, 50)["held"])

    def test_goodput_is_kept_by_class(self):
        calls = [call(0, 1, payload=0), call(0, 99, payload=1), call(0, 1, payload=1)]
        classes = figures.summary(calls, 1, 50, ["short", "long"])["classes"]
        self.assertEqual(classes["short"], {"calls": 1, "good": 1, "goodput_ratio": 1})
        self.assertEqual(classes["long"], {"calls": 2, "good": 1, "goodput_ratio": 0.5})

    def test_overload_is_compared_with_the_peak_by_calls_a_second_also_of_windows_of_other_length(self):
        peak = figures.summary([call(0, 1, payload=p) for p in (0, 0, 1, 1)], 2, 50, ["short", "long"])
        over = figures.summary([call(0, 1, payload=0)] * 6 + [call(0, 1, payload=1)] + [call(0, 90, payload=1)] * 5, 4, 50,
                               ["short", "long"])
        whole, classes = figures.of_peak(over, peak)
        self.assertEqual((whole, classes), (7 / 4 / 2, {"short": 1.5, "long": 0.25}))

    def test_records_are_read_as_the_load_generator_writes_them(self):
        data = struct.pack("<QqqqiI", 3, 10, 20, -1, 1, 0) + struct.pack("<QqqqiI", 4, 11, 21, 31, 0, 1544)
        self.assertEqual(figures.read_calls(data), [(3, 10, 20, -1, 1, 0), (4, 11, 21, 31, 0, 1544)])

    def test_the_search_finds_the_highest_passing_rate_within_its_tolerance(self):
        for limit in (3, 77, 333, 4000):
            for start, step in ((1, 2), (50, 2), (1000, 2), (limit * 1.1, 1.2), (limit * 0.9, 1.2), (7, 1.2)):
                rate, result, probes = figures.search_rate(lambda r, m=limit: (r <= m, r), start, step=step)
                self.assertLessEqual(rate, limit)
                self.assertGreater(rate * 1.05, limit * 0.999)
                self.assertEqual(result, rate)
                self.assertTrue(any(not p["passed"] for p in probes))

    def test_a_search_that_starts_near_takes_few_probes(self):
        _, _, probes = figures.search_rate(lambda r: (r <= 100, r), 95, step=1.2)
        self.assertLessEqual(len(probes), 5)

    def test_a_server_that_holds_no_rate_gets_zero(self):
        self.assertEqual(figures.search_rate(lambda r: (False, None), 50)[:2], (0.0, None))

    def test_everyone_is_measured_once_a_repetition_and_begins_in_turn(self):
        order = figures.turns(["a", "b", "c"], 3)
        self.assertEqual([name for _, name in order], list("abcbcacab"))
        self.assertEqual(figures.turns([], 3), [])

    def test_cosines_of_equal_and_opposite_vectors(self):
        low, mean = figures.cosines([[1, 0], [0, 2]], [[2, 0], [0, -1]])
        self.assertEqual((low, mean), (-1, 0))
        self.assertRaises(ValueError, figures.cosines, [[1, 0]], [])


class Tables(unittest.TestCase):
    def test_numbers_have_three_digits_and_no_exponent(self):
        shown = [table.number(v) for v in (None, 0, 12345.6, 123.4, 56.78, 0.01234, 0.0000123)]
        self.assertEqual(shown, ["–", "0", "12,346", "123", "56.8", "0.0123", "0.0000123"])

    def test_a_row_of_another_length_than_the_header_is_an_error(self):
        self.assertRaises(ValueError, table.markdown, ["a", "b"], [["1"]])

    def test_the_report_shows_figures_equivalence_and_what_failed(self):
        machine = {"cpu": "a processor", "cores": 2, "isa": "all instructions"}
        report = {"started": "2026-12-01", "commit": "abc", "machine": machine, "threads": 2, "quick": False, "inprocess": {
            "contenders": {"ours": {}, "peer": {"error": "Traceback\nImportError: no module"}},
            "equivalence": {"text-16": {"ours": {"min_cosine": 0.99999, "mean_cosine": 1}}},
            "results": [{"workload": "text-16", "mode": "throughput", "contender": "ours", **figures.spread([10, 20, 30])}]}}
        text = table.render(report)
        self.assertIn("| ours | 20 (10–30) | cosine ≥ 0.99999 |", text)
        self.assertIn("- peer: ImportError: no module", text)

    def test_server_tables_show_searches_closed_loops_and_overload(self):
        section = {"contenders": {"ours": {"ready_seconds": [1.5], "min_cosine": 0.9999}}, "closed_clients": 32,
                   "goodput": [{"server": "ours", "workload": "text-mixed", "arrivals": "poisson", "slo_ms": 50, **figures.spread([100])}],
                   "closed": [{"server": "ours", "workload": "text-mixed", **figures.spread([300])}],
                   "alone": [{"server": "ours", "workload": "text-16", **figures.spread([1.25])}],
                   "overload": [{"server": "ours", "slo_ms": 50, "factor": 1.5, "median": 95, "of_peak": 0.95, "classes": {"query": 0.9}}]}
        text = table.servers(section)
        for line in ("| ours | 100 (100–100) |", "| ours | 300 (300–300) |", "| ours | 1.25 (1.25–1.25) |",
                     "| ours | 50 ms, 1.5× | 95 | 0.95 | 0.9 |",
                     "| ours | 1.5 | – | – | ≥ 0.99990 |"):
            self.assertIn(line, text)


class Wire(unittest.TestCase):
    def test_fields_are_read_back_also_of_long_messages(self):
        message = wire.field(1, b"x" * 300) + wire.varint(3 << 3) + wire.varint(1 << 40) + wire.field(1000, b"")
        self.assertEqual(list(wire.fields(message)), [(1, b"x" * 300), (3, 1 << 40), (1000, b"")])

    def test_a_tributary_answer_gives_its_vectors_and_a_failed_input_is_an_error(self):
        vector = wire.field(1, struct.pack("<2f", 0.5, -1))
        fused = wire.field(1, struct.pack("<2f", 2, 3))
        answer = wire.field(1, wire.field(1, wire.field(1, vector) + wire.field(3, fused)))
        self.assertEqual(wire.tributary_vectors(answer), [[2, 3]])
        self.assertEqual(wire.tributary_vectors(wire.field(1, wire.field(1, wire.field(1, vector)))), [[0.5, -1]])
        self.assertRaises(ValueError, wire.tributary_vectors, wire.field(1, wire.field(2, b"\x08\x03")))

    def test_a_triton_answer_gives_its_vector(self):
        self.assertEqual(wire.triton_vectors(wire.field(1, b"text") + wire.field(6, struct.pack("<2f", 1, 2))), [[1, 2]])


if __name__ == "__main__":
    unittest.main()
