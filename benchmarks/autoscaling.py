"""Controllers on published ramps and traces, and plans behind what was tuned for them (docs/evidence/autoscaling.md).

    python benchmarks/autoscaling.py ramp
    python benchmarks/autoscaling.py start-up TRACE.jsonl.gz
    python benchmarks/autoscaling.py plans DEMAND.yaml ... [--error 0.2] [--requests 500000]

`ramp` is that of llm-d's SLO-aware guide: Qwen3-32B on pairs of H100, prompts of 4,000 tokens, answers of 1,000, 3 to
8 replicas, a warm-up of 100 s, TTFT 3 s and TPOT 100 ms; the law and its settings are the guide's. Nothing is fitted:
step times are the planner's, and other speeds show how much the result hangs on them. `start-up` serves a trace of
requests behind the same law at several start-up times. `plans` tunes keda on the days of some seeds and scores it on
those of others, beside plain KEDA as exported before and beside a plan made with the demand that came.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import planner
from planner.case.case import Case
from planner.case.controller import Controller, controllers
from planner.catalog.entries import shipped_catalog
from planner.catalog.variant import Variant
from planner.performance.machine_by_name import machine_for
from planner.plan.plan import Plan
from planner.reports.tables.operation import in_short
from planner.verification import engine
from planner.verification.arrivals import HOURS
from planner.verification.differs import Differs
from planner.verification.fluid import Trials
from planner.verification.operation import Operator, Setting
from planner.verification.scaling import rule_of
from planner.verification.step_times import StepTimes, step_times
from planner.verification.steps import Requests
from planner.verification.tuning import tuned

STAGES = ((2, 330), (4, 360), (6, 360), (8, 360), (10, 360), (4, 360), (1, 300))
"""requests a second, for so many seconds"""
SPEEDS = (0.8, 0.9, 1.0, 1.1, 1.25)
STARTS_S = (0, 15, 30, 60, 90, 120, 180, 300, 600)
SCORED_SEEDS = (11, 12)
ERRORS = (0.0, 0.1, 0.2, -0.1, -0.2)


def times_of(variant: Variant, longest: float, sequences: int, budget: int) -> StepTimes:
    return step_times(machine_for(shipped_catalog(), variant, "vllm"), sequences, budget, longest, 0.0)


def slower(times: StepTimes, factor: float) -> StepTimes:
    """Every step takes so many times as long."""
    names = ("decode_s", "added_s", "alone_s", "prompt_alone_s", "prompt_beside_s", "host_s", "attention_s",
             "attention_alone_s")  # fmt: skip
    return replace(times, **{name: getattr(times, name) * factor for name in names})


def behind(
    asked: Requests, times: StepTimes, c: Controller, fewest: int, most: int, start_s: float,
    targets_s: tuple[float, float], sequences: int, budget: int, first: int | None = None,
) -> tuple[float, float, int, int, float]:  # fmt: skip
    """Share that keeps both targets, replicas on average until drained to the floor, events, peak, P95 of TTFT."""
    rule = rule_of(c, c.target, fewest, most)
    setting = Setting(c, rule, np.full(HOURS, first or fewest), 0.0, start_s, 1, alone=True)
    operator = Operator(setting, targets_s)
    ready = operator.begin(0.0)
    capacity = engine.Capacity(np.array([0.0]), np.array([ready]), np.array([0]))
    simulation = engine.Simulation(capacity, times, sequences, budget, engine.LEAST_REQUESTS, 1, 6, most_replicas=most)
    simulation.add(asked)
    last = float(asked.arrival_s[-1])
    end = last
    while end < last + 3600:
        operator.run(simulation, end, range(HOURS))
        if end > last and operator.wanted[operator._place(operator.now_s - 1e-6)] <= fewest:
            break
        end += c.period_s
    simulation.run()
    outcome = simulation.outcome
    ttft = outcome.first_s - asked.arrival_s
    tpot = (outcome.last_s - outcome.first_s) / np.maximum(asked.output - 1, 1)
    both = (ttft <= targets_s[0]) & (tpot <= targets_s[1]) & (outcome.state == 0)
    ticks = int(end / c.period_s)
    events = operator.ups + operator.downs
    wanted = operator.wanted[:ticks]
    return float(both.mean()), float(wanted.mean()), events, int(wanted.max()), float(np.percentile(ttft, 95))


def ramp() -> None:
    rng = np.random.default_rng(1)
    ends = np.cumsum([0, *(s for _, s in STAGES)])
    parts = [
        np.sort(rng.uniform(a, b, rng.poisson(rate * (b - a))))
        for (rate, _), a, b in zip(STAGES, ends, ends[1:], strict=False)
    ]
    arrival = np.concatenate(parts)
    n = len(arrival)
    asked = Requests(
        arrival, np.full(n, 4000.0), np.zeros(n), np.full(n, 1000, dtype=np.int64), np.ones(n, dtype=np.bool_)
    )
    sequences, budget = 256, 8192
    times = times_of(Variant("qwen3-32b", "fp16", "h100", 2), 5000.0, sequences, budget)
    law = controllers()["llm-d-slo"]
    print(f"{n:,} requests; published: 95.8% at 5.93 replicas (calibrated predictor), 85.6% (cold), 100% at 8 static")
    for start in (0.0, 100.0):
        for speed in SPEEDS if start else (1.0,):
            share, mean, events, peak, p95 = behind(
                asked, slower(times, 1 / speed), law, 3, 8, start, (3.0, 0.1), sequences, budget
            )
            said = f"{share:6.1%} at {mean:.2f}, peak {peak}, {events} events, TTFT p95 {p95:.2f} s"
            print(f"start {start:3.0f} s, speed {speed:4.2f}: {said}")
    for speed in SPEEDS:
        static = behind(
            asked, slower(times, 1 / speed), controllers()["schedule"], 8, 8, 0.0, (3.0, 0.1), sequences, budget
        )
        print(f"8 static, speed {speed:4.2f}: {static[0]:6.1%}, TTFT p95 {static[4]:.2f} s")


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
        share, mean, events, peak, p95 = behind(
            asked, times, law, 1, 12, float(start), (5.0, 0.05), sequences, budget, 2
        )
        print(f"start {start:3d} s: {share:6.1%} at {mean:.2f}, peak {peak}, {events} events, TTFT p95 {p95:.1f} s")


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


def plans(files: list[Path], error: float, requests: int) -> None:
    """Tuned on the days of seeds 1 to 3, scored on those of others: every request of some hours, or all as flows."""
    for file in files:
        case = planner.load_case(file)
        plan = planner.plan_fleet(case)
        assert isinstance(plan, Plan)
        began = time.process_time()
        o = tuned(plan, controllers()["keda"], error, requests=requests)
        c, took = o.controller, time.process_time() - began
        settings = f"target {c.target:.0%}, buffer {c.buffer}, ceiling {c.most_ratio:g}, lead +{c.more_lead_s:.0f} s"
        print(f"{plan.name}: {settings}; {took:.0f} CPU s; {in_short(o)}", flush=True)
        for run in o.tuned.differing if o.tuned else ():
            least = min(a.within_frac - a.percentile for a in run.attained)
            print(
                f"  served, {run.differs}: kept {run.kept}, margin {least:+.3f}, ${run.usd_per_month:,.0f}", flush=True
            )
        trials = Trials(plan)
        for e in [e for e in ERRORS if abs(e) <= error]:
            known = planner.plan_fleet(scaled(case, 1 + e)) if e else plan
            assert isinstance(known, Plan)
            differs = Differs(abs(e), 1 if e > 0 else -1) if e else None
            for name, which in (("tuned", c), ("plain", controllers()["keda"])):
                found = trials.trial(which, tuple((seed, differs) for seed in SCORED_SEEDS))
                over = found.usd_per_month / known.cost_usd_per_month - 1
                kept = f"{'kept' if found.kept else 'missed'}, margin {found.worst:+.3f}"
                knew = f"{over:+.1%} over the plan that knew (${known.cost_usd_per_month:,.0f})"
                print(f"  flows, {e:+.0%} {name}: {kept}, ${found.usd_per_month:,.0f}, {knew}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ramp", "start-up", "plans"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--error", type=float, default=0.2)
    parser.add_argument("--requests", type=int, default=500_000)
    asked = parser.parse_args()
    if asked.what == "ramp":
        ramp()
    elif asked.what == "start-up":
        start_up(asked.files[0])
    else:
        plans(asked.files, asked.error, asked.requests)


if __name__ == "__main__":
    main()
