"""What one replica of a deployment does for its traffic: the user's measurements first, physics elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from planner.candidates.per_token import PerToken, per_token_of
from planner.candidates.prefix_cache import PrefixCache, PrefixCacheSearch, prompts_of_turns
from planner.candidates.traffic import Traffic
from planner.case.boxes import link_gb_per_s
from planner.case.case import LEAST_REQUESTS, PREFIX_AWARE, Case, RouterName, Workload, kinds_of
from planner.case.drafts import speculation_of
from planner.case.slots import rates_rps, slots_of
from planner.catalog.profile import Profile, find_profile
from planner.catalog.variant import Variant
from planner.performance.calibration.correction import Correction
from planner.performance.calibration.fitting import correction_of
from planner.performance.calibration.lookup import basis_of, max_rate
from planner.performance.kv_tiers import KvTier
from planner.performance.latency import prefill_s
from planner.performance.machine import Machine
from planner.performance.memory import layout_of
from planner.performance.queueing import (
    MOST_BUSY,
    most_prompt_load,
    most_prompt_load_of_sum,
    percentile_of_sum,
    prompt_wait_s,
    routing_of,
)
from planner.performance.throughput import KV_MEMORY, Lengths, Limits, Throughput, throughput
from problems.staffing import Routing, Staffing, staffing_z, z_of

TABLE = "measured table"
"""what bounds a deployment whose highest rates were measured: its latencies are those of the measurement"""
CONTEXT = "context"
"""what bounds a model whose context is too short for requests of a length"""
LEAST_LOAD, MANY = 0.05, 8
"""replicas that keep TTFT only when less busy than this are of no use, even if there are many"""
ERROR_FRAC = {"measured": 0.05, "interpolated": 0.08, "scaled": 0.15}
"""mean errors after a correction: on runs held out of it, and by length from them; the last is an allowance"""
LATE_FRAC = 0.7
"""share of what may be late that a mean load makes late by waiting: hours differ, and most must keep the promise"""
BACKLOG_Z, ENOUGH_RESERVE = 0.7, 0.25
"""standard deviations of the rate that are kept back where a replica has no reserve, and the reserve from which on none
are. Of rates that swing by 12 to 30% from minute to minute and forget within 4 minutes, a queue keeps 95% of the
requests of an hour in nine hours of ten at 2.2 to 2.4 deviations without reserve, 1.9 to 2.0 with 10%, 1.6 with 25%"""
MOST_TTFTS = 1024
LEAST_OF_STEP = 0.25
"""share of a step that is left for prompts, at least"""
LOOKS_AT_LOAD: tuple[RouterName, ...] = (LEAST_REQUESTS, PREFIX_AWARE)
"""routers that send requests to replicas with few of them"""
LOADS_TRIED, LOAD_STEP = 3, 0.02
"""how often the load of replicas is tried at which blocks stay as long as that load allows, and how close is enough"""
BUCKETS_AT_ONCE = 192
"""estimated in one go: more would leave the processor's cache, fewer would waste calls"""


@dataclass(frozen=True, eq=False)
class LonePrompts:
    """Prompts of a workload by length and by what of them is cached, each with its share, in a replica by itself."""

    share_frac: np.ndarray
    new_tokens: np.ndarray
    prefill_s: np.ndarray


