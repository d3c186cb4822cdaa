"""Tiny fleets of many replicas, mixes of three and deadlines: random ones from a seed.

Few slots and workloads, so that every count can be tried (`exhaustive.least_objective`); quotas at, between and below
the counts that are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from problems.fleet_problem import Offer
from problems.recipes.pools import Api, Deployment, Pool
from problems.staffing import Staffing
from tests.oracle.rules import replicas_for
from tests.support.fleets import Case

HOURS = 730.0


@dataclass(frozen=True)
class Menu:
    """The same demand with less to choose from."""

    without: str
    case: Case


def deadline_case(seed: int) -> Case:
    """Work of more than sixty replicas that may wait: all month, for the next slot, or within its own day."""
    rng = np.random.default_rng([seed, 411])
    slots = int(rng.choice([2, 3, 4], p=[0.55, 0.3, 0.15]))
    several = 2 if slots == 2 and rng.random() < 0.5 else 1
    window = _window(rng, slots)
    high = 75.0 if several == 2 else {2: 200.0, 3: 60.0 if not window.all() else 90.0, 4: 50.0}[slots]
    offers = _offers(rng, int(rng.integers(1, 4)), reserved=several == 1)
    hours = _hours(rng, slots)
    pools = [_waiting(rng, f"w{k}", offers, window, rng.uniform(0.4, 1.0, slots) * high) for k in range(several)]
    if several == 2 and rng.random() < 0.3:
        pools[1] = _overflowing(rng, "w1", offers, rng.uniform(0.3, 1.0, slots) * high)
    return _limited(rng, Case(tuple(pools), offers, hours, np.zeros(slots, dtype=int)))


def overflow_case(seed: int) -> Case:
    """Sixty to four hundred replicas, some of whose requests may go to an API or to nobody."""
    rng = np.random.default_rng([seed, 412])
    slots, several = int(rng.integers(1, 4)), int(rng.choice([1, 2], p=[0.6, 0.4]))
    high = 400.0 if several == 1 else 140.0
    offers = _offers(rng, int(rng.integers(1, 4)), reserved=several == 1 or rng.random() < 0.3)
    pools = [
        _overflowing(rng, f"w{k}", offers, rng.uniform(0.2, 1.0, slots) * float(rng.uniform(70.0, high)))
        for k in range(several)
    ]
    return _limited(rng, Case(tuple(pools), offers, _hours(rng, slots), np.zeros(slots, dtype=int)))


def mix_case(seed: int) -> Case:
    """Three deployments of one variant, or four, of which up to three serve together; now and then many replicas."""
    rng = np.random.default_rng([seed, 413])
    several = int(rng.choice([1, 2], p=[0.65, 0.35]))
    large = several == 1 and rng.random() < 0.15
    slots = 1 if large else int(rng.integers(1, 4 if several == 1 else 3))
    offers = _offers(rng, int(rng.integers(3, 5)), boxes=(1, 1, 1, 2, 4), reserved=not large and rng.random() < 0.4)
    many = 3 if several == 2 or large else int(rng.integers(3, 5))
    high = 65.0 if large else 11.0 if several == 1 else 3.4
    pools = [
        _mixed(rng, f"w{k}", offers, rng.uniform(0.4, 1.0, slots) * high, many, buckets=2 if large else None)
        for k in range(several)
    ]
    case = Case(tuple(pools), offers, _hours(rng, slots), np.zeros(slots, dtype=int))
    return _limited(rng, case, often=0.5)


CLASSES: dict[str, tuple[str, Callable[[int], Case]]] = {
    "deadlines": ("work that may wait, above 60 replicas, quotas between counts", deadline_case),
    "overflow": ("60 to 400 replicas, the rest to an API or to nobody, quotas between counts", overflow_case),
    "mixes": ("mixes of up to three deployments by length of request", mix_case),
}


def at_most(case: Case, deployments: int) -> Case:
    """The case where no more deployments serve a workload together."""
    return replace(
        case, pools=tuple(replace(p, max_deployments=min(p.max_deployments, deployments)) for p in case.pools)
    )


def narrower(case: Case, seed: int) -> list[Menu]:
    """Menus with less on them: one deployment together less, and without some offer, API or deployment."""
    rng = np.random.default_rng([seed, 415])
    most = max(pool.max_deployments for pool in case.pools)
    menus = [Menu(f"{most} deployments together", at_most(case, most - 1))] if most > 1 else []
    offers = sorted({d.offer for pool in case.pools for d in pool.deployments})
    apis = sorted({api.key for pool in case.pools for api in pool.apis})
    some = str(rng.choice([*(f"offer {g}" for g in offers), *(f"API {a}" for a in apis)]))
    what, key = some.split(" ")
    pools = tuple(
        replace(
            pool,
            deployments=tuple(d for d in pool.deployments if what == "API" or d.offer != key),
            apis=tuple(api for api in pool.apis if what == "offer" or api.key != key),
        )
        for pool in case.pools
    )
    return [*menus, Menu(some, replace(case, pools=pools))]


def _hours(rng: np.random.Generator, slots: int) -> np.ndarray:
    share = rng.uniform(0.3, 1.0, slots)
    return HOURS * share / share.sum()


def _window(rng: np.random.Generator, slots: int) -> np.ndarray:
    """All slots; the own and the next, round and round; or those of the own day, where there are two days."""
    whole = np.ones((slots, slots), dtype=bool)
    if slots == 2:
        return whole if rng.random() < 0.9 else np.eye(2, dtype=bool)
    if slots == 3:
        return whole if rng.random() < 0.5 else np.eye(3, dtype=bool) | np.roll(np.eye(3, dtype=bool), 1, axis=1)
    day = np.arange(4) // 2
    return whole if rng.random() < 0.5 else day[:, None] == day[None, :]


def _offers(
    rng: np.random.Generator,
    many: int,
    boxes: tuple[int, ...] = (1, 1, 2, 8),
    reserved: bool = True,
    spot: bool = True,
) -> dict[str, Offer]:
    """Prices per GPU near 1 USD/h, some of them next to nothing apart; any way to buy may be missing."""
    offers = {}
    for k in range(many):
        box = int(rng.choice(boxes))
        usd = box * float(rng.choice([1.0, rng.uniform(0.7, 1.6)]))
        committed = {"1y": usd * float(rng.uniform(0.5, 0.9))} if reserved and box > 1 and rng.random() < 0.4 else {}
        by_spot = usd * float(rng.uniform(0.3, 1.05)) if spot and rng.random() < 0.5 else None
        on_demand = None if (by_spot or committed) and rng.random() < 0.15 else usd
        offers[f"g{k}"] = Offer(f"g{k}", str(rng.choice(["x", "y"])), box, on_demand, by_spot, committed)
    return offers


def _staffing(rng: np.random.Generator) -> Staffing:
    return Staffing(
        z=float(rng.choice([0.0, 0.0, 1.0, 1.645])),
        arrival_scv=float(rng.choice([0.5, 1.0, 4.0])),
        rate_cv=float(rng.choice([0.0, 0.1, 0.3])),
        batch=float(rng.choice([8, 64])),
        min_replicas=int(rng.choice([1, 1, 2, 3])),
        max_utilization=float(rng.choice([1.0, 1.0, 0.8])),
    )


def _deployment(
    rng: np.random.Generator, key: str, offers: dict[str, Offer], seconds: np.ndarray, offer: str | None = None
) -> Deployment:
    g = offers[offer or str(rng.choice(sorted(offers)))]
    gpus = int(rng.choice([n for n in (1, 1, 2, 8) if g.box % n == 0]))
    speed = rng.uniform(0.8, 1.3, len(seconds)) / gpus**0.9
    return Deployment(key, g.key, gpus, seconds * speed, _staffing(rng))


def _apis(rng: np.random.Generator, seconds: np.ndarray, often: float) -> tuple[Api, ...]:
    """Prices near those of the GPUs."""
    many = int(rng.random() < often) + int(rng.random() < often / 3)
    return tuple(Api(f"a{k}", seconds * rng.uniform(0.6, 2.2, len(seconds)) / 3600) for k in range(many))


def _waiting(
    rng: np.random.Generator, key: str, offers: dict[str, Offer], window: np.ndarray, load: np.ndarray
) -> Pool:
    buckets = int(rng.integers(1, 3))
    seconds = rng.uniform(0.3, 1.5, buckets)
    lengths = rng.dirichlet(np.ones(buckets) * 3)
    deployments = [_deployment(rng, f"{key} d{k}", offers, seconds) for k in range(int(rng.integers(1, 3)))]
    if rng.random() < 0.5:
        deployments = [replace(d, staffing=replace(d.staffing, z=0.0, min_replicas=1)) for d in deployments]
    return Pool(
        key, (key,), load[:, None] * lengths / seconds, float(rng.choice([0.0, 0.3, 0.6, 1.0])),
        bool(rng.random() < 0.7), tuple(deployments), _apis(rng, seconds, 0.45), window=window,
    )  # fmt: skip


def _overflowing(
    rng: np.random.Generator,
    key: str,
    offers: dict[str, Offer],
    load: np.ndarray,
    shed: bool = True,
    buckets: int | None = None,
) -> Pool:
    buckets = buckets or int(rng.integers(1, 4))
    seconds = rng.uniform(0.3, 1.5, buckets)
    rates = load[:, None] * rng.dirichlet(np.ones(buckets) * 3, len(load)) / seconds
    deployments = tuple(_deployment(rng, f"{key} d{k}", offers, seconds) for k in range(int(rng.integers(1, 3))))
    turned_away = shed and rng.random() < 0.35
    return Pool(
        key, (key,), rates, float(rng.choice([0.0, 0.3, 0.6, 1.0])), bool(rng.random() < 0.7), deployments,
        _apis(rng, seconds, 0.55 if turned_away else 0.9),
        shed_usd_per_request=seconds * rng.uniform(0.8, 4.0, buckets) / 3600 if turned_away else None,
    )  # fmt: skip


def _mixed(
    rng: np.random.Generator,
    key: str,
    offers: dict[str, Offer],
    load: np.ndarray,
    many: int,
    buckets: int | None = None,
    partial: bool = True,
    shed: bool = True,
) -> Pool:
    """Deployments each of which is good at some lengths; a few cannot serve one of them."""
    buckets = buckets or int(rng.choice([2, 3, 3]))
    seconds = rng.uniform(0.3, 1.5, buckets)
    rates = load[:, None] * rng.dirichlet(np.ones(buckets) * 3, len(load)) / seconds
    deployments = []
    for k in range(many):
        d = _deployment(rng, f"{key} d{k}", offers, seconds, sorted(offers)[k % len(offers)])
        strong = np.where(np.arange(buckets) == k % buckets, 0.4, 1.6)
        strong = strong if buckets > 1 and rng.random() < 0.9 else np.ones(buckets)
        each = d.seconds_per_request * strong
        if partial and rng.random() < 0.2:
            each = each.copy()
            each[int(rng.integers(buckets))] = np.inf
        rule = replace(d.staffing, min_replicas=int(rng.choice([1, 1, 1, 2])))
        worst = replace(rule, batch=rule.batch / 2, max_utilization=rule.max_utilization * float(rng.uniform(0.85, 1)))
        variant = "other" if many > 3 and rng.random() < 0.1 else ""
        deployments.append(
            replace(d, seconds_per_request=each, staffing=rule, staffing_in_a_mix=worst, variant=variant)
        )
    return Pool(
        key, (key,), rates, float(rng.choice([0.0, 0.3, 0.6, 1.0])), bool(rng.random() < 0.7), tuple(deployments),
        _apis(rng, seconds, 0.5), max_deployments=int(rng.choice([2, 3, 3])),
        shed_usd_per_request=seconds * rng.uniform(1.0, 5.0, buckets) / 3600 if shed and rng.random() < 0.15 else None,
    )  # fmt: skip


def _limited(rng: np.random.Generator, case: Case, often: float = 0.6) -> Case:
    """Quotas near what the mean load needs: at a count, between two, or below."""
    offers, needed = dict(case.offers), dict.fromkeys(case.offers, 0)
    for pool in case.pools:
        for d in pool.deployments:
            seconds = np.where(np.isfinite(d.seconds_per_request), d.seconds_per_request, 0.0)
            mean = float(case.slot_hours @ pool.rate_rps @ seconds) / HOURS
            needed[d.offer] = max(needed[d.offer], replicas_for(d.staffing, mean) * d.gpus_per_replica)
    needed = {g: gpus for g, gpus in needed.items() if gpus}

    def quota(gpus: int, box: int) -> int:
        factor = float(rng.choice([1.0, 1.0, rng.uniform(0.5, 1.0), rng.uniform(1.0, 1.5)]))
        return max(1, int(np.ceil(gpus * factor / box)) + (int(rng.integers(0, 3)) if factor == 1.0 else 0))

    for g, gpus in needed.items():
        if rng.random() < often:
            offers[g] = replace(offers[g], max_instances=quota(gpus, offers[g].box))
    max_gpus = {}
    if rng.random() < often / 2:
        gpu = str(rng.choice(sorted({offers[g].gpu for g in needed})))
        max_gpus = {gpu: quota(max(gpus for g, gpus in needed.items() if offers[g].gpu == gpu), 1)}
    return replace(case, offers=offers, max_gpus=max_gpus)
