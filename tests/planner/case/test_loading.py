"""From a demand file to a case: defaults are said, own figures win, means are kept, and the hash is stable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import yaml
from genai_prices import Usage, calc_price
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.case.apis import tokens_per_request
from planner.case.case import Case, Workload, case_from_json
from planner.case.demand.starter import starter_text
from planner.case.demand.workload_schema import WorkloadSpec
from planner.case.slots import rates_rps, requests_per_month, slots_of
from planner.catalog import apis as api_prices
from planner.catalog.entries import ApiModel, Offer, shipped_catalog, traffic_kinds
from planner.io.errors import InputError
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan

FIVE_LINES = """\
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 400k}
baseline: openai/gpt-4o-mini
"""
L40S = "aws/g6e.xlarge@us-east-1"


def case_of(text: str = FIVE_LINES) -> Case:
    return planner.case_from_text(text)


def workload_of(below: str = "", forecast: str = "{requests_per_day: 400k}") -> Workload:
    text = FIVE_LINES.replace("{requests_per_day: 400k}", forecast)
    return case_of(text.replace("baseline:", f"    {below}\nbaseline:" if below else "baseline:")).workloads[0]


def offer_of(prices: str, key: str = L40S) -> Offer:
    return case_of(FIVE_LINES + f"prices:\n  {prices}\n").offers[key]


# -- defaults -------------------------------------------------------------------------------------------------------


DEFAULTS = (
    "forecast.shape", "forecast.variation", "forecast.burstiness", "tokens.input", "tokens.output", "slo.ttft_p95",
    "slo.tpot_p95", "quality.max_loss", "spot.critical_share", "menu.regions", "menu.gpus", "menu.quantizations",
    "menu.purchase", "policy.min_replicas", "policy.spread", "policy.engineers", "policy.startup",
    "startup.weights", "horizon",
)  # fmt: skip


def test_five_lines_are_enough_and_every_default_is_said() -> None:
    case = case_of()
    said = [assumption.key for assumption in case.assumptions]
    for name in DEFAULTS:
        assert len([key for key in said if name in key]) == 1, name
    assert all(assumption.value and assumption.why for assumption in case.assumptions)


def test_five_lines_plan() -> None:
    plan = planner.plan_fleet(case_of())
    assert plan.cost_usd_per_month <= plan.baseline.cost_usd_per_month * (1 + 1e-9)
    assert plan.assumptions == case_of().assumptions


def test_what_is_given_is_not_said_to_be_assumed() -> None:
    said = [assumption.key for assumption in case_of(starter_text()).assumptions]
    given = [name for name in DEFAULTS if not any(key.endswith(name) for key in said)]
    still_assumed = {"forecast.variation", "forecast.burstiness", "policy.engineers", "startup.weights", "horizon"}
    assert set(given) >= set(DEFAULTS) - still_assumed


def test_the_default_menu_is_one_region_without_commitments() -> None:
    case = case_of()
    assert {(offer.provider, offer.region) for offer in case.offers.values()} == {("aws", "us-east-1")}
    assert not any(way.startswith("reserved") for way in case.purchase)
    assert case.menu_apis == (case.baseline,) == ("openai/gpt-4o-mini",)
    assert case_of(FIVE_LINES + "menu: {apis: []}\n").menu_apis == ()


def test_a_file_is_named_after_itself_unless_it_has_a_name(tmp_path: Path) -> None:
    file = tmp_path / "q1-2027.yaml"
    file.write_text(FIVE_LINES, encoding="utf-8")
    assert planner.load_case(file).name == "q1-2027"
    file.write_text("name: next quarter\n" + FIVE_LINES, encoding="utf-8")
    assert planner.load_case(str(file)).name == "next quarter"


def test_names_are_found_by_alias_and_in_any_case() -> None:
    text = FIVE_LINES.replace("llama-3.1-8b", "LLAMA-3.1-8B") + "menu: {gpus: [L40S], quantizations: [BF16]}\n"
    case = case_of(text)
    assert case.workloads[0].models[0].model == "llama-3.1-8b"
    assert list(case.quantizations) == ["fp16"]
    assert {offer.gpu for offer in case.offers.values()} == {"l40s"}


# -- demand ---------------------------------------------------------------------------------------------------------


def test_a_day_of_hours_holds_every_day() -> None:
    hours = list(range(100, 124))
    workload = workload_of(forecast=f"{{hourly: {hours}}}")
    assert workload.weekday_rps == pytest.approx([h / 3600 for h in hours])
    assert workload.weekend_rps == workload.weekday_rps


def test_two_days_are_a_weekday_and_a_weekend_day() -> None:
    hours = list(range(100, 148))
    workload = workload_of(forecast=f"{{hourly: {hours}}}")
    assert workload.weekday_rps == pytest.approx([h / 3600 for h in hours[:24]])
    assert workload.weekend_rps == pytest.approx([h / 3600 for h in hours[24:]])


def test_a_week_of_hours_keeps_its_total_and_shows_its_variation() -> None:
    rng = np.random.default_rng(7)
    week = (1000 + 400 * rng.random(168)).round().tolist()
    text = FIVE_LINES.replace("{requests_per_day: 400k}", f"{{hourly: {week}}}")
    case = case_of(text)
    workload, slots = case.workloads[0], slots_of(case)
    assert requests_per_month(workload, slots) == pytest.approx(sum(week) * 730 / 168)
    steady = case_of(FIVE_LINES.replace("{requests_per_day: 400k}", f"{{hourly: {[1000] * 168}}}")).workloads[0]
    assert 0 < steady.rate_cv < workload.rate_cv < 0.5


@pytest.mark.parametrize("shape", ["flat", "business-hours", "consumer"])
def test_requests_per_day_is_the_mean_over_the_week(shape: str) -> None:
    case = case_of(FIVE_LINES.replace("400k}", f"400k, shape: {shape}}}"))
    assert requests_per_month(case.workloads[0], slots_of(case)) == pytest.approx(400_000 * 730 / 24)


def test_without_growth_there_is_one_pair_of_days_and_with_it_three() -> None:
    flat, grown = slots_of(case_of()), slots_of(case_of(FIVE_LINES.replace("400k}", "400k, growth_per_month: 10%}")))
    assert (len(flat), len(grown)) == (48, 3 * 48)
    for slots, months in ((flat, 1), (grown, 3)):
        assert sum(slot.hours_per_month for slot in slots) == pytest.approx(730 * months)


def test_growth_compounds_from_month_to_month() -> None:
    case = case_of(FIVE_LINES.replace("400k}", "400k, growth_per_month: 10%}"))
    rates = rates_rps(case.workloads[0], slots_of(case)).reshape(3, 48)
    assert rates[1] == pytest.approx(rates[0] * 1.1)
    assert rates[2] == pytest.approx(rates[0] * 1.21)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    st.floats(min_value=10, max_value=50_000),
    st.floats(min_value=1, max_value=20),
    st.floats(min_value=10, max_value=5_000),
    st.floats(min_value=1, max_value=20),
)
def test_slicing_keeps_the_means_of_the_log_normals(
    input_p50: float, input_ratio: float, output_p50: float, output_ratio: float
) -> None:
    spreads = ((input_p50, input_p50 * input_ratio), (output_p50, output_p50 * output_ratio))
    inputs, outputs = (f"{{p50: {p50!r}, p95: {p95!r}}}" for p50, p95 in spreads)
    workload = workload_of(f"tokens: {{input: {inputs}, output: {outputs}, longest: 100M}}")
    assert sum(b.share_frac for b in workload.buckets) == pytest.approx(1)
    expected = [p50 * np.exp((np.log(p95 / p50) / 1.6448536269514722) ** 2 / 2) for p50, p95 in spreads]
    assert sum(b.share_frac * b.input_tokens for b in workload.buckets) == pytest.approx(expected[0], rel=1e-6)
    assert sum(b.share_frac * b.output_tokens for b in workload.buckets) == pytest.approx(expected[1], rel=1e-6)


def test_one_number_is_one_length() -> None:
    (bucket,) = workload_of("tokens: {input: 900, output: 1.2k}").buckets
    assert (bucket.share_frac, bucket.input_tokens, bucket.output_tokens) == (1.0, 900, 1200)


def test_own_buckets_are_taken_as_they_are() -> None:
    shares = "{input: 100, output: 10, share: 75%}, {input: 4k, output: 300, share: 25%}"
    workload = workload_of(f"tokens: {{buckets: [{shares}, {{input: 9, output: 9, share: 0%}}]}}")
    assert [(b.share_frac, b.input_tokens, b.output_tokens) for b in workload.buckets] == [
        (0.75, 100, 10),
        (0.25, 4000, 300),
    ]
    assert tokens_per_request(workload) == pytest.approx(0.75 * 110 + 0.25 * 4300)


@pytest.mark.parametrize(
    ("written", "seconds", "percentile"), [("ttft_p99: 250ms", 0.25, 0.99), ("ttft_p50: 2 min", 120.0, 0.5)]
)
def test_objectives_keep_their_percentile(written: str, seconds: float, percentile: float) -> None:
    ttft = workload_of(f"slo: {{{written}}}").ttft
    assert (ttft.seconds, ttft.percentile) == (pytest.approx(seconds), percentile)


# -- levers -----------------------------------------------------------------------------------------------------------


def said_of(text: str) -> dict[str, str]:
    return {assumption.key: assumption.value for assumption in case_of(text).assumptions}


def with_lines(*below: str, then: str = "") -> str:
    return FIVE_LINES.replace("baseline:", "".join(f"    {line}\n" for line in below) + "baseline:") + then


def test_a_mean_that_nobody_gave_is_said() -> None:
    spread = "{p50: 1020, p95: 4083}"
    said = said_of(with_lines(f"tokens: {{input: {spread}, output: 40}}"))
    assert said["workloads.chat.tokens.input.mean"] == "1,455 tokens"
    assert "workloads.chat.tokens.output.mean" not in said, "one length has no spread"
    known = with_lines("tokens: {input: {p50: 1020, p95: 4083, mean: 1155}, output: 40}")
    assert "workloads.chat.tokens.input.mean" not in said_of(known)
    (workload,) = case_of(known).workloads
    assert sum(b.share_frac * b.input_tokens for b in workload.buckets) == pytest.approx(1155, rel=1e-3)


def test_burstiness_is_as_given_or_that_of_the_kind_of_traffic() -> None:
    key = "workloads.chat.forecast.burstiness"
    for lines, burstiness in (((), 2.0), (("kind: chat",), 2.0), (("kind: completion",), 23.0)):
        (workload,) = case_of(with_lines(*lines)).workloads
        assert workload.arrival_scv == burstiness
        assert said_of(with_lines(*lines))[key] == f"{burstiness:g}"
    own = with_lines("kind: completion").replace("400k}", "400k, burstiness: 4}")
    assert case_of(own).workloads[0].arrival_scv == 4
    assert key not in said_of(own)
    assert f"{key}.window" not in said_of(own)


@for_each(
    ("below", "kind", "ttft_s", "tpot_s"),
    [
        ("tokens: {input: 500, output: 200}", "chat", 2.0, 0.05),
        ("tokens: {input: 500, output: 16}", "classification", 2.0, 0.2),
        ("tokens: {input: 500, output: 17}", "chat", 2.0, 0.05),
        ("tokens: {input: 500, output: 2000}", "reasoning", 2.0, 0.05),
        ("tokens: {input: 12000, output: 200}", "chat", 2.0, 0.05),
        (
            "tokens: {input: 12000, output: 200} | caching: {shared_prefix_tokens: 8000, prefix_hit_rate: 90%}",
            "agent",
            5.0,
            0.05,
        ),
        ("deadline: 6h", "batch", 6 * 3600.0, 1.0),
    ],
)
def test_a_kind_is_guessed_and_gives_objectives(below: str, kind: str, ttft_s: float, tpot_s: float) -> None:
    text = with_lines(*below.split(" | "))
    assert said_of(text)["workloads.chat.kind"] == kind
    (w,) = case_of(text).workloads
    assert (w.ttft.seconds, w.tpot.seconds) == (ttft_s, pytest.approx(tpot_s))


def test_a_kind_that_is_given_is_not_guessed_and_gives_objectives() -> None:
    text = with_lines("kind: completion", "tokens: {input: 500, output: 10}")
    assert "workloads.chat.kind" not in said_of(text)
    assert case_of(text).workloads[0].ttft.seconds == 0.5


def test_a_kind_is_not_said_where_it_decides_nothing() -> None:
    text = with_lines("slo: {ttft_p95: 1s, tpot_p95: 40ms}").replace("400k}", "400k, burstiness: 4}")
    assert "workloads.chat.kind" not in said_of(text)
    assert "workloads.chat.kind" in said_of(with_lines("slo: {ttft_p95: 1s, tpot_p95: 40ms}"))


def test_batch_work_needs_a_deadline() -> None:
    with pytest.raises(InputError, match="Add deadline: 24h"):
        case_of(with_lines("kind: batch"))


def test_no_pace_is_assumed_where_whole_answers_have_an_objective() -> None:
    text = with_lines("slo: {ttft_p95: 500ms, e2e_p99: 800ms}")
    (w,) = case_of(text).workloads
    assert (w.tpot.seconds, w.tpot.percentile) == (0.8, 0.99)
    assert said_of(text)["workloads.chat.slo.tpot_p95"] == "none"


def test_a_burstiness_above_all_known_ones_says_its_window() -> None:
    key = "workloads.chat.forecast.burstiness.window"
    assert said_of(FIVE_LINES.replace("400k}", "400k, burstiness: 89}"))[key] == "a minute"
    assert key not in said_of(FIVE_LINES.replace("400k}", "400k, burstiness: 22.9}"))


def test_kinds_of_traffic_have_a_source_and_are_those_of_the_schema() -> None:
    names = get_args(get_args(WorkloadSpec.model_fields["kind"].annotation)[0])
    assert set(names) == set(traffic_kinds())
    for kind, known in traffic_kinds().items():
        assert known.source and known.date and known.tpot_why
        assert bool(known.ttft_s and known.ttft_why) == (kind != "batch")


def test_without_levers_nothing_is_shared_cached_moved_or_shed() -> None:
    case = case_of()
    w = case.workloads[0]
    assert (w.caching, w.sharing, w.adapter_gb, w.deadline_h, w.api_wait_h) == (("none",), False, None, None, 0)
    assert (w.regions, w.providers, w.shed_usd_per_request, w.api_allowed) == (None, None, None, True)
    assert (case.limits.max_gpu_types, case.limits.max_deployments) == (None, 2)
    said = [assumption.key for assumption in case.assumptions]
    assert not [key for key in said if "tenancy" in key or "cache_costs" in key or "shed" in key]


EVERY_KIND = "{shared_prefix_tokens: 500, prefix_hit_rate: 80%, template_tokens: 90, template_hit_rate: 50%, "
EVERY_KIND += "semantic_hit_rate: 10%, prefixes: 20}"


@for_each(
    ("caching", "menu", "options"),
    [
        ("{semantic_hit_rate: 10%}", "", ("none", "semantic")),
        ("{shared_prefix_tokens: 500, prefix_hit_rate: 80%}", "", ("none", "prefix")),
        (EVERY_KIND, "menu: {caching: []}", ("none",)),
        (EVERY_KIND, "menu: {caching: [semantic, prefix]}", ("none", "prefix", "semantic", "prefix+semantic")),
        (
            EVERY_KIND,
            "",
            (
                "none", "prefix", "template", "semantic", "prefix+template", "prefix+semantic", "template+semantic",
                "prefix+template+semantic",
            ),
        ),
    ],
)  # fmt: skip
def test_caching_is_none_or_any_mix_of_what_workload_and_menu_allow(
    caching: str, menu: str, options: tuple[str, ...]
) -> None:
    assert case_of(with_lines(f"caching: {caching}", then=menu)).workloads[0].caching == options


def test_what_requests_have_in_common_is_kept() -> None:
    w = workload_of(f"caching: {EVERY_KIND}")
    assert (w.shared_prefix_tokens, w.prefix_hit_frac, w.prefixes) == (500, 0.8, 20)
    assert (w.template_tokens, w.template_hit_frac, w.semantic_hit_frac) == (90, 0.5, 0.1)
    assert w.cached_tokens(1000) == pytest.approx(0.8 * 500 + 0.5 * 90)


def test_costs_of_caches_are_said_only_where_a_semantic_cache_may_be_used() -> None:
    semantic = with_lines("caching: {semantic_hit_rate: 10%}")
    said = said_of(semantic)
    assert said["policy.cache_costs.embedding_usd_per_1m_tokens"] == "$0.02"
    assert said["policy.cache_costs.vector_store_usd_per_month"] == "$300"
    costs = case_of(semantic).cache_costs
    shipped = (0, 300, 0.02)
    found = (costs.tier_usd_per_month, costs.vector_store_usd_per_month, costs.embedding_usd_per_1m_tokens)
    assert found == shipped
    prefix = with_lines("caching: {shared_prefix_tokens: 500, prefix_hit_rate: 80%}")
    for silent in (semantic + "menu: {caching: [prefix]}\n", prefix):
        assert not [key for key in said_of(silent) if "cache_costs" in key]
    own = "tier_usd_per_month: 1, vector_store_usd_per_month: 2, embedding_usd_per_1m_tokens: 0"
    case = case_of(f"{semantic}policy: {{cache_costs: {{{own}}}}}\n")
    assert (case.cache_costs.tier_usd_per_month, case.cache_costs.embedding_usd_per_1m_tokens) == (1, 0)
    assert not [a.key for a in case.assumptions if "cache_costs" in a.key]


TWO = """\
workloads:
  - {name: a, models: [llama-3.1-8b], forecast: {requests_per_day: 400k}, tenancy: shared}
  - {name: b, models: [qwen2.5-7b, llama-3.1-8b], forecast: {requests_per_day: 400k}, tenancy: shared}
