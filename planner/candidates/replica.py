"""What one replica of a deployment does for its traffic: the user's measurements first, physics elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np

from planner.candidates.prefix_cache import PrefixCache, PrefixCacheSearch
from planner.candidates.traffic import Traffic
from planner.case.case import LEAST_REQUESTS, PREFIX_AWARE, Case, RouterName, Workload
from planner.case.horizon import rates_rps, slots_of
from planner.case.length_buckets import SMALLEST_SHARE, too_long_frac
from planner.catalog.profile import Profile, find_profile
from planner.catalog.variant import Variant
from planner.performance.calibration.correction import Correction
from planner.performance.calibration.errors import correction_of
from planner.performance.calibration.lookup import basis_of, max_rate
from planner.performance.latency import Machine, prefill_s
from planner.performance.memory import layout_of
from planner.performance.queueing import most_prompt_load, prompt_wait_s, routing_of
from planner.performance.throughput import KV_MEMORY, Lengths, Limits, Throughput, throughput
from problems.staffing import Routing, Staffing, staffing_z

TABLE = "measured table"
"""what bounds a deployment whose highest rates were measured: its latencies are those of the measurement"""
CONTEXT = "context"
"""what bounds a model whose context is too short for requests of a length"""
MOSTLY = 0.5
"""share of a length's requests that are too long, from which on it is not served, however few they are"""
LEAST_LOAD, MANY = 0.05, 8
"""replicas that keep TTFT only when less busy than this are of no use, even if there are many"""
ERROR_FRAC = {"measured": 0.05, "interpolated": 0.08, "scaled": 0.15}
"""mean errors after a correction: on runs held out of it, and by length from them; the last is an allowance"""
NO_SPREAD = 1e-9
"""squared coefficient of variation of prefills up to which all take the same time"""
LEAST_LATE_FRAC = 1e-6
"""share of requests that may wait too long, at least"""
LOOKS_AT_LOAD: tuple[RouterName, ...] = (LEAST_REQUESTS, PREFIX_AWARE)
"""routers that send requests to replicas with few of them"""
BUCKETS_AT_ONCE = 192
"""estimated in one go: more would leave the processor's cache, fewer would waste calls"""


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
    prompt_s: float
    """prefill of the prompt at the percentile of TTFT, of the slowest member"""
    router: RouterName
    """which of several replicas a request goes to"""
    prefix_cache: PrefixCache | None = None
    """where reuse of prompts is known by the memory of a cache"""

    @cached_property
    def serves(self) -> np.ndarray:
        """Whether it keeps its objectives at that length [bucket]"""
        return self.throughput.requests_per_s > 0

    @cached_property
    def serves_all(self) -> bool:
        return bool(self.serves.all())

    @cached_property
    def seconds_per_request(self) -> np.ndarray:
        """of a replica's time; inf where it cannot serve that length [bucket]"""
        rate = self.throughput.requests_per_s
        seconds: np.ndarray = np.divide(1.0, rate, out=np.full_like(rate, np.inf), where=rate > 0)
        return seconds

    @cached_property
    def load_shares(self) -> np.ndarray:
        """Share of its time that each bucket takes when it serves all of them; 0 where it cannot [bucket]"""
        load = self.traffic.shares * np.where(self.serves, self.seconds_per_request, 0.0)
        shares: np.ndarray = load / load.sum()
        return shares

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
        if self.prefix_cache is None:
            return within
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
        """TTFT at the objective's percentile at a mean load of each of so many replicas (0 to 1).

        Prefill of a prompt of that percentile and a step, and waiting for the prompts ahead; waiting for a place is
        what the staffing margin is for. Behind a router they wait as in a lone replica of less load.
        """
        load = self.routing.lone_load(load, replicas)
        traffic, (prefill, cv2, seconds) = self.traffic, self._all_prompts
        return self._lone_ttft_s + prompt_wait_s(
            load / seconds, prefill, cv2, traffic.arrival_scv, traffic.ttft.percentile
        )

    def ttft_s_of_any(self, load: float, replicas: int = 1) -> float:
        """Worst case over the lengths it can serve, each taken alone."""
        load = self.routing_of_any.lone_load(load, replicas)
        scv, percentile = self.traffic.arrival_scv, self.traffic.ttft.percentile
        prefill, seconds = self.throughput.prefill_s[self.serves], self.seconds_per_request[self.serves]
        within = self.prompt_cv2_within[self.serves]
        each = zip(prefill.tolist(), seconds.tolist(), within.tolist(), strict=True)
        waits = (prompt_wait_s(load / u, prefill, cv2, scv, percentile) for prefill, u, cv2 in each)
        return self._lone_ttft_s + max(waits)

    @property
    def max_utilization(self) -> float:
        """The mean load of a lone replica up to which TTFT holds; 0 where it does not even for a lone request."""
        return float(self._most_loads[0])

    def keeps_ttft(self, in_a_mix: bool = False) -> bool:
        """Whether replicas that are busy enough to be of use keep it, be they many."""
        routing = self.routing_of_any if in_a_mix else self.routing
        alone = self.most_load_of_any if in_a_mix else self.max_utilization
        return float(routing.most_load(alone, self.traffic.arrival_scv, np.array(MANY))) >= LEAST_LOAD

    @cached_property
    def routing(self) -> Routing:
        """How much more each of several carries."""
        mean_prefill, cv2, mean_seconds = (np.array([x]) for x in self._all_prompts)
        return self._routing(mean_prefill, cv2, mean_seconds)

    @cached_property
    def routing_of_any(self) -> Routing:
        """Worst case over the lengths it can serve, each taken alone."""
        within = self.prompt_cv2_within[self.serves]
        return self._routing(self.throughput.prefill_s[self.serves], within, self.seconds_per_request[self.serves])

    def _routing(self, prefill: np.ndarray, cv2: np.ndarray, seconds: np.ndarray) -> Routing:
        ttft, scv = self.traffic.ttft, self.traffic.arrival_scv
        wait_s = ttft.seconds - self._lone_ttft_s
        routing = routing_of(wait_s, prefill, cv2, prefill / seconds, scv, ttft.percentile)
        return routing if self.router in LOOKS_AT_LOAD else replace(routing, exponent=0.0)

    @property
    def most_load_of_any(self) -> float:
        """Worst case over the lengths it can serve, each taken alone."""
        return float(self._most_loads[1:].min())

    @cached_property
    def _most_loads(self) -> np.ndarray:
        """Highest load for all lengths together, then for each length it can serve, taken alone."""
        mean_prefill, cv2, mean_seconds = self._all_prompts
        prefill = np.concatenate([[mean_prefill], self.throughput.prefill_s[self.serves]])
        seconds = np.concatenate([[mean_seconds], self.seconds_per_request[self.serves]])
        cv2s = np.concatenate([[cv2], self.prompt_cv2_within[self.serves]])
        ttft, scv = self.traffic.ttft, self.traffic.arrival_scv
        wait_s = ttft.seconds - self._lone_ttft_s
        # A length taken alone is a part of the requests, of which more may be late.
        percentiles = np.where(np.arange(len(prefill)) == 0, 1 - self._late_by_waiting_frac, ttft.percentile)
        prompts = most_prompt_load(wait_s, prefill, cv2s, scv, percentiles)
        loads: np.ndarray = np.minimum(prompts * seconds / prefill, 1.0)
        bursts = [float(r.most_load_in_bursts(np.array(scv))) for r in (self.routing, self.routing_of_any)]
        most: np.ndarray = np.minimum(loads, np.where(np.arange(len(loads)) == 0, *bursts))
        return most

    @cached_property
    def _late_by_waiting_frac(self) -> float:
        """Share of requests that may be late because they wait: what the longest prompts leave, late by themselves."""
        ttft, cv2 = self.traffic.ttft, self._all_prompts[1]
        room = (ttft.seconds - self._lone_ttft_s) / self.prompt_s
        if cv2 < NO_SPREAD or room <= 0:
            return 1 - ttft.percentile
        normal = NormalDist()
        beyond = math.log1p(room) / math.sqrt(math.log1p(cv2))
        return max(1 - ttft.percentile - normal.cdf(-(normal.inv_cdf(ttft.percentile) + beyond)), LEAST_LATE_FRAC)

    @cached_property
    def _all_prompts(self) -> tuple[float, float, float]:
        """Prefill and its squared coefficient of variation, and replica-seconds per request, over all lengths."""
        shares, prefill = self.traffic.shares[self.serves], self.throughput.prefill_s[self.serves]
        shares = shares / shares.sum()
        mean = float(shares @ prefill)
        cv2 = max(0.0, float(shares @ (prefill**2 * (1 + self.prompt_cv2_within[self.serves]))) / mean**2 - 1)
        return mean, cv2, float(shares @ self.seconds_per_request[self.serves])

    @cached_property
    def _lone_ttft_s(self) -> float:
        return self.prompt_s + float(self.throughput.step_s[self.serves].max())


