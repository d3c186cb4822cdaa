"""What another choice beats need not be considered: same optimum, fewer candidates.

A candidate or a choice of caching is dominated by one that needs no more of anything, however it may be used.
A mix is of one model variant, so what may be part of one gives way to another variant only if all that it could be
mixed with does; two of those that stay, on two offers, are not mixed where one other variant could replace both. Of two
equal ones the first stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from planner.candidates.candidate import Candidate
from planner.candidates.pools import PoolSpec
from planner.case.apis import cache_usd_per_h
from planner.case.case import Case
from planner.case.menu import allowed_offers
from planner.case.slots import Slot, rates_rps
from planner.catalog.entries import Offer
from problems.staffing import BURSTS, CAUTION, Routing, carries_no_less

SAME = 1e-12


@dataclass(frozen=True)
class Dominated:
    """Candidates of a pool by their place among all of them."""

    by: dict[int, Candidate]
    """those of no use, each with one that beats it"""
    alone: frozenset[int]
    """those of use in a mix only, as another variant beats them by themselves"""
    replaced_by: dict[int, frozenset[str]] = field(default_factory=dict)
    """other variants that have one which stays and is no worse in any mix"""


def dominated_variants(case: Case, found: Sequence[Candidate], offers: Iterable[Offer]) -> Dominated:
    """Find the dominated candidates among all that may serve a pool, listed once for each GPU."""
    gpu = np.array([" ".join([c.offer.gpu, *map(str, c.replica.tiers)]) for c in found])
    comparable = (gpu[:, None] == gpu) & _stands_where(found)
    alone, mixed = _no_worse(case, found, found, comparable, _sizes_in_zones(offers))
    no_worse = alone & mixed & _stands_for_two(found, found)
    variants, variant = _variants(found)
    mixes = np.array([c.staffing_in_a_mix is not None for c in found], dtype=bool)
    gives_way = _first_of_equals(_covers(no_worse, variant, variant, mixes, len(variants), len(variants)))
    one_by_one = (variant[:, None] == variant) | ~mixes
    beaten_by = np.where(one_by_one, _first_of_equals(no_worse), no_worse & gives_way[variant][:, variant])
    beaten = np.flatnonzero(beaten_by.any(axis=0)).tolist()
    serves_all = np.array([c.replica.serves_all for c in found], dtype=bool)
    beaten_alone = np.flatnonzero(_first_of_equals(alone).any(axis=0) & serves_all).tolist()
    by = {k: found[int(np.argmax(beaten_by[:, k]))] for k in beaten}
    stays = ~np.isin(np.arange(len(found)), beaten)
    better = _first_of_equals(mixed) & (variant[:, None] != variant) & stays[:, None]
    replaced_by = {k: frozenset(variants[variant[i]] for i in np.flatnonzero(better[:, k])) for k in range(len(found))}
    return Dominated(by, frozenset(beaten_alone) - by.keys(), replaced_by)


def _stands_where(found: Sequence[Candidate]) -> np.ndarray:
    """Whether one stands on every offer that another one may stand on [one, another].

    What spans several boxes stands on offers of that size alone; in one box, wherever it fits.
    """
    boxes = np.array([c.boxes for c in found])
    each = np.array([c.machine.gpus // c.boxes for c in found])
    apart = boxes > 1
    stands: np.ndarray = np.where(apart[:, None], apart & (each[:, None] == each), ~apart | (each[:, None] <= each))
    return stands


def _first_of_equals(no_worse: np.ndarray) -> np.ndarray:
    """Who beats whom: the better, and the first of two that are no worse than each other."""
    place = np.arange(len(no_worse))
    return no_worse & (~no_worse.T | (place[:, None] < place))


def beaten_options(
    case: Case, groups: list[PoolSpec], accepted: dict[str, tuple[Candidate, ...]], slots: tuple[Slot, ...]
) -> dict[str, PoolSpec]:
    """Find the dominated choices of caching of one workload, by their key."""
    beaten: dict[str, PoolSpec] = {}
    zoned = _sizes_in_zones(allowed_offers(case, groups[0].members).values())

    def beats(x: PoolSpec, y: PoolSpec) -> bool:
        return _cost_no_more(case, x, y, slots) and _serve_no_worse(case, accepted[x.key], accepted[y.key], zoned)

    for k, y in enumerate(groups):
        for j, x in enumerate(groups):
            if j != k and x.key not in beaten and beats(x, y) and (j < k or not beats(y, x)):
                beaten[y.key] = x
                break
    return beaten


def _cost_no_more(case: Case, x: PoolSpec, y: PoolSpec, slots: tuple[Slot, ...]) -> bool:
    """Whether the caches of x cost no more in any hour and leave no more requests; API prices are the same."""
    (w,), (option,), (other_option,), (seen,), (other,) = x.members, x.caching, y.caching, x.seen, y.seen
    pairs = [(cache_usd_per_h(case, w, option, slots), cache_usd_per_h(case, w, other_option, slots))]
    pairs.append((rates_rps(seen, slots), rates_rps(other, slots)))
    return all(_at_most(a, b).all() for a, b in pairs)


def _serve_no_worse(case: Case, some: Sequence[Candidate], others: Sequence[Candidate], zoned: set[int]) -> bool:
    """Whether instead of each of the others there is one of some on the same offer that needs no more of anything."""
    offer, other_offer = (np.array([c.offer_key for c in which]) for which in (some, others))
    alone, mixed = _no_worse(case, some, others, offer[:, None] == other_offer, zoned)
    no_worse = alone & mixed & _stands_for_two(some, others)
    (variants, variant), (other_variants, other_variant) = _variants(some), _variants(others)
    mixes = np.array([c.staffing_in_a_mix is not None for c in others], dtype=bool)
    covers = _covers(no_worse, variant, other_variant, mixes, len(variants), len(other_variants))
    return bool(no_worse.any(axis=0).all() and covers.any(axis=0).all())


def _stands_for_two(some: Sequence[Candidate], others: Sequence[Candidate]) -> np.ndarray:
    """Whether one may replace another whatever that is mixed with, itself too [some, others].

    Where both of a mix are replaced by the same one on one offer, it serves alone, and for that it serves all lengths.
    """
    serves_all = np.array([c.replica.serves_all for c in some], dtype=bool)
    mixes = np.array([c.staffing_in_a_mix is not None for c in others], dtype=bool)
    name, other = (np.array([c.replica_name for c in which], dtype=object) for which in (some, others))
    allowed: np.ndarray = serves_all[:, None] | ~mixes | (name[:, None] == other)
    return allowed


def _variants(found: Sequence[Candidate]) -> tuple[list[str], np.ndarray]:
    """Each once, and the one of each candidate by its place."""
    names = list(dict.fromkeys(c.variant for c in found))
    return names, np.array([names.index(c.variant) for c in found], dtype=int)


def _covers(
    no_worse: np.ndarray, variant: np.ndarray, other: np.ndarray, mixes: np.ndarray, variants: int, others: int
) -> np.ndarray:
    """Whether all that may be mixed of a variant could be that of another one instead [one, another]."""
    covers = np.zeros((variants, others), dtype=bool)
    for v in range(variants):
        replaced = no_worse[variant == v].any(axis=0) | ~mixes
        covers[v] = [replaced[other == o].all() for o in range(others)]
    return covers


def _no_worse(
    case: Case, some: Sequence[Candidate], others: Sequence[Candidate], comparable: np.ndarray, zoned: set[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Whether one needs no more of anything than another, whatever the load: alone, and in a mix [some, others].

    A replica that is no larger, no slower for any length and holds no fewer requests needs no more of everything. One
    that cannot serve a length never beats one that can.
    """
    if not some or not others:
        nothing = np.zeros((len(some), len(others)), dtype=bool)
        return nothing, nothing
    a, b = _Figures(some), _Figures(others)
    both = comparable & (a.gpus[:, None] <= b.gpus) & _at_most(a.seconds[:, None], b.seconds[None]).all(axis=2)
    scv = others[0].pool.traffic.arrival_scv
    faster = _times_as_fast(a.seconds, b.seconds) if scv <= BURSTS else 1.0
    alone = _at_most(b.batch, a.batch[:, None])
    alone &= _carries(a.max_utilization, b.max_utilization, a.routing, b.routing, faster, scv)
    alone &= _at_most(b.load_factors, a.load_factors[:, None]).all(axis=2)
    alone = both & (alone | ~b.serves_all)
    mixed = both & _at_most(b.batch_in_a_mix, a.batch_in_a_mix[:, None])
    mixed &= _at_most(b.load_factor_in_a_mix, a.load_factor_in_a_mix[:, None])
    mixed &= _carries(a.most_load_in_a_mix, b.most_load_in_a_mix, a.routing_in_a_mix, b.routing_in_a_mix, faster, scv)
    if "spot" in case.purchase and 0 < others[0].pool.critical_share < 1:
        firm = ~b.spot_allowed
        alone &= firm | (a.spot_allowed[:, None] & ((a.gpus[:, None] == b.gpus) | ~np.isin(b.gpus, list(zoned))))
        mixed &= firm | a.spot_allowed[:, None]
        for i, k in np.argwhere(mixed & ~firm & b.mixes).tolist():
            mixed[i, k] = _no_more_firm_in_a_mix(some[i], others[k])
    return alone, mixed


