"""Lines below the headline: each where it applies, and not elsewhere."""

from __future__ import annotations

from functools import cache

import pytest

import planner
from planner.plan.plan import Binding, Plan
from planner.reports.document import plain
from planner.reports.first_screen import in_a_sentence
from planner.reports.glance import (
    hours_without_replicas,
    losses,
    minimum_decides,
    objectives_of_others,
    places,
    two_answers,
)
from planner.reports.phrases import baseline_notes, beside_what_apis_may_serve, longer_terms, saving
from tests.support.shared_plans import plan_of
from tests.support.shown import first_screen, unwrapped

CHAT = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 400k, shape: business-hours}
    tokens: {input: 800, output: 200}
    slo: {ttft_p95: 2s, tpot_p95: 60ms}
menu: {gpus: [l40s], quantizations: [fp8], providers: [aws], regions: [us-east-1], purchase: [on-demand]}
baseline: openai/gpt-4o-mini
"""
BARRED = "    api: forbidden\n"


@cache
def planned(text: str = CHAT) -> Plan:
    return plan_of(planner.case_from_text(text))


@cache
def alone() -> Plan:
    return planned(CHAT.replace("menu:", f"{BARRED}menu:"))


def changed(plan: Plan, **fields: object) -> Plan:
    """The same with other figures of its one workload."""
    (w,) = plan.workloads
    return plan.model_copy(update={"workloads": (w.model_copy(update=fields),)})


def test_answers_of_two_models_are_named_as_such() -> None:
    plan = planned()
    assert plan.workloads[0].api == "openai/gpt-4o-mini"
    (line,) = two_answers(changed(plan, api_share_frac=0.23))
    assert line.startswith("chat is answered by two models: 23% by openai/gpt-4o-mini, the rest by llama-3.1-8b")
    assert not list(two_answers(changed(plan, api_share_frac=0.01))), "few users meet it"
    assert not list(two_answers(changed(plan, api_share_frac=1.0, models=())))
    assert not list(two_answers(alone()))
    same = plan.case.model_copy(update={"same_model_apis": ("openai/gpt-4o-mini",)})
    assert not list(two_answers(changed(plan, api_share_frac=0.23).model_copy(update={"case": same})))


def test_an_api_that_answers_all_has_promised_no_latency() -> None:
    bought = changed(planned(), api_share_frac=1.0)
    (line,) = objectives_of_others(bought)
    assert "chat: TTFT of 2 s is yours, not openai/gpt-4o-mini's" in line
    assert not list(objectives_of_others(planned())), "replicas answer most of it"
    assert not list(objectives_of_others(alone()))
    silent = planned(CHAT.replace("    slo: {ttft_p95: 2s, tpot_p95: 60ms}\n", ""))
    assert not list(objectives_of_others(changed(silent, api_share_frac=1.0))), "nobody gave an objective"


def bound_always(plan: Plan, utilization: float, hours: float = 730.0) -> Plan:
    (pool,) = plan.pools
    (d,) = pool.deployments
    idle = pool.model_copy(update={"deployments": (d.model_copy(update={"utilization_frac": utilization}),)})
    limit = Binding(limit="min_replicas", name=pool.key, value=2, hours_per_month=hours)
    return plan.model_copy(update={"pools": (idle,), "binding": (limit,)})


def test_a_minimum_that_decides_is_named_where_demand_does_not() -> None:
    (line,) = minimum_decides(bound_always(alone(), 0.04))
    assert line == (
        "chat: policy.min_replicas 2 decides how many replicas there are, not demand, which keeps them 4% busy"
    )
    assert not list(minimum_decides(bound_always(alone(), 0.6)))
    assert not list(minimum_decides(bound_always(alone(), 0.04, hours=300)))


def test_what_a_quantization_loses_is_said_where_somebody_should_look_at_answers() -> None:
    plan = alone()
    assert not list(losses(plan)), "1.5% in 8 bits"
    four = plan.case.quantizations["fp8"].model_copy(update={"weight_bits": 4.25})
    (line,) = losses(plan.model_copy(update={"case": plan.case.model_copy(update={"quantizations": {"fp8": four}})}))
    assert line.startswith("chat: llama-3.1-8b fp8 loses 1.") and "on MMLU (limit 2.0%)" in line
    poor = f"    quality: {{max_loss: 10%}}\n{BARRED}menu:"
    int4 = planned(CHAT.replace("menu:", poor).replace("[fp8]", "[int4-gptq]"))
    assert any("int4-gptq loses" in line and "(limit 10.0%)" in line for line in losses(int4))


def test_the_answer_says_where_and_whether_anybody_named_the_region() -> None:
    assert places(alone()) == "in aws us-east-1"
    silent = planned(CHAT.replace("menu:", f"{BARRED}menu:").replace("providers: [aws], regions: [us-east-1], ", ""))
    assert places(silent).endswith("us-east-1 (assumed)")
    assert "in aws us-east-1" in first_screen(alone())


def test_hours_in_which_an_api_answers_all() -> None:
    plan = planned()
    assert hours_without_replicas(alone()) == 0 and "answers everything" not in plain(in_a_sentence(alone()))
    (line, *_) = plan.fleet
    nights = tuple(0 if s.hour < 6 else 2 for s in plan.slots)
    off = plan.model_copy(update={"fleet": (line.model_copy(update={"instances_by_slot": nights}),)})
    assert hours_without_replicas(off) == pytest.approx(730 / 4)
    assert "which answers everything in 18" in plain(in_a_sentence(off))


def test_a_large_team_is_part_of_the_answer() -> None:
    team = CHAT.replace("menu:", f"{BARRED}menu:") + "policy: {engineers: {count: 1, usd_per_year: 120k}}\n"
    assert "$10,000 / month of it is for engineers" in plain(in_a_sentence(planned(team)))
    small = team.replace("120k", "1k")
    assert "for engineers" not in plain(in_a_sentence(planned(small)))


def test_what_is_saved_counts_only_what_an_api_may_serve() -> None:
    """A second workload that no API may serve, and that costs a lot at the baseline."""
    two = CHAT.replace("menu:", """  - name: letters
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 100k, shape: flat}
    tokens: {input: 800, output: 200}
    api: forbidden
