"""From a case to pools: who is served together, by what, under which rules."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest

import planner
import planner.candidates.replica
import planner.candidates.screen
import planner.candidates.step_budget
from planner.candidates.candidate import Candidate
from planner.candidates.dominance import Dominated, _no_worse
from planner.candidates.enumerate import Candidates, enumerate_candidates
from planner.candidates.known_replicas import KnownReplicas
from planner.candidates.pools import MOST_SETS, PoolSpec, groups_alone, shared_groups
from planner.candidates.rejection import RejectionKind
from planner.candidates.replica import machine_for
from planner.candidates.step_budget import replica_for
from planner.candidates.traffic import Traffic, traffic_of
from planner.case.case import Case, ColdStart, LatencyTarget, ModelChoice, Tenancy, Workload
from planner.case.demand.load import case_from_text
from planner.case.slots import rates_rps, requests_per_month, slots_before, slots_of, window_of
from planner.catalog.profile import MaxRate, Profile
from planner.catalog.variant import Variant
from planner.optimization.formulate import deployment_of, formulate, pool_of
from planner.performance.latency import decode_step_s
from planner.performance.machine import Lora
from planner.performance.queueing import prompt_wait_s
from problems.recipes.pools import Pool
from problems.staffing import staffing_z
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan

BASE = case_from_text(
    """
workloads:
  - name: a
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 400k, shape: business-hours, variation: 20%}
    tokens: {buckets: [{input: 600, output: 150, share: 70%}, {input: 1500, output: 300, share: 30%}]}
    slo: {ttft_p95: 2s, tpot_p95: 60ms}
