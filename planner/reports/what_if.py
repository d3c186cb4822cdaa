"""A sweep as text, Markdown, CSV, JSON, Parquet and pictures. Shares are of all requests; money is USD a month."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.io.errors import Diagnostic, InputError, escaped
from planner.io.files import write_whole
from planner.io.formatting import percent, tokens, usd
from planner.reports.charts.svg import Axis, Line, line_chart
from planner.reports.tables.csv import table_csv
from planner.reports.tables.markdown import inline, table_markdown, titled_markdown
from planner.reports.tables.table import DATA, EVERY, PEOPLE, Table, paragraphs
from planner.reports.tables.table import Column as C
from planner.reports.tables.text import sparkline, table_text, titled_text
from planner.studies.sweep import Shape, Sweep, swings

FIGURES = (
    C("budget_usd_per_month", "budget $/month", "money"), C("cost_usd_per_month", "cost $/month", "money"),
    C("bound_usd_per_month", "bound $/month", "money"), C("served_frac", "served", "percent"),
    C("api_frac", "API", "percent"), C("shed_frac", "shed", "percent"), C("gap_frac", "gap", "percent"),
    C("status", "plan"), C("penalty_usd_per_month", "penalty $/month", "money"),
    C("usd_per_1m_tokens", "$/1M tokens", "small price"), C("tokens_per_month", "tokens / month", "tokens"),
    C("requests_per_month", "requests / month", "tokens"), C("baseline_usd_per_month", "baseline $/month", "money"),
    C("peak_gpus", "GPUs at peak", "count"), C("next_1000_served_frac", "next $1,000 serves", "percent"),
    C("next_1000_requests_per_month", "requests of the next $1,000", "tokens"),
    C("next_1000_basis", "how that is known"),
    C("least_budget_usd_per_month", "least budget $/month", "money"), C("fleet", "fleet at its busiest"),
)  # fmt: skip
WITHOUT_BUDGETS = ("budget_usd_per_month", "next_1000_served_frac", "next_1000_requests_per_month", "next_1000_basis")
BAR = 30


def runs(sweep: Sweep) -> Table:
    """One row for each run and budget: its name, its inputs, its figures; people read those that fit on a screen."""
    figures = [c for c in FIGURES if sweep.budgets or c.key not in WITHOUT_BUDGETS]
    keys = {"budget_usd_per_month", "cost_usd_per_month", "served_frac", "usd_per_1m_tokens"}
    keys |= {k for k in ("api_frac", "shed_frac") if any(row.get(k) for row in sweep.rows)}
    keys |= {"next_1000_served_frac" if sweep.budgets else "peak_gpus"}
    several = not sweep.budgets or sweep.inputs or len({row["run"] for row in sweep.rows}) > 1
    columns = (
        C("run", "run", formats=EVERY if several else DATA), *(C(name, name, formats=DATA) for name in sweep.inputs),
        *(replace(c, formats=EVERY if c.key in keys else DATA) for c in figures), C("proof", "proof", formats=PEOPLE),
    )  # fmt: skip
    rows = tuple(
        (row["run"], *(row["inputs"].get(n) for n in sweep.inputs), *(row.get(c.key) for c in figures), _proof(row))
        for row in sweep.rows
    )
    return Table("what_if", "what-if", columns, rows, tuple(notes(sweep)))


def _proof(point: dict[str, Any]) -> str:
    if "error" in point:
        return str(point["status"])
    if point["cost_usd_per_month"] is None:
        return "no fleet can do it" if point["status"] == "infeasible" else "no plan was found in the time"
    if point["status"] == "optimal":
        return "optimal"
    return f"within {percent(point['gap_frac'], 2)}" + (" only" if point["status"] == "feasible" else "")


def what_if_text(sweep: Sweep) -> str:
    table = replace(runs(sweep), notes=())
    lines = [f"  {line}" for line in notes(sweep)]
    moved = titled_text(tornado(sweep)) if swings(sweep) else []
    return paragraphs([[escaped(sweep.name)], table_text(table), _bars(sweep), lines, moved])


def _bars(sweep: Sweep) -> list[str]:
    """Draw the frontier in a terminal: served from own GPUs, bought from the API, shed."""
    lines = []
    for p in sweep.frontier:
        budget = usd(p["budget_usd_per_month"]).rjust(12)
        if p["served_frac"] is None:
            lines.append(f"{budget}  no plan")
            continue
        own = round(BAR * (p["served_frac"] - p["api_frac"]))
        api = round(BAR * p["served_frac"]) - own
        bar = "█" * own + "▓" * api + "░" * (BAR - own - api)
        lines.append(f"{budget}  {bar}  {percent(p['served_frac'])} served")
    return lines


def notes(sweep: Sweep) -> list[str]:
    """What the table alone does not say."""
    lines = []
    least = [p["least_budget_usd_per_month"] for p in sweep.rows if p["least_budget_usd_per_month"] is not None]
    if least and sweep.budgets:
        lines.append(
            f"the cheapest plan needs {usd(max(least))} a month, and nothing may be shed here: "
            "--shed normal shows what less would serve"
        )
    if any(p.get("api_frac") for p in sweep.rows):
        lines.append("served includes what the API answers")
    if any(p.get("penalty_usd_per_month") for p in sweep.rows):
        lines.append("gaps and bounds refer to cost + penalty; the penalty of shed requests is not part of the cost")
    return lines


def shape_text(shape: Shape) -> str:
    """The LP's frontier: a lower bound on cost + penalty at each budget, before anything is planned."""
    known = [bound for _, bound in shape if bound is not None]
    line = sparkline([bound or 0.0 for _, bound in shape])
    ends = f"{usd(known[0])} at {usd(shape[0][0])}, " if known and shape[0][1] is not None else ""
    last = f"{usd(known[-1])} at {usd(shape[-1][0])}" if known else "no budget is enough"
    return f"cost + penalty at least, by budget: {line}  {ends}{last}"


