"""What a valid demand file says, and what logs say that one was made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from planner.case.case import AMENDED, OWNED, Case, Scenario, Workload
from planner.case.dates import month_name, quarter_days
from planner.case.demand.from_logs import variation_of
from planner.case.slots import MONTHS_OF_A_QUARTER, requests_per_month, slots_of
from planner.io.errors import shortened
from planner.io.formatting import counted, json_text
from planner.logs.measure import Measured
from planner.logs.measure import Workload as MeasuredWorkload
from planner.logs.sessions import SessionRows
from planner.reports.document import Document, Lines, TablePart
from planner.reports.table import PLAIN, Table
from planner.reports.table import Column as C
from problems.constants import HOURS_PER_MONTH

AMENDED_NAMES = {"offers": "instances and their prices", "purchase": "ways to buy", "limits": "quotas and limits"}
"""fields of a case that are called otherwise"""


def validation_document(case: Case) -> Document:
    """What a valid file says, so that a reader can see whether it was understood."""
    count = len(case.workloads)
    size = f"{counted(count, 'workload')}, {counted(len(case.offers), 'instance offer')}, baseline {case.baseline}"
    return Document(
        title=case.name,
        headline=f"{case.name}: valid. {size}",
        lead=(
            Lines(
                (
                    *_horizon_lines(case),
                    *(_workload_line(case, w) for w in case.workloads),
                    *(f"assumed {a.key}: {a.value} ({a.why})" for a in case.assumptions),
                )
            ),
        ),
        json=lambda: json_text(_validation(case)),
    )


def _workload_line(case: Case, w: Workload) -> str:
    volume = _volume(case, w) or f"{_requests_per_month(case, w):,.0f} requests a month"
    models = ", ".join(m.model for m in w.models)
    return f"{w.name}: {volume}, models {models}, {counted(len(w.buckets), 'length bucket')}"


def _validation(case: Case) -> dict[str, Any]:
    return {
        "ok": True,
        "name": case.name,
        "workloads": [{"name": w.name, "requests_per_month": _requests_per_month(case, w)} for w in case.workloads],
        "offers": list(case.offers),
        "starts": str(case.starts) if case.starts else None,
        "quarters": case.future.quarters if case.future else 1,
        "scenarios": [
            {
                "name": s.name,
                "probability_frac": s.probability_frac,
                "requests_by_month": {w.name: _by_month(w, s) for w in case.workloads},
                "differs_from_quarter": {str(q + 1): fields for q, fields in _amended(s).items()},
            }
            for s in (case.future.scenarios if case.future else ())
        ],
        "held": [h.model_dump(mode="json") for h in case.held or ()],
        "assumptions": [a.model_dump() for a in case.assumptions],
        "case_hash": case.hash(),
    }


def _horizon_lines(case: Case) -> Iterator[str]:
    """The horizon, the scenarios and what is held, where the file has them."""
    future = case.future
    if future is not None:
        yield f"{future.quarters} quarters from {future.starts}" if future.quarters > 1 else f"from {future.starts}"
        if len(future.scenarios) > 1:
            names = ", ".join(f"{s.name} {100 * s.probability_frac:.4g}%" for s in future.scenarios)
            worst = "; the worst case is minimized, not the expected cost" if future.risk == "worst-case" else ""
            yield f"scenarios: {names}{worst}"
        for s in future.scenarios:
            for quarter, fields in _amended(s).items():
                what = ", ".join(AMENDED_NAMES.get(name, name.replace("_", " ")) for name in fields) or "nothing"
                yield f"{s.name}: from {quarter_days(future.starts, quarter)[0]} on, these change: {what}"
    for h in case.held or ():
        until = f" until {h.last_day}" if h.last_day else ""
        price = f"${h.usd_per_h:,.4g}/h{' while it runs' if h.purchase == OWNED else ''}"
        yield f"held: {h.instances} x {h.offer}, {h.purchase}, {price}{until}"


def _amended(scenario: Scenario) -> dict[int, list[str]]:
    """Quarter -> fields of the case that differ from then on."""
    amendments = scenario.amendments or ()
    return {a.from_quarter: [name for name in AMENDED if getattr(a, name) is not None] for a in amendments}


def _volume(case: Case, w: Workload) -> str | None:
    """Requests in the first and the last month that has any, in each scenario where they differ."""
    future = case.future
    if future is None:
        return None
    ends, every = [], range(MONTHS_OF_A_QUARTER * future.quarters)
    some = [month for month in every if any(_by_month(w, s)[month] for s in future.scenarios)]
    for month in (some[0], some[-1]) if some else ():
        counts = {s.name: f"{_by_month(w, s)[month]:,.0f}" for s in future.scenarios}
        same = len(set(counts.values())) == 1
        each = next(iter(counts.values())) if same else ", ".join(f"{n} ({name})" for name, n in counts.items())
        ends.append(f"{each} in {month_name(future.starts, month)}")
    return f"requests a month: {'; '.join(ends)}"


def _requests_per_month(case: Case, w: Workload) -> float:
    """Mean over the months of the case; over those of the horizon and the scenarios where it has them."""
    if case.future is None:
        return requests_per_month(w, slots_of(case))
    months = MONTHS_OF_A_QUARTER * case.future.quarters
    return sum(s.probability_frac * sum(_by_month(w, s)) for s in case.future.scenarios) / months


def _by_month(w: Workload, scenario: Scenario) -> list[float]:
    """Requests in each month of the horizon; a month has 730 h."""
    rps = (5 * sum(w.weekday_rps) + 2 * sum(w.weekend_rps)) / 7 / 24
    return [factor * rps * 3600 * HOURS_PER_MONTH for factor in scenario.month_factors[w.name]]


def demand_document(measured: Measured) -> Document:
    """What logs tell, one row for each workload, and all of it as data."""
    columns = (
        C("workload", "workload", get=lambda w: shortened(w.traffic.name, 60) or "(all)"),
        C("requests", "requests", "count", get=lambda w: w.traffic.total),
        C("days", "days", ".3g", get=lambda w: w.rates.days),
        C("mean_rps", "mean req/s", "number", get=lambda w: w.traffic.total / max(1.0, w.traffic.span_s)),
        C("busiest_hour_rps", "busiest hour", "number", get=_busiest_hour_rps),
        C("prompt_mean_tokens", "prompt", "count", get=lambda w: _length(w, "prompt", None)),
        C("prompt_p95_tokens", "p95", "count", get=lambda w: _length(w, "prompt", 0.95)),
        C("output_mean_tokens", "answer", "count", get=lambda w: _length(w, "output", None)),
        C("output_p95_tokens", "p95", "count", get=lambda w: _length(w, "output", 0.95)),
        C("variation", "swings", "percent", get=lambda w: variation_of(w).share),
        C("burstiness", "bursts", ".3g", get=lambda w: w.bursts.scv),
        C("cached_frac", "cached", "percent", get=_cached_frac),
    )
    note = "'-': the log is too short or too coarse to tell"
    table = Table("measured", "measured", columns, tuple(measured.workloads), (note,))
    return Document(
        title="What the logs say",
        bare=True,
        parts=(TablePart(table, untitled=PLAIN),),
        json=lambda: json_text(_measured(measured, table)),
    )


def sessions_document(rows: SessionRows) -> Document:
    """What a file of sessions tells."""
    later = np.isfinite(rows.wait_s)
    columns = (
        C("sessions", "sessions", "count", get=lambda r: r.sessions),
        C("requests", "requests", "count", get=lambda r: len(r.thread)),
        C("prompt_mean_tokens", "prompt", "count", get=lambda r: float(r.prompt.mean())),
        C("output_mean_tokens", "answer", "count", get=lambda r: float(r.answer.mean())),
        C("kept_frac", "came before", "percent", get=lambda r: float(r.kept[later].sum() / r.prompt.sum())),
        C("wait_p50_s", "half wait less than, s", "number", get=lambda r: float(np.median(r.wait_s[later]))),
    )
    table = Table("sessions", "sessions", columns, (rows,), rows.assumed)
    return Document(
        title="What the sessions say",
        bare=True,
        parts=(TablePart(table, untitled=PLAIN),),
        json=lambda: json_text({c.key: v for c, v in zip(table.columns, next(iter(table.rows)), strict=True)}),
    )


def _busiest_hour_rps(w: MeasuredWorkload) -> float:
    return max(*w.rates.weekday, *w.rates.weekend) / 3600


def _length(w: MeasuredWorkload, side: str, percentile: float | None) -> float | None:
    """The mean or a percentile of prompts or answers; nothing where the log does not tell."""
    known = getattr(w.traffic.lengths, side, None)
    if not known:
        return None
    value: float | None = known.mean if percentile is None else known.percentiles.get(percentile)
    return value


def _cached_frac(w: MeasuredWorkload) -> float | None:
    cache = w.traffic.cache
    return cache.cached_tokens / cache.prompt_tokens if cache and cache.prompt_tokens else None


def _measured(measured: Measured, table: Table) -> dict[str, Any]:
    ledger, keys = measured.ledger, [c.key for c in table.columns]
    figures = (dict(zip(keys, row, strict=True)) for row in table.rows)
    return {
        "rows": ledger.rows,
        "formats": dict(ledger.formats),
        "left_out": dict(ledger.left_out),
        "left_out_tokens": {k: {"prompt": p, "output": o} for k, (p, o) in ledger.tokens_left_out.items() if p or o},
        "notes": list(ledger.notes),
        "time_zone": measured.options.zone,
        "workloads": [row | _details(w) for row, w in zip(figures, measured.workloads, strict=True)],
        "prefix_reuse": asdict(measured.reuse) if measured.reuse else None,
    }


def _details(w: MeasuredWorkload) -> dict[str, Any]:
    t = w.traffic
    return {
        "models": dict(t.models),
        "prompt_tokens": t.prompt_tokens,
        "output_tokens": t.output_tokens,
        "cached_tokens": t.cache.cached_tokens if t.cache else None,
        "weekday_requests_per_hour": list(w.rates.weekday),
        "weekend_requests_per_hour": list(w.rates.weekend),
        "flat": w.rates.flat,
        "growth_per_month": w.growth.per_month,
        "growth_basis": w.growth.basis,
        "swings": asdict(w.swings),
        "bursts": asdict(w.bursts),
        "hours_left_out": {kind: int(flags.sum()) for kind, flags in w.hours.odd.items()},
    }
