"""What one replica of a deployment does for a workload: the user's measurements first, physics elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.case import Case, Workload
from planner.lengths import must_hold
from planner.loading import z_of
from planner.performance.latency import Machine
from planner.performance.throughput import Lengths, Limits, Throughput, throughput
from planner.profiles import Profile, basis_of, correction_of, find_profile, max_rate

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


def machine_for(case: Case, model: str, quantization: str, gpu: str, gpus: int) -> Machine:
    scheme = case.quantizations[quantization]
    return Machine(case.models[model], scheme, case.gpus[gpu], gpus, case.efficiency[gpu], case.engine)


def lengths_of(workload: Workload) -> Lengths:
    b = workload.buckets
    return Lengths(
        input_tokens=np.array([x.input_tokens for x in b]),
        output_tokens=np.array([x.output_tokens for x in b]),
        cached_tokens=np.array([workload.cached_tokens(x.input_tokens) for x in b]),
        shared_prefix_tokens=workload.shared_prefix_tokens,
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
    limits = limits_of(workload)
    lengths = lengths_of(workload)
    profile = find_profile(case.profiles, model, quantization, gpu, gpus)
    if profile is None:
        return Replica(throughput(machine, lengths, limits), machine.basis, machine.error_frac)
    basis = _least_backed(profile, workload)
    if profile.max_rates:
        return Replica(_from_table(profile, workload, throughput(machine, lengths, limits)), basis, ERROR_FRAC[basis])
    return Replica(throughput(machine, lengths, limits, correction_of(profile, machine)), basis, ERROR_FRAC[basis])


def _least_backed(profile: Profile, workload: Workload) -> str:
    found = {basis_of(profile, b.input_tokens, b.output_tokens) for b in workload.buckets}
    return next(basis for basis in ("scaled", "interpolated", "measured") if basis in found)


def _from_table(profile: Profile, workload: Workload, physics: Throughput) -> Throughput:
    """A table of highest rates is used as it is; where it has none, the deployment cannot serve that length."""
    rates = [max_rate(profile, b.input_tokens, b.output_tokens) or 0.0 for b in workload.buckets]
    return replace(
        physics,
        requests_per_s=np.array(rates),
        in_flight=np.maximum(physics.in_flight, 1.0),
        bound_by=tuple("measured table" for _ in rates),
    )
