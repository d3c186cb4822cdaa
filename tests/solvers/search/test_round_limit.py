"""A search that is limited by rounds of prices: less is proved, nothing wrong, and the same every time."""

from __future__ import annotations

from solvers.search.fleet_solution import Options, Outcome
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.cases import case_of
from tests.support.rows import for_each


@for_each("seed", [300, 301, 1000, 1001, 1013])
def test_what_few_rounds_prove_holds_and_does_not_depend_on_the_clock(seed: int) -> None:
    fleet = case_of(seed).fleet
    full = solve_fleet(fleet, Options(gap_frac=0.0))
    few, again = (solve_fleet(fleet, Options(gap_frac=0.0, round_limit=1)) for _ in range(2))
    assert (few.outcome, few.objective, few.bound_usd_per_month) == (
        again.outcome,
        again.objective,
        again.bound_usd_per_month,
    )
    if full.outcome is Outcome.INFEASIBLE:
        assert few.best is None
    else:
        assert few.bound_usd_per_month <= full.objective * (1 + 1e-9)
        assert few.objective >= full.bound_usd_per_month * (1 - 1e-9)
    assert few.best is not None or few.outcome in (Outcome.INFEASIBLE, Outcome.NOT_FOUND)
