"""Tiny fleets with a savings plan or provisioned units, and their optimum by trying everything, hour by hour.

One length of requests, instances of one GPU, no mixes; one offer has a commitment, one has spot. In an hour the
provider covers what it saves the largest share of first. Months may differ, and each may have to keep to a budget.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from problems.allowance import Allowance, Item
from problems.recipes.pools import Pool
from problems.staffing import Staffing
from tests.oracle.rules import max_utilization, replicas_for
from tests.oracle.two_months import random_parts
from tests.support.fleets import Case

RULE = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=16.0, min_replicas=1)
HOURS = 730.0


def dollar_case(seed: int) -> Case:
    """Two to three slots; a savings plan over some of the offers, of which some is held now and then."""
    rng = np.random.default_rng([seed, 21])
    slots = int(rng.integers(2, 4))
    offers, _, pools = random_parts(rng, slots, most_rps=2.6)
    usd = {g: float(offer.on_demand_usd_per_h or 0.0) for g, offer in offers.items()}
    offers["g0"] = replace(offers["g0"], reserved_usd_per_h={"1y": usd["g0"] * rng.uniform(0.55, 0.8)})
    offers["g1"] = replace(offers["g1"], spot_usd_per_h=usd["g1"] * rng.uniform(0.5, 0.9))
    takes: dict[Item, float] = {g: usd[g] * rng.uniform(0.5, 0.85) for g in offers if rng.random() < 0.75}
    plan = Allowance("plan", 1.0, takes or {"g1": 0.6 * usd["g1"]})
    if rng.random() < 0.2:
        plan = replace(plan, held=float(rng.uniform(0.3, 1.5)), usd_per_h=0.0)
    elif rng.random() < 0.2:
        plan = replace(plan, most=float(rng.uniform(0.3, 1.5)))
    pools = [replace(pool, spot_allowed=True, critical_share=0.0) for pool in pools]
    return Case(tuple(pools), offers, _hours(rng, slots), np.zeros(slots, dtype=int), allowances=(plan,))


def units_case(seed: int) -> Case:
    """Provisioned units of an API: a first step, then others, and what they cannot take is paid for by the token."""
    rng = np.random.default_rng([seed, 22])
    slots = int(rng.integers(2, 4))
    offers, apis, pools = random_parts(rng, slots, most_rps=2.2)
    pools = [replace(pool, apis=tuple(apis)) for pool in pools]
    takes: dict[Item, float] = {(pool.key, "a0"): float(rng.uniform(0.5, 2.0)) for pool in pools}
    dollars = max(3600 * float(pool.rate_rps.max() * apis[0].usd_per_request[0]) for pool in pools)
    step = dollars * rng.uniform(0.1, 0.5)
    units = Allowance(
        "units",
        usd_per_h=float(rng.uniform(0.3, 0.9)),
        takes=takes,
        covers=float(rng.uniform(0.8, 1.6)),
        fewest=step * int(rng.integers(0, 4)),
        step=step,
    )
    if rng.random() < 0.2:
        units = replace(units, held=0.6 * step, usd_per_h=0.0)
    return Case(tuple(pools), offers, _hours(rng, slots), np.zeros(slots, dtype=int), allowances=(units,))


def monthly_case(kind: str, seed: int) -> Case:
    """Two or three months of growing or falling demand, none of which may cost more than a budget.

    The budget is mostly between what the dearest month costs at least and what it costs in the cheapest plan.
    """
    rng = np.random.default_rng([seed, 24])
    case = dollar_case(seed) if kind == "dollars" else units_case(seed)
    slots, months = len(case.slot_hours), int(rng.integers(2, 4)) if len(case.slot_hours) > 2 else 2
    month = np.sort(np.r_[np.arange(months), rng.integers(0, months, slots - months)])
    growth = float(rng.uniform(0.6, 2.0)) ** month[:, None]
    pools = tuple(
        replace(p, rate_rps=p.rate_rps * growth / growth.max())
        for p in case.pools[: 1 + (kind == "units" and seed % 2)]
    )
    share = rng.uniform(0.2, 1.0, slots)
    hours = HOURS * share / np.bincount(month, share)[month]
    takes = {item: n for item, n in case.allowances[0].takes.items() if not isinstance(item, tuple) or item[0] == "w0"}
    allowances = (replace(case.allowances[0], takes=takes),) if len(pools) == 1 else case.allowances
    case = replace(case, pools=pools, slot_hours=hours, slot_month=month, allowances=allowances)
    plans = list(each_plan(case))
    if not plans:
        return case
    dearest, least = min(plans, key=np.mean).max(), min(plan.max() for plan in plans)
    return replace(case, budget_usd_per_month=float(least + rng.uniform(-0.2, 1.05) * (dearest - least)))


def lapsing_case(kind: str, seed: int) -> Case:
    """One month of which some hours are before what is held lapses, or after it begins."""
    rng = np.random.default_rng([seed, 25])
    case = dollar_case(seed) if kind == "dollars" else units_case(seed)
    there = np.arange(len(case.slot_hours)) < rng.integers(1, len(case.slot_hours))
    held = float(rng.uniform(0.4, 2.2)) * max(case.allowances[0].takes.values())
    part = there if rng.random() < 0.5 else ~there
    plan = replace(case.allowances[0], usd_per_h=0.0, held=held, most=math.inf, there=part)
    return replace(case, allowances=(plan,))


def _hours(rng: np.random.Generator, slots: int) -> np.ndarray:
    share = rng.uniform(0.2, 1.0, slots)
    return HOURS * share / share.sum()


@dataclass(frozen=True)
class Way:
    """One workload in one slot: instances of an offer, and the bill of an API."""

    offer: str
    instances: int
    item: Item
    bill: float


def least_usd(case: Case) -> float:
    """What the cheapest plan costs a month on average; infinite where there is none."""
    budget = case.budget_usd_per_month
    kept = (usd.mean() for usd in each_plan(case) if budget is None or usd.max() <= budget * (1 + 1e-9))
    return float(min(kept, default=math.inf))


def each_plan(case: Case) -> Iterator[np.ndarray]:
    """What each month costs in the plans one of which is best."""
    reserved = case.offers["g0"].reserved_usd_per_h.get("1y")
    for hours in every_choice(case):
        most = max(hour.running.get("g0", 0) for several in hours for hour in several)
        for held in range(most + 1 if reserved is not None else 1):
            for amount in _amounts_within(case, hours, held):
                yield _usd_by_month(case, hours, held, amount)


def _usd_by_month(case: Case, hours: list[list[Hour]], held: int, amount: float) -> np.ndarray:
    """The least that each month can cost: its hours are independent of all others."""
    reserved = case.offers["g0"].reserved_usd_per_h.get("1y") or 0.0
    there = case.allowances[0].there
    by_slot = np.array(
        [
            min(hour.usd(held, amount if there is None or there[t] else 0.0) for hour in several)
            for t, several in enumerate(hours)
        ]
    )
    paid = HOURS * (held * reserved + amount * case.allowances[0].usd_per_h)
    return np.asarray(np.bincount(case.slot_month, by_slot * case.slot_hours) + paid)


def _amounts_within(case: Case, hours: list[list[Hour]], held: int) -> list[float]:
    """Amounts one of which is best: with a budget, also those where a month comes to cost just that.

    Between two amounts where coverage ends with a whole instance, every way to serve an hour costs a straight line. So
    where lines cross the best way changes, and between such points what a month costs is a straight line too.
    """
    amounts, budget = _amounts(case, hours), case.budget_usd_per_month
    if budget is None or case.allowances[0].step is not None or case.allowances[0].held:
        return amounts
    fine = {amounts[0], amounts[-1]}
    for low, high in itertools.pairwise(amounts):
        fine |= {low, high}
        for several in hours:
            lines = {
                (usd_low, usd_high)
                for hour in several
                for usd_low, usd_high in zip(hour.each_usd(held, low), hour.each_usd(held, high), strict=True)
            }
            for a, b in itertools.combinations(lines, 2):
                at_low, at_high = a[0] - b[0], a[1] - b[1]
                if at_low * at_high < 0:
                    fine.add(low + (high - low) * at_low / (at_low - at_high))
    found = sorted(fine)
    usd = [_usd_by_month(case, hours, held, amount) - budget for amount in found]
    for (low, at_low), (high, at_high) in itertools.pairwise(zip(found, usd, strict=True)):
        for a, b in zip(at_low, at_high, strict=True):
            if a * b < 0:
                fine.add(float(low + (high - low) * a / (a - b)))
    return sorted(fine)


def every_choice(case: Case) -> Iterator[list[list[Hour]]]:
    """Every choice of who serves each workload, and how each slot can be served then."""
    each = [[(d, api) for d in (*pool.deployments, None) for api in (*pool.apis, None)] for pool in case.pools]
    for chosen in itertools.product(*each):
        slots = range(len(case.slot_hours))
        menus = [[_ways(pool, d, api, t) for pool, (d, api) in zip(case.pools, chosen, strict=True)] for t in slots]
        if all(all(menu) for menu in menus):
            yield [[Hour(case, several) for several in itertools.product(*menu)] for menu in menus]


def usd_of_hours(case: Case, hours: list[list[Hour]], held: int, amount: float) -> float:
    """A month at least, with so many instances of g0 and so much of the allowance paid already."""
    return sum(
        hours_of * min(hour.usd(held, amount) for hour in several)
        for hours_of, several in zip(case.slot_hours, hours, strict=True)
    )


def _ways(pool: Pool, d: object, api: object, t: int) -> list[Way]:
    rate = float(pool.rate_rps[t, 0])
    price = None if api is None else float(api.usd_per_request[0])  # type: ignore[attr-defined]
    item: Item = (pool.key, "" if api is None else api.key)  # type: ignore[attr-defined]
    if d is None:
        return [] if price is None else [Way("", 0, item, 3600 * rate * price)]
    seconds, found = float(d.seconds_per_request[0]), []  # type: ignore[attr-defined]
    for n in range(replicas_for(RULE, rate * seconds) + 1):
        left = rate - min(rate, max_utilization(RULE, n) / seconds)
        left = left if left > 1e-9 * rate else 0.0
        if not left or price is not None:
            found.append(Way(d.offer, n, item, 3600 * left * (price or 0.0)))  # type: ignore[attr-defined]
    return found


def _amounts(case: Case, hours: list[list[Hour]]) -> list[float]:
    """Amounts of the allowance one of which is best: where an hour's coverage ends with a whole instance, or steps."""
    (plan,) = case.allowances
    if plan.held:
        return [plan.held]
    if plan.step is not None:
        most = max(hour.bills.get(i, 0.0) * n for several in hours for hour in several for i, n in plan.takes.items())
        steps = range(int(2 * most / plan.covers / plan.step) + 2)
        return [0.0, *(plan.fewest + plan.step * k for k in steps)]
    every = {g: max(hour.running.get(str(g), 0) for several in hours for hour in several) for g in plan.takes}
    counts = itertools.product(*(range(n + 1) for n in every.values()))
    ends = {round(sum(k * plan.takes[g] for k, g in zip(ks, every, strict=True)), 12) for ks in counts}
    return sorted({min(end, plan.most) for end in ends})


