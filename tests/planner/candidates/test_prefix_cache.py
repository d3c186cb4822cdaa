"""Prefix hit rates from a curve of reuse: what the memory of a replica, its traffic and the router make of it."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pytest

import planner
from planner.candidates.replica import Replica
from planner.candidates.step_budget import replica_for
from planner.candidates.traffic import traffic_of
from planner.case.case import Case
from planner.case.demand.load import case_from_text
from planner.catalog.variant import Variant
from planner.io.errors import InputError
from planner.performance.memory import kv_bytes_per_token, kv_room_bytes
from planner.plan.plan import Plan
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan

CURVE = "{requests_per_s: 4, curve: [{tokens: 100k, hit_rate: 20%}, {tokens: 2M, hit_rate: 70%}]}"
DEMAND = """
workloads:
  - name: agent
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 500k, shape: flat}
    tokens: {buckets: [{input: 8000, output: 200, share: 75%}, {input: 2000, output: 400, share: 25%}]}
    slo: {ttft_p95: 5s, tpot_p95: 60ms}
    caching: {shared_prefix_tokens: 500, prefix_hit_rate: 100%, prefix_reuse: CURVE}
    api: forbidden
menu: {gpus: [l40s, h100], quantizations: [fp8], purchase: [on-demand], max_deployments: 1}
policy: {routing: ROUTER, min_replicas: 1}
baseline: openai/gpt-4o-mini
"""
WITHOUT = DEMAND.replace(", prefix_reuse: CURVE", "").replace("ROUTER", "least-requests")


@cache
def case_behind(router: str, curve: str = CURVE) -> Case:
    return case_from_text(DEMAND.replace("ROUTER", router).replace("CURVE", curve))


def replica(router: str, gpu: str = "h100", curve: str = CURVE, caching: str = "prefix") -> Replica:
    case = case_behind(router, curve)
    return replica_for(
        case, traffic_of(case.workloads[0].with_caching(caching)), Variant("llama-3.1-8b", "fp8", gpu, 1)
    )


@cache
def planned(router: str) -> Plan:
    return fleet_plan(case_behind(router))


def by_hand(residence_s: float, share: float) -> float:
    """What is found where blocks stay so long, and this share of it is reached."""
    tokens = residence_s * 4 * (0.75 * 8000 + 0.25 * 2000)
    possible = 0.2 * tokens / 1e5 if tokens < 1e5 else min(0.7, 0.2 + 0.5 * (tokens - 1e5) / 1.9e6)
    shared = 500 / 6500
    return shared + share * max(0.0, possible - shared)


@for_each("gpu", ["l40s", "h100"])
@for_each("router", ["prefix-aware", "least-requests"])
def test_blocks_stay_until_as_much_has_come_as_memory_holds(router: str, gpu: str) -> None:
    found = replica(router, gpu)
    cached = found.prefix_cache
    assert cached is not None
    tokens = np.array([8000 + 200, 2000 + 400])
    rate = cached.load / float(np.array([0.75, 0.25]) @ (1 / found.throughput.requests_per_s))
    come = cached.residence_s * rate * float(np.array([0.75, 0.25]) @ tokens)
    assert 0.9 * cached.tokens < come <= cached.tokens * (1 + 1e-9)
    assert cached.found_fracs[0] == pytest.approx(
        by_hand(cached.residence_s, 0.9 if cached.spread == 1 else 1 / cached.spread)
    )
    machine = found.machine
    room = kv_room_bytes(machine.model, machine.gpu, 1, machine.quantization, machine.engine.usable_memory_frac)
    assert cached.tokens < room / kv_bytes_per_token(machine.model, machine.quantization)


def test_a_router_that_knows_prefixes_finds_more() -> None:
    aware, blind = replica("prefix-aware").prefix_cache, replica("random").prefix_cache
    assert aware is not None
    assert blind is not None
    assert blind.spread > aware.spread == 1
    assert aware.found_fracs[0] > blind.found_fracs[0] > 500 / 6500
    assert replica("prefix-aware").throughput.requests_per_s[0] > replica("random").throughput.requests_per_s[0]


def test_reuse_saves_prefill_and_no_memory() -> None:
    without, found = replica("prefix-aware", caching="none"), replica("prefix-aware")
    assert without.prefix_cache is None
    assert found.throughput.prefill_s[0] < without.throughput.prefill_s[0]
    other = replica("prefix-aware", curve=CURVE.replace("70%", "20%"))
    assert np.array_equal(found.prompts[0].prefill_s, other.prompts[0].prefill_s)
    assert (found.prompt_cv2_within > without.prompt_cv2_within).all()


def test_traffic_that_grows_leaves_blocks_less_time() -> None:
    """Twice the rate of the curve is twice the tokens that the same residence stands for."""
    slow, fast = replica("prefix-aware", curve=CURVE.replace("4,", "1,")), replica("prefix-aware")
    assert slow.prefix_cache is not None
    assert fast.prefix_cache is not None
    assert slow.prefix_cache.found_fracs[0] < fast.prefix_cache.found_fracs[0]


def test_a_plan_says_what_it_expects_to_find_and_the_checker_works_it_out() -> None:
    plan = planned("prefix-aware")
    record = plan.pools[0].deployments[0].deployment.prefix_cache
    assert plan.workloads[0].caching == "prefix"
    assert record is not None
    honest = plan.as_json()
    assert planner.check_plan(honest) == []
    lies = (
        ("found_fracs", [record.found_fracs[0] * 1.05], "prefix_cache.found_fracs[0] is"),
        ("residence_s", record.residence_s * 1.2, "prefix_cache.residence_s is"),
        ("cache_tokens", record.cache_tokens * 1.2, "prefix_cache.cache_tokens is"),
        ("spread_over", 3, "prefix_cache.spread_over is 1, not 3"),
        ("load_frac", record.load_frac / 2, "prefix_cache.load_frac is"),
    )
    for key, value, words in lies:
        lie = copy.deepcopy(honest)
        lie["pools"][0]["deployments"][0]["deployment"]["prefix_cache"][key] = value
        assert any(words in broken for broken in planner.check_plan(lie)), key
    silent = copy.deepcopy(honest)
    del silent["pools"][0]["deployments"][0]["deployment"]["prefix_cache"]
    assert any("deployment.prefix_cache is" in broken for broken in planner.check_plan(silent))


@for_each(
    ("curve", "words"),
    [
        ("{curve: []}", "curve"),
        ("{curve: [{tokens: 1M, hit_rate: 20%}, {tokens: 1M, hit_rate: 30%}]}", "no larger than the size before"),
        (
            "{curve: [{tokens: 1M, hit_rate: 20%}, {tokens: 2M, hit_rate: 10%}]}",
            "below the hit rate of a smaller cache",
        ),
        ("{curve: [{tokens: 1M, hit_rate: 100%}]}", "would leave nothing new in any prompt"),
        ("{curve: [{tokens: 9000T, hit_rate: 10%}]}", "9000T"),
        ("{curve: [{cache: 10 GB, hit_rate: 10%}]}", "cache"),
        ("{requests_per_s: 0, curve: [{tokens: 1M, hit_rate: 10%}]}", "requests_per_s"),
    ],
)
def test_curves_that_cannot_be(curve: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        case_from_text(DEMAND.replace("ROUTER", "random").replace("CURVE", curve))
    assert words in str(error.value)


def test_the_rate_of_a_curve_is_assumed_aloud() -> None:
    case = case_from_text(DEMAND.replace("ROUTER", "random").replace("CURVE", CURVE.replace("requests_per_s: 4, ", "")))
    assumed = {a.key: a for a in case.assumptions}
    assert assumed["workloads.agent.caching.prefix_reuse.requests_per_s"].value == "5.787"


def test_what_api_bills_count_of_a_curve_is_assumed_aloud() -> None:
    """Bills have the shared prefix alone; in 5 minutes 300 x 4 x 6,500 = 7.8M tokens come, where the curve has 70%."""
    assumed = {a.key: a for a in case_behind("prefix-aware").assumptions}
    told = assumed["workloads.agent.caching.prefix_reuse, on APIs"]
    assert told.value == "the shared prefix"
    assert "would find about 70% of prompt tokens" in told.why
    with_curve, without = case_behind("prefix-aware"), case_from_text(WITHOUT)
    bills = [case.workloads[0].api_cached_tokens(8000) for case in (with_curve, without)]
    assert bills == [500.0, 500.0]
