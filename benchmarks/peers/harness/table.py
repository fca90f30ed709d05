"""Results as Markdown. Pure: JSON in, text out."""


def number(value, digits=3):
    """Three significant digits, thousands by comma: 1,234 · 56.7 · 0.0123; '–' for None."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{value:.10f}".rstrip("0") if "e" in text else text


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"a row of {len(row)} cells under {len(header)} headers: {row}")
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines) + "\n"


def with_spread(figure):
    return f"{number(figure['median'])} ({number(figure['low'])}–{number(figure['high'])})"


def in_process(section):
    """One table a mode: contenders by workloads, median (lowest–highest), and the cosine that was checked before."""
    text = ""
    units = {"throughput": "inputs/s", "latency": "p50 ms, one input at a time", "tokenise": "texts/s, one thread",
             "prepare": "images/s, one thread"}
    for mode, unit in units.items():
        results = [r for r in section["results"] if r["mode"] == mode]
        if not results:
            continue
        workloads = list(dict.fromkeys(r["workload"] for r in results))
        contenders = list(dict.fromkeys(r["contender"] for r in results))
        rows = []
        for contender in contenders:
            cells = [contender]
            for workload in workloads:
                found = [r for r in results if r["contender"] == contender and r["workload"] == workload]
                cells.append(with_spread(found[0]) if found else "–")
            rows.append(cells + [equivalence(section, contender, workloads)])
        text += f"\n### In process: {mode} ({unit})\n\n" + markdown(["", *workloads, "equivalence"], rows)
    return text + failures(section)


def equivalence(section, contender, workloads):
    """The worst of the workloads shown."""
    found = [section["equivalence"][w][contender] for w in workloads if contender in section["equivalence"].get(w, {})]
    if not found:
        return "–"
    if "min_cosine" in found[0]:
        return f"cosine ≥ {min(e['min_cosine'] for e in found):.5f}"
    if "identical" in found[0]:
        return f"{sum(e['identical'] for e in found)} of {sum(e['rows'] for e in found)} identical"
    return f"largest difference {max(e['max_difference'] for e in found)} of 255"


def failures(section):
    failed = [(name, c["error"]) for name, c in section["contenders"].items() if c.get("error")]
    if not failed:
        return ""
    return "\nNot measured:\n\n" + "".join(f"- {name}: {first_line(error)}\n" for name, error in failed)


def first_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def servers(section, title="Servers"):
    text = ""
    searches = section.get("goodput", [])
    if searches:
        columns = list(dict.fromkeys((s["workload"], s["arrivals"], s["slo_ms"]) for s in searches))
        rows = []
        for name in dict.fromkeys(s["server"] for s in searches):
            cells = [name]
            for column in columns:
                found = [s for s in searches if (s["workload"], s["arrivals"], s["slo_ms"]) == column and s["server"] == name]
                cells.append(with_spread(found[0]) if found else "–")
            rows.append(cells)
        header = [""] + [f"{w}, {a}, {slo:g} ms" for w, a, slo in columns]
        text += f"\n### {title}: goodput (calls/s, highest rate with 99 % within the SLO)\n\n" + markdown(header, rows)
    text += by_workload(section.get("closed", []), f"{title}: closed loop, {section['closed_clients']} clients (calls/s)")
    text += by_workload(section.get("alone", []), f"{title}: one client, one call at a time (p50 ms)")
    overload = section.get("overload", [])
    if overload:
        classes = list(dict.fromkeys(c for o in overload for c in o["classes"]))
        rows = [[o["server"], f"{o['slo_ms']:g} ms, {o['factor']:g}×", number(o["median"]), number(o["of_peak"]),
                 *[number(o["classes"].get(c)) for c in classes]] for o in overload]
        header = ["", "load", "goodput, calls/s", "of peak", *[f"{c}: of its peak" for c in classes]]
        text += f"\n### {title}: overload\n\n" + markdown(header, rows)
    starts = {n: c for n, c in section.get("contenders", {}).items() if c.get("ready_seconds")}
    if starts:
        rows = [[n, number(spread_median(c["ready_seconds"])), number(c.get("rest_megabytes")), number(c.get("load_megabytes")),
                 f"≥ {c['min_cosine']:.5f}" if c.get("min_cosine") is not None else "–"] for n, c in starts.items()]
        text += f"\n### {title}: start and memory\n\n" + markdown(
            ["", "start to ready, s", "MB at rest", "MB under load", "cosine"], rows)
    return text + failures(section)


def by_workload(results, title):
    if not results:
        return ""
    workloads = list(dict.fromkeys(r["workload"] for r in results))
    rows = []
    for name in dict.fromkeys(r["server"] for r in results):
        found = {r["workload"]: r for r in results if r["server"] == name}
        rows.append([name] + [with_spread(found[w]) if w in found else "–" for w in workloads])
    return f"\n### {title}\n\n" + markdown(["", *workloads], rows)


def spread_median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def render(report):
    machine = report["machine"]
    text = (f"# Tributary beside its peers\n\n{report['started']}, commit {report['commit']}, {machine['cpu']}, "
            f"{report['threads']} of {machine['cores']} cores, {machine['isa']}"
            f"{', quick: no figures to quote' if report['quick'] else ''}. Median (lowest–highest) of the repetitions.\n")
    if "inprocess" in report:
        text += "\n## In process\n" + in_process(report["inprocess"])
    if "servers" in report:
        text += "\n## Servers\n" + servers(report["servers"])
    if "ablations" in report:
        text += "\n## Ablations\n" + servers(report["ablations"], "Ablations")
    return text
