"""What one replica is and does: allowed by the case, and inside its objectives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from planner.candidates.replica import Replica
from planner.case.case import PREFIX_AWARE, Case, Workload
from planner.case.quality import quality_of
from planner.case.start_up import start_s
from planner.case.support import support_of
from planner.catalog.entries import Model, QualityLoss, Quantization, benchmark_families, shipped_catalog
from planner.checker.boxes import boxes_may_be_joined
from planner.checker.figures import REL, differs
from planner.checker.lengths import IGNORED_FRAC, longer_share
from planner.checker.packing import SIZES
from planner.checker.sessions import turns_find_what_is_kept
from planner.performance.memory import kv_bytes_per_token, layout_of, longest_request, weight_bytes
from planner.plan.account.account import Account
from planner.plan.account.flows import Served
from planner.plan.decisions import DeploymentDecision
from planner.plan.plan import DeploymentRecord, PrefixCacheRecord

REACHED = 0.9
"""share of what could be found that a router which knows prefixes reaches"""


def deployments_are_allowed(account: Account) -> Iterator[str]:
    """Before anything is asked of a replica: whether there may be such a thing."""
    for pool, _, d in account.hosted:
        for problem in _deployment_is_allowed(account.case, account.members(pool), d):
            yield f"{pool.key}: {problem}"


def _deployment_is_allowed(case: Case, members: list[Served], d: DeploymentDecision) -> Iterator[str]:
    model, scheme, offer = case.models[d.model], case.quantizations[d.quantization], case.offers[d.offer]
    if scheme.needs != "none" and scheme.needs not in case.gpus[offer.gpu].dense_tflops:
        yield f"{offer.gpu} has no native {scheme.needs}"
    if scheme.kv_bits <= 8 and "fp8" not in case.gpus[offer.gpu].dense_tflops:
        yield f"{offer.gpu} has no native fp8 for its KV cache"
    support = support_of(case, d.variant)
    if support.verdict == "fails":
        yield f"{replace(d.variant, gpus_per_replica=0)}: {support.reason}"
    if support.verdict == "unproven" and case.limits.unproven_forbidden:
        yield f"{replace(d.variant, gpus_per_replica=0)} is unproven, which is forbidden"
    borrowed = any(quality_of(case, s.w, d.model, d.quantization).borrowed for s in members)
    if support.verdict == "unproven" and case.limits.unproven_forbidden is None and borrowed:
        yield f"{replace(d.variant, gpus_per_replica=0)} is unproven with a borrowed quality loss, which is not allowed"
    in_box = d.gpus_per_replica // (d.boxes_per_replica or 1)
    if in_box not in SIZES or in_box > offer.gpus:
        yield f"replicas of {d.gpus_per_replica} GPUs do not pack into boxes of {offer.gpus}"
    if in_box > case.limits.max_gpus_per_replica:
        yield f"replicas of {in_box} GPUs, {case.limits.max_gpus_per_replica} allowed"
    if model.query_heads % in_box and d.parallelism != "data":
        yield f"{model.query_heads} attention heads do not split over {in_box} GPUs"
    if d.boxes_per_replica is not None:
        yield from boxes_may_be_joined(case, members, d)
    if model.moe is not None and d.gpus_per_replica > 1 and d.variant.parallelism not in _ways_to_share(case):
        yield f"{d.variant.parallelism} parallelism is not on the menu"
    if d.parallelism is not None:
        yield from _experts_are_shared(case, members, d)
    yield from _drafts_are_allowed(case, members, d)
    yield from _requests_fit(case, members, d)
    for s in members:
        choice = next((m for m in s.w.models if m.model == d.model), None)
        if choice is None:
            yield f"{d.model} is not one of the models of {s.w.name}"
            return
        by_quantization, measured = _loss_by_quantization(case, s.w, d)
        loss = choice.quality_loss_frac + by_quantization
        if s.w.unmeasured_forbidden and not measured:
            yield f"the quality of {d.model} in {d.quantization} was not measured as {s.w.name} asks"
        if loss > s.w.max_quality_loss_frac + 1e-12:
            yield f"quality loss {loss:.2%} exceeds {s.w.max_quality_loss_frac:.2%}"
        yield from _data_may_go_there(case, s.w, d)


def _requests_fit(case: Case, members: list[Served], d: DeploymentDecision) -> Iterator[str]:
    """None of the requests that it is said to serve is longer than its engine admits, but for next to none."""
    model, scheme, n = case.models[d.model], case.quantizations[d.quantization], d.gpus_per_replica
    gpu = case.gpus[case.offers[d.offer].gpu]
    adapters = 1e9 * sum(s.w.adapter_gb or 0.0 for s in members) if len(members) > 1 else 0.0
    layout = layout_of(d.variant.parallelism, n, d.boxes_per_replica or 1)
    weights, kv_factor = _drafter_takes(case, d)
    reserved = n * adapters + weights
    holds = longest_request(model, gpu, n, scheme, case.engine.usable_memory_frac, reserved, layout, kv_factor)
    served = iter(d.serves)
    for s in members:
        pairs = list(zip(s.w.buckets, served, strict=False))
        if any(takes and b.input_tokens + b.output_tokens > holds for b, takes in pairs):
            yield f"requests of {s.w.name} are longer than the {holds} tokens that it admits"
        elsewhere = sum(b.share_frac for b, takes in pairs if not takes)
        if (longer := longer_share(s.w, holds)) > elsewhere + IGNORED_FRAC * (1 + REL):
            yield f"{longer:.2%} of {s.w.name} are longer than the {holds} tokens that it admits"


def _data_may_go_there(case: Case, w: Workload, d: DeploymentDecision) -> Iterator[str]:
    offer = case.offers[d.offer]
    if w.regions is not None and offer.region not in w.regions:
        yield f"the data of {w.name} may not go to the region {offer.region}"
    if w.providers is not None and offer.provider not in w.providers:
        yield f"the data of {w.name} may not go to the provider {offer.provider}"


def _loss_by_quantization(case: Case, w: Workload, d: DeploymentDecision) -> tuple[float, bool]:
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


def _experts_are_shared(case: Case, members: list[Served], d: DeploymentDecision) -> Iterator[str]:
    """Whole experts on each GPU: there are some for each, and none has adapters."""
    moe, how = case.models[d.model].moe, f"{d.parallelism} parallelism"
    if d.parallelism == "tensor":
        yield "tensor parallelism is what a deployment without an entry has, and is not stored"
    in_box = d.gpus_per_replica // (d.boxes_per_replica or 1)
    if moe is None or in_box < 2 or moe.experts % in_box:
        yield f"{d.model} has no experts that {in_box} GPUs could share by {how}"
    if len(members) > 1 and any(s.w.adapter_gb is not None for s in members):
        yield f"adapters are not served by {how}"
    if d.parallelism == "data" and any(s.seen.prefix_reuse is not None or s.seen.sessions is not None for s in members):
        yield f"it is not known how much prompts reuse of each other by {how}"


def _drafts_are_allowed(case: Case, members: list[Served], d: DeploymentDecision) -> Iterator[str]:
    """Drafts of a method on the menu, no more than somebody measured of every workload, where something makes them."""
    menu = case.limits.speculation or ("none",)
    if d.speculation is None:
        if "none" not in menu:
            yield f"it drafts nothing, and the menu has {', '.join(menu)}"
        return
    method, _, written = d.speculation.rpartition(":")
    tokens = int(written) if written.isdigit() else 0
    if method not in menu or method == "none":
        yield f"drafts by {method or d.speculation} are not on the menu"
        return
    if f"{d.model} {method}" not in (case.drafters or {}):
        yield f"nothing drafts for {d.model} by {method}"
        return
    if tokens < 1:
        yield f"{d.speculation} drafts no tokens"
    if not case.engine_name.startswith(("vllm", "sglang", "tensorrt-llm")):
        yield f"{case.engine_name} drafts nothing"
    if d.parallelism == "data" or (len(members) > 1 and any(s.w.adapter_gb is not None for s in members)):
        yield "drafts are served neither by data-parallel ranks nor for adapters"
    for s in members:
        known = [a.chances for a in s.w.drafts or () if (a.model, a.method) == (d.model, method)]
        if not known or len(known[0]) < tokens:
            yield f"nobody measured {tokens} drafts of {d.model} by {method} for {s.w.name}"
        elif any(b > a for a, b in pairwise(known[0])):
            yield f"a later draft of {d.model} is likelier to be accepted than an earlier one"


def _drafter_takes(case: Case, d: DeploymentDecision) -> tuple[float, float]:
    """Bytes of the weights of what drafts, over all GPUs of a replica, and times the KV memory of a token."""
    drafter = (case.drafters or {}).get(f"{d.model} {d.speculation.rpartition(':')[0]}") if d.speculation else None
    if drafter is None or drafter.shape is None:
        return 0.0, 1.0
    shape, scheme = drafter.shape, case.quantizations[d.quantization]
    stored = scheme if drafter.as_quantized else shipped_catalog().quantizations["fp16"]
    shared = 2.0 * shape.vocab * shape.hidden if drafter.shares_head else 0.0
    own, drafted = kv_bytes_per_token(case.models[d.model], scheme), kv_bytes_per_token(shape, stored)
    return weight_bytes(shape, stored) - shared, (own + drafted) / own


def drafts_bring_what_was_measured(case: Case, members: list[Served], d: DeploymentRecord) -> Iterator[str]:
    """Tokens of a step: the one that any gives, and of each draft the smallest chance that a workload has of it."""
    if d.speculation is None:
        if d.accepted_tokens is not None:
            yield "it drafts nothing, and counts on accepted drafts"
        return
    method, _, written = d.speculation.rpartition(":")
    tokens = int(written) if written.isdigit() else 0
    known = [a.chances for s in members for a in s.w.drafts or () if (a.model, a.method) == (d.model, method)]
    if not known or d.accepted_tokens is None:
        yield "it drafts, and does not say what a step brings"
        return
    if not 1 <= d.accepted_tokens <= tokens + 1:
        yield f"a step of {tokens} drafts cannot bring {d.accepted_tokens:.2f} tokens"
    brings = 1.0 + sum(min(chances[k] for chances in known) for k in range(min([tokens, *map(len, known)])))
    yield from differs("the tokens that a step brings", d.accepted_tokens, brings)


def starts_in_time(case: Case, d: DeploymentRecord | DeploymentDecision) -> bool:
    """Whether a replica can take the place of one that was reclaimed soon enough."""
    return start_s(case, d.model, d.quantization) <= case.start.spot_within_s


def prefixes_are_found(case: Case, members: list[Served], d: DeploymentRecord, replica: Replica) -> Iterator[str]:
    """What is found follows from how long blocks stay, and they stay as long as the memory for them lasts."""
    if any(s.seen.sessions is not None for s in members):
        if len(members) > 1:
            yield "sessions share replicas with other workloads, which is not known to work"
            return
        yield from turns_find_what_is_kept(case, members[0], d, replica)
        return
    cache = d.prefix_cache
    if cache is None:
        return
    if case.limits.routing != PREFIX_AWARE and cache.spread_over < case.limits.min_replicas:
        yield "prefixes are found on replicas that a router blind to them does not choose"
    for s, share in zip(members, cache.found_fracs, strict=True):
        yield from differs(f"the share of prompts of {s.w.name} that is found", share, _found_frac(s.seen, cache))
    buckets = [b for s in members for b in s.w.buckets]
    rows = zip(replica.traffic.shares.tolist(), buckets, d.seconds_per_request, strict=True)
    served = [(share, b.input_tokens + b.output_tokens, u) for share, b, u in rows if u is not None]
    tokens, busy_s = sum(share * n for share, n, _ in served), sum(share * u for share, _, u in served)
    if served and cache.residence_s * cache.load_frac * tokens / busy_s > cache.cache_tokens * (1 + REL):
        yield f"{cache.cache_tokens:.0f} tokens of cache are full before prefixes have stayed {cache.residence_s:.1f} s"


def _found_frac(w: Workload, cache: PrefixCacheRecord) -> float:
    """Share of prompt tokens that are found, by the curve of the case."""
    prompts = sum(b.share_frac * b.input_tokens for b in w.buckets)
    prefixes = sum(b.share_frac * min(b.input_tokens, w.shared_prefix_tokens) for b in w.buckets)
    shared = w.prefix_hit_frac * prefixes / prompts
    if w.prefix_reuse is None:
        return shared
    tokens, below, found = cache.residence_s * w.prefix_reuse.tokens_per_s, (0.0, 0.0), 0.0
    for point in w.prefix_reuse.points:
        size, share = point.cache_tokens, point.hit_frac
        if tokens <= size:
            found = below[1] + (share - below[1]) * (tokens - below[0]) / (size - below[0])
            break
        below, found = (size, share), share
    reached = REACHED if cache.spread_over == 1 else 1 / cache.spread_over
    return shared + max(0.0, found - shared) * reached


def promises_hold(members: list[Served], d: DeploymentRecord) -> Iterator[str]:
    """TTFT and E2E per token in the busiest slot, TPOT of the slowest length, E2E of the longest answer it binds."""
    for s in members:
        if d.tpot_ms > 1e3 * s.w.tpot.seconds * (1 + REL):
            yield f"TPOT {d.tpot_ms / 1e3:.4f} s exceeds the {s.w.tpot.seconds} s of {s.w.name}"
        if d.ttft_ms is not None and d.ttft_ms > 1e3 * s.w.ttft.seconds * (1 + REL):
            late = f"TTFT {d.ttft_ms / 1e3:.3f} s exceeds the {s.w.ttft.seconds} s of {s.w.name}"
            yield f"{late} in the busiest slot"
        if s.w.e2e is not None and d.e2e_ms is not None and d.e2e_ms > 1e3 * s.w.e2e.seconds * (1 + REL):
            yield f"E2E {d.e2e_ms / 1e3:.3f} s exceeds {s.w.e2e.seconds} s"
        whole, ms = s.w.e2e_per_token, d.e2e_per_token_ms
        if whole is not None and (ms is None or ms > 1e3 * whole.seconds * (1 + REL)):
            yield f"E2E per token {ms or math.inf:.2f} ms exceeds the {1e3 * whole.seconds:g} ms of {s.w.name}"
