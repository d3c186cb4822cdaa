"""Counts put together slot by slot: every rule kept, never cheaper than the exact program, nearly always as cheap."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import cache
from itertools import count, product
from types import SimpleNamespace

import numpy as np
import pytest

from problems.fleet import master
from problems.fleet_problem import FleetProblem, Offer
from problems.model import Column, Model, Row, build_model
from problems.purchase import hourly_purchase
from problems.recipes.pools import Deployment, Pool
from problems.staffing import Staffing
from solvers.backends.highs import WarmLp, solve_lp, solve_part
from solvers.backends.result import LpSolution, Status
from solvers.backends.solve import solve_mip
from solvers.backends.verify import dual_bound
from solvers.heuristics import relax_and_fix as slot_choice
from solvers.heuristics import rolling_windows as slot_windows
from solvers.heuristics.counts_by_slot import Counted, counts_by_slot
from solvers.heuristics.incumbent import each_by_itself, limits_are_kept
from solvers.heuristics.slot_lp import SlotLp, _all_work_is_done
from solvers.heuristics.slot_plans import Slot
from solvers.pricing import column_generation, lazy_rows
from solvers.pricing.column_generation import CONVERGED_FRAC, MAX_ROUNDS, STANDS_ROUNDS, ColumnGeneration
from solvers.pricing.routing import flows_of
from tests.oracle.cases import case_of
from tests.oracle.plans import check_plan
from tests.solvers.heuristics.test_polishing import shared_box
from tests.support.fleets import Case
from tests.support.rows import for_each

SEEDS = [*range(300, 308), *range(1000, 1030)]
WAITING = [1000, 1001, 1013, 1014, 1015, 1024, 1034, 1035, 1052, 1054, 1060, 1062]
"""where work that may wait has large boxes to choose from"""


def soon() -> float:
    return math.inf  # what ends here ends by itself


def given(seed: int) -> FleetProblem | None:
    """A case with the recipes and the commitments to large boxes of its first plan; None where it has none."""
    fleet = case_of(seed).fleet
    plan = each_by_itself(fleet)
    if plan is None:
        return None
    keys = {path.key for path in plan.paths}
    held = {
        (g, term): (plan.purchases[g].reserved.get(term, 0) if g in plan.purchases else 0,) * 2
        for g, offer in fleet.offers.items()
        if offer.box > 1
        for term in offer.reserved_usd_per_h
    }
    return replace(fleet, recipes=tuple(r for r in fleet.recipes if r.key in keys), held=held)


@cache
def counted(seed: int) -> Counted | None:
    fleet = given(seed)
    return counts_by_slot([fleet], "cbc", soon()) if fleet is not None else None


@cache
def exactly(seed: int) -> float:
    """the cheapest plan with these recipes and commitments"""
    fleet = given(seed)
    assert fleet is not None
    return cheapest(fleet)


def cheapest(fleet: FleetProblem) -> float:
    result = solve_mip(master(fleet)[0], solver="highs")
    assert result.status is Status.OPTIMAL
    assert result.objective is not None
    return result.objective


@for_each("seed", SEEDS)
def test_rules_are_kept_and_no_plan_is_cheaper_than_the_cheapest(seed: int) -> None:
    fleet, found = given(seed), counted(seed)
    if fleet is None or found is None:
        return
    assert limits_are_kept(fleet, found.plan)
    check_plan(case_of(seed), found.plan)
    assert found.plan.objective >= cheapest(replace(fleet, held={})) * (1 - 1e-7)
    assert found.lp_usd <= exactly(seed) * (1 + 1e-6)


def test_nearly_all_are_as_cheap_as_the_exact_program() -> None:
    known = [seed for seed in SEEDS if given(seed) is not None]
    found = {seed: c.plan.objective for seed in known if (c := counted(seed)) is not None}
    assert len(found) >= 0.9 * len(known)
    best = [seed for seed, usd in found.items() if usd <= exactly(seed) * (1 + 1e-3)]
    assert len(best) >= 0.9 * len(found)


def test_nothing_is_put_together_that_would_not_cost_less() -> None:
    fleet = given(1012)
    assert fleet is not None
    found = counts_by_slot([fleet], "cbc", soon())
    assert found is not None
    assert counts_by_slot([fleet], "cbc", soon(), found.lp_usd * 0.99) is None
    assert counts_by_slot([fleet], "cbc", time.monotonic() - 1) is None


def test_quotas_and_a_budget_hold_at_once() -> None:
    """Rows about an offer that is bought by the hour alone have no columns but those of plans of slots."""
    case = shared_box()
    offers = {g: replace(offer, max_instances=1) for g, offer in case.offers.items()}
    fleet = replace(case, offers=offers, budget_usd_per_month=10 * 730.0).fleet
    hosted = replace(fleet, recipes=tuple(r for r in fleet.recipes if r.self_hosted))
    found = counts_by_slot([hosted], "cbc", soon())
    assert found is not None
    assert found.plan.objective == pytest.approx(9 * 730)
    assert found.lp_usd == pytest.approx(9 * 730)
    tight = replace(hosted, budget_usd_per_month=8.9 * 730)
    assert counts_by_slot([tight], "cbc", soon()) is None


def cheapest_by_enumeration(slot: Slot, usd: np.ndarray, room: np.ndarray) -> float:
    """All servings of all recipes that have a choice, with what is bought by the hour for them."""
    best = np.inf
    for own in product(*(range(len(choice.columns)) for choice in slot.choices)):
        chosen = list(zip(slot.choices, own, strict=True))
        if any(c.load[k] < min(r, c.load.max()) - 1e-9 for (c, k), r in zip(chosen, room.tolist(), strict=True)):
            continue
        use = slot.base + sum(choice.use[k] for choice, k in chosen)
        cost = sum(float(usd[choice.columns[k]]) for choice, k in chosen)
        for k, (offer, held) in enumerate(zip(slot.offers, slot.held, strict=True)):
            bought = hourly_purchase(offer, held, use[2 * k : 2 * k + 1], use[2 * k + 1 : 2 * k + 2])[:2]
            for n, column in zip(bought, slot.bought[k], strict=True):
                cost += float(n[0]) * float(usd[column]) if column is not None else (np.inf if n[0] else 0.0)
            if offer.max_instances is not None and held + bought[0][0] + bought[1][0] > offer.max_instances:
                cost = np.inf
        best = min(best, cost)
    return best


@for_each("seed", [*SEEDS, *WAITING])
def test_the_first_plan_of_a_slot_is_the_cheapest_at_any_prices(seed: int) -> None:
    """Also of those with room for so much waiting work."""
    fleet = given(seed)
    if fleet is None:
        return
    model, v = master(fleet)
    large = sorted(g for g in fleet.recipes_on if fleet.offers[g].box > 1)
    drawn = np.random.default_rng(seed)
    for t in range(len(fleet.slot_hours)):
        slot = Slot(fleet, v, t, large)
        if not slot.choices or np.prod([len(choice.columns) for choice in slot.choices]) > 2_000:
            continue
        usd = model.cost * drawn.uniform(0.5, 1.5, model.n_columns)
        needed = np.array([float(c.load.max()) * drawn.uniform(0.0, 1.2) for c in slot.choices])
        for room in (None, needed):
            plan = next(slot.plans(usd, usd, room=room), None)
            least = cheapest_by_enumeration(slot, usd, 0 * needed if room is None else room)
            assert (plan is None) == (least == np.inf)
            if plan is not None:
                assert float(usd[slot.columns] @ plan) == pytest.approx(least, rel=1e-9, abs=1e-9)
            if plan is not None and room is not None:
                most = np.array([c.load.max() for c in slot.choices])
                assert (slot.room_of(plan) >= np.minimum(room, most) - 1e-9).all()


def together(fleet: FleetProblem | None) -> SlotLp | None:
    """The LP over plans of slots, with all that pay."""
    if fleet is None:
        return None
    model, v = master(fleet)
    lp = WarmLp(model)
    if lp.solve() is None:
        return None
    slots = SlotLp(fleet, model, v, lp.prices, lp.objective)
    return slots if slots.priced(soon()) is not None and slots.slots else None


def left_with(slots: SlotLp, chosen: list[int]) -> float:
    """What the LP costs that is left with these plans."""
    assert [slots.plans[n].slot for n in chosen] == list(range(len(slots.slots)))
    x = slots.lp.solve()
    assert x is not None
    assert x[[slots.column(n) for n in chosen]] == pytest.approx(1.0)
    assert slots.lp.objective >= slots.usd * (1 - 1e-9)
    return slots.lp.objective


def test_every_slot_has_a_plan_of_its_own_and_another_for_less_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of slots, wherever the LP costs less: what is chosen then is what the LP is left with."""
    monkeypatch.setattr(slot_windows, "NEAR_FRAC", -1.0)
    compared = 0
    for seed in (*SEEDS[:12], *WAITING):
        slots = together(given(seed))
        chosen = slot_choice.one_for_each_slot(slots, soon()) if slots is not None else None
        if slots is None or chosen is None:
            continue
        before = left_with(slots, chosen)
        again = slot_windows.chosen_in_windows(slots, chosen, soon())
        assert left_with(slots, again) <= before * (1 + 1e-9)
        compared += 1
    assert compared >= 10


