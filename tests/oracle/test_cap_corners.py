"""Caps on what vendors are paid in corners that random cases rarely meet, each by hand arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from problems.fleet_problem import Offer
from problems.horizon.bound import counts_of
from problems.horizon.horizon_problem import HorizonProblem
from problems.recipes.pools import Api, Deployment, Pool
from problems.recipes.vendors import Vendors
from solvers.backends.solve import SolverName
from solvers.search.fleet_solution import FleetSolution, Options, Outcome
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.capped_horizons import capped_horizon
from tests.oracle.vendor_caps import RULE
from tests.support.fleets import Case
from tests.support.rows import for_each

API, P, Q = ("api", "a"), ("provider", "p"), ("provider", "q")


def solved(case: Case, solver: SolverName = "cbc") -> FleetSolution:
    return solve_fleet(case.fleet, Options(solver=solver, gap_frac=0.0))


@pytest.mark.parametrize(("cap_usd", "solver"), [(12.345, "cbc"), (12.345, "highs"), (77.77, "cbc")])
def test_a_cap_is_used_up_to_the_last_cent_where_the_rest_is_shed(cap_usd: float, solver: SolverName) -> None:
    """Solvers keep rows up to a millionth of a dollar; a plan that uses up the cap is the optimum, not refused."""
    rate, api_usd, shed_usd = np.array([[1.3, 0.7], [0.9, 1.1]]), np.array([0.7, 1.9]), np.array([2.1, 5.3])
    hours = np.array([300.0, 430.0])
    pool = Pool("w", ("w",), rate, 1.0, False, (), (Api("a", api_usd / 3600),), shed_usd_per_request=shed_usd / 3600)
    rules = Vendors(of_api={"a": (API,)}, most_usd={API: cap_usd})
    solution = solved(Case((pool,), {}, hours, np.array([0, 0]), vendors=rules), solver)
    saved_by_a_dollar = max(shed / api for shed, api in zip(rate @ shed_usd, rate @ api_usd, strict=True))
    least = float(hours @ rate @ shed_usd) - cap_usd * (saved_by_a_dollar - 1)
    assert solution.outcome is Outcome.OPTIMAL
    assert solution.objective == pytest.approx(least, rel=1e-7)


def lengths_apart() -> Case:
    """A small replica for short requests, an API for long ones, and a large replica for all that nobody would buy."""
    long_and_short = np.array([[0.05, 0.8], [0.02, 0.4]])
    short_only, all_lengths = np.array([math.inf, 1.0]), np.array([1.0, 1.0])
    deployments = tuple(
        Deployment(key, offer, 1, seconds, RULE, staffing_in_a_mix=RULE)
        for key, offer, seconds in (("small", "g0", short_only), ("large", "g1", all_lengths))
    )
    apis = (Api("a", np.array([2.0, 2.0]) / 3600),)
    pool = Pool("w", ("w",), long_and_short, 1.0, False, deployments, apis, max_deployments=2)
    offers = {"g0": Offer("g0", "h", 1, on_demand_usd_per_h=0.5), "g1": Offer("g1", "h", 1, on_demand_usd_per_h=9.0)}
    rules = Vendors(of_offer={"g0": (P,), "g1": (Q,)}, of_api={"a": (API,)})
    return Case((pool,), offers, np.array([300.0, 430.0]), np.array([0, 0]), vendors=rules)


@for_each("cap_usd", [None, 0.0, 1.0, 1e5])
def test_a_cap_on_a_vendor_that_is_paid_nothing_changes_nothing(cap_usd: float | None) -> None:
    """What cannot serve all lengths is part of a mix, of which the other member may have no replica."""
    case = lengths_apart()
    caps = {} if cap_usd is None else {Q: cap_usd}
    solution = solved(replace(case, vendors=replace(case.vendors, most_usd=caps)))
    least = 730 * 0.5 + 2.0 * (300 * 0.05 + 430 * 0.02)
    assert solution.outcome is Outcome.OPTIMAL
    assert solution.objective == pytest.approx(least, rel=1e-9)
    assert solution.bound_usd_per_month <= least * (1 + 1e-9)


def with_cap(problem: HorizonProblem, offer: str, usd: float) -> HorizonProblem:
    blocks = []
    for block in problem.blocks:
        rules = block.fleet.vendors
        vendor = rules.of_offer[offer][0]
        rules = replace(rules, most_usd={vendor: usd}, usd_per_month={})
        blocks.append(replace(block, fleet=replace(block.fleet, vendors=rules)))
    return replace(problem, blocks=tuple(blocks))


def test_commitments_that_are_as_much_as_a_cap_leave_nothing_and_forbid_nothing() -> None:
    """A cap may be the last bit below what they add up to; other vendors serve all the same."""
    problem, signed = capped_horizon(10).problem, 2
    k, long = next((k, c) for k, c in enumerate(problem.commitments) if c.term == "long")
    x = [signed * (n == k) for n in range(len(problem.commitments))]
    paid = signed * long.usd_per_month
    exact, generous = (with_cap(problem, long.offer, usd) for usd in (float(np.nextafter(paid, 0.0)), paid + 1e-3))
    for b in range(len(problem.blocks)):
        fleets = [some.fleet_with(b, x) for some in (exact, generous)]
        assert set(fleets[0].vendors.most_usd.values()) == {0.0}
        one, other = (solve_fleet(fleet, Options(gap_frac=0.0)) for fleet in fleets)
        assert one.outcome is Outcome.OPTIMAL
        assert one.objective == pytest.approx(other.objective, rel=1e-6, abs=1e-6)
    too_much = with_cap(problem, long.offer, paid - 0.01).fleet_with(0, x)
    assert min(too_much.vendors.most_usd.values()) == pytest.approx(-0.01)


def test_what_is_proved_under_a_cap_depends_on_commitments_of_no_use_in_a_block_too() -> None:
    """They are paid there all the same, and leave less of the cap."""
    problem = capped_horizon(10).problem
    offer = problem.commitments[0].offer
    fleet = problem.blocks[1].fleet
    without = replace(fleet, offers={g: o for g, o in fleet.offers.items() if g != offer})
    blocks = (problem.blocks[0], replace(problem.blocks[1], fleet=without), problem.blocks[2])
    problem = with_cap(replace(problem, blocks=blocks), offer, 900.0)
    lasting = {k for k, c in enumerate(problem.commitments) if 1 in c.blocks}
    counted = {k for count in counts_of(problem, 1, [1] * len(problem.commitments)) for k in count.of}
    assert counted == lasting
