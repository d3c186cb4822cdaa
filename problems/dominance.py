"""Leave out recipes that another one beats everywhere: same plans, a smaller problem.

A recipe is beaten when, for each of its servings, another recipe of its pool has a serving in that slot with
no more GPUs, no more firm GPUs and no more API cost, on the same offer, or on one whose GPUs are no dearer in
any way of buying them, come in boxes that fit into those of the first, and are not limited in number.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from problems.fleet import Fleet, Offer
from problems.recipes import Recipe


def without_beaten_recipes(fleet: Fleet) -> Fleet:
    """The same fleet problem with the same optimum. Of two equal recipes the first stays."""
    groups: dict[tuple[str, str | None], list[int]] = {}
    for r, recipe in enumerate(fleet.recipes):
        groups.setdefault((recipe.pool, recipe.api), []).append(r)
    beaten: set[int] = set()
    for members in groups.values():
        hosted = [r for r in members if fleet.recipes[r].self_hosted]
        for b in hosted:
            for a in hosted:
                if a == b or a in beaten:
                    continue
                if _beats(fleet, fleet.recipes[a], fleet.recipes[b]):
                    beaten.add(b)
                    break
    return replace(fleet, recipes=tuple(r for k, r in enumerate(fleet.recipes) if k not in beaten))


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


def _beats(fleet: Fleet, a: Recipe, b: Recipe) -> bool:
    assert a.offer is not None and b.offer is not None
    if not no_dearer(fleet.offers[a.offer], fleet.offers[b.offer], fleet.max_gpus):
        return False
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
