"""Caches: what is left to compute, what they hold in GPU memory, what they cost, and which choices are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from planner.candidates.enumerate import Candidates, enumerate_candidates
from planner.candidates.replica import Replica, machine_for
from planner.candidates.step_budget import replica_for
from planner.candidates.traffic import Traffic, traffic_of
from planner.case.apis import cache_usd_per_h, on_gpus, request_usd
from planner.case.case import Bucket, CacheCosts, Case, Workload, kinds_of
from planner.case.demand.load import case_from_text
from planner.case.slots import rates_rps, requests_per_month, slots_of
from planner.catalog.entries import ApiModel, ApiTier
from planner.catalog.variant import Variant
from planner.optimization.formulate import pool_of
from planner.performance.closed_loop import largest_in_flight
from planner.performance.latency import prefill_s
from planner.performance.queueing import percentile_of_sum

COSTS = CacheCosts(tier_usd_per_month=73.0, vector_store_usd_per_month=146.0, embedding_usd_per_1m_tokens=0.02)
FREE = CacheCosts(tier_usd_per_month=0.0, vector_store_usd_per_month=0.0, embedding_usd_per_1m_tokens=0.0)
BASE = case_from_text(
    """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 240k, shape: flat}
    tokens: {buckets: [{input: 2304, output: 200, share: 100%}]}
    slo: {ttft_p95: 2s, tpot_p95: 60ms}