baseline: openai/gpt-4o-mini
"""


def test_sharing_takes_both_the_workload_and_the_menu() -> None:
    assert [w.sharing for w in case_of(TWO).workloads] == [True, True]
    assert [w.sharing for w in case_of(TWO + "menu: {tenancy: [dedicated]}\n").workloads] == [False, False]
    one = TWO.replace("tenancy: shared}", "tenancy: dedicated}", 1)
    assert [w.sharing for w in case_of(one).workloads] == [False, True]


def test_rules_of_sharing_are_said_only_where_two_workloads_could_share() -> None:
    said = said_of(TWO)
    assert said["policy.tenancy.max_share"] == "60%" and said["policy.tenancy.correlation"] == "0.3"
    tenancy = case_of(TWO).tenancy
    assert (tenancy.max_share_frac, tenancy.correlation, tenancy.adapters_per_replica) == (0.6, 0.3, 64)
    alone = [TWO.replace(", llama-3.1-8b]", "]"), TWO + "menu: {tenancy: [dedicated]}\n", with_lines("tenancy: shared")]
    for text in alone:
        assert not [key for key in said_of(text) if "policy.tenancy" in key]
    own = case_of(TWO + "policy: {tenancy: {max_share: 90%, correlation: 0, adapters_per_replica: 8}}\n")
    assert (own.tenancy.max_share_frac, own.tenancy.correlation, own.tenancy.adapters_per_replica) == (0.9, 0, 8)
    assert not [a.key for a in own.assumptions if "policy.tenancy" in a.key]


@pytest.mark.parametrize(("written", "gb"), [("100MB", 0.1), ("{size: 1.5 GB}", 1.5), ("512MiB", 0.536870912)])
def test_an_adapter_is_its_size(written: str, gb: float) -> None:
    assert workload_of(f"adapter: {written}").adapter_gb == pytest.approx(gb, rel=1e-12)
    key = "policy.tenancy.adapters_per_replica"
    assert key not in said_of(with_lines(f"adapter: {written}")) | said_of(TWO)
    assert said_of(TWO.replace("tenancy: shared}", f"tenancy: shared, adapter: {written}}}", 1))[key] == "64"


def test_batch_work_waits_a_day_at_most_and_has_no_latency_objective() -> None:
    w = workload_of("deadline: 6h")
    assert (w.deadline_h, w.api_wait_h) == (6, 6)
    assert (w.ttft.seconds, w.tpot.seconds) == (6 * 3600, 1)
    long = case_of(with_lines("deadline: 3d", "slo: {ttft_p95: 9s, tpot_p95: 80ms}"))
    w = long.workloads[0]
    assert (w.deadline_h, w.api_wait_h, w.ttft.seconds, w.tpot.seconds) == (24, 72, 9, 0.08)
    assert {a.key: a.value for a in long.assumptions}["workloads.chat.deadline"] == "24 h"
    assert "workloads.chat.deadline" not in said_of(with_lines("deadline: 24h"))


def test_waiting_and_batch_prices_are_switched_off_apart() -> None:
    stays = case_of(with_lines("deadline: 24h", then="menu: {defer: false}\n")).workloads[0]
    assert (stays.deadline_h, stays.api_wait_h) == (None, 24)
    listed = case_of(with_lines("deadline: 24h", then="menu: {api_batch: false}\n")).workloads[0]
    assert (listed.deadline_h, listed.api_wait_h) == (24, 0)


def test_a_workload_stays_where_it_must_and_keeps_away_from_apis() -> None:
    text = with_lines("regions: [us-west-2]", "providers: [aws]", then="menu: {regions: [us-east-1, us-west-2]}\n")
    w = case_of(text).workloads[0]
    assert (w.regions, w.providers, w.api_allowed) == (("us-west-2",), ("aws",), False)
    assert said_of(text)["workloads.chat.api"] == "forbidden"
    allowed = text.replace("    regions:", "    api: allowed\n    regions:")
    assert case_of(allowed).workloads[0].api_allowed
    assert "workloads.chat.api" not in said_of(allowed)


@pytest.mark.parametrize(("priority", "factor"), [("low", 3), ("normal", 10), ("high", 30)])
def test_a_priority_is_a_multiple_of_the_baseline_price_of_the_mean_request(priority: str, factor: int) -> None:
    buckets = "tokens: {buckets: [{input: 1M, output: 100k, share: 75%}, {input: 2M, output: 300k, share: 25%}]}"
    cached = "caching: {shared_prefix_tokens: 900, prefix_hit_rate: 99%}"
    text = with_lines(buckets, cached, f"shed: {{priority: {priority}}}")
    usd = 0.75 * (0.15 + 0.06) + 0.25 * (0.30 + 0.18)
    assert case_of(text).workloads[0].shed_usd_per_request == pytest.approx(factor * usd)
    assert said_of(text)["workloads.chat.shed.priority"] == f"${1000 * factor * usd:.4g} per 1k requests"


def test_an_own_penalty_is_taken_as_it_is() -> None:
    text = with_lines("shed: {penalty_per_1k_requests: $5}")
    assert case_of(text).workloads[0].shed_usd_per_request == pytest.approx(0.005)
    assert not [key for key in said_of(text) if "shed" in key]


def test_limits_of_the_menu_and_the_policy() -> None:
    case = case_of(FIVE_LINES + "menu: {max_deployments: 1}\npolicy: {max_gpu_types: 3, startup: 90s}\n")
    assert (case.limits.max_deployments, case.limits.max_gpu_types) == (1, 3)
    assert case.start.instance_s == 90
    assert "policy.startup" not in [a.key for a in case.assumptions]
    assert case_of().start.instance_s == 300 < case_of().start.spot_within_s
    assert "startup.weights" not in said_of(FIVE_LINES + "menu: {purchase: [on-demand]}\n")


# -- own prices -----------------------------------------------------------------------------------------------------


def test_an_own_price_wins_and_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "case.yaml"
    file.write_text(FIVE_LINES + "prices: {aws/g6e.xlarge: {on_demand: $1.70/h}}\n", encoding="utf-8")
    price = planner.load_case(file).offers[L40S].prices.on_demand
    assert price is not None
    assert price.usd_per_h == 1.70
    assert "case.yaml" in price.source


def test_changes_are_on_the_list_price_and_on_the_own_on_demand_price() -> None:
    listed = shipped_catalog().offers[L40S].prices
    assert listed.on_demand and listed.spot
    prices = offer_of("aws/g6e.xlarge: {reserved_1y: -40%}").prices
    assert prices.reserved_1y and prices.reserved_1y.usd_per_h == pytest.approx(0.6 * listed.on_demand.usd_per_h)
    assert prices.on_demand == listed.on_demand and prices.spot == listed.spot
    prices = offer_of("aws/g6e.xlarge: {on_demand: -10%}").prices
    assert prices.on_demand and prices.on_demand.usd_per_h == pytest.approx(0.9 * listed.on_demand.usd_per_h)
    prices = offer_of("aws/g6e.xlarge: {on_demand: $1.70/h, reserved_1y: -40%, reserved_3y: -60%, spot: $0.5/h}").prices
    assert prices.reserved_1y and prices.reserved_1y.usd_per_h == pytest.approx(0.6 * 1.70)
    assert prices.reserved_3y and prices.reserved_3y.usd_per_h == pytest.approx(0.4 * 1.70)
    assert prices.spot and prices.spot.p50_usd_per_h == 0.5


def test_a_price_for_one_region_leaves_the_other_alone() -> None:
    text = FIVE_LINES + "menu: {providers: [aws], regions: [us-east-1, us-west-2]}\n"
    west = L40S.replace("east-1", "west-2")
    one, both = (
        case_of(text + f"prices: {{'{L40S}': {{on_demand: $1/h}}}}\n"),
        case_of(text + "prices: {aws/g6e.xlarge: {on_demand: $1/h}}\n"),
    )
    assert one.offers[west] == shipped_catalog().offers[west]
    for case, keys in ((one, [L40S]), (both, [L40S, west])):
        for key in keys:
            price = case.offers[key].prices.on_demand
            assert price is not None and price.usd_per_h == 1


def test_an_own_price_counts_where_the_offer_has_no_list_price() -> None:
    own = """\
