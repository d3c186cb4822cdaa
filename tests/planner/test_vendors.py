"""Fixed costs and numbers of vendors, and baselines: what a user writes, and what a plan does with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import planner
from planner.checker import check_plan
from planner.plan.account.account import account_of
from planner.plan.plan import Plan
from planner.plan.sellers import cheapest_elsewhere, sold_cheaper
from planner.plan.study_records import Studies
from planner.reports.html import html_report
from planner.reports.table import Table
from planner.reports.tables.answers import elsewhere, to_sign
from planner.reports.tables.studies import providers as provider_bills
from planner.studies.study import providers
from solvers.search.fleet_solution import Options
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan
from tests.support.shown import first_screen, plan_markdown, plan_text, unwrapped

Json = dict[str, Any]
CHAT = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 300k}
    quality: {max_loss: 2%}
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand]}
baseline: openai/gpt-4o-mini
"""
TWO_PLACES = """
workloads:
  - {name: here, models: [llama-3.1-8b], forecast: {requests_per_day: 100k}, quality: {max_loss: 2%}, regions: [us-east-1], api: forbidden}
  - {name: there, models: [llama-3.1-8b], forecast: {requests_per_day: 100k}, quality: {max_loss: 2%}, api: forbidden}
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand], regions: [us-east-1, us-west-2]}
prices: {aws/g6e.xlarge@us-west-2: {on_demand: $1.80/h}}
baseline: openai/gpt-4o-mini
"""  # noqa: E501


@cache
def plan_of(text: str, vendors: str = "") -> Plan:
    policy = f"policy: {{vendors: {{{vendors}}}}}\n" if vendors else ""
    return fleet_plan(planner.case_from_text(text + policy), Options(gap_frac=0.0))


def places(plan: Plan) -> set[str]:
    return {name for kind, name in account_of(plan).money.vendors if kind == "region"}


def test_an_api_that_costs_more_to_have_than_it_saves_is_given_up() -> None:
    plain, small = plan_of(CHAT), plan_of(CHAT, "fixed_usd_per_month: {api: 1}")
    large = plan_of(CHAT, "fixed_usd_per_month: {api: $1.5k}")
    assert plain.workloads[0].api == small.workloads[0].api == "openai/gpt-4o-mini"
    assert small.cost_usd_per_month == pytest.approx(plain.cost_usd_per_month + 1)
    assert (plain.costs.vendors_usd_per_month, small.costs.vendors_usd_per_month) == (None, 1.0)
    assert large.workloads[0].api is None
    assert large.costs.vendors_usd_per_month == 0.0
    assert plain.cost_usd_per_month < large.cost_usd_per_month <= plain.cost_usd_per_month + 1_500
    assert {plan.status for plan in (plain, small, large)} == {"optimal"}
    assert "fixed cost of the API" in plan_text(small)


def test_what_is_there_anyway_costs_nothing() -> None:
    plan = plan_of(CHAT, "fixed_usd_per_month: {api: $1.5k, provider: 200, region: 30}, have: [openai, aws]")
    assert plan.case.limits.vendor_usd_per_month == {"region aws us-east-1": 30.0}
    assert plan.cost_usd_per_month == pytest.approx(plan_of(CHAT).cost_usd_per_month + 30)


def test_a_second_region_must_be_worth_it() -> None:
    plain, dear = plan_of(TWO_PLACES), plan_of(TWO_PLACES, "fixed_usd_per_month: {region: 500}")
    assert places(plain) == {"aws us-east-1", "aws us-west-2"}
    assert places(dear) == places(plan_of(TWO_PLACES, "at_most: {region: 1}")) == {"aws us-east-1"}
    assert dear.costs.vendors_usd_per_month == 500
    one = plan_of(TWO_PLACES, "at_most: {region: 1}")
    assert ("max_vendors", "region", 1) in [(b.limit, b.name, b.value) for b in one.binding]
    assert "max_vendors 1 (region" in plan_text(one)