menu: {gpus: [l4, h100], quantizations: [fp16, fp8], purchase: [on-demand, spot]}
baseline: openai/gpt-4o-mini
"""
)

A = BASE.workloads[0]
SLOTS = slots_of(BASE)
LENGTHS = [{"share_frac": 0.9, "input_tokens": 800.0, "output_tokens": 200.0},
           {"share_frac": 0.1, "input_tokens": 60_000.0, "output_tokens": 400.0}]  # fmt: skip
LONG: dict[str, Any] = {
    "buckets": tuple(type(A.buckets[0])(**b) for b in LENGTHS),
    "tpot": LatencyTarget(seconds=0.1, percentile=0.95),
    "ttft": LatencyTarget(seconds=2.0, percentile=0.5),
    "ttft_prompt_tokens": 800.0,
}
"""nine short requests for each one that is too long for an L4"""


def case_of(*workloads: Workload, **fields: Any) -> Case:
    return BASE.model_copy(update={"workloads": workloads} | fields)


def limits(**fields: Any) -> Any:
    return BASE.limits.model_copy(update=fields)


def named(name: str, **fields: Any) -> Workload:
    return A.model_copy(update={"name": name, "sharing": True} | fields)


def candidate(found: Candidates, pool: str, name: str) -> Candidate:
    return next(c for c in found.accepted[pool] if c.name == name)


def pool(case: Case, key: str, found: Candidates | None = None) -> Pool:
    found = found or enumerate_candidates(case)
    return pool_of(case, found.pools[key], found.accepted[key], slots_of(case))


# Keys


def test_keys_are_readable_and_unique() -> None:
    a = named("a", caching=("none", "prefix", "semantic"))
    odd = named("a [prefix]", caching=("none",))
    keys = [g.key for g in groups_alone(case_of(a, odd))]
    assert keys == ["a", "a [prefix] #2", "a [semantic]", "a [prefix]"]
    groups, _ = shared_groups(case_of(a, odd, named("c")), SLOTS, set(keys))
    assert len({g.key for g in groups} | set(keys)) == len(groups) + len(keys)
    assert "llama-3.1-8b shared by a + c" in {g.key for g in groups}


def test_a_case_without_levers_has_one_pool_for_each_workload() -> None:
    found = enumerate_candidates(case_of(A, named("b", sharing=False)))
    assert list(found.pools) == list(found.accepted) == ["a", "b"]
    assert found.pools["a"].workloads == ("a",)


# Deployments that serve some of the lengths


def test_what_serves_some_lengths_is_kept_for_mixes() -> None:
    case = case_of(A.model_copy(update=LONG))
    found = enumerate_candidates(case)
    l4 = candidate(found, "a", "llama-3.1-8b fp16 on 1 x l4")
    assert l4.replica.serves.tolist() == [True, False]
    deployment = next(d for d in pool(case, "a", found).deployments if d.key == l4.key)
    assert np.isfinite(deployment.seconds_per_request).tolist() == [True, False]
    assert not deployment.serves_all
    assert deployment.staffing_in_a_mix is deployment.staffing
    why = [r for r in found.rejected if r.candidate == l4.name]
    assert [r.reason for r in why] == ["no room for the KV cache"], "the list still says why it cannot serve all"


@pytest.mark.parametrize(
    "alone", [{"limits": limits(max_deployments=1)}, {"workloads": (A.model_copy(update=LONG | {"deadline_h": 5.0}),)}]
)
def test_a_deployment_alone_must_serve_all_lengths(alone: dict[str, Any]) -> None:
    case = case_of(A.model_copy(update=LONG)).model_copy(update=alone)
    found = enumerate_candidates(case)
    assert all(c.replica.serves_all and c.staffing_in_a_mix is None for c in found.accepted["a"])
    assert pool(case, "a", found).max_deployments == 1
    assert any(r.candidate == "llama-3.1-8b fp16 on 1 x l4" for r in found.rejected)


def test_requests_beyond_the_context_are_another_ones() -> None:
    short = BASE.models["llama-3.1-8b"].model_copy(update={"max_context_tokens": 8192})
    w = A.model_copy(update=LONG | {"models": (*A.models, ModelChoice(model="short", quality_loss_frac=0.0))})
    case = case_of(w, models=BASE.models | {"short": short})
    found = enumerate_candidates(case)
    partial = candidate(found, "a", "short fp8 on 1 x h100")
    assert partial.replica.serves.tolist() == [True, False]
    assert any(r.candidate == partial.name and r.reason == "context too short" for r in found.rejected)


def test_in_a_mix_the_worst_length_counts() -> None:
    """TTFT of a queue of prompts of one length, by halving, for each length that it can serve."""
    case = case_of(A.model_copy(update={"ttft": LatencyTarget(seconds=0.2, percentile=0.95)}))
    found = enumerate_candidates(case).accepted["a"]
    assert sum(c.replica.most_load_of_any < 1 for c in found) >= 3
    for c in found:
        mixed, t, w = c.staffing_in_a_mix, c.throughput, case.workloads[0]
        assert mixed is not None
        assert mixed.batch == t.in_flight.min()
        most = []
        step = float(c.replica.load_shares @ t.step_s)
        left = c.machine.engine.chunk_tokens - c.replica.batch
        for lone, prefill, new, seconds in zip(t.lone_s, t.prefill_s, t.new_tokens, c.seconds_per_request, strict=True):
            own, service = lone + step * max(1.0, new / left), prefill + step * new / left
            low, high = 0.0, 1.0
            for _ in range(60):
                load = (low + high) / 2
                ttft = own + prompt_wait_s(load / seconds, service, 0.0, w.arrival_scv, w.ttft.percentile)
                low, high = (load, high) if ttft <= w.ttft.seconds else (low, load)
            most.append(low)
        assert mixed.max_utilization == pytest.approx(min(most), rel=1e-9)
        assert mixed.z == staffing_z(w.ttft.percentile)


def test_a_part_of_a_mix_leaves_lengths_that_it_would_answer_late_to_others() -> None:
    """TTFT holds for all together, but not for long prompts by themselves; four GPUs are fast enough for them."""
    w = A.model_copy(update=LONG | {"ttft": LatencyTarget(seconds=12.0, percentile=0.9)})
    found = enumerate_candidates(case_of(w))
    of_one = [c for c in found.accepted["a"] if c.name == "llama-3.1-8b fp8 on 1 x l4"]
    assert of_one, "it serves the short prompts of a mix, or all"
    for c in of_one:
        late = c.replica.ttft_by_length_s > 12.0
        assert late.tolist() == [False, True]
        assert (c.staffing_in_a_mix is None) != c.some_lengths
        assert np.isinf(c.seconds_per_request).tolist() == [False, c.some_lengths]
    fast = candidate(found, "a", "llama-3.1-8b fp8 on 4 x l4")
    assert fast.replica.in_time.all() and not fast.some_lengths and fast.staffing_in_a_mix is not None


def test_lengths_that_nothing_answers_in_time_stay_in_mixes() -> None:
    w = A.model_copy(update=LONG | {"ttft": LatencyTarget(seconds=0.6, percentile=0.9)})
    found = enumerate_candidates(case_of(w))
    for c in (c for c in found.accepted["a"] if c.staffing_in_a_mix is not None):
        assert not c.some_lengths and c.replica.in_time.tolist() == [True, False]


def no_worse(case: Case, a: Candidate, b: Candidate, zoned: set[int] | None = None) -> bool:
    alone, mixed = _no_worse(case, [a], [b], np.ones((1, 1), dtype=bool), zoned or set())
    return bool(alone[0, 0] and mixed[0, 0])


def test_one_that_serves_more_is_never_beaten_by_one_that_serves_less() -> None:
    case = case_of(A.model_copy(update=LONG))
    found = enumerate_candidates(case)
    whole = next(c for c in found.accepted["a"] if c.replica.serves_all)
    estimate = replace(whole.throughput, requests_per_s=whole.throughput.requests_per_s * [2.0, 0.0])
    partial = replace(whole, replica=replace(whole.replica, throughput=estimate))
    assert no_worse(case, whole, whole)
    assert not no_worse(case, partial, whole)
    slower = replace(estimate, requests_per_s=whole.throughput.requests_per_s * [1.0, 0.0])
    assert no_worse(case, whole, replace(whole, replica=replace(whole.replica, throughput=slower)))


def test_worst_lengths_are_compared_as_well() -> None:
    case = case_of(A)
    best = next(c for c in enumerate_candidates(case).accepted["a"])
    assert best.staffing_in_a_mix is not None
    half = {name: getattr(best.staffing_in_a_mix, name) / 2 for name in ("batch", "max_utilization")}
    for worse in ({name: value} for name, value in half.items()):
        other = replace(best, staffing_in_a_mix=replace(best.staffing_in_a_mix, **worse))
        assert no_worse(case, best, other)
        assert not no_worse(case, other, best)
    assert not no_worse(case, replace(best, staffing_in_a_mix=None), best)


def test_a_variant_gives_way_in_mixes_only_with_all_that_it_could_be_mixed_with() -> None:
    """FP8 beats FP16 on an H100. On a GPU without it FP16 stays, and so does a mix of the two in FP16."""
    new_only = enumerate_candidates(case_of(A)).accepted["a"]
    assert {c.variant for c in new_only} == {"llama-3.1-8b/fp8"}
    old = case_from_text(OLD_AND_NEW)
    found = enumerate_candidates(old)
    kept = {(c.offer.gpu, c.quantization_key): c.alone for c in found.accepted["a"]}
    assert kept == {("a100-80gb", "fp16"): True, ("h100", "fp16"): False, ("h100", "fp8"): True}
    alone = old.model_copy(update={"limits": old.limits.model_copy(update={"max_deployments": 1})})
    kept = {(c.offer.gpu, c.quantization_key): c.alone for c in enumerate_candidates(alone).accepted["a"]}
    assert kept == {("a100-80gb", "fp16"): True, ("h100", "fp8"): True}


@for_each("requests", ["60k", "400k", "900k", "3M"])
@for_each("gpus", ["a10g, h100", "a100-80gb, h100", "l4, l40s"])
def test_one_more_quantization_never_costs_more(gpus: str, requests: str) -> None:
    """Also where FP8 beats FP16 by itself, but the older GPU can be mixed with FP16 alone."""
    text = OLD_AND_NEW.replace("a100-80gb, h100", gpus).replace("400k", requests)
    usd = [
        fleet_plan(case_from_text(text.replace("fp16, fp8", menu))).cost_usd_per_month
        for menu in ("fp16", "fp16, fp8", "fp16, fp8, int4-awq")
    ]
    assert usd[1] <= usd[0] * (1 + 1e-3)
    assert usd[2] <= usd[1] * (1 + 1e-3)


@for_each("requests", ["60k", "900k"])
@for_each("gpus", ["a10g, h100", "a100-80gb, h100", "l4, a10g, l40s"])
def test_what_is_beaten_is_in_no_optimum(gpus: str, requests: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = OLD_AND_NEW.replace("a100-80gb, h100", gpus).replace("400k", requests)
    case = case_from_text(text.replace("fp16, fp8", "fp16, fp8, int8, int4-awq"))
    plan, kept = fleet_plan(case), len(enumerate_candidates(case).accepted["a"])
    with monkeypatch.context() as patch:
        patch.setattr(planner.candidates.screen, "dominated_variants", lambda *args: Dominated({}, frozenset()))
        assert len(enumerate_candidates(case).accepted["a"]) > kept
        of_everything = fleet_plan(case)
    within = max(plan.gap_frac, of_everything.gap_frac) + 1e-9
    assert plan.cost_usd_per_month == pytest.approx(of_everything.cost_usd_per_month, rel=within)


def test_what_is_of_use_in_a_mix_only_is_mixed() -> None:
    """An A10G has no FP8, and in FP8 an H100 beats itself in FP16; but both together in FP16 cost less than either."""
    text = """
