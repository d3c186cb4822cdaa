"""The pricing subproblem: what a recipe costs at dual prices.

At given prices the Lagrangian of the master splits into one minimum per pool, which is exact here: the cheapest
serving of each slot of the cheapest recipe. Its value L is a lower bound on every plan. A plan that uses a
given serving costs at least L + (what its recipe costs with that serving - what the prices pay for the workloads of its
pool), so a serving whose bound exceeds a plan already at hand can be left out without loss.

Work that may wait ties the slots of a recipe together. Its value is bounded from below instead, every piece of work
done where that is cheapest by the replica-hour, and its path stays open: the LP moves the work between the counts that
are cheapest by the replica-hour and those of the least load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from problems.beyond_commitments import BeyondSlots
from problems.fleet_problem import FleetProblem, Offer
from problems.recipes.deferral import cheapest_counts
from problems.recipes.pools import Deployment
from problems.recipes.recipe import Deferral, Recipe
from problems.recipes.vendors import Vendor
from problems.rounding_up import BOTH, RoundedSlots
from problems.standing_apart import APART, ApartSlots


@dataclass(frozen=True, eq=False)
class Prices:
    """Duals of the master's rows, as prices (all at least zero)."""

    gpu_usd: dict[str, np.ndarray]
    """a GPU of an offer in a slot, over the hours the slot stands for [slot]"""
    firm_usd: dict[str, np.ndarray]
    """on top of that, for a GPU that must not be spot [slot]"""
    usd_factor: np.ndarray
    """how much a dollar of other cost weighs when the budget binds, 1 or more [slot]"""
    team_usd: dict[str, float]
    """the workload's share of the engineering team, if self-hosted"""
    type_usd: dict[tuple[str, str], float] = field(default_factory=dict)
    """a workload's share of one more kind of GPU"""
    box_usd: dict[tuple[str, str, str], np.ndarray] = field(default_factory=dict)
    """a whole box of its own, by in-use or firm, workload and offer [slot]"""
    beyond_usd: dict[tuple[str, str], list[tuple[BeyondSlots, np.ndarray]]] = field(default_factory=dict)
    """a box beyond commitments, by in-use or firm and offer [slot]"""
    rounded_usd: dict[str, RoundedSlots] = field(default_factory=dict)
    """boxes that are rounded up, by offer"""
    apart_usd: dict[str, list[tuple[ApartSlots, np.ndarray]]] = field(default_factory=dict)
    """boxes of replicas that stand apart, by offer [slot]"""
    fit_usd: dict[tuple[str, str, int], np.ndarray] = field(default_factory=dict)
    """on top of a GPU in use, or a firm one, in a replica of some size or larger: by kind, offer and size [slot]"""
    vendor_usd: dict[tuple[str, Vendor], float] = field(default_factory=dict)
    """a workload's share of one more vendor"""
    spared_usd_factor: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    """how much less a dollar of a pool's bill at an API weighs where allowances may cover it [slot]"""
    limited_usd_factor: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    """how much more a dollar of a pool's bill at an API weighs where the API takes no more in a minute [slot]"""
    power_usd: dict[str, np.ndarray] = field(default_factory=dict)
    """on top of a GPU in use, for what it draws where that is paid for or limited, by offer [slot]"""
    in_dollars: bool = True
    """False in the phase that only looks for a feasible plan, where real costs count nothing"""
    _tables: dict[tuple[str, str, tuple[str, ...]], np.ndarray] = field(default_factory=dict)

    @property
    def know_boxes(self) -> bool:
        """Whether GPUs cost more than one by one."""
        return bool(self.box_usd or self.beyond_usd or self.rounded_usd or self.apart_usd)

    def usd_factor_of(self, pool: str, api: str | None) -> np.ndarray:
        """How much a dollar of a pool's bill at an API weighs [slot]."""
        if api is None:
            return self.usd_factor
        spared, limited = self.spared_usd_factor.get((pool, api), 0.0), self.limited_usd_factor.get((pool, api), 0.0)
        return np.asarray(self.usd_factor - spared + limited)

    def usd_of_a_gpu(self, kind: str, offer: str, size: int) -> np.ndarray:
        """A GPU in use, or what a firm one costs on top, in a replica of so many [slot]."""
        usd = (self.gpu_usd if kind == "in-use" else self.firm_usd)[offer]
        if kind == "in-use" and offer in self.power_usd:
            usd = usd + self.power_usd[offer]
        for (of, g, least), more in self.fit_usd.items():
            if (of, g) == (kind, offer) and size >= least:
                usd = usd + more
        return usd

    def usd_of_boxes(self, kind: str, offer: Offer, workloads: tuple[str, ...], most: int) -> np.ndarray | None:
        """What so many GPUs, in use or firm, cost workloads beside the GPUs themselves [slot, GPUs]; None: nothing.

        All that is said of boxes of either kind in one table, worked out once for all recipes of a pool.
        """
        own = [self.box_usd[kind, w, offer.key] for w in workloads if (kind, w, offer.key) in self.box_usd]
        beyond = self.beyond_usd.get((kind, offer.key), ())
        if not own and not beyond:
            return None
        table = self._tables.get((kind, offer.key, workloads), np.zeros((0, 0)))
        if most >= table.shape[1]:
            gpus = np.arange(max(most + 1, 2 * table.shape[1]))
            table = np.outer(sum(own, start=np.zeros(len(self.usd_factor))), offer.boxes(gpus, kind))
            for cuts, usd in beyond:
                counts = cuts.table(workloads, gpus)
                if counts is not None:
                    table += usd[:, None] * counts
            self._tables[kind, offer.key, workloads] = table
        return table

    def usd_of_replicas(
        self,
        d: Deployment,
        offer: Offer,
        workloads: tuple[str, ...],
        slot: np.ndarray,
        replicas: np.ndarray,
        firm: np.ndarray,
        shared: bool,
    ) -> np.ndarray:
        """What replicas of a deployment, firm ones among them, cost workloads in these slots; at least, where other
        deployments share their boxes.
        """
        gpus, firm_gpus = replicas * d.gpus_per_replica, firm * d.gpus_per_replica
        usd = np.zeros(np.broadcast_shapes(slot.shape, gpus.shape))
        for kind, used in (("in-use", gpus), ("firm", firm_gpus)):
            usd = usd + self.usd_of_a_gpu(kind, d.offer, d.gpus_per_replica)[slot] * used
        apart = self._usd_apart(d.offer, workloads, d.gpus_per_replica, slot, replicas, firm)
        if not shared:
            return usd + apart + self.usd_of_use(offer, workloads, slot, gpus, firm_gpus)
        usd = usd + apart / 2  # of two deployments the larger counts
        for kind, used in (("in-use", gpus), ("firm", firm_gpus)):
            for w in workloads:
                if (kind, w, d.offer) in self.box_usd:
                    usd = usd + self.box_usd[kind, w, d.offer][slot] * used / offer.box
        if d.offer in self.rounded_usd:
            usd = usd + self.rounded_usd[d.offer].at_least(workloads, slot, gpus, firm_gpus)
        return usd

    def _usd_apart(
        self,
        g: str,
        workloads: tuple[str, ...],
        size: int,
        slot: np.ndarray,
        replicas: np.ndarray,
        firm: np.ndarray,
    ) -> np.ndarray | float:
        """What replicas of a deployment cost where they stand apart."""
        usd: np.ndarray | float = 0.0
        for of, used in (("in-use", replicas), ("firm", firm)) if g in self.apart_usd else ():
            table = self._table_apart(of, g, workloads[0], size)
            usd = usd + table[slot, np.minimum(used, table.shape[1] - 1)]
        return usd

    def _table_apart(self, of: str, g: str, workload: str, size: int) -> np.ndarray:
        """The same for any number of replicas, of all cuts together [slot, replicas]."""
        key = (f"{APART} {of} {size}", g, (workload,))
        if key not in self._tables:
            priced = [
                (cuts.counts.get(workload, {}).get(size), usd) for cuts, usd in self.apart_usd[g] if cuts.of == of
            ]
            known = [(table, usd) for table, usd in priced if table is not None]
            replicas = np.arange(max((table.shape[1] for table, _ in known), default=1))
            total = np.zeros((len(self.usd_factor), len(replicas)))
            for table, usd in known:
                total += usd[:, None] * table[:, np.minimum(replicas, table.shape[1] - 1)]
            self._tables[key] = total
        return self._tables[key]

    def usd_apart(self, g: str, recipe: Recipe) -> np.ndarray | float:
        """What a recipe's replicas on an offer cost where they stand apart; of several deployments the largest."""
        on = [use for use in recipe.uses if use.offer == g] if g in self.apart_usd else []
        if len(on) == 1:
            size, t = on[0].gpus_per_replica, recipe.slot
            return self._usd_apart(g, recipe.workloads, size, t, on[0].replicas, on[0].firm_replicas)
        return sum((usd[recipe.slot] * cuts.use(recipe) for cuts, usd in self.apart_usd.get(g, ())), start=0.0)

    def usd_of_use(
        self, offer: Offer, workloads: tuple[str, ...], slot: np.ndarray, gpus: np.ndarray, firm_gpus: np.ndarray
    ) -> np.ndarray | float:
        """What so many GPUs in use, and firm ones among them, cost workloads in these slots for the boxes they fill."""
        usd: np.ndarray | float = 0.0
        for kind, used in (("in-use", gpus), ("firm", firm_gpus)):
            table = self.usd_of_boxes(kind, offer, workloads, int(used.max(initial=0)))
            if table is not None:
                usd = usd + table[slot, used]
        if offer.key in self.rounded_usd:
            usd = usd + self.rounded_usd[offer.key].of(workloads, slot, gpus, firm_gpus)
        return usd


