"""Limits per minute of APIs, from the demand file to a plan that is checked."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planner.case.api_limits import busiest_minute, per_usd_per_h
from planner.case.case import Case
from planner.case.changes import has_quotas, without_quotas
from planner.case.demand.load import case_from_text
from planner.case.slots import slots_of
from planner.checker import check_plan
from planner.explanations.limits import every_limit
from planner.io.errors import InputError
from planner.plan.account.account import account_of
from planner.plan.diff import diff_plans
from planner.plan.plan import Plan
from planner.reports.phrases import limits_reached
from planner.verification.serving import ServeOptions, verify_plan
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan
from tests.support.tampering import rehashed

API = "openai/gpt-4.1-nano"
DEMAND = f"""
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {{requests_per_day: 400k, shape: business-hours, variation: 20%, burstiness: 1}}
    tokens: {{input: 1200, output: 300}}
    slo: {{ttft_p95: 2s, tpot_p95: 60ms}}
menu: {{gpus: [l40s], providers: [aws], purchase: [on-demand], apis: [{API}], max_deployments: 1, caching: []}}
baseline: {API}
policy: {{smaller_apis: allowed, engineers: {{count: 1, usd_per_year: 60k}}}}
"""


def case(limits: str = "", text: str = DEMAND) -> Case:
    return case_from_text(text + (f"api_limits: {{{API}: {{{limits}}}}}\n" if limits else ""))


def requests_per_minute(plan: Plan) -> np.ndarray:
    rates = np.zeros(len(plan.slots))
    for flow in plan.workloads[0].api_flows:
        rates[flow.slot] = 60 * sum(flow.requests_per_s)
    return rates


def test_the_busiest_minute_by_hand() -> None:
    """Equal requests at 100 a minute: swings of 20% and chance of 1 over the root of 100, at 2.128 deviations."""
    flat = DEMAND.replace("400k, shape: business-hours", "144k, shape: flat").replace(
        "1200, output: 300", "1k, output: 1"
    )
    one = case("requests_per_minute: 1k", flat)
    busiest = busiest_minute(one, one.workloads[0], API, "requests", slots_of(one))
    sigma = math.sqrt(math.log(1.04))
    swing = math.exp(2.128 * sigma - sigma**2 / 2) - 1
    assert busiest == pytest.approx([1 + math.hypot(0.2128, swing)] * 48, rel=1e-3)
    assert busiest[0] == pytest.approx(1.54, abs=0.01)
    own = case("requests_per_minute: 1k, peak: 2", flat)
    assert busiest_minute(own, own.workloads[0], API, "requests", slots_of(own)) == pytest.approx([2.0] * 48)


def test_cached_tokens_count_as_the_provider_says() -> None:
    cached = DEMAND.replace("caching: []", "caching: [prefix]").replace(
        "    tokens:", "    caching: {shared_prefix_tokens: 1k, prefix_hit_rate: 80%}\n    tokens:"
    )
    every, some = (case(f"input_tokens_per_minute: 1M{more}", cached) for more in ("", ", cached_weight: 0"))
    each = [per_usd_per_h(c, c.workloads[0], API, "input_tokens") for c in (every, some)]
    tokens = [sum(b.share_frac * b.input_tokens for b in every.workloads[0].buckets)]
    left = sum(
        b.share_frac * (b.input_tokens - every.workloads[0].api_cached_tokens(b.input_tokens))
        for b in every.workloads[0].buckets
    )
    assert each[1] / each[0] == pytest.approx(left / tokens[0])
    assert left < 0.5 * tokens[0]


def test_what_goes_to_an_api_stays_within_its_limits() -> None:
    free = fleet_plan(case())
    assert free.workloads[0].api_share_frac == 1
    plan = fleet_plan(case("requests_per_minute: 300, peak: 1.5"))
    busiest = 1.5 * requests_per_minute(plan)
    assert 0 < plan.workloads[0].api_share_frac < 1
    assert 250 < busiest.max() <= 300
    assert plan.cost_usd_per_month > free.cost_usd_per_month
    assert plan.status == "optimal"
    assert any(b.limit == "api_per_minute" and b.name == f"{API} requests" for b in plan.binding)
    assert any(f"({API} requests" in line for line in limits_reached(plan))
    (changed,) = [c for c in diff_plans(free, plan).limits if c.key.startswith("api_per_minute")]
    assert (changed.before, changed.after) == (None, 300)


def test_verify_says_that_it_turns_nobody_away() -> None:
    """Of an API that the plan uses and whose limits it has, once; of others nothing."""
    limited, free = (
        verify_plan(fleet_plan(case(limits)), ServeOptions(busiest=200)).notes
        for limits in ("requests_per_minute: 300, tokens_per_minute: 450k, peak: 1.5", "")
    )
    assert [API in note for note in limited if "turns nobody away" in note] == [True]
    assert not any("turns nobody away" in note for note in free)


def test_a_plan_that_asks_too_much_is_refused() -> None:
    data = fleet_plan(case("requests_per_minute: 1M")).as_json()
    assert not check_plan(data)
    data["case"]["limits"]["api_per_minute"][f"{API} requests"] = 50.0
    rehashed(data)
    assert any("requests go to openai/gpt-4.1-nano in the busiest minute, 50 allowed" in p for p in check_plan(data))


def test_the_account_and_the_limit_agree() -> None:
    """All of a workload at the API: its requests a minute, in the busiest minute, by the arithmetic of the limit."""
    plan = fleet_plan(case("tokens_per_minute: 100M"))
    w, account = plan.case.workloads[0], account_of(plan)
    bill = account.money.api_bill_usd_per_h(account.served[0])
    tokens = bill / 60 * per_usd_per_h(plan.case, w, API, "tokens")
    sizes = sum(b.share_frac * (b.input_tokens + b.output_tokens) for b in w.buckets)
    assert tokens == pytest.approx(60 * account.rates_rps(w) * sizes)


def test_limits_can_be_relaxed_and_taken_away() -> None:
    limited = case("requests_per_minute: 200, output_tokens_per_minute: 50k")
    found = {limit.key: limit for limit in every_limit(limited)}
    step = found[f"api_limits.{API}.output_tokens_per_minute"].one_more
    assert step is not None
    assert step.label == f"get 55,000 a minute instead of 50,000 (api_limits.{API}.output_tokens_per_minute)"
    assert step.change(limited).limits.api_per_minute == {f"{API} requests": 200, f"{API} output_tokens": 55000}
    assert has_quotas(limited)
    assert not has_quotas(without_quotas(limited))


@for_each(
    ("limits", "message"),
    [
        ("{openai/gpt-4.1: {requests_per_minute: 200}}", "is not on the menu"),
        (f"{{{API}: {{}}}}", "limits nothing"),
        (f"{{{API}: {{requests_per_minute: 0}}}}", "requests_per_minute: must be more than 0"),
        (f"{{{API}: {{requests_per_minute: 9, cached_weight: 2}}}}", "cached_weight: is above 1"),
        (f"{{{API}: {{requests_per_minute: 9, peak: 0.5}}}}", "peak: "),
        (f"{{{API}: {{tokens_per_hour: 9}}}}", "tokens_per_hour"),
    ],
)
def test_limits_that_cannot_be_are_errors_with_their_place(limits: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        case_from_text(DEMAND + f"api_limits: {limits}\n")
    assert message in str(error.value)
    assert f":{len(DEMAND.splitlines()) + 1}:" in str(error.value)


def test_units_and_limits_of_an_api_are_not_known_together() -> None:
    units = f"provisioned: [{{api: {API}, price: $1/h, tokens_per_minute: 3k, output_weight: 4, cached_weight: 0, "
    with pytest.raises(InputError, match="are not known together yet"):
        case_from_text(
            DEMAND + units + "minimum: 1, step: 1}]\n" + f"api_limits: {{{API}: {{tokens_per_minute: 1M}}}}\n"
        )


def test_work_with_a_deadline_is_not_counted() -> None:
    batch = DEMAND.replace("    slo: {ttft_p95: 2s, tpot_p95: 60ms}\n", "    deadline: 24h\n")
    limited = case("requests_per_minute: 10", batch)
    assert any(a.key == "api_limits" and "chat" in a.value for a in limited.assumptions)
