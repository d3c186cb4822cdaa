"""Service tiers of APIs: their prices, whom they may answer, and what the gateway is told."""

from __future__ import annotations

import json

import pytest

from planner.case.apis import allowed_apis
from planner.case.demand.load import case_from_text
from planner.catalog.apis import api_model, known_api_models, service_tiers
from planner.catalog.sellers import sellers
from planner.checker import check_plan
from planner.export.litellm import to_api
from planner.io.errors import InputError
from planner.plan.sellers import able, wanted_names
from tests.support.places import ROOT
from tests.support.rows import for_each
from tests.support.shared_plans import example_plan
from tests.support.tampering import rehashed

EXAMPLE = ROOT / "examples" / "service-tiers.yaml"
STANDARD, PRIORITY, FLEX = "openai/gpt-5.4-mini", "openai/gpt-5.4-mini:priority", "openai/gpt-5.4-mini:flex"


TIERED = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 50k}
    tokens: {input: 800, output: 200}
    api_tier: priority
  - name: patient
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 50k}
    tokens: {input: 800, output: 200}
menu: {apis: [openai/gpt-4.1-nano, "openai/gpt-4.1-nano:priority"]}
baseline: openai/gpt-4.1-nano
"""


def test_every_tier_is_priced_beside_its_standard() -> None:
    """Flex costs less than it, priority more; both have a source, a date and the same context or less."""
    wrong = []
    for name, entry in service_tiers().items():
        standard, _, tier = name.rpartition(":")
        model, at_tier = api_model(standard), api_model(name)
        if model is None or at_tier is None or tier != at_tier.service_tier:
            wrong.append(name)
            continue
        cheaper = entry.output_usd_per_1m < model.tiers[0].output_usd_per_1m
        holds = at_tier.max_context_tokens or 0
        if cheaper != (tier == "flex") or holds > (model.max_context_tokens or holds) or not entry.source:
            wrong.append(name)
    assert wrong == []
    assert set(service_tiers()) <= set(known_api_models())


def test_pages_that_disagree_are_left_out() -> None:
    assert "openai/gpt-5.5:priority" not in service_tiers()
    assert "openai/gpt-5.5:flex" in service_tiers()
    assert api_model("openai/gpt-5.5:priority") is None


def test_prompts_beyond_the_published_price_are_not_sent_there() -> None:
    flex = api_model("openai/gpt-5.4:flex")
    assert flex is not None
    assert flex.max_context_tokens == 272_000


def test_flex_answers_only_work_that_may_wait() -> None:
    case = case_from_text(EXAMPLE.read_text())
    chat, summaries = case.workloads
    assert allowed_apis(case, chat) == (PRIORITY,)
    assert allowed_apis(case, summaries) == (STANDARD, PRIORITY, FLEX)
    assert any(a.key == "menu.apis" and "summaries only" in a.value for a in case.assumptions)
    free = chat.model_copy(update={"api_tier": None})
    assert allowed_apis(case, free) == (STANDARD, PRIORITY)


def test_the_example_by_hand() -> None:
    """1.2167 million summaries of 3,000 and 200 tokens at $0.375 and $2.25 a million are $1,916."""
    plan = example_plan("examples/service-tiers.yaml")
    chat, summaries = plan.workloads
    assert (chat.api, summaries.api) == (PRIORITY, FLEX)
    requests = 40_000 * 730 / 24
    assert summaries.cost_usd_per_month == pytest.approx(requests * (3000 * 0.375 + 200 * 2.25) / 1e6, rel=1e-3)
    data = plan.as_json()
    assert not check_plan(data)
    for told, problem in (
        ((0, "deadline_h", "deadline_h", FLEX), "promises no time, and chat has no deadline"),
        ((0, "api_tier", "api_tier", STANDARD), "although chat asks for priority"),
    ):
        k, *_, api = told
        changed = json.loads(json.dumps(data))
        changed["workloads"][k]["api"] = api
        assert any(problem in p for p in check_plan(changed))
    waits_no_more = json.loads(json.dumps(data))
    del waits_no_more["case"]["workloads"][1]["deadline_h"]
    waits_no_more["case"]["workloads"][1]["api_wait_h"] = 0.0
    rehashed(waits_no_more)
    assert any("promises no time, and summaries has no deadline" in p for p in check_plan(waits_no_more))


def test_no_seller_is_named_for_work_that_asks_for_priority() -> None:
    case = case_from_text(TIERED)
    names = wanted_names(case, {w.name: {"llama-3.1-8b"} for w in case.workloads})
    seller = next(name for name in sellers() if "llama-3.1-8b" in name.lower().replace("_", "-"))
    assert able(case, seller, names) == ("patient",)


def test_the_gateway_asks_for_the_tier() -> None:
    assert to_api(FLEX) == to_api(STANDARD) | {"service_tier": "flex"}


@for_each(
    ("old", "new", "message"),
    [
        ("    deadline: 24h\n", "", "promises no time, and no workload may wait"),
        (f', "{PRIORITY}"', "", "no API on the menu is sold at priority"),
        (PRIORITY, "openai/gpt-5.4-mini:turbo", "there is no API model 'openai/gpt-5.4-mini:turbo'"),
        ("api_tier: priority", "api_tier: flex", "api_tier"),
    ],
)
def test_tiers_that_cannot_be_are_errors_with_their_place(old: str, new: str, message: str) -> None:
    text = EXAMPLE.read_text()
    assert old in text
    with pytest.raises(InputError) as error:
        case_from_text(text.replace(old, new))
    assert message in str(error.value)
    assert str(error.value).startswith("<text>:")