def prices_from_duals(fleet: FleetProblem, row_duals: dict[tuple[Any, ...], float], in_dollars: bool = True) -> Prices:
    slots = len(fleet.slot_hours)
    gpu = {g: np.zeros(slots) for g in fleet.offers}
    firm = {g: np.zeros(slots) for g in fleet.offers}
    budget = np.zeros(fleet.months)
    team = dict.fromkeys(fleet.workloads, 0.0)
    types: dict[tuple[str, str], float] = {}
    vendors: dict[tuple[str, Vendor], float] = {}
    boxes: dict[tuple[str, str, str], np.ndarray] = {}
    rounded: dict[tuple[str, str, int], np.ndarray] = {}
    fits: dict[tuple[str, str, int], np.ndarray] = {}
    spared: dict[tuple[str, str], np.ndarray] = {}
    kw = np.zeros(slots)
    minutes: dict[tuple[str, str], np.ndarray] = {}
    for key, dual in row_duals.items():
        if key[0] == "in-use":
            gpu[key[1]][key[2]] = max(dual, 0.0)
        elif key[0] == "firm":
            firm[key[1]][key[2]] = max(dual, 0.0)
        elif key[0] == "budget":
            budget[key[1]] += max(-dual, 0.0)
        elif key[0] == "spend":
            budget += max(-dual, 0.0) / fleet.months
        elif key[0] == "team":
            team[key[1]] = max(-dual, 0.0)
        elif key[0] == "gpu-type":
            types[key[1], key[2]] = max(-dual, 0.0)
        elif key[0] == "vendor":
            vendors[key[1], (key[2], key[3])] = max(-dual, 0.0)
        elif key[0] == "own-boxes" and dual > 0:
            boxes.setdefault((key[1], key[2], key[3]), np.zeros(slots))[key[4]] = dual
        elif key[0] == "fits" and dual > 0:
            fits.setdefault((key[1], key[2], key[3]), np.zeros(slots))[key[4]] = dual
        elif key[0] == "covered" and dual < 0 and not isinstance(key[1], str):
            spared.setdefault(key[1], np.zeros(slots))[key[2]] = -dual / fleet.weight[key[2]]
        elif key[0] == "api-limit" and dual < 0:
            minutes.setdefault((key[1], key[2]), np.zeros(slots))[key[3]] = -dual
        elif key[0] == "power":
            kw[key[1]] = max(-dual, 0.0)
        elif key[0] == "rounded" and dual > 0:
            rounded.setdefault((key[1], key[2], key[4]), np.zeros(slots))[key[3]] = dual
    factor = float(in_dollars) + fleet.months * budget[fleet.slot_month]
    by_offer: dict[tuple[str, str], list[Any]] = {}
    for (kind, g, number), usd in rounded.items():
        by_offer.setdefault((kind, g), []).append((fleet.rounded_slots[kind, g, number], usd))
    together = {g: RoundedSlots.priced(cuts) for (kind, g), cuts in by_offer.items() if kind == BOTH}
    beyond = {key: cuts for key, cuts in by_offer.items() if key[0] in ("in-use", "firm")}
    apart: dict[str, list[tuple[ApartSlots, np.ndarray]]] = {}
    for (kind, g), cuts in by_offer.items():
        if kind.startswith(APART):
            apart.setdefault(g, []).extend(cuts)
    spared = {item: np.minimum(usd, factor) for item, usd in spared.items()}  # interior points may be a hair beyond
    power = _usd_of_power(fleet, kw, factor)
    limited = _factors_of_limits(fleet, minutes)
    return Prices(
        gpu, firm, factor, team, types, boxes, beyond, together, apart, fits, vendors, spared, limited, power,
        in_dollars,
    )  # fmt: skip


