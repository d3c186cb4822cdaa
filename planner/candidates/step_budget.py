"""How many tokens a step of a replica may have: the largest number where TTFT binds, a smaller one where TPOT does.

An answer waits while its step prefills other prompts, and a prompt waits for the steps that it is cut into. TPOT asks
for the largest number (the engine's own, a half, a quarter, ...) of which a full step takes little longer than TPOT,
and with which TPOT holds at the load that replicas carry (tpot_share.py). Where it holds with none of them, a full
step alone decides: replicas then carry more than TPOT allows, and only serving shows it. From there numbers are tried
upwards, each twice the last. The first is taken with which TTFT lets replicas be as busy as the staffing margin does,
or else the one with which they carry most, as long as TPOT holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from planner.candidates.replica import MANY, Replica, replicas_with
from planner.candidates.tpot_share import keeps_tpot
from planner.candidates.traffic import Traffic
from planner.case.case import Case
from planner.catalog.variant import Variant
from planner.performance.latency import Machine, decode_step_s, prefill_added_s
from problems.staffing import Staffing, staffing_z

FULL_STEP, FEWEST_TOKENS, FEWEST_OF_RANKS = 1.5, 1024, 2048
"""times TPOT that a step full of prompts may take, and the fewest tokens of a step: more in a rank of several, since a
prompt has that rank alone and would be late in small chunks. Over a whole answer full steps and others even out"""
WORTH = 1.02
"""times as much that replicas must carry with larger steps to be worth them"""


def replica_for(case: Case, traffic: Traffic, variant: Variant) -> Replica:
    """A replica by the catalog's names; its weights must fit."""
    return next(replicas_for(case, [traffic], variant))


def replicas_for(case: Case, traffics: Sequence[Traffic], variant: Variant) -> Iterator[Replica]:
    """Yield one machine's replica for each traffic, in their order, with steps that suit it."""
    best = list(replicas_with(case, traffics, variant))
    own = case.engine.chunk_tokens
    tried: dict[int, tuple[float, Replica]] = {}
    wanted: dict[int, int] = {}
    for k, replica in enumerate(_first_to_hold(case, traffics, variant, best)):
        budget = replica.machine.engine.chunk_tokens
        if budget < own:
            carried, by_ttft = _carries(replica)
            tried[k] = carried, replica
            if by_ttft and 2 * budget < own:
                wanted[k] = 2 * budget
    while wanted:
        budget = min(wanted.values())
        some = [k for k in wanted if wanted[k] == budget]
        for k, replica in zip(some, replicas_with(case, [traffics[k] for k in some], variant, budget), strict=True):
            carried, by_ttft = _carries_in_time(replica)
            if carried > WORTH * tried[k][0]:
                tried[k] = carried, replica
            wanted[k] = 2 * budget
            if not by_ttft or 2 * budget >= own:
                del wanted[k]
    for k, (carried, replica) in tried.items():
        best[k] = replica if _carries_in_time(best[k])[0] <= WORTH * carried else best[k]
    yield from best


def _first_to_hold(
    case: Case, traffics: Sequence[Traffic], variant: Variant, own: Sequence[Replica]
) -> Iterator[Replica]:
    """Yield what comes first for each: with as large steps as one full of prompts allows, or less until TPOT holds."""
    first: dict[int, Replica] = {}
    held = list(own)
    wanted = {k: _first(case, replica) for k, replica in enumerate(own) if _answers_in_time(replica)}
    while wanted:
        budget = max(wanted.values())
        some = [k for k in wanted if wanted[k] == budget]
        known = budget == case.engine.chunk_tokens
        replicas = own if known else list(replicas_with(case, [traffics[k] for k in some], variant, budget))
        for place, k in enumerate(some):
            replica = replicas[k if known else place]
            first.setdefault(k, replica)
            if not replica.serves.any() or keeps_tpot(replica, min(carried_loads(replica))):
                held[k] = replica
            elif budget > _fewest(replica.machine):
                wanted[k] = budget // 2
                continue
            else:
                held[k] = first[k]
            del wanted[k]
    yield from held


def _answers_in_time(replica: Replica) -> bool:
    """Whether TPOT is an objective of it that it can keep at all."""
    return bool(replica.serves.any()) and all(w.deadline_h is None for w in replica.traffic.members)


def _fewest(machine: Machine) -> int:
    return FEWEST_TOKENS if machine.layout.attention_copies == 1 else FEWEST_OF_RANKS


def _first(case: Case, replica: Replica) -> int:
    """The most tokens with which a full step hardly breaks TPOT: the engine's own, or a half, a quarter, ..."""
    machine, traffic, budget = replica.machine, replica.traffic, case.engine.chunk_tokens
    if not _answers_in_time(replica):
        return budget
    tokens = max(b.input_tokens + b.output_tokens / 2 for b in traffic.buckets)
    step_s = float(decode_step_s(machine, replica.batch, min(tokens, machine.model.max_context_tokens)))
    most_s = FULL_STEP * traffic.tpot.seconds
    while budget > _fewest(machine) and step_s + float(prefill_added_s(machine, budget, budget, 1.0)) > most_s:
        budget //= 2
    return budget


def _carries(replica: Replica) -> tuple[float, bool]:
    """Requests a second that each of many replicas carries, and whether TTFT sets the limit."""
    if not replica.serves.any():
        return 0.0, False
    margin, ttft = carried_loads(replica)
    return min(margin, ttft) / replica.mean_seconds, ttft < margin


def _carries_in_time(replica: Replica) -> tuple[float, bool]:
    """The same; none where TPOT does not hold."""
    if replica.serves.any() and not keeps_tpot(replica, min(carried_loads(replica))):
        return 0.0, True
    return _carries(replica)


def carried_loads(replica: Replica) -> tuple[float, float]:
    """The mean load of each of many replicas that the staffing margin allows, and that TTFT does."""
    traffic, n = replica.traffic, np.array(MANY)
    rule = Staffing(
        z=staffing_z(traffic.ttft.percentile),
        arrival_scv=traffic.arrival_scv,
        rate_cv=max(w.rate_cv for w in traffic.members),
        batch=replica.staffing_batch,
        min_replicas=1,
    )
    margin = float(rule.carried_load(n)) / MANY
    return margin, float(replica.routing.most_load(replica.max_utilization, traffic.arrival_scv, n))
