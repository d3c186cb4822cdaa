"""What a token read and a token written cost: the split follows the time of replicas, and adds up."""

from __future__ import annotations

import pytest

import planner
from planner.plan.account.account import account_of
from planner.plan.plan import Plan
from planner.plan.token_costs import token_costs
from tests.support.lever_plans import DEMANDS, lever_plan
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan

ONE_LENGTH = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 300k}
    tokens: {input: 1000, output: 200}
    api: %s
menu: {gpus: [l40s], quantizations: [fp8]}
prices: {aws/g6e.xlarge@us-east-1: {on_demand: %s}}
baseline: openai/gpt-4o-mini
"""


@for_each("name", DEMANDS)
def test_both_together_are_the_cost_of_the_plan(name: str) -> None:
    plan = lever_plan(name)
    costs = token_costs(plan)
    assert costs.input_tokens_per_month + costs.output_tokens_per_month == pytest.approx(plan.tokens_per_month)
    assert costs.usd_per_1m_input is not None
    assert costs.usd_per_1m_output is not None
    both = costs.usd_per_1m_input * costs.input_tokens_per_month
    both += costs.usd_per_1m_output * costs.output_tokens_per_month
    assert both / 1e6 == pytest.approx(plan.cost_usd_per_month)
    assert 0 < costs.usd_per_1m_input < costs.usd_per_1m_output


def planned(api: str, usd_per_h: str) -> Plan:
    return fleet_plan(planner.case_from_text(ONE_LENGTH % (api, usd_per_h)))


def test_on_gpus_it_is_the_time_of_prompt_and_answer() -> None:
    plan = planned("forbidden", "$1/h")
    (d,) = plan.pools[0].deployments
    from planner.candidates.step_budget import replica_for
    from planner.candidates.traffic import traffic_of

    record = d.deployment
    seen = account_of(plan).served[0].seen
    replica = replica_for(plan.case, traffic_of(seen), record.variant)
    t = replica.throughput
    prompt_s = t.prefill_s[0]
    answer_s = 1 / t.requests_per_s[0] - prompt_s
    costs = token_costs(plan)
    assert costs.usd_per_1m_input is not None
    assert costs.usd_per_1m_output is not None
    ratio = (costs.usd_per_1m_input * 1000) / (costs.usd_per_1m_output * 200)
    assert ratio == pytest.approx(prompt_s / answer_s, rel=1e-6)


def test_from_an_api_it_is_its_prices() -> None:
    plan = planned("allowed", "$1000/h")
    assert plan.workloads[0].api_share_frac == 1
    tier = plan.case.apis["openai/gpt-4o-mini"].tiers[0]
    costs = token_costs(plan)
    assert costs.usd_per_1m_input == pytest.approx(tier.input_usd_per_1m)
    assert costs.usd_per_1m_output == pytest.approx(tier.output_usd_per_1m)


def test_a_table_of_measured_rates_does_not_tell() -> None:
    plan = fleet_plan(planner.load_case("examples/spot-and-on-demand.yaml"))
    assert {d.deployment.bound_by for p in plan.pools for d in p.deployments} == {"measured table"}
    costs = token_costs(plan)
    assert (costs.usd_per_1m_input, costs.usd_per_1m_output) == (None, None)
    assert costs.input_tokens_per_month > 0
