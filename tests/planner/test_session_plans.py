"""Plans of workloads with sessions: tiers of KV cache, what they are worth, and plans that say more than is so."""

from __future__ import annotations

import numpy as np
import pytest

import planner
from planner.case.case import kinds_of
from planner.checker import check_plan
from planner.performance.sessions import ages_of
from planner.plan.plan import Plan
from planner.plan.serve_commands import serve_commands

DEMAND = """
name: agents
workloads:
  - name: agent
    models: [llama-3.1-8b]
    forecast: {sessions_per_day: 30k, shape: flat}
    sessions:
      turns: {p50: 12, p95: 40}
      first_prompt: {p50: 6k, p95: 12k}
      appended: {p50: 400, p95: 3k}
      answers: {p50: 150, p95: 600}
      waits: {tools: {p50: 10s, p95: 1min}, people: {p50: 3min, p95: 30min}, people_share: 20%}
      longest: {tokens: 65536, then: compact}
    caching: {shared_prefix_tokens: 2k, prefix_hit_rate: 100%, kv_tiers: [host]}
    slo: {ttft_p95: 3s, tpot_p95: 60ms}
    quality: {max_loss: 2%}
    api: forbidden
menu: {providers: [aws], regions: [us-east-1], gpus: [l40s, h100], quantizations: [fp8], purchase: [on-demand]}
policy: {routing: prefix-aware}
baseline: anthropic/claude-sonnet-4-6
"""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planner.plan_fleet(planner.case_from_text(DEMAND))


def planned(text: str) -> Plan:
    return planner.plan_fleet(planner.case_from_text(text))


def test_a_plan_that_may_use_a_tier_costs_no_more(plan: Plan) -> None:
    without = planned(DEMAND.replace(", kv_tiers: [host]", ""))
    nothing = planned(DEMAND.replace("purchase: [on-demand]", "purchase: [on-demand], caching: []"))
    gap = 1 + 1e-6
    assert plan.cost_usd_per_month <= without.cost_usd_per_month * gap
    assert without.cost_usd_per_month <= nothing.cost_usd_per_month * gap
    assert plan.cost_usd_per_month < 0.9 * nothing.cost_usd_per_month


def test_requests_and_lengths_follow_from_the_sessions(plan: Plan) -> None:
    w = plan.case.workloads[0]
    assert w.sessions is not None
    mean = sum(w.weekday_rps) / 24
    assert mean * 86_400 / 30_000 == pytest.approx(14.5, rel=0.2)  # turns: a log-normal of 12 and 40
    tokens = sum(b.share_frac * b.input_tokens for b in w.buckets)
    assert sum(b.share_frac for b in w.buckets) == pytest.approx(1.0)
    assert 6_000 < tokens < 30_000
    assert max(b.input_tokens + b.output_tokens for b in w.buckets) <= 65_536


def test_the_plan_says_where_the_tokens_are_found(plan: Plan) -> None:
    assert check_plan(plan.as_json()) == []
    (w,) = plan.workloads
    deployment = plan.pools[0].deployments[0].deployment
    cache = deployment.prefix_cache
    assert cache is not None
    assert cache.found_fracs[0] <= ages_of(plan.case.workloads[0].sessions, 1).found_frac(np.inf)
    if "host" in kinds_of(w.caching):
        (tier,) = cache.tiers or ()
        assert tier.residence_s > cache.residence_s
        gib = tier.cache_gb / 2**30 * 1e9
        (command,) = serve_commands(plan)
        assert f"--kv-offloading-backend native --kv-offloading-size {int(gib)}" in command.command


@pytest.mark.parametrize("factor", [1.05, 3.0])
def test_a_plan_that_finds_more_than_there_is_is_refused(plan: Plan, factor: float) -> None:
    pool = plan.pools[0]
    d = pool.deployments[0]
    cache = d.deployment.prefix_cache
    assert cache is not None
    longer = cache.model_copy(update={"residence_s": factor * cache.residence_s})
    more = cache.model_copy(update={"found_fracs": (min(0.999, factor * cache.found_fracs[0]),)})
    for changed in (longer, more):
        record = d.deployment.model_copy(update={"prefix_cache": changed})
        pools = (
            pool.model_copy(update={"deployments": (d.model_copy(update={"deployment": record}),)}),
            *plan.pools[1:],
        )
        assert check_plan(plan.model_copy(update={"pools": pools}).as_json())


def test_an_api_is_paid_for_what_it_reads_again_and_for_what_it_keeps() -> None:
    case = planner.case_from_text(DEMAND.replace("    api: forbidden\n", ""))
    api, w = case.apis["anthropic/claude-sonnet-4-6"], case.workloads[0]
    (tier,) = api.tiers
    assert tier.cache_write_usd_per_1m == pytest.approx(3.75)
    found = ages_of(w.sessions, 1).found_frac(300.0)
    usd = api.request_usd(10_000, w.api_cached_tokens(10_000), 100, 0.0, w.api_written_tokens(10_000))
    assert usd == pytest.approx((10_000 * (found * 0.3 + (1 - found) * 3.75) + 100 * 15) / 1e6)


def test_without_sessions_no_price_of_writing_is_known() -> None:
    text = DEMAND[: DEMAND.index("    sessions:")] + DEMAND[DEMAND.index("    slo:") :]
    case = planner.case_from_text(text.replace("sessions_per_day", "requests_per_day"))
    assert all(t.cache_write_usd_per_1m is None for t in case.apis["anthropic/claude-sonnet-4-6"].tiers)
    assert all(offer.host_memory_gib is None for offer in case.offers.values())
