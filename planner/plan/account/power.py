"""Power, energy and carbon: of the boxes that are there, the GPUs that replicas use, and the sites they stand at."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planner.candidates.power import ReplicaPower, replica_power
from planner.case.apis import tokens_of
from planner.case.case import Case
from planner.case.menu import held_instances
from planner.case.power import CasePower, GpuPower, place_of, site_of
from planner.performance.power import PowerLaw
from planner.plan.account.flows import Flows, Together
from planner.plan.plan import PlacePower, PowerPlan

J_PER_KWH, W_PER_KW = 3.6e6, 1e3


def power_of(account: Flows) -> PowerPlan | None:
    """None where nothing is hosted, or the case knows nothing of power."""
    power, offers = account.case.power, _offers(account)
    if power is None or not offers:
        return None
    known = {key for key in offers if account.case.offers[key].gpu in power.gpus}
    places: dict[str, list[str]] = {}
    for key in sorted(known):
        places.setdefault(place_of(account.case.offers[key]), []).append(key)
    drawn = {key: kw_of(account, power, key) for key in known}
    found = tuple(_place(account, power, name, keys, drawn) for name, keys in sorted(places.items()))
    kw = sum(drawn.values(), np.zeros(len(account.slots)))
    rated = sum((rated_kw_of(account, power, key) for key in known), np.zeros(len(account.slots)))
    kwh, tokens = account.a_month(kw), tokens_of_gpus(account)
    gpus = {account.case.offers[key].gpu for key in known}
    return PowerPlan(
        peak_kw=float(kw.max()),
        peak_slot=int(np.argmax(kw)),
        rated_kw=float(rated.max()),
        kwh_per_month=kwh,
        co2_kg_per_month=sum(place.co2_kg_per_month for place in found),
        rated_co2_kg_per_month=max(rated_co2_kg_by_month(account, power)),
        joules_per_token=kwh * J_PER_KWH / tokens if tokens and len(known) == len(offers) else None,
        error_frac=max((power.gpus[gpu].error_frac for gpu in gpus), default=0.0),
        not_known=tuple(sorted({account.case.offers[key].gpu for key in offers} - gpus)),
        places=found,
    )


def _place(account: Flows, power: CasePower, name: str, keys: list[str], drawn: dict[str, np.ndarray]) -> PlacePower:
    site, kw = site_of(power, account.case.offers[keys[0]]), sum((drawn[k] for k in keys), np.zeros(len(account.slots)))
    kwh = account.a_month(kw)
    return PlacePower(
        place=name,
        peak_kw=float(kw.max()),
        kwh_per_month=kwh,
        co2_kg_per_month=kwh * site.grid_g_per_kwh / 1e3,
        pue=site.pue,
        grid_g_per_kwh=site.grid_g_per_kwh,
        doubt=site.doubt,
        source=site.source,
    )


def _offers(account: Flows) -> list[str]:
    """Offers of which instances are there in some hour, in the order of the case."""
    return [key for key in account.case.offers if boxes_there(account, key).any()]


def boxes_there(account: Flows, offer: str) -> np.ndarray:
    """Instances of an offer that are there, held ones on which nothing runs included [slot]"""
    counts = [np.array(p.instances_by_slot) for p in account.decided.purchases if p.offer == offer]
    if counts:
        return np.asarray(sum(counts))
    return np.full(len(account.slots), held_instances(account.case, offer))


def gpus_in_use(account: Flows, offer: str) -> np.ndarray:
    """[slot]"""
    used = [np.array(d.replicas_by_slot) * d.gpus_per_replica for _, _, d in account.hosted if d.offer == offer]
    return np.asarray(sum(used, np.zeros(len(account.slots), dtype=int)))


def kw_of(account: Flows, power: CasePower, key: str) -> np.ndarray:
    """What the site draws for the instances of an offer [slot]

    A box is on while it is paid for. A replica that is busy for a share of the hour draws, in line with that share,
    between what it does with one request in flight and what it does at its planned load.
    """
    offer, gpu = account.case.offers[key], power.gpus[account.case.offers[key].gpu]
    boxes = boxes_there(account, key) * offer.gpus
    watts = boxes * gpu.host_w + (boxes - gpus_in_use(account, key)) * gpu.idle_w
    for pool, k, d in account.hosted:
        if d.offer == key:
            drawn = _replica_power(account, gpu, pool, k)
            replicas, load = np.array(d.replicas_by_slot), account.load(pool, k)
            each = d.gpus_per_replica * gpu.tdp_w
            watts = watts + each * (replicas * drawn.lone + np.minimum(load, replicas) * (drawn.full - drawn.lone))
    return np.asarray(site_of(power, offer).pue * watts / W_PER_KW)


def _replica_power(account: Flows, gpu: GpuPower, pool: Together, k: int) -> ReplicaPower:
    law = PowerLaw(gpu.waiting_frac, gpu.reading_frac, gpu.computing_frac, gpu.most_frac)
    return replica_power(law, account.replica(pool, k))


def rated_kw_of(account: Flows, power: CasePower, key: str) -> np.ndarray:
    """The same with every GPU that a replica uses at the most it can draw: what a limit counts [slot]"""
    offer, gpu = account.case.offers[key], power.gpus[account.case.offers[key].gpu]
    used = gpus_in_use(account, key)
    boxes = boxes_there(account, key) * offer.gpus
    watts = boxes * (gpu.host_w + gpu.idle_w) + used * (gpu.most_w - gpu.idle_w)
    return np.asarray(site_of(power, offer).pue * watts / W_PER_KW)


def one_more_kw(case: Case, power: CasePower, key: str) -> float:
    """What one more box of an offer draws with all of its GPUs in use, as a limit counts it."""
    offer = case.offers[key]
    gpu = power.gpus[offer.gpu]
    return site_of(power, offer).pue * offer.gpus * (gpu.host_w + gpu.most_w) / W_PER_KW


def rated_co2_kg_by_month(account: Flows, power: CasePower) -> list[float]:
    """With every GPU that a replica uses at the most it can draw, in each month."""
    return [sum(kg, 0.0) for kg in zip(*_rated_kg(account, power), strict=True)] or [0.0] * account.months


def _rated_kg(account: Flows, power: CasePower) -> Iterator[list[float]]:
    hours = np.array([s.hours_per_month for s in account.slots])
    weight = np.array([m.weight for m in account.case.months]) if account.case.months else np.ones(account.months)
    for key in _offers(account):
        if account.case.offers[key].gpu in power.gpus:
            kg = site_of(power, account.case.offers[key]).grid_g_per_kwh / 1e3 * rated_kw_of(account, power, key)
            yield (np.bincount(account.month_of, hours * kg, account.months) / weight).tolist()


def tokens_of_gpus(account: Flows) -> float:
    """Of the requests that GPUs answer, in a month."""
    return float(sum(tokens_of(s.w, 3600 * account.hours @ s.kept) for s in account.served))
