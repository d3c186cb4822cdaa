"""A sweep: every run as a row, the frontier, and what moves the cost.

Shares are of all requests; money is USD a month.
"""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from planner.io.errors import Diagnostic, InputError
from planner.io.formatting import counted, json_text, percent, usd
from planner.reports.document import Document, Figures, Lines, Part, Section, TablePart
from planner.reports.table import DATA, EVERY, HTML, PEOPLE, PLAIN, TEXT, Table
from planner.reports.table import Column as C
from planner.reports.text import sparkline
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
    C("least_budget_usd_per_month", "least budget $/month", "money"), C("fleet", "fleet at its busiest", "way to buy"),
    C("held_usd_per_month", "held $/month", "money"), C("total_usd_per_month", "with what is held $/month", "money"),
)  # fmt: skip
HORIZON_FIGURES = (
    C("budget_usd_per_month", "budget $/month", "money"), C("months", "months", "count"),
    C("expected_cost_usd", "expected $", "money"), C("cost_usd_per_month", "expected $/month", "money"),
    C("p90_usd", "P90 $", "money"), C("worst_usd", "worst $", "money"), C("worst_scenario", "in scenario"),
    C("sign_now", "sign now", "way to buy"), C("signed_usd_per_month", "signed $/month", "money"),
    C("upfront_usd", "cash now $", "money"), C("owed_after_usd", "owed after $", "money"),
    C("most_owed_after_usd", "with what is signed later, at most $", "money"),
    C("held_usd", "held before $", "money"), C("counted_usd", "minimized $", "money"),
    C("bound_usd", "bound $", "money"), C("gap_frac", "gap", "percent"), C("status", "plan"),
    C("penalty_usd_per_month", "penalty $/month", "money"), C("served_frac", "served", "percent"),
    C("api_frac", "API", "percent"), C("shed_frac", "shed", "percent"),
    C("requests_per_month", "requests / month", "tokens"),
    C("least_budget_usd_per_month", "least budget $/month", "money"), C("without_a_plan", "has no plan"),
)  # fmt: skip
"""of plans of a horizon: money is over all of it, unless it says a month"""
HORIZON_PEOPLE = ("budget_usd_per_month", "expected_cost_usd", "worst_usd", "sign_now", "owed_after_usd")
LISTS, HORIZON_LISTS = ("workloads",), ("scenarios", "commitments")
"""that only JSON has room for"""
WITHOUT_BUDGETS = ("budget_usd_per_month", "next_1000_served_frac", "next_1000_requests_per_month", "next_1000_basis")
BAR = 30


def what_if_document(sweep: Sweep) -> Document:
    plans = counted(sum(row["cost_usd_per_month"] is not None for row in sweep.rows), "plan")
    asked = f"each to be proved within {100 * sweep.gap_frac:g}% of cost + penalty"
    return Document(
        title=f"What if: {sweep.name}",
        about=(f"{plans} of {len(sweep.rows)} asked for, {asked}",),
        parts=(
            Section("At a glance", lambda: (_pictures(sweep),), key="pictures"),
            Section("Every run", lambda: _runs(sweep), key="runs"),
            Section("What moves the cost", lambda: (TablePart(tornado(sweep)),), key="moves", formats=PLAIN),
            Section("All figures", lambda: (_everything(sweep),), key="all", formats=HTML),
        ),
        json=lambda: what_if_json(sweep),
        tables=lambda: (runs(sweep),),
    )


def _pictures(sweep: Sweep) -> Part:
    from planner.reports.charts import what_if as pictures

    spread = pictures.spread if sweep.horizon else pictures.frontier
    return Figures((lambda: spread(sweep), lambda: pictures.tornado(sweep)))


def _runs(sweep: Sweep) -> tuple[Part, ...]:
    table = TablePart(replace(runs(sweep), notes=()), title="Plans", untitled=PLAIN, key="table")
    return table, Lines(tuple(_bars(sweep)), formats=TEXT), Lines(tuple(notes(sweep)))


def _everything(sweep: Sweep) -> Part:
    """The columns of the CSV."""
    whole = runs(sweep)
    columns = tuple(replace(c, formats=EVERY) for c in whole.columns if "csv" in c.formats)
    return TablePart(replace(whole, columns=columns, notes=()), title="As in the CSV", key="figures")


def runs(sweep: Sweep) -> Table:
    """One row for each run and budget: its name, its inputs, its figures; people read those that fit on a screen."""
    keys = _keys_for_people(sweep)
    several = not sweep.budgets or sweep.inputs or len({row["run"] for row in sweep.rows}) > 1
    columns = (
        C("run", "run", formats=EVERY if several else DATA),
        *(_input(name) for name in sweep.inputs),
        *(
            replace(c, formats=EVERY if c.key in keys else DATA)
            for c in _figures(sweep)
            if sweep.budgets or c.key not in WITHOUT_BUDGETS
        ),
        C("proof", "proof", formats=PEOPLE, get=_proof),
    )
    return Table("what_if", "what-if", columns, sweep.rows, tuple(notes(sweep)))


