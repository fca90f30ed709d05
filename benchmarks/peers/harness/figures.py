"""What is reckoned from measurements: percentiles, goodput, medians and spread. Pure."""
import collections
import math
import struct

# benchmarks/peers/load.h: CallRecord.
RECORD = struct.Struct("<QqqqiI")
NOT_SENT = 2

# A run stands for the rate asked for only while the client kept up.
MAX_NOT_SENT_RATIO = 0.01
MAX_SEND_LAG_RATIO = 0.5  # p99 of the send lag, of the SLO

Call = collections.namedtuple("Call", "payload due sent done code answer_bytes")


def read_calls(data):
    return [Call(*fields) for fields in RECORD.iter_unpack(data)]


def percentile(values, share):
    """The smallest value that at least `share` of the values do not exceed; None of no values."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(values):
    """Median, lowest and highest of repetitions."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return {"median": median, "low": ordered[0], "high": ordered[-1], "values": list(values)}


def summary(calls, seconds, slo_ms, classes=None, offered_rate=None):
    """Of one run of `seconds`. Latency counts from the time a call was due. A call without an answer, with an error or late
    is not good; all of them count in goodput_ratio. `classes`: the class of each payload."""
    slo_nanos = slo_ms * 1e6
    latencies = [call.done - call.due for call in calls if call.code == 0]
    good = [call for call in calls if call.code == 0 and call.done - call.due <= slo_nanos]
    lags = [call.sent - call.due for call in calls if call.sent >= 0]
    not_sent = sum(call.code == NOT_SENT for call in calls)
    elapsed = max([seconds] + [call.done / 1e9 for call in calls if call.code == 0])
    result = {
        "seconds": seconds,
        "offered_rate": offered_rate,
        "slo_ms": slo_ms,
        "calls": len(calls),
        "answered": len(latencies),
        "good": len(good),
        "goodput": len(good) / seconds,
        "goodput_ratio": len(good) / len(calls) if calls else None,
        "throughput": len(latencies) / elapsed,
        "p50_ms": milliseconds(percentile(latencies, 0.5)),
        "p99_ms": milliseconds(percentile(latencies, 0.99)),
        "send_lag_p99_ms": milliseconds(percentile(lags, 0.99)),
        "codes": dict(sorted(collections.Counter(str(call.code) for call in calls).items())),
    }
    result["held"] = bool(calls) and not_sent <= MAX_NOT_SENT_RATIO * len(calls) and (
        result["send_lag_p99_ms"] or 0) <= MAX_SEND_LAG_RATIO * slo_ms
    if classes:
        result["classes"] = by_class(calls, good, classes)
    return result


def milliseconds(nanos):
    return None if nanos is None else nanos / 1e6


def by_class(calls, good, classes):
    offered = collections.Counter(classes[call.payload] for call in calls)
    met = collections.Counter(classes[call.payload] for call in good)
    return {name: {"calls": count, "good": met[name], "goodput_ratio": met[name] / count}
            for name, count in sorted(offered.items())}


def of_peak(result, peak):
    """Goodput under overload as a share of the goodput at the peak: (altogether, {class: share})."""
    def per_second(run, good):
        return good / run["seconds"]

    classes = {}
    for name, at_peak in peak.get("classes", {}).items():
        good = result.get("classes", {}).get(name, {"good": 0})["good"]
        classes[name] = per_second(result, good) / per_second(peak, at_peak["good"]) if at_peak["good"] else None
    return result["goodput"] / peak["goodput"], classes


def passes(result, ratio=0.99):
    return result["goodput_ratio"] is not None and result["goodput_ratio"] >= ratio


def search_rate(probe, start, tolerance=0.05, step=2.0, lowest=0.5, highest=1e5):
    """The highest rate that passes. probe(rate) -> (passed, result). Goes up or down from `start` by the factor
    `step`, then its square and so on, at most 2; then bisects until pass and fail are within `tolerance`. Returns (rate, result of the last pass at it, probes); rate 0: none passed."""
    probes = []
    best, best_result, fail = 0.0, None, None
    rate = start
    while True:
        passed, result = probe(rate)
        probes.append({"rate": rate, "passed": passed, "result": result})
        if passed:
            best, best_result = rate, result
        else:
            fail = rate
        if best and fail:
            if fail / best <= 1 + tolerance:
                return best, best_result, probes
            rate = (best + fail) / 2
        elif best:
            if best * step > highest:
                return best, best_result, probes
            rate = best * step
            step = min(step * step, 2.0)
        else:
            if fail / step < lowest:
                return 0.0, None, probes
            rate = fail / step
            step = min(step * step, 2.0)


def turns(names, repetitions):
    """Who is measured when: every contender once a repetition, each time beginning with another one, so that none has
    always the same neighbour before it, and drift of the machine meets all alike."""
    names = list(names)
    return [(repetition, name) for repetition in range(repetitions)
            for name in names[repetition % len(names):] + names[:repetition % len(names)]] if names else []


def cosines(rows, reference):
    """(min, mean) over the cosines of two lists of vectors."""
    values = []
    for row, expected in zip(rows, reference, strict=True):
        dot = sum(a * b for a, b in zip(row, expected, strict=True))
        lengths = math.sqrt(sum(a * a for a in row) * sum(b * b for b in expected))
        values.append(dot / lengths if lengths > 0 else 0.0)
    return min(values), sum(values) / len(values)
