"""Tiny fleets with rules about vendors: fixed costs and limits near what a second one saves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from problems.recipes.vendors import Vendor, Vendors
from tests.oracle.cases import lever_case
from tests.oracle.shared_offers import shared_case
from tests.support.fleets import Case


def vendor_case(seed: int) -> Case:
    """Any tiny case, its offers and APIs divided among a few vendors; the same for the same seed."""
    rng = np.random.default_rng([seed, 5])
    case = lever_case(seed).case if rng.random() < 0.7 else shared_case(seed)
    return replace(case, vendors=_rules(rng, case))


def _rules(rng: np.random.Generator, case: Case) -> Vendors:
    kinds = {kind for kind in ("provider", "region", "api") if rng.random() < 0.7} or {"api"}
    of_offer: dict[str, tuple[Vendor, ...]] = {}
    for g in sorted(case.offers):
        provider = str(rng.choice(["p", "q"]))
        places = (("provider", provider), ("region", f"{provider} {rng.choice(['east', 'west'])}"))
        of_offer[g] = tuple(place for place in places if place[0] in kinds)
    apis = sorted({api.key for pool in case.pools for api in pool.apis})
    of_api: dict[str, tuple[Vendor, ...]] = {
        key: (("api", str(rng.choice(["x", "y"]))),) for key in apis if "api" in kinds
    }
    every = sorted({v for several in (*of_offer.values(), *of_api.values()) for v in several})
    return Vendors(
        of_offer=of_offer,
        of_api=of_api,
        usd_per_month={v: float(rng.choice([20, 100, 400, 1500])) for v in every if rng.random() < 0.7},
        at_most={kind: int(rng.integers(kind == "provider", 2)) for kind in sorted(kinds) if rng.random() < 0.4},
    )
