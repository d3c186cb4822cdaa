"""Proofs that were wrong once: quotas between counts that are tried, bounds above their plan, more choices for more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from problems.fleet_problem import Offer
from problems.recipes.pools import Api, Deployment, Pool
from problems.recipes.recipe import Recipe
from problems.recipes.singles import FINE_COUNTS, MOST_STEPS, _counts_up_to
from problems.staffing import Staffing
from solvers.backends.solve import SolverName
from solvers.heuristics.incumbent import Incumbent
from solvers.pricing.column_generation import ColumnGeneration
from solvers.search.fleet_solution import FleetSolution, Options, Outcome, contradiction
from solvers.search.fleet_solver import solve_fleet
from solvers.search.horizon.solution import HorizonSolution
from solvers.search.narrower import with_mixes_of
from tests.support.fleets import Case
from tests.support.rows import for_each

FULL = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
"""n replicas carry a load of n"""
EXACTLY = Options(gap_frac=0.0)
HOURS = np.full(2, 365.0)
QUOTAS = (68, 71, 83, 97, 101, 107, 113, 127)


def hosts(key: str, *seconds: float, gpus: int = 1) -> Deployment:
    """A deployment on the offer of the same name, one of any mix."""
    return Deployment(key, key, gpus, np.array(seconds), FULL, staffing_in_a_mix=FULL)


def waiting_case(load: float, quota: int | None, dear: bool = True, **limits: object) -> Case:
    """Work that may wait for the other half of the day: cheap GPUs up to a quota, and dear ones."""
    deployments = (hosts("cheap", 1.0), *([hosts("dear", 1.0)] if dear else []))
    pool = Pool("w", ("w",), np.full((2, 1), load), 1.0, False, deployments, (), window=np.ones((2, 2), bool))
    offers = {"cheap": Offer("cheap", "a", 1, 1.0, max_instances=quota), "dear": Offer("dear", "b", 1, 3.0)}
    return Case((pool,), offers, HOURS, np.zeros(2, int), **limits)  # type: ignore[arg-type]


@for_each("quota", QUOTAS)
def test_a_quota_between_two_counts_that_are_tried_is_used_up(quota: int) -> None:
    """With n replicas in one half of the day and n - 1 in the other all work is done: 2 n - 1 times 365 hours."""
    solution = solve_fleet(waiting_case(quota - 0.5, quota).fleet, EXACTLY)
    assert solution.outcome is Outcome.OPTIMAL
    assert solution.objective == pytest.approx((2 * quota - 1) * 365.0)


def test_the_quotas_are_between_counts_that_are_tried() -> None:
    """Otherwise they would say nothing."""
    tried = set(_counts_up_to(2 * max(QUOTAS)).tolist())
    assert min(QUOTAS) > FINE_COUNTS and set(QUOTAS) - tried


@pytest.mark.parametrize(("quota", "most"), [(None, {"a": 68}), (68, {}), (90, {"a": 68})])
def test_every_kind_of_quota_is_tried(quota: int | None, most: dict[str, int]) -> None:
    solution = solve_fleet(waiting_case(67.5, quota, max_gpus=most).fleet, EXACTLY)
    assert (solution.outcome, solution.objective) == (Outcome.OPTIMAL, pytest.approx(135 * 365.0))


@pytest.mark.parametrize("solver", ["cbc", "highs"])
def test_work_that_a_quota_is_too_small_for_cannot_be_done(solver: SolverName) -> None:
    case = waiting_case(160.0, 110, dear=False)
    assert solve_fleet(case.fleet, replace(EXACTLY, solver=solver)).outcome is Outcome.INFEASIBLE


@pytest.mark.parametrize("quota", [66, 67, 70])
def test_overflow_above_a_quota_uses_it_up(quota: int) -> None:
    """An API takes what the quota leaves; of more than 48 replicas not every count is tried."""
    api = Api("api", np.array([2.0 / 3600]))
    pool = Pool("w", ("w",), np.full((2, 1), 3.0 * MOST_STEPS), 1.0, False, (hosts("cheap", 1.0),), (api,))
    case = Case((pool,), {"cheap": Offer("cheap", "a", 1, 1.0, max_instances=quota)}, HOURS, np.zeros(2, int))
    solution = solve_fleet(case.fleet, EXACTLY)
    assert solution.outcome is Outcome.OPTIMAL
    assert solution.objective == pytest.approx(730.0 * (quota + 2.0 * (3 * MOST_STEPS - quota)))


def plan_of(usd: float) -> Incumbent:
    nothing = np.zeros(1)
    path = Recipe("w", ("w",), (), "api", np.zeros(1, int), nothing, nothing, nothing)
    return Incumbent((path,), {}, usd)


def test_a_bound_above_its_plan_is_a_defect_and_no_proof() -> None:
    solution = FleetSolution(best=plan_of(100.0), bound_usd_per_month=101.0, outcome=Outcome.OPTIMAL)
    assert solution.gap_frac == 1.0
    solution.withdraw_bound_refuted_by(solution.objective)
    assert (solution.outcome, solution.bound_usd_per_month) == (Outcome.FEASIBLE, 0.0)
    assert solution.notes[0].startswith("defect: this plan costs $100.00") and "$101.00" in solution.notes[0]


def test_a_bound_within_the_tolerance_of_solvers_stays() -> None:
    assert contradiction(100.0, 100.0 * (1 + 1e-7)) is None
    assert contradiction(np.inf, 50.0) is None
    assert contradiction(0.0, 0.0) is None


def test_a_horizon_below_its_bound_is_a_defect_too() -> None:
    horizon = HorizonSolution(blocks=(FleetSolution(best=plan_of(1.0)),), usd=100.0, bound_usd=150.0)
    horizon.conclude(0.01)
    assert (horizon.outcome, horizon.bound_usd) == (Outcome.FEASIBLE, 0.0)
    assert horizon.notes[0].startswith("defect:")


def test_a_search_that_proves_too_much_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices that claim half as much again as they prove: nothing is proved of what would have been called optimal."""
    right = ColumnGeneration.run

    def wrong(self: ColumnGeneration, *args: object, **options: object) -> object:
        generated = right(self, *args, **options)  # type: ignore[arg-type]
        self.bound *= 1.5
        self.on_round(self.rounds, self.bound)
        return generated

    monkeypatch.setattr(ColumnGeneration, "run", wrong)
    solution = solve_fleet(waiting_case(3.5, None).fleet, EXACTLY)
    assert solution.outcome is Outcome.FEASIBLE
    assert solution.bound_usd_per_month == 0.0
    assert any(note.startswith("defect:") for note in solution.notes)


