"""Controllers on published ramps and traces, and plans behind what was tuned for them (docs/evidence/autoscaling.md).

    python benchmarks/autoscaling.py ramp
    python benchmarks/autoscaling.py start-up TRACE.jsonl.gz
    python benchmarks/autoscaling.py plans DEMAND.yaml ... [--error 0.2] [--requests 1500000] [--time-limit 60]

`ramp` is that of llm-d's SLO-aware guide: Qwen3-32B on pairs of H100, prompts of 4,000 tokens, answers of 1,000, 3 to
8 replicas, a warm-up of 100 s, TTFT 3 s and TPOT 100 ms; the law and its settings are the guide's. Nothing is fitted:
step times are the planner's, and other speeds show how much the result hangs on them. `start-up` serves a trace of
requests behind the same law at several start-up times. `plans` tunes keda on the days of some seeds and scores it on
those of another, beside plain KEDA as exported before and beside a plan made with the demand that came, which holds the
same commitments.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import planner
from planner.case.case import Case, Holding
from planner.case.controller import Controller, controllers
from planner.case.quarters import held_usd_per_month
from planner.catalog.entries import shipped_catalog
from planner.catalog.terms import TERM_MONTHS
from planner.catalog.variant import Variant
from planner.performance.machine_by_name import machine_for
from planner.performance.memory import HBM_GB, USABLE_FRAC
from planner.plan.plan import Plan
from planner.reports.tables.operation import in_short
from planner.verification import engine
from planner.verification.arrivals import HOURS
from planner.verification.differs import Differs
from planner.verification.fluid import Trials
from planner.verification.operation import Operator, Setting
from planner.verification.scaling import rule_of
from planner.verification.serving import ServeOptions, verify_plan
from planner.verification.step_times import StepTimes, step_times
from planner.verification.steps import UNFINISHED, Requests
from planner.verification.tuning import DAYS, tuned
from solvers.search.fleet_solution import Options

STAGES = ((2, 330), (4, 360), (6, 360), (8, 360), (10, 360), (4, 360), (1, 300))
"""requests a second, for so many seconds"""
SECONDS = tuple(seconds for _, seconds in STAGES)
MEMORY_USED = (0.92, 0.95)
RAMP_SEEDS = (1, 2, 3, 4, 5)
SPEEDS = (0.8, 0.9, 1.0, 1.1, 1.25)
STARTS_S = (0, 15, 30, 60, 90, 120, 180, 300, 600)
SCORED_SEED = 11
ERRORS = (0.0, 0.1, 0.2, -0.1, -0.2)


def times_of(variant: Variant, longest: float, sequences: int, budget: int) -> StepTimes:
    return step_times(machine_for(shipped_catalog(), variant, "vllm"), sequences, budget, longest, 0.0)


def slower(times: StepTimes, factor: float) -> StepTimes:
    """Every step takes so many times as long."""
    names = ("decode_s", "added_s", "alone_s", "prompt_alone_s", "prompt_beside_s", "host_s", "attention_s",
             "attention_alone_s")  # fmt: skip
    return replace(times, **{name: getattr(times, name) * factor for name in names})


class Recorded(Operator):
    """The signal as the benchmark's own controller had it: looked at once a minute, and smoothed."""

    cycle_s, newest_share, smoothed = 60.0, 0.6, 0.0

    def _signal(self, simulation: engine.Simulation, before_s: float, came: int) -> float:
        raw = super()._signal(simulation, before_s, came)
        if self.now_s % self.cycle_s < 1e-6:
            self.smoothed += self.newest_share * (raw - self.smoothed)
        return self.smoothed


def roomier(times: StepTimes, used_frac: float) -> StepTimes:
    """Where the engine uses another share of the memory of two H100."""
    more = (used_frac - USABLE_FRAC) * 2 * 80 * HBM_GB
    return replace(times, kv_room_bytes=times.kv_room_bytes + more)


