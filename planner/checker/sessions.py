"""What turns of sessions find: worked out again from the sessions, turn by turn, for the times that a plan says."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist

import numpy as np

from planner.candidates.replica import Replica
from planner.case.case import Case, Workload, kinds_of
from planner.checker.figures import REL, differs
from planner.performance.memory import kv_bytes_per_token
from planner.performance.sessions import sample_of
from planner.plan.account.flows import Served
from planner.plan.plan import DeploymentRecord, PrefixCacheRecord

BLIND_ROUTERS = ("least-requests", "round-robin", "random")
REACHED = 0.95
"""share of what could be found that a router which knows prefixes reaches"""
HOST_FRAC, GIB = 0.75, 2**30
FOR_EVER_S = 1e6
"""beyond the longest pause that anybody knows: how long exactly makes no difference"""
OF_THE_ROOM = 1e-3
"""by which tokens kept may exceed the room, since the replica's rate was found by halving"""


def turns_find_what_is_kept(case: Case, s: Served, d: DeploymentRecord, replica: Replica) -> Iterator[str]:
    cache = d.prefix_cache
    if cache is None:
        yield f"nothing says what the turns of {s.w.name} find"
        return
    if case.limits.routing in BLIND_ROUTERS and cache.spread_over < case.limits.min_replicas:
        yield "prefixes are found on replicas that a router blind to them does not choose"
    if case.limits.routing not in BLIND_ROUTERS and cache.spread_over != 1:
        yield "a router that knows prefixes sends turns to one replica"
    yield from _tiers_are_there(case, s, d, cache)
    reached = 1.0 if case.limits.routing in BLIND_ROUTERS else REACHED
    rooms = [(cache.residence_s, cache.cache_tokens), *((t.residence_s, t.cache_tokens) for t in cache.tiers or ())]
    times = [time for time, _ in rooms]
    shared = s.seen.shared_found_frac
    each = [_found_on_average(s.seen, time, room, cache.spread_over) for time, room in rooms]
    found = np.maximum.accumulate([shared + max(0.0, share - shared) * reached for share in each]).tolist()
    what = f"the share of prompts of {s.w.name} that is found"
    yield from differs(what, cache.found_fracs[0], found[-1])
    for k, tier in enumerate(cache.tiers or ()):
        yield from differs(f"{what} in {tier.name} memory", tier.found_fracs[0], found[k + 1] - found[k])
    yield from _rooms_hold_it(s, d, cache, replica, times)


def _rooms_hold_it(
    s: Served, d: DeploymentRecord, cache: PrefixCacheRecord, replica: Replica, times: list[float]
) -> Iterator[str]:
    rows = zip(replica.traffic.shares.tolist(), s.w.buckets, d.seconds_per_request, strict=True)
    served = [(share, share * b.input_tokens, share * u) for share, b, u in rows if u is not None]
    if not served:
        return
    tokens, busy_s = sum(row[1] for row in served), sum(row[2] for row in served)
    rooms = [("GPU", cache.cache_tokens), *((tier.name, tier.cache_tokens) for tier in cache.tiers or ())]
    for (name, room), stays in zip(rooms, times, strict=True):
        kept = cache.load_frac * tokens / busy_s * _found_and_kept(s.seen, stays, cache.spread_over)[1]
        if stays < FOR_EVER_S and kept > room * (1 + OF_THE_ROOM):
            yield f"{room:.0f} tokens of {name} memory are full before blocks have stayed {stays:.1f} s"


def _tiers_are_there(case: Case, s: Served, d: DeploymentRecord, cache: PrefixCacheRecord) -> Iterator[str]:
    """Only what is decided and what the box has, in the order of their speed."""
    offer, names = case.offers[d.offer], [tier.name for tier in cache.tiers or ()]
    if names != [name for name in ("host", "disk") if name in names]:
        yield f"tiers {', '.join(names)} are not in the order of their speed"
    each = kv_bytes_per_token(case.models[d.model], case.quantizations[d.quantization])
    heads = case.models[d.model]
    for tier in cache.tiers or ():
        if tier.name not in kinds_of(s.seen.caching[0]):
            yield f"KV cache of {s.w.name} is in {tier.name} memory, which was not decided"
        if tier.name == "host":
            gb = HOST_FRAC * (offer.host_memory_gib or 0.0) * GIB / 1e9
        else:
            gb = case.kv_disk.gb if case.kv_disk is not None else 0.0
        if tier.cache_gb * offer.gpus / d.gpus_per_replica > gb * (1 + REL):
            yield f"boxes of {d.offer} have {gb:.0f} GB of {tier.name} memory for KV cache, {tier.cache_gb:.0f} asked"
        if heads.mla is None and tier.cache_tokens * each > 1e9 * tier.cache_gb * (1 + REL):
            yield f"{tier.cache_tokens:.0f} tokens do not fit into {tier.cache_gb:.0f} GB of {tier.name} memory"


def _found_on_average(w: Workload, residence_s: float, room: float, replicas: int) -> float:
    """Where so many tokens of room are full after that time on average, which varies as contexts come by chance."""
    assert w.sessions is not None
    turns = sample_of(w.sessions)
    whole = turns.prompt + turns.answer
    contexts = room / float(np.sum(turns.weight * whole**2) / np.sum(turns.weight * whole))
    if residence_s <= 0 or contexts <= 0:
        return _found_and_kept(w, residence_s, replicas)[0]
    sigma = float(np.sqrt(np.log(1 + 1 / contexts)))
    levels = [NormalDist().inv_cdf((k + 0.5) / 24) for k in range(24)]
    times = [residence_s * float(np.exp(sigma * z - sigma**2 / 2)) for z in levels]
    return float(np.mean([_found_and_kept(w, time, replicas)[0] for time in times]))


def _found_and_kept(w: Workload, residence_s: float, replicas: int) -> tuple[float, float]:
    """Share of prompt tokens found where blocks stay so long, and tokens kept for each prompt token a second.

    What a turn had in common with the one j turns before is on a replica that was sent that one and none since.
    """
    assert w.sessions is not None
    spread = 1
    while spread < replicas:
        spread *= 2
    turns = sample_of(w.sessions)
    total = float(np.sum(turns.weight * turns.prompt))
    shared = float(np.sum(turns.weight * turns.shared)) / total
    answers = float(np.sum(turns.weight * turns.answer)) / total
    found = 0.0
    kept = residence_s * (1 + answers - shared)
    since, common = np.zeros(len(turns.prompt)), np.minimum(turns.prompt, np.inf)
    chance, number = 1.0, np.arange(len(turns.prompt))
    begins = np.flatnonzero(np.r_[True, turns.session[1:] != turns.session[:-1]])
    turn_of = number - begins[np.searchsorted(begins, number, side="right") - 1]
    for back in range(1, 201):
        mine = turn_of >= back
        if chance < 1e-3 or not mine.any():
            break
        before = number[mine] - back + 1
        since[mine] += turns.wait_s[before]
        common[mine] = np.minimum(common[mine], turns.kept[before])
        own = turns.weight[mine] * np.maximum(0.0, common[mine] - turns.shared[mine]) * chance / spread / total
        found += float(np.sum(own[since[mine] <= residence_s]))
        kept -= float(np.sum(own * np.maximum(0.0, residence_s - since[mine])))
        chance *= 1 - 1 / spread
    return shared + found, kept
