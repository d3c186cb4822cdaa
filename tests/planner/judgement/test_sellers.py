"""Somebody sells the same model for less: a concern with both figures, and a word that lets the plan buy there."""

from __future__ import annotations

import re
from functools import cache

import pytest

import planner
from planner.case.apis import allowed_apis
from planner.case.case import Case
from planner.catalog.apis import api_model
from planner.catalog.sellers import is_counted, known_sellers, sellers
from planner.io.formatting import percent
from planner.judgement.concern import Concern
from planner.judgement.concerns import concerns_of
from planner.plan.plan import Plan
from planner.plan.sellers import cheapest_elsewhere
from planner.reports.page import as_page
from planner.reports.plan import plan_document
from tests.support.shared_plans import fleet_plan
from tests.support.shown import first_screen, plan_markdown

CHAT = """\
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 700k, shape: flat, burstiness: 2, variation: 20%}
    tokens: {input: 1000, output: 200}
    slo: {ttft_p95: 2s, tpot_p95: 50ms}
    quality: {max_loss: 2%}
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand]}
policy: {min_replicas: 2, spread: true}
baseline: openai/gpt-4o
"""


@cache
def plan_with(old: str = "", new: str = "") -> Plan:
    assert old in CHAT
    plan = fleet_plan(planner.case_from_text(CHAT.replace(old, new) if old else CHAT))
    assert isinstance(plan, Plan)
    return plan


def concerns(plan: Plan) -> list[Concern]:
    return [concern for concern in concerns_of(plan) if concern.key == "cheaper-elsewhere"]


def test_the_cheapest_known_seller_of_the_same_model_is_named_with_both_figures() -> None:
    plan = plan_with()
    (concern,) = concerns(plan)
    found = cheapest_elsewhere(plan)
    assert found is not None
    (bill,) = found.bills
    prices = api_model(f"{bill.provider}/{bill.model}")
    assert prices is not None
    tier, requests = prices.tiers[0], 700_000 * 730 / 24
    there = requests * (1000 * tier.input_usd_per_1m + 200 * tier.output_usd_per_1m) / 1e6
    assert found.there_usd == pytest.approx(there, rel=1e-6)
    assert found.here_usd == plan.workloads[0].cost_usd_per_month
    assert found.more_frac == pytest.approx(found.here_usd / there - 1)
    assert concern.usd_per_month == pytest.approx(found.here_usd - there)
    assert known_sellers()[bill.provider].name in concern.sentence
    assert "Novita AI" in concern.sentence, "it is cheaper, named and not counted"


def test_the_headline_never_says_saves_alone_where_the_same_model_is_sold_for_less() -> None:
    plan = plan_with()
    found = cheapest_elsewhere(plan)
    assert found is not None and plan.baseline.savings_usd_per_month > 0
    seller, more_usd = known_sellers()[found.bills[0].provider].name, found.here_usd - found.there_usd
    share = percent(found.here_usd / found.there_usd - 1)
    lines = first_screen(plan).splitlines()
    assert f"saves {percent(plan.baseline.savings_frac)}" in lines[1]
    assert f"same model at {seller} ${found.there_usd:,.0f} / month" in lines[2]
    assert f"costs {share} more (${more_usd:,.0f} / month)" in lines[2]
    markdown, page = plan_markdown(plan).replace("\\", "").replace("**", ""), as_page(plan_document(plan))
    for shown in (markdown, re.sub("<[^>]+>", "", page)):
        saves = shown.index(f"saves ${plan.baseline.savings_usd_per_month:,.0f} / month")
        dearer = f"; costs ${more_usd:,.0f} / month ({share}) more than the same model at {seller}."
        assert dearer in shown[saves : saves + 200]


def test_a_seller_of_some_workloads_stands_beside_their_own_cost() -> None:
    barred = "  - {name: letters, models: [llama-3.1-8b], forecast: {requests_per_day: 30k}, api: forbidden}\nmenu: {"
    plan = plan_with("menu: {", barred)
    screen, chat = first_screen(plan), plan.workloads[0].cost_usd_per_month
    assert "/ month, chat alone" in screen and f"${chat:,.0f} here: up to " in screen
    (concern,) = concerns(plan)
    assert "on machines that others need too" in concern.sentence, "both stand on L40S"
    assert "up to" not in first_screen(plan_with()).splitlines()[2], "it has its machines for itself"


