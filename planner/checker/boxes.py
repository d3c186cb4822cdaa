"""Replicas over several boxes: whole boxes of one offer, joined by something fast, where one of them does not do."""

from __future__ import annotations

import math
from collections.abc import Iterator

from planner.case.case import Case
from planner.performance.memory import memory_bytes, weight_bytes
from planner.plan.account.flows import Served
from planner.plan.decisions import DeploymentDecision

WORKSPACE_BYTES, USED_FRAC = 2e9, 0.9
"""of each GPU: what no weights may fill, and the share that engines allocate"""
FAST = ("efa", "infiniband", "roce", "nvlink")


def boxes_may_be_joined(case: Case, members: list[Served], d: DeploymentDecision) -> Iterator[str]:
    offer, boxes = case.offers[d.offer], d.boxes_per_replica or 1
    most, link = (case.limits.max_boxes_per_replica or {}).get(d.model, 1), offer.interconnect
    if boxes > most:
        yield f"replicas of {d.model} over {boxes} boxes, {most} allowed"
    if d.gpus_per_replica != boxes * offer.gpus:
        yield f"{boxes} boxes of {d.offer} have {boxes * offer.gpus} GPUs, and a replica {d.gpus_per_replica}"
    if link is None or link.kind not in FAST:
        yield f"nothing fast is known to connect boxes of {d.offer}"
    elif link.domain_gpus is not None and boxes * offer.gpus > link.domain_gpus:
        yield f"the interconnect of {d.offer} reaches {link.domain_gpus} GPUs, {boxes * offer.gpus} needed"
    if d.parallelism == "data" or d.speculation is not None:
        yield "neither copies of attention nor drafts are served over several boxes"
    if len(members) > 1 and any(s.w.adapter_gb is not None for s in members):
        yield "adapters are not served over several boxes"
    yield from _one_box_does_not_do(case, d, boxes)


def _one_box_does_not_do(case: Case, d: DeploymentDecision, boxes: int) -> Iterator[str]:
    """A single box does not hold the weights; each of them holds its layers and one end of the vocabulary."""
    model, scheme, offer = case.models[d.model], case.quantizations[d.quantization], case.offers[d.offer]
    a_box = offer.gpus * (USED_FRAC * memory_bytes(case.gpus[offer.gpu]) - WORKSPACE_BYTES)
    whole = weight_bytes(model, scheme)
    if whole < a_box:
        yield f"one {d.offer} holds the {whole / 1e9:.0f} GB of {d.model}, so that no replica spans {boxes}"
    end = model.vocab * model.hidden * max(2.0, scheme.weight_bits / 8)
    ends = end if model.tied_embeddings else 2 * end
    largest = (whole - ends) / model.layers * math.ceil(model.layers / boxes) + end
    if largest >= a_box:
        yield f"{boxes} x {d.offer} do not hold {d.model}: {largest / 1e9:.0f} GB in one with {a_box / 1e9:.0f} GB"
