"""The instance of the fleet problem: slots, offers, pools with their recipes, limits, and branching decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from problems.allowance import NO_ALLOWANCES, Allowance, Allowances, Item
from problems.api_limits import ApiLimit
from problems.beyond_commitments import ALWAYS, Beyond, BeyondSlots
from problems.packing import most_of_a_box
from problems.power import PowerLimit
from problems.recipes.pools import Pool
from problems.recipes.recipe import Recipe
from problems.recipes.side_by_side import SideBySide
from problems.recipes.singles import recipes_of
from problems.recipes.vendors import NO_VENDORS, Vendor, Vendors
from problems.recipes.waiting_line import WaitingLine
from problems.rounding_up import Rounded, RoundedSlots
from problems.standing_apart import Apart, ApartSlots

SERVINGS_SIDE_BY_SIDE = 3_000_000
"""servings of all recipes up to which those of the same workloads are kept side by side"""
NO_BILL = 1e-9
"""share of an hour's cost that is no bill of an API, but rounding"""
ON_HAND = "on-hand"
"""the term of what is there anyway"""
Held = dict[tuple[str, str], tuple[int, int | None]]
"""by offer and term: the fewest commitments, and the most if that is decided"""


@dataclass(frozen=True, eq=False)
class Offer:
    """An instance type in a region: a box of GPUs that is bought whole. A missing price is not for sale."""

    key: str
    gpu: str
    box: int
    on_demand_usd_per_h: float | None = None
    spot_usd_per_h: float | None = None
    reserved_usd_per_h: dict[str, float] = field(default_factory=dict)
    """price of a committed instance by term, paid every hour"""
    max_instances: int | None = None
    start_h: float = 0.0
    """hours before its use that an instance bought by the hour must be bought"""
    on_hand: int = 0
    """instances that are there anyway, all the time and at no further cost"""
    fewest: int = 1
    """instances that run where any do: 2 where the replicas of a deployment must not all stand in one"""
    fewest_firm: int = 1
    """instances that are not spot, where any GPU must not be"""
    usd_per_gpu_h: float = 0.0
    """of a GPU in use, besides what its instance costs: energy, where that is paid for"""

    @property
    def _prices(self) -> list[float]:
        prices = (self.on_demand_usd_per_h, self.spot_usd_per_h, *self.reserved_usd_per_h.values())
        return [price for price in prices if price is not None]

    @property
    def to_be_had(self) -> bool:
        return self.on_hand > 0 or bool(self._prices)

    @property
    def least_usd_per_h(self) -> float:
        """what no way to have an instance is cheaper than"""
        return 0.0 if self.on_hand else min(self._prices, default=0.0)

    def boxes(self, gpus: np.ndarray, kind: str = "in-use") -> np.ndarray:
        """Whole boxes that so many GPUs, in use or firm, fill or begin, and no fewer than there are where any is."""
        fewest = self.fewest if kind == "in-use" else self.fewest_firm
        boxes: np.ndarray = np.maximum(-(-gpus // self.box), np.where(gpus > 0, fewest, 0))
        return boxes


@dataclass(frozen=True, eq=False)
class FleetProblem:
    """What the master knows: slots, offers, recipes and limits."""

    workloads: tuple[str, ...]
    slot_hours: np.ndarray
    """hours of its month that a slot stands for, times the weight of the month [slot]"""
    slot_month: np.ndarray
    """month of each slot, from 0 [slot]"""
    offers: dict[str, Offer]
    pools: dict[str, Pool]
    recipes: tuple[Recipe, ...]
    slot_before: np.ndarray | None = None
    """the hour before, on the same day [slot]; None: nothing is known of the order of the slots"""
    month_weight: np.ndarray | None = None
    """how much each month counts, 1 on average: `slot_hours` are multiplied by it; None: all alike [month]"""
    max_gpus: dict[str, int] = field(default_factory=dict)
    """most GPUs of a type at any time, over all offers"""
    max_gpu_types: int | None = None
    """kinds of GPU that may be used at all"""
    budget_usd_per_month: float | None = None
    """for any month"""
    budget_usd_on_average: float | None = None
    """for a month on average over all of them"""
    power: PowerLimit | None = None
    """a limit on what is drawn; None: none"""
    api_limits: tuple[ApiLimit, ...] = ()
    """what APIs take in the busiest minute of an hour"""
    team_usd_per_month: float = 0.0
    """fixed cost of the engineers who run anything self-hosted"""
    vendors: Vendors = NO_VENDORS
    """rules about providers, regions and APIs in use"""
    allowances: tuple[Allowance, ...] = ()
    """commitments that cover usage of several offers or of an API, in the order in which they do"""
    vendors_decided: dict[Vendor, bool] = field(default_factory=dict)
    """vendor -> whether it is used, where that is decided"""
    held: Held = field(default_factory=dict)
    """(offer, term) -> fewest and most commitments, where that is decided; None: as many as anybody could use"""
    uses: dict[tuple[str, str], bool] = field(default_factory=dict)
    """(workload, offer) -> whether a workload uses an offer, where that is decided"""
    boxes_in_parts: bool = False
    """a program whose boxes are rounded up afterwards: parts of boxes may be bought, and half a box more is charged"""
    own_boxes: frozenset[tuple[str, str, str, int]] = frozenset()
    """(in-use or firm, workload, offer, slot) for which it is said that a workload's own boxes are whole"""
    rounded: dict[tuple[str, str, int, int], Rounded | Beyond | Apart] = field(default_factory=dict)
    """(both, offer, slot, number) -> what whole boxes say of several workloads, in use and firm;
    (in-use or firm, offer, slot, number) -> what they say of boxes beyond commitments;
    (apart in-use or apart firm, offer, slot, number) -> what replicas that stand apart say of two workloads"""

    @property
    def limited(self) -> bool:
        """Whether anything but demand decides how much is bought."""
        quotas = self.max_gpus or any(o.max_instances is not None for o in self.offers.values())
        quotas = quotas or self.power is not None or bool(self.api_limits)
        return bool(quotas) or self.least_budget_usd is not None

    @property
    def least_budget_usd(self) -> float | None:
        """What no plan may cost more than, a month on average."""
        return min((b for b in (self.budget_usd_per_month, self.budget_usd_on_average) if b is not None), default=None)

    @property
    def months(self) -> int:
        return int(self.slot_month.max()) + 1

    @cached_property
    def weight_of_month(self) -> np.ndarray:
        return np.ones(self.months) if self.month_weight is None else self.month_weight

    @cached_property
    def weight(self) -> np.ndarray:
        """hours per month, averaged over the horizon, that a slot stands for [slot]"""
        return self.slot_hours / self.months

    @cached_property
    def recipes_of(self) -> dict[str, list[int]]:
        of: dict[str, list[int]] = {w: [] for w in self.workloads}
        for r, recipe in enumerate(self.recipes):
            for w in recipe.workloads:
                of[w].append(r)
        return of

    @cached_property
    def servings(self) -> int:
        return sum(recipe.servings for recipe in self.recipes)

    @cached_property
    def recipes_for(self) -> dict[tuple[str, ...], list[Recipe]]:
        """by the workloads that are served together"""
        by_workloads: dict[tuple[str, ...], list[Recipe]] = {}
        for recipe in self.recipes:
            by_workloads.setdefault(recipe.workloads, []).append(recipe)
        return by_workloads

    def side_by_side(self, workloads: tuple[str, ...]) -> Iterable[SideBySide]:
        """The recipes for workloads that are served together, but those of work that may wait.

        Those of a small fleet are kept side by side; of a large one that would take too much memory.
        """
        independent = tuple(recipe for recipe in self.recipes_for.get(workloads, ()) if recipe.deferral is None)
        if self.servings > SERVINGS_SIDE_BY_SIDE:
            return (SideBySide((recipe,)) for recipe in independent)
        if workloads not in self._side_by_side:
            self._side_by_side[workloads] = (SideBySide(independent),) if independent else ()
        return self._side_by_side[workloads]

    @cached_property
    def _side_by_side(self) -> dict[tuple[str, ...], tuple[SideBySide, ...]]:
        return {}

    @cached_property
    def recipes_on(self) -> dict[str, list[int]]:
        on: dict[str, list[int]] = {}
        for r, recipe in enumerate(self.recipes):
            for g in recipe.offers:
                on.setdefault(g, []).append(r)
        return on

    @cached_property
    def rounded_slots(self) -> dict[tuple[str, str, int], RoundedSlots | BeyondSlots | ApartSlots]:
        """by kind, offer and number"""
        together: dict[tuple[str, str, int], list[Any]] = {}
        for (kind, g, _, number), cut in self.rounded.items():
            together.setdefault((kind, g, number), []).append(cut)
        return {key: cuts[0].by_slot(cuts, len(self.slot_hours)) for key, cuts in together.items()}

    @cached_property
    def rounded_always(self) -> list[Beyond]:
        """cuts about boxes beyond commitments that stay"""
        return [cut for (*_, number), cut in self.rounded.items() if number == ALWAYS and isinstance(cut, Beyond)]

    @cached_property
    def most_of_a_box(self) -> dict[str, dict[int, int]]:
        """offer -> size of replicas -> the GPUs of a box that these and larger ones can fill, where some stay empty"""
        sizes: dict[str, set[int]] = {}
        for pool in self.pools.values():
            for d in pool.deployments:
                sizes.setdefault(d.offer, set()).add(d.gpus_per_replica)
        most = {g: most_of_a_box(self.offers[g].box, several) for g, several in sizes.items() if g in self.offers}
        return {g: of_size for g, of_size in most.items() if of_size}

    @cached_property
    def largest_use(self) -> dict[str, dict[str, int]]:
        """offer -> workload -> the most GPUs that one of its recipes uses there"""
        largest: dict[str, dict[str, int]] = {}
        for offer, recipes in self.recipes_on.items():
            of_workload = largest.setdefault(offer, {})
            for r in recipes:
                gpus = int(self.recipes[r].gpus_on(offer).max(initial=0))
                for w in self.recipes[r].workloads:
                    of_workload[w] = max(of_workload.get(w, 0), gpus)
        return largest

    @cached_property
    def most_instances(self) -> dict[str, int]:
        """Instances of an offer that no plan exceeds: every workload with its largest recipe there."""
        largest = {offer: sum(gpus.values()) for offer, gpus in self.largest_use.items()}
        filled = {g: min([self.offers[g].box, *self.most_of_a_box.get(g, {}).values()]) for g in largest}
        return {offer: 2 * -(-gpus // filled[offer]) + 1 for offer, gpus in largest.items()}

    @cached_property
    def cover(self) -> Allowances:
        """The allowances, with what they may cover here: no work that waits."""
        if not self.allowances:
            return NO_ALLOWANCES
        usd_of: dict[Item, float] = {}
        most: dict[Item, float] = {}
        for item in dict.fromkeys(item for a in self.allowances for item in a.takes):
            if isinstance(item, str):
                by_hour = self.offers[item].on_demand_usd_per_h if item in self.offers else None
                if by_hour is not None:
                    usd_of[item], most[item] = by_hour, float(self.most_instances.get(item, 0))
            elif (pool := self.pools.get(item[0])) is not None and pool.window is None:
                for api in pool.apis:
                    if api.key == item[1]:
                        usd_of[item], most[item] = 1.0, float((3600 * pool.rate_rps @ api.usd_per_request).max())
        each = (replace(a, takes={i: n for i, n in a.takes.items() if i in usd_of}) for a in self.allowances)
        return Allowances(tuple(each), usd_of, most)

    def most_replicas(self, g: str, gpus_per_replica: int) -> int | None:
        """Replicas of a size that quotas let stand on an offer at once; None: as many as anybody wants."""
        offer = self.offers[g]
        quotas = [offer.max_instances] if offer.max_instances is not None else []
        if offer.gpu in self.max_gpus:
            quotas.append(self.max_gpus[offer.gpu] // offer.box)
        if gpus_per_replica > offer.box:  # it takes whole boxes
            return min(quotas) * offer.box // gpus_per_replica if quotas else None
        return min(quotas) * (offer.box // gpus_per_replica) if quotas else None

    def decided_commitments(self, g: str) -> tuple[int, int | None]:
        """The fewest instances of an offer that are there all the time, as far as that is decided, and the most if that
        is: what is on hand, and commitments of all terms."""
        ranges = [self.held.get((g, term), (0, None)) for term in self.offers[g].reserved_usd_per_h]
        most = [many for _, many in ranges if many is not None]
        on_hand = self.offers[g].on_hand
        return on_hand + sum(few for few, _ in ranges), on_hand + sum(most) if len(most) == len(ranges) else None

    def with_fewest_instances(self) -> FleetProblem:
        """The fleet with every row without which a program might run fewer instances than must where any do."""
        rows: set[tuple[str, str, str, int]] = set()
        for g, recipes in self.recipes_on.items():
            offer = self.offers[g]
            kinds = ("in-use",) if offer.spot_usd_per_h is None else ("in-use", "firm")
            for kind, recipe in product(kinds, (self.recipes[r] for r in recipes)) if offer.fewest > 1 else ():
                gpus = recipe.used_on(kind, g)
                more = offer.boxes(gpus, kind) > -(-gpus // offer.box)
                rows |= {(kind, w, g, t) for t in np.unique(recipe.slot[more]).tolist() for w in recipe.workloads}
        return replace(self, own_boxes=self.own_boxes | rows)

    def with_whole_boxes(
        self, own: Iterable[tuple[str, str, str, int]], rounded: Mapping[Any, Rounded | Beyond | Apart]
    ) -> FleetProblem:
        """The fleet with more rows that say which boxes are whole."""
        return replace(self, own_boxes=self.own_boxes.union(own), rounded={**self.rounded, **rounded})

    def allows(self, recipe: Recipe) -> bool:
        """Whether a recipe agrees with what is decided."""
        return recipe.pool in self.pools and self.allows_use(recipe.workloads, recipe.offers, recipe.api)

    def allows_use(self, workloads: tuple[str, ...], offers: Iterable[str], api: str | None) -> bool:
        """Whether recipes of these workloads on these offers, with this API, agree with what is decided."""
        on = set(offers)
        if self.vendors_decided and any(self.vendors_decided.get(x) is False for x in self.vendors.of(on, api)):
            return False
        return all((g in on) == way for (w, g), way in self.uses.items() if w in workloads)

    def line_of(self, r: int) -> WaitingLine:
        """The waiting line of a recipe for work that may wait."""
        deferral = self.recipes[r].deferral
        assert deferral is not None
        return deferral.line

    def starts_late(self, g: str) -> bool:
        """Whether instances of an offer take time to start that somebody has to pay for."""
        return self.slot_before is not None and self.offers[g].start_h > 0

    def energy_usd_per_h(self, recipe: Recipe) -> np.ndarray:
        """What the GPUs that a recipe uses cost besides their instances [serving]"""
        usd = np.zeros(recipe.servings)
        for g in recipe.offers:
            if each := self.offers[g].usd_per_gpu_h:
                usd = usd + each * recipe.gpus_on(g)
        return usd

    def api_usd_per_h(self, recipe: Recipe) -> np.ndarray:
        """The bill of its API: all that a recipe costs besides GPUs and caches [serving]"""
        return np.asarray(np.maximum(recipe.usd_per_h - self.pools[recipe.pool].fixed_by_slot[recipe.slot], 0.0))

    def gpus_of(self, recipe: Recipe) -> tuple[str, ...]:
        """the kinds of GPU that a recipe uses, each once"""
        return tuple(dict.fromkeys(self.offers[g].gpu for g in recipe.offers))

    def vendors_of(self, recipe: Recipe) -> tuple[Vendor, ...]:
        """the vendors that a recipe may buy of, each once, where there are rules about them"""
        return self.vendors.of(recipe.offers, recipe.api)

    def vendors_used(self, paths: Iterable[Recipe]) -> set[Vendor]:
        """the vendors that paths do buy of: a deployment may have no replica in any slot, an API no request"""
        if self.vendors is NO_VENDORS:
            return set()
        return {x for path in paths for x in self.vendors.of(*self._bought_by(path))}

    def _bought_by(self, path: Recipe) -> tuple[set[str], str | None]:
        on = {use.offer for use in path.uses if use.replicas.any()}
        return on, path.api if self.asks_its_api(path) else None

    def without_idle_api(self, path: Recipe) -> Recipe:
        """A path as a deployment by itself, where there are rules about APIs and its own has nothing to do."""
        idle = path.api in self.vendors.of_api and not self.asks_its_api(path)
        return replace(path, api=None) if idle else path

    def asks_its_api(self, path: Recipe) -> bool:
        """Whether an API answers any request of a path: one that asks nothing for some of them may."""
        pool = self.pools[path.pool]
        api = next((api for api in pool.apis if api.key == path.api), None)
        if api is None:
            return path.api is not None  # one that this fleet does not ask: nothing is known of it
        bill = path.usd_per_h - pool.fixed_by_slot[path.slot]
        return bool((bill > NO_BILL * (1 + path.usd_per_h)).any() or (api.usd_per_request <= 0).any())


def fleet_of(
    workloads: tuple[str, ...],
    pools: Iterable[Pool],
    offers: dict[str, Offer],
    slot_hours: np.ndarray,
    slot_month: np.ndarray,
    **limits: Any,
) -> FleetProblem:
    """The fleet problem of some pools, with every recipe of at most one deployment; mixes come while it is solved."""
    if limits.get("vendors", NO_VENDORS).of_api:
        pools = [replace(pool, may_do_without_api=True) for pool in pools]
    by_key = {pool.key: pool for pool in pools}
    recipes = tuple(recipe for pool in by_key.values() for recipe in recipes_of(pool, slot_hours))
    return FleetProblem(workloads, slot_hours, slot_month, offers, by_key, recipes, **limits)