menu: {gpus: [l40s, h100], quantizations: [fp16], purchase: [on-demand]}
baseline: openai/gpt-4o-mini
"""
)
PREFIX: dict[str, Any] = {"shared_prefix_tokens": 2048.0, "prefix_hit_frac": 0.85}


def case_with(costs: CacheCosts = FREE, **fields: Any) -> Case:
    workload = BASE.workloads[0].model_copy(update=PREFIX | fields)
    return BASE.model_copy(update={"workloads": (workload,), "cache_costs": costs})


def with_caching(option: str, **fields: Any) -> Workload:
    return case_with(**fields).workloads[0].with_caching(option)


def options_kept(case: Case) -> list[str]:
    return [group.caching[0] for group in enumerate_candidates(case).pools.values()]


def test_a_prefix_found_by_85_percent_saves_three_quarters_of_prefill() -> None:
    """2,048 tokens of prefix before 256 of query, 10,000 requests an hour, $0.50 for a million tokens."""
    api = ApiModel(
        provider="p", model="m",
        tiers=(ApiTier(input_usd_per_1m=0.50, cached_input_usd_per_1m=0.0, output_usd_per_1m=0.0),),
    )  # fmt: skip
    case = case_with().model_copy(update={"apis": {"p/m": api}})
    tokens, usd = [], []
    for option in ("none", "prefix"):
        lengths = traffic_of(with_caching(option)).lengths
        tokens.append(10_000 * float((lengths.input_tokens - lengths.cached_tokens)[0]))
        usd.append(10_000 * float(request_usd(case, with_caching(option), "p/m")[0]))
    assert tokens == pytest.approx([23.04e6, 5.632e6])
    assert 1 - tokens[1] / tokens[0] == pytest.approx(0.756, abs=5e-4)
    assert usd[0] - usd[1] == pytest.approx(8.70, abs=5e-3)


def test_a_template_counts_after_the_prefix() -> None:
    w = with_caching("prefix+template", template_tokens=200.0, template_hit_frac=0.5)
    assert w.cached_tokens(2304) == pytest.approx(0.85 * 2048 + 0.5 * 200)
    assert w.cached_tokens(2100) == pytest.approx(0.85 * 2048 + 0.5 * 52), "what is left after the prefix"
    assert with_caching("template", template_tokens=200.0, template_hit_frac=0.5).cached_tokens(2304) == 100


def test_what_may_be_found_is_resident_once_on_every_replica() -> None:
    fields = {"prefixes": 30.0, "template_tokens": 500.0, "template_hit_frac": 0.9}
    assert traffic_of(with_caching("prefix", **fields)).lengths.resident_tokens == 30 * 2048
    assert traffic_of(with_caching("prefix+template", **fields)).lengths.resident_tokens == 30 * 2048 + 500
    assert traffic_of(with_caching("none", **fields)).lengths.resident_tokens == 0


def test_resident_prefixes_leave_less_room_for_requests() -> None:
    machine = machine_for(BASE, Variant("llama-3.1-8b", "fp16", "l40s", 1))
    none, one, many = (
        float(largest_in_flight(machine, 2304.0, 200.0, found, resident))
        for found, resident in ((0.0, 0.0), (0.85 * 2048, 2048.0), (0.85 * 2048, 80 * 2048.0))
    )
    assert many < none < one
    room = none * (2304 + 100)
    assert one == pytest.approx((room - 2048) / (2304 + 100 - 0.85 * 2048), rel=0.01)


def replica_of(option: str, **fields: Any) -> Replica:
    case = case_with(**fields)
    return replica_for(
        case, traffic_of(case.workloads[0].with_caching(option)), Variant("llama-3.1-8b", "fp16", "h100", 1)
    )


def test_a_prefix_makes_a_replica_faster() -> None:
    assert replica_of("prefix").seconds_per_request < 0.8 * replica_of("none").seconds_per_request
    assert replica_of("semantic", semantic_hit_frac=0.5).seconds_per_request == replica_of("none").seconds_per_request


def test_a_ttft_at_a_percentile_is_that_of_a_request_that_misses_where_more_of_them_do() -> None:
    """All prompts are equally long. 85% find the prefix: the one in twenty that TTFT at p95 is about does not."""
    most, some, none = (
        replica_of(o, prefix_hit_frac=hit) for o, hit in (("prefix", 0.96), ("prefix", 0.85), ("none", 0))
    )

    def prompt_s(replica: Replica) -> float:
        (prompts,) = replica.prompts
        return percentile_of_sum(prompts.prefill_s, 0.0, 0.0, 0.95, prompts.share_frac)

    assert prompt_s(some) == prompt_s(none)
    assert prompt_s(most) < 0.5 * prompt_s(none)
    machine = machine_for(BASE, Variant("llama-3.1-8b", "fp16", "h100", 1))
    assert prompt_s(most) == pytest.approx(float(prefill_s(machine, 256.0, 2304.0)))


def test_caches_cost_what_the_menu_says() -> None:
    case = case_with(COSTS, semantic_hit_frac=0.3)
    slots, (w,) = slots_of(case), case.workloads
    hours = np.array([s.hours_per_month for s in slots])

    def usd_per_month(option: str) -> float:
        return float(cache_usd_per_h(case, w, option, slots) @ hours)

    embedding = requests_per_month(w, slots) * 2304 * 0.02 / 1e6
    assert usd_per_month("none") == 0
    assert usd_per_month("prefix") == usd_per_month("prefix+template") == pytest.approx(73.0)
    assert usd_per_month("semantic") == pytest.approx(146.0 + embedding), "found or not, every prompt is embedded"
    assert usd_per_month("prefix+semantic") == pytest.approx(73.0 + 146.0 + embedding)


def test_kinds_of_an_option() -> None:
    assert kinds_of("none") == frozenset()
    assert kinds_of("prefix+semantic") == {"prefix", "semantic"}
    assert on_gpus("prefix+semantic") == "prefix"
    assert on_gpus("semantic") == on_gpus("none") == "none"


def test_answers_found_whole_reach_nobody() -> None:
    case = case_with(COSTS, semantic_hit_frac=0.3, caching=("none", "semantic"))
    found, slots = enumerate_candidates(case), slots_of(case)
    plain, semantic = (pool_of(case, g, found.accepted[k], slots) for k, g in found.pools.items())
    assert (plain.key, semantic.key) == ("chat", "chat [semantic]")
    np.testing.assert_allclose(semantic.rate_rps, 0.7 * plain.rate_rps)
    np.testing.assert_allclose(plain.rate_rps.sum(axis=1), rates_rps(case.workloads[0], slots))
    assert (semantic.apis[0].usd_per_request == plain.apis[0].usd_per_request).all()
    for a, b in zip(plain.deployments, semantic.deployments, strict=True):
        assert a.key == b.key
        assert (a.seconds_per_request == b.seconds_per_request).all()
    assert not plain.fixed_usd_per_h.any()
    assert (semantic.fixed_usd_per_h > 146 / 730).all()


# Which choices are kept


def test_a_cache_that_costs_nothing_beats_none() -> None:
    case = case_with(caching=("none", "prefix"))
    found = enumerate_candidates(case)
    assert options_kept(case) == ["prefix"]
    assert list(found.pools) == ["chat [prefix]"]
    assert any(r.candidate == "caching: none" and r.limit == "prefix" for r in found.rejected)


def test_a_cache_that_costs_something_is_a_choice() -> None:
    assert options_kept(case_with(COSTS, caching=("none", "prefix"))) == ["none", "prefix"]


def test_a_cache_that_fills_the_memory_is_beaten() -> None:
    """Ten thousand prefixes leave no room on any replica."""
    case = case_with(caching=("none", "prefix"), prefixes=10_000.0)
    assert options_kept(case) == ["none"]
    assert enumerate_candidates(case).accepted["chat"]


def test_a_cache_that_is_never_found_beats_nothing() -> None:
    """It takes memory and saves nothing: beaten, unless an API makes it the same."""
    case = case_with(caching=("none", "prefix"), prefix_hit_frac=0.0, prefixes=20.0, api_allowed=False)
    assert options_kept(case) == ["none"]


def test_api_prices_do_not_depend_on_what_is_cached_here() -> None:
    case = case_with(COSTS, caching=("none", "prefix"))
    found, slots = enumerate_candidates(case), slots_of(case)
    none, prefix = (pool_of(case, found.pools[key], found.accepted[key], slots) for key in ("chat", "chat [prefix]"))
    assert none.apis
    assert [a.usd_per_request.tolist() for a in none.apis] == [a.usd_per_request.tolist() for a in prefix.apis]


def test_of_equal_choices_the_first_stays() -> None:
    nothing_to_find = case_with(caching=("none", "template"), shared_prefix_tokens=0.0, prefix_hit_frac=0.0)
    assert options_kept(nothing_to_find) == ["none"]


def test_what_is_possible_under_some_choice_is_not_called_impossible() -> None:
    """Without the prefix cache TTFT cannot be kept on an L40S; with it, it can."""
    fields: dict[str, Any] = {"caching": ("none", "prefix"), "buckets": (bucket(30_000, 500),)}
    fields |= {"shared_prefix_tokens": 29_000.0, "prefix_hit_frac": 0.99, "ttft_prompt_tokens": 30_000.0}
    found = enumerate_candidates(case_with(COSTS, **fields))
    assert "llama-3.1-8b fp16 on 1 x l40s" in names(found, "chat [prefix]") - names(found, "chat")
    assert not any(r.candidate == "llama-3.1-8b fp16 on 1 x l40s" for r in found.rejected)


def bucket(input_tokens: float, output_tokens: float, share: float = 1.0) -> Bucket:
    return Bucket(share_frac=share, input_tokens=input_tokens, output_tokens=output_tokens)


def names(found: Candidates, pool: str) -> set[str]:
    return {c.name for c in found.accepted[pool]}


def test_a_shared_replica_holds_the_prefixes_of_all() -> None:
    a = with_caching("prefix")
    b = with_caching("prefix+template", prefixes=3.0, template_tokens=100.0, template_hit_frac=0.5)
    assert Traffic((a, b), (0.5, 0.5)).lengths.resident_tokens == 2048 + 3 * 2048 + 100