def hours_of_a_day(seed: int) -> FleetProblem:
    """Three kinds of work that may wait four hours, and one that may not, in boxes of eight GPUs that they share."""
    drawn, hours = np.random.default_rng(seed), np.arange(24)
    exact = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
    window = np.array([[(t - h) % 24 < 4 for t in hours] for h in hours])

    def pool(name: str, gpus: int, mean: float, window: np.ndarray | None) -> Pool:
        daily = 1 + 0.6 * np.sin(2 * np.pi * (hours - drawn.integers(24)) / 24)
        rates = mean * (daily * drawn.uniform(0.9, 1.1, 24))[:, None]
        of = Deployment(f"on {gpus}", "box", gpus, np.ones(1), exact)
        return Pool(name, (name,), rates, 1.0, False, (of,), (), window=window)

    kinds = (("a", 1, 5.2), ("b", 4, 1.3), ("c", 2, 2.6))
    pools = (pool("now", 2, 4.3, None), *(pool(*kind, window) for kind in kinds))
    return Case(pools, {"box": Offer("box", "h100", 8, 10.0)}, np.full(24, 730 / 24), np.zeros(24, dtype=int)).fleet


def slots_of_a_day(seed: int) -> SlotLp:
    slots = together(hours_of_a_day(seed))
    assert slots is not None
    return slots


