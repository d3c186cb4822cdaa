"""What tells vLLM to draft as a plan counts on: the method, its head, and how many drafts a step has by batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

from planner.candidates.replica import machine_for
from planner.case.drafts import drafter_key, speculation_of
from planner.catalog.drafts import EAGLE3, MTP, NGRAM
from planner.performance.latency import decode_step_s
from planner.performance.machine import Machine
from planner.plan.plan import DeploymentRecord, Plan, PoolPlan

HEAD_PLACE = "YOUR-DRAFT-HEAD"
"""in place of a head whose id the catalog does not know"""
LOOKED_UP = {"prompt_lookup_max": 3, "prompt_lookup_min": 2}
"""words that an n-gram matches"""


def speculative_config(plan: Plan, pool: PoolPlan, d: DeploymentRecord, sequences: int) -> dict[str, Any]:
    """The JSON of `vllm serve --speculative-config`, where an engine admits so many requests."""
    drafts = d.variant.drafts
    assert drafts is not None and plan.case.drafters is not None
    method, tokens = drafts
    drafter = plan.case.drafters[drafter_key(d.model, method)]
    named: dict[str, Any] = {"method": method if method in (MTP, EAGLE3, NGRAM) else "draft_model"}
    if method not in (MTP, NGRAM):
        named["model"] = drafter.checkpoint or HEAD_PLACE
    config = named | (LOOKED_UP if method == NGRAM else {}) | {"num_speculative_tokens": tokens}
    schedule = tuple(_schedule(plan, pool, d, sequences))
    if method != NGRAM and len(schedule) > 1:
        config["num_speculative_tokens_per_batch_size"] = [list(row) for row in schedule]
    return config


def _schedule(plan: Plan, pool: PoolPlan, d: DeploymentRecord, sequences: int) -> Iterator[tuple[int, int, int]]:
    """From one batch to another, the drafts of a step: as planned up to the planned batch, then as many as pay."""
    machine = machine_for(plan.case, d.variant, d.batched_tokens)
    members = [w for w in plan.case.workloads if w.name in pool.workloads]
    speculation = speculation_of(plan.case, d.variant, members)
    assert speculation is not None
    buckets = [b for w in members for b in w.buckets]
    shares = sum(b.share_frac for b in buckets)
    context = sum(b.share_frac * (b.input_tokens + b.output_tokens / 2) for b in buckets) / shares
    planned = min(sequences, max(1, int(d.requests_in_flight)))
    drafting = [replace(machine, speculation=replace(speculation, accepted=speculation.accepted[:k]))
                for k in range(1, speculation.tokens + 1)]  # fmt: skip
    by_batch = [(b, speculation.tokens) for b in range(1, planned + 1)]
    by_batch += [(b, _fastest(machine, drafting, b, context)) for b in range(planned + 1, sequences + 1)]
    allowed = speculation.tokens
    falling = []
    for b, k in by_batch:  # more requests never draft more
        allowed = min(allowed, k)
        falling.append((b, allowed))
    for k, same in groupby(falling, key=lambda x: x[1]):
        batches = [b for b, _ in same]
        yield batches[0], batches[-1], k


def _fastest(machine: Machine, drafting: list[Machine], batch: int, context: float) -> int:
    """Drafts with which a token takes least; 0: none."""
    each = [machine, *drafting]
    a_token = [float(decode_step_s(m, batch, context)) / m.accepted_tokens for m in each]
    return min(range(len(each)), key=lambda k: a_token[k])


def drafts_note(plan: Plan, d: DeploymentRecord) -> str:
    drafts = d.variant.drafts
    assert drafts is not None and plan.case.drafters is not None
    method, tokens = drafts
    drafter = plan.case.drafters[drafter_key(d.model, method)]
    place = ""
    if method not in (MTP, NGRAM) and drafter.checkpoint is None:
        place = f"; put the id or path of the head in place of {HEAD_PLACE}"
    return (
        f"the plan counts on {d.accepted_tokens:.2f} tokens a step of {tokens} drafts: watch "
        f"1 + vllm:spec_decode_num_accepted_tokens_total / vllm:spec_decode_num_drafts_total{place}"
    )