def _carries(
    load: np.ndarray, other: np.ndarray, routing: np.ndarray, others: np.ndarray, faster: np.ndarray | float, scv: float
) -> np.ndarray:
    """Whether TTFT lets replicas of one kind carry no less than those of another, whatever their number [some, others].

    The same requests are less of a load for one that is faster. It carries no less where its load limits are no lower,
    or where they are lower by no more than it is faster, however many there are: no limit is above 1.
    """
    no_lower = _at_most(other, load[:, None]) & carries_no_less(routing[:, :, None], others[:, None, :], scv)
    enough = (CAUTION * load[:, None] * faster >= 1) & (load[:, None] > 0)
    either: np.ndarray = no_lower | enough
    return either


def _times_as_fast(seconds: np.ndarray, others: np.ndarray) -> np.ndarray:
    """How many times as fast one is at least, over the lengths that the other one serves [some, others]."""
    with np.errstate(invalid="ignore"):
        times = np.where(np.isfinite(others)[None], others[None] / seconds[:, None], np.inf)
    fastest: np.ndarray = times.min(axis=2)
    return fastest


class _Figures:
    """What candidates are compared by; one that may not be mixed is worse than all that may."""

    def __init__(self, found: Sequence[Candidate]) -> None:
        replicas, mixed = [c.replica for c in found], [c.staffing_in_a_mix for c in found]
        self.spot_allowed = np.array([c.spot_allowed for c in found])
        self.mixes = np.array([s is not None for s in mixed])
        self.gpus = np.array([c.machine.gpus for c in found])
        self.load_factors = np.array([c.load_factors for c in found])
        self.seconds = np.array([r.seconds_per_request for r in replicas])
        self.serves_all = np.array([r.serves_all for r in replicas])
        self.batch = np.array([r.staffing_batch for r in replicas])
        self.max_utilization = np.array([c.max_utilization for c in found])
        self.routing = np.array([_figures_of(c.routing, c.max_utilization) for c in found]).T
        in_a_mix = [(s.routing, s.max_utilization) if s else (None, 0.0) for s in mixed]
        self.routing_in_a_mix = np.array([_figures_of(*s) for s in in_a_mix]).T
        self.load_factor_in_a_mix = np.array([s.load_factor if s else 0.0 for s in mixed])
        self.batch_in_a_mix = np.array([s.batch if s else 0.0 for s in mixed])
        self.most_load_in_a_mix = np.array([s.max_utilization if s else 0.0 for s in mixed])


