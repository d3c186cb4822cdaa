"""The checker refuses the plan of a horizon when any one thing in it is not so, and says which."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from planner.case.case import case_from_json
from planner.checker import check_plan
from tests.support.horizon_plans import OFFER, horizon_plan, worst_case_plan
from tests.support.rows import for_each
from tests.support.tampering import (
    changed,
    is_a_remark,
    is_refused,
    kinds_of,
    passes_unlisted,
    value_at,
    with_value,
)

Json = dict[str, Any]


@pytest.fixture(scope="module")
def good() -> Json:
    return json.loads(horizon_plan().to_json())


def rehashed(plan: Json) -> None:
    plan["case_hash"] = case_from_json(plan["case"]).hash()


def quarter(plan: Json, number: int, scenario: str | None) -> Json:
    return next(q for q in plan["quarters"] if (q["quarter"], q["scenario"]) == (number, scenario))


def rehash_quarter(q: Json) -> None:
    q["plan"]["case_hash"] = case_from_json(q["plan"]["case"]).hash()


def test_a_true_plan_passes(good: Json) -> None:
    assert check_plan(good) == []
    assert [c["scenario"] for c in good["commitments"]] == [None, "high"]
    lines = quarter(good, 0, None)["plan"]["fleet"]
    assert [line["instances_by_slot"][0] for line in lines if line["purchase"] == "held"] == [3]


@pytest.mark.parametrize("gap_frac", [0.0, 1.9e-6])
def test_what_the_search_calls_optimal_may_be_called_so(good: Json, gap_frac: float) -> None:
    """A gap between one and two millionths was optimal to the search and not to the checker."""
    proved = copy.deepcopy(good)
    bound = (1 - gap_frac) * proved["counted_usd"]
    proved |= {"bound_usd": bound, "gap_frac": gap_frac, "status": "optimal"}
    proved["curve"]["points"][2]["gap_frac"] = gap_frac
    assert not [problem for problem in check_plan(proved) if "called optimal" in problem or "gap" in problem]


def test_a_true_plan_of_the_worst_case_passes() -> None:
    assert check_plan(worst_case_plan().as_json()) == []


def _mean_for_the_worst(plan: Json) -> None:
    mean = sum(s["probability_frac"] * s["counted_usd"] for s in plan["scenarios"])
    plan |= {"counted_usd": mean, "bound_usd": mean, "gap_frac": 0.0, "status": "optimal"}


@for_each(
    ("change", "words"),
    [
        (_mean_for_the_worst, "counted_usd, in the worst case"),
        (lambda p: p.update(risk="expected"), "what is minimized is worst-case"),
        (lambda p: p.update(worst_scenario="low"), "the worst scenario is high with $"),
        (lambda p: p["curve"]["points"][3].update(worst_usd=2.0, p90_usd=2.0, expected_usd=2.0), "than any plan can"),
    ],
)
def test_one_change_of_the_worst_case_is_refused(change: Callable[[Json], None], words: str) -> None:
    plan = json.loads(worst_case_plan().to_json())
    change(plan)
    assert [problem for problem in check_plan(plan) if words in problem]


def _set(*path: Any) -> Callable[[Json], None]:
    *above, last, value = path

    def change(plan: Json) -> None:
        node: Any = plan
        for step in above:
            node = node[step]
        node[last] = value(node[last]) if callable(value) else value

    return change


def _more(x: float) -> float:
    return x + 1.0


def _long_term(plan: Json) -> None:
    plan["case"]["purchase"] = ["on-demand", "reserved-1y", "reserved-3y"]
    plan["commitments"][1]["term"] = "reserved-3y"
    rehashed(plan)


def _liability(plan: Json) -> None:
    _long_term(plan)
    plan["case"]["future"]["max_liability_usd"] = 1.0
    rehashed(plan)


def _other_demand(plan: Json) -> None:
    q = quarter(plan, 1, "high")
    q["plan"]["case"]["workloads"][0]["month_factors"] = [2.5]
    rehash_quarter(q)


def _other_weight(plan: Json) -> None:
    q = quarter(plan, 0, None)
    q["plan"]["case"]["months"][0]["weight"] += 0.25
    q["plan"]["case"]["months"][1]["weight"] -= 0.25
    rehash_quarter(q)


def _one_more_held(plan: Json) -> None:
    q = quarter(plan, 1, "low")
    q["plan"]["case"]["held"][0]["instances"] += 1
    rehash_quarter(q)


def _other_prices(plan: Json) -> None:
    q = quarter(plan, 1, "low")
    q["plan"]["case"]["offers"][OFFER]["prices"]["on_demand"]["usd_per_h"] *= 0.5
    rehash_quarter(q)


def _other_day(plan: Json) -> None:
    q = quarter(plan, 1, "low")
    q["plan"]["case"]["starts"] = "2027-07-01"
    rehash_quarter(q)


def _more_likely(plan: Json) -> None:
    """Sums are made to fit, so that nothing but the probabilities themselves is wrong."""
    for scenarios in (plan["case"]["future"]["scenarios"], plan["scenarios"]):
        scenarios[0]["probability_frac"] += 0.05
    cost = plan["scenarios"][0]["cost_usd"]
    plan["expected_cost_usd"] += 0.05 * cost
    plan["counted_usd"] += 0.05 * (cost - plan["held_usd"])
    rehashed(plan)


def _fewer_ways_to_buy(plan: Json) -> None:
    q = quarter(plan, 1, "low")
    q["plan"]["case"]["purchase"] = ["reserved-1y"]
    rehash_quarter(q)


def _proved(status: str) -> Callable[[Json], None]:
    return lambda plan: plan.update(bound_usd=plan["counted_usd"], gap_frac=0.0, status=status)


def _twice(plan: Json) -> None:
    plan["commitments"].append(copy.deepcopy(plan["commitments"][0]))


CHANGES: dict[str, tuple[Callable[[Json], None], str]] = {
    "format": (_set("format", "fleetplan-horizon/0"), "expected a plan of format"),
    "a key too many": (_set("surprise", 1), "surprise"),
    "hash": (_set("case_hash", "sha256:0"), "its hash differs"),
    "a quarter is missing": (lambda p: p["quarters"].pop(), "there is not one plan for"),
    "probability": (_set("scenarios", 0, "probability_frac", 0.7), "scenarios and their probabilities"),
    "probabilities": (_more_likely, "the probabilities of the scenarios add up to 105"),
    "ways to buy": (_fewer_ways_to_buy, "quarter 2, low: the ways to buy of its case differ"),
    "a quarter's cost is missing": (_set("scenarios", 0, "by_quarter_usd", [1.0]), "a cost for each quarter"),
    "not shared": (_set("commitments", 0, "scenario", "low"), "what is signed now is signed in every scenario"),
    "unknown scenario": (_set("commitments", 1, "scenario", "other"), "a quarter or scenario that does not exist"),
    "not on the menu": (_set("commitments", 1, "term", "reserved-3y"), "is not on the menu"),
    "long terms": (_long_term, "a term of more than a year outlasts the horizon"),
    "liability": (_liability, "is owed for long terms after the horizon"),
    "signed twice": (_twice, "signed in 2 lines"),
    "first day": (_set("commitments", 0, "first_day", "2027-01-02"), "its first day is 2027-01-01"),
    "last day": (_set("commitments", 0, "last_day", "2027-12-30"), "its last day is 2027-12-31"),
    "price": (_set("commitments", 0, "usd_per_h", lambda x: 0.9 * x), "its price usd_per_h"),
    "upfront": (_set("commitments", 0, "upfront_usd", 100.0), "upfront_usd is 0"),
    "inside": (_set("commitments", 0, "inside_usd", _more), "inside_usd"),
    "beyond": (_set("commitments", 0, "beyond_usd", _more), "beyond_usd"),
    "counted": (_set("commitments", 1, "counted_usd", _more), "counted_usd"),
    "instances": (_set("commitments", 0, "instances", 3), "held as reserved-1y"),
    "demand": (_other_demand, "quarter 2, high: the workloads of its case"),
    "weights": (_other_weight, "quarter 1: the weight of month 1"),
    "held": (_one_more_held, "quarter 2, low: the number of"),
    "prices of a quarter": (_other_prices, "quarter 2, low: the offers of its case differ"),
    "first day of a quarter": (_other_day, "quarter 2, low: the first day of its case"),
    "a quarter's own plan": (
        _set("quarters", 1, "plan", "cost_usd_per_month", _more),
        "quarter 2, low: cost_usd_per_month is",
    ),
    "held_usd": (_set("held_usd", _more), "held_usd is"),
    "by quarter": (_set("scenarios", 1, "by_quarter_usd", 0, _more), "high: what quarter 1 costs"),
    "at the API": (_set("scenarios", 1, "baseline_by_quarter_usd", 1, _more), "high: quarter 2 at the API baseline"),
    "cost": (_set("scenarios", 0, "cost_usd", _more), "low: cost_usd"),
    "penalty": (_set("scenarios", 0, "penalty_usd", 1.0), "low: penalty_usd"),
    "regret": (_set("scenarios", 0, "regret_usd", _more), "low: regret_usd"),
    "regret of nothing": (_set("scenarios", 0, "if_known_usd", None), "a regret, but no plan with foresight"),
    "below its bound": (_set("scenarios", 0, "if_known_bound_usd", 1e9), "less than the bound of plans with foresight"),
    "expected": (_set("expected_cost_usd", _more), "expected_cost_usd"),
    "what a scenario comes to": (_set("scenarios", 1, "counted_usd", _more), "high: counted_usd"),
    "another measure": (_set("risk", "worst-case"), "what is minimized is expected"),
    "another worst scenario": (_set("worst_scenario", "low"), "the worst scenario is high with $"),
    "no such worst scenario": (_set("worst_scenario", "other"), "the worst scenario is given as other"),
    "counted in all": (_set("counted_usd", _more), "counted_usd"),
    "bound": (_set("bound_usd", 1e9), "less than its bound"),
    "gap": (_set("gap_frac", 0.001), "gap_frac"),
    "optimal": (_set("status", "optimal"), "called optimal"),
    "called less than it is": (_proved("within-gap"), "called within-gap, but its bound proves it optimal"),
    "name": (_set("name", "another"), "the name of the case is growth, not another"),
    "middle": (_set("middle", "counted_usd", 1.0), "middle scenario costs less than the bound"),
    "middle bound": (_set("middle", "bound_usd", 1e12), "middle scenario costs less than its own bound"),
    "middle name": (_set("middle", "scenario", "none"), "the middle scenario is"),
    "curve below the bound": (_set("curve", "points", 1, "expected_usd", 1.0), "it costs less than any plan can"),
    "curve's gap": (_set("curve", "points", 1, "gap_frac", 25.0), "its gap is 25"),
    "curve twice": (_set("curve", "points", 0, "instances", 1), "a number of instances twice"),
    "long terms lose": (_set("long_terms_would_save_usd", -5.0), "would save a negative amount"),
    "curve of something else": (_set("curve", "term", "reserved-3y"), "which is not signed now"),
    "curve beside the plan": (_set("curve", "points", 2, "expected_usd", _more), "2 instances: expected_usd"),
    "curve P90": (_set("curve", "points", 2, "p90_usd", lambda x: 0.9 * x), "2 instances: p90_usd"),
    "curve's gap at the plan": (_set("curve", "points", 2, "gap_frac", 0.5), "2 instances: gap_frac is 0.02"),
    "curve worst": (_set("curve", "points", 1, "worst_usd", 1.0), "its worst case is not the worst"),
    "curve with holes": (_set("curve", "points", 1, "p90_usd", None), "some figures are missing"),
}


@for_each("name", CHANGES)
def test_one_change_is_refused(good: Json, name: str) -> None:
    change, words = CHANGES[name]
    plan = copy.deepcopy(good)
    change(plan)
    problems = check_plan(plan)
    assert any(words in problem for problem in problems), problems
    assert all(problem and problem.isprintable() for problem in problems)


def test_what_can_be_changed_in_a_horizon_is_a_remark(good: Json) -> None:
    assert passes_unlisted(good, 1, ("case", "quarters")) == set()


def test_the_plans_of_quarters_are_held_to_the_same(good: Json) -> None:
    """Their own tests change every leaf; what matters here is that they are checked, rejections included."""
    of_a_quarter = {"options.*.option", "rejected.*.reason", "slots.*.label", "fleet.*.usd_per_h", "proof.solver"}
    kinds = kinds_of(good)
    for kind in sorted(of_a_quarter):
        place = kinds[f"quarters.*.plan.{kind}"][-1]
        lie = with_value(good, place, changed(value_at(good, place)))
        assert is_refused(lie) != is_a_remark(place), kind


OF_QUARTERS = {"format": "fleetplan-plan/6", "quarters": []}


@for_each("data", [None, [], 3, "x", {}, OF_QUARTERS, {"format": float("nan")}])
def test_whatever_is_given_is_refused_without_an_exception(data: Any) -> None:
    assert check_plan(data)