def machine_for(case: Case, v: Variant) -> Machine:
    model, scheme, gpu = case.models[v.model], case.quantizations[v.quantization], case.gpus[v.gpu]
    layout = layout_of(v.parallelism, v.gpus_per_replica)
    return Machine(model, scheme, gpu, v.gpus_per_replica, case.efficiency[v.gpu], case.engine, layout=layout)


def measured_for(case: Case, plain: Machine, variant: Variant) -> tuple[Profile | None, Correction | None]:
    """The user's measurements of a machine without adapters, and what they make of its step times."""
    fitting = (p for p in case.profiles if p.engine is None or case.engine_name in p.engine.lower())
    profile = find_profile(fitting, variant)
    return profile, correction_of(profile, plain) if profile is not None and not profile.max_rates else None


def replica_for(case: Case, traffic: Traffic, variant: Variant) -> Replica:
    """A replica by the catalog's names; its weights must fit."""
    return next(replicas_for(case, [traffic], variant))


def replicas_for(case: Case, traffics: Sequence[Traffic], variant: Variant) -> Iterator[Replica]:
    """Yield one machine's replica for each traffic, in their order; estimating them together is faster."""
    plain = machine_for(case, variant)
    profile, correction = measured_for(case, plain, variant)
    for together in _runs(traffics):
        machine = replace(plain, lora=together[0].lora)
        estimates = _estimates(machine, together, correction)
        prompts = _prompts_s(machine, together, correction)
        for traffic, prompt_s in zip(together, prompts, strict=True):
            estimate, basis, error_frac = estimates[traffic.key], str(machine.basis), machine.error_frac
            if profile is not None and (correction is None or correction.corrects_rates):
                basis = _least_backed(profile, traffic)
                error_frac = ERROR_FRAC[basis]
                if correction is None:
                    estimate = _from_table(profile, traffic, plain, estimate)
            estimate = _within_context(machine, traffic, estimate)
            replica = Replica(estimate, basis, error_frac, traffic, machine, prompt_s, case.limits.routing)
            reuses = any(w.prefix_reuse is not None for w in traffic.members) and TABLE not in estimate.bound_by
            yield _with_prefix_cache(case, replica, correction) if reuses and replica.serves.any() else replica