menu: {regions: [z], purchase: [reserved-1y]}
prices: {own/box: {reserved_1y: $2/h}}
catalog:
  offers:
    own/box@z: {provider: own, instance: box, region: z, gpu: l40s, gpus: 8, prices: {}}
"""
    price = case_of(FIVE_LINES + own).offers["own/box@z"].prices.reserved_1y
    assert price is not None and price.usd_per_h == 2


def test_a_payment_up_front_is_spread_over_its_term() -> None:
    own = "reserved_1y_upfront: {upfront: $8760, per_hour: $0.25/h}, reserved_3y_upfront: {upfront: $13.14k}"
    text = FIVE_LINES + f"menu: {{purchase: [on-demand, reserved-1y-upfront]}}\nprices: {{aws/g6e.xlarge: {{{own}}}}}\n"
    prices = case_of(text).offers[L40S].prices
    hourly = {term: price.usd_per_h for term, price in prices.reserved().items()}
    assert list(hourly) == ["reserved-1y", "reserved-3y", "reserved-1y-upfront", "reserved-3y-upfront"]
    assert hourly["reserved-1y-upfront"] == pytest.approx(1.25)
    assert hourly["reserved-3y-upfront"] == pytest.approx(0.50)
    paid = prices.upfront()["reserved-1y-upfront"]
    assert (paid.upfront_usd, paid.usd_per_h) == (8760, 0.25)
    assert "your own price" in prices.reserved()["reserved-1y-upfront"].source


def test_published_payments_up_front_can_be_planned_with() -> None:
    """Half a dollar an hour would be a guess: three years of a g6e.xlarge are published at $6,129.67 a year."""
    prices = case_of(FIVE_LINES + "menu: {purchase: [reserved-3y-upfront]}\n").offers[L40S].prices
    price = prices.reserved()["reserved-3y-upfront"]
    assert price.usd_per_h == pytest.approx(6129.67 / 8760, abs=1e-6)
    assert (price.date, price.assumption) == ("2026-06-09", None)


@for_each(
    ("menu", "regions", "said"),
    [
        ("{}", {"us-east-1"}, "aws us-east-1"),
        ("{providers: [aws]}", {"us-east-1"}, "aws us-east-1"),
        ("{providers: [gcp, azure, runpod]}", {"us-central1", "eastus", "US"}, "azure eastus, gcp us-central1"),
        ("{providers: [verda]}", {"FIN-01", "FIN-02", "FIN-03"}, "verda FIN-01, verda FIN-02, verda FIN-03"),
        ("{providers: [aws], regions: [eu-north-1, eu-west-2]}", {"eu-north-1", "eu-west-2"}, None),
    ],
)
def test_no_plan_goes_far_away_unless_the_menu_says_so(menu: str, regions: set[str], said: str | None) -> None:
    case = case_of(FIVE_LINES + f"menu: {menu}\n")
    assert {offer.region for offer in case.offers.values()} == regions
    assert next((a.value for a in case.assumptions if a.key == "menu.regions"), None) == said


def test_an_own_price_is_not_stale() -> None:
    menu = "menu: {providers: [azure], purchase: [on-demand]}\n"
    key = "azure/Standard_ND96isr_H100_v5@eastus"

    def stale(own: str) -> bool:
        price = case_of(FIVE_LINES + menu + own).offers[key].prices.on_demand
        assert price is not None
        return bool(price.stale)

    assert stale("")
    assert not stale(f"prices: {{{key}: {{on_demand: $90/h}}}}\n")
    own = "{on_demand: {usd_per_h: 90, source: my quote, date: '2026-11-01'}}"
    assert not stale(f"catalog: {{offers: {{{key}: {{prices: {own}}}}}}}\n")


def test_cheaper_prices_never_make_a_dearer_plan() -> None:
    menu = "menu: {gpus: [l40s], quantizations: [fp16]}\n"
    listed = fleet_plan(case_of(FIVE_LINES + menu))
    own = fleet_plan(case_of(FIVE_LINES + menu + "prices: {aws/g6e.xlarge: {on_demand: -50%}}\n"))
    assert own.cost_usd_per_month < listed.cost_usd_per_month
    assert all("your own price" in line.price_source for line in own.fleet if line.offer == L40S)


# -- own catalog ------------------------------------------------------------------------------------------------------


OWN = {
    "gpus": {
        "my-gpu": {
            "vram_gb": 96,
            "bandwidth_gb_per_s": 1792,
            "dense_tflops": {"fp16": 460, "fp8": 930},
            "interconnect": {"kind": "pcie", "gb_per_s": 128},
        }
    },
    "offers": {
        "own/box@basement": {
            "provider": "own",
            "instance": "box",
            "region": "basement",
            "gpu": "my-gpu",
            "gpus": 4,
            "prices": {"on_demand": {"usd_per_h": 4}},
        }
    },
    "models": {
        "my-model": {
            "parameters_b": 8,
            "active_parameters_b": 8,
            "layers": 32,
            "hidden": 4096,
            "query_heads": 32,
            "kv_heads": 8,
            "head_dim": 128,
            "ffn": 14336,
            "vocab": 128256,
            "max_context_tokens": 131072,
        }
    },
    "apis": {
        "own/api": {"provider": "own", "model": "api", "tiers": [{"input_usd_per_1m": 9, "output_usd_per_1m": 90}]}
    },
    "shapes": {"night": {"weekday": [10] + [1] * 23, "weekend": [1] * 24}},
}
OWN_DEMAND = """\
workloads:
  - name: chat
    models: [my-model]
    forecast: {requests_per_day: 400k, shape: night}
