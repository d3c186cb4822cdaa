"""Notes below the table of a what-if."""

from __future__ import annotations

import pytest

from planner.reports.what_if import notes
from planner.studies.sweep import Sweep


@pytest.mark.parametrize(
    ("least", "said"),
    [
        ((1794.0, 1794.2), "the cheapest plan needs $1,794 a month"),
        ((1794.0, 1549.0), "the cheapest plans of these runs need $1,549 to $1,794 a month"),
    ],
)
def test_budgets_that_would_be_enough_are_those_of_all_runs(least: tuple[float, float], said: str) -> None:
    rows = tuple({"run": run, "least_budget_usd_per_month": usd} for run, usd in zip(("base", "b"), least, strict=True))
    (note,) = notes(Sweep(name="n", inputs=(), rows=rows, budgets=(1200.0,), gap_frac=0.01))
    assert note.startswith(said)