def tornado(sweep: Sweep) -> Table:
    columns = (
        C("input", "input"), C("low_value", "cheapest at"), C("low_usd_per_month", "$/month", "money"),
        C("high_value", "most expensive at"), C("high_usd_per_month", "$/month", "money"),
        C("swing_usd_per_month", "moves it by", "money"), C("note", ""),
    )  # fmt: skip
    rows = tuple(
        (s.input, s.low_value, s.low_usd_per_month, s.high_value, s.high_usd_per_month, s.usd_per_month,
         "" if s.told else "within the proof gap")
        for s in swings(sweep)
    )  # fmt: skip
    return Table("tornado", "what moves the cost", columns, rows)


def what_if_markdown(sweep: Sweep) -> str:
    moved = titled_markdown(tornado(sweep)) if swings(sweep) else []
    return paragraphs([[f"# What if: {inline(sweep.name)}"], table_markdown(runs(sweep)), moved])


def what_if_json(sweep: Sweep) -> str:
    """A list of points; those of a frontier have the same keys as all others."""
    keys = [c.key for c in FIGURES]
    rows = [{k: row.get(k) for k in keys} | {k: row[k] for k in ("run", "inputs", "workloads")} for row in sweep.rows]
    return json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def what_if_csv(sweep: Sweep) -> str:
    return table_csv(runs(sweep))


def write_parquet(sweep: Sweep, path: Path) -> None:
    """Needs pyarrow."""
    import io

    import pandas as pd

    whole = runs(sweep).view("csv")
    try:
        frame = pd.DataFrame(list(whole.rows), columns=[c.key for c in whole.columns])
        for column in (c for c in whole.columns if not c.right):
            frame[column.key] = frame[column.key].astype("string")
        content = io.BytesIO()
        frame.to_parquet(content, index=False)
    except ImportError:
        remedy = "pip install 'fleetplan[parquet]', or write a .csv"
        raise InputError([Diagnostic(str(path), None, None, "", "Parquet needs pyarrow", remedy)]) from None
    write_whole(path, content.getvalue())


def frontier_svg(points: Sequence[dict[str, Any]], title: str) -> str:
    """Share served against cost, a file of its own."""
    known = [p for p in points if p["served_frac"] is not None]
    lines = [_line("served", known, "served_frac")]
    if any(p["api_frac"] for p in known):
        lines.append(_line("of it by the API", known, "api_frac"))
    money = Axis("cost, $ / month", written=lambda v: f"${tokens(v)}")
    return line_chart(title, lines, money, Axis("share of requests", written=lambda v: f"{100 * v:.0f}%"))


def _line(name: str, points: Sequence[dict[str, Any]], key: str) -> Line:
    labels = [
        f"{name} {percent(p[key])} at {usd(p['cost_usd_per_month'])}, budget {usd(p['budget_usd_per_month'])}"
        for p in points
    ]
    return Line(name, [p["cost_usd_per_month"] for p in points], [p[key] for p in points], labels)