menu: {gpus: [my-gpu], regions: [basement]}
baseline: own/api
"""


def test_own_entries_in_the_file_and_beside_it_make_the_same_plan(tmp_path: Path) -> None:
    inline, beside = tmp_path / "inline" / "case.yaml", tmp_path / "beside" / "case.yaml"
    for file in (inline, beside):
        file.parent.mkdir()
    inline.write_text(OWN_DEMAND + yaml.safe_dump({"catalog": OWN}), encoding="utf-8")
    beside.write_text(OWN_DEMAND + "catalog: own.yaml\n", encoding="utf-8")
    (beside.parent / "own.yaml").write_text(yaml.safe_dump(OWN), encoding="utf-8")
    cases = [planner.load_case(file) for file in (inline, beside)]
    assert cases[0].hash() == cases[1].hash()
    plan = fleet_plan(cases[0])
    assert {line.offer for line in plan.fleet} == {"own/box@basement"}
    assert plan.workloads[0].models == ("my-model",)
    assert plan.case.gpus["my-gpu"].source == "your own figure"
    assert plan.baseline.provider == "own"
    rates = cases[0].workloads[0].weekday_rps
    assert rates[0] == pytest.approx(10 * rates[1])


def test_a_part_of_an_entry_can_be_overridden_and_then_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "case.yaml"
    text = FIVE_LINES + "catalog:\n  gpus:\n    l40s: {vram_gb: 40}\n"
    file.write_text(text, encoding="utf-8")
    case, shipped = planner.load_case(file), shipped_catalog().gpus["l40s"]
    gpu = case.gpus["l40s"]
    assert gpu.vram_gb == 40 != shipped.vram_gb
    assert gpu.bandwidth_gb_per_s == shipped.bandwidth_gb_per_s
    assert "case.yaml" in gpu.source
    assert case.gpus["l4"] == shipped_catalog().gpus["l4"]
    file.write_text(text.replace("40}", "40, source: our own measurement}"), encoding="utf-8")
    assert planner.load_case(file).gpus["l40s"].source == "our own measurement"
    assert shipped_catalog().gpus["l40s"] == shipped


def test_a_mistake_in_an_own_catalog_file_is_placed_there(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("gpus:\n  my-gpu: {vram_gb: -1}\n", encoding="utf-8")
    file = tmp_path / "case.yaml"
    file.write_text(FIVE_LINES + "catalog: own.yaml\n", encoding="utf-8")
    with pytest.raises(planner.InputError) as refused:
        planner.load_case(file)
    assert {Path(diagnostic.file).name for diagnostic in refused.value.diagnostics} == {"own.yaml"}
    negative = next(c for c in refused.value.diagnostics if "must be more than 0" in c.message)
    assert (negative.line, negative.column) == (2, 21)


# -- API prices -------------------------------------------------------------------------------------------------------


@for_each(
    "tokens",
    [(1_000, 0, 200), (5_000, 3_000, 500), (200_000, 0, 10), (200_001, 9, 10), (350_000, 200_000, 900)],
)
@for_each(
    "name",
    [
        "openai/gpt-4o-mini",
        "openai/gpt-4o",
        "anthropic/claude-sonnet-4-5",
        "google/gemini-2.5-pro",
        "google/gemini-2.5-flash",
        "deepseek/deepseek-chat",
        "groq/llama-3.1-8b-instant",
    ],
)
def test_a_request_costs_what_genai_prices_says(name: str, tokens: tuple[int, int, int]) -> None:
    model = api_prices.api_model(name)
    assert model is not None
    provider, _, ref = name.partition("/")
    usage = Usage(input_tokens=tokens[0], cache_read_tokens=tokens[1] or None, output_tokens=tokens[2])
    price = calc_price(usage, model_ref=ref, provider_id=provider, genai_request_timestamp=api_prices.AS_OF)
    assert model.request_usd(*tokens) == pytest.approx(float(price.total_price), rel=1e-12)


def test_long_prompts_reach_the_dearer_tier() -> None:
    model = api_prices.api_model("google/gemini-2.5-pro")
    assert model is not None and len(model.tiers) == 2
    assert model.request_usd(200_001, 0, 0) > 1.5 * model.request_usd(200_000, 0, 0)


@for_each("tokens", [(1_000, 0, 200), (5_000, 3_000, 500), (350_000, 200_000, 900)])
@for_each(
    "name",
    ["openai/gpt-4o-mini", "openai/gpt-5", "anthropic/claude-sonnet-4-5", "google/gemini-2.5-pro"],
)
def test_work_that_may_wait_costs_what_genai_prices_says_of_batches(name: str, tokens: tuple[int, int, int]) -> None:
    model = api_prices.api_model(name)
    assert model is not None and model.batch is not None and model.batch.turnaround_h == 24
    provider, _, ref = name.partition("/")
    usage = Usage(input_tokens=tokens[0], cache_read_tokens=tokens[1] or None, output_tokens=tokens[2])
    price = calc_price(
        usage,
        model_ref=ref,
        provider_id=provider,
        genai_request_timestamp=api_prices.AS_OF,
        price_context={"processing": "batch"},
    )
    assert model.request_usd(*tokens, wait_h=24) == pytest.approx(float(price.total_price), rel=1e-12)
    assert model.request_usd(*tokens, wait_h=23.9) == model.request_usd(*tokens) > model.request_usd(*tokens, wait_h=48)


@for_each(
    "name",
    ["groq/llama-3.1-8b-instant", "x-ai/grok-4.3", "openai/gpt-5.5-pro", "google/claude-fable-5-1"],
)
def test_batch_prices_are_not_guessed(name: str) -> None:
    model = api_prices.api_model(name)
    assert model is not None and model.batch is None
    assert model.request_usd(900, 0, 90, wait_h=1000) == model.request_usd(900, 0, 90)


def test_the_cheaper_of_both_prices_counts() -> None:
    tiers = [{"input_usd_per_1m": 4, "cached_input_usd_per_1m": 0, "output_usd_per_1m": 8}]
    batch = {"turnaround_h": 6, "tiers": [{"input_usd_per_1m": 2, "output_usd_per_1m": 4}]}
    entry = {"provider": "own", "model": "api", "tiers": tiers, "batch": batch}
    own = ApiModel.model_validate_json(json.dumps(entry))
    assert own.request_usd(1e6, 0, 1e6, wait_h=6) == pytest.approx(6)
    assert own.request_usd(1e6, 1e6, 0, wait_h=6) == 0


def test_the_price_of_embeddings_is_the_published_one() -> None:
    price = calc_price(
        Usage(input_tokens=1_000_000),
        model_ref="text-embedding-3-small",
        provider_id="openai",
        genai_request_timestamp=api_prices.AS_OF,
    )
    assert case_of().cache_costs.embedding_usd_per_1m_tokens == pytest.approx(float(price.total_price))


def test_the_baseline_is_the_price_of_a_request_times_the_requests() -> None:
    text = FIVE_LINES.replace("baseline:", "    tokens: {input: 300k, output: 500}\nbaseline:")
    text = text.replace("baseline:", "    caching: {shared_prefix_tokens: 1000, prefix_hit_rate: 50%}\nbaseline:")
    plan = fleet_plan(case_of(text.replace("openai/gpt-4o-mini", "google/gemini-2.5-pro")))
    model = api_prices.api_model("google/gemini-2.5-pro")
    assert model is not None
    expected = 400_000 * 730 / 24 * model.request_usd(300_000, 500, 500)
    assert plan.baseline.cost_usd_per_month == pytest.approx(expected)


# -- the case as JSON -------------------------------------------------------------------------------------------------


EVERY_LEVER = """\
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 400k}
    caching: {shared_prefix_tokens: 500, prefix_hit_rate: 80%, semantic_hit_rate: 10%}
    tenancy: shared
    adapter: 100MB
    deadline: 24h
    regions: [us-east-1]
    shed: {priority: low}
