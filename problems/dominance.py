"""Leave out recipes that another one beats everywhere: same optimum, a smaller problem.

A recipe is beaten when, for each of its servings, another recipe of its pool has a serving in that slot with
no more GPUs, no more firm GPUs and no more API cost, on the same offer, or on one whose GPUs are no dearer in
any way of buying them, come in boxes that fit into those of the first, and are not limited in number.

Pools may share a box or a commitment. So a recipe gives way to one on another offer only where its own offer
has nothing to share (bought GPU by GPU, hour by hour), or together with all other recipes on its offer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from problems.fleet import Fleet, Offer
from problems.recipes import Recipe


def without_beaten_recipes(fleet: Fleet) -> Fleet:
    """The same fleet problem with the same optimum. Of two equal recipes the first stays."""
    alive = set(range(len(fleet.recipes)))
    rivals: dict[tuple[str, str | None, str | None], list[int]] = {}
    for r, recipe in enumerate(fleet.recipes):
        rivals.setdefault((recipe.pool, recipe.api, recipe.offer), []).append(r)

    def beaten_on(b: int, offer: str) -> bool:
        recipe = fleet.recipes[b]
        others = rivals.get((recipe.pool, recipe.api, offer), [])
        return any(a != b and a in alive and _beats(fleet.recipes[a], recipe) for a in others)

    offers = sorted(fleet.recipes_on)
    no_dearer_than = {
        b: [a for a in offers if a != b and no_dearer(fleet.offers[a], fleet.offers[b], fleet.max_gpus)] for b in offers
    }
    for b, recipe in enumerate(fleet.recipes):
        if recipe.offer is not None:
            own = fleet.offers[recipe.offer]
            nothing_shared = own.box == 1 and not own.reserved_usd_per_h
            elsewhere = no_dearer_than[recipe.offer] if nothing_shared else []
            if any(beaten_on(b, a) for a in (recipe.offer, *elsewhere)):
                alive.discard(b)
    for offer in offers:
        together = [r for r in fleet.recipes_on[offer] if r in alive]
        if any(all(beaten_on(b, a) for b in together) for a in no_dearer_than[offer]):
            alive.difference_update(together)
    return replace(fleet, recipes=tuple(fleet.recipes[r] for r in sorted(alive)))


def no_dearer(a: Offer, b: Offer, max_gpus: dict[str, int]) -> bool:
    """Whether every GPU bought of offer b could be bought of offer a for no more, in every way."""
    if a.key == b.key:
        return True
    if a.max_instances is not None or a.gpu in max_gpus or b.box % a.box:
        return False

    def per_gpu(price: float | None, box: int) -> float:
        return np.inf if price is None else price / box

    ways = [(a.on_demand_usd_per_h, b.on_demand_usd_per_h), (a.spot_usd_per_h, b.spot_usd_per_h)]
    terms = set(a.reserved_usd_per_h) | set(b.reserved_usd_per_h)
    ways += [(a.reserved_usd_per_h.get(k), b.reserved_usd_per_h.get(k)) for k in sorted(terms)]
    return all(per_gpu(x, a.box) <= per_gpu(y, b.box) * (1 + 1e-12) for x, y in ways)


def _beats(a: Recipe, b: Recipe) -> bool:
    """Whether each serving of b has one of a in its slot that needs no more of anything."""
    most = int(max(a.gpus.max(initial=0), b.gpus.max(initial=0))) + 1
    order = np.argsort(a.slot * most + a.gpus, kind="stable")
    keys = (a.slot * most + a.gpus)[order]
    at = np.searchsorted(keys, b.slot * most + b.gpus, side="right") - 1
    if (at < 0).any():
        return False
    match = order[at]
    return bool(
        (a.slot[match] == b.slot).all()
        and (a.firm_gpus[match] <= b.firm_gpus).all()
        and (a.api_usd_per_h[match] <= b.api_usd_per_h * (1 + 1e-12)).all()
    )
