"""A demand file from logs: every figure with its basis beside it, and a mark at what is still to be decided."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from planner.case.demand.from_logs_tokens import DECIDE, caching_lines, comment, token_lines
from planner.case.demand.load_workloads import DEFAULT_BURSTINESS, DEFAULT_VARIATION
from planner.case.demand.workload_schema import MOST_BURSTINESS, MOST_VARIATION
from planner.catalog.entries import shipped_catalog
from planner.catalog.names import find_model
from planner.io.errors import escaped, input_error, shortened, shown
from planner.io.formatting import counted
from planner.logs.measure import Measured, Workload, hour_notes
from planner.logs.statistics import WITHIN_HOUR_VARIATION

DEFAULT_MODEL, DEFAULT_BASELINE = "llama-3.1-8b", "openai/gpt-4o-mini"
LEAST_BURSTINESS, FEWEST_IN_PEAK = 0.05, 20.0
MOST_NAME = 80
"""characters that a demand file takes"""


@dataclass(frozen=True)
class Variation:
    share: float
    basis: str


def demand_text(measured: Measured, name: str) -> str:
    """The text of a demand file that plans as it is."""
    check_name(name)
    names = _names(measured, name)
    lines = [*_head(measured), "workloads:"]
    for workload, title in zip(measured.workloads, names, strict=True):
        lines += _workload(workload, title, measured)
    lines += [
        "",
        f"menu: {{providers: [aws], regions: [us-east-1]}}   # {DECIDE}: where you may rent",
        f"baseline: {DEFAULT_BASELINE}   # {DECIDE}: the API model to compare with",
    ]
    if measured.dated:
        lines.append(f"time_zone: {measured.options.zone}   # of the hours above")
    return "\n".join(lines) + "\n"


def check_name(name: str) -> None:
    """Refuse a name of a workload that no demand file may have."""
    if not name.strip() or len(name) > MOST_NAME or name != escaped(name):
        remedy = f"Write one line of 1 to {MOST_NAME} characters"
        raise input_error("--name", f"{shown(shortened(name, 60))} is no name of a workload", remedy)


def _names(measured: Measured, name: str) -> list[str]:
    """Names of workloads, each once, and such as a demand file takes."""
    names: list[str] = []
    for w in measured.workloads:
        title = shortened(escaped(w.traffic.name).strip(), 70) if measured.options.by else name
        title = title or "(none)"
        while title in names:
            title += "'"
        names.append(title)
    return names


def _head(measured: Measured) -> list[str]:
    ledger, options = measured.ledger, measured.options
    formats = ", ".join(f"{n} x {name}" for name, n in ledger.formats.items())
    lines = [
        "Demand from logs. Plan it with:   fleetplan plan THIS-FILE",
        f"Read: {formats}; {counted(ledger.rows, 'row')}. Hours are those of {options.zone}"
        + (f", with {counted(len(options.holidays), 'holiday')} as weekend days." if options.holidays else "."),
        *ledger.left_out_lines(),
        *ledger.notes,
        f"Lines with {DECIDE} are defaults that no log can tell: models, objectives, where to rent.",
    ]
    if not measured.dated:
        lines.insert(2, "The log has no dates: it is taken to begin on a Monday at 0h.")
    return [comment(line) for line in lines] + [""]


def _workload(w: Workload, title: str, measured: Measured) -> list[str]:
    t = w.traffic
    name = json.dumps(title, ensure_ascii=False)
    lines = [f"  - name: {name}", *_models(w), "    forecast:"]
    rate = t.total / max(1.0, t.span_s)
    volume = f"{counted(t.total, 'request')} in {_span(t.span_s)}, {_number(rate)} a second on average"
    lines.append(comment(volume, " " * 6))
    lines += _rates(w)
    growth = f"{100 * w.growth.per_month:+.1f}%" if w.growth.per_month else "0%"
    mark = f"{DECIDE}: not measured, " if w.growth.per_month is None else ""
    lines.append(f"      growth_per_month: {growth}   # {mark}{w.growth.basis}")
    variation = variation_of(w)
    lines.append(f"      variation: {100 * variation.share:.1f}%   # {variation.basis}")
    lines.append(f"      burstiness: {_burstiness(w)}")
    lines += ["    tokens:", *token_lines(t.lengths)]
    lines.append(f"    slo: {{ttft_p95: 2s, tpot_p95: 50ms}}   # {DECIDE}: what your users were promised")
    lines += caching_lines(w, measured.reuse if len(measured.workloads) == 1 else None)
    if title == "batch":
        lines.append(f"    # deadline: 24h   # {DECIDE}: batch work that may wait")
    return lines


def _models(w: Workload) -> list[str]:
    """The catalog's name of the model most used, or a default."""
    models = shipped_catalog().models
    seen = [(name, n) for name, n in w.traffic.models if name]
    total = max(1.0, w.traffic.total)
    parts = ", ".join(f"{shown(name)} {n / total:.0%}" for name, n in seen[:3])
    known = next(((find_model(name, models), n) for name, n in seen if find_model(name, models)), None)
    if known is None:
        why = f"the log names {parts}, which the catalog does not host" if seen else "the log names no model"
        return [f"    models: [{DEFAULT_MODEL}]   # {DECIDE}: {why}"]
    if known[1] >= 0.999 * total:
        return [f"    models: [{known[0]}]   # from the log"]
    hint = "" if w.traffic.name and len(seen) == 1 else "; --by model splits it"
    return [f"    models: [{known[0]}]   # {DECIDE}: the log mixes {parts}{hint}"]


