"""Which numbers of drafts are worth a closer look: those with which a replica carries most, and more than without.

A length is judged by the highest rate inside its objectives, before bursts and step sizes count; few of them differ
by more than what the closer look would say of all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.candidates.pools import PoolSpec
from planner.candidates.replica import machine_for, measured_for
from planner.case.case import Case
from planner.case.drafts import NO_DRAFTS, chances_of, speculation_of
from planner.catalog.variant import Variant
from planner.performance.throughput import throughput

TRIED = 2
"""lengths of each method that a workload is given a closer look at"""


def best_lengths(case: Case, group: PoolSpec, plain: Variant, method: str) -> list[int] | None:
    """The best first; none where no length carries more than no drafts do, None where nothing carries anything."""
    longest = len(chances_of(group.members, plain.model, method))
    lengths = [replace(plain, speculation=f"{method}:{k}" if k else "") for k in range(longest + 1)]
    rates = [carried_rps(case, group, variant) for variant in lengths]
    if not any(rates):
        return None
    least = rates[0] if NO_DRAFTS in (case.limits.speculation or ()) else 0.0
    better = [k for k in range(1, longest + 1) if rates[k] > least]
    return sorted(better, key=lambda k: (-rates[k], k))[:TRIED]


def carried_rps(case: Case, group: PoolSpec, variant: Variant) -> float:
    """Requests a second that a replica carries inside its objectives, of the lengths that it can serve."""
    machine, traffic = machine_for(case, variant), group.traffic
    _, correction = measured_for(case, machine, variant)
    speculation = speculation_of(case, variant, group.members)
    machine = replace(machine, lora=traffic.lora, speculation=speculation)
    rates = throughput(machine, traffic.lengths, traffic.limits, correction).requests_per_s
    served = rates > 0
    if not served.any():
        return 0.0
    share = float(traffic.shares[served].sum())
    return share**2 / float((traffic.shares[served] / rates[served]).sum() or np.inf)
