"""Whether the step budgets that are chosen keep TPOT, served.

    python benchmarks/step_budgets.py [--kinds 30] [--seed 43]

Kinds of traffic are drawn from a grid of GPUs, prompts, answers, bursts, TPOT and room for TTFT. Each is served by as
many replicas as its budget was chosen for, at the load that these may carry: with the chosen budget and with the
engine's own, with the share of answers that is predicted to keep TPOT (planner/candidates/tpot_share.py) and the
shares that keep TPOT and TTFT.
"""

from __future__ import annotations

import argparse
import itertools
import random

import numpy as np

import planner
from planner.candidates.pools import groups_alone
from planner.candidates.replica import MANY, Replica, replicas_with
from planner.candidates.step_budget import carried_loads, replica_for
from planner.candidates.tpot_share import kept_frac
from planner.candidates.traffic import Traffic
from planner.case.case import Case, Workload
from planner.catalog.variant import Variant
from planner.verification import engine
from planner.verification.arrivals import drawn_stream, swings
from planner.verification.step_times import step_times

MODEL = "llama-3.1-8b"
GRID = list(
    itertools.product(
        ("l4", "l40s", "h100"), (250, 2000, 8000), (1, 4, 15, 60, 250, 1000), (1, 4, 10, 23), (30, 60, 100), (3, 10)
    )
)
"""GPU, median prompt and answer (p95 three and four times that), gaps' squared CV, TPOT [ms], TTFT over a lone one's"""
REQUESTS, MINUTES, ADMITTED = 25_000, (4, 180), 1.5
ANY_TTFT_MS, LEAST_LOAD = 100_000.0, 0.05
DEMAND = """
workloads:
  - name: w
    models: [{model}]
    forecast: {{requests_per_day: 1M, shape: flat, burstiness: {scv}}}
    tokens: {{input: {{p50: {prompt}, p95: {prompt_p95}}}, output: {{p50: {answer}, p95: {answer_p95}}}}}
    slo: {{ttft_p95: {ttft_ms:.0f}ms, tpot_p95: {tpot_ms}ms}}
    quality: {{max_loss: 2%}}
menu: {{gpus: [{gpu}], quantizations: [fp8]}}
baseline: openai/gpt-4o
"""


def case_of(gpu: str, prompt: int, answer: int, scv: int, tpot_ms: int, ttft_ms: float) -> tuple[Case, Traffic]:
    text = DEMAND.format(
        model=MODEL, gpu=gpu, prompt=prompt, prompt_p95=3 * prompt, answer=answer, scv=scv, tpot_ms=tpot_ms,
        answer_p95=4 * answer if answer > 1 else 1, ttft_ms=ttft_ms,
    )  # fmt: skip
    case = planner.case_from_text(text)
    return case, groups_alone(case)[0].traffic


def served(w: Workload, replica: Replica, load: float) -> tuple[float, float]:
    """Shares of requests that keep TPOT and TTFT."""
    rate = MANY * load / replica.mean_seconds
    minutes = int(np.clip(REQUESTS / rate / 60, *MINUTES))
    hours, rng = -(-minutes // 60), np.random.default_rng(1)
    factors = swings((w,), 0.0, rng)[0] * (np.arange(168 * 60) < minutes)
    factors /= factors[:minutes].mean()
    stream = drawn_stream(w, np.full(hours, rate), factors, range(hours), rng)
    fits = stream.prompt + stream.output <= replica.machine.model.max_context_tokens
    sequences = int(np.ceil(ADMITTED * replica.batch))
    budget = max(replica.machine.engine.chunk_tokens, sequences)
    times = step_times(replica.machine, sequences, budget, float((stream.prompt + stream.output)[fits].max()), 0.0)
    columns = (stream.arrival_s, stream.prompt, stream.found, stream.output, stream.critical)
    requests = engine.Requests(*(column[fits] for column in columns))
    capacity = engine.Capacity(np.zeros(1), np.array([MANY]), np.zeros(1, dtype=np.int64))
    outcome = engine.serve(requests, capacity, times, sequences, budget, engine.LEAST_REQUESTS, 1)
    further = requests.output - 1
    tpot = (outcome.last_s - outcome.first_s) / np.maximum(further, 1)
    in_time = outcome.first_s - requests.arrival_s <= w.ttft.seconds
    return float(np.mean((further == 0) | (tpot <= w.tpot.seconds))), float(np.mean(in_time))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=43)
    args = parser.parse_args()
    print("| GPU | prompt | answer | bursts | TPOT | room | budget: load, predicted, TPOT / TTFT served |")
    print("|---|---:|---:|---:|---:|---:|---|")
    left = args.kinds
    for gpu, prompt, answer, scv, tpot_ms, room in random.Random(args.seed).sample(GRID, len(GRID)):
        variant = Variant(MODEL, "fp8", gpu, 1)
        lone = next(replicas_with(*_one(case_of(gpu, prompt, answer, scv, tpot_ms, ANY_TTFT_MS)), variant))
        if not lone.serves_all:
            continue
        case, traffic = case_of(gpu, prompt, answer, scv, tpot_ms, 1e3 * room * lone.ttft_s(0.0))
        told = []
        for replica in (replica_for(case, traffic, variant), next(replicas_with(case, [traffic], variant))):
            load, budget = min(carried_loads(replica)), replica.machine.engine.chunk_tokens
            if load >= LEAST_LOAD:
                tpot, ttft = served(case.workloads[0], replica, load)
                told.append(f"{budget:,}: {load:.2f}, {kept_frac(replica, load):.1%}, {tpot:.1%} / {ttft:.1%}")
        print(f"| {gpu} | {prompt} | {answer} | {scv} | {tpot_ms} ms | {room} | {'; '.join(dict.fromkeys(told))} |",
              flush=True)  # fmt: skip
        left -= 1
        if not left:
            return


def _one(given: tuple[Case, Traffic]) -> tuple[Case, list[Traffic]]:
    return given[0], [given[1]]


if __name__ == "__main__":
    main()
