"""What to measure next: the deployments whose throughput is least certain for the money that rests on it.

A figure that is off by its own error moves the cost of what it serves by that share: `stake`. For a deployment that was
not chosen it is what the plan could save if the figure were better by its own error. Each comes with command lines for
three benchmark tools, over lengths that vary as those of its workloads do, so that requests do not start and end
together.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from planner.candidates.replica import ERROR_FRAC, machine_for
from planner.catalog.profile import find_profile
from planner.catalog.variant import TENSOR, Variant
from planner.performance.machine import ESTIMATED_ERROR_FRAC
from planner.performance.memory import layout_of
from planner.plan.account.account import account_of
from planner.plan.plan import DeploymentPlan, Plan
from planner.plan.serve_commands import checkpoint_of, serve_commands

CERTAIN = ("measured", "interpolated")
"""bases that a further benchmark would hardly change"""
PARTS_OF_BATCH = (0.25, 0.5, 1.0)
"""of the requests in flight that the plan counts on, besides a lone one"""
REQUESTS_PER_PLACE, FEWEST_REQUESTS = 10, 50
LEAST_RATIO, MOST_RATIO = 0.1, 0.9
"""of vLLM's benchmark: lengths are drawn between 1 - r and 1 + r of the mean"""
LEAST_STAKE_FRAC = 0.001
"""of the cost of the plan"""
USUAL_IN_FLIGHT = 64
"""of a deployment that the plan does not use"""


@dataclass(frozen=True)
class Suggestion:
    """A deployment to benchmark."""

    deployment: str
    workloads: tuple[str, ...]
    chosen: bool
    basis: str
    error_frac: float
    stake_usd_per_month: float
    concurrencies: tuple[int, ...]
    vllm: str
    guidellm: str
    aiperf: str
    calibrate: str
    """reads the results of any of them, which need not say what was measured"""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class _Lengths:
    input_mean: float
    input_sd: float
    output_mean: float
    output_sd: float


def suggestions(plan: Plan, most: int = 5) -> tuple[Suggestion, ...]:
    """The benchmarks with the largest stake, at most so many."""
    found: dict[str, Suggestion] = {}
    for s in (*_of_chosen(plan), *_of_others(plan)):
        known = found.get(s.deployment)
        if known is None or s.stake_usd_per_month > known.stake_usd_per_month:
            found[s.deployment] = s
    worth = [s for s in found.values() if s.stake_usd_per_month >= LEAST_STAKE_FRAC * plan.cost_usd_per_month]
    return tuple(sorted(worth, key=lambda s: (-s.stake_usd_per_month, s.deployment))[:most])


def _of_chosen(plan: Plan) -> Iterator[Suggestion]:
    commands = iter(serve_commands(plan))
    for pool in plan.pools:
        served = [w for w in plan.workloads if w.name in pool.workloads]
        cost = sum(w.gpu_cost_usd_per_month for w in served)
        hours = [_gpu_hours(plan, d) for d in pool.deployments]
        for planned, gpu_hours in zip(pool.deployments, hours, strict=True):
            d, command = planned.deployment, next(commands).command
            if d.basis in CERTAIN or not sum(hours) or d.boxes_per_replica:
                continue  # runs over several boxes are not calibrated from
            stake = cost * gpu_hours / sum(hours) * d.error_frac
            yield _suggested(
                plan, pool.workloads, d.variant, True, d.basis,
                d.error_frac, stake, d.requests_in_flight, shlex.split(command)[2],
            )  # fmt: skip


def _gpu_hours(plan: Plan, planned: DeploymentPlan) -> float:
    return planned.deployment.gpus_per_replica * account_of(plan).a_month(planned.replicas_by_slot)


def _of_others(plan: Plan) -> Iterator[Suggestion]:
    """Deployments that would be cheaper than what was chosen if their figure were better by its own error."""
    chosen = {o.workload: o.cost_usd_per_month for o in plan.options if o.chosen and o.cost_usd_per_month is not None}
    used = {d.deployment.variant for pool in plan.pools for d in pool.deployments}
    for o in plan.options:
        now = chosen.get(o.workload)
        if o.chosen or now is None or o.cost_usd_per_month is None or o.variant is None:
            continue
        if o.shared_with or o.variant in used or o.boxes_per_replica:
            continue
        basis, error_frac = _backing(plan, o.variant)
        saved = now - o.cost_usd_per_month / (1 + error_frac)
        if basis not in CERTAIN and saved > 0:
            checkpoint, _ = checkpoint_of(plan.case, o.variant.model, o.variant.quantization)
            yield _suggested(
                plan, (o.workload,), o.variant, False, basis, error_frac, saved, USUAL_IN_FLIGHT, checkpoint
            )


def _backing(plan: Plan, variant: Variant) -> tuple[str, float]:
    if find_profile(plan.case.profiles, variant) is not None:
        return "measured", ERROR_FRAC["measured"]
    if variant.speculation:
        return "estimated", ESTIMATED_ERROR_FRAC
    machine = machine_for(plan.case, variant)
    return str(machine.basis), machine.error_frac