menu:""").replace("gpt-4o-mini", "gpt-4o")  # fmt: skip
    plan = planned(two)
    part = beside_what_apis_may_serve(plan)
    assert part is not None and plan.baseline.by_workload is not None
    chat, letters = plan.baseline.by_workload
    assert part.there_usd == chat.cost_usd_per_month and chat.cost_usd_per_month > 4 * letters.cost_usd_per_month * 0.9
    assert part.own_usd == plan.cost_usd_per_month - plan.workloads[1].cost_usd_per_month
    share = 100 * (1 - part.own_usd / part.there_usd)
    assert saving(plan) == f"saves {share:.0f}% (${part.saves_usd:,.0f} / month) for what it may serve"
    assert f"saves {share:.0f}%" in plain(in_a_sentence(plan))
    assert beside_what_apis_may_serve(planned()) is None and beside_what_apis_may_serve(alone()) is None


def test_a_baseline_of_a_larger_model_is_called_one() -> None:
    (line,) = (n for n in baseline_notes(planned(CHAT.replace("gpt-4o-mini", "gpt-4o"))) if "large model" in n)
    assert line.startswith("the baseline openai/gpt-4o is a large model, and chat lists a small one")
    assert not [n for n in baseline_notes(planned()) if "large model" in n]


def test_a_longer_term_that_nobody_prices_is_asked_for() -> None:
    menu = CHAT.replace("menu:", f"{BARRED}menu:").replace(
        "purchase: [on-demand]", "purchase: [on-demand, reserved-1y]"
    )
    plan = planned(menu)
    assert plan.commitments and not list(longer_terms(plan)), "the menu names no longer one"
    case = plan.case.model_copy(update={"purchase": (*plan.case.purchase, "reserved-3y")})
    offer = plan.case.offers[plan.commitments[0].offer]
    unsold = offer.model_copy(update={"prices": offer.prices.model_copy(update={"reserved_3y": None})})
    case = case.model_copy(update={"offers": {**case.offers, plan.commitments[0].offer: unsold}})
    wanted = plan.model_copy(update={"case": case})
    (line,) = longer_terms(wanted)
    assert line.startswith(f"no price is known for {plan.commitments[0].offer} reserved-3y")
    assert "no price is known" in unwrapped(first_screen(wanted))
