"""Searches of tiny fleets with many replicas, mixes of three and deadlines, against enumeration."""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from solvers.backends.solve import SolverName
from solvers.search.fleet_solution import Options
from tests.oracle.exhaustive import least_objective
from tests.oracle.large_cases import CLASSES, at_most, narrower
from tests.oracle.verdicts import Verdict
from tests.support.fleets import Case
from tests.support.places import ROOT
from tests.support.rows import for_each

SEEDS = {
    "deadlines": [0, 1, 2, 3, 5, 7, 9, 10, 11, 12, 36],
    "overflow": [*range(14)],
    "mixes": [0, 2, 6, 7, 9, 12, 14, 15, 18],
}
"""those that are searched in no time; benchmarks/fuzz_proofs.py tries others by the hundred"""
EVERY = [(name, seed) for name, seeds in SEEDS.items() for seed in seeds]


def case_of(name: str, seed: int) -> Case:
    return CLASSES[name][1](seed)


def options(seed: int, nodes: int = 100) -> Options:
    solver: SolverName = "highs" if seed % 4 == 1 else "cbc"
    return Options(solver, gap_frac=0.0, node_limit=nodes)


@cache
def truth_of(name: str, seed: int) -> float:
    return least_objective(case_of(name, seed))


@cache
def verdict_of(name: str, seed: int) -> Verdict:
    verdict = Verdict(case_of(name, seed), truth_of(name, seed))
    verdict.found = verdict.hold(options(seed))
    return verdict


@for_each(("name", "seed"), EVERY)
def test_what_is_proved_is_true(name: str, seed: int) -> None:
    assert verdict_of(name, seed).problems == []


@for_each(("name", "seed"), EVERY[2::5])
def test_a_search_that_must_not_branch_says_nothing_wrong(name: str, seed: int) -> None:
    verdict = Verdict(case_of(name, seed), truth_of(name, seed))
    verdict.hold(options(seed, nodes=0))
    assert verdict.problems == []


@for_each(("name", "seed"), EVERY[::4])
def test_more_to_choose_from_costs_no_more(name: str, seed: int) -> None:
    verdict = Verdict(case_of(name, seed), truth_of(name, seed), verdict_of(name, seed).found)
    for menu in narrower(verdict.case, seed):
        verdict.compare(menu, options(seed))
    assert verdict.problems == []


def test_most_are_proved() -> None:
    assert sum(verdict_of(name, seed).proved for name, seed in EVERY) >= 0.9 * len(EVERY)


def test_there_are_many_replicas() -> None:
    """Above sixty not every count is tried of work that may wait; of overflow, above forty-eight."""
    for name, least in (("deadlines", 9), ("overflow", 11)):
        assert sum(_most_replicas(case_of(name, seed)) > 60 for seed in SEEDS[name]) >= least, name


def _most_replicas(case: Case) -> float:
    """The most that all work which may be done in a slot keeps busy of some deployment."""
    loads = []
    for pool in case.pools:
        reach = np.eye(pool.slots) if pool.window is None else pool.window
        for d in pool.deployments:
            seconds = np.where(np.isfinite(d.seconds_per_request), d.seconds_per_request, 0.0)
            loads.append(((pool.rate_rps @ seconds * case.slot_hours) @ reach / case.slot_hours).max())
    return float(max(loads))


def test_quotas_and_mixes_decide() -> None:
    """Otherwise agreement would say little: so many optima cost more without a third deployment, or with a quota."""
    assert sum(_without_quotas("deadlines", seed) < truth_of("deadlines", seed) for seed in SEEDS["deadlines"]) >= 4
    assert sum(_without_quotas("overflow", seed) < truth_of("overflow", seed) for seed in SEEDS["overflow"]) >= 5
    third = [least_objective(at_most(case_of("mixes", seed), 2)) for seed in SEEDS["mixes"]]
    assert sum(usd > truth_of("mixes", seed) for usd, seed in zip(third, SEEDS["mixes"], strict=True)) >= 2


def _without_quotas(name: str, seed: int) -> float:
    return least_objective(case_of(name, seed).without_limits())


def test_the_page_of_reliability_has_every_class() -> None:
    page = (ROOT / "docs" / "evidence" / "reliability.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"<!-- proofs: begin -->\n(.*?)<!-- proofs: end -->", page, re.DOTALL)
    rows = {
        cells[1]: cells
        for cells in ([cell.strip() for cell in line.split("|")] for line in table.splitlines())
        if len(cells) > 2
    }
    assert set(CLASSES) <= set(rows)
    assert sum(int(rows[name][3]) for name in CLASSES) >= 225
    for name, (what, _) in CLASSES.items():
        head, cells = rows["class"], rows[name]
        assert cells[2] == what
        wrong = (
            "wrong proofs",
            "bounds above the optimum",
            "told on the way",
            "broken rules",
            "dearer, proved or started from it",
        )
        assert [cells[head.index(kind)] for kind in wrong] == ["0"] * len(wrong)
