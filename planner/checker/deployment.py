"""What one replica is and does: allowed by the case, inside its objectives, and as fast as the plan says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from planner.candidates.replica import Replica
from planner.case.case import PREFIX_AWARE, Case, Workload
from planner.case.support import support_of
from planner.case.weights import start_s
from planner.catalog.entries import Model, QualityLoss, Quantization, benchmark_families
from planner.checker.lengths import IGNORED_FRAC, longer_share
from planner.checker.packing import SIZES
from planner.performance.memory import layout_of, longest_request
from planner.plan.plan import DeploymentRecord, PrefixCacheRecord
from planner.plan.view import REL, Served, differs, is_not, key_of

REACHED = 0.9
"""share of what could be found that a router which knows prefixes reaches"""


def deployment_is_allowed(case: Case, members: list[Served], d: DeploymentRecord) -> Iterator[str]:
    model, scheme, offer = case.models[d.model], case.quantizations[d.quantization], case.offers[d.offer]
    yield from is_not("the key of its deployment", d.key, key_of(d))
    yield from is_not("the GPU of its offer", d.gpu, offer.gpu)
    if scheme.needs != "none" and scheme.needs not in case.gpus[offer.gpu].dense_tflops:
        yield f"{offer.gpu} has no native {scheme.needs}"
    if scheme.kv_bits <= 8 and "fp8" not in case.gpus[offer.gpu].dense_tflops:
        yield f"{offer.gpu} has no native fp8 for its KV cache"
    support = support_of(case, replace(d.variant, gpu=offer.gpu))
    if support.verdict == "fails":
        yield f"{replace(d.variant, gpu=offer.gpu, gpus_per_replica=0)}: {support.reason}"
    if support.verdict == "unproven" and case.limits.unproven_forbidden:
        yield f"{replace(d.variant, gpu=offer.gpu, gpus_per_replica=0)} is unproven, which is forbidden"
    if d.gpus_per_replica not in SIZES or d.gpus_per_replica > offer.gpus:
        yield f"replicas of {d.gpus_per_replica} GPUs do not pack into boxes of {offer.gpus}"
    if d.gpus_per_replica > case.limits.max_gpus_per_replica:
        yield f"replicas of {d.gpus_per_replica} GPUs, {case.limits.max_gpus_per_replica} allowed"
    if model.query_heads % d.gpus_per_replica and d.parallelism != "data":
        yield f"{model.query_heads} attention heads do not split over {d.gpus_per_replica} GPUs"
    if model.moe is not None and d.gpus_per_replica > 1 and d.variant.parallelism not in _ways_to_share(case):
        yield f"{d.variant.parallelism} parallelism is not on the menu"
    if d.parallelism is not None:
        yield from _experts_are_shared(case, members, d)
    yield from _requests_fit(case, members, d)
    losses = []
    for s in members:
        choice = next((m for m in s.w.models if m.model == d.model), None)
        if choice is None:
            yield f"{d.model} is not one of the models of {s.w.name}"
            return
        by_quantization, measured = _loss_by_quantization(case, s.w, d)
        losses.append(choice.quality_loss_frac + by_quantization)
        if s.w.unmeasured_forbidden and not measured:
            yield f"nobody measured the quality of {d.model} in {d.quantization} as {s.w.name} asks"
        if losses[-1] > s.w.max_quality_loss_frac + 1e-12:
            yield f"quality loss {losses[-1]:.2%} exceeds {s.w.max_quality_loss_frac:.2%}"
        yield from _data_may_go_there(case, s.w, d)
    yield from differs("quality_loss_frac", d.quality_loss_frac, max(losses))


def _requests_fit(case: Case, members: list[Served], d: DeploymentRecord) -> Iterator[str]:
    """None of the requests that it is said to serve is longer than its engine admits, but for next to none."""
    model, scheme, n = case.models[d.model], case.quantizations[d.quantization], d.gpus_per_replica
    gpu = case.gpus[case.offers[d.offer].gpu]
    adapters = 1e9 * sum(s.w.adapter_gb or 0.0 for s in members) if len(members) > 1 else 0.0
    layout = layout_of(d.variant.parallelism, n)
    holds = longest_request(model, gpu, n, scheme, case.engine.usable_memory_frac, n * adapters, layout)
    served = iter(d.seconds_per_request)
    for s in members:
        pairs = list(zip(s.w.buckets, served, strict=False))
        if any(u is not None and b.input_tokens + b.output_tokens > holds for b, u in pairs):
            yield f"requests of {s.w.name} are longer than the {holds} tokens that it admits"
        elsewhere = sum(b.share_frac for b, u in pairs if u is None)
        if (longer := longer_share(s.w, holds)) > elsewhere + IGNORED_FRAC * (1 + REL):
            yield f"{longer:.2%} of {s.w.name} are longer than the {holds} tokens that it admits"


def _data_may_go_there(case: Case, w: Workload, d: DeploymentRecord) -> Iterator[str]:
    offer = case.offers[d.offer]
    if w.regions is not None and offer.region not in w.regions:
        yield f"the data of {w.name} may not go to the region {offer.region}"
    if w.providers is not None and offer.provider not in w.providers:
        yield f"the data of {w.name} may not go to the provider {offer.provider}"


def _loss_by_quantization(case: Case, w: Workload, d: DeploymentRecord) -> tuple[float, bool]:
    """The loss, and whether it was measured as asked: on those benchmarks, for a model of that family.

    Benchmarks that the workload names come first, then those that stand in for them; of these the largest size class
    that the model reaches, then models of its own family, then the worst. The worst of all if it reaches none; zero in
    its native format. A KV cache in fewer bits adds its own loss.
    """
    model, scheme = case.models[d.model], case.quantizations[d.quantization]
    weights, as_asked = _loss_by_weights(w, model, scheme, scheme.weights or d.quantization)
    if scheme.kv_loss is None:
        return weights, as_asked
    return min(weights + scheme.kv_loss.loss_frac, 1.0), as_asked and not scheme.kv_loss.assumption


def _loss_by_weights(w: Workload, model: Model, scheme: Quantization, stored: str) -> tuple[float, bool]:
    if model.native_quantization == stored:
        return 0.0, True
    asked = w.quality_benchmark or "mmlu"
    chosen = _level(scheme, model, asked)
    benchmark = chosen.benchmark or scheme.benchmark
    own = chosen.family in (None, model.family)
    return chosen.loss_frac, benchmark == "none" or (own and _family(benchmark) == asked)


def _level(scheme: Quantization, model: Model, asked: str) -> QualityLoss:
    reached = [q for q in scheme.quality_loss if q.min_parameters_b <= model.parameters_b]
    if not reached:
        return max(scheme.quality_loss, key=lambda q: q.loss_frac)
    known = [asked, *(f for f in benchmark_families() if f != asked)]
    families = [_family(q.benchmark or scheme.benchmark) for q in reached]
    places = [known.index(family) if family in known else len(known) for family in families]
    nearest = [q for q, place in zip(reached, places, strict=True) if place == min(places)]
    largest = [q for q in nearest if q.min_parameters_b == max(x.min_parameters_b for x in nearest)]
    return max([q for q in largest if q.family == model.family] or largest, key=lambda q: q.loss_frac)


def _family(benchmark: str) -> str:
    return next((f for f, names in benchmark_families().items() if benchmark in names), benchmark)


def _ways_to_share(case: Case) -> tuple[str, ...]:
    """What the menu says of mixtures of experts; slices of every layer where it says nothing."""
    return case.limits.parallelism or ("tensor",)


def _experts_are_shared(case: Case, members: list[Served], d: DeploymentRecord) -> Iterator[str]:
    """Whole experts on each GPU: there are some for each, and none has adapters."""
    moe, how = case.models[d.model].moe, f"{d.parallelism} parallelism"
    if d.parallelism == "tensor":
        yield "tensor parallelism is what a deployment without an entry has, and is not stored"
    if moe is None or d.gpus_per_replica < 2 or moe.experts % d.gpus_per_replica:
        yield f"{d.model} has no experts that {d.gpus_per_replica} GPUs could share by {how}"
    if len(members) > 1 and any(s.w.adapter_gb is not None for s in members):
        yield f"adapters are not served by {how}"
    if d.parallelism == "data" and any(s.seen.prefix_reuse is not None for s in members):
        yield f"nobody knows what prompts find of each other by {how}"


def starts_in_time(case: Case, d: DeploymentRecord) -> bool:
    """Whether a replica can take the place of one that was reclaimed soon enough."""
    return start_s(case, d.model, d.quantization) <= case.start.spot_within_s


def replica_is_as_told(
    members: list[Served],
    d: DeploymentRecord,
    replica: Replica,
    in_a_mix: bool,
    may_wait: bool,
    a_month: list[float],
) -> Iterator[str]:
    """Its speed by length, what staffing counts on, and how far both are backed; it gets so many requests [bucket]."""
    estimate, shares = replica.throughput, [float(share) for share in replica.traffic.shares]
    rates = [float(rate) for rate in estimate.requests_per_s]
    kept_back = 1 + d.kept_back_frac
    seconds = [kept_back / rate if rate else None for rate in rates]
    if any(not _same(told, true) for told, true in zip(d.seconds_per_request, seconds, strict=True)):
        yield "a replica is not as fast as the plan says"
    served = [b for b, rate in enumerate(rates) if rate]
    if not served:
        yield "a replica cannot hold memory and TPOT for any request length"
        return
    load = {b: shares[b] / rates[b] for b in served}
    got = {b: max(0.0, a_month[b]) / rates[b] for b in served} if in_a_mix else load
    if any(got.values()):
        mean = sum(got[b] * float(estimate.in_flight[b]) for b in served) / sum(got.values())
        yield from differs("requests_in_flight", d.requests_in_flight, mean)
    counted = replica.staffing_batch_of_any if in_a_mix else replica.staffing_batch
    yield from differs("staffing_in_flight", d.staffing_in_flight, counted)
    yield from differs("kept_back_frac", d.kept_back_frac, replica.kept_back_frac)
    yield from is_not("the number of batched_tokens", d.batched_tokens, replica.machine.engine.chunk_tokens)
    max_utilization = replica.most_load_of_any if in_a_mix else replica.max_utilization
    if may_wait:  # a replica that is slower than estimated must still catch up
        max_utilization = 1 / (1 + replica.error_frac)
    yield from differs("most_load_frac", d.most_load_frac, max_utilization)
    yield from _routing_is_as_told(d, replica, in_a_mix, may_wait)
    tpot_s = max(float(estimate.tpot_s[b]) for b in served)
    yield from differs("tpot_ms", d.tpot_ms, 1e3 * tpot_s)
    for s in members:
        if tpot_s > s.w.tpot.seconds * (1 + REL):
            yield f"TPOT {tpot_s:.4f} s exceeds the {s.w.tpot.seconds} s of {s.w.name}"
    yield from _it_keeps_e2e(members, d, [float(e2e) for e2e in estimate.e2e_s], served)
    yield from is_not("what binds a replica", d.bound_by, estimate.bound_by[max(served, key=lambda b: load[b])])
    yield from is_not("the basis of its throughput", d.basis, replica.basis)
    yield from differs("error_frac", d.error_frac, replica.error_frac)


def prefix_cache_is_as_told(case: Case, members: list[Served], d: DeploymentRecord, replica: Replica) -> Iterator[str]:
    """What is found follows from how long blocks stay, and they stay as long as the memory for them lasts."""
    told, true = d.prefix_cache, replica.prefix_cache
    if told is None or true is None:
        if told is not None or true is not None:
            yield "it is not said what it finds of prompts" if told is None else "it has no curve of reuse to find by"
        return
    yield from differs("the memory for prefixes", told.cache_tokens, true.tokens)
    yield from differs("the load at which prefixes are found", told.load_frac, true.load)
    yield from differs("the time for which prefixes stay", told.residence_s, true.residence_s)
    yield from differs("the replicas that prefixes are spread over", told.spread_over, true.spread)
    if case.limits.routing != PREFIX_AWARE and told.spread_over < case.limits.min_replicas:
        yield "prefixes are found on replicas that a router blind to them does not choose"
    if len(told.found_fracs) != len(members):
        yield f"what is found is given for {len(told.found_fracs)} workloads, not {len(members)}"
        return
    for s, share in zip(members, told.found_fracs, strict=True):
        yield from differs(f"the share of prompts of {s.w.name} that is found", share, _found_frac(s.seen, told))
    buckets = [b for s in members for b in s.w.buckets]
    rows = zip(replica.traffic.shares.tolist(), buckets, d.seconds_per_request, strict=True)
    served = [(share, b.input_tokens + b.output_tokens, u) for share, b, u in rows if u is not None]
    tokens, busy_s = sum(share * n for share, n, _ in served), sum(share * u for share, _, u in served)
    if served and told.residence_s * told.load_frac * tokens / busy_s > told.cache_tokens * (1 + REL):
        yield f"{told.cache_tokens:.0f} tokens of cache are full before prefixes have stayed {told.residence_s:.1f} s"


def _found_frac(w: Workload, told: PrefixCacheRecord) -> float:
    """Share of prompt tokens that are found, by the curve of the case."""
    prompts = sum(b.share_frac * b.input_tokens for b in w.buckets)
    prefixes = sum(b.share_frac * min(b.input_tokens, w.shared_prefix_tokens) for b in w.buckets)
    shared = w.prefix_hit_frac * prefixes / prompts
    if w.prefix_reuse is None:
        return shared
    tokens, below, found = told.residence_s * w.prefix_reuse.tokens_per_s, (0.0, 0.0), 0.0
    for point in w.prefix_reuse.points:
        size, share = point.cache_tokens, point.hit_frac
        if tokens <= size:
            found = below[1] + (share - below[1]) * (tokens - below[0]) / (size - below[0])
            break
        below, found = (size, share), share
    reached = REACHED if told.spread_over == 1 else 1 / told.spread_over
    return shared + max(0.0, found - shared) * reached


def _routing_is_as_told(d: DeploymentRecord, replica: Replica, in_a_mix: bool, may_wait: bool) -> Iterator[str]:
    told, routing = d.routing, replica.routing_of_any if in_a_mix else replica.routing
    if (told is None) != may_wait:
        yield "routing is given for work that may wait" if may_wait else "it is not said how its requests are routed"
    if told is not None and not may_wait:
        yield from differs("the routing exponent", told.exponent, routing.exponent)
        yield from differs("prompt_share_frac", told.prompt_share_frac, routing.prompt_share)
        yield from differs("burst_room_frac", told.burst_room_frac, routing.burst_room)


def ttft_holds(
    members: list[Served],
    d: DeploymentRecord,
    replica: Replica,
    slots: Iterable[tuple[float, int]],
    in_a_mix: bool,
    may_wait: bool,
) -> Iterator[str]:
    """In the worst of some slots, whichever length comes to a mix; work that waits has no first token to hurry for."""
    if may_wait:
        yield from differs("ttft_ms", d.ttft_ms, None)
        return
    ttft_s = max((replica.ttft_s_of_any if in_a_mix else replica.ttft_s)(load, n) for load, n in slots)
    for s in members:
        if ttft_s > s.w.ttft.seconds * (1 + REL):
            yield f"TTFT {ttft_s:.3f} s exceeds the {s.w.ttft.seconds} s of {s.w.name} in the busiest slot"
    yield from differs("ttft_ms", d.ttft_ms, 1e3 * ttft_s)


def _same(told: float | None, true: float | None) -> bool:
    if told is None or true is None:
        return told is true
    return bool(np.isclose(told, true, rtol=REL, atol=0))


def _it_keeps_e2e(members: list[Served], d: DeploymentRecord, e2e_s: list[float], served: list[int]) -> Iterator[str]:
    """The longest answers that an objective binds, at the highest percentile of those that share the replica."""
    objectives = [s.w.e2e for s in members if s.w.e2e is not None]
    if not objectives:
        if d.e2e_ms is not None:
            yield "an end-to-end latency is given though there is no objective for it"
        return
    percentile, slowest, start = max(o.percentile for o in objectives), 0.0, 0
    for s in members:
        for k, b in enumerate(s.w.buckets):
            shorter = sum(o.share_frac for o in s.w.buckets if o.output_tokens < b.output_tokens)
            if shorter < percentile - 1e-9 and start + k in served:
                slowest = max(slowest, e2e_s[start + k])
        start += len(s.w.buckets)
    limit = min(o.seconds for o in objectives)
    if slowest > limit * (1 + REL):
        yield f"E2E {slowest:.3f} s exceeds {limit} s"
    yield from differs("e2e_ms", d.e2e_ms or 0.0, 1e3 * slowest)
