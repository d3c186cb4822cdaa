"""Searches in processes of their own: solutions are those of searches here, and the end of a process harms nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solvers.search import searches
from solvers.search.fleet_solution import COLD_START, FleetSolution, Options, Outcome
from solvers.search.horizon.horizon_search import HorizonSearch
from solvers.search.searches import FleetSearch, Searches
from tests.oracle.cases import case_of
from tests.oracle.horizons import least_usd, tiny_horizon
from tests.solvers.heuristics.test_rounding import two_boxes


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Side by side, however small the fleets and the machine."""
    monkeypatch.setattr(searches, "WORTH_SERVINGS", 0)
    monkeypatch.setattr(searches, "cores", lambda: 2)


def several() -> list[FleetSearch]:
    fleet, options = two_boxes().fleet, Options(gap_frac=1e-4)
    none = replace(fleet, offers={g: replace(o, max_instances=0) for g, o in fleet.offers.items()})
    fleets = (fleet, none, case_of(3).fleet)
    return [FleetSearch(one, options, COLD_START) for one in fleets]


def figures(solutions: list[FleetSolution]) -> list[tuple[Outcome, float, float]]:
    return [(s.outcome, round(s.objective, 4), round(s.bound_usd_per_month, 4)) for s in solutions]


def test_solutions_are_those_of_searches_here() -> None:
    done: list[tuple[int, int]] = []
    with Searches() as side_by_side:
        found = side_by_side.run(several(), lambda *counts: done.append(counts))
        assert len(side_by_side._processes) == 2
    assert figures(found) == figures([search.run() for search in several()])
    assert done == [(1, 3), (2, 3), (3, 3)]


def test_what_a_process_does_not_end_is_done_here() -> None:
    with Searches() as side_by_side:
        side_by_side._processes = [searches._Process(), searches._Process()]
        for process in side_by_side._processes:
            process._process.kill()
        found = side_by_side.run(several(), lambda done, of: None)
    assert figures(found) == figures([search.run() for search in several()])


def test_a_horizon_is_the_same_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    horizon = tiny_horizon(17)
    both = [HorizonSearch(horizon.problem, Options(gap_frac=1e-3)).run()]
    monkeypatch.setattr(searches, "cores", lambda: 1)
    both.append(HorizonSearch(horizon.problem, Options(gap_frac=1e-3)).run())
    assert [(s.signed, s.usd, s.bound_usd) for s in both[:1]] == [(s.signed, s.usd, s.bound_usd) for s in both[1:]]
    assert both[0].usd == pytest.approx(least_usd(horizon))