workloads:
  - {name: a, models: [llama-3.1-8b], forecast: {requests_per_day: 900k}, quality: {max_loss: 2%}, api: forbidden}
menu: {gpus: [a10g, h100], quantizations: [fp8, fp16], purchase: [on-demand]}
baseline: openai/gpt-4o-mini
"""
    plan = fleet_plan(case_from_text(text))
    (pool,) = plan.pools
    served_by = {(d.deployment.gpu, d.deployment.quantization) for d in pool.deployments}
    assert served_by == {("a10g", "fp16"), ("h100", "fp16")}
    for gpu in ("a10g", "h100"):
        alone = fleet_plan(case_from_text(text.replace("a10g, h100", gpu)))
        assert plan.cost_usd_per_month < 0.95 * alone.cost_usd_per_month


OLD_AND_NEW = """
workloads:
  - name: a
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 400k}
    tokens: {input: 800, output: 200}
    slo: {ttft_p95: 2s, tpot_p95: 60ms}
menu: {gpus: [a100-80gb, h100], quantizations: [fp16, fp8], purchase: [on-demand], max_gpus_per_replica: 1}
baseline: openai/gpt-4o-mini
"""


def test_nothing_that_could_be_cheaper_is_beaten() -> None:
    """Whatever is dropped needs at least as many GPUs, firm ones included, as what beats it, for loads of all kinds."""
    w = A.model_copy(update={"critical_share_frac": 0.6, "ttft": LatencyTarget(seconds=0.4, percentile=0.95)})
    case = case_of(w, quantizations=case_from_all().quantizations)
    everything = everything_judged(case)
    pairs = [
        (a, b)
        for a, b in permutations(everything, 2)
        if a.offer_key == b.offer_key and a.replica.serves_all and b.replica.serves_all and no_worse(case, a, b)
    ]
    assert len(pairs) > 20
    for a, b in pairs:
        assert_needs_no_more(case, a, b)


def case_from_all() -> Case:
    return case_from_text(
        "workloads: [{name: a, models: [llama-3.1-8b], forecast: {requests_per_day: 1k}}]\n"
        "menu: {gpus: [h100]}\nbaseline: openai/gpt-4o-mini\n"
    )


def everything_judged(case: Case) -> list[Candidate]:
    """Without the step that leaves out what is beaten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner.candidates.screen, "dominated_variants", lambda *args: Dominated({}, frozenset()))
        return list(enumerate_candidates(case).accepted["a"])