@dataclass(frozen=True)
class Came:
    """What a run came to."""

    within: float
    """share of requests that keep both targets"""
    mean: float
    """replicas on average until drained to the floor"""
    peak: int
    events: int
    ttft_p95_s: float
    lost: tuple[int, ...]
    """requests that miss a target, of each stage"""

    def __str__(self) -> str:
        lost = f", lost by stage {' '.join(map(str, self.lost))}" if len(self.lost) > 1 else ""
        kept = f"{self.within:6.1%} at {self.mean:.2f}, peak {self.peak}, {self.events} events"
        return f"{kept}, TTFT p95 {self.ttft_p95_s:.2f} s{lost}"


def behind(
    stages: list[Requests], times: StepTimes, c: Controller, fewest: int, most: int, start_s: float,
    targets_s: tuple[float, float], sequences: int, budget: int, first: int, kind: type[Operator] = Operator,
    drains: bool = False,
) -> Came:  # fmt: skip
    """Serve stages one after the other; with `drains` the next begins when all requests of the last have ended."""
    c = c.model_copy(update={"fewest": fewest})
    setting = Setting(c, rule_of(c, c.target, fewest, most), np.full(HOURS, first), 0.0, start_s, 1, alone=True)
    operator = kind(setting, targets_s)
    ready = operator.begin(0.0)
    capacity = engine.Capacity(np.array([0.0]), np.array([ready]), np.array([0]))
    simulation = engine.Simulation(capacity, times, sequences, budget, engine.LEAST_REQUESTS, 1, 6, most_replicas=most)
    begin, stage = 0.0, []
    for k, asked in enumerate(stages):
        simulation.add(asked._replace(arrival_s=asked.arrival_s + begin))
        stage += [k] * len(asked.arrival_s)
        begin = operator.now_s + c.period_s * math.ceil(SECONDS[k] / c.period_s) if len(stages) > 1 else 0.0
        last = float(simulation.requests.arrival_s[-1])
        operator.run(simulation, max(begin, last), range(HOURS))
        while drains and (simulation.outcome.state == UNFINISHED).any():
            begin = operator.now_s + c.period_s
            operator.run(simulation, begin, range(HOURS))
    while operator.wanted[operator._place(operator.now_s - 1e-6)] > fewest and operator.now_s < last + 3600:
        operator.run(simulation, operator.now_s + c.period_s, range(HOURS))
    ticks = int(operator.now_s / c.period_s)
    simulation.run()
    outcome, asked = simulation.outcome, simulation.requests
    ttft = outcome.first_s - asked.arrival_s
    tpot = (outcome.last_s - outcome.first_s) / np.maximum(asked.output - 1, 1)
    both = (ttft <= targets_s[0]) & (tpot <= targets_s[1]) & (outcome.state == 0)
    wanted = operator.wanted[:ticks]
    lost = np.bincount(np.array(stage)[~both], minlength=len(stages))
    return Came(
        float(both.mean()), float(wanted.mean()), int(wanted.max()), operator.ups + operator.downs,
        float(np.percentile(ttft, 95)), tuple(lost.tolist()),
    )  # fmt: skip


def ramp_of(seed: int) -> list[Requests]:
    """As inference-perf draws it: gaps of a Poisson process made to fill each stage, lengths cut normal."""
    rng, stages = np.random.default_rng(seed), []
    for rate, seconds in STAGES:
        n = rate * seconds
        gaps = rng.exponential(1 / rate, n)
        prompt = np.clip(np.rint(rng.normal(4000, 300, n)), 3500, 4500)
        output = np.clip(np.rint(rng.normal(1000, 80, n)), 900, 1100).astype(np.int64)
        arrival = np.cumsum(gaps) * seconds / gaps.sum()
        stages.append(Requests(arrival, prompt, np.zeros(n), output, np.ones(n, dtype=np.bool_)))
    return stages


