"""Promises that were once broken: each test is a case in which a plan looked right and was not."""

from __future__ import annotations

import numpy as np
import pytest

import planner
from planner.case.demand.usage import by_hour
from planner.logs.statistics import WITHIN_HOUR_VARIATION
from planner.plan.plan import DeploymentPlan, Plan
from problems.recipes.pools import Api, Deployment, Pool
from problems.recipes.singles import MOST_STEPS, recipes_of
from problems.staffing import Staffing
from solvers.search.fleet_solution import Options
from tests.support.shared_plans import fleet_plan


def planned(workload: str, rest: str = "", options: Options | None = None) -> Plan:
    text = f"workloads:\n  - name: w\n    models: [llama-3.1-8b]\n{workload}\nbaseline: openai/gpt-4o\n{rest}"
    return fleet_plan(planner.case_from_text(text), options)


def flat(rate: str, slo: str, tokens: str = "{input: 1000, output: 200}", more: str = "api: forbidden") -> str:
    return (
        f"    forecast: {{requests_per_day: {rate}, shape: flat}}\n    tokens: {tokens}\n    slo: {slo}\n    {more}\n"
    )


def hosted(plan: Plan) -> DeploymentPlan:
    return plan.pools[0].deployments[0]


H100 = "menu: {gpus: [h100], quantizations: [fp8], purchase: [on-demand], max_gpus_per_replica: 1}\n"


def test_a_tight_ttft_buys_replicas_that_are_less_busy() -> None:
    loose, tight = (planned(flat("6M", f"{{ttft_p95: {t}, tpot_p95: 200ms}}"), H100) for t in ("5s", "80ms"))
    assert tight.cost_usd_per_month > 1.3 * loose.cost_usd_per_month
    deployment = hosted(tight).deployment
    assert deployment.ttft_ms is not None
    assert deployment.ttft_ms <= 80
    assert deployment.most_load_frac < 1


def test_ttft_is_that_of_a_prompt_at_the_percentile() -> None:
    """Half of the prompts are longer than p50, one in twenty longer than p95: the objective's own prompt counts."""
    ms = []
    for percent in (50, 95, 99):
        slo = f"{{ttft_p{percent}: 5s, tpot_p95: 200ms}}"
        plan = planned(flat("100k", slo, "{input: {p50: 1000, p95: 4000}, output: 100}"), H100)
        assert hosted(plan)
        ms.append(plan.case.workloads[0].ttft_prompt_tokens)
    assert ms == pytest.approx([1000, 4000, 1000 * 4 ** (2.3263 / 1.6449)], rel=1e-3)


def test_a_median_objective_still_leaves_room_for_bad_hours() -> None:
    plan = planned(flat("20M", "{ttft_p50: 2s, tpot_p95: 100ms}"), H100)
    assert hosted(plan).utilization_frac < 0.85


def test_within_quotas_there_is_a_plan_whenever_the_api_allows_one() -> None:
    workloads = "\n".join(
        f"  - name: w{k}\n    models: [llama-3.1-8b]\n    forecast: {{requests_per_day: 2M}}" for k in range(6)
    )
    text = f"workloads:\n{workloads}\nbaseline: openai/gpt-4o-mini\npolicy: {{max_gpus: {{l40s: 6, h100: 2}}}}\n"
    case = planner.case_from_text(text + "menu: {gpus: [l40s, h100]}\n")
    plan = fleet_plan(case, Options(gap_frac=0.5, node_limit=10))
    assert plan.cost_usd_per_month <= plan.baseline.cost_usd_per_month * (1 + 1e-9)