def assert_needs_no_more(case: Case, a: Candidate, b: Candidate) -> None:
    counts = np.arange(case.limits.min_replicas, 60)
    one, other = (deployment_of(case, c, SLOTS) for c in (a, b))
    loads = np.geomspace(0.1, 40.0, 40)
    faster = float((a.seconds_per_request / b.seconds_per_request).max())
    assert faster <= 1 + 1e-9
    critical = case.workloads[0].critical_share_frac
    for x, y in ((one.staffing, other.staffing), (one.staffing_in_a_mix, other.staffing_in_a_mix)):
        assert x is not None
        assert y is not None
        for share in (1.0, critical):
            gpus, others = (d.gpus_per_replica * s.replicas(share * loads) for d, s in ((one, x), (other, y)))
            assert (gpus <= others).all()
        assert (x.carried_load(counts) >= y.carried_load(counts) * (1 - 1e-12)).all()
    if other.staffing_in_a_mix is not None and one.staffing_in_a_mix is not None and other.spot_allowed:
        firm, others = (
            s.replicas(critical * s.carried_load(counts[:20])) for s in (one.staffing_in_a_mix, other.staffing_in_a_mix)
        )
        assert (firm <= others).all()


# Residency and spot


def test_each_workload_stays_where_its_data_may_go() -> None:
    offers = dict(BASE.offers)
    key, offer = next((k, o) for k, o in offers.items() if o.gpu == "h100")
    offers["elsewhere"] = offer.model_copy(update={"region": "eu-west-1", "provider": "other"})
    at_home, abroad = named("home", regions=("us-east-1",)), named("abroad", regions=("eu-west-1",))
    of_others = named("of-others", providers=("other",))
    found = enumerate_candidates(case_of(at_home, abroad, of_others, named("any"), offers=offers))

    def used(name: str) -> set[str]:
        return {c.offer_key for c in found.accepted[name]}

    assert "elsewhere" not in used("home")
    assert used("abroad") == used("of-others") == {"elsewhere"}
    assert {key, "elsewhere"} <= used("any")
    assert used("llama-3.1-8b shared by abroad + any") == {"elsewhere"}, "both may go there"
    refused = [r for r in found.rejected if r.candidate == "llama-3.1-8b shared by home + abroad"]
    assert [r.reason for r in refused] == ["no offer where the data of all of them may go"]


def test_a_workload_that_may_go_nowhere_is_told() -> None:
    found = enumerate_candidates(case_of(named("nowhere", regions=("mars",))))
    assert found.accepted["nowhere"] == ()
    assert [(r.reason, r.limit) for r in found.rejected] == [("no offer where its data may go", "mars")]


def test_what_starts_too_late_is_not_run_on_spot() -> None:
    """16 GB at 1 GB/s after 100 s: within 120 s in FP16, and 8 GB faster in FP8."""
    for within_s, fp16, fp8 in ((105.0, False, False), (112.0, False, True), (120.0, True, True)):
        start = ColdStart(instance_s=100.0, weights_gb_per_s=1.0, spot_within_s=within_s)
        case = case_of(A.model_copy(update={"critical_share_frac": 0.5}), start=start)
        for c in everything_judged(case):
            allowed = {"fp16": fp16, "fp8": fp8}[c.quantization_key]
            assert deployment_of(case, c, SLOTS).spot_allowed is allowed, (c.key, within_s)


def test_zones_count_where_an_instance_is_a_replica() -> None:
    offers = {k: o.model_copy(update={"spot_zones": 3}) for k, o in BASE.offers.items()}
    case = case_of(A.model_copy(update={"critical_share_frac": 0.5}), offers=offers)
    zones = {(d.gpus_per_replica == offers[d.offer].gpus): d.spot_zones for d in pool(case, "a").deployments}
    assert zones == {True: 3, False: 1}


def test_zones_may_make_up_for_larger_replicas() -> None:
    """Two GPUs in one replica may be spread over zones where each of them in a box of two may not."""
    case = case_of(A.model_copy(update={"critical_share_frac": 0.5}))
    found = enumerate_candidates(case)
    small = next(c for c in found.accepted["a"] if c.machine.gpus == 1)
    large = replace(small, replica=replace(small.replica, machine=replace(small.machine, gpus=2)))
    assert no_worse(case, small, large)
    assert not no_worse(case, small, large, {2})
    no_spot = case.model_copy(update={"purchase": ("on-demand",)})
    assert no_worse(no_spot, small, large, {2})
    assert not no_worse(case, replace(small, spot_allowed=False), large)


