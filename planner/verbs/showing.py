"""Verbs that show or pass on plans: report and export."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from planner.explanations.records import Explanation, read_explanation
from planner.export.export import export_plan
from planner.export.folder import write_folder
from planner.export.hosted import Settings
from planner.export.weights import weights_from
from planner.io.errors import input_error, listed, shown
from planner.io.formatting import counted
from planner.io.result import Result
from planner.io.units import UTC, parse_any_fraction
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import Plan
from planner.verbs.opening import AnyPlan, any_plan, is_horizon, months_of, one_quarter

if TYPE_CHECKING:
    from planner.reports.document import Document

FORMATS = ("html", "text", "markdown", "csv", "json", "focus")
LAST_START = date(date.max.year, 9, 1)
"""of a quarter that ends on a day that the calendar has"""
OF_QUARTER = 3
"""months of a quarter"""

# -- report -----------------------------------------------------------------------------------------------


def report(
    plan: AnyPlan,
    *,
    to: str = "html",
    table: str | None = None,
    explanation: Explanation | Path | str | None = None,
    starts: date | str | None = None,
    quarter: int | None = None,
    scenario: str | None = None,
) -> str:
    """A plan, the plan of a horizon or one quarter of it as text: html, text, markdown, csv, json or focus.

    csv is one `table` (`plan.frames()` names them), focus a budget as rows of a bill from the day that it `starts` on;
    the page shows an `explanation` too.
    """
    from planner.reports.focus import focus_csv
    from planner.reports.horizon import horizon_document
    from planner.reports.plan import plan_document

    if to not in FORMATS:
        raise input_error("--format", f"there is no format {shown(to)}", f"Give {listed(FORMATS)}")
    first_day = first_day_of(starts, to == "focus")
    if is_horizon(plan) and quarter is None:
        given = {"--scenario": scenario, "--explanation": explanation, "--format focus": first_day}
        for flag in (flag for flag, value in given.items() if value is not None):
            raise input_error(flag, "is for one quarter of the plan of a horizon", "Add --quarter 1, or a later one")
        whole = any_plan(plan)
        assert isinstance(whole, HorizonPlan)
        return _written(horizon_document(whole), to, table)
    one = one_quarter(plan, quarter, scenario)
    explained = read_explanation(explanation, one) if isinstance(explanation, Path | str) else explanation
    return _written(plan_document(one, explained), to, table) if first_day is None else focus_csv(one, first_day)


def _written(document: Document, to: str, table: str | None) -> str:
    from planner.reports.formats import as_csv, as_html, as_markdown
    from planner.reports.text import as_text

    if to == "csv":
        return as_csv(document, table)
    if to == "json":
        return document.json()
    return {"html": as_html, "text": as_text, "markdown": as_markdown}[to](document)


def first_day_of(starts: date | str | None, wanted: bool) -> date | None:
    """The first day of a budget; None where none is asked for."""
    if not wanted:
        if starts is not None:
            raise input_error("--starts", "is the first day of a budget", "Add --format focus")
        return None
    if starts is None:
        raise input_error("--format focus", "needs the day on which the quarter begins", "Add --starts 2026-10-01")
    try:
        day = starts if isinstance(starts, date) else date.fromisoformat(starts)
    except ValueError:
        raise input_error("--starts", f"expected a day, got {starts!r}", "Write it as 2026-10-01") from None
    if day.day != 1:
        raise input_error("--starts", f"{day} is not the first day of a month", f"Write {day.replace(day=1)}")
    if day > LAST_START:
        message = f"the quarter from {day} on ends after the year {date.max.year}"
        raise input_error("--starts", message, "Write an earlier day")
    return day


# -- export -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Exported(Result):
    """A plan as the files of a target."""

    plan: str
    """its name"""
    target: str
    files: dict[str, str]
    """text by path in the folder"""

    def write(self, folder: Path | str, force: bool = False) -> list[str]:
        """Write the files into a folder; with `force` over an earlier export. Returns what was kept there, and why."""
        return write_folder(Path(folder), self.target, self.files, force)


def export(
    plan: AnyPlan,
    to: str,
    *,
    month: int = 1,
    time_zone: str | None = None,
    image: str | None = None,
    headroom: float | str = 0.0,
    weights: str = "download",
    quarter: int | None = None,
    scenario: str | None = None,
) -> Exported:
    """A plan as files for what runs fleets: kubernetes, keda, karpenter, skypilot or compose. Applies nothing.

    `month` is counted from 1; of a horizon it is one of the first `quarter`, unless another is given. `headroom` is
    what KEDA may add beyond the busiest hour, as a share or text such as "20%". `weights` says where weights come from:
    pvc:NAME, hostPath[:PATH], image[:REF], stream[:URI] or download.
    """
    one = one_quarter(plan, quarter, scenario, default=1)
    at = _month(plan, one, quarter, scenario, month)
    zone = time_zone or one.case.time_zone or UTC
    settings = Settings(at, zone, image, weights_from(weights), _share(headroom))
    return Exported(one.name, to, export_plan(one, to, settings))


def _share(headroom: float | str) -> float:
    if not isinstance(headroom, str):
        return float(headroom)
    try:
        return parse_any_fraction(headroom)
    except ValueError as error:
        raise input_error("--headroom", str(error).rstrip(".")) from None


def _month(source: AnyPlan, plan: Plan, quarter: int | None, scenario: str | None, month: int) -> int:
    """The month of a plan, from 0, that a month of its quarter is; scenarios have their own in the first quarter."""
    if not is_horizon(source):
        return month - 1
    several = len(plan.case.months or ()) > 1
    mine = months_of(source, quarter, scenario)
    if mine is None and several and (quarter or 1) == 1:
        labels = ", ".join(m.label for m in plan.case.months or ())
        message = f"is needed: the first quarter has months of each ({labels})"
        raise input_error("--scenario", message, "Name a scenario")
    if not 1 <= month <= OF_QUARTER:
        message = f"the quarter has {counted(OF_QUARTER, 'month')}"
        raise input_error("--month", message, f"Give one from 1 to {OF_QUARTER}")
    each = [m for m, times in (mine or {0: OF_QUARTER}).items() for _ in range(times)]
    return each[month - 1]