def test_a_profile_of_another_engine_is_not_used() -> None:
    case = planner.case_from_text(
        "workloads:\n  - name: w\n    models: [llama-3.1-8b]\n    forecast: {requests_per_day: 1M}\n"
        "    tokens: {input: 512, output: 128}\nmenu: {gpus: [h100], quantizations: [fp16]}\nbaseline: openai/gpt-4o\n"
    )
    from planner.catalog.profile import MeasuredPoint, Profile

    point = MeasuredPoint(input_tokens=512, output_tokens=128, concurrency=8, tpot_ms=40, ttft_ms=200)
    bases = []
    for engine in ("tgi 2.0", "vllm 0.12", None):
        profile = Profile(
            model="llama-3.1-8b", quantization="fp16", gpu="h100", gpus_per_replica=1, engine=engine, points=(point,)
        )
        plan = fleet_plan(case.model_copy(update={"profiles": (profile,)}))
        deployment = hosted(plan).deployment
        bases.append(deployment.basis if deployment.gpus_per_replica == 1 else "other")
    assert bases[0] == "calibrated"
    assert "calibrated" not in bases[1:]


def test_a_prefix_that_is_rarely_found_saves_little_memory() -> None:
    in_flight = []
    for caching in ("", "    caching: {shared_prefix_tokens: 4000, prefix_hit_rate: 1%}\n"):
        tokens = "{input: 4200, output: 200}"
        plan = planned(flat("1M", "{ttft_p95: 5s, tpot_p95: 200ms}", tokens) + caching, H100)
        in_flight.append(hosted(plan).deployment.requests_in_flight)
    assert in_flight[1] < 1.1 * in_flight[0]


def test_steps_that_are_not_tried_lower_the_bound() -> None:
    staffing = Staffing(z=1.0, arrival_scv=1.0, rate_cv=0.1, batch=8.0, min_replicas=1)
    d = Deployment("d", "o", 1, np.array([1.0]), staffing)
    api = Api("a", np.array([0.001]))
    for rate, coarse in ((MOST_STEPS / 4, False), (MOST_STEPS * 4.0, True)):
        pool = Pool("w", ("w",), np.array([[rate]]), 1.0, False, (d,), (api,))
        mixed = recipes_of(pool, np.array([730.0]))[1]
        assert (mixed.between is not None) is coarse
        assert len(mixed.slot) <= MOST_STEPS + 3
        if mixed.between is not None:
            tried, between = mixed.uses[0].replicas, mixed.between.uses[0].replicas
            for n in range(1, int(tried.max()) + 1):
                load = staffing.carried_load(np.array([n]))
                bill = 3600 * 0.001 * np.maximum(rate - load, 0.0)
                below = (between <= n) & (mixed.between.usd_per_h <= bill * (1 + 1e-9) + 1e-9)
                assert below.any() or ((tried == n) & (mixed.usd_per_h <= bill + 1e-9)).any()


def test_variation_is_around_the_mean_of_each_hour() -> None:
    """Every day 30% above or below its mean, at every hour, whatever the shape of the day."""
    shape = np.r_[np.ones(12), 10 * np.ones(12)]
    days = [shape * (1.3 if k % 2 else 0.7) for k in range(40)]
    hours = by_hour(np.zeros(40 * 24, dtype=bool), np.tile(np.arange(24), 40), np.concatenate(days))
    expected = np.hypot(0.3 * np.sqrt(40 / 39), WITHIN_HOUR_VARIATION)
    assert hours.variation == pytest.approx(expected, rel=1e-6)
    one = by_hour(np.zeros(24, dtype=bool), np.arange(24), shape)
    assert one.variation is None


def test_own_on_demand_prices_take_assumed_discounts_with_them() -> None:
    text = "workloads:\n  - name: w\n    models: [llama-3.1-8b]\n    forecast: {requests_per_day: 1M}\n"
    text += "baseline: openai/gpt-4o\nprices: {aws/g6e.xlarge: {on_demand: $1.00/h}}\n"
    prices = planner.case_from_text(text).offers["aws/g6e.xlarge@us-east-1"].prices
    assert prices.on_demand is not None
    assert prices.reserved_1y is not None
    assert prices.spot is not None
    assert prices.reserved_1y.usd_per_h == pytest.approx(0.63, abs=0.005)
    assert prices.spot.p95_usd_per_h <= 1.0