def _figures_of(routing: Routing | None, alone: float) -> tuple[float, float, float, float]:
    """Work that may wait is compared by its mean load alone."""
    return routing.figures(alone) if routing else (alone, 0.0, 1.0, 1.0)


def _no_more_firm_in_a_mix(a: Candidate, b: Candidate) -> bool:
    """In a mix the firm replicas follow from what all of them may carry, so one that may carry more may need more."""
    one, other = a.staffing_in_a_mix, b.staffing_in_a_mix
    assert one is not None
    assert other is not None
    workload, critical = b.pool.members[0], b.pool.critical_share
    growth = max(workload.month_factors or (1.0, (1 + workload.growth_per_month_frac) ** 2))
    peak_rps = max(*workload.weekday_rps, *workload.weekend_rps) * growth
    servable = b.replica.serves
    load = peak_rps * float(b.replica.traffic.shares[servable] @ b.seconds_per_request[servable])
    counts = np.arange(other.min_replicas, int(other.replicas(np.array(load))) + 1)
    firm, other_firm = (s.replicas(critical * s.carried_load(counts)) for s in (one, other))
    return bool((firm <= other_firm).all())


def _sizes_in_zones(offers: Iterable[Offer]) -> set[int]:
    """Sizes of replicas that fill an instance which is sold as spot in several zones, which may pay for the size."""
    return {o.gpus for o in offers if o.spot_zones > 1 and o.prices.spot is not None}


def _at_most(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a <= b * (1 + SAME)
