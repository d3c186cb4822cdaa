"""Pictures of a plan that was served: the cliff, the week, the distribution of TTFT, and the worst hour."""

from __future__ import annotations

from planner.io.formatting import DAYS, hour_name, percent
from planner.reports.charts.svg import Axis, Frame, Line, curves, nice_ticks, picture, text, titled, whole_ticks
from planner.reports.markup import Html, el, figure, join, legend
from planner.reports.tables.verification import seconds
from planner.verification.records import Promise, Verification, VerificationReport, WorkloadServed

WIDTH, HEIGHT = 720.0, 300.0
NARROW, LOW = 460.0, 260.0
"""of pictures that stand side by side, so that a phone does not shrink their text"""
EVERY_HOURS = 3
COLOURS = 6


def attainment(report: VerificationReport) -> Html:
    """The share of requests within each target against the load: where it falls off is the cliff."""
    runs = sorted((run for run in report.runs if run.stopped is None), key=lambda run: run.load)
    if len(runs) < 2:
        return Html("")
    names = [(w.name, p.what) for w in runs[0].workloads for p in w.promises][:COLOURS]
    lines = []
    for workload, what in names:
        shares = [_promise(run, workload, what).within_frac for run in runs]
        labels = [f"{workload} {what} at {run.load:g}: {percent(s, 1)}" for run, s in zip(runs, shares, strict=True)]
        lines.append(Line(f"{workload} {what}", [run.load for run in runs], shares, labels))
    promised = min(p.percentile for w in runs[0].workloads for p in w.promises)
    loads = [run.load for run in runs]
    low = min(0.9, *(y for line in lines for y in line.y))
    x = Axis("times the demand", written=lambda v: f"{v:g}")
    frame = Frame(
        x, Axis("within target", written=lambda v: f"{v:.0%}"), _spread(loads), nice_ticks(low, 1.0), width=WIDTH,
        height=HEIGHT,
    )  # fmt: skip
    at = frame.py(promised)
    limit = f'<path class="limit" d="M{frame.left:g} {at:.1f}H{frame.width - frame.right:g}"/>'
    said = text(frame.width - frame.right, at + 16, f"promised: {promised:.0%}", "end", "limit")
    parts = [*frame.grid(), limit, said]
    parts += curves(frame, lines)
    keys = legend([(f"b{k % COLOURS + 1}", line.name) for k, line in enumerate(lines)])
    held = [run.load for run in runs if run.kept]
    title = (
        f"Every promise is kept up to {max(held):g} times the demand"
        if held
        else "Promises are missed at every load tried"
    )
    return figure("attainment", title, keys, Html(picture(title, WIDTH, HEIGHT, parts)), wide=True)


def _promise(run: Verification, workload: str, what: str) -> Promise:
    return next(p for w in run.workloads if w.name == workload for p in w.promises if p.what == what)


def _spread(loads: list[float]) -> list[float]:
    return sorted(set(loads)) if len(set(loads)) > 1 else [loads[0] * 0.9, loads[0] * 1.1]


def week(w: WorkloadServed, p: Promise, key: str) -> Html:
    """The latency at the promised share over its target, by hour and day."""
    head = el("tr", el("th", ""), *(el("th", str(h) if h % EVERY_HOURS == 0 else "", scope="col") for h in range(24)))
    columns = Html('<colgroup><col class="d">' + "<col>" * 24 + "</colgroup>")
    rows = []
    for day, name in enumerate(DAYS):
        if all(x is None for x in p.at_percentile_by_hour_s[24 * day : 24 * day + 24]):
            continue
        cells = [el("td", name, class_="day")]
        for hour in range(24):
            latency = p.at_percentile_by_hour_s[24 * day + hour]
            if latency is None:
                cells.append(el("td", "–", class_="cell"))
                continue
            share = latency / p.target_s
            label = f"{name} {hour:02d}:00: {seconds(latency)} of {seconds(p.target_s)}"
            kind = f"cell h{min(10, round(8 * share))}" + (" late" if share > 1 else "")
            cells.append(el("td", f"{100 * share:.0f}" if share < 9.995 else ">999", class_=kind, title=label))
        rows.append(el("tr", *cells))
    table = el("table", columns, el("thead", head), el("tbody", *rows))
    box = el("div", table, class_="heat", role="region", aria_label=f"{w.name} {p.what} by hour")
    served = "hour" if all(latency is not None for latency in p.at_percentile_by_hour_s) else "hour served"
    several = f"{p.bad_hours} hours miss" if p.bad_hours > 1 else "One hour misses"
    bad = several if p.bad_hours else f"No {served} misses"
    title = f"{bad} {p.what} {seconds(p.target_s)} of {w.name}"
    caption = f"Latency at the promised {percent(p.percentile)}, in percent of its target."
    return figure(f"week-{p.what.lower()}-{key}", title, box, caption=caption, wide=True)