def _with_prefix_cache(case: Case, plain: Replica, correction: Correction | None) -> Replica:
    """A replica that finds of its prompts what its memory and the router allow."""
    machine, traffic = plain.machine, plain.traffic

    def estimate(lengths: Lengths) -> Throughput:
        return _within_context(machine, traffic, throughput(machine, lengths, traffic.limits, correction))

    replicas, load = _busiest_hour(case, plain)
    spread = 1 if plain.router == PREFIX_AWARE else replicas
    found, cache = PrefixCacheSearch(machine, traffic, spread, load, correction, estimate).result()
    return replace(plain, throughput=found, prefix_cache=cache)


def _busiest_hour(case: Case, replica: Replica) -> tuple[int, float]:
    """Replicas that the busiest hour would need, all of it on these and nothing found, and how busy they may be."""
    slots, members = slots_of(case), replica.traffic.members
    rate = float(np.sum([rates_rps(w, slots) for w in members], axis=0).max())
    rule = Staffing(
        z=staffing_z(replica.traffic.ttft.percentile),
        arrival_scv=replica.traffic.arrival_scv,
        rate_cv=max(w.rate_cv for w in members),
        batch=replica.staffing_batch,
        min_replicas=case.limits.min_replicas,
        max_utilization=max(replica.max_utilization, LEAST_LOAD),
        routing=replica.routing,
    )
    most = max(1, case.limits.min_replicas, int(rule.replicas(np.array(rate * replica._all_prompts[2]))))
    waits = any(w.deadline_h is not None for w in members)
    return most, 1.0 if waits else float(rule.carried_load(np.array(most))) / most


