"""The cheapest recipe of a workload alone, against working out all of them."""

from problems.fleet_problem import FleetProblem
from solvers.heuristics.incumbent import _cheapest_alone, _least_usd, alone
from tests.oracle.allowances import dollar_case, units_case
from tests.oracle.cases import case_of, case_with_holdings
from tests.support.rows import for_each


@for_each("seed", range(60))
@for_each("drawn", [case_of, case_with_holdings, dollar_case, units_case])
def test_no_recipe_costs_less_than_its_bound_and_none_that_counts_is_left_out(drawn, seed: int) -> None:
    fleet: FleetProblem = drawn(seed).fleet
    for w in fleet.workloads:
        own = [fleet.recipes[r] for r in fleet.recipes_of[w] if len(fleet.recipes[r].workloads) == 1]
        plans = [alone(fleet, recipe) for recipe in own]
        for recipe, plan in zip(own, plans, strict=True):
            assert plan is None or _least_usd(fleet, recipe) <= plan.objective * (1 + 1e-9)
        first = min((plan for plan in plans if plan), key=lambda plan: plan.objective, default=None)
        found = _cheapest_alone(fleet, own)
        assert (found is None) == (first is None)
        if found is not None and first is not None:
            assert found.objective == first.objective
            assert found.paths[0].key == first.paths[0].key