def energy_usd(fleet: FleetProblem, usd_factor: np.ndarray) -> dict[str, np.ndarray]:
    """What a GPU in use pays for energy, where a dollar weighs so much [slot], by offer [slot]"""
    paid = {g: offer.usd_per_gpu_h for g, offer in fleet.offers.items() if offer.usd_per_gpu_h}
    return {g: fleet.weight * usd_factor * usd for g, usd in paid.items()}


def _usd_of_power(fleet: FleetProblem, kw_usd: np.ndarray, usd_factor: np.ndarray) -> dict[str, np.ndarray]:
    """What a GPU in use pays for what it draws, at prices of a kW in a slot."""
    limits, usd = fleet.power, energy_usd(fleet, usd_factor)
    if limits is None or not kw_usd.any():
        return usd
    limited = {g: gpu_kw * kw_usd for g, gpu_kw in limits.gpu_kw.items()}
    return limited | {g: each + limited.get(g, 0.0) for g, each in usd.items()}


def _factors_of_limits(
    fleet: FleetProblem, minutes: dict[tuple[str, str], np.ndarray]
) -> dict[tuple[str, str], np.ndarray]:
    """What prices of an API's busiest minutes add to a dollar of each pool's bill [slot]."""
    factors: dict[tuple[str, str], np.ndarray] = {}
    for limit in fleet.api_limits if minutes else ():
        usd = minutes.get((limit.api, limit.kind))
        for pool, per_usd in limit.per_usd.items() if usd is not None else ():
            factors[pool, limit.api] = factors.get((pool, limit.api), 0.0) + usd * per_usd / fleet.weight
    return factors


