"""How planning scales: a realistic case of N workloads, its gap and time by phase.

python benchmarks/scale.py --workloads 20 --seed 0 --solver cbc --format json
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from typing import Any

import numpy as np

import planner
from planner.candidates import enumerate_candidates
from planner.case import Case
from planner.formulation import formulate
from planner.slots import slots_of
from solvers.fleet_solver import Options, solve_fleet

LARGE = ("llama-3.3-70b", "qwen3-32b", "gpt-oss-120b", "mixtral-8x7b")
SMALL = ("llama-3.1-8b", "qwen2.5-7b", "mistral-7b-v0.3", "qwen3-14b")


def generated_case(workloads: int, seed: int) -> Case:
    """Mixed models, shapes, lengths and SLOs; a third may not use an API; boxes of 1, 4 and 8 GPUs."""
    rng = np.random.default_rng(seed)
    lines = ["workloads:"]
    for k in range(workloads):
        large = rng.random() < 0.4
        model = rng.choice(LARGE if large else SMALL)
        rate = 10 ** rng.uniform(4.5, 5.7 if large else 6.5)
        short, long, out = rng.integers(300, 2500), rng.integers(2600, 7000), rng.integers(60, 250)
        shape = rng.choice(["business-hours", "consumer", "flat"])
        lines.append(
            f"  - name: w{k}\n"
            f"    models: [{model}]\n"
            f"    forecast: {{requests_per_day: {rate:.0f}, shape: {shape}}}\n"
            f"    tokens: {{input: {{p50: {short}, p95: {long}}}, output: {{p50: {out}, p95: 700}}}}\n"
            f"    slo: {{ttft_p95: {rng.choice([1, 2, 4])}s, tpot_p95: {rng.choice([40, 60, 100])}ms}}\n"
            f"    quality: {{max_loss: 2%}}\n"
            f"    spot: {{critical_share: {rng.choice([60, 80, 100])}%}}\n"
            f"    api: {'forbidden' if rng.random() < 0.35 else 'allowed'}"
        )
    lines.append("menu: {gpus: [l4, a10g, l40s, a100-80gb, h100, h200], purchase: [on-demand, spot, reserved-1y]}")
    lines.append("baseline: openai/gpt-4o")
    return planner.case_from_text("\n".join(lines) + "\n")


def measured(workloads: int, seed: int, solver: Any, time_limit_s: float | None) -> dict[str, Any]:
    started = time.monotonic()
    case = generated_case(workloads, seed)
    fleet = formulate(case, enumerate_candidates(case), slots_of(case))
    formulated = time.monotonic()
    solution = solve_fleet(fleet, Options(solver=solver, time_limit_s=time_limit_s))
    best = solution.best
    assert best is not None
    api = sum(float(fleet.weight @ path.api_usd_per_h) for path in best.paths)
    boxes = {
        g: int((sum(b.reserved.values()) + b.on_demand + b.spot).max())
        for g, b in best.purchases.items()
        if fleet.offers[g].box > 1
    }
    return {
        "workloads": workloads,
        "seed": seed,
        "solver": solver,
        "outcome": solution.outcome.value,
        "columns": solution.columns,
        "rounds": solution.rounds,
        "seconds": round(time.monotonic() - started, 2),
        "seconds_by_phase": {"formulating": round(formulated - started, 2)}
        | {phase: round(seconds, 2) for phase, seconds in solution.seconds.items()},
        "cost": solution.cost_usd_per_month,
        "bound": solution.bound_usd_per_month,
        "gap_frac": solution.gap_frac,
        "gpu_share_frac": 1 - api / solution.cost_usd_per_month,
        "peak_boxes_of_several_gpus": {g: n for g, n in boxes.items() if n},
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--solver", choices=("cbc", "highs"), default="cbc")
    parser.add_argument("--time-limit", type=float, default=None, metavar="SECONDS")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    given = parser.parse_args()
    result = measured(given.workloads, given.seed, given.solver, given.time_limit)
    if given.format == "json":
        print(json.dumps(result, indent=1))
    else:
        print("\n".join(f"{key:28} {value}" for key, value in result.items()))


if __name__ == "__main__":
    main()