class Hour:
    """An hour in which all workloads are served in some way."""

    def __init__(self, case: Case, several: tuple[Way, ...]) -> None:
        self.case = case
        self.running: dict[str, int] = {}
        self.bills: dict[Item, float] = {}
        for way in several:
            if way.instances:
                self.running[way.offer] = self.running.get(way.offer, 0) + way.instances
            self.bills[way.item] = self.bills.get(way.item, 0.0) + way.bill

    def usd(self, held: int, amount: float) -> float:
        """What it costs at least, with so many instances reserved and so much signed, besides these."""
        return min(self.each_usd(held, amount))

    def each_usd(self, held: int, amount: float) -> list[float]:
        """What it costs with each number of instances on demand, the others on spot."""
        left = {g: max(0, n - (held if g == "g0" else 0)) for g, n in self.running.items()}
        splits = (range(n + 1) if self.case.offers[g].spot_usd_per_h is not None else (n,) for g, n in left.items())
        every = itertools.product(*splits)
        return [self._usd(dict(zip(left, on_demand, strict=True)), left, amount) for on_demand in every]

    def _usd(self, on_demand: dict[str, int], left: dict[str, int], amount: float) -> float:
        (plan,), usd = self.case.allowances, 0.0
        some = amount * plan.covers
        lines: list[tuple[float, float, float]] = []
        for g, n in on_demand.items():
            price = self.case.offers[g].on_demand_usd_per_h or 0.0
            usd += n * price + (left[g] - n) * (self.case.offers[g].spot_usd_per_h or 0.0)
            if g in plan.takes:
                lines.append((1 - plan.takes[g] / price, plan.takes[g], n * price))
        for item, bill in self.bills.items():
            usd += bill
            if item in plan.takes:
                lines.append((1 - plan.takes[item], plan.takes[item], bill))
        for _, takes, bill in sorted(lines, key=lambda line: (-line[0], line[1])):
            per_usd = (
                takes
                if plan.step is not None
                else takes
                / next(self.case.offers[g].on_demand_usd_per_h or 1.0 for g in on_demand if plan.takes.get(g) == takes)
            )
            part = min(bill, some / per_usd)
            some, usd = some - part * per_usd, usd - part
        return usd
