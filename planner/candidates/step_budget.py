"""How many tokens a step of a replica may have: the largest number where TTFT binds, a smaller one where TPOT does.

An answer waits while its step prefills other prompts, and a prompt waits for the steps that it is cut into. TPOT asks
for the largest number (the engine's own, a half, a quarter, ...) of which a full step takes little longer than TPOT,
and with which TPOT holds at the load that replicas carry (tpot_share.py). Where it holds with none of them, a full
step alone decides: replicas then carry more than TPOT allows, and only serving shows it. From there numbers are tried
upwards, each twice the last. The first is taken with which TTFT lets replicas be as busy as the staffing margin does,
or else the one with which they carry most, as long as TPOT holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from planner.candidates.known_replicas import KnownReplicas
from planner.candidates.replica import MANY, Replica, replicas_with
from planner.candidates.tpot_share import kept_fracs
from planner.candidates.traffic import Traffic
from planner.case.case import Case
from planner.catalog.variant import Variant
from planner.performance.kv_tiers import KvTier
from planner.performance.latency import decode_step_s, prefill_added_s
from planner.performance.machine import Machine
from problems.staffing import Staffing, staffing_z

FULL_STEP, FEWEST_TOKENS, FEWEST_OF_RANKS = 1.5, 1024, 2048
"""times TPOT that a step full of prompts may take, and the fewest tokens of a step: more in a rank of several, since a
prompt has that rank alone and would be late in small chunks. Over a whole answer full steps and others even out"""
WORTH = 1.02
"""times as much that replicas must carry with larger steps to be worth them"""
PACES = (0.85, 0.7, 0.55, 0.4, 0.25)
"""shares of a time per token that tokens after the first may take, besides all of it"""
KNOWN = KnownReplicas()


def replica_for(case: Case, traffic: Traffic, variant: Variant, tiers: tuple[KvTier, ...] = ()) -> Replica:
    """A replica by the catalog's names, in a box with such tiers; its weights must fit."""
    return next(replicas_for(case, [traffic], variant, tiers))


def replicas_for(
    case: Case, traffics: Sequence[Traffic], variant: Variant, tiers: tuple[KvTier, ...] = ()
) -> Iterator[Replica]:
    """Yield one machine's replica for each traffic, in their order, with steps that suit it."""
    yield from KNOWN.of(case, traffics, variant, tiers, lambda some: _at_best_pace(case, some, variant, tiers))


def _at_best_pace(
    case: Case, traffics: Sequence[Traffic], variant: Variant, tiers: tuple[KvTier, ...]
) -> Iterator[Replica]:
    """Where a time per token is promised end to end, fewer in flight leave more of it for prompts that wait."""
    best = list(_worked_out(case, traffics, variant, tiers))
    for frac in PACES:
        slower = [k for k, t in enumerate(traffics) if t.at_pace(frac).limits.tpot_s < t.limits.tpot_s]
        tried = _worked_out(case, [traffics[k].at_pace(frac) for k in slower], variant, tiers)
        for k, found in zip(slower, tried, strict=True):
            if _carried_rps(found) > WORTH * _carried_rps(best[k]):
                best[k] = replace(found, traffic=traffics[k])
    yield from best


def _carried_rps(replica: Replica) -> float:
    return min(carried_loads(replica)) / replica.mean_seconds if replica.serves.any() else 0.0


@dataclass(frozen=True)
class _Judged:
    """A replica, requests a second that each of many carries, what limits that, and whether TPOT holds there."""

    replica: Replica
    requests_per_s: float
    by_ttft: bool
    in_time: bool

    @property
    def budget(self) -> int:
        return self.replica.machine.engine.chunk_tokens


def _judged(some: Iterable[Replica]) -> list[_Judged]:
    replicas = list(some)
    loads = [carried_loads(replica) if replica.serves.any() else None for replica in replicas]
    asked = [(k, min(load)) for k, load in enumerate(loads) if load is not None and _answers_in_time(replicas[k])]
    kept = kept_fracs([replicas[k] for k, _ in asked], [load for _, load in asked])
    late = {k for (k, _), frac in zip(asked, kept, strict=True) if frac < replicas[k].traffic.tpot.percentile}
    return [
        _Judged(replica, 0.0, False, True)
        if load is None
        else _Judged(replica, min(load) / replica.mean_seconds, load[1] < load[0], k not in late)
        for k, (replica, load) in enumerate(zip(replicas, loads, strict=True))
    ]