def _rates(w: Workload) -> list[str]:
    r = w.rates
    if r.flat:
        per_day = _number(24 * r.weekday[0])
        return [
            f"      requests_per_day: {per_day}   # {DECIDE}: the log is too short for hours of the day, its mean rate",
            f"      shape: flat                  # {DECIDE}: is taken for all of them",
        ]
    lines = [
        comment(f"requests per hour, means of the last {r.latest_days:.3g} days of known hours", " " * 6),
        *(comment(note, " " * 6) for note in hour_notes(w)),
        "      hourly: [",
    ]
    for kind, values in (("weekday from 0h on", r.weekday), ("weekend day", r.weekend)):
        for start in (0, 12):
            part = ", ".join(_number(x) for x in values[start : start + 12])
            lines.append(f"        {part},{f'   # {kind}' if start == 0 else ''}")
    return [*lines, "      ]"]


def variation_of(w: Workload) -> Variation:
    """Swings within the hour and from day to day, together."""
    s = w.swings
    if s.variation is None:
        return Variation(DEFAULT_VARIATION, f"{DECIDE}: too few or too coarse counts to measure swings; the default")
    within = WITHIN_HOUR_VARIATION if s.within_cv is None else s.within_cv
    parts = [f"{within:.1%} within the hour (not measured: as in public traces)"]
    if s.within_cv is not None:
        where = "around the mean of the log" if w.rates.flat else "within the hour"
        parts = [f"{within:.1%} by {_step(s.within_s)} {where}, beyond the noise of counts"]
    if s.ten_minutes_cv is not None and s.within_s != 600:
        parts.append(f"{s.ten_minutes_cv:.1%} by ten minutes")
    parts.append("day to day not measured" if s.daily_cv is None else f"{s.daily_cv:.1%} day to day")
    if w.traffic.total / max(1.0, w.traffic.span_s) * w.traffic.step_s >= FEWEST_IN_PEAK:
        parts.append(f"busiest {_step(w.traffic.step_s)} {s.peak_ratio:.2f} times the mean")
    return Variation(min(MOST_VARIATION, s.variation), "; ".join(parts))


def _burstiness(w: Workload) -> str:
    b = w.bursts
    if b.scv is None:
        return f"{DEFAULT_BURSTINESS:g}   # {DECIDE}: not measured, {b.why_not}; the default of chat"
    overall = f"; CV of all gaps {b.overall_cv:.2f}" if b.overall_cv is not None else ""
    value = min(MOST_BURSTINESS, max(LEAST_BURSTINESS, b.scv))
    return f"{value:.3g}   # squared CV of {b.gaps:,} gaps over the mean gap of their {_step(b.window_s)}{overall}"


def _number(x: float) -> str:
    """Four significant digits, written out."""
    if x <= 0:
        return "0"
    digits = max(0, 3 - math.floor(math.log10(x)))
    text = f"{round(x, 3 - math.floor(math.log10(x))):.{min(12, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} seconds"


def _step(seconds: int) -> str:
    names = {60: "minute", 300: "five minutes", 600: "ten minutes", 3600: "hour"}
    return names.get(seconds, f"{seconds} s")