def _input(name: str) -> C:
    return C(name, name, formats=DATA, get=lambda row: row["inputs"].get(name))


def _figures(sweep: Sweep) -> tuple[C, ...]:
    return HORIZON_FIGURES if sweep.horizon else FIGURES


def _keys_for_people(sweep: Sweep) -> set[str]:
    """Figures that fit on a screen."""
    if sweep.horizon:
        several = any(len(row.get("scenarios") or ()) > 1 for row in sweep.rows)
        lengths = len({row.get("months") for row in sweep.rows}) > 1
        keys = {*HORIZON_PEOPLE, *(["worst_scenario"] if several else []), *(["months"] if lengths else [])}
        return keys | {"cost_usd_per_month"} | {k for k in ("shed_frac",) if any(row.get(k) for row in sweep.rows)}
    keys = {"budget_usd_per_month", "cost_usd_per_month", "served_frac", "usd_per_1m_tokens"}
    keys |= {k for k in ("api_frac", "shed_frac") if any(row.get(k) for row in sweep.rows)}
    keys |= {"total_usd_per_month"} if any(row.get("held_usd_per_month") for row in sweep.rows) else set()
    return keys | {"next_1000_served_frac" if sweep.budgets else "peak_gpus"}


def _proof(point: dict[str, Any]) -> str:
    if "error" in point:
        return str(point["status"])
    if point["cost_usd_per_month"] is None and "months" in point:
        where = f" in {point['without_a_plan']}" if point["without_a_plan"] else ""
        return ("no fleet can meet the demand" if point["status"] == "infeasible" else "no plan was found") + where
    if point["cost_usd_per_month"] is None:
        if point["status"] != "infeasible":
            return "no plan was found in time"
        within = " within this budget" if point["least_budget_usd_per_month"] is not None else ""
        return f"no fleet can meet the demand{within}"
    if point["status"] == "optimal":
        return "optimal"
    return f"within {percent(point['gap_frac'], 2)}" + (" only" if point["status"] == "feasible" else "")


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
    least = [p["least_budget_usd_per_month"] for p in sweep.rows if p.get("least_budget_usd_per_month") is not None]
    if least and sweep.budgets:
        low, high = usd(min(least)), usd(max(least))
        several = f"the cheapest plans of these runs need {low} to {high}"
        needs = several if low != high else f"the cheapest plan needs {low}"
        lines.append(
            f"{needs} a month, and nothing may be shed here: --shed normal shows what a smaller budget would serve"
        )
    if sweep.horizon:
        lines += _horizon_notes(sweep)
    elif any(p.get("api_frac") for p in sweep.rows):
        lines.append("served includes what the API answers")
    if held := sorted({p["held_usd_per_month"] for p in sweep.rows if p.get("held_usd_per_month")}):
        amount = usd(held[0]) if len(held) == 1 else f"{usd(held[0])} to {usd(held[-1])}"
        lines.append(f"budgets count the {amount} / month paid in any case for what is held; cost is what comes on top")
    if any(p.get("penalty_usd_per_month") for p in sweep.rows):
        lines.append("gaps and bounds refer to cost + penalty; the penalty of shed requests is not part of the cost")
    return lines


def _horizon_notes(sweep: Sweep) -> list[str]:
    lengths = sorted({row["months"] for row in sweep.rows if row.get("months")})
    over = f"{lengths[0]} months" if len(lengths) == 1 else "the months of each run"
    lines = [
        f"expected and worst cost are over {over}; sign now: what to sign for the first quarter; owed after: what is "
        "still to be paid for it when the horizon ends"
    ]
    held = sorted({row["held_usd"] for row in sweep.rows if row.get("held_usd")})
    if held:
        amount = usd(held[0]) if len(held) == 1 else f"{usd(held[0])} to {usd(held[-1])}"
        lines.append(f"{amount} of the cost is for what was held before, and is paid in any case")
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
        C("input", "input"),
        C("low_value", "cheapest at"),
        C("low_usd_per_month", "$/month", "money"),
        C("high_value", "most expensive at"),
        C("high_usd_per_month", "$/month", "money"),
        C("swing_usd_per_month", "moves it by", "money", get=lambda s: s.usd_per_month),
        C("note", "", get=lambda s: "" if s.proved else "within the proof gap"),
    )
    return Table("tornado", "what moves the cost", columns, tuple(swings(sweep)))


def what_if_json(sweep: Sweep) -> str:
    """A list of points; those of a frontier have the same keys as all others."""
    keys = [c.key for c in _figures(sweep)]
    lists = HORIZON_LISTS if sweep.horizon else LISTS
    rows = [
        {k: row.get(k) for k in keys} | {k: row[k] for k in ("run", "inputs")} | {k: row.get(k) or [] for k in lists}
        for row in sweep.rows
    ]
    return json_text(rows)


def what_if_parquet(sweep: Sweep, where: str = "the table") -> bytes:
    """Needs pyarrow; an error names what was to be written."""

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
        raise InputError([Diagnostic(where, None, None, "", "Parquet needs pyarrow", remedy)]) from None
    return content.getvalue()