def test_keys_of_the_json_are_always_there() -> None:
    plan = planned(flat("1k", "{ttft_p95: 5s}", more="api: allowed")).as_json()
    assert plan["pools"][0]["deployments"] == []
    assert plan["workloads"][0]["quantizations"] == []
    assert plan["workloads"][0]["moves"] == []


def test_a_plan_found_in_coarse_steps_proves_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads between the steps may be cheaper: the bound holds for them too, and optimal means optimal."""
    case = flat("60M", "{ttft_p95: 5s, tpot_p95: 100ms}", more="api: allowed")
    menu = "menu: {gpus: [l4], quantizations: [fp16], purchase: [on-demand], max_gpus_per_replica: 1}\n"
    plan = planned(case, menu)
    assert max(hosted(plan).replicas_by_slot) > MOST_STEPS
    monkeypatch.setattr("problems.recipes.singles.MOST_STEPS", 100_000)
    exact = planned(case, menu)
    assert exact.status == "optimal"
    assert plan.bound_usd_per_month <= exact.cost_usd_per_month * (1 + 1e-9)
    if plan.status == "optimal":
        assert plan.cost_usd_per_month == pytest.approx(exact.cost_usd_per_month, rel=1e-5)
    assert any("in steps of several" in note for note in plan.proof.notes)


def test_a_router_that_looks_at_requests_in_flight_saves_replicas() -> None:
    slo = flat("6M", "{ttft_p95: 80ms, tpot_p95: 200ms}")
    routed, blind = (
        planned(slo, f"{H100}policy: {{routing: {router}}}\n") for router in ("least-requests", "round-robin")
    )
    assert blind.cost_usd_per_month > 1.2 * routed.cost_usd_per_month
    for plan, gains in ((routed, True), (blind, False)):
        routing = hosted(plan).deployment.routing
        assert routing is not None
        assert (routing.exponent > 0) == gains
    assumed = {a.key for a in planned(slo, H100).case.assumptions}
    assert "policy.routing" in assumed
    assert "policy.routing" not in {a.key for a in routed.case.assumptions}


def test_bursts_buy_replicas_where_ttft_is_tight() -> None:
    """A squared variation of gaps of 89, as in Azure's code trace: one replica of few requests is no use."""
    tokens = "{input: {p50: 1500, p95: 7000}, output: {p50: 13, p95: 90}}"
    forecast = "    forecast: {{requests_per_day: 200k, shape: flat, burstiness: {}}}\n"
    rest = f"    tokens: {tokens}\n    slo: {{ttft_p95: 1s, tpot_p95: 100ms}}\n    api: forbidden\n"
    even, bursty = (planned(forecast.format(c2) + rest, H100) for c2 in (2, 89))
    assert max(hosted(even).replicas_by_slot) == 2
    assert max(hosted(bursty).replicas_by_slot) >= 4
    slow = planned(forecast.format(89) + rest, "menu: {gpus: [l40s, h100], quantizations: [fp8, fp16]}\n")
    why = [r.value for r in slow.rejected if r.reason == "TTFT" and r.candidate == "llama-3.1-8b fp16 on 1 x l40s"]
    assert len(why) == 1 and why[0].endswith("ms in a replica that is 5% busy"), "its prompts wait for those of a burst"


def test_long_requests_that_fill_kv_memory_are_staffed_as_fewer() -> None:
    """With the same mean, lengths that differ fill KV memory unevenly: the margin counts fewer of them in flight."""
    slo = "{ttft_p95: 20s, tpot_p95: 200ms}"
    mean = "{buckets: [{input: 20000, output: 400, share: 100%}]}"
    apart = "{buckets: [{input: 4000, output: 400, share: 80%}, {input: 84000, output: 400, share: 20%}]}"
    same, uneven = (hosted(planned(flat("100k", slo, tokens), H100)).deployment for tokens in (mean, apart))
    assert same.bound_by == uneven.bound_by == "KV memory"
    assert same.staffing_in_flight == same.requests_in_flight
    assert uneven.staffing_in_flight < 0.6 * uneven.requests_in_flight