@dataclass(frozen=True, eq=False)
class Replica:
    """Throughput by length bucket, and how far it is backed."""

    throughput: Throughput
    basis: str
    """measured, interpolated, scaled (by measurements elsewhere), calibrated or estimated"""
    error_frac: float
    """how far off the throughput is, on average, where that is known; else an allowance"""
    traffic: Traffic
    machine: Machine
    prompts: tuple[LonePrompts, ...]
    """as each member has them"""
    router: RouterName
    """which of several replicas a request goes to"""
    prefix_cache: PrefixCache | None = None
    """where reuse of prompts is known by the memory of a cache"""
    tiers: tuple[KvTier, ...] = ()
    """of its box, in which KV cache may wait"""

    @cached_property
    def serves(self) -> np.ndarray:
        """Whether it keeps its objectives at that length [bucket]"""
        return self.throughput.requests_per_s > 0

    @cached_property
    def serves_all(self) -> bool:
        return bool(self.serves.all())

    @cached_property
    def seconds_per_request(self) -> np.ndarray:
        """of a replica's time, with what is kept back; inf where it cannot serve that length [bucket]"""
        rate = self.throughput.requests_per_s
        if not self.serves.any():
            return np.full_like(rate, np.inf)
        seconds: np.ndarray = np.divide(1 + self.kept_back_frac, rate, out=np.full_like(rate, np.inf), where=rate > 0)
        return seconds

    @cached_property
    def load_shares(self) -> np.ndarray:
        """Share of its time that each bucket takes when it serves all of them; 0 where it cannot [bucket]"""
        load = self.traffic.shares * np.where(self.serves, self.seconds_per_request, 0.0)
        shares: np.ndarray = load / load.sum()
        return shares

    @cached_property
    def mean_seconds(self) -> float:
        """of a replica's time for a request, over the lengths that it serves"""
        return self.all_prompts[2]

    @cached_property
    def kept_back_frac(self) -> float:
        """What a request counts as more than it takes where the replica can do hardly more than it is planned with.

        A swing of the rate then leaves a queue, and requests are late until it is gone. Where KV memory binds, the room
        that is left for answers to grow is reserve enough; work that may wait needs none, and measured rates are taken
        as they are.
        """
        if any(w.deadline_h is not None for w in self.traffic.members) or TABLE in self.throughput.bound_by:
            return 0.0
        swing = np.sqrt(np.log1p(max(w.rate_cv for w in self.traffic.members) ** 2))
        lacking = max(0.0, 1 - self._reserve_frac / ENOUGH_RESERVE)
        return lacking * float(np.expm1(BACKLOG_Z * swing))

    @cached_property
    def _reserve_frac(self) -> float:
        """How much more requests it answers with as many in flight as it lets in than with those it is planned with."""
        shares = np.where(self.serves, self.traffic.shares, 0.0)
        busy = shares * self.throughput.planned_s
        in_memory = float(busy @ self._memory_binds) / float(busy.sum())
        more = float(shares @ self.throughput.crowded_s)
        return max(0.0, float(busy.sum()) / more - 1) + ENOUGH_RESERVE * in_memory

    @cached_property
    def batch(self) -> float:
        """Requests in flight while it serves all lengths."""
        return float(self.load_shares @ self.throughput.in_flight)

    @cached_property
    def staffing_batch(self) -> float:
        """Requests in flight that the staffing margin counts on while it serves all lengths.

        Where KV memory binds, a few long requests fill it as well as many short ones. The memory that requests take
        together varies as if there were fewer: with weights w by the time that each is in flight and m its memory, by
        a factor of E_w[m^2] / E_w[m]^2. Where memory binds some lengths only, in part. Data-parallel ranks have as many
        requests each, but memory of their own: what the requests of one take varies as that of a replica so small.
        """
        apart = self.machine.ranks * self._memory_cv2
        return self.batch / (1 + float(self.load_shares @ self._memory_binds) * apart)

    @cached_property
    def staffing_batch_of_any(self) -> float:
        """The fewest that count, whichever of the lengths that it can serve come to it."""
        apart = self.machine.ranks * self.prompt_cv2_within
        counted = self.throughput.in_flight / (1 + self._memory_binds * apart)
        return float(counted[self.serves].min())

    @cached_property
    def prompt_cv2_within(self) -> np.ndarray:
        """Squared coefficient of variation of the prefills in each bucket [bucket]

        Those of prompts; where a share of their tokens is found beyond shared prefixes, as if it were whole prompts.
        """
        within = self.traffic.prompt_cv2_within
        if self.prefix_cache is None or any(w.sessions is not None for w in self.traffic.members):
            return within  # of sessions, the prompts themselves say what is found of each
        shared = np.array([w.shared_found_frac for w in self.traffic.members])
        reused = (np.array(self.prefix_cache.found_fracs) - shared) / (1 - shared)
        spread: np.ndarray = (1 + within) / (1 - reused[self.traffic.member_of]) - 1
        return spread

    @cached_property
    def _memory_binds(self) -> np.ndarray:
        """[bucket]"""
        return np.array([why == KV_MEMORY for why in self.throughput.bound_by])

    @cached_property
    def _memory_cv2(self) -> float:
        """Squared coefficient of variation of the KV memory that a request in flight takes."""
        lengths, found = self.traffic.lengths, self.throughput
        tokens = lengths.input_tokens + lengths.output_tokens / 2
        weight = np.where(
            self.serves, self.traffic.shares * (found.prefill_s + lengths.output_tokens * found.tpot_s), 0
        )
        mean = float(weight @ tokens) / float(weight.sum())
        square = float(weight @ (tokens**2 * (1 + self.prompt_cv2_within))) / float(weight.sum())
        return max(0.0, square / mean**2 - 1)

    def ttft_s(self, load: float, replicas: int = 1) -> float:
        """TTFT at the objective's percentile at a mean load of each of so many replicas (0 to 1): the slowest member's.

        It is that of the sum: a prefill, the steps it takes, and waiting for the prompts ahead; waiting for a place is
        what the staffing margin is for. Behind a router they wait as in a lone replica of less load.
        """
        known, asked = self._ttfts_s, (load, replicas)
        if asked not in known:
            if len(known) >= MOST_TTFTS:
                known.clear()
            known[asked] = self._ttft_s(*asked)
        return known[asked]

    @cached_property
    def _ttfts_s(self) -> dict[tuple[float, int], float]:
        """Those that were asked for, by load and replicas: a plan is put together and checked with the same ones."""
        return {}

    def _ttft_s(self, load: float, replicas: int) -> float:
        wait, busy = self._wait_s(load, replicas)
        pairs = zip(self.prompts, self.lone_ttfts_s, strict=True)
        return max(
            percentile_of_sum(lone, wait, busy, self.traffic.ttft.percentile, each.share_frac) for each, lone in pairs
        )

    def _wait_s(self, load: float, replicas: int) -> tuple[float, float]:
        """How long prompts wait on average, and the share that does."""
        load = self.routing.lone_load(load, replicas)
        service, cv2, seconds = self.all_prompts
        busy = min(load / seconds * service, MOST_BUSY)
        return prompt_wait_s(busy / service, service, cv2, self.traffic.arrival_scv), busy

    def e2e_per_token_s(self, load: float, replicas: int = 1) -> float | None:
        """End-to-end time per token at the objective's percentile, of all requests: the slowest member's with one."""
        target = self.traffic.e2e_per_token
        if target is None:
            return None
        return max(each.percentile_s(*self._wait_s(load, replicas), target.percentile) for each in self._per_token)

    @cached_property
    def _per_token(self) -> tuple[PerToken, ...]:
        """Of the members whose time per token is an objective."""
        found = self.throughput
        paces = np.where([why == TABLE for why in found.bound_by], self.traffic.tpot.seconds, found.tpot_s)
        pace_s = float(self.load_shares @ paces)
        members = zip(self.traffic.members, self.prompts, self.lone_ttfts_s, strict=True)
        some = [(w, p.share_frac, first_s) for w, p, first_s in members if w.e2e_per_token is not None]
        return tuple(per_token_of(*each, pace_s) for each in some)

    def ttft_s_of_any(self, load: float, replicas: int = 1) -> float:
        """Worst case over the lengths it can serve in time, each taken alone."""
        load = self.routing_of_any.lone_load(load, replicas)
        scv, percentile, some = self.traffic.arrival_scv, self.traffic.ttft.percentile, self.in_time
        columns = (self._service_s, self.seconds_per_request, self.prompt_cv2_within, self.ttft_by_length_s)
        each = zip(*(column[some].tolist() for column in columns), strict=True)
        waits = (lone + prompt_wait_s(load / u, service, cv2, scv, percentile) for service, u, cv2, lone in each)
        return float(max(waits))

    def keeps_ttft(self, in_a_mix: bool = False) -> bool:
        """Whether replicas that are busy enough to be of use keep it, be they many."""
        routing = self.routing_of_any if in_a_mix else self.routing
        alone = self.most_load_of_any if in_a_mix else self.max_utilization
        return float(routing.most_load(alone, self.traffic.arrival_scv, np.array(MANY))) >= LEAST_LOAD

    @cached_property
    def routing(self) -> Routing:
        """How much more each of several carries."""
        percentile = self.traffic.ttft.percentile
        lone = max(percentile_of_sum(p.prefill_s, 0.0, 0.0, percentile, p.share_frac) for p in self.prompts)
        shares, prefill = self.traffic.shares[self.serves], self.throughput.prefill_s[self.serves]
        service, cv2, seconds = self.all_prompts
        mean = float(shares @ prefill / shares.sum())
        columns = (np.array([x]) for x in (lone, mean, cv2, service / seconds))
        return self._routing(*columns)

    @cached_property
    def _room_per_token_s(self) -> float:
        """How long a prompt may wait so that its answer keeps its time per token, at the objective's percentile."""
        target = self.traffic.e2e_per_token
        if target is None:
            return np.inf
        over = (percentile_of_sum(x.over_s(target.seconds), 0, 0, target.percentile, x.shares) for x in self._per_token)
        return -max(over)

    @cached_property
    def routing_of_any(self) -> Routing:
        """Worst case over the lengths it can serve in time, each taken alone."""
        some, found = self.in_time if self.in_time.any() else self.serves, self.throughput
        shares = self._service_s[some] / self.seconds_per_request[some]
        return self._routing(found.lone_s[some], found.prefill_s[some], self.prompt_cv2_within[some], shares)

    def _routing(self, lone: np.ndarray, prefill: np.ndarray, cv2: np.ndarray, prompt_share: np.ndarray) -> Routing:
        """By what a request waits for besides its prefill and a step."""
        ttft, scv = self.traffic.ttft, self.traffic.arrival_scv
        wait_s = np.minimum(ttft.seconds - lone - self._step_s, self._room_per_token_s)
        routing = routing_of(wait_s, prefill, cv2, prompt_share, scv, ttft.percentile)
        return routing if self.router in LOOKS_AT_LOAD else replace(routing, exponent=0.0)

    @cached_property
    def max_utilization(self) -> float:
        """The mean load of a lone replica up to which TTFT holds, and the time per token where that is an objective.

        0 where they do not even for a lone request.
        """
        ttft, whole, scv = self.traffic.ttft, self.traffic.e2e_per_token, self.traffic.arrival_scv
        service, cv2, seconds = self.all_prompts
        busy = min(
            most_prompt_load_of_sum(ttft.seconds, lone, each.share_frac, service, cv2, scv, ttft.percentile, LATE_FRAC)
            for each, lone in zip(self.prompts, self.lone_ttfts_s, strict=True)
        )
        if whole is not None:
            percentile, room = whole.percentile, [(x.over_s(whole.seconds), x.shares) for x in self._per_token]
            rest = (most_prompt_load_of_sum(0.0, *x, service, cv2, scv, percentile, LATE_FRAC) for x in room)
            busy = min(busy, *rest)
        return min(busy * seconds / service, 1.0, float(self.routing.most_load_in_bursts(np.array(scv))))

    @cached_property
    def most_load_of_any(self) -> float:
        """Worst case over the lengths it can serve in time, each taken alone; 0 where there is none."""
        some, ttft, scv = self.in_time, self.traffic.ttft, self.traffic.arrival_scv
        if not some.any():
            return 0.0
        service, seconds = self._service_s[some], self.seconds_per_request[some]
        wait_s, cv2 = ttft.seconds - self.ttft_by_length_s[some], self.prompt_cv2_within[some]
        loads = most_prompt_load(wait_s, service, cv2, scv, ttft.percentile) * seconds / service
        return min(float(loads.min()), 1.0, float(self.routing_of_any.most_load_in_bursts(np.array(scv))))

    def for_lengths(self, some: np.ndarray) -> Replica:
        """The same where it is sent no others [bucket]"""
        rates = np.where(some, self.throughput.requests_per_s, 0.0)
        return replace(self, throughput=replace(self.throughput, requests_per_s=rates))

    @cached_property
    def in_time(self) -> np.ndarray:
        """Whether a lone request of that length that it serves gets its first token in time [bucket]"""
        return self.serves & (self.ttft_by_length_s <= self.traffic.ttft.seconds)

    @cached_property
    def ttft_by_length_s(self) -> np.ndarray:
        """Of a lone request of each length, at the objective's percentile of those in the bucket [bucket]"""
        sigma = np.sqrt(np.log1p(self.traffic.prompt_cv2_within))
        longer = np.exp(z_of(self.traffic.ttft.percentile) * sigma - sigma**2 / 2)
        found = self.throughput
        ttft: np.ndarray = longer * (found.lone_s + self._step_s * np.maximum(1.0, self._chunks(found.new_tokens)))
        return ttft

    @cached_property
    def lone_ttfts_s(self) -> tuple[np.ndarray, ...]:
        """Of prompts that need not wait, as each member has them."""
        return tuple(p.prefill_s + self._step_s * np.maximum(1.0, self._chunks(p.new_tokens)) for p in self.prompts)

    @cached_property
    def _service_s(self) -> np.ndarray:
        """How long a prompt keeps others waiting: what it adds to the steps that it takes, and these [bucket]"""
        return self.throughput.prefill_s + self._step_s * self._chunks(self.throughput.new_tokens)

    @cached_property
    def all_prompts(self) -> tuple[float, float, float]:
        """The same and its squared coefficient of variation, and replica-seconds per request, over all lengths.

        Prompts vary by length and by what of them is found.
        """
        shares, service = self.traffic.shares[self.serves], self._service_s[self.serves]
        shares = shares / shares.sum()
        mean = float(shares @ service)
        cv2 = float(shares @ (service**2 * (1 + self.prompt_cv2_within[self.serves]))) / mean**2 - 1
        by_member = np.array([_mean_and_square(p) for p in self.prompts]).T @ np.array(self.traffic.request_shares)
        apart = float(by_member[1] / by_member[0] ** 2) - 1
        return mean, max(0.0, cv2, apart), float(shares @ self.seconds_per_request[self.serves])

    def _chunks(self, new_tokens: np.ndarray) -> np.ndarray:
        """Steps that a prompt takes of what decodes leave of them; less than one where several share it."""
        copies, budget = self.machine.layout.attention_copies, self.machine.copy_step_tokens
        decodes = self.batch * self.machine.verified_tokens
        chunks: np.ndarray = new_tokens / max(budget - decodes / copies, LEAST_OF_STEP * budget)
        return chunks

    @cached_property
    def _step_s(self) -> float:
        return float(self.load_shares @ self.throughput.step_s)


