"""Tiny fleets whose optimum is known by trying everything: the proof must be that optimum."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from tally import Attack, Row, tell

from solvers.search.fleet_solution import Options, Outcome
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.allowances import lapsing_case, least_usd, monthly_case
from tests.oracle.brute_force import brute_force
from tests.oracle.cases import lever_case
from tests.oracle.plans import check_plan
from tests.oracle.shared_offers import shared_case
from tests.support.fleets import Case

GROUP = "proofs"
SAME = 1e-6
BEYOND_THE_TESTS = 100_000
"""seeds from here on are in no test"""


def _optimum(case: Case) -> float:
    return brute_force(case).objective


KINDS: dict[str, tuple[str, int, Callable[[int], Case], Callable[[Case], float]]] = {
    "shared": ("two workloads on offers of nearly the same price, with mixes and starts", 300, shared_case, _optimum),
    "levers": (
        "every lever: sharing, caches, waiting work, shedding, budgets, zones",
        200,
        lambda s: lever_case(s).case,
        _optimum,
    ),
    "plans": (
        "a savings plan beside a budget for each of several months",
        100,
        lambda s: monthly_case("dollars", s),
        least_usd,
    ),
    "units": (
        "provisioned units beside a budget for each of several months",
        100,
        lambda s: monthly_case("units", s),
        least_usd,
    ),
    "lapsing plans": (
        "a savings plan held for some of the hours",
        100,
        lambda s: lapsing_case("dollars", s),
        least_usd,
    ),
    "lapsing units": (
        "provisioned units held for some of the hours",
        100,
        lambda s: lapsing_case("units", s),
        least_usd,
    ),
}


def attack_proofs(attack: Attack) -> list[Row]:
    rows = []
    for kind, (what, full, *_) in KINDS.items():
        row = Row(GROUP, f"tiny fleets against brute force: {what}; CBC and HiGHS in turn")
        seeds = [BEYOND_THE_TESTS * attack.seed + k for k in range(attack.times(full))]
        with ProcessPoolExecutor(attack.jobs) as pool:
            for done, (problems, off, words) in enumerate(
                pool.map(_proved, [kind] * len(seeds), seeds, chunksize=4), 1
            ):
                row.add(problems)
                row.measure(off, words)
                if done % 50 == 0:
                    tell(f"{row.group}: {done} of {len(seeds)} of {kind}, {len(row.failures)} failures")
        rows.append(row)
    return rows


def _proved(kind: str, seed: int) -> tuple[list[str], float, str]:
    """What is wrong, how far the cost is above the optimum, and where."""
    solver: Any = ("cbc", "highs")[seed % 2]
    _, _, case_of, least = KINDS[kind]
    case, place = case_of(seed), f"{kind} {seed} with {solver}"
    try:
        truth, found = least(case), solve_fleet(case.fleet, Options(solver=solver, gap_frac=0.0))
        if truth == math.inf:
            bad = found.outcome is not Outcome.INFEASIBLE
            return ([f"{place}: {found.outcome.value}, but there is no plan"] if bad else []), -1.0, ""
        problems = []
        if found.best is None:
            return [f"{place}: {found.outcome.value}, but there is a plan for {truth}"], -1.0, ""
        if found.bound_usd_per_month > truth * (1 + SAME):
            problems.append(f"{place}: proved {found.bound_usd_per_month}, the optimum is {truth}")
        off = found.objective / truth - 1 if truth else 0.0
        if (found.outcome is Outcome.OPTIMAL and abs(off) > 3 * SAME) or off < -SAME:
            problems.append(f"{place}: {found.outcome.value} at {found.objective}, the optimum is {truth}")
        check_plan(case, found.best)
    except AssertionError as error:
        return [f"{place}: the plan breaks a rule: {str(error)[:120]}"], -1.0, ""
    except Exception as error:
        return [f"{place}: {type(error).__name__}: {error}"], -1.0, ""
    return problems, off, f"{place}: {found.outcome.value}, {off:.1e} above the optimum"
