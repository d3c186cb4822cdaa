"""Mixes of any number of deployments: against all counts tried one by one, with a routing program written here."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from problems.beyond_commitments import BeyondSlots, boxes_beyond
from problems.fleet_problem import FleetProblem, Offer
from problems.model import Column, Model, Row, build_model
from problems.pricing import Prices, price_recipe
from problems.recipes.mixes import BoxPrices, SharedBoxes, slot_mix
from problems.recipes.pools import Api, Deployment, Pool, load_by_slot
from problems.recipes.recipe import Recipe
from problems.rounding_up import Rounded, RoundedSlots, made_valid
from problems.slot_model import slot_model
from problems.staffing import Staffing
from solvers.backends.highs import solve_lp
from solvers.backends.result import Solution
from solvers.backends.solve import SolverName, solve_mip
from solvers.pricing import mix_slots, slot_search
from solvers.pricing.mixes import best_mix
from solvers.pricing.slot_search import SolvedSlot, solve_slot
from tests.support.rows import for_each

NO_MARGIN = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=1.0, min_replicas=1)
OUTLETS = ("none", "api", "shed", "both")


def random_pool(seed: int, deployments: int, *, margin: bool, outlets: str, slots: int = 2, offers: int = 5) -> Pool:
    """Three lengths, a few replicas' load; one length that some cannot serve; spot now and then."""
    rng = np.random.default_rng(seed)
    base = rng.uniform(0.1, 0.6, 3)
    made = []
    for k in range(deployments):
        seconds = base * rng.uniform(0.5, 1.6, 3)
        if k and rng.random() < 0.4:
            seconds[rng.integers(3)] = np.inf
        staffing = NO_MARGIN
        if margin:
            staffing = Staffing(
                z=float(rng.choice([1.0, 2.0])), arrival_scv=1.0, rate_cv=float(rng.choice([0.0, 0.2])), batch=4.0,
                min_replicas=int(rng.choice([1, 2])), max_utilization=float(rng.choice([1.0, 0.8])),
            )  # fmt: skip
        offer, gpus = f"o{k % offers}", int(rng.choice([1, 2]))
        made.append(Deployment(f"d{k}", offer, gpus, seconds, staffing, staffing_in_a_mix=staffing, spot_zones=3))
    load = rng.uniform(0.3, 5.0, (slots, 1)) * rng.dirichlet(np.ones(3), slots)
    return Pool(
        key="pool", workloads=("pool",), rate_rps=load / base, critical_share=float(rng.choice([0.0, 0.5, 1.0])),
        spot_allowed=bool(rng.random() < 0.7), deployments=tuple(made), max_deployments=deployments,
        apis=(Api("api", base * rng.uniform(1.0, 6.0, 3) / 3600),) if outlets in ("api", "both") else (),
        shed_usd_per_request=base * rng.uniform(1.0, 6.0, 3) / 3600 if outlets in ("shed", "both") else None,
        fixed_usd_per_h=rng.uniform(0.0, 0.2, slots),
    )  # fmt: skip


def fleet_with(pool: Pool, boxes: dict[str, int] | None = None) -> FleetProblem:
    """Boxes of one GPU, and of four or what else is said; slots of different length."""
    sizes = {"o1": 4} if boxes is None else boxes
    offers = {d.offer: Offer(d.offer, "gpu", sizes.get(d.offer, 1), 1.0) for d in pool.deployments}
    hours = np.array([1.0, 2.5, 1.0, 2.5])[: pool.slots]
    return FleetProblem(pool.workloads, hours, np.zeros(pool.slots, dtype=int), offers, {pool.key: pool}, ())


