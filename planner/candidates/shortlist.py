"""The variants that a question looks at: the cheapest for a request, and the cheapest replicas.

Without objectives a request costs the time of its prompt and of its answer's steps, in a batch as large as memory
holds. That ranks hundreds of variants in the time in which one is judged. What objectives make much worse is found out
when it is judged; what they leave alone is near the top already. Small fleets want the cheapest replicas.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from planner.candidates.pools import PoolSpec
from planner.case.case import Case
from planner.case.prices import usd_per_h
from planner.catalog.entries import Offer
from planner.catalog.variant import Variant
from planner.performance.latency import decode_step_s, prefill_s
from planner.performance.machine import Machine
from planner.performance.memory import kv_bytes

MOST_TOGETHER = 256.0
"""requests that a rank counts with in a batch; objectives seldom allow more"""


def shortlist(
    case: Case, group: PoolSpec, offers: Iterable[Offer], variants: Iterable[tuple[Variant, Machine]], most: int
) -> frozenset[Variant]:
    """The variants among the first so many by either rank."""
    ways = [way for way in case.purchase if way != "spot"] or case.purchase
    usd_per_gpu: dict[str, float] = {}
    for offer in offers:
        usd = min((usd for way in ways if (usd := usd_per_h(offer.prices, way)) is not None), default=0.0)
        usd_per_gpu[offer.gpu] = min(usd_per_gpu.get(offer.gpu, np.inf), usd / offer.gpus)
    lengths, share = group.traffic.lengths, group.traffic.shares
    answer, context = float(share @ lengths.output_tokens), share @ (lengths.input_tokens + lengths.output_tokens / 2)
    new = np.maximum(lengths.input_tokens - lengths.cached_tokens, 1.0)
    ranked = []
    for variant, machine in variants:
        usd = usd_per_gpu[variant.gpu] * variant.gpus_per_replica
        fitting = machine.kv_room_bytes / float(kv_bytes(machine.model, machine.quantization, context))
        batch = min(MOST_TOGETHER, max(1.0, fitting))
        steps_s = float(decode_step_s(machine, batch, context)) * answer / batch
        seconds = float(share @ prefill_s(machine, new)) + steps_s
        ranked.append((usd * seconds, usd, variant))
    by_request = sorted(ranked, key=lambda each: each[0])[:most]
    by_replica = sorted(ranked, key=lambda each: (each[1], each[0]))[:most]
    return frozenset(variant for _, _, variant in (*by_request, *by_replica))