@pytest.mark.parametrize("seed", [0])
def test_windows_find_what_slots_one_after_the_other_do_not(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A box for an hour is more than a percent of the cost, and one fewer will do; exactly, none cheaper is at hand."""
    monkeypatch.setattr(slot_windows, "WIDTHS", (4,))  # narrow ones are solved, however busy the machine is
    monkeypatch.setattr(slot_windows, "WINDOW_S", 60.0)
    slots = slots_of_a_day(seed)
    one_by_one = slot_choice.one_for_each_slot(slots, soon())
    assert one_by_one is not None
    first = left_with(slots, one_by_one)
    then = left_with(slots, slot_windows.chosen_in_windows(slots, one_by_one, soon()))
    assert then < first * (1 - 0.01)
    assert then >= solve_mip(slots.program(), solver="highs", gap_frac=1e-3, time_limit_s=3).bound * (1 - 1e-9)


def test_what_is_beyond_the_best_of_a_slot_adds_up_to_what_a_choice_costs_more() -> None:
    """At the prices of the LP no plan that it has is below the best of its slot, and the sum is what is lost but for
    work that waits longer than it pays for."""
    slots = slots_of_a_day(1)
    every = slots.beyond_the_best(list(range(len(slots.plans))))
    assert every.min() >= -1e-6 * slots.usd
    chosen = slot_choice.one_for_each_slot(slots, soon())
    assert chosen is not None
    lost = left_with(slots, chosen) - slots.usd
    assert lost > 0
    assert slots.beyond_the_best(chosen).sum() <= lost + 1e-6 * slots.usd


@pytest.mark.parametrize("seed", [0])
def test_work_that_waits_fills_boxes_from_hour_to_hour(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No API does what is left over, so windows have to close; a box for an hour is more than a percent of the cost."""
    # however busy the machine is, slots are chosen again
    monkeypatch.setattr("solvers.heuristics.counts_by_slot.WINDOWS_TAKE", 100.0)
    monkeypatch.setattr(slot_windows, "WIDTHS", (4,))  # narrow ones are solved
    monkeypatch.setattr(slot_windows, "WINDOW_S", 60.0)
    fleet = hours_of_a_day(seed)
    found = counts_by_slot([fleet], "cbc", soon())
    assert found is not None
    assert limits_are_kept(fleet, found.plan)
    assert found.lp_usd <= found.plan.objective <= 1.04 * found.lp_usd
    for path in found.plan.paths:
        pool = fleet.pools[path.pool]
        if pool.window is not None:
            assert flows_of(pool, path, fleet.slot_hours).api.sum() == pytest.approx(0.0, abs=1e-6)
    assert _all_work_is_done(fleet, found.plan)
    least = {r.key: r.only(r.first_of_each_slot(r.uses[0].load)) for r in fleet.recipes if r.deferral is not None}
    for key, idle in least.items():
        paths = tuple(idle if path.key == key else path for path in found.plan.paths)
        assert not _all_work_is_done(fleet, replace(found.plan, paths=paths))


def test_an_hour_without_work_or_room_for_any_stands_in_nobody_s_way() -> None:
    """Work that must not wait, and none in one hour: there is no row for that hour, and nothing to leave undone."""
    fleet = hours_of_a_day(0)
    pools = []
    for pool in fleet.pools.values():
        rates = pool.rate_rps * (np.arange(24) != 5)[:, None] if pool.key == "a" else pool.rate_rps
        window = np.eye(24, dtype=bool) if pool.key == "a" else pool.window
        pools.append(replace(pool, rate_rps=rates, window=window))
    idle = Case(tuple(pools), fleet.offers, fleet.slot_hours, fleet.slot_month).fleet
    model, _ = master(idle)
    rows = {key for key in model.row_keys if key[0] == "work-done"}
    assert 0 < len(rows) < 24 * sum(recipe.deferral is not None for recipe in idle.recipes)
    found = counts_by_slot([idle], "cbc", soon())
    assert found is not None
    assert _all_work_is_done(idle, found.plan)


def test_where_time_is_short_less_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the time that is left is over at every look at the clock, yet all slots have plans in the end."""
    slots = slots_of_a_day(0)
    tried: list[int] = []
    with_room = slots.with_room
    monkeypatch.setattr(slots, "with_room", lambda s, shares, most: tried.append(most) or with_room(s, shares, most))
    passed = (1 - 0.5**n for n in count(1))
    monkeypatch.setattr(slot_choice, "time", SimpleNamespace(monotonic=lambda: next(passed)))
    chosen = slot_choice.one_for_each_slot(slots, 1.0)
    assert chosen is not None
    assert len(chosen) == len(slots.slots)
    assert 1 in tried


def knapsacks(seed: int) -> Model:
    """Thirty slots with five plans each that differ in what they cost and do, and as much to do as half of it all."""
    drawn = np.random.default_rng(seed)
    done = np.sort(drawn.uniform(0.0, 10.0, (30, 5)), axis=1)
    usd = 100.0 + np.sort(drawn.uniform(0.0, 50.0, (30, 5)), axis=1)
    columns = [Column(("rest",), 40.0)]
    columns += [Column(("plan", t, k), float(usd[t, k]), 0.0, 1.0, True) for t in range(30) for k in range(5)]
    rows = [Row(("one", t), [(1 + 5 * t + k, 1.0) for k in range(5)], "==", 1.0) for t in range(30)]
    rows.append(Row(("done",), [(0, 1.0), *((1 + k, float(d)) for k, d in enumerate(done.ravel()))], ">=", 150.0))
    return build_model(columns, rows)


@for_each("seed", range(6))
def test_a_part_of_a_program_is_solved_while_the_rest_stays(seed: int) -> None:
    """From the dearest plan of each slot: ten slots have the cheapest there is beside the others, and no more."""
    model = knapsacks(seed)
    dearest = np.zeros(model.n_columns)
    dearest[5::5] = 1.0
    stays = np.zeros(model.n_columns, dtype=bool)
    stays[1 : 1 + 5 * 20] = True
    then = solve_part(model, stays, dearest, 10.0)
    assert then is not None
    assert then[stays] == pytest.approx(dearest[stays])
    exact = solve_mip(model.with_fixed(stays, dearest[stays]), solver="cbc")
    assert exact.objective is not None
    assert exact.objective - 1e-6 <= model.objective(then) <= exact.objective * (1 + 1e-4) + 1e-6
    assert solve_part(model, stays, then, 10.0) is None or model.objective(then) > exact.objective


def test_columns_join_an_lp_that_was_solved() -> None:
    model = knapsacks(7)
    first = np.arange(model.n_columns) < 1 + 5 * 20
    small = model.without_columns(~first, np.zeros(model.n_columns)).without_empty_rows()
    small = small.only_rows(np.array([n for n, key in enumerate(small.row_keys) if key != ("one", 5)]))
    lp = WarmLp(small)
    assert lp.solve() is not None
    before = lp.objective
    at = small.row_keys.index(("done",))
    more = [(1.0, np.array([at]), np.array([20.0])), (2.0, np.array([at]), np.array([1.0]))]
    lp.add_columns(more)
    x = lp.solve()
    whole = solve_lp(small.with_shares(more))
    assert x is not None
    assert lp.objective == pytest.approx(whole.objective)
    assert lp.objective < before
    assert dual_bound(small.with_shares(more), lp.prices) == pytest.approx(lp.objective)


def test_rows_that_come_for_ever_do_not_keep_it_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows are said to be new after every LP, as where they leave and come back."""
    fleet = case_of(1012).fleet
    alone = ColumnGeneration(fleet, lambda n, bound: None)
    alone.run(CONVERGED_FRAC)
    monkeypatch.setattr(ColumnGeneration, "_say_which_boxes_are_whole", lambda *_: True)
    endless = ColumnGeneration(fleet, lambda n, bound: None)
    endless.run(CONVERGED_FRAC)
    assert endless.rounds < min(MAX_ROUNDS, alone.rounds + 20)
    assert endless.bound <= alone.bound * (1 + 1e-6)


def test_an_lp_that_stood_before_it_knew_of_boxes_is_told_of_them_all_the_same() -> None:
    """LPs in a row that cost the same end rows about boxes only where there were such rows."""
    told = 0
    for seed in range(1000, 1016):
        fleet = case_of(seed).fleet
        alone = ColumnGeneration(fleet, lambda n, bound: None)
        alone.run(CONVERGED_FRAC)
        stood = ColumnGeneration(fleet, lambda n, bound: None)
        stood.run(CONVERGED_FRAC, sharpen=False)
        before, stood.stood = stood.lp_usd, STANDS_ROUNDS + 1
        stood.run(CONVERGED_FRAC)
        if alone.feasible and alone.lp_usd > before * (1 + 1e-4):
            told += 1
            assert stood.bound == pytest.approx(alone.bound, rel=2 * CONVERGED_FRAC)
    assert told >= 2


def test_rows_about_boxes_begin_with_the_lp_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where prices stopped before such rows, the next LP has the first of them: nothing is solved twice."""
    rows: list[int] = []
    solve = lazy_rows.solve_lp_centrally

    def counted(model: Model) -> LpSolution:
        rows.append(sum(key[0] in ("own-boxes", "rounded") for key in model.row_keys))
        return solve(model)

    monkeypatch.setattr(lazy_rows, "solve_lp_centrally", counted)
    begun = 0
    for seed in range(1000, 1016):
        generation = ColumnGeneration(case_of(seed).fleet, lambda n, bound: None)
        generation.run(CONVERGED_FRAC, sharpen=False)
        assert not any(rows)
        rows.clear()
        generation.run(CONVERGED_FRAC)
        begun += bool(rows and rows[0])
        if any(rows) and generation.feasible:
            assert rows[0]
        rows.clear()
    assert begun >= 2


def rounds_with(monkeypatch: pytest.MonkeyPatch, method: str) -> list[int]:
    """The rounds of column generation in which it calls one of its methods, from now on."""
    rounds: list[int] = []
    call = getattr(ColumnGeneration, method)
    monkeypatch.setattr(ColumnGeneration, method, lambda self, *at: rounds.append(self.rounds) or call(self, *at))
    return rounds


def test_the_last_rounds_have_no_new_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only few rounds are left, prices come nearer to the LP as it is."""
    asked = rounds_with(monkeypatch, "_say_which_boxes_are_whole")
    fewer = 0
    for seed in range(1000, 1016):
        alone = ColumnGeneration(case_of(seed).fleet, lambda n, bound: None)
        alone.run(CONVERGED_FRAC)
        often = len(asked)
        asked.clear()
        ends = ColumnGeneration(case_of(seed).fleet, lambda n, bound: None)
        ends.run(CONVERGED_FRAC, late=lambda needed_s, ends=ends: needed_s > ends.next_s)  # type: ignore[misc]
        assert len(asked) <= 1
        if alone.feasible:
            assert ends.bound <= alone.lp_usd * (1 + 1e-6)
        fewer += len(asked) < often
        asked.clear()
    assert fewer >= 2


def test_no_round_begins_that_would_end_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a bound took so long that another cannot be had in time, rounds end with the one that is known."""
    bounds = rounds_with(monkeypatch, "_all_that_pays")
    monkeypatch.setattr(column_generation, "ROUNDS_BETWEEN_MIXES", 2)
    sooner = 0
    for seed in range(1000, 1016):
        alone = ColumnGeneration(case_of(seed).fleet, lambda n, bound: None)
        alone.run(CONVERGED_FRAC)
        often = len(bounds)
        bounds.clear()
        ends = ColumnGeneration(case_of(seed).fleet, lambda n, bound: None)
        ends.run(CONVERGED_FRAC, late=lambda needed_s: bool(bounds))
        if ends.feasible:
            assert bounds == [ends.rounds]
            sooner += often > 1
        bounds.clear()
    assert sooner >= 2