def ramp() -> None:
    sequences, budget = 256, 8192
    times = times_of(Variant("qwen3-32b", "fp16", "h100", 2), 5600.0, sequences, budget)
    law = controllers()["llm-d-slo"]
    exact = law.model_copy(update={"ttft_buckets_s": (), "tpot_buckets_s": (), "latencies_at_end": False})
    recorded = law.model_copy(update={"window_s": 0.0})
    print("published: 95.8% at 5.93 replicas, 515 lost, all where 6 a second come; 85.6% (cold); 100% at 8 static")
    runs: tuple[tuple[str, Controller, type[Operator], int, bool], ...] = (
        ("the guide's loop, latencies read exactly", exact, Operator, 3, False),
        ("the guide's loop", law, Operator, 3, False),
        ("as recorded, latencies read exactly", exact.model_copy(update={"window_s": 0.0}), Recorded, 8, True),
        ("as recorded", recorded, Recorded, 8, True),
        ("as recorded, TTFT known at the first token", recorded.model_copy(update={"latencies_at_end": False}),
         Recorded, 8, True),
    )  # fmt: skip
    other = [(f"speed {speed:4.2f}", slower(times, 1 / speed)) for speed in SPEEDS]
    other += [(f"memory used {share:.0%}", roomier(times, share)) for share in MEMORY_USED]
    for name, c, kind, first, drains in runs:
        for what, these in other:
            came = [
                behind(ramp_of(seed), these, c, 3, 8, 100.0, (3.0, 0.1), sequences, budget, first, kind, drains)
                for seed in RAMP_SEEDS
            ]
            shares, means = np.array([x.within for x in came]), np.array([x.mean for x in came])
            over = f"{shares.mean():.1%} ({shares.min():.1%} to {shares.max():.1%}) at {means.mean():.2f}"
            lost = " ".join(f"{x:.0f}" for x in np.mean([x.lost for x in came], axis=0))
            print(f"{name}, {what}: {over}, lost by stage {lost}; seed 1: {came[0]}", flush=True)
    for speed in SPEEDS:
        static = behind(
            ramp_of(1), slower(times, 1 / speed), controllers()["schedule"], 8, 8, 0.0, (3.0, 0.1), sequences, budget, 8
        )
        print(f"8 static, speed {speed:4.2f}: {static}")


