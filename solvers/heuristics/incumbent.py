"""Incumbents: complete plans, and their construction in closed form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from problems.allowance import Room, Usage
from problems.api_limit_rows import api_limits_are_kept
from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import FleetProblem
from problems.packing import boxes_apart, with_gaps
from problems.power import KEPT_FRAC
from problems.pricing import price_recipe
from problems.purchase import Purchase, cheapest_alone, cheapest_purchase, hourly_usd, starting_usd_per_h
from problems.recipes.deferral import cheapest_counts
from problems.recipes.recipe import Recipe
from problems.recipes.vendors import NO_VENDORS, Vendor
from solvers.pricing.dual_bound import list_prices

WAITING_WAYS = 3
"""how many recipes for work that may wait are worked out"""
ROUNDING_FRAC = 1e-9
"""what sums in another order may differ by"""


@dataclass(frozen=True, eq=False)
class Incumbent:
    """A complete plan: paths that serve every workload once, and the instances bought."""

    paths: tuple[Recipe, ...]
    purchases: dict[str, Purchase]
    cost_usd_per_month: float
    penalty_usd_per_month: float = 0.0
    """penalty of shed requests; not part of the cost"""
    signed: dict[str, float] = field(default_factory=dict)
    """units of each allowance"""

    @property
    def objective(self) -> float:
        return self.cost_usd_per_month + self.penalty_usd_per_month


def complete(fleet: FleetProblem, paths: tuple[Recipe, ...]) -> Incumbent | None:
    """Buy what these paths need, in closed form; None if that breaks a limit."""
    plans = []
    for at in (fleet, _at_the_rates_of_allowances(fleet)) if fleet.allowances else (fleet,):
        purchases = purchases_for(at, paths)
        plan = incumbent_of(fleet, paths, purchases) if purchases is not None else None
        plans += [plan] if plan is not None and limits_are_kept(fleet, plan) else []
    return min(plans, key=lambda plan: plan.objective, default=None)


def _at_the_rates_of_allowances(fleet: FleetProblem) -> FleetProblem:
    """The fleet with instances on demand as cheap as where allowances cover them."""
    offers = dict(fleet.offers)
    for g in (item for item in fleet.cover.items if isinstance(item, str)):
        usd = [a.takes[g] * a.usd_per_h / a.covers for a in fleet.cover.of(g)]
        offers[g] = replace(offers[g], on_demand_usd_per_h=min(fleet.cover.usd_of[g], *usd))
    return replace(fleet, offers=offers)


def purchases_for(fleet: FleetProblem, paths: tuple[Recipe, ...]) -> dict[str, Purchase] | None:
    """What is cheapest for these paths, whatever the limits; None if an offer cannot sell what they need."""
    purchases: dict[str, Purchase] = {}
    for g in sorted({g for p in paths for g in p.offers}):
        bought = cheapest_purchase(fleet, g, *usage(fleet, paths, g))
        if bought is None:
            return None
        purchases[g] = bought
    return purchases


def usage(fleet: FleetProblem, paths: tuple[Recipe, ...], g: str) -> tuple[np.ndarray, np.ndarray]:
    """GPUs of an offer that paths use, all and firm ones, with those that stay empty beside replicas [slot]."""
    on, most = [path for path in paths if g in path.offers], fleet.most_of_a_box.get(g, {})

    def used(kind: str, size: int) -> np.ndarray:
        gpus = np.zeros(len(fleet.slot_hours))
        for path in on:
            np.add.at(gpus, path.slot, path.in_large_replicas(kind, g, size))
        return gpus

    def with_empty_ones(kind: str) -> np.ndarray:
        gpus = with_gaps(fleet.offers[g].box, used(kind, 1), {size: used(kind, size) for size in most}, most)
        return gpus if fleet.offers[g].fewest == 1 else np.maximum(gpus, _apart(fleet, on, g, kind))

    return with_empty_ones("in-use"), with_empty_ones("firm")


def _apart(fleet: FleetProblem, paths: list[Recipe], g: str, kind: str) -> np.ndarray:
    """GPUs of the boxes that replicas need so that those of no deployment all stand in one [slot].

    Where they are of one size, two boxes that hold them will do (problems/packing.py).
    """
    sizes, in_use, firm = _replicas_on(fleet, paths, g)
    counts, offer = in_use if kind == "in-use" else firm, fleet.offers[g]
    boxes: np.ndarray = np.maximum(-(-(sizes @ counts) // offer.box), 2 * (counts > 1).any(axis=0))
    patterns, slots = np.unique(counts, axis=1, return_inverse=True)
    for k, pattern in enumerate(patterns.T):
        several = np.unique(sizes[pattern > 0])
        if len(several) > 1:
            of_size = tuple(
                (int(n), int(pattern[sizes == n].sum()), int((pattern[sizes == n] > 1).sum())) for n in several
            )
            here = slots.ravel() == k
            boxes[here] = np.maximum(boxes[here], boxes_apart(offer.box, of_size))
    return boxes * offer.box


def _replicas_on(fleet: FleetProblem, paths: Iterable[Recipe], g: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """GPUs of a replica of each deployment on an offer, and its replicas, all and firm ones [deployment, slot].

    A replica that takes several boxes counts as so many that fill one.
    """
    box = fleet.offers[g].box
    uses = [(path.slot, use) for path in paths for use in path.uses if use.offer == g]
    counts, firm = np.zeros((2, len(uses), len(fleet.slot_hours)), dtype=int)
    for k, (slot, use) in enumerate(uses):
        boxes = max(1, use.gpus_per_replica // box)
        counts[k, slot], firm[k, slot] = use.replicas * boxes, use.firm_replicas * boxes
    return np.array([min(box, use.gpus_per_replica) for _, use in uses], dtype=int), counts, firm


def _without_lone_spot(fleet: FleetProblem, paths: Iterable[Recipe], g: str, bought: Purchase) -> Purchase:
    """What is bought, where a single spot instance would hold all replicas of a deployment: two of them, or none.

    It does where the deployment has no firm replicas and the other instances have no place left for one of it. Where
    replicas differ in size that is taken for granted.
    """
    offer = fleet.offers[g]
    if offer.fewest == 1 or offer.spot_usd_per_h is None or not (bought.spot == 1).any():
        return bought
    sizes, counts, firm = _replicas_on(fleet, paths, g)
    there = sizes[:, None] * (counts > 0)
    largest = there.max(axis=0)
    alike = ((there == largest) | (there == 0)).all(axis=0)
    safe = offer.on_hand + sum(bought.reserved.values()) + bought.on_demand
    places = safe * (offer.box // np.maximum(largest, 1)) - firm.sum(axis=0)
    without_firm = ((counts > 1) & (firm == 0)).sum(axis=0)
    lone = (bought.spot == 1) & (without_firm > np.where(alike, places, 0))
    most = np.inf if offer.max_instances is None else offer.max_instances
    on_demand_usd = np.inf if offer.on_demand_usd_per_h is None else offer.on_demand_usd_per_h
    on_demand = lone & (on_demand_usd < np.inf) & ((on_demand_usd <= 2 * offer.spot_usd_per_h) | (safe + 2 > most))
    return replace(bought, on_demand=bought.on_demand + on_demand, spot=bought.spot + np.where(on_demand, -1, lone))


def incumbent_of(
    fleet: FleetProblem,
    paths: tuple[Recipe, ...],
    purchases: dict[str, Purchase],
    known: Sequence[Mapping[str, float]] = (),
) -> Incumbent:
    """An incumbent with its cost: USD per month, averaged over the months. `known` are amounts of allowances to try.

    A budget for each month decides on amounts as well: what costs least on average may cost a month too much.
    """
    purchases = {g: _without_lone_spot(fleet, paths, g, bought) for g, bought in purchases.items()}
    signed: dict[str, float] = {}
    if fleet.allowances:
        room = None
        if fleet.budget_usd_per_month is not None:
            left = fleet.budget_usd_per_month - cost_by_month(fleet, paths, purchases)
            room = Room(fleet.slot_month, fleet.slot_hours / fleet.weight_of_month[fleet.slot_month], left)
        signed = fleet.cover.best_units(usage_to_cover(fleet, paths, purchases), fleet.weight, known, room)
    cost = float(np.mean(fleet.weight_of_month * cost_by_month(fleet, paths, purchases, signed)))
    penalty = sum(float(fleet.weight[p.slot] @ p.penalty_usd_per_h) for p in paths)
    return Incumbent(paths, purchases, cost, penalty, signed)


def usage_to_cover(fleet: FleetProblem, paths: Iterable[Recipe], purchases: Mapping[str, Purchase]) -> Usage:
    """What allowances may cover of a plan."""
    usage: Usage = {g: bought.on_demand for g, bought in purchases.items() if g in fleet.cover.usd_of}
    for path in paths:
        if path.api is not None and (path.pool, path.api) in fleet.cover.usd_of:
            bill = np.zeros(len(fleet.slot_hours))
            np.add.at(bill, path.slot, fleet.api_usd_per_h(path))
            usage[path.pool, path.api] = bill
    return usage


def usd_by_month(fleet: FleetProblem, plan: Incumbent) -> np.ndarray:
    """What each month of a plan costs, however much it counts [month]."""
    return cost_by_month(fleet, plan.paths, plan.purchases, plan.signed)


def cost_by_month(
    fleet: FleetProblem,
    paths: tuple[Recipe, ...],
    purchases: dict[str, Purchase],
    signed: Mapping[str, float] | None = None,
) -> np.ndarray:
    """What each month costs, however much it counts [month]; with so many units of allowances."""
    by_slot = np.zeros(len(fleet.slot_hours))
    if signed:
        by_slot -= fleet.cover.saved_usd_per_h(signed, usage_to_cover(fleet, paths, purchases))
    fixed = fleet.team_usd_per_month if any(p.self_hosted for p in paths) else 0.0
    fixed += fleet.vendors.usd(fleet.vendors_used(paths))
    fixed += fleet.cover.usd_per_h(signed or {}) * HOURS_PER_MONTH
    for path in paths:
        np.add.at(by_slot, path.slot, path.usd_per_h + fleet.energy_usd_per_h(path))
    for g, bought in purchases.items():
        offer = fleet.offers[g]
        by_slot += bought.on_demand * (offer.on_demand_usd_per_h or 0.0)
        by_slot += bought.spot * (offer.spot_usd_per_h or 0.0)
        by_slot += starting_usd_per_h(fleet, offer, bought.on_demand, bought.spot)
        fixed += sum(n * offer.reserved_usd_per_h[k] * HOURS_PER_MONTH for k, n in bought.reserved.items())
    by_month = np.bincount(fleet.slot_month, by_slot * fleet.slot_hours, fleet.months)
    return np.asarray(by_month / fleet.weight_of_month + fixed)


def penalty_by_month(fleet: FleetProblem, paths: Iterable[Recipe]) -> np.ndarray:
    """Penalty of what is shed in each month, however much it counts [month]."""
    shed = np.zeros(fleet.months)
    for path in paths:
        by_slot = fleet.slot_hours[path.slot] * path.penalty_usd_per_h
        shed += np.bincount(fleet.slot_month[path.slot], by_slot, fleet.months)
    return np.asarray(shed / fleet.weight_of_month)


def is_covered(fleet: FleetProblem, plan: Incumbent) -> bool:
    """Whether every GPU in use is bought, and every firm one in a way that no reclaim takes away."""
    for g in {g for path in plan.paths for g in path.offers}:
        gpus, firm = usage(fleet, plan.paths, g)
        bought, box, on_hand = plan.purchases.get(g), fleet.offers[g].box, fleet.offers[g].on_hand
        if bought is None:
            if (gpus > box * on_hand).any():
                return False
            continue
        safe = box * (on_hand + sum(bought.reserved.values()) + bought.on_demand)
        if (safe < firm).any() or (safe + box * bought.spot < gpus).any():
            return False
    return True


def limits_are_kept(fleet: FleetProblem, plan: Incumbent) -> bool:
    total: dict[str, np.ndarray] = {}
    for g, offer in fleet.offers.items():
        if offer.on_hand and g not in plan.purchases:
            total[offer.gpu] = total.get(offer.gpu, np.zeros(len(fleet.slot_hours))) + offer.box * offer.on_hand
    for g, bought in plan.purchases.items():
        offer = fleet.offers[g]
        instances = offer.on_hand + sum(bought.reserved.values()) + bought.on_demand + bought.spot
        if offer.max_instances is not None and instances.max() > offer.max_instances:
            return False
        total[offer.gpu] = total.get(offer.gpu, np.zeros(len(fleet.slot_hours))) + offer.box * instances
    if any(gpus.max() > fleet.max_gpus.get(gpu, np.inf) for gpu, gpus in total.items()):
        return False
    used = {gpu for path in plan.paths for gpu in fleet.gpus_of(path)}
    if fleet.max_gpu_types is not None and len(used) > fleet.max_gpu_types:
        return False
    if not fleet.vendors.keeps_counts(fleet.vendors_used(plan.paths)) or not _power_is_kept(fleet, plan):
        return False
    if not api_limits_are_kept(fleet, plan.paths):
        return False
    each, mean = fleet.budget_usd_per_month, fleet.budget_usd_on_average
    if each is None and mean is None:
        return True
    usd = usd_by_month(fleet, plan)
    within = each is None or bool(usd.max() <= each * (1 + 1e-9))
    return within and (mean is None or bool(usd @ fleet.weight_of_month <= fleet.months * mean * (1 + 1e-9)))


def _power_is_kept(fleet: FleetProblem, plan: Incumbent) -> bool:
    """Whether what is there, and the GPUs in use at their most, draw no more than may be."""
    limit = fleet.power
    if limit is None:
        return True
    kw = np.zeros(len(fleet.slot_hours))
    for g, offer in fleet.offers.items():
        bought = plan.purchases.get(g)
        boxes = np.full(len(fleet.slot_hours), float(offer.on_hand))
        if bought is not None:
            boxes = boxes + sum(bought.reserved.values()) + bought.on_demand + bought.spot
        if boxes.any():
            gpus = np.zeros(len(fleet.slot_hours))
            for path in plan.paths:
                np.add.at(gpus, path.slot, path.gpus_on(g))
            kw = kw + limit.kw(g, boxes, gpus)
    return bool(kw.max() <= limit.most_kw * (1 + KEPT_FRAC))


def alone(fleet: FleetProblem, recipe: Recipe) -> Incumbent | None:
    """The cheapest plan for one recipe that has its offers to itself; None if a limit forbids it."""
    path: Recipe | None
    if not _to_be_had(fleet, recipe):
        return None
    if recipe.deferral is not None:
        return _waiting_alone(fleet, recipe)
    if len(recipe.uses) > 1:
        path = price_recipe(fleet, recipe, list_prices(fleet)).cheapest
    elif recipe.uses:
        path = cheapest_alone(fleet, recipe)
    else:
        path = recipe.only(recipe.first_of_each_slot(recipe.usd_per_h + recipe.penalty_usd_per_h))
    return complete(fleet, (path,)) if path is not None else None


def _to_be_had(fleet: FleetProblem, recipe: Recipe) -> bool:
    """Whether there is a way to have instances of all its offers."""
    return all(fleet.offers[g].to_be_had for g in recipe.offers)


def _waiting_alone(fleet: FleetProblem, recipe: Recipe) -> Incumbent | None:
    """The best plan found for work that may wait: it is done where it costs least beside some commitments.

    Waiting evens work out, so the instances that its mean needs are tried, one less, and none.
    """
    use, deferral, weight = recipe.uses[0], recipe.deferral, fleet.weight
    assert deferral is not None
    offer = fleet.offers[use.offer]
    mean_load = float(deferral.load @ weight) / float(weight.sum())
    enough = use.gpus[use.load >= mean_load]
    even = int(offer.boxes(enough.min())) if len(enough) and offer.reserved_usd_per_h else 0
    plans = []
    for held in sorted({0, max(0, even - 1), even}):
        hourly = hourly_usd(offer, held, use.gpus, use.firm_gpus) + recipe.usd_per_h
        found = cheapest_counts(recipe, hourly * weight[recipe.slot], weight, np.ones(len(weight)))
        plans.append(complete(fleet, (found[1],)) if found is not None else None)
    return min((plan for plan in plans if plan is not None), key=lambda plan: plan.objective, default=None)


def each_by_itself(fleet: FleetProblem) -> Incumbent | None:
    """Each workload with the recipe that is cheapest for it alone; where a limit forbids that, as many as fit.

    Engineers and vendors are paid once, so what is cheapest without their cost is tried as well as what is worth it by
    itself.
    """
    combinations = [_each_by_itself(each) for each in _paid_once_or_not(fleet)]
    plans = [_together(fleet, paths) for paths in combinations if paths is not None]
    return min((plan for plan in plans if plan is not None), key=lambda plan: plan.objective, default=None)


def of_few_vendors(fleet: FleetProblem) -> Incumbent | None:
    """The best plan of each workload by itself that buys of one place and one API, or none, the same for all."""
    if fleet.vendors is NO_VENDORS:
        return None
    free = replace(fleet, team_usd_per_month=0.0, vendors=NO_VENDORS)
    ways: dict[str, list[tuple[Incumbent, set[Vendor]]]] = {}
    for w in fleet.workloads:
        own = _worth_working_out(fleet, [fleet.recipes[r] for r in fleet.recipes_of[w]])
        plans = [(plan, set(fleet.vendors_of(recipe))) for recipe in own if (plan := alone(free, recipe))]
        ways[w] = sorted(plans, key=lambda way: way[0].objective)
    places, apis = ({(), *of.values()} for of in (fleet.vendors.of_offer, fleet.vendors.of_api))
    best: Incumbent | None = None
    for place, api in product(sorted(places), sorted(apis)):
        chosen = {*place, *api}
        paths = [next((plan.paths[0] for plan, of in ways[w] if of <= chosen), None) for w in fleet.workloads]
        plan = complete(fleet, tuple(path for path in paths if path is not None)) if None not in paths else None
        if plan is not None and (best is None or plan.objective < best.objective):
            best = plan
    return best


def _paid_once_or_not(fleet: FleetProblem) -> list[FleetProblem]:
    if not fleet.team_usd_per_month and not fleet.vendors.usd_per_month:
        return [fleet]
    return [fleet, replace(fleet, team_usd_per_month=0.0, vendors=replace(fleet.vendors, usd_per_month={}))]


def _each_by_itself(fleet: FleetProblem) -> list[Recipe] | None:
    """The path of each workload that is cheapest for it alone; None if one has none."""
    best: list[Recipe] = []
    for w in fleet.workloads:
        cheapest = _cheapest_alone(fleet, _worth_working_out(fleet, [fleet.recipes[r] for r in fleet.recipes_of[w]]))
        if cheapest is None:
            return None
        best.append(cheapest.paths[0])
    return best


def _cheapest_alone(fleet: FleetProblem, recipes: list[Recipe]) -> Incumbent | None:
    """The cheapest plan for one of these recipes alone, the first of equal ones; the rest is not worked out."""
    least = [_least_usd(fleet, recipe) for recipe in recipes]
    found: tuple[float, int] | None = None
    plans: dict[int, Incumbent] = {}
    for k in np.argsort(least, kind="stable").tolist():
        if found is not None and least[k] * (1 - ROUNDING_FRAC) > found[0]:
            break
        plan = alone(fleet, recipes[k])
        if plan is not None:
            plans[k] = plan
            found = min(found or (plan.objective, k), (plan.objective, k))
    return plans[found[1]] if found is not None else None


def _least_usd(fleet: FleetProblem, recipe: Recipe) -> float:
    """What any plan for a recipe costs at least: the boxes of each slot in the cheapest way to buy them, whatever is
    paid once; nothing where work may wait, or where an allowance may cover some of it."""
    items = (*recipe.offers, (recipe.pool, recipe.api))
    if recipe.deferral is not None or any(item in fleet.cover.usd_of for item in items):
        return 0.0
    usd_per_h = recipe.usd_per_h + recipe.penalty_usd_per_h
    for g in recipe.offers:
        gpus = sum((use.gpus for use in recipe.uses if use.offer == g), np.zeros(len(recipe.slot), dtype=int))
        usd_per_h = usd_per_h + fleet.offers[g].boxes(gpus) * fleet.offers[g].least_usd_per_h
    servings = recipe.first_of_each_slot(usd_per_h)
    return float(fleet.weight[recipe.slot[servings]] @ usd_per_h[servings])


def _together(fleet: FleetProblem, paths: list[Recipe]) -> Incumbent | None:
    return complete(fleet, tuple(paths)) or _as_many_as_fit(fleet, paths)


def _worth_working_out(fleet: FleetProblem, recipes: list[Recipe]) -> list[Recipe]:
    """Recipes of one workload; of those for work that may wait, the few that could be the cheapest at list prices."""
    own = [recipe for recipe in recipes if len(recipe.workloads) == 1 and _to_be_had(fleet, recipe)]
    waiting = [recipe for recipe in own if recipe.deferral is not None]
    prices = list_prices(fleet) if waiting else None
    ranked = sorted(waiting, key=lambda recipe: price_recipe(fleet, recipe, prices).value) if prices else []
    return [recipe for recipe in own if recipe.deferral is None] + ranked[:WAITING_WAYS]


def _as_many_as_fit(fleet: FleetProblem, wanted: list[Recipe]) -> Incumbent | None:
    """Everything from an API where there is one, then one workload after the other as wanted while limits hold."""
    bought: dict[str, Recipe] = {}
    for recipe in fleet.recipes:
        if not recipe.self_hosted and len(recipe.workloads) == 1:
            plan = alone(fleet, recipe)
            bought.setdefault(recipe.workloads[0], plan.paths[0] if plan else recipe)
    chosen = [bought.get(path.workloads[0], path) for path in wanted]
    plan = complete(fleet, tuple(chosen))
    for k, path in enumerate(wanted) if plan else ():
        tried = complete(fleet, (*chosen[:k], path, *chosen[k + 1 :]))
        if tried is not None and plan is not None and tried.objective < plan.objective:
            chosen[k], plan = path, tried
    return plan


def heaviest_paths(fleet: FleetProblem, paths: Sequence[Recipe], weights: np.ndarray) -> Incumbent | None:
    """The paths with the largest weight in the LP, until every workload is served."""
    chosen: list[Recipe] = []
    served: set[str] = set()
    for k in np.argsort(-weights, kind="stable").tolist():
        path = paths[k]
        if served.isdisjoint(path.workloads):
            chosen.append(path)
            served.update(path.workloads)
    if len(served) < len(fleet.workloads):
        return None
    return complete(fleet, in_order(fleet, chosen))


def in_order(fleet: FleetProblem, paths: Iterable[Recipe]) -> tuple[Recipe, ...]:
    """Paths in the order of the workloads they serve first."""
    order = {w: k for k, w in enumerate(fleet.workloads)}
    return tuple(sorted(paths, key=lambda p: min(order[w] for w in p.workloads)))