def _mean_and_square(prompts: LonePrompts) -> tuple[float, float]:
    return float(prompts.share_frac @ prompts.prefill_s), float(prompts.share_frac @ prompts.prefill_s**2)


def machine_for(case: Case, v: Variant, batched_tokens: int | None = None) -> Machine:
    """A replica by the catalog's names, whose steps have at most so many tokens; None: as many as the engine takes."""
    model, scheme, gpu = case.models[v.model], case.quantizations[v.quantization], case.gpus[v.gpu]
    engine = case.engine
    if batched_tokens is not None and batched_tokens != engine.chunk_tokens:
        engine = engine.model_copy(update={"chunk_tokens": batched_tokens})
    layout, link = layout_of(v.parallelism, v.gpus_per_replica, v.boxes), link_gb_per_s(case, v)
    parts = model, scheme, gpu, v.gpus_per_replica, case.efficiency[v.gpu], engine
    return Machine(*parts, layout=layout, link_gb_per_s=link)


def measured_for(case: Case, plain: Machine, variant: Variant) -> tuple[Profile | None, Correction | None]:
    """The user's measurements of a machine without adapters and drafts, and what they make of its step times."""
    fitting = (p for p in case.profiles if p.engine is None or case.engine_name in p.engine.lower())
    profile = find_profile(fitting, replace(variant, speculation=""))
    return profile, correction_of(profile, plain) if profile is not None and not profile.max_rates else None


