"""Notes below the table of a what-if."""

from __future__ import annotations

import pytest

from planner.reports.what_if import notes, runs
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


def test_what_is_held_is_counted_by_budgets_and_said() -> None:
    rows = tuple(
        {"run": run, "cost_usd_per_month": 10.0, "held_usd_per_month": held, "total_usd_per_month": 10.0 + held}
        | {"budget_usd_per_month": None, "served_frac": 1.0, "usd_per_1m_tokens": 1.0, "status": "optimal"}
        | {"inputs": {}}
        for run, held in (("base", 1200.0), ("b", 900.0))
    )
    sweep = Sweep(name="n", inputs=(), rows=rows, budgets=(), gap_frac=0.01)
    (note,) = notes(sweep)
    assert note.startswith("budgets count the $900 to $1,200 / month paid in any case")
    assert "with what is held $/month" in [c.title for c in runs(sweep).view("text").columns]
    assert [c.key for c in runs(sweep).view("csv").columns][-2:] == ["held_usd_per_month", "total_usd_per_month"]