def _runs(traffics: Sequence[Traffic]) -> Iterator[list[Traffic]]:
    """Neighbours with the same adapters, up to so many different buckets."""
    run: list[Traffic] = []
    buckets = 0
    for traffic in traffics:
        more = len(traffic.buckets) if not run or traffic.key != run[-1].key else 0
        if run and (traffic.lora != run[0].lora or buckets + more > BUCKETS_AT_ONCE):
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


def _prompts_s(machine: Machine, traffics: list[Traffic], correction: Correction | None) -> list[float]:
    """What the slowest lone prompt that TTFT binds takes, for each traffic."""
    whole = np.array([w.ttft_prompt_tokens for t in traffics for w in t.members])
    found = np.array([_found_tokens(w, t.ttft.percentile) for t in traffics for w in t.members])
    alone = prefill_s(machine, np.maximum(whole - found, 1.0), whole)
    if correction is not None:
        alone = correction.lone_ttft_s(alone)
    starts = np.cumsum([0, *(len(t.members) for t in traffics[:-1])])
    slowest: list[float] = np.maximum.reduceat(alone, starts).tolist()
    return slowest


def _found_tokens(w: Workload, percentile: float) -> float:
    """Cached tokens of the prompt at this percentile; a part that fewer requests find in the cache does not count."""
    prefix = min(w.shared_prefix_tokens, w.ttft_prompt_tokens)
    template = min(w.template_tokens, w.ttft_prompt_tokens - prefix)
    return prefix * (w.prefix_hit_frac >= percentile) + template * (w.template_hit_frac >= percentile)


def _within_context(machine: Machine, traffic: Traffic, estimate: Throughput) -> Throughput:
    """Lengths that the engine would refuse are not served: longer than the context, or than memory holds."""
    longest = machine.longest_request
    too_long = np.concatenate([_refused(w, longest) for w in traffic.members])
    if not too_long.any():
        return estimate
    because = CONTEXT if longest == machine.model.max_context_tokens else KV_MEMORY
    return replace(
        estimate,
        requests_per_s=np.where(too_long, 0.0, estimate.requests_per_s),
        bound_by=tuple(because if bad else why for bad, why in zip(too_long, estimate.bound_by, strict=True)),
    )


def _refused(w: Workload, longest: int) -> np.ndarray:
    """Lengths that hold requests of more tokens: as many of them as leave next to none elsewhere [bucket]"""
    over, share = too_long_frac(w, longest), np.array([b.share_frac for b in w.buckets])
    order = np.argsort(over, kind="stable")
    refused = np.empty(len(over), dtype=bool)
    refused[order] = np.cumsum((over * share)[order]) > SMALLEST_SHARE
    return refused | (over > MOSTLY)


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