def replicas_with(
    case: Case,
    traffics: Sequence[Traffic],
    variant: Variant,
    batched_tokens: int | None = None,
    tiers: tuple[KvTier, ...] = (),
) -> Iterator[Replica]:
    """Yield one machine's replica for each traffic, in their order; estimating them together is faster.

    A step has at most so many tokens; None: as many as the engine takes by itself. Its weights must fit.
    """
    plain = machine_for(case, variant, batched_tokens)
    profile, correction = measured_for(case, plain, variant)
    for together in _runs(case, traffics, variant):
        speculation = speculation_of(case, variant, together[0].members)
        machine = replace(plain, lora=together[0].lora, speculation=speculation)
        estimates = _estimates(machine, together, correction)
        for traffic, prompts in zip(together, _lone_prompts(machine, together, correction), strict=True):
            estimate, basis, error_frac = estimates[traffic.key], str(machine.basis), machine.error_frac
            measured = profile is not None and (correction is None or correction.corrects_rates)
            if profile is not None and measured and speculation is None:
                basis = _least_backed(profile, traffic)
                error_frac = ERROR_FRAC[basis]
                if correction is None:
                    estimate = _from_table(profile, traffic, plain, estimate)
            estimate = _within_context(machine, traffic, estimate)
            replica = Replica(estimate, basis, error_frac, traffic, machine, prompts, case.limits.routing, tiers=tiers)
            reuses = any(w.reuses for w in traffic.members) and TABLE not in estimate.bound_by
            yield _with_prefix_cache(case, replica, correction) if reuses and replica.serves.any() else replica


