"""Estimates and accuracy as text, tables and pictures."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from planner.io.errors import escaped
from planner.io.formatting import percent
from planner.performance.accuracy import Accuracy, Errors
from planner.performance.calibration.calibrate import Calibration
from planner.performance.estimate import Estimate, predict_points
from planner.performance.measurements import read_rows
from planner.reports.svg import Axis, Line, line_chart
from planner.reports.text import Report, columns, safe_cell


def estimate_text(e: Estimate) -> str:
    return "\n".join(_estimate_lines(e)) + "\n"


def _estimate_lines(e: Estimate) -> Iterator[str]:
    within = f", mean error {percent(e.error_frac)} on measurements" if e.error_frac is not None else ""
    yield f"{e.model} {e.quantization} on {e.gpus_per_replica} x {e.gpu}, {e.engine}   {e.basis}{within}"
    yield f"  requests of {e.input_tokens:g} tokens in, {e.output_tokens:g} out"
    yield (f"  memory: weights {e.weights_gb:.1f} GB, room for KV cache {e.kv_room_gb:.1f} GB, "
           f"{e.kv_gb_per_request:.3f} GB a request, at most {e.largest_batch} in flight")  # fmt: skip
    if e.at is not None:
        p = e.at
        yield (f"  at {p.concurrency:g} in flight: TTFT {p.ttft_ms:.0f} ms, TPOT {p.tpot_ms:.1f} ms, "
               f"{p.output_tok_s:,.0f} tok/s, {p.requests_per_s:.2f} requests/s (means)")  # fmt: skip
    if e.slo is not None:
        s = e.slo
        if s.requests_per_s:
            yield (f"  inside the SLO: {s.requests_per_s:.2f} requests/s, {s.output_tok_s:,.0f} tok/s, "
                   f"{s.in_flight:.0f} in flight, TTFT {s.ttft_ms:.0f} ms, TPOT {s.tpot_ms:.1f} ms; "
                   f"bound by {s.bound_by}")  # fmt: skip
        else:
            yield f"  inside the SLO: nothing; {s.bound_by} does not hold even for one request at a time"
    yield ""
    rows = [("in flight", "TTFT ms", "TPOT ms", "E2E ms", "tok/s", "requests/s")]
    rows += [
        (f"{p.concurrency:g}", f"{p.ttft_ms:.0f}", f"{p.tpot_ms:.1f}", f"{p.e2e_ms:,.0f}", f"{p.output_tok_s:,.0f}",
         f"{p.requests_per_s:.2f}")
        for p in e.sweep
    ]  # fmt: skip
    yield from columns(rows, right="abcdef")
    yield f"  source: {e.source}"


def estimate_svg(e: Estimate, tpot_limit_ms: float | None = None) -> str:
    """The latency-throughput curve of a deployment."""
    labels = [f"{p.concurrency:g} in flight: {p.output_tok_s:,.0f} tok/s, TPOT {p.tpot_ms:.1f} ms" for p in e.sweep]
    line = Line("TPOT", [p.output_tok_s for p in e.sweep], [p.tpot_ms for p in e.sweep], labels)
    lengths = f"{e.input_tokens:g} in, {e.output_tokens:g} out"
    title = f"{e.model} {e.quantization} on {e.gpus_per_replica} x {e.gpu}, {lengths}"
    limit = (tpot_limit_ms, f"objective {tpot_limit_ms:g} ms") if tpot_limit_ms else None
    return line_chart(title, [line], Axis("output tokens per second of one replica"), Axis("TPOT [ms]"), limit)


def accuracy_text(a: Accuracy) -> str:
    lines = [f"{a.rows} rows, {len(a.scored)} scored, {a.rows - len(a.scored)} left out"]
    lines += [f"  left out: {n} {reason}" for reason, n in a.skipped.items()]
    for title, table in (
        ("metric", a.by_metric), ("GPU", a.by_gpu), ("precision", a.by_precision),
        ("source", a.by_source), ("source and metric", a.by_source_and_metric),
    ):  # fmt: skip
        lines += ["", *columns([(title, "n", "mean error", "median", "bias"), *map(_row, table.items())], right="bcde")]
    return "\n".join(lines) + "\n"


def _row(item: tuple[str, Errors]) -> tuple[str, ...]:
    name, e = item
    return (name, str(e.n), f"{e.mape:.1%}", f"{e.median_ape:.1%}", f"{e.bias:+.1%}")


def accuracy_rows_csv(path: Path, a: Accuracy) -> str:
    """Every row of the file with what was predicted, or why nothing was."""
    by_row = {s.point.row: s for s in a.scored}
    out = io.StringIO()
    rows = read_rows(path)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*(rows[0] if rows else ()), "predicted", "error_frac", "left_out"])
    for number, row in enumerate(rows):
        found = by_row.get(number)
        told = (
            (f"{found.predicted:.6g}", f"{found.error_frac:.4f}", "") if found else ("", "", a.reasons.get(number, ""))
        )
        writer.writerow([safe_cell(str(cell)) for cell in (*row.values(), *told)])
    return out.getvalue()


def calibration_text(c: Calibration) -> str:
    lines = [f"{c.points} run{'s' * (c.points != 1)} read"]
    lines += [f"  note: {escaped(note)}" for note in c.notes]
    for d in c.deployments:
        what = "highest rates, used as they are" if d.profile.max_rates else f"prefill {d.prefill_basis}"
        lines += ["", f"{d.name}   {what}"]
        rows = [("metric", "n", "mean error before", "after", "median before", "after", "")]
        rows += [
            (e.metric, str(e.n), f"{e.before_mean_ape:.1%}", f"{e.after_mean_ape:.1%}", f"{e.before_median_ape:.1%}",
             f"{e.after_median_ape:.1%}", "each run held out" if e.held_out else "on the same runs")
            for e in d.errors
        ]  # fmt: skip
        lines += columns(rows, right="bcdef") if d.errors else []
    return "\n".join(lines) + "\n"


def points_report(path: Path) -> Report:
    """Predictions for every row of a CSV: model, gpu, gpus_per_replica, quantization, input, output, concurrency."""
    predictions = predict_points(path)
    rows = [("model", "gpu", "in", "out", "in flight", "TTFT ms", "TPOT ms", "tok/s", "requests/s", "basis")]
    for p in predictions:
        rows.append(
            (f"{p['model']} {p['quantization']}", f"{p['gpus_per_replica']} x {p['gpu']}", f"{p['input']:g}",
             f"{p['output']:g}", f"{p['concurrency']:g}", f"{p['ttft_ms']:.0f}", f"{p['tpot_ms']:.1f}",
             f"{p['output_tok_s']:,.0f}", f"{p['requests_per_s']:.2f}", p["basis"])
        )  # fmt: skip
    return Report("\n".join(columns(rows, right="cdefghi", indent="")) + "\n", {"points": predictions})