def serving_values(fleet: FleetProblem, recipe: Recipe, prices: Prices) -> np.ndarray:
    """Cost of each serving of a recipe at these prices [serving]."""
    t = recipe.slot
    hourly = recipe.usd_per_h * prices.usd_factor[t] + recipe.penalty_usd_per_h * prices.in_dollars
    if recipe.api is not None and (recipe.pool, recipe.api) in prices.spared_usd_factor:
        hourly = hourly - fleet.api_usd_per_h(recipe) * prices.spared_usd_factor[recipe.pool, recipe.api][t]
    if recipe.api is not None and (recipe.pool, recipe.api) in prices.limited_usd_factor:
        hourly = hourly + fleet.api_usd_per_h(recipe) * prices.limited_usd_factor[recipe.pool, recipe.api][t]
    value: np.ndarray = fleet.weight[t] * hourly
    for use in recipe.uses:
        for kind, gpus in (("in-use", use.gpus), ("firm", use.firm_gpus)):
            value = value + gpus * prices.usd_of_a_gpu(kind, use.offer, use.gpus_per_replica)[t]
    for g in recipe.offers if prices.know_boxes else ():
        gpus, firm_gpus = recipe.gpus_on(g), recipe.firm_gpus_on(g)
        value = value + prices.usd_of_use(fleet.offers[g], recipe.workloads, t, gpus, firm_gpus)
        value = value + prices.usd_apart(g, recipe)
    return value


def fixed_value(fleet: FleetProblem, recipe: Recipe, prices: Prices) -> float:
    """What a recipe costs beside its servings: its share of the team, of the kinds of GPU, and of its vendors."""
    value = vendors_value(fleet, recipe.workloads, recipe.offers, recipe.api, prices)
    if not recipe.self_hosted:
        return value
    value += sum(prices.team_usd[w] for w in recipe.workloads)
    if prices.type_usd:
        value += sum(prices.type_usd.get((w, gpu), 0.0) for w in recipe.workloads for gpu in fleet.gpus_of(recipe))
    return value


def vendors_value(
    fleet: FleetProblem, workloads: tuple[str, ...], offers: Iterable[str], api: str | None, prices: Prices
) -> float:
    """What the vendors of some offers and an API cost workloads."""
    if not prices.vendor_usd:
        return 0.0
    of = fleet.vendors.of(offers, api)
    return sum(prices.vendor_usd.get((w, vendor), 0.0) for w in workloads for vendor in of)


@dataclass(frozen=True, eq=False)
class Priced:
    """A recipe at given prices. What is asked of few recipes is worked out when it is asked: memory is scarce."""

    recipe: Recipe
    value: float
    """cost with the cheapest serving in each slot, or a lower bound on it"""
    narrowed: Callable[[], Recipe]
    each: Callable[[], tuple[np.ndarray, np.ndarray]]
    """cost with each serving, and with each of those that were not tried"""

    @property
    def with_serving(self) -> np.ndarray:
        """cost when a given serving is used and the other slots are at their cheapest [serving]"""
        cost: np.ndarray = np.maximum(self.each()[0], self.value)
        return cost

    @property
    def with_skipped(self) -> np.ndarray:
        """the same for loads that were not tried"""
        return np.maximum(self.each()[1], self.value) if self.recipe.between is not None else np.zeros(0)

    @cached_property
    def cheapest(self) -> Recipe:
        """the recipe narrowed to the cheapest serving in each slot; to two of each where work may wait"""
        return self.narrowed()