def _suggested(
    plan: Plan, workloads: tuple[str, ...], variant: Variant, chosen: bool, basis: str,
    error_frac: float, stake: float, in_flight: float, checkpoint: str,
) -> Suggestion:  # fmt: skip
    lengths = _lengths(plan, workloads)
    several = tuple(sorted({1, *(max(1, round(in_flight * part)) for part in PARTS_OF_BATCH)}))
    facts = {"gpu": variant.gpu, **_degrees(variant), "quantization": variant.quantization}
    return Suggestion(
        deployment=str(variant), workloads=workloads, chosen=chosen, basis=basis,
        error_frac=error_frac, stake_usd_per_month=stake, concurrencies=several,
        vllm=_vllm(checkpoint, lengths, several, facts), guidellm=_guidellm(lengths, several),
        aiperf=_aiperf(checkpoint, lengths, several), calibrate=_calibrate(variant),
    )  # fmt: skip


def _degrees(variant: Variant) -> dict[str, str]:
    """How a replica shares its model, as `calibrate` reads it from metadata."""
    copies = layout_of(variant.parallelism, variant.gpus_per_replica).attention_copies
    degrees = {"tensor_parallel_size": str(variant.gpus_per_replica // copies)}
    if copies > 1:
        degrees["data_parallel_size"] = str(copies)
    return degrees | ({} if variant.parallelism == TENSOR else {"enable_expert_parallel": "true"})


def _calibrate(v: Variant) -> str:
    shared = [] if v.parallelism == TENSOR else ["--parallelism", v.parallelism]
    return shlex.join([
        "fleetplan", "calibrate", "RESULTS", "--model", v.model, "--gpu", v.gpu, "--gpus-per-replica",
        str(v.gpus_per_replica), *shared, "--quantization", v.quantization, "--out", "profile.yaml",
    ])  # fmt: skip


def _lengths(plan: Plan, workloads: tuple[str, ...]) -> _Lengths:
    """Of all requests of some workloads."""
    asked = {w.name: w for w in plan.case.workloads}
    shares, inputs, outputs = [], [], []
    for planned in plan.workloads:
        if planned.name in workloads:
            for b in asked[planned.name].buckets:
                shares.append(planned.requests_per_month * b.share_frac)
                inputs.append(b.input_tokens)
                outputs.append(b.output_tokens)
    weights = np.array(shares) / sum(shares)

    def spread(of: list[float]) -> tuple[float, float]:
        mean = float(weights @ np.array(of))
        return mean, float(np.sqrt(weights @ (np.array(of) - mean) ** 2))

    return _Lengths(*spread(inputs), *spread(outputs))


def _vllm(checkpoint: str, lengths: _Lengths, several: tuple[int, ...], facts: dict[str, str]) -> str:
    relative = max(lengths.input_sd / lengths.input_mean, lengths.output_sd / lengths.output_mean)
    ratio = float(np.clip(round(3**0.5 * relative, 1), LEAST_RATIO, MOST_RATIO))
    line = shlex.join([
        "vllm", "bench", "serve", "--model", checkpoint, "--dataset-name", "random",
        "--random-input-len", f"{lengths.input_mean:.0f}", "--random-output-len", f"{lengths.output_mean:.0f}",
        "--random-range-ratio", f"{ratio:g}", "--ignore-eos", "--percentile-metrics", "ttft,tpot,itl,e2el",
        "--metric-percentiles", "50,95,99", "--save-result", "--metadata", *(f"{k}={v}" for k, v in facts.items()),
    ])  # fmt: skip
    prompts = f"$((c * {REQUESTS_PER_PLACE} > {FEWEST_REQUESTS} ? c * {REQUESTS_PER_PLACE} : {FEWEST_REQUESTS}))"
    return f"for c in {_words(several)}; do {line} --max-concurrency $c --num-prompts {prompts}; done"


def _guidellm(lengths: _Lengths, several: tuple[int, ...]) -> str:
    data = (
        f"prompt_tokens={lengths.input_mean:.0f},prompt_tokens_stdev={lengths.input_sd:.0f},"
        f"output_tokens={lengths.output_mean:.0f},output_tokens_stdev={lengths.output_sd:.0f}"
    )
    rates = ",".join(map(str, several))
    return (
        "guidellm benchmark --target http://localhost:8000 --rate-type concurrent "
        f"--rate {rates} --data {shlex.quote(data)} --max-seconds 120 --output-path guidellm.json"
    )


def _aiperf(checkpoint: str, lengths: _Lengths, several: tuple[int, ...]) -> str:
    line = shlex.join([
        "aiperf", "profile", "-m", checkpoint, "--url", "localhost:8000", "--endpoint-type", "chat", "--streaming",
        "--synthetic-input-tokens-mean", f"{lengths.input_mean:.0f}",
        "--synthetic-input-tokens-stddev", f"{lengths.input_sd:.0f}",
        "--output-tokens-mean", f"{lengths.output_mean:.0f}", "--output-tokens-stddev", f"{lengths.output_sd:.0f}",
    ])  # fmt: skip
    return f"for c in {_words(several)}; do {line} --concurrency $c --request-count $((c * {REQUESTS_PER_PLACE})); done"


def _words(several: tuple[int, ...]) -> str:
    return " ".join(map(str, several))