def test_a_listed_model_that_is_sold_for_less_than_what_is_bought_in_its_place() -> None:
    """So few requests that nothing is hosted: an API of another model answers, and somebody sells the listed one."""
    plan = plan_with("700k", "3k")
    assert plan.workloads[0].api == "openai/gpt-4o" and not plan.fleet
    (concern,) = concerns(plan)
    assert "sells llama-3.1-8b for less" in concern.sentence
    lines = first_screen(plan).splitlines()
    assert "costs the same as this API" in lines[1] and "listed model at " in lines[2] and "% more ($" in lines[2]
    assert "nothing is cheaper" not in plan_markdown(plan) and "costs the same as **openai gpt-4o**;" in plan_markdown(
        plan
    )
    without = plan.case.workloads[0].model_copy(update={"models": ()})
    none = plan.model_copy(update={"case": plan.case.model_copy(update={"workloads": (without,)})})
    assert cheapest_elsewhere(none) is None, "it lists no model that anybody sells"


def test_the_headline_names_no_seller_where_none_is_cheaper_or_none_is_allowed() -> None:
    bought = plan_with("menu: {", "menu: {apis: same-model, ")
    barred = plan_with("    quality", "    api: forbidden\n    quality")
    for plan in (bought, barred):
        assert "same model at" not in first_screen(plan) and "same model at" not in plan_markdown(plan)


def test_no_seller_is_a_concern_where_no_api_may_answer() -> None:
    for plan in (
        plan_with("    quality", "    api: forbidden\n    quality"),
        plan_with("    quality", "    regions: [us-east-1]\n    quality"),
    ):
        assert plan.case.workloads[0].api_allowed is False
        assert not concerns(plan) and cheapest_elsewhere(plan) is None


def test_a_menu_of_the_same_model_lets_the_plan_buy_it() -> None:
    plan = plan_with("menu: {", "menu: {apis: same-model, ")
    (workload,) = plan.workloads
    assert workload.api_share_frac == 1 and workload.api is not None and is_counted(workload.api)
    assert plan.cost_usd_per_month < plan_with().cost_usd_per_month
    assert not concerns(plan)
    assert "openai/gpt-4o-mini" not in plan.case.menu_apis
    assert plan.case.same_model_apis == plan.case.menu_apis
    listed = plan_with("menu: {", "menu: {apis: [same-model, openai/gpt-4o-mini], ")
    assert listed.case.menu_apis[0] == "openai/gpt-4o-mini" and listed.cost_usd_per_month == plan.cost_usd_per_month


def two_models() -> Case:
    other = "  - {name: code, models: [qwen3-32b], forecast: {requests_per_day: 1k}}\nmenu: {apis: same-model, "
    return planner.case_from_text(CHAT.replace("menu: {", other))


def test_a_seller_of_the_same_model_answers_those_alone_who_list_it() -> None:
    case = two_models()
    chat, code = (allowed_apis(case, w) for w in case.workloads)
    assert chat and code and not set(chat) & set(code)
    assert all("8b" in api.lower() for api in chat) and all("qwen" in api.lower() for api in code)


def test_a_model_that_loses_too_much_is_not_bought() -> None:
    both = "models: [llama-3.1-8b, {name: qwen3-32b, quality_loss: 9%}]"
    case = planner.case_from_text(
        CHAT.replace("models: [llama-3.1-8b]", both).replace("menu: {", "menu: {apis: same-model, ")
    )
    assert all("8b" in api.lower() for api in allowed_apis(case, case.workloads[0]))


def test_the_checker_refuses_an_api_that_is_there_for_another_model() -> None:
    data = plan_with("menu: {", "menu: {apis: same-model, ").as_json()
    assert planner.check_plan(data) == []
    data["case"]["workloads"][0]["models"] = [{"model": "qwen2.5-7b", "quality_loss_frac": 0.0}]
    data["case"]["models"]["qwen2.5-7b"] = data["case"]["models"]["llama-3.1-8b"] | {"name": "x", "aliases": []}
    assert any("it sells no model that chat lists" in problem for problem in planner.check_plan(data))


def test_known_sellers_have_a_source_and_are_sellers_of_the_price_lists() -> None:
    providers = {name.partition("/")[0] for name in sellers()}
    for name, seller in known_sellers().items():
        assert name in providers and seller.source and seller.date and seller.name
        assert seller.counted or seller.assumption, name