menu: {purchase: [spot, reserved-1y-upfront], max_deployments: 3}
prices: {aws/g6e.xlarge: {reserved_1y_upfront: {upfront: $8k}}}
baseline: openai/gpt-4o-mini
policy: {max_gpu_types: 2, startup: 3min}
"""


@for_each("text", [FIVE_LINES, starter_text(), EVERY_LEVER, OWN_DEMAND + yaml.safe_dump({"catalog": OWN})])
def test_a_case_survives_json(text: str) -> None:
    case = case_of(text)
    again = case_from_json(json.loads(json.dumps(case.as_json())))
    assert again == case
    assert again.hash() == case.hash() == case_of(text).hash()


def test_the_order_of_keys_and_comments_do_not_change_the_hash() -> None:
    data = yaml.safe_load(starter_text())

    def reversed_keys(node: object) -> object:
        if isinstance(node, dict):
            return {key: reversed_keys(node[key]) for key in reversed(node)}
        return [reversed_keys(item) for item in node] if isinstance(node, list) else node

    turned = yaml.safe_dump(reversed_keys(data), sort_keys=False)
    assert turned.index("baseline") < turned.index("workloads")
    assert case_of(turned).hash() == case_of(starter_text()).hash()


@for_each(
    ("old", "new"),
    [("400k", "400_001"), ("gpt-4o-mini", "gpt-4o"), ("chat", "talk"), ("llama-3.1-8b", "qwen2.5-7b")],
)
def test_any_change_of_the_input_changes_the_hash(old: str, new: str) -> None:
    assert case_of(FIVE_LINES.replace(old, new)).hash() != case_of().hash()


def test_numbers_may_be_written_in_many_ways() -> None:
    for written in ("400000", "400_000", '"400,000"', "0.4M", "4e5"):
        assert case_of(FIVE_LINES.replace("400k", written)).hash() == case_of().hash()


@pytest.mark.parametrize(
    ("grid", "message"),
    [("0.385", "is below 1 g, as a figure in kg would be"), ("385000", "2000")],
)
def test_carbon_in_a_wrong_unit_is_refused(grid: str, message: str) -> None:
    text = FIVE_LINES + f"sites: {{us-east-1: {{grid_g_per_kwh: {grid}}}}}\n"
    with pytest.raises(InputError, match=message):
        planner.case_from_text(text)
    assert planner.case_from_text(FIVE_LINES + "sites: {us-east-1: {grid_g_per_kwh: 0}}\n").power is not None
