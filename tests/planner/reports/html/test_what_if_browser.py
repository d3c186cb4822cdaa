"""The page of a what-if in a real browser: nothing complains, nothing overlaps, everything fits its window."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.reports.page import as_page
from planner.reports.what_if import what_if_document
from planner.studies.frontier import BudgetPlan
from planner.studies.sweep import Sweep
from planner.studies.sweep_job import point
from solvers.search.fleet_solution import Outcome
from tests.support.browser import CHROMIUM, WIDTHS, Page, is_whole_and_quiet, names_are_text
from tests.support.lever_plans import lever_plan
from tests.support.report_plans import HOSTILE
from tests.support.rows import for_each

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="NO BROWSER: install chromium (apt-get install chromium) to test how reports look"
)


def swept() -> Sweep:
    """Rows of one plan under several names, hostile ones too, at rising costs."""
    plan = lever_plan("together")
    found = BudgetPlan(None, Outcome(plan.status), plan, plan.bound_usd_per_month, None)
    row = point(plan.case, None, found)
    inputs = ("scale demand", "workloads.chat.slo.ttft_p95", *HOSTILE)
    changed = [
        {"run": f"{name}={value}", "inputs": {name: value}}
        | row
        | {"cost_usd_per_month": row["cost_usd_per_month"] * (1 + k)}
        for k, name in enumerate(inputs)
        for value in ("0.5", "2")
    ]
    return Sweep("what if", inputs, ({"run": "base", "inputs": {}} | row, *changed), (), 0.001)


@for_each("dark", [False, True])
@for_each("width", WIDTHS)
def test_it_is_whole_and_quiet(width: int, dark: bool, page: Page, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(as_page(what_if_document(swept())), encoding="utf-8")
    is_whole_and_quiet(page, file, width, dark)
    names_are_text(page, HOSTILE)
