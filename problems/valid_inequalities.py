"""Valid inequalities about whole boxes, which tighten the LP.

The first two families hold for every plan: the program is the same without them, and they join where its LP violates
them (solvers/cuts/pool.py). Only where an offer runs two instances if any does is the first one more than that, and
whole programs have all of its rows. The third approximates whole boxes in a program that buys fractions of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from problems.beyond_commitments import ALWAYS, Beyond
from problems.fleet_problem import FleetProblem
from problems.fleet_variables import Variables
from problems.model import Row
from problems.recipes.recipe import Recipe
from problems.rounding_up import Rounded
from problems.standing_apart import Apart


def own_boxes_are_whole(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """Whoever shares a box, what one workload uses fills whole boxes or begins them. Said where it sharpens the LP.

    bought[g,t] - sum_{r covers w},s boxes[g](gpus[r,t,s]) serve[r,t,s] >= 0    for chosen w, g, t    [instance]

    where boxes[g](n) = max(ceil(n / box[g]), fewest[g]) for n > 0, and 0 for none: replicas of a deployment do not all
    stand in one instance. The same for firm GPUs, their fewest, and instances that are not spot.
    """
    by_pair: dict[tuple[str, str, str], list[int]] = {}
    for kind, w, g, t in sorted(fleet.own_boxes):
        by_pair.setdefault((kind, w, g), []).append(t)
    for (kind, w, g), slots in by_pair.items():
        use: dict[int, dict[int, float]] = {t: {} for t in slots}
        for r in fleet.recipes_of[w]:
            recipe = fleet.recipes[r]
            if g in recipe.offers:
                boxes = boxes_of(fleet, recipe, g, kind)
                for i in np.flatnonzero(boxes).tolist():
                    if recipe.slot[i] in use:
                        use[recipe.slot[i]][v.serving(r, i)] = float(boxes[i])
        for t in slots:
            if use[t]:
                bought = v.bought(fleet, g, t) if kind == "in-use" else v.firm(fleet, g, t)
                terms = [(c, 1.0) for c in bought] + [(c, -n) for c, n in use[t].items()]
                yield Row(("own-boxes", kind, w, g, t), terms, ">=", 0.0)


def boxes_of(fleet: FleetProblem, recipe: Recipe, g: str, kind: str) -> np.ndarray:
    """Whole boxes of an offer that a recipe would need if nobody shared them [serving]."""
    return fleet.offers[g].boxes(recipe.used_on(kind, g), kind)


def boxes_are_rounded_up(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """What workloads use together fills whole boxes or begins them. Said where it sharpens the LP.

    (1 - f) bought[g,t] + f firm[g,t] - sum_r,s (step[w](r,t,s) - step[w](0)) serve[r,t,s] >= sum_w step[w](0)    [-]

    for chosen g, t, with weights f and steps in GPUs in use and firm ones as in problems/rounding_up.py. Where
    commitments are decided, steps may count boxes beyond them, in use or firm (problems/beyond_commitments.py): no more
    than so many leave the rest to what is bought by the hour, and no fewer are bought in any case.
    Replicas of two workloads that stand apart count by their sizes (problems/standing_apart.py).
    """
    for (kind, g, number), cuts in fleet.rounded_slots.items():
        if g not in fleet.recipes_on:
            continue
        slots = {t for of, offer, t, n in fleet.rounded if (of, offer, n) == (kind, g, number)}
        terms: dict[int, dict[int, float]] = {t: {} for t in sorted(slots)}
        for r in fleet.recipes_on[g]:
            recipe = fleet.recipes[r]
            each = cuts.use(recipe)
            for i in np.flatnonzero(each > 1e-9).tolist():
                row, column = terms[int(recipe.slot[i])], v.serving(r, i)
                row[column] = row.get(column, 0.0) - float(each[i])
        for t, row in terms.items():
            cut = fleet.rounded[kind, g, t, number]
            counted = _counted(fleet, v, cut)
            if row or (counted and number == ALWAYS):
                yield Row(("rounded", kind, g, t, number), counted + list(row.items()), ">=", cut.rhs)


def _counted(fleet: FleetProblem, v: Variables, cut: Rounded | Beyond | Apart) -> list[tuple[int, float]]:
    """The instances that such a row counts, and how much."""
    g, t = cut.offer, cut.slot
    if isinstance(cut, Rounded):
        spot = [(v.spot[g, t], 1 - cut.firm_frac)] if (g, t) in v.spot and cut.firm_frac < 1 else []
        return [(c, 1.0) for c in v.firm(fleet, g, t)] + spot
    if isinstance(cut, Apart):
        return [(c, 1.0) for c in (v.bought if cut.of == "in-use" else v.firm)(fleet, g, t)]
    counted = v.bought(fleet, g, t) if cut.kind == "in-use" else v.firm(fleet, g, t)
    return [(c, 1.0) for c in counted if not (cut.by_hour and c in v.held(fleet, g))]


def used_offers_are_charged(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """Whoever uses an offer of several GPUs pays for the half box that rounding up will cost.

    sum_{r on g, covers w} pick[r] - charged[g] <= 0  for such offers g, workloads w, where boxes are rounded later  [-]
    """
    for g, charged in v.charged.items():
        by_workload: dict[str, list[tuple[int, float]]] = {}
        for r in fleet.recipes_on[g]:
            for w in fleet.recipes[r].workloads:
                by_workload.setdefault(w, []).append((v.pick[r], 1.0))
        for w, picks in by_workload.items():
            yield Row(("charged", g, w), [*picks, (charged, -1.0)], "<=", 0.0)