def traced(file: Path) -> Requests:
    with gzip.open(file, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    arrival = np.array([row["timestamp"] / 1000 for row in rows])
    rng = np.random.default_rng(1)
    arrival = np.sort(arrival + rng.uniform(0, 3, len(arrival)))  # ticks of 3 s
    prompt = np.array([float(row["input_length"]) for row in rows])
    output = np.array([max(1, row["output_length"]) for row in rows], dtype=np.int64)
    return Requests(arrival, prompt, np.zeros(len(rows)), output, np.ones(len(rows), dtype=np.bool_))


def start_up(file: Path) -> None:
    asked = traced(file)
    fits = asked.prompt + asked.output < 120_000
    asked = Requests(*(column[fits] for column in asked))
    sequences, budget = 256, 8192
    times = times_of(Variant("llama-3.1-8b", "fp8", "h100", 1), 130_000.0, sequences, budget)
    law = controllers()["llm-d-slo"]
    print(f"{len(asked.prompt):,} requests of {asked.arrival_s[-1] / 60:.0f} min, TTFT 5 s, TPOT 50 ms")
    for start in STARTS_S:
        came = behind([asked], times, law, 1, 12, float(start), (5.0, 0.05), sequences, budget, 2)
        print(f"start {start:3d} s: {came}", flush=True)


def scaled(case: Case, factor: float) -> Case:
    """The same case with so much more demand: what a plan would have known."""
    workloads = tuple(
        w.model_copy(
            update={
                "weekday_rps": tuple(factor * r for r in w.weekday_rps),
                "weekend_rps": tuple(factor * r for r in w.weekend_rps),
            }
        )
        for w in case.workloads
    )
    return case.model_copy(update={"workloads": workloads})


def signed(plan: Plan) -> tuple[Holding, ...]:
    """What a plan commits to, which is paid for whatever comes."""
    return tuple(
        Holding(
            offer=line.offer, purchase=line.purchase, instances=max(line.instances_by_slot), usd_per_h=line.usd_per_h
        )
        for line in plan.fleet
        if line.purchase in TERM_MONTHS
    )


def knowing(plan: Plan, error: float, time_limit_s: float) -> Plan:
    """A plan made with the demand that came, which holds what was signed for the forecast: that is paid either way."""
    case = scaled(plan.case, 1 + error)
    held = (*(case.held or ()), *signed(plan))
    found = planner.plan_fleet(case.model_copy(update={"held": held or None}), Options(time_limit_s=time_limit_s))
    assert isinstance(found, Plan), found
    return found


def plans(files: list[Path], error: float, errors: tuple[float, ...], requests: int, time_limit_s: float) -> None:
    """Tuned on the days of seeds 1 to 3 and scored, request by request, on a Monday of another.

    Costs are those of whole weeks of that seed: of flows, corrected by the hours that were served.
    """
    plain = controllers()["keda"]
    for file in files:
        began = time.process_time()
        plan = planner.plan_fleet(planner.load_case(file), Options(time_limit_s=time_limit_s))
        assert isinstance(plan, Plan), plan
        planned, began = time.process_time() - began, time.process_time()
        o = tuned(plan, plain, error, requests=requests)
        c, took, began = o.controller, time.process_time() - began, time.process_time()
        settings = (
            f"target {c.target:.0%}, window {c.window_s:.0f} s, floor {c.floor_share:.0%} + {c.buffer}, "
            f"ceiling {c.most_ratio:g}, down {c.down_window_s:.0f} s"
        )
        print(
            f"{plan.name}: plan {planned:.0f} CPU s, tuned in {took:.0f} CPU s; {settings}; {in_short(o)}", flush=True
        )
        trials = Trials(plan)
        for e in errors:
            known = knowing(plan, e, time_limit_s) if e else plan
            differs = Differs(abs(e), 1 if e > 0 else -1) if e else None
            for name, which in (("tuned", c), ("plain", plain)):
                options = ServeOptions(
                    seed=SCORED_SEED, controller=which, differs=differs, most_requests=requests, days=DAYS
                )
                run = verify_plan(plan, options)
                found = trials.corrected(run, which, SCORED_SEED, differs, DAYS)
                assert found is not None
                worst = min(found.attained, key=lambda a: a.within_frac - a.percentile)
                least = known.cost_usd_per_month + held_usd_per_month(known.case) - held_usd_per_month(plan.case)
                over = found.usd_per_month / least - 1
                print(
                    f"| {plan.name} | {e:+.0%} | {name} | {found.usd_per_month:,.0f} | {least:,.0f} "
                    f"| {over:+.1%} | {worst.workload} {worst.what} {worst.within_frac:.1%} of {worst.percentile:.0%}, "
                    f"hours {min((a.hours_kept_frac or 0 for a in found.attained), default=0):.0%} "
                    f"| {'kept' if found.kept else 'missed'} | {run.requests:,} |",
                    flush=True,
                )
        print(f"  scored in {time.process_time() - began:.0f} CPU s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ramp", "start-up", "plans"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--error", type=float, default=0.2)
    parser.add_argument("--requests", type=int, default=1_500_000)
    parser.add_argument("--errors", type=float, nargs="*", default=ERRORS)
    parser.add_argument("--time-limit", type=float, default=60)
    asked = parser.parse_args()
    if asked.what == "ramp":
        ramp()
    elif asked.what == "start-up":
        start_up(asked.files[0])
    else:
        plans(asked.files, asked.error, tuple(asked.errors), asked.requests, asked.time_limit)


if __name__ == "__main__":
    main()