def _with_prefix_cache(case: Case, plain: Replica, correction: Correction | None) -> Replica:
    """A replica that finds of its prompts what its memory and the router allow."""
    machine, traffic = plain.machine, plain.traffic

    def estimate(lengths: Lengths) -> Throughput:
        return _within_context(machine, traffic, throughput(machine, lengths, traffic.limits, correction))

    replicas, load = _busiest_hour(case, plain)
    spread = 1 if plain.router == PREFIX_AWARE else replicas
    tiers = tuple(t for t in plain.tiers if any(t.name in kinds_of(w.caching[0]) for w in traffic.members))
    search = PrefixCacheSearch(machine, traffic, spread, load, correction, estimate, tiers)
    w = traffic.members[0]
    if w.sessions is None:
        found, cache = search.result()
        return replace(plain, throughput=found, prefix_cache=cache)

    def at_load(most: float, several: int) -> Replica:
        among = 1 if plain.router == PREFIX_AWARE else several
        found, cache = replace(search, load=most, spread=among).result()
        prompts = (_session_prompts(machine, w, cache, correction),)
        return replace(plain, throughput=found, prefix_cache=cache, prompts=prompts)

    # With nothing found hardly any load is allowed, and few blocks come: what is found decides how much is.
    replica, used = at_load(1.0, replicas), 1.0
    for _ in range(LOADS_TRIED):
        several, allowed = _busiest_hour(case, replica)
        if allowed >= used * (1 - LOAD_STEP):
            break
        lower = at_load(allowed, several)
        if _busiest_hour(case, lower)[1] > allowed * (1 + LOAD_STEP):  # blocks stay longer, more load is allowed
            used = (allowed + used) / 2
            replica = at_load(used, several)
            break
        replica, used = lower, allowed
    return replica