# Workloads that share replicas


def two() -> tuple[Workload, Workload]:
    b = {
        "buckets": (A.buckets[0].model_copy(update={"share_frac": 1.0, "input_tokens": 900.0}),),
        "tpot": LatencyTarget(seconds=0.04, percentile=0.90),
        "ttft": LatencyTarget(seconds=3.0, percentile=0.99),
        "ttft_prompt_tokens": 900.0,
        "critical_share_frac": 0.3,
        "rate_cv": 0.5,
        "arrival_scv": 4.0,
        "weekday_rps": tuple(2.0 + k for k in range(24)),
        "weekend_rps": (3.0,) * 24,
    }
    return named("a", critical_share_frac=0.6, e2e=LatencyTarget(seconds=30.0, percentile=0.9)), named("b", **b)


TENANCY = Tenancy(max_share_frac=1.0, correlation=0.3, adapters_per_replica=64)
SHARED = "llama-3.1-8b shared by a + b"


def test_the_traffic_of_two_is_both_at_the_tightest_objectives() -> None:
    a, b = two()
    case = case_of(a, b, tenancy=TENANCY)
    traffic = enumerate_candidates(case).pools[SHARED].traffic
    ra, rb = requests_per_month(a, SLOTS), requests_per_month(b, SLOTS)
    assert [x.input_tokens for x in traffic.buckets] == [600, 1500, 900]
    np.testing.assert_allclose(traffic.shares, np.array([0.7 * ra, 0.3 * ra, rb]) / (ra + rb))
    assert (traffic.tpot.seconds, traffic.tpot.percentile) == (0.04, 0.95)
    assert (traffic.ttft.seconds, traffic.ttft.percentile) == (2.0, 0.99)
    assert traffic.e2e == LatencyTarget(seconds=30.0, percentile=0.9)
    assert traffic.arrival_scv == pytest.approx((ra * a.arrival_scv + rb * 4.0) / (ra + rb))
    assert traffic.lora is None


def test_a_shared_pool_is_one_deployment_for_everything() -> None:
    a, b = two()
    b = b.model_copy(update={"shed_usd_per_request": 0.1})
    case = case_of(a, b, tenancy=TENANCY)
    shared = pool(case, SHARED)
    assert shared.workloads == ("a", "b")
    np.testing.assert_allclose(shared.rate_rps[:, :2].sum(axis=1), rates_rps(a, SLOTS))
    np.testing.assert_allclose(shared.rate_rps[:, 2], rates_rps(b, SLOTS))
    assert shared.critical_share == 0.6
    assert (shared.apis, shared.max_deployments, shared.shed_usd_per_request, shared.window) == ((), 1, None, None)
    assert shared.deployments
    assert all(d.staffing_in_a_mix is None and d.serves_all for d in shared.deployments)
    assert all(d.staffing.z == staffing_z(0.99) for d in shared.deployments)


@pytest.mark.parametrize("rho", [0.0, 0.3, 1.0])
def test_swings_of_two_add_up_by_their_correlation(rho: float) -> None:
    case = case_of(*two(), tenancy=TENANCY.model_copy(update={"correlation": rho}))
    shared = pool(case, SHARED)
    for d in shared.deployments:
        assert isinstance(d.staffing.rate_cv, np.ndarray)
        for t in range(len(SLOTS)):
            load = shared.rate_rps[t] * d.seconds_per_request
            s = [0.2 * (load[0] + load[1]), 0.5 * load[2]]
            variance = s[0] ** 2 + s[1] ** 2 + 2 * rho * s[0] * s[1]
            assert d.staffing.rate_cv[t] == pytest.approx(math.sqrt(variance) / load.sum())


def test_sharing_slows_nobody_down_but_by_the_tightest_objective() -> None:
    """With equal objectives a bucket takes as long in a shared pool as in one of its own."""
    case = case_of(named("a"), named("b"), tenancy=TENANCY)
    found = enumerate_candidates(case)
    for c in found.accepted[SHARED]:
        own = next(o for o in found.accepted["a"] if o.key == c.key)
        np.testing.assert_allclose(c.seconds_per_request, np.tile(own.seconds_per_request, 2))


def test_only_those_share_who_may() -> None:
    a, b = named("a"), named("b")
    for other in (
        named("b", sharing=False),
        named("b", deadline_h=8.0),
        named("b", models=(ModelChoice(model="qwen2.5-7b", quality_loss_frac=0.0),)),
    ):
        models = case_from_text(
            "workloads: [{name: a, models: [llama-3.1-8b, qwen2.5-7b], forecast: {requests_per_day: 1k}}]\n"
            "baseline: openai/gpt-4o-mini\n"
        ).models
        groups, _ = shared_groups(case_of(a, other, models=models), SLOTS, set())
        assert groups == []
    groups, _ = shared_groups(case_of(a, b), SLOTS, set())
    assert [g.workloads for g in groups] == [("a", "b")]