def price_recipe(fleet: FleetProblem, recipe: Recipe, prices: Prices) -> Priced:
    fixed = fixed_value(fleet, recipe, prices)
    if recipe.deferral is not None:
        return _price_deferred(fleet, recipe, recipe.deferral, prices, fixed)
    values = serving_values(fleet, recipe, prices)
    best = recipe.first_of_each_slot(values)
    least, _ = _least_by_slot(fleet, recipe, prices, values, best)
    total = float(least.sum()) + fixed

    def each() -> tuple[np.ndarray, np.ndarray]:
        values = serving_values(fleet, recipe, prices)
        least, between = _least_by_slot(fleet, recipe, prices, values, best)
        # Without GPUs a slot may be served in parts of each way, so that a serving says nothing.
        extra = values - least[recipe.slot] if recipe.self_hosted else 0 * values
        return total + extra, total + between

    return Priced(recipe, total, lambda: recipe.only(best), each)


def _least_by_slot(
    fleet: FleetProblem, recipe: Recipe, prices: Prices, values: np.ndarray, best: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What a slot costs at least [slot], and how much more each load does that was not tried; `best` are the cheapest
    servings.
    """
    least = np.zeros(len(fleet.slot_hours))
    least[recipe.slot[best]] = values[best]
    if recipe.between is None:
        return least, np.zeros(0)
    between = serving_values(fleet, recipe.between, prices)
    np.minimum.at(least, recipe.between.slot, between)
    return least, between - least[recipe.between.slot]


def settled_path(fleet: FleetProblem, recipe: Recipe, prices: Prices) -> Recipe | None:
    """A path of work that may wait with the counts of replicas settled, near the cheapest at these prices; None if the
    counts that are tried cannot do the work.
    """
    weighs = prices.usd_factor_of(recipe.pool, recipe.api)
    found = cheapest_counts(recipe, serving_values(fleet, recipe, prices), fleet.weight, weighs)
    return None if found is None else found[1]


def _price_deferred(fleet: FleetProblem, recipe: Recipe, deferral: Deferral, prices: Prices, fixed: float) -> Priced:
    """Each piece of work where a replica-hour is cheapest: less than any whole number of replicas can cost."""
    hours, slots = fleet.weight, len(fleet.slot_hours)
    none, rates = _usd_per_load_h(fleet, recipe, prices)
    per_load_h = np.full(slots, np.inf)
    np.minimum.at(per_load_h, recipe.slot, np.maximum(rates, 0.0))
    least = np.where(deferral.window, per_load_h[None, :], np.inf).min(axis=1)
    api = np.full(slots, np.inf)
    if deferral.api_usd_per_load_h is not None:
        api = deferral.api_usd_per_load_h * prices.usd_factor_of(recipe.pool, recipe.api)
    work = deferral.load * hours
    some = work > 0
    value = float((work[some] * np.minimum(least, api)[some]).sum()) + float(none.sum()) + fixed

    def open_path() -> Recipe:
        _, rates = _usd_per_load_h(fleet, recipe, prices)
        best, least_busy = recipe.first_of_each_slot(rates), recipe.first_of_each_slot(recipe.uses[0].load)
        return recipe.only(np.unique(np.r_[best, least_busy]))

    def each() -> tuple[np.ndarray, np.ndarray]:
        return np.full(recipe.servings, value), np.full(int(recipe.between is not None), value)

    return Priced(recipe, value, open_path, each)


def _usd_per_load_h(fleet: FleetProblem, recipe: Recipe, prices: Prices) -> tuple[np.ndarray, np.ndarray]:
    """What a slot costs in which nothing is done [slot], and beyond that a replica-hour of load [serving]."""
    values = serving_values(fleet, recipe.at_best, prices)
    none = _value_of_nothing(fleet, recipe, prices)
    carried = recipe.at_best.uses[0].load * fleet.weight[recipe.slot]
    return none, np.divide(values - none[recipe.slot], carried, out=np.full(len(values), np.inf), where=carried > 0)


def _value_of_nothing(fleet: FleetProblem, recipe: Recipe, prices: Prices) -> np.ndarray:
    """What a slot costs in which no replica runs, also where a branch has ruled that out [slot]."""
    none = np.zeros(len(fleet.slot_hours))
    none[recipe.idle.slot] = serving_values(fleet, recipe.idle, prices)
    return none