def mixed_case(seed: int) -> Case:
    """Two workloads of two lengths, three kinds of replicas of which each is best at something, boxes of four."""
    rng = np.random.default_rng([seed, 41])
    offers = {
        f"g{k}": Offer(f"g{k}", f"t{k}", box, float(box * rng.uniform(0.8, 1.4)), reserved_usd_per_h={"1y": box * 0.7})
        for k, box in enumerate((1, 2, 4))
    }
    pools = []
    for w in ("w0", "w1"):
        deployments = tuple(
            Deployment(f"{w} {g}", g, 1, rng.uniform(0.3, 2.0, 2), FULL, staffing_in_a_mix=FULL) for g in offers
        )
        pools.append(Pool(w, (w,), rng.uniform(0.3, 2.5, (2, 2)), 1.0, False, deployments, (), max_deployments=3))
    return Case(tuple(pools), offers, HOURS, np.zeros(2, int))


@for_each("seed", range(6))
def test_mixes_of_three_cost_no_more_than_those_of_two(seed: int) -> None:
    fleet = mixed_case(seed).fleet
    of_two, of_three = (solve_fleet(with_mixes_of(fleet, most), Options(gap_frac=1e-3)).objective for most in (2, 3))
    assert of_three <= of_two * (1 + 1e-6)
