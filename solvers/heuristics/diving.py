"""Diving: fix what the LP uses most, solve it again, and repeat until everything is fixed.

First one recipe for each workload, then commitments to large boxes: the LP with cuts is a good estimate of what each
decision costs, and simplex solves it again from the last basis in milliseconds. Replica counts are then chosen by slot
(solvers/heuristics/slot_lp.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from problems.fleet import master
from problems.fleet_problem import ON_HAND, FleetProblem, Held
from problems.fleet_variables import Variables
from problems.recipes.recipe import Recipe, RecipeKey
from solvers.backends.highs import WarmLp
from solvers.backends.solve import SolverName
from solvers.cuts.picked import Picked
from solvers.heuristics.counts_by_slot import counts_by_slot
from solvers.heuristics.hill_climbing import picks_by_key
from solvers.heuristics.incumbent import Incumbent
from solvers.heuristics.local_search import improved
from solvers.heuristics.polishing import around_the_picked, heaviest_of_each, polished

NOISE = 0.3
"""relative noise on shares of recipes and on commitments, in all dives but the first"""
DECIDED = 0.999
"""share from which on a recipe is as good as chosen"""
NOTHING = 1e-4
"""share up to which a recipe is not in the LP"""
COMMITTED_FRAC = 0.003
"""share of the cost: noise on what commitments cost, in all dives but the first"""
SURELY = 0.02
"""boxes by which commitments may differ from a whole number that they are taken for"""
LIKE_THE_BEST = 0.7
"""share of the smallest known excess of an integer plan over its LP that is assumed for the next one"""
OTHER_FRAC = 1e-3
"""share of the cost: if local search saves more, counts are chosen again"""


class Dives:
    """Dives from the LP over some paths, which is solved once for all of them."""

    def __init__(self, fleet: FleetProblem, paths: tuple[Recipe, ...]) -> None:
        self.fleet = fleet
        self._held = replace(fleet, recipes=paths)
        model, self._v = master(self._held)
        self._lp = WarmLp(model)
        self.whole_frac = 0.0
        """smallest known relative excess of a plan over its slot LP"""
        self._known: set[frozenset[object]] = set()
        """what earlier dives decided on"""

    def dived(self, solver: SolverName, until: float, seed: int = 0, below: float = np.inf) -> Iterator[Incumbent]:
        """The plan at the end of a dive, and a better one; none if limits, time or its cost do not let it end.

        With the seed 0 always the largest share is taken, else nearly the largest.
        """
        fleet, decided = self.fleet, self.decided(until, seed, below)
        counted = counts_by_slot([decided], solver, until, below * (1 - self.whole_frac)) if decided else None
        if counted is None:
            return
        excess_frac = counted.plan.objective / counted.lp_usd - 1
        self.whole_frac = min(self.whole_frac or np.inf, max(0.0, LIKE_THE_BEST * excess_frac))
        better = improved(fleet, counted.plan, until)
        yield better
        if better.objective <= (1 - OTHER_FRAC) * counted.plan.objective:
            yield improved(fleet, polished(fleet, better, solver, until), until)

    def decided(self, until: float, seed: int = 0, below: float = np.inf) -> FleetProblem | None:
        """The fleet with what a dive decides on, and counts near it; None if there is nothing new or cheaper."""
        decided = self._recipes_and_commitments(until, seed, below)
        if decided is None or decided.known_as in self._known:
            return None
        self._known.add(decided.known_as)
        recipes = tuple(around_the_picked(self.fleet, decided.picked))
        return replace(self.fleet, recipes=recipes, held=self.fleet.held | decided.held)

    def _recipes_and_commitments(self, until: float, seed: int, below: float = np.inf) -> _Decided | None:
        """One recipe for every workload, and whole commitments to large boxes."""
        fleet, v, lp = self._held, self._v, self._lp
        lp.begin_again()
        drawn, noise = np.random.default_rng(seed), NOISE if seed else 0.0
        keys = _recipes(fleet, v, lp, until, drawn, noise, below)
        if keys is None:
            return None
        x = lp.solve()
        held, x = _commitments(fleet, v, lp, x, until, drawn, noise)
        if x is None:
            return None
        return _Decided(heaviest_of_each(v, x, fleet.recipes, keys), held)


@dataclass(frozen=True, eq=False)
class _Decided:
    picked: list[Picked]
    held: Held

    @property
    def known_as(self) -> frozenset[object]:
        return frozenset((*(p.path.key for p in self.picked), *self.held.items()))


def _recipes(
    fleet: FleetProblem,
    v: Variables,
    lp: WarmLp,
    until: float,
    drawn: np.random.Generator,
    noise: float,
    below: float,
) -> list[RecipeKey] | None:
    """The keys of the recipes; None if they would not cost less."""
    columns = picks_by_key(fleet, v)
    path_of = {path.key: path for path in fleet.recipes}
    chosen: list[RecipeKey] = []
    left = dict.fromkeys(columns)
    x = lp.solve()
    while x is not None and lp.objective < below and time.monotonic() < until:
        share = {key: float(x[columns[key]].sum()) for key in left}
        open_ones = {key: s for key, s in share.items() if s > NOTHING}
        if not open_ones:
            break
        ranked = sorted(open_ones, key=lambda key: (open_ones[key] * (1 + noise * drawn.standard_normal()), str(key)))
        sure = [key for key, s in open_ones.items() if s > DECIDED]
        others: dict[RecipeKey, None] = {}
        for key in sure or ranked[-1:]:
            served = set(path_of[key].workloads)
            others |= dict.fromkeys(o for o in left if o != key and served & set(path_of[o].workloads))
        lp.decide([c for key in others for c in columns[key]], 0.0, 0.0)
        then = x if sure and not any(share[o] > NOTHING for o in others) else lp.solve()
        if then is None and not sure:  # a limit forbids it
            lp.decide([c for key in others for c in columns[key]], 0.0, 1.0)
            lp.decide(columns[ranked[-1]], 0.0, 0.0)
            del left[ranked[-1]]
            x = lp.solve()
            continue
        x = then
        chosen += sure or ranked[-1:]
        left = dict.fromkeys(key for key in left if key not in others and key not in chosen)
    all_served = [w for key in chosen for w in path_of[key].workloads]
    return chosen if sorted(all_served) == sorted(fleet.workloads) else None


def _commitments(
    fleet: FleetProblem,
    v: Variables,
    lp: WarmLp,
    x: np.ndarray | None,
    until: float,
    drawn: np.random.Generator,
    noise: float,
) -> tuple[Held, np.ndarray | None]:
    """To a whole number nearby, the surest first, whichever the LP makes cheaper; the LP then, if any."""
    large = {key: c for key, c in v.reserved.items() if fleet.offers[key[0]].box > 1 and key[1] != ON_HAND}
    held: Held = {}
    while x is not None and len(held) < len(large):
        boxes = {key: float(x[c]) for key, c in large.items() if key not in held}
        key = min(boxes, key=lambda key: (abs(boxes[key] - round(boxes[key])), key))
        costs: dict[int, float] = {}
        for whole in _nearby(boxes[key]):
            lp.decide([large[key]], float(whole), float(whole))
            if time.monotonic() < until and lp.solve() is not None:
                costs[whole] = lp.objective * (1 + noise * COMMITTED_FRAC * drawn.standard_normal())
        if not costs:
            return held, None
        best = min(costs, key=lambda whole: costs[whole])
        lp.decide([large[key]], float(best), float(best))
        held[key], x = (best, best), lp.solve()
    return held, x


def _nearby(boxes: float) -> list[int]:
    """Whole numbers to try for a part of one: the nearest alone where it is as good as whole."""
    near = round(boxes)
    if abs(boxes - near) < SURELY:
        return [near]
    return [int(boxes), int(boxes) + 1]