def test_a_model_that_is_listed_and_not_in_use_is_not_called_the_same() -> None:
    little = plan_of(CHAT.replace("300k", "50"))
    assert not little.workloads[0].models
    hosted, bought = (
        elsewhere(plan.model_copy(update={"studies": Studies(providers=providers(plan))})).rows
        for plan in (plan_of(CHAT), little)
    )
    assert [row[1] for row in hosted if row[2] != "everything"] == ["the same"]
    assert [row[1] for row in bought if row[2] != "everything"] == ["listed, not in use"]


def test_what_to_sign_adds_up_with_fixed_costs() -> None:
    plan = plan_of(TWO_PLACES, "fixed_usd_per_month: {region: 1}")
    *rows, whole = to_sign(plan).rows
    assert whole[0] == "in all"
    assert sum(float(row[2] or 0) for row in rows) == pytest.approx(plan.cost_usd_per_month) == whole[2]


def forgotten_cost(plan: Json) -> None:
    plan["costs"]["vendors_usd_per_month"] = 0.0


def free_after_all(plan: Json) -> None:
    plan["case"]["limits"]["vendor_usd_per_month"] = {"region aws us-west-2": 500.0, "region aws us-east-1": 1.0}


def moved_elsewhere(plan: Json) -> None:
    plan["case"]["limits"]["max_vendors"] = {"provider": 1}
    for key, offer in plan["case"]["offers"].items():
        offer["provider"] = "gcp" if "us-west-2" in key else "aws"


@for_each(
    ("change", "words"),
    [
        (forgotten_cost, "costs.vendors_usd_per_month"),
        (free_after_all, "costs.vendors_usd_per_month"),
        (moved_elsewhere, "2 providers are in use (aws, gcp), 1 allowed"),
    ],
)
def test_a_plan_that_breaks_a_rule_about_vendors_is_refused(change: Callable[[Json], None], words: str) -> None:
    plan = json.loads(plan_of(TWO_PLACES, "fixed_usd_per_month: {region: 1}").to_json())
    assert check_plan(plan) == []
    change(plan)
    assert any(words in problem for problem in check_plan(plan)), check_plan(plan)


def test_each_workload_has_its_own_baseline_and_those_that_may_not_use_an_api_are_named() -> None:
    text = TWO_PLACES.replace("api: forbidden}\nmenu", "baseline: openai/gpt-4o}\nmenu")
    plan = plan_of(text)
    bills = plan.baseline.by_workload
    assert bills is not None
    assert [(b.workload, b.api, b.may_use_an_api) for b in bills] == [
        ("here", "openai/gpt-4o-mini", False), ("there", "openai/gpt-4o", True),
    ]  # fmt: skip
    assert plan.baseline.cost_usd_per_month == pytest.approx(sum(b.cost_usd_per_month for b in bills))
    assert bills[1].cost_usd_per_month > 10 * bills[0].cost_usd_per_month
    for shown in (plan_text(plan), plan_markdown(plan), html_report(plan)):
        assert "2 API baselines" in shown
        assert "o API may serve here" in shown
    assert plan_of(CHAT).baseline.by_workload is None


def test_a_model_that_is_sold_for_less_is_on_the_first_screen() -> None:
    plan = plan_of(CHAT)
    assert plan.studies is None
    bills = sold_cheaper(plan)
    assert bills
    assert all(b.cost_usd_per_month < plan.workloads[0].cost_usd_per_month for b in bills)
    for shown in (
        unwrapped(first_screen(plan)),
        plan_markdown(plan).split("## Fleet")[0],
        html_report(plan).split("<h2")[0],
    ):
        assert "sells llama-3.1-8b for less" in shown and "same model at " in shown
    assert sold_cheaper(plan_of(TWO_PLACES)) == (), "no API is allowed there"


def test_the_baseline_says_that_it_leaves_out_the_fixed_cost_of_its_provider() -> None:
    said = "the baseline leaves out $1 / month, the fixed cost of openai"
    assert said in unwrapped(plan_text(plan_of(CHAT, "fixed_usd_per_month: {api: 1}"))).replace("$1.00", "$1")
    assert "leaves out" not in plan_text(plan_of(CHAT, "fixed_usd_per_month: {api: 1}, have: [openai]"))