def _session_prompts(machine: Machine, w: Workload, cache: PrefixCache, correction: Correction | None) -> LonePrompts:
    """Prompts of turns, by where what came before is found: what is new of them, and how long the rest takes back."""
    parts = prompts_of_turns(w, cache)
    prefill = prefill_s(machine, parts.new_tokens, parts.tokens)
    alone = prefill if correction is None else correction.lone_ttft_s(prefill)
    return LonePrompts(parts.share_frac, parts.new_tokens, alone + parts.read_s)


def busiest_rps(case: Case, members: Sequence[Workload]) -> float:
    """Requests a second of some workloads together in their busiest hour."""
    slots = slots_of(case)
    return float(np.sum([rates_rps(w, slots) for w in members], axis=0).max())


def _busiest_hour(case: Case, replica: Replica) -> tuple[int, float]:
    """Replicas that the busiest hour would need, all of it on these and nothing found, and how busy they may be."""
    members = replica.traffic.members
    rate = busiest_rps(case, members)
    rule = Staffing(
        z=staffing_z(replica.traffic.ttft.percentile),
        arrival_scv=replica.traffic.arrival_scv,
        rate_cv=max(w.rate_cv for w in members),
        batch=replica.staffing_batch,
        min_replicas=case.limits.min_replicas,
        max_utilization=max(replica.max_utilization, LEAST_LOAD),
        routing=replica.routing,
    )
    most = max(1, case.limits.min_replicas, int(rule.replicas(np.array(rate * replica.mean_seconds))))
    waits = any(w.deadline_h is not None for w in members)
    return most, 1.0 if waits else float(rule.carried_load(np.array(most))) / most