def random_prices(seed: int, pool: Pool) -> Prices:
    """GPUs near 1, some firm ones dearer, and now and then a price on whole boxes."""
    rng = np.random.default_rng(seed)
    offers = sorted({d.offer for d in pool.deployments})
    return Prices(
        gpu_usd={g: rng.uniform(0.5, 2.0, pool.slots) for g in offers},
        firm_usd={g: rng.choice([0.0, 0.7], pool.slots) for g in offers},
        usd_factor=rng.choice([1.0, 1.3], pool.slots),
        team_usd={"pool": 0.0},
        box_usd={(kind, "pool", "o1"): rng.choice([0.0, 1.0], pool.slots) for kind in ("in-use", "firm")},
    )


def replicas_cost(fleet: FleetProblem, pool: Pool, prices: Prices, t: int, counts: tuple[int, ...]) -> float:
    """What so many replicas of each deployment cost, with the firm ones by the rule for mixes."""
    gpus: dict[tuple[str, str], int] = {}
    for d, n in zip(pool.deployments, counts, strict=True):
        staffing, firm = d.staffing_in_a_mix, n
        assert staffing is not None
        if pool.spot_allowed:
            load = min(float(staffing.carried_load(np.array(n))), all_load(pool, t, d))
            firm = min(n, int(staffing.replicas(np.array(load * pool.critical_share))))
        for kind, replicas in (("in-use", n), ("firm", firm)):
            gpus[kind, d.offer] = gpus.get((kind, d.offer), 0) + replicas * d.gpus_per_replica
    cost = 0.0
    for (kind, g), n in gpus.items():
        cost += n * float((prices.gpu_usd if kind == "in-use" else prices.firm_usd)[g][t])
        if (kind, "pool", g) in prices.box_usd:
            cost += float(prices.box_usd[kind, "pool", g][t]) * -(-n // fleet.offers[g].box)
        for cut, usd in prices.beyond_usd.get((kind, g), ()):
            counts_of = cut.counts["pool"][t]
            cost += float(usd[t] * counts_of[min(n, len(counts_of) - 1)])
    for g, cuts in prices.rounded_usd.items():
        (full, part), (firm_full, firm_part) = (divmod(gpus.get((kind, g), 0), cuts.box) for kind in ("in-use", "firm"))
        cost += float(cuts.in_use[t] * full + cuts.firm[t] * firm_full)
        cost += float(cuts.parts["pool"][t, part * cuts.box + firm_part])
    return cost


def all_load(pool: Pool, t: int, d: Deployment) -> float:
    can = np.isfinite(d.seconds_per_request)
    return float(pool.rate_rps[t][can] @ d.seconds_per_request[can])


def routing_cost(pool: Pool, t: int, carried: dict[str, float], usd_per_request: np.ndarray | None) -> float | None:
    """The least that must be paid elsewhere, by a linear program in requests/s; None where it cannot be routed."""
    columns, served, room = [], [[] for _ in range(3)], []
    for d in pool.deployments:
        terms = []
        for b in range(3):
            if carried[d.key] > 0 and np.isfinite(d.seconds_per_request[b]):
                terms.append((len(columns), float(d.seconds_per_request[b])))
                served[b].append((len(columns), 1.0))
                columns.append(Column(("rps", d.key, b), 0.0))
        if terms:
            room.append(Row(("room", d.key), terms, "<=", carried[d.key]))
    for b in range(3):
        if usd_per_request is not None:
            served[b].append((len(columns), 1.0))
            columns.append(Column(("out", b), 3600 * float(usd_per_request[b])))
    if not all(served):
        return None
    rows = [Row(("served", b), served[b], "==", float(pool.rate_rps[t, b])) for b in range(3)]
    return solve_lp(build_model(columns, [*room, *rows])).objective


def optimum(fleet: FleetProblem, pool: Pool, api: Api | None, prices: Prices) -> float:
    """The best set of at most K deployments, every slot at its cheapest."""
    size = min(pool.max_deployments, len(pool.deployments))
    sets = [set(chosen) for chosen in itertools.combinations(range(len(pool.deployments)), size)]
    return float(np.sum([slot_optima(fleet, pool, api, prices, t, sets) for t in range(pool.slots)], axis=0).min())


def slot_optima(
    fleet: FleetProblem, pool: Pool, api: Api | None, prices: Prices, t: int, sets: list[set[int]]
) -> list[float]:
    """For each set of deployments every combination of counts, with all of the rest to the API or all of it shed.

    Combinations come cheapest first, so that what costs more than an answer at hand need not be routed.
    """
    weight = float(fleet.weight[t])
    outlets: list[tuple[np.ndarray | None, float]] = [(None, 0.0)]
    outlets += [(api.usd_per_request, weight * float(prices.usd_factor[t]))] if api else []
    outlets += [(pool.shed_usd_per_request, weight)] if pool.shed_usd_per_request is not None else []
    counts = []
    for d in pool.deployments:
        assert d.staffing_in_a_mix is not None
        most = int(d.staffing_in_a_mix.replicas(np.array(all_load(pool, t, d))))
        counts.append([0, *range(d.staffing_in_a_mix.min_replicas, most + 1)])
    best = [np.inf] * len(sets)
    combinations = {
        combination
        for chosen in sets
        for combination in itertools.product(*(ns if k in chosen else [0] for k, ns in enumerate(counts)))
    }
    for cost, combination in sorted((replicas_cost(fleet, pool, prices, t, ns), ns) for ns in combinations):
        used = {k for k, n in enumerate(combination) if n}
        open_sets = [k for k, chosen in enumerate(sets) if used <= chosen and cost < best[k]]
        if not open_sets:
            continue
        each = zip(pool.deployments, combination, strict=True)
        carried = {d.key: float(d.staffing_in_a_mix.carried_load(np.array(n))) for d, n in each if d.staffing_in_a_mix}
        for usd, factor in outlets:
            routed = routing_cost(pool, t, carried, usd)
            for k in open_sets if routed is not None else ():
                best[k] = min(best[k], cost + factor * routed)
    fixed = weight * float(prices.usd_factor[t] * pool.fixed_by_slot[t])
    return [usd + fixed for usd in best]


def value(fleet: FleetProblem, path: Recipe, prices: Prices) -> float:
    return price_recipe(fleet, path, prices).value


def assert_holds(pool: Pool, path: Recipe) -> None:
    """The path keeps the rules: few deployments, the staffing of mixes, and a routing that costs what it says."""
    assert 2 <= len(path.uses) <= pool.max_deployments
    by_key = {d.key: d for d in pool.deployments}
    for t in range(pool.slots):
        carried = dict.fromkeys(by_key, 0.0)
        for use in path.uses:
            d = by_key[use.deployment]
            assert d.staffing_in_a_mix is not None
            n, load = int(use.replicas[t]), float(use.load[t])
            assert d.staffing_in_a_mix.replicas(np.array(load)) <= n
            assert load <= all_load(pool, t, d) + 1e-9
            carried[use.deployment] = load
        shed = bool(path.shed_frac[t])
        usd = pool.shed_usd_per_request if shed else pool.apis[0].usd_per_request if path.api else None
        paid = float(path.penalty_usd_per_h[t] if shed else path.usd_per_h[t] - pool.fixed_by_slot[t])
        routed = routing_cost(pool, t, {k: load + 1e-9 for k, load in carried.items()}, usd)
        assert routed is not None
        assert paid >= routed - 1e-6
        assert path.usd_per_h[t] >= pool.fixed_by_slot[t]


def api_of(pool: Pool) -> Api | None:
    return pool.apis[0] if pool.apis else None


@for_each("outlets", OUTLETS)
@for_each("margin", [False, True])
@for_each("k", [2, 3])
def test_the_best_of_as_many_deployments_as_may_be_mixed(k: int, margin: bool, outlets: str) -> None:
    for seed in range(3):
        pool = random_pool(100 * k + seed, k, margin=margin, outlets=outlets)
        fleet, prices = fleet_with(pool), random_prices(seed, pool)
        mix = best_mix(fleet, pool, api_of(pool), prices)
        best = optimum(fleet, pool, api_of(pool), prices)
        assert mix.bound == pytest.approx(best, rel=1e-6)
        assert mix.bound <= best * (1 + 1e-9)
        if mix.path is not None:
            assert_holds(pool, mix.path)
            assert value(fleet, mix.path, prices) == pytest.approx(best, rel=1e-6)


@for_each(
    ("k", "margin", "seed"), [(2, False, 0), (2, False, 2), (2, True, 7), (2, True, 9), (3, False, 0), (3, True, 7)]
)
def test_the_best_set_where_there_are_more_deployments_than_may_be_mixed(k: int, margin: bool, seed: int) -> None:
    """Different sets would be best in different slots, so that the slots alone say too little."""
    pool = replace(random_pool(seed, 5, margin=margin, outlets=OUTLETS[seed % 4], slots=4), max_deployments=k)
    fleet, prices = fleet_with(pool), random_prices(seed, pool)
    best = optimum(fleet, pool, api_of(pool), prices)
    rough = best_mix(fleet, pool, api_of(pool), prices, most_sets=1)
    proved = best_mix(fleet, pool, api_of(pool), prices)
    assert rough.bound < best * (1 - 1e-3)
    assert proved.bound == pytest.approx(best, rel=1e-6)
    assert proved.bound <= best * (1 + 1e-9)
    for mix in (rough, proved):
        assert mix.path is not None
        assert_holds(pool, mix.path)
        assert mix.cost == pytest.approx(value(fleet, mix.path, prices), rel=1e-9)
        assert mix.cost >= best * (1 - 1e-9)
    assert proved.cost == pytest.approx(best, rel=1e-6)


def shared_pool(seed: int, *, outlets: str = "none", spot: bool = False, k: int = 3) -> tuple[Pool, FleetProblem]:
    """Four deployments of 1 to 4 GPUs a replica, two on either offer, in boxes of 2, 4 or 8."""
    rng = np.random.default_rng(seed)
    pool = random_pool(seed, 4, margin=bool(seed % 2), outlets=outlets, offers=2)
    sized = tuple(replace(d, gpus_per_replica=int(rng.choice([1, 2, 4]))) for d in pool.deployments)
    pool = replace(pool, deployments=sized, spot_allowed=spot, critical_share=0.5, max_deployments=k)
    return pool, fleet_with(pool, {g: int(rng.choice([2, 4, 8])) for g in ("o0", "o1")})


def box_prices(seed: int, pool: Pool, fleet: FleetProblem, *, rounded: bool) -> Prices:
    """Prices on own boxes, on boxes beyond a commitment, and on boxes that are rounded up for two workloads."""
    rng = np.random.default_rng(seed)
    kinds = itertools.product(("in-use", "firm"), fleet.offers)
    of_both = {(kind, g): rng.choice([0.0, 2.0, 5.0], (2, pool.slots)) for kind, g in kinds}
    prices = Prices(
        gpu_usd={g: rng.choice([0.0, 0.2, 1.0], pool.slots) for g in fleet.offers},
        firm_usd={g: rng.choice([0.0, 0.3], pool.slots) for g in fleet.offers},
        usd_factor=np.ones(pool.slots),
        team_usd={"pool": 0.0},
        box_usd={(kind, "pool", g): usd[0] for (kind, g), usd in of_both.items()},
    )
    for (kind, g), (_, usd) in of_both.items():
        counts = np.tile(boxes_beyond(fleet.offers[g].box, 1, 60), (pool.slots, 1))
        prices.beyond_usd[kind, g] = [(BeyondSlots(kind, g, {"pool": counts}), usd)]
    for g, offer in fleet.offers.items() if rounded else ():
        can = {w: np.ones((offer.box, offer.box), dtype=bool) for w in ("pool", "other")}
        part = {w: np.sort(np.sort(rng.random(may.shape), axis=0), axis=1) for w, may in can.items()}
        parts = made_valid(part, can, offer.box, 0.5)
        cuts = Rounded.by_slot([Rounded(g, t, offer.box, parts, 0.5) for t in range(pool.slots)], pool.slots)
        prices.rounded_usd[g] = RoundedSlots.priced([(cuts, rng.choice([0.0, 4.0], pool.slots))])
    return prices


@for_each("outlets", ["none", "api"])
@for_each(("spot", "rounded"), [(False, False), (False, True), (True, False)])
def test_boxes_that_deployments_share_are_paid_for_once_and_whole(spot: bool, rounded: bool, outlets: str) -> None:
    for seed in range(4):
        pool, fleet = shared_pool(seed, outlets=outlets, spot=spot)
        prices = box_prices(seed, pool, fleet, rounded=rounded)
        mix = best_mix(fleet, pool, api_of(pool), prices)
        best = optimum(fleet, pool, api_of(pool), prices)
        assert mix.bound == pytest.approx(best, rel=1e-6)
        assert mix.bound <= best * (1 + 1e-9)
        if mix.path is not None:
            assert_holds(pool, mix.path)
            assert mix.cost == pytest.approx(value(fleet, mix.path, prices), rel=1e-9)
            assert mix.cost == pytest.approx(best, rel=1e-6)


def test_boxes_that_are_rounded_up_for_spot_and_firm_at_once_are_never_counted_too_high() -> None:
    below = 0
    for seed in range(5):
        pool, fleet = shared_pool(seed, spot=True)
        prices = box_prices(seed, pool, fleet, rounded=True)
        mix = best_mix(fleet, pool, None, prices)
        best = optimum(fleet, pool, None, prices)
        assert 0.8 * best <= mix.bound <= best * (1 + 1e-9)
        below += mix.bound < 0.999 * best
        if mix.path is not None:
            assert_holds(pool, mix.path)
            assert mix.cost == pytest.approx(value(fleet, mix.path, prices), rel=1e-9)
            assert mix.cost >= best * (1 - 1e-9)
    assert below > 0


def test_boxes_cost_no_less_together_than_what_is_counted_for_each() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        most = np.unique(rng.integers(0, 60, 8))
        boxes = SharedBoxes({0: 1}, False, most, np.r_[0.0, np.sort(rng.choice([1.0, 2.0, 7.0, 9.5], len(most) - 1))])
        each = rng.multinomial(most[-1], np.ones(4) / 4, 30)
        together = each.cumsum(axis=1)
        assert (boxes.at_least(each).cumsum(axis=1) <= boxes.cost_of(together) + 1e-9).all()
        assert boxes.at_least(most[-1:]) == boxes.cost[-1:]


@pytest.mark.parametrize("solver", ["cbc", "highs"])
def test_a_solver_proves_the_same_of_shared_boxes(solver: SolverName, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, fleet = shared_pool(3)
    prices = box_prices(3, pool, fleet, rounded=False)
    searched = best_mix(fleet, pool, None, prices)
    monkeypatch.setattr(slot_search, "NODES", 1)
    solved = best_mix(fleet, pool, None, prices, solver=solver)
    assert solved.bound == pytest.approx(searched.bound, rel=1e-6)
    assert solved.bound <= searched.cost * (1 + 1e-9)


def test_slots_that_differ_in_what_boxes_cost_are_solved_apart() -> None:
    pool, fleet = shared_pool(2)
    memory: mix_slots.Memory = {}
    bounds = []
    for prices in (box_prices(seed, pool, fleet, rounded=bool(seed % 2)) for seed in range(4)):
        mix = best_mix(fleet, pool, None, prices, memory=memory)
        assert mix.bound == best_mix(fleet, pool, None, prices).bound
        bounds.append(mix.bound)
    assert len(set(bounds)) == 4


def test_a_wider_gap_never_lifts_the_bound_above_the_optimum() -> None:
    loose = 0
    for seed in range(10):
        pool = random_pool(seed, 4, margin=bool(seed % 2), outlets="none", slots=3)
        pool = replace(pool, rate_rps=3 * pool.rate_rps, max_deployments=2)
        fleet, prices = fleet_with(pool), random_prices(seed, pool)
        exact = best_mix(fleet, pool, None, prices)
        mix = best_mix(fleet, pool, None, prices, gap_frac=0.02)
        assert 0.95 * exact.bound <= mix.bound <= exact.bound * (1 + 1e-9)
        loose += mix.bound < 0.999 * exact.bound
        if mix.path is not None:
            assert exact.bound * (1 - 1e-9) <= mix.cost <= mix.bound / 0.95
    assert loose > 1


@pytest.mark.parametrize("solver", ["cbc", "highs"])
def test_a_solver_proves_the_same_where_the_search_gives_up(
    solver: SolverName, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = random_pool(7, 3, margin=True, outlets="none")
    fleet, prices = fleet_with(pool), random_prices(7, pool)
    searched = best_mix(fleet, pool, None, prices)
    used = []

    def noted(model: Model, **given: Any) -> Solution:
        used.append(given["solver"])
        return solve_mip(model, **given)

    monkeypatch.setattr(slot_search, "NODES", 1)
    monkeypatch.setattr(slot_search, "solve_mip", noted)
    solved = best_mix(fleet, pool, None, prices, solver=solver)
    assert set(used) == {solver}
    assert solved.bound == pytest.approx(searched.bound, rel=1e-6)
    assert solved.bound <= searched.cost * (1 + 1e-9)


def three_that_need_each_other(rates: list[float]) -> Pool:
    """Each of three deployments serves one length only; all three are needed wherever all lengths are asked for."""
    made = []
    for k in range(3):
        seconds = np.full(3, np.inf)
        seconds[k] = 0.5
        made.append(Deployment(f"d{k}", f"o{k}", 1, seconds, NO_MARGIN, staffing_in_a_mix=NO_MARGIN))
    return Pool("pool", ("pool",), np.array([rates]), 1.0, False, tuple(made), (), max_deployments=3)


def at_one_usd(pool: Pool) -> Prices:
    each = {d.offer: np.ones(pool.slots) for d in pool.deployments}
    return Prices(each, {g: np.zeros(pool.slots) for g in each}, np.ones(pool.slots), {"pool": 0.0})


@for_each("tail_rps", [1e-3, 1e-6, 1e-12, 1e-21])
def test_a_length_that_is_all_but_never_asked_for_still_needs_a_replica(tail_rps: float) -> None:
    pool = three_that_need_each_other([4.0, 2.0, tail_rps])
    mix = best_mix(fleet_with(pool), pool, None, at_one_usd(pool))
    assert mix.bound == pytest.approx(2 + 1 + 1)
    assert mix.path is not None
    assert [use.replicas.tolist() for use in mix.path.uses] == [[2], [1], [1]]


@for_each("solver", ["cbc", "highs"])
@for_each("tail_rps", [1e-3, 1e-6, 1e-12, 1e-21])
def test_solvers_cannot_take_a_tiny_load_for_none(tail_rps: float, solver: SolverName) -> None:
    """A millionth of a replica is none within a solver's tolerance; the program must not let it carry anything."""
    pool = three_that_need_each_other([4.0, 2.0, tail_rps])
    costs = [lambda n, firm: 1.0 * n] * 3
    model, v = slot_model(slot_mix(pool, 0, pool.deployments, costs, np.full(3, np.inf)))
    found = solve_mip(model, solver=solver)
    assert found.objective == pytest.approx(2 + 1 + 1)
    assert found.bound == pytest.approx(2 + 1 + 1)
    assert found.x is not None
    assert [round(found.x[v.count[k]]) for k in range(3)] == [2, 1, 1]


def test_replicas_that_are_just_full_are_enough() -> None:
    pool = three_that_need_each_other([6.0, 0.6 + 1.4, 14.0])
    mix = best_mix(fleet_with(pool), pool, None, at_one_usd(pool))
    assert mix.bound == pytest.approx(3 + 1 + 7)
    assert mix.cost == pytest.approx(3 + 1 + 7)


def test_no_mix_where_nobody_serves_a_length_or_nothing_can_be_mixed() -> None:
    pool = three_that_need_each_other([1.0, 1.0, 1.0])
    fleet, prices = fleet_with(pool), at_one_usd(pool)
    for fewer in (
        replace(pool, deployments=pool.deployments[:2]),
        replace(pool, deployments=pool.deployments[:1]),
        replace(pool, max_deployments=2),
        replace(pool, deployments=tuple(replace(d, variant=d.key) for d in pool.deployments)),
        replace(pool, deployments=tuple(replace(d, staffing_in_a_mix=None) for d in pool.deployments)),
    ):
        mix = best_mix(fleet, fewer, None, prices)
        assert mix.bound == np.inf
        assert mix.path is None
    sold_out = replace(fleet, offers={**fleet.offers, "o2": Offer("o2", "gpu", 1)})
    assert best_mix(sold_out, pool, None, prices).bound == np.inf
    assert best_mix(fleet, pool, None, prices).bound == pytest.approx(3.0)


def test_a_mix_is_of_one_variant() -> None:
    """Two variants of the same three deployments, one of them dearer: never two of one and one of the other."""
    pool = three_that_need_each_other([1.0, 1.0, 1.0])
    other = tuple(replace(d, key=f"{d.key}x", offer=f"{d.offer}x", variant="x") for d in pool.deployments)
    both = replace(pool, deployments=pool.deployments + other)
    prices = at_one_usd(both)
    for offer, usd in {"o0": 2.0, "o1x": 3.0}.items():
        prices.gpu_usd[offer][:] = usd
    mix = best_mix(fleet_with(both), both, None, prices)
    assert mix.bound == pytest.approx(4.0)
    assert mix.path is not None
    assert mix.path.deployments == ("d0", "d1", "d2")


def test_equal_slots_are_solved_once_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = random_pool(11, 3, margin=True, outlets="api", slots=4)
    pool = replace(pool, rate_rps=pool.rate_rps[[0, 0, 1, 1]], fixed_usd_per_h=np.zeros(1))
    fleet = fleet_with(pool)
    each = {d.offer: fleet.weight * (1 + k) for k, d in enumerate(pool.deployments)}
    prices = Prices(each, {g: 0 * usd for g, usd in each.items()}, np.ones(4), {"pool": 0.0})
    solved = []

    def noted(*args: Any) -> SolvedSlot:
        solved.append(args)
        return solve_slot(*args)

    monkeypatch.setattr(mix_slots, "solve_slot", noted)
    memory: mix_slots.Memory = {}
    first = best_mix(fleet, pool, pool.apis[0], prices, memory=memory)
    assert len(solved) == 2
    again = best_mix(fleet, pool, pool.apis[0], prices, memory=memory)
    assert len(solved) == 2
    assert again.bound == first.bound
    assert first.bound == pytest.approx(best_mix(fleet, pool, pool.apis[0], prices).bound)


def test_the_search_ends_once_mixes_are_of_no_interest(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = random_pool(21, 3, margin=True, outlets="none", slots=4)
    fleet, prices = fleet_with(pool), random_prices(21, pool)
    best = best_mix(fleet, pool, None, prices).bound
    mix = best_mix(fleet, pool, None, prices, below=0.999 * best)
    assert 0.999 * best <= mix.bound <= best * (1 + 1e-9)
    assert mix.path is None
    monkeypatch.setattr(mix_slots, "solve_slot", lambda *args: pytest.fail("nothing is to be solved"))
    assert 0.3 * best <= best_mix(fleet, pool, None, prices, below=0.3 * best).bound <= best * (1 + 1e-9)


def test_a_slot_without_demand_costs_nothing() -> None:
    pool = three_that_need_each_other([1.0, 1.0, 1.0])
    pool = replace(pool, rate_rps=np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]))
    mix = best_mix(fleet_with(pool), pool, None, at_one_usd(pool))
    assert mix.bound == pytest.approx(3.0)
    assert mix.path is not None
    assert [use.replicas.tolist() for use in mix.path.uses] == [[1, 0]] * 3


def test_the_program_of_a_slot_has_no_column_for_a_length_that_cannot_be_served() -> None:
    margin = replace(NO_MARGIN, z=1.0, batch=4.0)
    seconds = (np.array([0.5, np.inf]), np.array([1.0, 0.25]))
    rules = (NO_MARGIN, margin)
    made = [Deployment(f"d{k}", f"o{k}", 1, seconds[k], s, staffing_in_a_mix=s) for k, s in enumerate(rules)]
    pool = Pool("pool", ("pool",), np.array([[3.0, 2.0]]), 1.0, False, tuple(made), ())
    costs = [lambda n, firm: 2.0 * n, lambda n, firm: 3.0 * n]
    model, _ = slot_model(slot_mix(pool, 0, made, costs, np.array([np.inf, 40.0])))
    most = int(margin.replicas(np.array(3.5)))
    assert set(model.column_keys) == {
        ("share", 0, 0), ("share", 1, 0), ("share", 1, 1), ("rest", 1), ("count", 0),
        *(("at", 1, n) for n in range(most + 1)),
    }  # fmt: skip
    assert set(model.row_keys) == {("served", 0), ("served", 1), ("fits", 0), ("fits", 1), ("one-number", 1)}
    cost = dict(zip(model.column_keys, model.cost.tolist(), strict=True))
    assert cost["rest", 1] == 80.0
    assert cost["count", 0] == 2.0
    assert cost["at", 1, 4] == 12.0


def test_shared_boxes_have_a_column_for_each_step_of_what_they_cost() -> None:
    """Boxes of four, at 7 USD each from the second on; five replicas of two GPUs carry everything."""
    one = Deployment("d0", "o", 1, np.array([1.0]), NO_MARGIN, staffing_in_a_mix=NO_MARGIN)
    made = [one, replace(one, key="d1", gpus_per_replica=2)]
    pool = Pool("pool", ("pool",), np.array([[5.0]]), 1.0, False, tuple(made), ())
    boxes = BoxPrices({0: 1, 1: 2}, 4, lambda gpus, firm: 7.0 * np.maximum(-(-gpus // 4) - 1, 0))
    costs = [lambda n, firm: 1.0 * n] * 2
    slot = slot_mix(pool, 0, made, costs, np.array([np.inf]), [boxes])
    model, _ = slot_model(slot)
    cost = dict(zip(model.column_keys, model.cost.tolist(), strict=True))
    assert [cost["step", 0, s] for s in range(4)] == [0.0, 7.0, 14.0, 21.0]
    assert slot.shared[0].most.tolist() == [4, 8, 12, 15]
    assert cost["count", 0] == cost["count", 1] == 1.0
    assert {key for key in model.row_keys if key[0] in ("holds", "one-step")} == {("holds", 0), ("one-step", 0)}
    assert solve_mip(model, solver="highs").objective == pytest.approx(5 + 7)


@pytest.mark.parametrize("usd", [0.0, 1e-15, 1e-9])
def test_duals_of_next_to_nothing_are_prices_too(usd: float) -> None:
    """The first deployment carries everything for next to nothing; rounding of the other prices is larger than that."""
    for seed in range(12):
        pool = random_pool(seed, 2, margin=bool(seed % 2), outlets="api")
        fleet, prices = fleet_with(pool), replace(random_prices(seed, pool), box_usd={})
        prices.gpu_usd["o0"][:], prices.firm_usd["o0"][:] = usd, 0.0
        mix = best_mix(fleet, pool, pool.apis[0], prices)
        fixed = float((fleet.weight * prices.usd_factor * pool.fixed_by_slot).sum())
        most = pool.deployments[0].staffing.replicas(load_by_slot(pool, pool.deployments[0]))
        nothing = usd * float(most.sum()) * pool.deployments[0].gpus_per_replica
        assert mix.bound == pytest.approx(fixed + nothing, rel=1e-9)
