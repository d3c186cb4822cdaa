"""The command line that would run one replica of each deployment of a plan, ready to paste.

The flags are those of `vllm serve`. They say what the plan counts on: requests in flight, lengths, memory, caching and
adapters. Whatever a user named is quoted for a shell.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from planner.case.case import PREFIX_AWARE, Case, Workload, kinds_of
from planner.case.drafts import speculation_of
from planner.case.support import support_of
from planner.case.weights import weights_of
from planner.catalog.engine_support import own_checkpoint
from planner.io.errors import listed
from planner.performance.kv_tiers import HOST
from planner.performance.memory import Layout, layout_of, longest_request, weight_bytes
from planner.performance.speculation import extra_of
from planner.performance.throughput import ADMITTED, KV_MEMORY
from planner.plan.plan import DeploymentPlan, DeploymentRecord, Plan, PoolPlan, WorkloadPlan
from planner.plan.speculative_config import drafts_note, speculative_config

WITHOUT_BF16 = ("turing", "volta")
"""architectures on which 16 bit means FP16"""
VISIBLE = {"amd": "HIP_VISIBLE_DEVICES"}
OFFLOAD = ("--kv-offloading-backend", "native", "--kv-offloading-size")
"""of vLLM: the connector that it has itself, and GiB of the box's memory for all GPUs of a replica together"""
EXACT_UP_TO, SEQUENCE_STEP = 64, 8
"""more requests in flight than the first are rounded up to multiples of the second"""
NODES, FIRST_BOX = "--nnodes", "FIRST-BOX"
"""begins what differs between the boxes of a replica; the address of the one that answers"""
PLACE = "YOUR-CHECKPOINT"
"""begins the name in place of weights that the catalog does not know"""
DEFAULT_RANK = 16
"""of adapters that vLLM takes unless told otherwise"""


@dataclass(frozen=True)
class ServeCommand:
    """How to start one replica."""

    pool: str
    deployment: str
    """its key"""
    workloads: tuple[str, ...]
    offer: str
    gpus_per_replica: int
    replicas_per_instance: int
    """0: a replica takes several"""
    command: str
    """of the first of its boxes, where they are several"""
    environment: tuple[str, ...]
    """variables for the first replica of an instance, as NAME=value"""
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def serve_commands(plan: Plan) -> tuple[ServeCommand, ...]:
    """One for each deployment, pool by pool."""
    return tuple(_command(plan, pool, d) for pool in plan.pools for d in pool.deployments)


@dataclass(frozen=True)
class EngineSettings:
    """What the command line tells the engine to admit: each copy of attention, where there are several."""

    context_tokens: int
    sequences: int
    batched_tokens: int


def engine_settings(plan: Plan, pool: PoolPlan, d: DeploymentRecord) -> EngineSettings:
    sequences = _sequences(plan, d)
    verified = 1 + d.variant.drafts[1] if d.variant.drafts else 1
    return EngineSettings(longest_admitted(plan, pool, d), sequences, max(d.batched_tokens, verified * sequences))


def _command(plan: Plan, pool: PoolPlan, planned: DeploymentPlan) -> ServeCommand:
    d = planned.deployment
    per_instance = plan.case.offers[d.offer].gpus // d.gpus_per_replica
    several = per_instance > 1
    visible = VISIBLE.get(plan.case.gpus[d.gpu].vendor.lower(), "CUDA_VISIBLE_DEVICES")
    first = f"{visible}={','.join(str(k) for k in range(d.gpus_per_replica))}"
    return ServeCommand(
        pool=pool.key,
        deployment=d.key,
        workloads=pool.workloads,
        offer=d.offer,
        gpus_per_replica=d.gpus_per_replica,
        replicas_per_instance=per_instance,
        command=shlex.join(
            [
                *("vllm", "serve", _no_option(checkpoint_of(plan.case, d.model, d.quantization)[0])),
                *_flags(plan, pool, d),
                *_joining(d),
            ]
        ),
        environment=(first,) if several else (),
        notes=tuple(_notes(plan, pool, planned, per_instance, visible)),
    )


