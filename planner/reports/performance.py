"""Estimates, accuracy, calibration and what to measure next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from planner.catalog.entries import Catalog
from planner.catalog.variant import Variant
from planner.io.formatting import counted, json_text, percent
from planner.performance.accuracy import Accuracy, Errors
from planner.performance.calibration.calibrate import CalibratedDeployment, Calibration
from planner.performance.estimate import Estimate, predict_points
from planner.performance.measurements import read_rows
from planner.plan.benchmarks import Suggestion
from planner.reports.charts.svg import Axis, Line, line_chart
from planner.reports.csv import table_csv
from planner.reports.document import Code, Document, Group, Lines, Part, TablePart
from planner.reports.table import PEOPLE, PLAIN, TEXT, Cell, Table
from planner.reports.table import Column as C


def estimate_document(e: Estimate) -> Document:
    within = f", mean error {percent(e.error_frac)} on measurements" if e.error_frac is not None else ""
    return Document(
        title=f"{e.variant}, {e.engine}",
        about=(f"{e.basis}{within}",),
        lead=(Lines(tuple(_estimated(e))),),
        parts=(Group((TablePart(_sweep(e), untitled=PLAIN), Lines((f"source: {e.source}",)))),),
        json=lambda: json_text(e.as_json()),
    )


def _estimated(e: Estimate) -> Iterator[str]:
    if e.basis == "estimated":
        yield f"rests on: {e.source}"
    if e.support == "fails":
        yield f"plans refuse it: {e.support_reason}"
    elif e.parallelism == "data" and e.basis in ("calibrated", "estimated"):
        yield "no public measurement of vLLM or SGLang backs what data parallel attention does: measure it"
    if e.speculation is not None and e.accepted_tokens is not None:
        yield f"drafts {e.speculation}: a step brings {e.accepted_tokens:.2f} tokens, of which one needs no draft"
    spreads = tuple(f" (p95 {s.p95:g})" if s else "" for s in (e.input_spread, e.output_spread))
    yield f"requests of {e.input_tokens:g} tokens in{spreads[0]}, {e.output_tokens:g} out{spreads[1]}"
    yield (f"memory: weights {e.weights_gb:.1f} GB, room for KV cache {e.kv_room_gb:.1f} GB, "
           f"{e.kv_gb_per_request:.3f} GB a request, at most {e.largest_batch} in flight")  # fmt: skip
    if e.at is not None:
        p = e.at
        yield (f"at {p.concurrency:g} in flight: TTFT {p.ttft_ms:.0f} ms, TPOT {p.tpot_ms:.1f} ms, "
               f"{p.output_tok_s:,.0f} tok/s, {p.requests_per_s:.2f} requests/s (means)")  # fmt: skip
    if e.slo is not None:
        s = e.slo
        if s.requests_per_s:
            e2e = "" if s.e2e_ms is None else f", E2E {s.e2e_ms / 1e3:.2f} s"
            yield (f"inside the SLO: {s.requests_per_s:.2f} requests/s, {s.output_tok_s:,.0f} tok/s, "
                   f"{s.in_flight:.0f} in flight, TTFT {s.ttft_ms:.0f} ms, TPOT {s.tpot_ms:.1f} ms{e2e}; "
                   f"bound by {s.bound_by}")  # fmt: skip
        else:
            yield f"inside the SLO: nothing; {s.bound_by} is missed even with one request at a time"
    if e.loaded is not None:
        x = e.loaded
        if isfinite(x.ttft_s):
            yield (f"at {x.requests_per_s:g} requests/s, {percent(x.utilization)} of its maximum: {x.in_flight:.0f} in "
                   f"flight, TTFT {1e3 * x.ttft_s:.0f} ms (p95 {1e3 * x.ttft_percentile_s:.0f}), TPOT "
                   f"{1e3 * x.tpot_s:.1f} ms (p95 {1e3 * x.tpot_percentile_s:.1f}), E2E {x.e2e_s:.2f} s (p95 "
                   f"{x.e2e_percentile_s:.2f})")  # fmt: skip
        else:
            yield f"at {x.requests_per_s:g} requests/s: more than one replica can answer, so requests pile up"
    says_e2e = e.loaded is not None or (e.slo is not None and e.slo.e2e_ms is not None)
    if says_e2e and e.output_spread is None and e.output_tokens > 1:
        yield (f"E2E assumes that all answers have {e.output_tokens:g} tokens; give --output-p95 if their lengths "
               "differ")  # fmt: skip


def _sweep(e: Estimate) -> Table:
    columns = (
        C("concurrency", "in flight", "plain"),
        C("ttft_ms", "TTFT ms", ".0f"),
        C("tpot_ms", "TPOT ms", ".1f"),
        C("e2e_ms", "E2E ms", "count"),
        C("output_tok_s", "tok/s", "count"),
        C("requests_per_s", "requests/s", ".2f"),
    )
    return Table("sweep", "Latency by load", columns, tuple(e.sweep))


def estimate_svg(e: Estimate, tpot_limit_ms: float | None = None) -> str:
    """The latency-throughput curve of a deployment."""
    labels = [f"{p.concurrency:g} in flight: {p.output_tok_s:,.0f} tok/s, TPOT {p.tpot_ms:.1f} ms" for p in e.sweep]
    line = Line("TPOT", [p.output_tok_s for p in e.sweep], [p.tpot_ms for p in e.sweep], labels)
    lengths = f"{e.input_tokens:g} in, {e.output_tokens:g} out"
    title = f"{e.variant}, {lengths}"
    limit = (tpot_limit_ms, f"objective {tpot_limit_ms:g} ms") if tpot_limit_ms else None
    return line_chart(title, [line], Axis("output tokens per second of one replica"), Axis("TPOT [ms]"), limit)


def accuracy_document(a: Accuracy) -> Document:
    groups = {
        "metric": a.by_metric,
        "GPU": a.by_gpu,
        "precision": a.by_precision,
        "source": a.by_source,
        "parallelism and metric": a.by_parallelism_and_metric,
        "source and metric": a.by_source_and_metric,
    }
    return Document(
        title="Accuracy of the performance model",
        headline=f"{counted(a.rows, 'row')}, {len(a.scored)} scored, {a.rows - len(a.scored)} left out",
        lead=(Lines(tuple(f"left out: {n} {reason}" for reason, n in a.skipped.items())),),
        parts=tuple(TablePart(_errors(title, by), untitled=TEXT) for title, by in groups.items()),
        json=lambda: json_text(a.as_json()),
    )


def _errors(title: str, by: Mapping[str, Errors]) -> Table:
    columns = (
        C("of", title),
        C("n", "n", "plain"),
        C("mape", "mean error", ".1%"),
        C("median_ape", "median", ".1%"),
        C("bias", "bias", "+.1%"),
    )
    rows = tuple((name, e.n, e.mape, e.median_ape, e.bias) for name, e in by.items())
    return Table("errors", f"Errors by {title}", columns, rows)


def accuracy_rows(a: Accuracy) -> Table:
    """Every row of the file with what was predicted, or why nothing was."""
    by_row = {s.point.row: s for s in a.scored}
    rows = read_rows(a.file)
    lines: list[tuple[Cell, ...]] = []
    for number, row in enumerate(rows):
        s = by_row.get(number)
        score = (f"{s.predicted:.6g}", f"{s.error_frac:.4f}", "") if s else ("", "", a.reasons.get(number, ""))
        lines.append(tuple(str(cell) for cell in (*row.values(), *score)))
    keys = [*(rows[0] if rows else ()), "predicted", "error_frac", "left_out"]
    return Table("rows", "Rows", tuple(C(key, key) for key in keys), tuple(lines))


def accuracy_rows_csv(a: Accuracy) -> str:
    return table_csv(accuracy_rows(a))


def calibration_document(c: Calibration) -> Document:
    return Document(
        title="Calibration",
        headline=f"{counted(c.points, 'run')} read",
        lead=(Lines(tuple(f"note: {note}" for note in c.notes)),),
        parts=tuple(_calibrated(d) for d in c.deployments),
        json=lambda: json_text(c.as_json()),
    )


def _calibrated(d: CalibratedDeployment) -> Part:
    return Group((Lines((f"{d.name}   {_used(d)}",)), TablePart(_fit(d), untitled=PEOPLE)))


def _used(d: CalibratedDeployment) -> str:
    if d.result is None:
        return "highest rates, used as they are"
    used = [
        name for name, is_used in (("rates and TPOT", d.result.uses_rates), ("TTFT", d.result.uses_ttft)) if is_used
    ]
    return f"used for {' and '.join(used)}" if used else "not written"


def _fit(d: CalibratedDeployment) -> Table:
    columns = (
        C("metric", "metric"),
        C("n", "n", "plain"),
        C("before_mean_ape", "mean error before", ".1%"),
        C("after_mean_ape", "after", ".1%"),
        C("before_median_ape", "median before", ".1%"),
        C("after_median_ape", "after", ".1%"),
        C("runs", "", get=lambda e: f"held out{', left out' if e.loses else ''}" if e.held_out else "on the same runs"),
    )
    return Table("calibration", d.name, columns, tuple(d.errors))


def suggestions_document(suggestions: Sequence[Suggestion]) -> Document:
    """What to measure next, with command lines to paste."""
    what = (
        "Start one replica (for what the plan uses: with its serve command), run one of the first three lines, then "
        "the last:"
    )
    nothing = "nothing: everything this plan rests on is measured, or changes its cost by less than 0.1%"
    return Document(
        title="What to measure",
        headline=what if suggestions else nothing,
        parts=tuple(_suggested(k, s) for k, s in enumerate(suggestions, 1)),
        json=lambda: json_text([s.as_json() for s in suggestions]),
    )


def _suggested(k: int, s: Suggestion) -> Part:
    stake = f"${s.stake_usd_per_month:,.0f} a month"
    why = f"{stake} of this plan's cost depend on its error" if s.chosen else f"not used; it could save {stake}"
    said = f"{s.basis}, off by {percent(s.error_frac)} on average: {why}"
    commands = Code("\n".join((s.vllm, s.guidellm, s.aiperf, s.calibrate)))
    return Group((Lines((f"{k}. {s.deployment} for {', '.join(s.workloads)}", f"   {said}")), commands))


def points_document(path: Path, catalog: Catalog | None = None) -> Document:
    """Predictions for every row of a CSV: the deployment, lengths and concurrency."""
    predictions = predict_points(path, catalog)

    def deployed(p: Mapping[str, Any]) -> str:
        return Variant(p["model"], p["quantization"], p["gpu"], p["gpus_per_replica"], p["parallelism"]).gpus

    columns = (
        C("model", "model", get=lambda p: f"{p['model']} {p['quantization']}"),
        C("gpu", "gpu", get=deployed),
        C("input", "in", "plain"),
        C("output", "out", "plain"),
        C("concurrency", "in flight", "plain"),
        C("ttft_ms", "TTFT ms", ".0f"),
        C("tpot_ms", "TPOT ms", ".1f"),
        C("output_tok_s", "tok/s", "count"),
        C("requests_per_s", "requests/s", ".2f"),
        C("basis", "basis"),
    )
    return Document(
        title="Predictions",
        bare=True,
        parts=(TablePart(Table("points", "Predictions", columns, tuple(predictions)), untitled=TEXT, indent=0),),
        json=lambda: json_text({"points": predictions}),
    )