def test_the_pickiest_member_decides_on_quantizations() -> None:
    picky = named("b", max_quality_loss_frac=0.0)
    found = enumerate_candidates(case_of(named("a"), picky, tenancy=TENANCY))
    assert {c.quantization_key for c in found.accepted["a"]} == {"fp8"}, "which beats FP16 everywhere"
    assert {c.quantization_key for c in found.accepted["b"]} == {"fp16"}
    assert {c.quantization_key for c in found.accepted[SHARED]} == {"fp16"}
    assert {c.quality_loss_frac for c in found.accepted[SHARED]} == {0.0}


def test_up_to_four_all_sets_are_considered() -> None:
    names = ["a", "b", "c", "d"]
    groups, _ = shared_groups(case_of(*(named(n) for n in names)), SLOTS, set())
    expected = {s for size in (2, 3, 4) for s in combinations(names, size)}
    assert {g.workloads for g in groups} == expected
    assert len(groups) == len(expected)


def many() -> list[Workload]:
    """Nine with three classes of objectives, the last one with most of the requests."""
    classes = [(0.03, 1.0), (0.06, 2.0), (0.12, 4.0)]
    found = []
    for k in range(9):
        tpot, ttft = classes[k % 3]
        rate = 100.0 if k == 8 else 1.0 + k
        found.append(
            named(f"w{k}", tpot=LatencyTarget(seconds=tpot, percentile=0.95),
                  ttft=LatencyTarget(seconds=ttft, percentile=0.95),
                  weekday_rps=(rate,) * 24, weekend_rps=(rate,) * 24)
        )  # fmt: skip
    return found


def test_of_many_the_whole_the_classes_and_the_loosest_are_considered() -> None:
    workloads = many()
    groups, _ = shared_groups(case_of(*workloads), SLOTS, set())
    sets = [g.workloads for g in groups]
    everyone = tuple(w.name for w in workloads)
    assert sets[0] == everyone
    assert everyone[:8] in sets, "all but the largest"
    assert {everyone[k::3] for k in range(3)} <= set(sets), "equal objectives"
    assert tuple(n for k, n in enumerate(everyone) if k % 3) in sets, "the two loosest classes"
    assert len(set(sets)) == len(sets) <= MOST_SETS
    again, _ = shared_groups(case_of(*workloads), SLOTS, set())
    assert [g.key for g in again] == [g.key for g in groups]


def test_a_noisy_neighbour_is_left_out() -> None:
    case = case_of(named("a", weekday_rps=(50.0,) * 24, weekend_rps=(50.0,) * 24),
                   named("b", weekday_rps=(5.0,) * 24, weekend_rps=(5.0,) * 24))  # fmt: skip
    quiet = enumerate_candidates(case.model_copy(update={"tenancy": TENANCY}))
    assert SHARED in quiet.pools
    strict = TENANCY.model_copy(update={"max_share_frac": 0.8})
    found = enumerate_candidates(case.model_copy(update={"tenancy": strict}))
    assert SHARED not in found.pools
    assert SHARED not in found.accepted
    (why,) = [r for r in found.rejected if r.candidate == SHARED]
    assert why.kind is RejectionKind.TOO_MUCH_OF_A_POOL
    assert (why.workload, why.limit, why.value) == ("a", "80%", "91%")


# Adapters


def test_members_with_adapters_need_them_and_others_do_not() -> None:
    a, b, c = named("a", adapter_gb=0.1), named("b", adapter_gb=0.3), named("c")
    thirds = (1 / 3,) * 3
    assert Traffic((a, b, c), thirds).lora == Lora(adapters=2, adapter_gb=pytest.approx(0.2))
    assert Traffic((a, c), (0.5, 0.5)).lora == Lora(adapters=1, adapter_gb=0.1)
    assert Traffic((c, named("d")), (0.5, 0.5)).lora is None
    assert traffic_of(a).lora is None, "by itself it is merged into the weights"


def test_fifty_adapters_of_100_mb_cost_1_to_3_percent_of_a_70b_model() -> None:
    case = case_from_text(
        "workloads: [{name: a, models: [llama-3.3-70b], forecast: {requests_per_day: 100k}}]\n"
        "menu: {gpus: [h100, h200], quantizations: [fp16]}\nbaseline: openai/gpt-4o\n"
    )
    w = case.workloads[0].model_copy(update={"sharing": True})
    plain, adapted = (
        Traffic(tuple(w.model_copy(update={"name": str(k), "adapter_gb": size}) for k in range(50)), (1 / 50,) * 50)
        for size in (None, 0.1)
    )
    for gpu, n in (("h100", 4), ("h100", 8), ("h200", 2), ("h200", 4)):
        machine = machine_for(case, Variant("llama-3.3-70b", "fp16", gpu, n))
        with_adapters = replace(machine, lora=adapted.lora)
        for batch in (8.0, 32.0, 128.0):
            overhead = float(decode_step_s(with_adapters, batch, 1500.0) / decode_step_s(machine, batch, 1500.0)) - 1
            assert 0.01 < overhead < 0.03, (gpu, n, batch)
    a, b = (replica_for(case, t, Variant("llama-3.3-70b", "fp16", "h100", 4)) for t in (plain, adapted))
    assert b.machine.lora == Lora(50, pytest.approx(0.1))
    assert (b.seconds_per_request > a.seconds_per_request).all()
    assert b.seconds_per_request.sum() < 1.05 * a.seconds_per_request.sum()