def _flags(plan: Plan, pool: PoolPlan, d: DeploymentRecord) -> Iterator[str]:
    case = plan.case
    scheme, engine = case.quantizations[d.quantization], case.engine
    copies, boxes = _layout(d).attention_copies, d.boxes_per_replica or 1
    yield from ("--tensor-parallel-size", str(d.gpus_per_replica // boxes // copies))
    if boxes > 1:
        yield from ("--pipeline-parallel-size", str(boxes))
    if copies > 1:
        yield from ("--data-parallel-size", str(copies))
    if d.parallelism is not None:
        yield "--enable-expert-parallel"
    if made := weights_of(case, d.model, d.quantization).quantized_to:
        yield from ("--quantization", made)
    yield from ("--dtype", "half" if case.gpus[d.gpu].architecture.lower() in WITHOUT_BF16 else "auto")
    if scheme.kv_bits <= 8:
        yield from ("--kv-cache-dtype", "fp8")
    settings = engine_settings(plan, pool, d)
    yield from ("--max-model-len", str(settings.context_tokens))
    yield from ("--max-num-seqs", str(settings.sequences))
    yield from ("--max-num-batched-tokens", str(settings.batched_tokens))
    yield from ("--gpu-memory-utilization", f"{engine.usable_memory_frac:g}")
    if d.speculation is not None:
        yield from ("--speculative-config", json.dumps(speculative_config(plan, pool, d, settings.sequences)))
    if any(_on_gpus(w) for w in _told(plan, pool)):
        yield "--enable-prefix-caching"
    if host := host_gib(d):
        yield from (*OFFLOAD, str(host))
    adapters = adapters_of(plan, pool)
    if adapters:
        yield from ("--enable-lora", "--max-loras", str(len(adapters)), "--lora-modules")
        yield from (f"{name}=adapters/{name}" for name in adapters.values())


def _joining(d: DeploymentRecord) -> Iterator[str]:
    """How the boxes of a replica find each other, and which one this is: the first, which answers requests."""
    if d.boxes_per_replica is not None:
        yield from (NODES, str(d.boxes_per_replica), "--node-rank", "0", "--master-addr", FIRST_BOX)


def host_gib(d: DeploymentRecord) -> int:
    """Memory of the box in which a replica keeps KV cache; 0: none."""
    tiers = (d.prefix_cache.tiers or ()) if d.prefix_cache is not None else ()
    return next((math.floor(1e9 * tier.cache_gb / 2**30) for tier in tiers if tier.name == HOST), 0)


def _notes(plan: Plan, pool: PoolPlan, planned: DeploymentPlan, per_instance: int, visible: str) -> Iterator[str]:
    case, d = plan.case, planned.deployment
    note = checkpoint_of(case, d.model, d.quantization)[1]
    if note:
        yield note
    support = support_of(case, d.variant)
    if support.verdict == "unproven":
        yield f"unproven: {support.reason}; try it before you count on it"
    if case.quantizations[d.quantization].kv_loss is not None:
        yield "the KV cache is in FP8, with scales of 1 unless the checkpoint has calibrated ones: compare its answers"
    if not case.engine_name.startswith("vllm"):
        yield f"the plan assumes {case.engine_name}; this is how vLLM would run it, at vLLM's own speed"
    if d.speculation is not None:
        yield drafts_note(plan, d)
    if per_instance > 1:
        yield (f"an instance of {d.offer} holds {per_instance} such replicas: give each its own {visible} and --port")
    if d.boxes_per_replica is not None:
        others = listed([str(rank) for rank in range(1, d.boxes_per_replica)], "and")
        link = case.offers[d.offer].interconnect
        yield (
            f"a replica takes {d.boxes_per_replica} x {d.offer}, joined by {link.kind if link else 'a fast link'}: "
            f"give the address of the first in place of {FIRST_BOX}, and run the same on the rest with --headless and "
            f"--node-rank {others}; if one stops, start all of them anew"
        )
    if d.prefix_cache is not None:
        found = " and ".join(f"{share:.1%}" for share in d.prefix_cache.found_fracs)
        router = "a prefix-aware router" if case.limits.routing == PREFIX_AWARE else f"{case.limits.routing} routing"
        yield (
            f"the plan counts on {found} of prompt tokens from its prefix cache while replicas are at their highest "
            f"planned load, behind {router}, in the KV memory that running requests leave free: about "
            f"{d.prefix_cache.cache_tokens:,.0f} tokens; at lower load they find more"
        )
    yield from _tier_notes(d)
    if any("template" in kinds_of(w.caching) for w in _told(plan, pool)):
        yield "vLLM finds only prefixes; templates inside prompts need a KV store that finds them anywhere"
    if any("semantic" in kinds_of(w.caching) for w in _told(plan, pool)):
        yield "the semantic cache sits in front of it and is not part of this command"
    adapters = adapters_of(plan, pool)
    if adapters:
        renamed = ", ".join(f"{name} is that of {workload}" for workload, name in adapters.items() if name != workload)
        named = f" ({renamed})" if renamed else ""
        yield f"put the adapters under adapters/{named}; for ranks above {DEFAULT_RANK} add --max-lora-rank"
    critical = max(w.critical_share_frac for w in _asked(plan, pool))
    if planned.firm_replicas_by_slot != planned.replicas_by_slot and critical < 1:
        yield (
            "while spot replicas are reclaimed a gateway must shed non-critical requests at once, by priority: the "
            f"remaining replicas carry the {critical:.0%} that are"
        )
    yield from _refusals(plan, pool, d)
    if None in d.seconds_per_request:
        yield "send it only requests of the lengths it serves in the plan; the others go to the other deployment"


def _tier_notes(d: DeploymentRecord) -> Iterator[str]:
    for tier in (d.prefix_cache.tiers or ()) if d.prefix_cache is not None else ():
        yield (
            f"{tier.found_fracs[0]:.1%} of prompt tokens come back from {tier.name} memory: {tier.cache_gb:,.0f} GB a "
            f"replica, which keeps blocks for about {tier.residence_s:,.0f} s at the highest planned load"
        )
        if tier.name == HOST:
            yield "models with MLA or several kinds of layers may need another backend, or no hybrid KV cache manager"
        else:
            yield "this command has no flags for the disk: put it behind host memory with LMCache or another tier"


def _refusals(plan: Plan, pool: PoolPlan, d: DeploymentRecord) -> Iterator[str]:
    """Which requests it refuses for their length, and why."""
    longest, context = longest_admitted(plan, pool, d), plan.case.models[d.model].max_context_tokens
    refusing = [w for w in _asked(plan, pool) if w.length_limit and w.length_limit.refused_frac]
    many = ", ".join(f"{w.length_limit.refused_frac:.2%} of {w.name}" for w in refusing if w.length_limit)
    why = f": {many}" if many else ": KV memory holds no longer ones" if longest_held(plan, d) < context else ""
    if many or longest < context:
        yield f"requests of more than {longest:,} tokens, answer included, are refused{why}"


def checkpoint_of(case: Case, name: str, quantization: str) -> tuple[str, str]:
    """What to load of a model in a quantization, and what to know about it."""
    model, scheme, weights = case.models[name], case.quantizations[quantization], weights_of(case, name, quantization)
    stored = scheme.weights or quantization
    if weights.quantized_to:
        served_gb = weight_bytes(model, scheme) / 1e9
        note = (
            f"quantized to {weights.quantized_to} while it loads: {weights.gb:,.0f} GB of 16-bit weights are "
            f"downloaded, and layer by layer {served_gb:,.0f} GB are made of them; a checkpoint that is quantized so "
            f"starts faster (name it in the demand file: {own_checkpoint(name, stored)})"
        )
        if weights.checkpoint is None:
            note += f"; put the id or path of the weights of {name} in its place"
        return (weights.checkpoint or name), note
    if weights.checkpoint is not None:
        return weights.checkpoint, ""
    if model.native_quantization == stored:
        return name, f"the catalog does not know where the weights of {name} are: put their id or path in its place"
    wanted = f"{PLACE}/{(model.checkpoint or name).rsplit('/', 1)[-1]}-{stored}"
    return wanted, (
        f"put the id or path of a checkpoint of {name} quantized with {scheme.name or stored} in place of "
        f"{wanted}; vLLM reads the method from it and picks the fastest kernels by itself"
    )


def _no_option(checkpoint: str) -> str:
    return f"./{checkpoint}" if checkpoint.startswith("-") else checkpoint


def longest_admitted(plan: Plan, pool: PoolPlan, d: DeploymentRecord) -> int:
    """Tokens of the longest request that a replica admits: what it holds, or less where no workload lets in more."""
    limits = [w.length_limit.tokens if w.length_limit else None for w in _asked(plan, pool)]
    let_in = max((tokens for tokens in limits if tokens is not None), default=0) if None not in limits else None
    holds = longest_held(plan, d)
    return holds if let_in is None else min(holds, let_in)


def longest_held(plan: Plan, d: DeploymentRecord) -> int:
    """The model's context, or what of it fits into KV memory."""
    case, gpus = plan.case, d.gpus_per_replica
    model, scheme, layout = case.models[d.model], case.quantizations[d.quantization], _layout(d)
    reserved, kv_factor, usable = _adapter_bytes(plan, d) * gpus, 1.0, case.engine.usable_memory_frac
    speculation = speculation_of(case, d.variant, case.workloads)
    if speculation is not None:
        extra = extra_of(speculation, model, scheme, layout)
        reserved, kv_factor = reserved + extra.weight_bytes, extra.kv_factor
    return longest_request(model, case.gpus[d.gpu], gpus, scheme, usable, reserved, layout, kv_factor)


def _layout(d: DeploymentRecord) -> Layout:
    return layout_of(d.variant.parallelism, d.gpus_per_replica, d.boxes_per_replica or 1)


def _adapter_bytes(plan: Plan, d: DeploymentRecord) -> float:
    """Adapters that every GPU of a replica holds; those of a workload by itself are merged into the weights."""
    pool = next((p for p in plan.pools if any(each.deployment is d for each in p.deployments)), None)
    if pool is None or len(pool.workloads) == 1:
        return 0.0
    return sum(1e9 * (w.adapter_gb or 0.0) for w in _asked(plan, pool))


def _sequences(plan: Plan, d: DeploymentRecord) -> int:
    """As many as the plan counts on where memory binds; half as many again elsewhere, so that a burst is let in."""
    each = d.requests_in_flight / _layout(d).attention_copies
    if d.bound_by == KV_MEMORY:
        return max(1, math.floor(each + 1e-9))
    counted = math.ceil(ADMITTED * each - 1e-9)
    rounded = counted if counted <= EXACT_UP_TO else SEQUENCE_STEP * math.ceil(counted / SEQUENCE_STEP)
    return max(1, min(rounded, plan.case.engine.max_in_flight))


def _on_gpus(w: WorkloadPlan) -> bool:
    return bool(kinds_of(w.caching) & {"prefix", "template"})


def _told(plan: Plan, pool: PoolPlan) -> list[WorkloadPlan]:
    return [w for w in plan.workloads if w.name in pool.workloads]


def _asked(plan: Plan, pool: PoolPlan) -> list[Workload]:
    """In the order of the pool, as the buckets of its deployments are."""
    return [next(w for w in plan.case.workloads if w.name == name) for name in pool.workloads]


def adapters_of(plan: Plan, pool: PoolPlan) -> dict[str, str]:
    """A name for the adapter of each workload that has one: plain words, since vLLM splits them at '='."""
    names: dict[str, str] = {}
    for w in _asked(plan, pool):
        if w.adapter_gb is not None:
            plain = re.sub(r"[^A-Za-z0-9._-]+", "-", w.name).strip("-.") or "adapter"
            name, k = plain, 2
            while name in names.values():
                name, k = f"{plain}-{k}", k + 1
            names[w.name] = name
    return names