def _runs(case: Case, traffics: Sequence[Traffic], variant: Variant) -> Iterator[list[Traffic]]:
    """Neighbours with the same adapters that accept as many drafts, up to so many different buckets."""
    run: list[Traffic] = []
    buckets = 0

    def alike(a: Traffic, b: Traffic) -> bool:
        same = a.lora == b.lora
        return same and speculation_of(case, variant, a.members) == speculation_of(case, variant, b.members)

    for traffic in traffics:
        more = len(traffic.buckets) if not run or traffic.key != run[-1].key else 0
        if run and (buckets + more > BUCKETS_AT_ONCE or not alike(traffic, run[0])):
            yield run
            run, buckets, more = [], 0, len(traffic.buckets)
        run.append(traffic)
        buckets += more
    if run:
        yield run


def _estimates(
    machine: Machine, traffics: list[Traffic], correction: Correction | None
) -> dict[tuple[int, ...], Throughput]:
    """By the key of the traffic."""
    different = list({t.key: t for t in traffics}.values())
    counts = [len(t.buckets) for t in different]
    lengths, limits = [t.lengths for t in different], [t.limits for t in different]
    whole = throughput(
        machine,
        Lengths(
            input_tokens=np.concatenate([x.input_tokens for x in lengths]),
            output_tokens=np.concatenate([x.output_tokens for x in lengths]),
            cached_tokens=np.concatenate([x.cached_tokens for x in lengths]),
            resident_tokens=np.repeat([x.resident_tokens for x in lengths], counts),
        ),
        Limits(
            tpot_s=np.repeat([x.tpot_s for x in limits], counts),
            z=np.repeat([x.z for x in limits], counts),
            e2e_s=np.concatenate([x.e2e_s for x in limits]),
        ),
        correction,
    )
    ends = np.cumsum(counts).tolist()
    return {t.key: whole.part(slice(end - n, end)) for t, n, end in zip(different, counts, ends, strict=True)}


def _lone_prompts(
    machine: Machine, traffics: list[Traffic], correction: Correction | None
) -> Iterator[tuple[LonePrompts, ...]]:
    """What prompts of each member take by themselves, for each traffic."""
    prompts = [each for traffic in traffics for each in traffic.prompts]
    columns = [np.concatenate([each[k] for each in prompts]) for k in (1, 2)]
    prefill = prefill_s(machine, *columns)
    alone = prefill if correction is None else correction.lone_ttft_s(prefill)
    parts = iter(np.split(alone, np.cumsum([len(share) for share, _, _ in prompts])[:-1]))
    for traffic in traffics:
        yield tuple(LonePrompts(share, new, next(parts)) for share, new, _ in traffic.prompts)


def _within_context(machine: Machine, traffic: Traffic, estimate: Throughput) -> Throughput:
    """Lengths that the engine would refuse are not served: longer than the context, or than memory holds."""
    longest = machine.longest_request
    too_long = traffic.refused(longest)
    if not too_long.any():
        return estimate
    because = CONTEXT if longest == machine.model.max_context_tokens else KV_MEMORY
    return replace(
        estimate,
        requests_per_s=np.where(too_long, 0.0, estimate.requests_per_s),
        bound_by=tuple(because if bad else why for bad, why in zip(too_long, estimate.bound_by, strict=True)),
    )


def _least_backed(profile: Profile, traffic: Traffic) -> str:
    found = {basis_of(profile, b.input_tokens, b.output_tokens) for b in traffic.buckets}
    return next(basis for basis in ("scaled", "interpolated", "measured") if basis in found)


def _from_table(profile: Profile, traffic: Traffic, plain: Machine, physics: Throughput) -> Throughput:
    """A table of highest rates is used as it is; where it has none, the deployment cannot serve that length.

    Adapters slow it down as they slow down the estimate.
    """
    rates = np.array([max_rate(profile, b.input_tokens, b.output_tokens) or 0.0 for b in traffic.buckets])
    if traffic.lora is not None:
        without = throughput(plain, traffic.lengths, traffic.limits).requests_per_s
        rates *= np.divide(physics.requests_per_s, without, out=np.zeros_like(rates), where=without > 0)
    outputs = traffic.lengths.output_tokens
    inside = rates * (physics.ttft_s + outputs * traffic.tpot.seconds)
    return replace(
        physics,
        requests_per_s=rates,
        in_flight=np.maximum(np.where(physics.in_flight > 0, physics.in_flight, inside), 1.0),
        tpot_s=np.zeros_like(rates),
        bound_by=tuple(TABLE for _ in rates),
    )