def test_adapters_take_memory_from_requests() -> None:
    """On a GPU that is full of weights, ten adapters of 300 MB leave no room for a long request."""
    long = A.buckets[0].model_copy(update={"share_frac": 1.0, "input_tokens": 15_000.0})
    w = A.model_copy(update={"buckets": (long,), "tpot": LatencyTarget(seconds=1.0, percentile=0.95)})
    members = tuple(w.model_copy(update={"name": str(k)}) for k in range(10))
    adapted = tuple(m.model_copy(update={"adapter_gb": 0.3}) for m in members)
    tenths = (0.1,) * 10
    plain, full = (
        replica_for(BASE, Traffic(m, tenths), Variant("llama-3.1-8b", "fp16", "l4", 1)) for m in (members, adapted)
    )
    assert plain.serves_all
    assert not full.serves.any()
    assert set(full.throughput.bound_by) == {"KV memory"}


def test_no_more_adapters_than_a_replica_takes() -> None:
    few = TENANCY.model_copy(update={"adapters_per_replica": 2})
    three = [named(n, adapter_gb=0.1) for n in "abc"]
    groups, refused = shared_groups(case_of(*three, tenancy=few), SLOTS, set())
    assert {g.workloads for g in groups} == {("a", "b"), ("a", "c"), ("b", "c")}
    assert [(r.reason, r.limit, r.value) for r in refused] == [("too many adapters for a replica", "2", "3")]
    seven = [named(n, adapter_gb=0.1) for n in "abcdefg"]
    groups, _ = shared_groups(case_of(*seven, tenancy=few), SLOTS, set())
    assert groups
    assert max(len(g.members) for g in groups) == 2
    assert {n for g in groups for n in g.workloads} >= set("abcdef")


# Work that may wait


def test_work_that_may_wait_needs_no_margin_for_bursts() -> None:
    w = A.model_copy(update={"deadline_h": 6.5, "shed_usd_per_request": 0.5, "critical_share_frac": 0.0})
    case = case_of(w.model_copy(update={"ttft": LatencyTarget(seconds=0.001, percentile=0.95)}))
    waiting = pool(case, "a")
    assert waiting.deployments, "TTFT means nothing to it"
    for d in waiting.deployments:
        assert (d.staffing.z, d.staffing.min_replicas) == (0.0, 2)
        assert 0.75 < d.staffing.max_utilization < 1, "room for the error of the throughput"
        assert d.staffing_in_a_mix is None
        assert d.staffing.replicas(np.array([0.0, 0.2, 1.1, 2.1])).tolist() == [0, 2, 2, 3]
    assert waiting.shed_usd_per_request is None
    assert waiting.spot_allowed
    assert waiting.window is not None
    np.testing.assert_array_equal(waiting.window, window_of(6.5, SLOTS))


def test_the_window_of_a_deadline_goes_around_midnight() -> None:
    window = window_of(6.5, SLOTS)
    at = {(s.day, s.hour): t for t, s in enumerate(SLOTS)}
    from_22 = {(SLOTS[t].day, SLOTS[t].hour) for t in np.flatnonzero(window[at["weekday", 22]])}
    assert from_22 == {("weekday", h) for h in (22, 23, 0, 1, 2, 3)}, "as the hour ends, six hours have passed"
    assert (window_of(0.5, SLOTS) == np.eye(len(SLOTS), dtype=bool)).all()
    assert window_of(24.0, SLOTS).sum(axis=1).tolist() == [24] * len(SLOTS)


def test_each_hour_follows_the_one_before_it_on_its_own_day() -> None:
    grown = slots_of(case_of(A.model_copy(update={"growth_per_month_frac": 0.1})))
    assert len(grown) == 144
    for t, before in enumerate(slots_before(grown)):
        a, b = grown[before], grown[t]
        assert (a.month, a.day, (a.hour + 1) % 24) == (b.month, b.day, b.hour)


# APIs, shedding, the whole


def test_work_that_may_wait_pays_the_batch_price() -> None:
    api = BASE.apis["openai/gpt-4o-mini"]
    assert api.batch is not None
    prices = []
    for wait_h in (0.0, api.batch.turnaround_h - 1, api.batch.turnaround_h):
        (offered,) = pool(case_of(A.model_copy(update={"api_wait_h": wait_h})), "a").apis
        prices.append(offered.usd_per_request)
    np.testing.assert_array_equal(prices[0], prices[1])
    np.testing.assert_allclose(prices[2], 0.5 * prices[0], rtol=1e-6)
    assert pool(case_of(A.model_copy(update={"api_allowed": False})), "a").apis == ()


def test_shedding_has_a_price_for_every_length() -> None:
    plain, shed = (pool(case_of(A.model_copy(update={"shed_usd_per_request": p})), "a") for p in (None, 0.02))
    assert plain.shed_usd_per_request is None
    assert shed.shed_usd_per_request is not None
    assert shed.shed_usd_per_request.tolist() == [0.02, 0.02]


