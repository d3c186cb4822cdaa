"""Verbs that show or pass on plans: report and export."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date
from itertools import accumulate
from pathlib import Path

from planner.explanations.records import Explanation, read_explanation
from planner.export.export import export_plan
from planner.export.folder import write_folder
from planner.export.hosted import Settings
from planner.export.weights import weights_from
from planner.io.errors import input_error, listed, shown
from planner.io.formatting import counted
from planner.io.result import Result
from planner.io.units import UTC, parse_any_fraction
from planner.plan.blocks import AnyPlan, block_of, part_of
from planner.plan.plan import Plan
from planner.reports.formats import RENDERERS, rendered
from planner.verbs.opening import PlanOrFile, months_of, opened

FORMATS = (*RENDERERS, "focus")
LAST_START = date(date.max.year, 9, 1)
"""of a quarter that ends on a day that the calendar has"""
ALL = "all"
OF_QUARTER = 3
"""months of a quarter"""

# -- report -----------------------------------------------------------------------------------------------


def report(
    plan: PlanOrFile,
    *,
    to: str = "html",
    table: str | None = None,
    explanation: Explanation | Path | str | None = None,
    starts: date | str | None = None,
    quarter: int | None = None,
    scenario: str | None = None,
) -> str:
    """A plan, or one quarter of it, as text: html, text, markdown, csv, json or focus.

    csv is one `table` (`plan.frames()` names them), focus a budget as rows of a bill from the day that it `starts` on;
    the page shows an `explanation` too. Budgets and explanations are of one quarter, the first unless one is named.
    """
    from planner.reports.focus import focus_csv
    from planner.reports.plan import plan_document

    if to not in FORMATS:
        raise input_error("--format", f"there is no format {shown(to)}", f"Give {listed(FORMATS)}")
    first_day = first_day_of(starts, to == "focus")
    whole = opened(plan)
    of_one = explanation is not None or first_day is not None
    shown_plan = (block_of if of_one else part_of)(whole, quarter, scenario)
    if first_day is not None and isinstance(shown_plan, Plan):
        return focus_csv(shown_plan, first_day)
    if isinstance(explanation, Path | str) and isinstance(shown_plan, Plan):
        explanation = read_explanation(explanation, shown_plan)
    assert not isinstance(explanation, Path | str)
    return rendered(plan_document(shown_plan, explanation), to, table)


def first_day_of(starts: date | str | None, wanted: bool) -> date | None:
    """The first day of a budget; None where none is asked for."""
    if not wanted:
        if starts is not None:
            raise input_error(
                "--starts", "sets the first day of a budget, which --format focus writes", "Add --format focus"
            )
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
    plan: PlanOrFile,
    to: str,
    *,
    month: int = 1,
    time_zone: str | None = None,
    image: str | None = None,
    headroom: float | str = 0.0,
    weights: str = "download",
    months: str | None = None,
    namespace: str | None = None,
    registry: str | None = None,
    quarter: int | None = None,
    scenario: str | None = None,
) -> Exported:
    """A plan as files for what runs fleets, such as kubernetes, keda or gateway. Applies nothing.

    `month` is counted from 1, in the first quarter unless another `quarter` is given. `months`, all or such as "1..3",
    exports each into a folder of its own. `headroom` is what an autoscaler may add beyond the busiest hour, as a share
    or text such as "20%". `weights` says where weights come from: pvc:NAME, hostPath[:PATH], image[:REF], stream[:URI]
    or download. Images come from `registry` where one is given.
    """
    whole = opened(plan)
    one = block_of(whole, quarter, scenario)
    zone = time_zone or one.case.time_zone or UTC
    settings = Settings(
        time_zone=zone,
        image=image,
        weights=weights_from(weights),
        headroom_frac=_share(headroom),
        namespace=namespace,
        registry=registry,
    )
    if months is None:
        at = _month(whole, one, quarter, scenario, month)
        return Exported(one.name, to, export_plan(one, to, replace(settings, month=at)))
    if month != 1:
        raise input_error("--months", "is another form of --month", "Give one of the two")
    files: dict[str, str] = {}
    for number in _numbers(months, OF_QUARTER if whole is not one else len({slot.month for slot in one.slots})):
        at = _month(whole, one, quarter, scenario, number)
        of_month = export_plan(one, to, replace(settings, month=at))
        files |= {f"month-{number}/{path}": text for path, text in of_month.items()}
    return Exported(one.name, to, files)


def _numbers(months: str, most: int) -> range:
    """From text such as all, 2 or 1..3."""
    if months == ALL:
        return range(1, most + 1)
    found = re.fullmatch(r"(\d{1,3})(?:\.\.(\d{1,3}))?", months)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last <= most:
        few = "all or 1" if most == 1 else f"all, 1, or 1..{most}"
        raise input_error("--months", f"{shown(months)} names no months of the plan", f"Give {few}")
    return range(first, last + 1)


def _share(headroom: float | str) -> float:
    if not isinstance(headroom, str):
        return float(headroom)
    try:
        return parse_any_fraction(headroom)
    except ValueError as error:
        raise input_error("--headroom", str(error).rstrip(".")) from None


def _month(whole: AnyPlan, plan: Plan, quarter: int | None, scenario: str | None, month: int) -> int:
    """The month of a plan, from 0, that a month of its quarter is; scenarios have their own in the first quarter."""
    if whole is plan:
        return month - 1
    several = len(plan.case.months or ()) > 1
    mine = months_of(whole, quarter, scenario)
    if mine is None and several and (quarter or 1) == 1:
        labels = ", ".join(m.label for m in plan.case.months or ())
        message = f"is needed: the first quarter has months of each ({labels})"
        raise input_error("--scenario", message, "Name a scenario")
    if not 1 <= month <= OF_QUARTER:
        message = f"the quarter has {counted(OF_QUARTER, 'month')}"
        raise input_error("--month", message, f"Give one from 1 to {OF_QUARTER}")
    ends = accumulate((mine or {0: OF_QUARTER}).values())
    return next(m for m, end in zip(mine or (0,), ends, strict=True) if end > month - 0.5)
