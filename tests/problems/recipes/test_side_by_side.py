"""Recipes side by side cost what each costs by itself."""

from __future__ import annotations

import numpy as np
import pytest

from problems import fleet_problem as fleet_data
from problems.recipes.side_by_side import SideBySide
from solvers.heuristics.incumbent import each_by_itself
from solvers.heuristics.local_search import improved
from tests.oracle.cases import case_of
from tests.support.fleets import same_servings
from tests.support.rows import for_each


@for_each("seed", range(1000, 1020))
def test_each_recipe_costs_what_it_does_alone(seed: int) -> None:
    fleet = case_of(seed).fleet
    rng = np.random.default_rng(seed)
    for workloads, recipes in fleet.recipes_for.items():
        independent = [recipe for recipe in recipes if recipe.deferral is None]
        several = list(fleet.side_by_side(workloads))
        assert [recipe for some in several for recipe in some.recipes] == independent
        for some in several:
            cost = rng.random(len(some.slot))
            least, first = some.least(cost), 0
            for k, recipe in enumerate(some.recipes):
                own = cost[first : first + recipe.servings]
                best = recipe.first_of_each_slot(own)
                assert least[k] == pytest.approx(own[best].sum())
                assert same_servings(some.cheapest(k, cost), recipe.only(best))
                for g in recipe.offers:
                    at, gpus, firm = some.used[g]
                    mine = (at >= first) & (at < first + recipe.servings)
                    assert gpus[mine].tolist() == recipe.gpus_on(g).tolist()
                    assert firm[mine].tolist() == recipe.firm_gpus_on(g).tolist()
                first += recipe.servings


@for_each("seed", range(1000, 1012))
def test_large_fleets_get_the_same_answers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One recipe at a time, where all side by side would take too much memory."""
    first = each_by_itself(case_of(seed).fleet)
    if first is None:
        return
    together = improved(case_of(seed).fleet, first).objective
    monkeypatch.setattr(fleet_data, "SERVINGS_SIDE_BY_SIDE", 0)
    assert improved(case_of(seed).fleet, first).objective == pytest.approx(together)


def test_nothing_is_kept_twice() -> None:
    fleet = case_of(1000).fleet
    workloads = next(iter(fleet.recipes_for))
    assert fleet.side_by_side(workloads) is fleet.side_by_side(workloads)
    assert all(isinstance(some, SideBySide) for some in fleet.side_by_side(workloads))
