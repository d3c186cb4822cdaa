"""What one replica of a deployment is and does in a plan, the rule that it is staffed by, and the boxes it takes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from planner.candidates.replica import Replica
from planner.candidates.staffing import (
    load_factor_by_slot,
    rate_cv_together,
    staffing_alone,
    staffing_in_a_mix,
)
from planner.case.quality import quality_of
from planner.case.start_up import start_s
from planner.performance.kv_tiers import stored_bytes_per_token
from planner.plan.account.flows import Flows, Together, finite
from planner.plan.plan import DeploymentRecord, KvTierRecord, PrefixCacheRecord, RoutingRecord
from problems.staffing import Routing, Staffing


def staffing(account: Flows, pool: Together, k: int) -> Staffing:
    """The staffing rule of the k-th deployment of a pool."""
    case, slots, members = account.case, account.slots, account.members(pool)
    decided = account.pool(pool)
    variant = decided.deployments[k].variant
    replica, may_wait = account.replica(pool, k), account.may_wait(pool)
    factors = case.load_factors_of(decided.workloads, variant.key_on(variant.gpu))
    if account.in_a_mix(pool, k) and not may_wait:
        return staffing_in_a_mix(case, replica, min(factors))
    rate_cv: float | np.ndarray = members[0].w.rate_cv
    if len(members) > 1:
        load = np.stack([account.load_of(pool, s) for s in members], axis=1)
        rate_cv = rate_cv_together(case, load, [s.w.rate_cv for s in members])
    return staffing_alone(
        case, replica, may_wait, rate_cv, min(factors) if may_wait else load_factor_by_slot(factors, slots)
    )


def may_be_reclaimed(account: Flows, pool: Together, k: int) -> bool:
    """Whether replicas of the k-th deployment may be spot: something sheds, or others start in time."""
    case, d = account.case, account.pool(pool).deployments[k]
    critical = critical_share(account, pool)
    in_time = start_s(case, d.model, d.quantization) <= case.start.spot_within_s
    return "spot" in case.purchase and critical < 1 and (in_time or critical == 0)


def critical_share(account: Flows, pool: Together) -> float:
    return max(s.w.critical_share_frac for s in account.members(pool))


def deployment_record(account: Flows, pool: Together, k: int) -> DeploymentRecord:
    case, d = account.case, account.pool(pool).deployments[k]
    offer, replica, rule = case.offers[d.offer], account.replica(pool, k), staffing(account, pool, k)
    in_a_mix = account.in_a_mix(pool, k)
    throughput, serves = replica.throughput, replica.serves
    seconds = replica.seconds_per_request
    alone_in_box = offer.gpus == d.gpus_per_replica and not in_a_mix
    return DeploymentRecord(
        key=d.variant.key_on(d.offer),
        model=d.model,
        quantization=d.quantization,
        offer=d.offer,
        gpu=offer.gpu,
        gpus_per_replica=d.gpus_per_replica,
        parallelism=d.variant.other_parallelism,
        boxes_per_replica=d.boxes_per_replica,
        speculation=d.speculation,
        accepted_tokens=replica.machine.speculation.accepted_tokens if replica.machine.speculation else None,
        seconds_per_request=tuple(s if np.isfinite(s) else None for s in seconds.tolist()),
        requests_in_flight=_in_flight(account, pool, k) if in_a_mix else replica.batch,
        staffing_in_flight=rule.batch,
        kept_back_frac=replica.kept_back_frac,
        batched_tokens=replica.machine.engine.chunk_tokens,
        ttft_ms=_ttft_ms(account, pool, k),
        most_load_frac=rule.max_utilization,
        routing=_routing_record(rule.routing),
        tpot_ms=1e3 * float(throughput.tpot_s[serves].max()),
        e2e_ms=_slowest_answer_ms(replica),
        e2e_per_token_ms=_per_token_ms(account, pool, k),
        bound_by=throughput.bound_by[int(np.argmax(replica.load_shares))],
        quality_loss_frac=max(_losses(account, pool, k)),
        basis=replica.basis,
        error_frac=replica.error_frac,
        spot_zones=offer.spot_zones if alone_in_box else 1,
        prefix_cache=_prefix_cache_record(replica),
    )


def _ttft_ms(account: Flows, pool: Together, k: int) -> float | None:
    """In the worst slot; work that waits has no first token to hurry for."""
    if account.may_wait(pool):
        return None
    replica = account.replica(pool, k)
    ttft_s = replica.ttft_s_of_any if account.in_a_mix(pool, k) else replica.ttft_s
    return 1e3 * max((ttft_s(load, n) for load, n in _loads(account, pool, k)), default=0.0)


def _per_token_ms(account: Flows, pool: Together, k: int) -> float | None:
    """In the worst slot."""
    replica = account.replica(pool, k)
    if replica.traffic.e2e_per_token is None:
        return None
    return 1e3 * max((replica.e2e_per_token_s(load, n) or 0.0 for load, n in _loads(account, pool, k)), default=0.0)


def _loads(account: Flows, pool: Together, k: int) -> set[tuple[float, int]]:
    """Mean load of a replica and their number, each pair that occurs."""
    counts = account.pool(pool).deployments[k].replicas_by_slot
    return {(load / n, n) for load, n in zip(account.load(pool, k).tolist(), counts, strict=True) if n}


def _in_flight(account: Flows, pool: Together, k: int) -> float:
    """Mean over the lengths that a deployment of a mix gets."""
    replica = account.replica(pool, k)
    busy = account.hours @ account.carried(pool, k) * finite(replica.seconds_per_request)
    return float(busy @ replica.throughput.in_flight / busy.sum()) if busy.any() else replica.batch


def _losses(account: Flows, pool: Together, k: int) -> list[float]:
    """Quality loss of each member: that of the model it lists plus that of the quantization."""
    case, d = account.case, account.pool(pool).deployments[k]
    return [
        quality_of(case, s.w, d.model, d.quantization).loss_frac
        + min(c.quality_loss_frac for c in s.w.models if c.model == d.model)
        for s in account.members(pool)
    ]


def _slowest_answer_ms(replica: Replica) -> float | None:
    """Slowest over the lengths that it serves and the objective binds."""
    traffic = replica.traffic
    if traffic.e2e is None:
        return None
    bound = traffic.answered_in_time & replica.serves
    return 1e3 * float(replica.throughput.e2e_s[bound].max(initial=0.0))


def _prefix_cache_record(replica: Replica) -> PrefixCacheRecord | None:
    cache, machine = replica.prefix_cache, replica.machine
    if cache is None:
        return None
    tiers = tuple(
        KvTierRecord(
            name=tier.name,
            cache_tokens=tier.tokens,
            cache_gb=tier.tokens * stored_bytes_per_token(machine) / 1e9,
            residence_s=tier.residence_s,
            read_us_per_token=1e6 * tier.read_s_per_token,
            found_fracs=tier.found_fracs,
        )
        for tier in cache.tiers
    )
    return PrefixCacheRecord(
        cache_tokens=cache.tokens,
        load_frac=cache.load,
        residence_s=cache.residence_s,
        spread_over=cache.spread,
        found_fracs=cache.found_fracs,
        tiers=tiers or None,
    )


def _routing_record(routing: Routing | None) -> RoutingRecord | None:
    if routing is None:
        return None
    return RoutingRecord(
        exponent=routing.exponent, prompt_share_frac=routing.prompt_share, burst_room_frac=routing.burst_room
    )


def boxes_filled(box: int, replicas: Counter[int]) -> int:
    """Boxes for replicas of these numbers of GPUs: the largest first, each where there is room, or whole boxes."""
    free: Counter[int] = Counter()
    """boxes by the GPUs that are left in them"""
    whole = sum(n * -(-size // box) for size, n in replicas.items() if size > box)
    for size, left in sorted(((size, n) for size, n in replicas.items() if size <= box), reverse=True):
        for room in sorted(r for r in free if r >= size):
            filled = min(free[room], -(-left // (room // size)))
            for _ in range(filled):
                put = min(left, room // size)
                free[room] -= 1
                free[room - put * size] += 1
                left -= put
        while left > 0:
            put = min(left, max(1, box // size))
            free[box - put * size] += 1
            left -= put
    return whole + sum(free.values())
