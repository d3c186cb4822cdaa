"""Leave out dominated recipes: same optimum, a smaller problem.

A recipe is dominated when, for each of its servings, another recipe of its pool has a serving in that slot with
no more GPUs, no more firm GPUs, no more other cost and no larger penalty, on the same offer, or on one whose GPUs are
no more expensive in any way of buying them, come in boxes that fit into those of the first, start no later, and are not
limited in number or kind.

Pools may share a box, a commitment, or an instance that runs on from one slot to the next and is not started again. So
a recipe gives way to one on another offer only where its own offer has nothing to share (bought GPU by GPU, hour by
hour, and there at once), or together with all other recipes on its offer. Mixes are written down later and share what
is there, so an offer that may be part of one keeps its recipes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from problems.dominance.offers import asks_no_more, no_way_costs_more, runs_more_at_least
from problems.fleet_problem import FleetProblem
from problems.recipes.recipe import Recipe


def without_dominated_recipes(fleet: FleetProblem) -> FleetProblem:
    """The fleet problem without dominated recipes; the optimum is the same. The first of two equal recipes stays."""
    plain = {r: recipe.uses[0].offer for r, recipe in enumerate(fleet.recipes) if _is_plain(recipe)}
    alive = set(range(len(fleet.recipes)))
    rivals: dict[tuple[str, str | None, str], list[int]] = {}
    for r, offer in plain.items():
        rivals.setdefault((fleet.recipes[r].pool, fleet.recipes[r].api, offer), []).append(r)

    def dominated_on(b: int, offer: str) -> bool:
        recipe = fleet.recipes[b]
        others = rivals.get((recipe.pool, recipe.api, offer), [])
        in_the_way = offer in fleet.most_of_a_box  # a replica that is larger may leave more of a box empty
        spread = max(fleet.offers[offer].fewest, fleet.offers[offer].fewest_firm) > 1  # and then sizes matter

        def fits_as_well(a: int) -> bool:
            size, own = (fleet.recipes[r].uses[0].gpus_per_replica for r in (a, b))
            return size == own if spread else not in_the_way or size <= own

        return any(a != b and a in alive and fits_as_well(a) and _beats_whole(fleet.recipes[a], recipe) for a in others)

    offers = sorted(fleet.recipes_on)
    no_more_expensive_than = {b: [a for a in offers if a != b and no_more_expensive(fleet, a, b)] for b in offers}
    for b, offer in plain.items():
        elsewhere = no_more_expensive_than[offer] if _nothing_is_shared(fleet, offer) else []
        if any(dominated_on(b, a) for a in (offer, *elsewhere)):
            alive.discard(b)
    mixed = offers_of_mixes(fleet)
    for offer in offers:
        if offer in mixed:
            continue
        together = [r for r in fleet.recipes_on[offer] if r in alive]
        if all(r in plain for r in together) and any(
            all(dominated_on(b, a) for b in together) for a in no_more_expensive_than[offer]
        ):
            alive.difference_update(together)
    return replace(fleet, recipes=tuple(fleet.recipes[r] for r in sorted(alive)))


def offers_of_mixes(fleet: FleetProblem) -> set[str]:
    """Offers that mixes may use, which are written down while the problem is solved."""
    offers: set[str] = set()
    for pool in fleet.pools.values():
        if pool.max_deployments < 2 or pool.window is not None:
            continue
        by_variant: dict[str, list[str]] = {}
        for d in pool.deployments:
            if d.staffing_in_a_mix is not None and fleet.offers[d.offer].to_be_had:
                by_variant.setdefault(d.variant, []).append(d.offer)
        offers.update(offer for several in by_variant.values() if len(several) > 1 for offer in several)
    return offers


def _nothing_is_shared(fleet: FleetProblem, offer: str) -> bool:
    """Whether a recipe that leaves an offer saves all that its GPUs cost there, whatever others do."""
    own = fleet.offers[offer]
    return own.box == 1 and not own.reserved_usd_per_h and not own.on_hand and not fleet.starts_late(offer)


def _is_plain(recipe: Recipe) -> bool:
    """One deployment, and nothing that ties its slots together."""
    return len(recipe.uses) == 1 and recipe.deferral is None


def no_more_expensive(fleet: FleetProblem, first: str, second: str) -> bool:
    """Whether every GPU bought of the second offer could be bought of the first for no more, in every way."""
    a, b = fleet.offers[first], fleet.offers[second]
    if a.key == b.key:
        return True
    if a.max_instances is not None or a.gpu in fleet.max_gpus or b.box % a.box or a.start_h > b.start_h or b.on_hand:
        return False
    if runs_more_at_least(a, b) or (fleet.max_gpu_types is not None and a.gpu != b.gpu):
        return False
    if first in fleet.most_of_a_box or not asks_no_more(fleet, first, second):
        return False
    ways = [(a.on_demand_usd_per_h, b.on_demand_usd_per_h), (a.spot_usd_per_h, b.spot_usd_per_h)]
    terms = set(a.reserved_usd_per_h) | set(b.reserved_usd_per_h)
    ways += [(a.reserved_usd_per_h.get(k), b.reserved_usd_per_h.get(k)) for k in sorted(terms)]
    return no_way_costs_more(ways, a.box, b.box)


def _beats_whole(a: Recipe, b: Recipe) -> bool:
    """Whether it dominates the servings of the other, and what might be between them."""
    return _beats(a, b) and (b.between is None or _beats(a, b.between))


def _beats(a: Recipe, b: Recipe) -> bool:
    """Whether each serving of b has one of a in its slot that needs no more of anything."""
    mine, theirs = a.uses[0], b.uses[0]
    most = int(max(mine.gpus.max(initial=0), theirs.gpus.max(initial=0))) + 1
    for shed in (0.0, 1.0):
        ours, others = np.flatnonzero(a.shed_frac == shed), np.flatnonzero(b.shed_frac == shed)
        order = ours[np.argsort(a.slot[ours] * most + mine.gpus[ours], kind="stable")]
        keys = a.slot[order] * most + mine.gpus[order]
        at = np.searchsorted(keys, b.slot[others] * most + theirs.gpus[others], side="right") - 1
        if (at < 0).any():
            return False
        match = order[at]
        if not (
            (a.slot[match] == b.slot[others]).all()
            and (mine.firm_gpus[match] <= theirs.firm_gpus[others]).all()
            and (a.usd_per_h[match] <= b.usd_per_h[others] * (1 + 1e-12)).all()
            and (a.penalty_usd_per_h[match] <= b.penalty_usd_per_h[others] * (1 + 1e-12)).all()
        ):
            return False
    return True
