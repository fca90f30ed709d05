"""The same results as bars: one panel a question, Tributary in one colour, peers in another."""
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend is chosen first)

OURS, PEER = "#1b6ca8", "#b9bec4"


def draw(report, path):
    panels = list(panels_of(report))
    if not panels:
        panels = [("nothing was measured", "", [])]
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    height = max(len(bars) for _, _, bars in panels)
    figure, axes = plt.subplots(lines, columns, figsize=(6.2 * columns, (1.1 + 0.28 * max(height, 3)) * lines), squeeze=False)
    for axis in axes.flat[len(panels):]:
        axis.axis("off")
    for axis, (title, unit, bars) in zip(axes.flat, panels):
        panel(axis, title, unit, bars)
    machine = report["machine"]
    figure.suptitle(f"Tributary beside its peers: {machine['cpu']}, {report['threads']} of {machine['cores']} cores, "
                    f"{machine['isa']}, {report['started'][:10]}{', QUICK RUN' if report['quick'] else ''}", fontsize=11)
    figure.tight_layout(rect=(0, 0, 1, 0.985 if lines > 2 else 0.95))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def panels_of(report):
    """(title, unit, [(name, figure, ours)]), the largest first but where less is better."""
    for result_set, unit in (("throughput", "inputs/s"), ("latency", "p50 ms: less is better"), ("tokenise", "texts/s"),
                             ("prepare", "images/s")):
        results = [r for r in report.get("inprocess", {}).get("results", []) if r["mode"] == result_set]
        for workload in dict.fromkeys(r["workload"] for r in results):
            bars = [(r["contender"], r, r["contender"].startswith("tributary")) for r in results if r["workload"] == workload]
            yield f"{workload}, in process, {result_set}", unit, ordered(bars, result_set != "latency")
    for part in ("servers", "ablations"):
        section = report.get(part, {})
        keys = dict.fromkeys((g["workload"], g["arrivals"], g["slo_ms"]) for g in section.get("goodput", []))
        for workload, arrivals, slo in keys:
            bars = [(g["server"], g, part == "ablations" or g["server"].startswith("tributary")) for g in section["goodput"]
                    if (g["workload"], g["arrivals"], g["slo_ms"]) == (workload, arrivals, slo)]
            yield f"{workload}, {part}, {arrivals}, {slo:g} ms", "goodput, calls/s", ordered(bars, True)
        for workload in dict.fromkeys(c["workload"] for c in section.get("closed", [])):
            bars = [(c["server"], c, part == "ablations" or c["server"].startswith("tributary"))
                    for c in section["closed"] if c["workload"] == workload]
            yield f"{workload}, {part}, closed loop", "calls/s", ordered(bars, True)


def ordered(bars, largest_first):
    return sorted(bars, key=lambda bar: bar[1]["median"], reverse=largest_first)


def panel(axis, title, unit, bars):
    axis.set_title(title, fontsize=10, loc="left")
    axis.set_xlabel(unit, fontsize=8)
    names = [name for name, _, _ in bars]
    medians = [figure["median"] for _, figure, _ in bars]
    errors = [[f["median"] - f["low"] for _, f, _ in bars], [f["high"] - f["median"] for _, f, _ in bars]]
    axis.barh(range(len(bars)), medians, xerr=errors if bars else None, color=[OURS if ours else PEER for _, _, ours in bars],
              error_kw={"elinewidth": 0.8, "ecolor": "#444444"}, height=0.72)
    for place, (_, figure, _) in enumerate(bars):
        axis.annotate(f" {figure['median']:,.0f}" if figure["median"] >= 100 else f" {figure['median']:.3g}",
                      (figure["high"], place), va="center", fontsize=7)
    axis.set_yticks(range(len(bars)), names, fontsize=8)
    axis.invert_yaxis()
    axis.margins(x=0.14)
    axis.tick_params(axis="x", labelsize=7)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