def distribution(w: WorkloadServed, key: str) -> Html:
    """How many requests have which TTFT, on a logarithmic axis, and the target."""
    edges, counts = w.ttft_histogram.edges_s, w.ttft_histogram.requests
    target = next((p for p in w.promises if p.what == "TTFT"), None)
    if target is None or w.ttft is None or len(counts) < 2:
        return Html("")
    x = Axis("TTFT", log=True, written=seconds)
    known = [*edges, target.target_s]
    y = Axis("requests")
    frame = Frame(x, y, x.ticks(known), whole_ticks(max(counts)), width=NARROW, height=LOW)
    parts = frame.grid()
    for low, high, n in zip(edges, edges[1:], counts, strict=False):
        a, b = frame.px(max(low, frame.x_ticks[0])), frame.px(min(high, frame.x_ticks[-1]))
        top = frame.py(n)
        size = f'width="{max(0.5, b - a - 0.5):.1f}" height="{frame.py(0) - top:.1f}"'
        rect = f'<rect class="f1" x="{a:.1f}" y="{top:.1f}" {size}/>'
        parts.append(titled(rect, f"{seconds(low)} to {seconds(high)}: {n:,} requests"))
    at = frame.px(target.target_s)
    parts.append(f'<path class="limit" d="M{at:.1f} {frame.top:g}V{frame.height - frame.bottom:g}"/>')
    parts.append(text(at + 6, frame.top + 12, f"target {seconds(target.target_s)}", kind="limit"))
    half, most = seconds(w.ttft.p50_s), seconds(w.ttft.p99_s)
    title = f"Half of the requests of {w.name} have a first token within {half}, 99% within {most}"
    return figure(f"ttft-{key}", title, Html(picture(title, NARROW, LOW, parts)))


def worst_hour(w: WorkloadServed, p: Promise, key: str) -> Html:
    """The share within the target, minute by minute, in the hour that was worst."""
    if p.worst_hour is None or p.worst_frac is None or p.worst_frac >= 1:
        return Html("")
    minutes = enumerate(zip(p.worst_hour_within, p.worst_hour_requests, strict=True))
    points = [(m, s, n) for m, (s, n) in minutes if s is not None]
    if len(points) < 2:
        return Html("")
    labels = [f"minute {m}: {percent(s)} of {n:,} requests" for m, s, n in points]
    line = Line(p.what, [m for m, _, _ in points], [s for _, s, _ in points], labels)
    frame = Frame(
        Axis("minute"), Axis("within target", written=lambda v: f"{v:.0%}"), [0, 15, 30, 45, 60], nice_ticks(0.0, 1.0),
        width=NARROW, height=LOW,
    )  # fmt: skip
    at = frame.py(p.percentile)
    limit = f'<path class="limit" d="M{frame.left:g} {at:.1f}H{frame.width - frame.right:g}"/>'
    parts = [*frame.grid(), limit, *curves(frame, [line])]
    title = f"The worst hour of {w.name} is {hour_name(p.worst_hour)}: {percent(p.worst_frac)} within {p.what}"
    return figure(f"worst-{p.what.lower()}-{key}", title, Html(picture(title, NARROW, LOW, parts)))


def pictures_of(run: Verification, number: int) -> Html:
    """Draw for each workload the week of each promise, the distribution, and the worst hour; runs have numbers."""
    drawn: list[Html] = []
    for k, w in enumerate(run.workloads):
        key = f"{number}-{k}"
        drawn += [week(w, p, key) for p in w.promises]
        drawn += [distribution(w, key), *(worst_hour(w, p, key) for p in w.promises)]
    return join(drawn)
