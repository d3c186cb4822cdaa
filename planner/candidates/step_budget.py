"""How many tokens a step of a replica may have: the largest number where TTFT binds, a smaller one where TPOT does.

An answer waits while its step prefills other prompts, and a prompt waits for the steps that it is cut into. Numbers are
tried from the smallest that TPOT may ask for upwards, each twice the last, to the engine's own. The first is taken with
which TTFT lets replicas be as busy as the staffing margin does, or else the one with which they carry most. Steps that
are larger than TPOT asks for must keep it at that load, with the bursts and the prompts that there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from planner.candidates.replica import MANY, Replica, replicas_with
from planner.candidates.traffic import Traffic
from planner.case.case import Case
from planner.catalog.variant import Variant
from planner.performance.latency import decode_step_s, prefill_added_s
from planner.performance.steady_state import steady_state
from problems.staffing import Staffing, staffing_z, z_of

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
    budgets = [_fewest(case, replica) for replica in best]
    wanted = {k: budget for k, budget in enumerate(budgets) if budget < own}
    most = {k: _carries(best[k], larger=True)[0] for k in wanted}
    tried: dict[int, tuple[float, Replica]] = {}
    while wanted:
        budget = min(wanted.values())
        some = [k for k in wanted if wanted[k] == budget]
        for k, replica in zip(some, replicas_with(case, [traffics[k] for k in some], variant, budget), strict=True):
            carried, by_ttft = _carries(replica, larger=k in tried)
            if k not in tried or carried > WORTH * tried[k][0]:
                tried[k] = carried, replica
            wanted[k] = 2 * budget
            if not by_ttft or 2 * budget >= own:
                del wanted[k]
    for k, (carried, replica) in tried.items():
        best[k] = replica if most[k] <= WORTH * carried else best[k]
    yield from best


def _fewest(case: Case, replica: Replica) -> int:
    """The most tokens with which a full step does not break TPOT: the engine's own, or a half, a quarter, ..."""
    machine, traffic, budget = replica.machine, replica.traffic, case.engine.chunk_tokens
    if any(w.deadline_h is not None for w in traffic.members) or not replica.serves.any():
        return budget
    tokens = max(b.input_tokens + b.output_tokens / 2 for b in traffic.buckets)
    step_s = float(decode_step_s(machine, replica.batch, min(tokens, machine.model.max_context_tokens)))
    most_s = FULL_STEP * traffic.tpot.seconds
    fewest = FEWEST_TOKENS if machine.layout.attention_copies == 1 else FEWEST_OF_RANKS
    while budget > fewest and step_s + float(prefill_added_s(machine, budget, budget, 1.0)) > most_s:
        budget //= 2
    return budget


def _carries(replica: Replica, larger: bool) -> tuple[float, bool]:
    """Requests a second that each of many replicas carries, and whether TTFT sets the limit.

    None with larger steps than TPOT asks for, where these break it.
    """
    if not replica.serves.any():
        return 0.0, False
    traffic, n = replica.traffic, np.array(MANY)
    rule = Staffing(
        z=staffing_z(traffic.ttft.percentile),
        arrival_scv=traffic.arrival_scv,
        rate_cv=max(w.rate_cv for w in traffic.members),
        batch=replica.staffing_batch,
        min_replicas=1,
    )
    margin = float(rule.carried_load(n)) / MANY
    ttft = float(replica.routing.most_load(replica.max_utilization, traffic.arrival_scv, n))
    load = min(margin, ttft)
    if larger and not _keeps_tpot(replica, load):
        return 0.0, True
    return load / replica.mean_seconds, ttft < margin


def _keeps_tpot(replica: Replica, load: float) -> bool:
    """Whether requests that meet others at a mean load keep TPOT, with as many prompts among them as may come."""
    traffic, found = replica.traffic, replica.throughput
    shares = np.where(replica.serves, traffic.shares, 0.0)
    shares = shares / shares.sum()
    prompt, answer = float(shares @ traffic.lengths.input_tokens), float(shares @ traffic.lengths.output_tokens)
    meets = max(1.0, load * replica.batch)
    run = steady_state(replica.machine, meets, prompt, answer, float(shares @ found.new_tokens))
    typical = 1 / float(shares @ (1 / np.maximum(traffic.lengths.output_tokens, 1.0)))  # short ones vary most
    by_chance = np.sqrt(run.begun / typical * (traffic.arrival_scv + replica.service_cv2))
    tpot_s = run.tpot_s + z_of(traffic.tpot.percentile) * by_chance * run.interruption_frac * run.prefill_s
    return bool(tpot_s <= traffic.tpot.seconds)