def test_an_api_that_is_new_is_offered_with_its_fixed_cost() -> None:
    free, paid = (plan_of(CHAT, f"fixed_usd_per_month: {{api: {cost}}}, have: [openai]") for cost in ("0", "200"))
    there, with_it = cheapest_elsewhere(free), cheapest_elsewhere(paid)
    assert there is not None and with_it is not None
    assert with_it.there_usd == pytest.approx(there.there_usd + 200)
    assert f"${with_it.there_usd:,.0f} / month there" in unwrapped(first_screen(paid))
    assert f"${there.there_usd:,.0f} / month there" in unwrapped(first_screen(free))
    assert not sold_cheaper(plan_of(CHAT, "fixed_usd_per_month: {api: 5000}, have: [openai]"))


def test_the_first_screen_and_its_tables_say_the_same_of_an_api() -> None:
    plan = plan_of(CHAT, "fixed_usd_per_month: {api: 200}, have: [openai]")
    studied = plan.model_copy(update={"studies": Studies(providers=providers(plan))})
    found = cheapest_elsewhere(plan)
    assert found is not None
    (counted,) = found.bills
    assert f"${counted.cost_usd_per_month + 200:,.0f} / month there" in html_report(studied)
    least = min(sold_cheaper(plan), key=lambda b: b.cost_usd_per_month)
    api = f"{least.provider}/{least.model}"
    rows = {row["api"]: row for row in named_rows(elsewhere(studied))}
    assert rows[api]["there_usd_per_month"] == least.cost_usd_per_month and rows[api]["fixed_usd_per_month"] == 200
    assert rows["openai/gpt-4o-mini"]["fixed_usd_per_month"] == 0, "it is had already"
    bills = named_rows(provider_bills(studied, studied.studies.providers if studied.studies else ()))
    assert {row["fixed_usd_per_month"] for row in bills if row["provider"] != "openai"} == {200}
    assert "+ fixed $/month" in html_report(studied)
    free = plan_of(CHAT, "fixed_usd_per_month: {api: 0}, have: [openai]")
    assert "+ fixed" not in html_report(free.model_copy(update={"studies": Studies(providers=providers(free))}))


def named_rows(table: Table) -> list[Json]:
    return [dict(zip([c.key for c in table.columns], row, strict=True)) for row in table.rows]


def test_an_api_that_would_be_one_too_many_is_not_offered() -> None:
    other = (
        "  - {name: other, models: [llama-3.1-8b], forecast: {requests_per_day: 50}, quality: {max_loss: 2%}}\nmenu:"
    )
    plan = plan_of(CHAT.replace("menu:", other, 1), "at_most: {api: 1}")
    assert plan.workloads[1].api == "openai/gpt-4o-mini"
    assert not any(set(bill.workloads) == {"chat"} for bill in sold_cheaper(plan))


def test_no_api_at_all_is_written_otherwise() -> None:
    with pytest.raises(planner.InputError, match=r"menu: \{apis: \[\]\}"):
        plan_of(CHAT, "at_most: {api: 0}")


def test_where_no_workload_may_use_an_api_nothing_is_called_a_saving() -> None:
    plan = plan_of(TWO_PLACES.replace("gpt-4o-mini", "gpt-4o"))
    text = plan_text(plan)
    assert plan.baseline.savings_usd_per_month > 0
    assert "saves" not in text
    assert "no API may serve any workload" in text
    assert "less</b> than openai gpt-4o, which no workload may use." in html_report(plan)


def test_savings_without_barred_workloads_count_the_engineers_too() -> None:
    barred = TWO_PLACES.replace("api: forbidden}\nmenu", "api: allowed}\nmenu").replace("gpt-4o-mini", "gpt-4o")
    text = barred + "policy: {engineers: {count: 1, usd_per_year: 12k}}\n"
    plan = fleet_plan(planner.case_from_text(text), Options(gap_frac=0.0))
    own = plan.cost_usd_per_month - plan.workloads[0].cost_usd_per_month
    assert own > plan.workloads[1].cost_usd_per_month + 999
    assert f"${own:,.0f} here, all engineers included" in unwrapped(plan_text(plan))