def _worked_out(
    case: Case, traffics: Sequence[Traffic], variant: Variant, tiers: tuple[KvTier, ...]
) -> Iterator[Replica]:
    """Compare sizes of steps."""

    def with_budget(some: list[int], budget: int | None = None) -> list[_Judged]:
        return _judged(replicas_with(case, [traffics[k] for k in some], variant, budget, tiers))

    best = with_budget(list(range(len(traffics))))
    own = case.engine.chunk_tokens
    tried = {k: found for k, found in enumerate(_first_to_hold(best, own, with_budget)) if found.budget < own}
    wanted = {k: 2 * found.budget for k, found in tried.items() if found.by_ttft and 2 * found.budget < own}
    while wanted:
        budget = min(wanted.values())
        some = [k for k in wanted if wanted[k] == budget]
        for k, found in zip(some, with_budget(some, budget), strict=True):
            if found.in_time and found.requests_per_s > WORTH * tried[k].requests_per_s:
                tried[k] = found
            wanted[k] = 2 * budget
            if (found.in_time and not found.by_ttft) or 2 * budget >= own:
                del wanted[k]
    for k, found in tried.items():
        if not best[k].in_time or best[k].requests_per_s <= WORTH * found.requests_per_s:
            best[k] = found
    yield from (found.replica for found in best)


def _first_to_hold(
    best: list[_Judged], own: int, with_budget: Callable[[list[int], int], list[_Judged]]
) -> list[_Judged]:
    """What comes first for each: with as large steps as one full of prompts allows, or less until TPOT holds."""
    first: dict[int, _Judged] = {}
    held = list(best)
    wanted = _first_budgets([found.replica for found in best], own)
    while wanted:
        budget = max(wanted.values())
        some = [k for k in wanted if wanted[k] == budget]
        for k, found in zip(some, [best[k] for k in some] if budget == own else with_budget(some, budget), strict=True):
            first.setdefault(k, found)
            if not found.in_time and budget > _fewest(found.replica.machine):
                wanted[k] = budget // 2
                continue
            held[k] = found if found.in_time else first[k]
            del wanted[k]
    return held


def _answers_in_time(replica: Replica) -> bool:
    """Whether TPOT is an objective of it that it can keep at all."""
    return bool(replica.serves.any()) and all(w.deadline_h is None for w in replica.traffic.members)


def _fewest(machine: Machine) -> int:
    return FEWEST_TOKENS if machine.layout.attention_copies == 1 else FEWEST_OF_RANKS


def _first_budgets(replicas: list[Replica], own: int) -> dict[int, int]:
    """The most tokens with which a full step of each hardly breaks TPOT: the engine's own, or a half, a quarter, ..."""
    found: dict[int, int] = {}
    asked = [k for k, replica in enumerate(replicas) if _answers_in_time(replica)]
    for _, same in groupby(asked, key=lambda k: id(replicas[k].machine)):
        some = list(same)
        machine = replicas[some[0]].machine
        halves = [own]
        while halves[-1] > _fewest(machine):
            halves.append(halves[-1] // 2)
        full = machine.boxes * np.array(halves)
        full_s = prefill_added_s(machine, full, full, 1.0)
        tokens = [max(b.input_tokens + b.output_tokens / 2 for b in replicas[k].traffic.buckets) for k in some]
        batches, longest = np.array([replicas[k].batch for k in some]), machine.model.max_context_tokens
        steps_s = decode_step_s(machine, batches, np.minimum(tokens, longest))
        for k, step_s in zip(some, steps_s.tolist(), strict=True):
            hardly = (step_s + full_s) / machine.accepted_tokens <= FULL_STEP * replicas[k].traffic.tpot.seconds
            found[k] = halves[int(np.argmax(hardly))] if hardly.any() else halves[-1]
    return found


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