def test_a_case_becomes_a_fleet() -> None:
    case = case_of(*two(), tenancy=TENANCY, limits=limits(max_gpu_types=1, max_deployments=3),
                   start=ColdStart(instance_s=360.0, weights_gb_per_s=1.0, spot_within_s=600.0))  # fmt: skip
    found = enumerate_candidates(case)
    fleet = formulate(case, found, SLOTS)
    assert fleet.workloads == ("a", "b")
    assert list(fleet.pools) == ["a", "b", SHARED]
    assert [p.max_deployments for p in fleet.pools.values()] == [3, 3, 1]
    assert fleet.max_gpu_types == 1
    assert fleet.slot_before is not None
    assert {offer.start_h for offer in fleet.offers.values()} == {0.1}
    assert {recipe.pool for recipe in fleet.recipes} == set(fleet.pools)


# Work done once


def test_replicas_are_estimated_once_whoever_rents_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    estimate = planner.candidates.replica.throughput

    def counted(machine: Any, lengths: Any, *rest: Any) -> Any:
        rows.append(len(lengths.input_tokens))
        return estimate(machine, lengths, *rest)

    monkeypatch.setattr(planner.candidates.replica, "throughput", counted)
    monkeypatch.setattr(planner.candidates.step_budget, "KNOWN", KnownReplicas())
    enumerate_candidates(case_of(A))
    once = sum(rows)
    rows.clear()
    monkeypatch.setattr(planner.candidates.step_budget, "KNOWN", KnownReplicas())
    more = {f"{k}-{copy}": o for k, o in BASE.offers.items() for copy in range(5)}
    enumerate_candidates(case_of(A.model_copy(update={"caching": ("none", "semantic"), "semantic_hit_frac": 0.2}),
                                 offers=more))  # fmt: skip
    assert sum(rows) == once


def test_many_together_give_what_each_gives_alone() -> None:
    traffics = [traffic_of(w) for w in (*two(), A.model_copy(update=LONG), *many())]
    together = planner.candidates.step_budget.replicas_for(BASE, traffics, Variant("llama-3.1-8b", "fp16", "h100", 1))
    for traffic, replica in zip(traffics, together, strict=True):
        alone = replica_for(BASE, traffic, Variant("llama-3.1-8b", "fp16", "h100", 1))
        np.testing.assert_allclose(replica.seconds_per_request, alone.seconds_per_request, rtol=1e-12)
        assert replica.throughput.bound_by == alone.throughput.bound_by
        assert replica.max_utilization == pytest.approx(alone.max_utilization, rel=1e-12)
        assert replica.prompts[0].prefill_s == pytest.approx(alone.prompts[0].prefill_s, rel=1e-12)


def test_groups_say_who_and_how() -> None:
    case = case_of(named("a", caching=("none", "prefix", "semantic", "prefix+semantic"), **PREFIX), named("b"))
    groups, _ = shared_groups(case, SLOTS, set())
    assert [g.caching for g in groups] == [("prefix", "none"), ("prefix+semantic", "none")]
    assert [g.caching_name for g in groups] == ["by workload", "by workload"]
    assert groups[1].key == f"{SHARED} [semantic]"
    alone = [g for g in groups_alone(case) if isinstance(g, PoolSpec) and not g.shared]
    assert [g.caching_name for g in alone[:2]] == ["none", "prefix"]
    assert alone[1].traffic is alone[3].traffic, "what is found before the GPUs changes nothing on them"


PREFIX: dict[str, Any] = {"shared_prefix_tokens": 300.0, "prefix_hit_frac": 0.8, "semantic_hit_frac": 0.2}


def test_adapters_slow_down_what_was_measured_without_them() -> None:
    rates = (MaxRate(input_tokens=600, output_tokens=150, requests_per_s=30.0),
             MaxRate(input_tokens=1500, output_tokens=300, requests_per_s=12.0))  # fmt: skip
    profile = Profile(model="llama-3.1-8b", quantization="fp16", gpu="h100", gpus_per_replica=1, max_rates=rates)
    traffics = (
        Traffic((named("a"), named("b")), (0.5, 0.5)),
        Traffic((named("a", adapter_gb=2.0), named("b", adapter_gb=2.0)), (0.5, 0.5)),
    )
    estimated = [replica_for(BASE, t, Variant("llama-3.1-8b", "fp16", "h100", 1)) for t in traffics]
    case = BASE.model_copy(update={"profiles": (profile,)})
    measured = [replica_for(case, t, Variant("llama-3.1-8b", "fp16", "h100", 1)) for t in traffics]
    assert measured[0].throughput.requests_per_s.tolist() == pytest.approx([30.0, 12.0, 30.0, 12.0])
    # Rates, not seconds: what is kept back for swings differs with adapters, and of measured rates nothing is.
    slowed = [
        plain.throughput.requests_per_s / adapted.throughput.requests_per_s for plain, adapted in (estimated, measured)
    ]
    assert (slowed[0] > 1.01).all()
    np.testing.assert_allclose(slowed[0], slowed[1])
