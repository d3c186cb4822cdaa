"""What one replica of a deployment does for a workload: the user's measurements first, physics elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from planner.case import Case, Workload
from planner.lengths import must_hold
from planner.performance.latency import Machine, prefill_s
from planner.performance.queueing import prompt_wait_s
from planner.performance.throughput import Lengths, Limits, Throughput, throughput
from planner.profiles import Profile, basis_of, correction_of, find_profile, max_rate
from problems.staffing import z_of

TABLE = "measured table"
"""what bounds a deployment whose highest rates were measured: its latencies are those of the measurement"""
ERROR_FRAC = {"measured": 0.05, "interpolated": 0.08, "scaled": 0.15}
"""mean errors after a correction: on runs held out of it, and by length from them; the last is an allowance"""


@dataclass(frozen=True, eq=False)
class Replica:
    """Throughput by length bucket, and how far it is backed."""

    throughput: Throughput
    basis: str
    """measured, interpolated, scaled (by measurements elsewhere), calibrated or estimated"""
    error_frac: float
    """how far off the throughput is, on average, where that is known; else an allowance"""
    workload: Workload
    machine: Machine
    ttft_ratio: float = 1.0
    """measured over predicted, where there are measurements"""

    def ttft_s(self, load: float) -> float:
        """TTFT at the objective's percentile at a mean load of the replica (0 to 1).

        Prefill of a prompt of that percentile and a step, and waiting for the prompts ahead; waiting for a place is
        what the staffing margin is for.
        """
        w, t = self.workload, self.throughput
        shares = np.array([b.share_frac for b in w.buckets])
        prompt = w.ttft_prompt_tokens
        alone = prefill_s(self.machine, max(prompt - w.cached_tokens(prompt), 1.0), prompt)
        own = float(alone) * self.ttft_ratio + float(t.step_s.max())
        prefill = float(shares @ t.prefill_s / shares.sum())
        cv2 = max(0.0, float(shares @ t.prefill_s**2 / shares.sum()) / prefill**2 - 1)
        rate = load / float(shares @ (1 / t.requests_per_s) / shares.sum())
        return own + prompt_wait_s(rate, prefill, cv2, w.arrival_scv, w.ttft.percentile)

    @cached_property
    def most_load(self) -> float:
        """The mean load of a replica up to which TTFT holds; 0 where it does not even for a lone request."""
        limit = self.workload.ttft.seconds
        if self.ttft_s(1.0) <= limit:
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.ttft_s(middle) <= limit else (low, middle)
        return low


def machine_for(case: Case, model: str, quantization: str, gpu: str, gpus: int) -> Machine:
    scheme = case.quantizations[quantization]
    return Machine(case.models[model], scheme, case.gpus[gpu], gpus, case.efficiency[gpu], case.engine)


def lengths_of(workload: Workload) -> Lengths:
    b = workload.buckets
    return Lengths(
        input_tokens=np.array([x.input_tokens for x in b]),
        output_tokens=np.array([x.output_tokens for x in b]),
        cached_tokens=np.array([workload.cached_tokens(x.input_tokens) for x in b]),
        # Requests that miss the prefix hold a copy of their own.
        shared_prefix_tokens=workload.prefix_hit_frac * workload.shared_prefix_tokens,
    )


def limits_of(workload: Workload) -> Limits:
    z = z_of(workload.tpot.percentile)
    if workload.e2e is None:
        return Limits(tpot_s=workload.tpot.seconds, z=z)
    bound = must_hold(workload.buckets, workload.e2e.percentile, outputs=True)
    return Limits(workload.tpot.seconds, z, np.where(bound, workload.e2e.seconds, np.inf))


def replica_for(case: Case, workload: Workload, model: str, quantization: str, gpu: str, gpus: int) -> Replica:
    """A replica by the catalog's names; its weights must fit."""
    machine = machine_for(case, model, quantization, gpu, gpus)
    limits, lengths = limits_of(workload), lengths_of(workload)
    fitting = (p for p in case.profiles if p.engine is None or case.engine_name in p.engine.lower())
    profile = find_profile(fitting, model, quantization, gpu, gpus)
    if profile is None:
        estimate = throughput(machine, lengths, limits)
        return Replica(estimate, machine.basis, machine.error_frac, workload, machine)
    basis = _least_backed(profile, workload)
    if profile.max_rates:
        estimate = _from_table(profile, workload, throughput(machine, lengths, limits))
        return Replica(estimate, basis, ERROR_FRAC[basis], workload, machine)
    scaling = correction_of(profile, machine)
    estimate = throughput(machine, lengths, limits, scaling)
    return Replica(estimate, basis, ERROR_FRAC[basis], workload, machine, scaling.ttft_ratio)


def _least_backed(profile: Profile, workload: Workload) -> str:
    found = {basis_of(profile, b.input_tokens, b.output_tokens) for b in workload.buckets}
    return next(basis for basis in ("scaled", "interpolated", "measured") if basis in found)


def _from_table(profile: Profile, workload: Workload, physics: Throughput) -> Throughput:
    """A table of highest rates is used as it is; where it has none, the deployment cannot serve that length."""
    rates = np.array([max_rate(profile, b.input_tokens, b.output_tokens) or 0.0 for b in workload.buckets])
    outputs = np.array([b.output_tokens for b in workload.buckets])
    inside = rates * (physics.ttft_s + outputs * workload.tpot.seconds)
    return replace(
        physics,
        requests_per_s=rates,
        in_flight=np.maximum(np.where(physics.in_flight > 0, physics.in_flight, inside), 1.0),
        tpot_s=np.zeros_like(rates),
        bound_by=tuple(TABLE for _ in rates),
    )
