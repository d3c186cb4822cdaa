"""Counts put together slot by slot: every rule kept, never cheaper than the exact program, nearly always as cheap."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from oracle.cases import case_of
from oracle.plans import check_plan
from test_polishing import shared_box

from problems.fleet import Fleet, master
from problems.model import Column, Model, Row, build_model
from problems.purchase import hourly_purchase
from solvers.check import dual_bound, verify
from solvers.column_generation import CONVERGED_FRAC, MAX_ROUNDS, ColumnGeneration
from solvers.incumbent import each_by_itself, limits_are_kept
from solvers.result import Status
from solvers.slot_choice import one_for_each_slot
from solvers.slot_plans import Counted, _Slot, counts_by_slot
from solvers.solve import WarmLp, solve_lp, solve_mip

SEEDS = [*range(300, 308), *range(1000, 1030)]


def soon() -> float:
    return time.monotonic() + 20


def given(seed: int) -> Fleet | None:
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
    return counts_by_slot(fleet, "cbc", soon()) if fleet is not None else None


@cache
def exactly(seed: int) -> float:
    """the cheapest plan with these recipes and commitments"""
    fleet = given(seed)
    assert fleet is not None
    return cheapest(fleet)


def cheapest(fleet: Fleet) -> float:
    result = solve_mip(master(fleet)[0], solver="highs")
    assert result.status is Status.OPTIMAL
    assert result.objective is not None
    return result.objective


@pytest.mark.parametrize("seed", SEEDS)
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
    found = counts_by_slot(fleet, "cbc", soon())
    assert found is not None
    assert counts_by_slot(fleet, "cbc", soon(), found.lp_usd * 0.99) is None
    assert counts_by_slot(fleet, "cbc", time.monotonic() - 1) is None


def test_quotas_and_a_budget_hold_at_once() -> None:
    """Rows about an offer that is bought by the hour alone have no columns but those of plans of slots."""
    case = shared_box()
    offers = {g: replace(offer, max_instances=1) for g, offer in case.offers.items()}
    fleet = replace(case, offers=offers, budget_usd_per_month=10 * 730.0).fleet
    hosted = replace(fleet, recipes=tuple(r for r in fleet.recipes if r.self_hosted))
    found = counts_by_slot(hosted, "cbc", soon())
    assert found is not None
    assert found.plan.objective == pytest.approx(9 * 730)
    assert found.lp_usd == pytest.approx(9 * 730)
    tight = replace(hosted, budget_usd_per_month=8.9 * 730)
    assert counts_by_slot(tight, "cbc", soon()) is None


def cheapest_by_enumeration(slot: _Slot, usd: np.ndarray) -> float:
    """All servings of all recipes that have a choice, with what is bought by the hour for them."""
    best = np.inf
    for own in product(*(range(len(choice.columns)) for choice in slot.choices)):
        chosen = list(zip(slot.choices, own, strict=True))
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


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_plan_of_a_slot_is_the_cheapest_at_any_prices(seed: int) -> None:
    fleet = given(seed)
    if fleet is None:
        return
    model, v = master(fleet)
    large = sorted(g for g in fleet.recipes_on if fleet.offers[g].box > 1)
    drawn = np.random.default_rng(seed)
    for t in range(len(fleet.slot_hours)):
        slot = _Slot(fleet, v, t, large)
        if not slot.choices or np.prod([len(choice.columns) for choice in slot.choices]) > 2_000:
            continue
        usd = model.cost * drawn.uniform(0.5, 1.5, model.n_columns)
        plans = slot.plans(usd, usd, 3, np.inf)
        least = cheapest_by_enumeration(slot, usd)
        assert (not plans) == (least == np.inf)
        if plans:
            assert float(usd[slot.columns] @ plans[0]) == pytest.approx(least, rel=1e-9, abs=1e-9)
            assert not any(np.array_equal(plans[0], again) for again in slot.plans(usd, usd, 3, np.inf))


def knapsacks(seed: int) -> tuple[Model, np.ndarray]:
    """Thirty slots with five plans each that differ in what they cost and do, and as much to do as half of it all."""
    drawn = np.random.default_rng(seed)
    done = np.sort(drawn.uniform(0.0, 10.0, (30, 5)), axis=1)
    usd = 100.0 + np.sort(drawn.uniform(0.0, 50.0, (30, 5)), axis=1)
    columns = [Column(("rest",), 40.0)]
    columns += [Column(("plan", t, k), float(usd[t, k]), 0.0, 1.0, True) for t in range(30) for k in range(5)]
    slots = np.repeat(np.arange(30), 5)
    rows = [Row(("one", t), [(1 + 5 * t + k, 1.0) for k in range(5)], "==", 1.0) for t in range(30)]
    rows.append(Row(("done",), [(0, 1.0), *((1 + k, float(d)) for k, d in enumerate(done.ravel()))], ">=", 150.0))
    return build_model(columns, rows), slots


@pytest.mark.parametrize("seed", range(4))
def test_slots_are_chosen_again_while_the_others_stay(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, slots = knapsacks(seed)
    best = solve_mip(model, solver="highs").objective
    assert best is not None
    poor = np.zeros(model.n_columns)
    poor[0], poor[1::5] = 150.0, 1.0
    programs: list[int] = []

    def first_a_poor_one(part: Model, **asked: object) -> object:
        programs.append(part.n_columns)
        result = solve_mip(part, **asked)  # type: ignore[arg-type]
        return replace(result, x=poor, objective=model.objective(poor)) if len(programs) == 1 else result

    monkeypatch.setattr("solvers.slot_choice.solve_mip", first_a_poor_one)
    x = one_for_each_slot(model, slots, "cbc", soon())
    assert x is not None
    assert not verify(model, x)
    assert best * (1 - 1e-7) <= model.objective(x) <= 1.02 * best
    assert max(programs[1:]) <= 1 + 5 * 12


def test_columns_join_an_lp_that_was_solved() -> None:
    model, _ = knapsacks(7)
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
