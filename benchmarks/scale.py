"""How planning scales: a realistic case of N workloads with every lever on, its gap, and its time by phase.

python benchmarks/scale.py --workloads 20 --seed 0 --solver cbc --format json

The same case then goes to a textbook formulation (benchmarks/textbook.py) with four times the seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from textbook import TIMES_OUR_SECONDS, solve_textbook

import planner
from planner.candidates.enumerate import enumerate_candidates
from planner.case.case import Case
from planner.case.slots import slots_of
from planner.optimization.formulate import formulate
from problems.fleet_problem import FleetProblem
from solvers.search.fleet_solution import FleetSolution, Options
from solvers.search.fleet_solver import solve_fleet

LARGE = ("llama-3.3-70b", "qwen2.5-72b", "mixtral-8x22b", "qwen3-235b-a22b")
MEDIUM = ("gpt-oss-120b", "qwen3-32b")
SMALL = ("llama-3.1-8b", "qwen2.5-7b", "mistral-7b-v0.3", "qwen3-14b")
SIZES = ((LARGE, 5.5, 6.5), (SMALL, 5.7, 7.0), (LARGE, 5.5, 6.5), (SMALL, 5.7, 7.0), (MEDIUM, 5.5, 6.5))
"""models, and the powers of ten between which their requests a day lie; workloads take one after the other"""
LOOK_EVERY_S = 0.2
GPUS = ("l4", "a10g", "l40s", "a100-80gb", "h100", "h200")


def generated_case(workloads: int, seed: int) -> Case:
    return planner.case_from_text(generated_text(workloads, seed))


def generated_text(workloads: int, seed: int) -> str:
    """Mixed models, shapes, lengths and SLOs; boxes of 1, 4 and 8 GPUs; quotas that bind here and there."""
    rng = np.random.default_rng(seed)
    lines = ["workloads:", *(_workload(rng, k) for k in range(workloads))]
    lines.append(f"menu: {{gpus: [{', '.join(GPUS)}], purchase: [on-demand, spot, reserved-1y], max_deployments: 2}}")
    lines.append("baseline: openai/gpt-4o")
    lines.append("policy:")
    lines.append(f"  max_gpus: {{a100-80gb: {8 * (2 + workloads // 3)}, l40s: {16 + 5 * workloads}}}")
    lines.append(f"  max_instances: {{aws/p5en.48xlarge: {4 + workloads // 2}}}")
    lines.append("  startup: 4min")
    lines.append("  engineers: {count: 1, usd_per_year: 180k}")
    lines.append("  tenancy: {max_share: 80%, correlation: 0.3, adapters_per_replica: 16}")
    lines.append("  cache_costs: {tier_usd_per_month: 150, vector_store_usd_per_month: 400}")
    return "\n".join(lines) + "\n"


def _workload(rng: np.random.Generator, k: int) -> str:
    models, least, most = SIZES[k % len(SIZES)]
    rate, shape = 10 ** rng.uniform(least, most), rng.choice(["business-hours", "consumer", "flat"])
    short, long, out = rng.integers(300, 2500), rng.integers(2600, 7000), rng.integers(60, 250)
    shares, adapted, waits = (rng.random(3) < (1 / 3, 1 / 2, 1 / 6)).tolist()
    lines = [
        f"  - name: w{k}",
        f"    models: [{rng.choice(models)}]",
        f"    forecast: {{requests_per_day: {rate:.0f}, shape: {shape}}}",
        f"    tokens: {{input: {{p50: {short}, p95: {long}}}, output: {{p50: {out}, p95: 700}}}}",
        f"    slo: {{ttft_p95: {rng.choice([1, 2, 4])}s, tpot_p95: {rng.choice([40, 60, 100])}ms}}",
        "    quality: {max_loss: 2%}",
        f"    caching: {{{_caching(rng, short)}}}",
        f"    spot: {{critical_share: {rng.choice([60, 80, 100])}%}}",
        f"    tenancy: {'shared' if shares else 'dedicated'}",
        *(["    adapter: 300MB"] if shares and adapted else []),
        *([f"    deadline: {rng.choice([4, 8, 24])}h"] if waits and not shares else []),
        f"    api: {'forbidden' if rng.random() < 1 / 3 else 'allowed'}",
    ]
    return "\n".join(lines)


def _caching(rng: np.random.Generator, short: int) -> str:
    """What requests have in common: prefixes for most workloads, templates and whole answers for some."""
    prefix, template, semantic = (rng.random(3) < (0.6, 0.25, 0.25)).tolist()
    kinds = [
        (prefix, f"shared_prefix_tokens: {short * rng.uniform(0.1, 0.3):.0f}"),
        (prefix, f"prefix_hit_rate: {rng.integers(50, 90)}%"),
        (template, f"template_tokens: {short * rng.uniform(0.1, 0.2):.0f}"),
        (template, f"template_hit_rate: {rng.integers(30, 70)}%"),
        (semantic, f"semantic_hit_rate: {rng.integers(5, 25)}%"),
    ]
    return ", ".join(text for has, text in kinds if has)


def default_time_limit_s(workloads: int) -> float:
    """A minute at 20 workloads with all that goes with it, growing to 400 s at 100 and 20 minutes at 300; five at 5,
    where one box is a tenth of the cost and a proof takes longest.
    """
    return float(np.interp(workloads, (5, 20, 100, 300), (300, 59.5, 400, 1200)))


def measured(workloads: int, seed: int, solver: Any, time_limit_s: float | None, textbook: bool) -> dict[str, Any]:
    started = time.monotonic()
    with PeakMemory() as memory:
        case = generated_case(workloads, seed)
        fleet = formulate(case, enumerate_candidates(case), slots_of(case))
        formulated = time.monotonic()
        limit_s = (time_limit_s or default_time_limit_s(workloads)) - (formulated - started)
        solution = solve_fleet(fleet, Options(solver=solver, time_limit_s=max(1.0, limit_s)))
    seconds = time.monotonic() - started
    result = {
        "workloads": workloads,
        "seed": seed,
        "solver": solver,
        "outcome": solution.outcome.value,
        "columns": solution.columns,
        "rounds": solution.rounds,
        "seconds": round(seconds, 2),
        "seconds_by_phase": {"formulating": round(formulated - started, 2)}
        | {phase: round(spent, 2) for phase, spent in solution.seconds.items()},
        "cost": solution.cost_usd_per_month,
        "bound": solution.bound_usd_per_month,
        "gap_frac": solution.gap_frac,
        "gpu_share_frac": _gpu_share(fleet, solution),
        "boxes_of_several_gpus_at_peak": _boxes_of_several_gpus(fleet, solution),
        "peak_mib": memory.peak_mib(),
    }
    if textbook:
        result["textbook"] = solve_textbook(fleet, solver, TIMES_OUR_SECONDS * seconds)
    return result


def _gpu_share(fleet: FleetProblem, solution: FleetSolution) -> float:
    """Instances as a share of all that the plan costs."""
    assert solution.best is not None
    others = sum(float(fleet.weight @ path.usd_per_h) for path in solution.best.paths)
    if any(path.self_hosted for path in solution.best.paths):
        others += fleet.team_usd_per_month
    return 1 - others / solution.best.cost_usd_per_month


def _boxes_of_several_gpus(fleet: FleetProblem, solution: FleetSolution) -> dict[str, int]:
    assert solution.best is not None
    boxes = {
        g: int((sum(bought.reserved.values()) + bought.on_demand + bought.spot).max())
        for g, bought in solution.best.purchases.items()
        if fleet.offers[g].box > 1
    }
    return {g: n for g, n in boxes.items() if n}


class PeakMemory:
    """The most that this process and the solvers it runs hold at one time, looked up now and then.

    What the system says of finished children will not do: it counts this process too, from which they are forked.
    """

    def __enter__(self) -> PeakMemory:
        self.mib, self._over = 0.0, threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            pids = _with_children(str(os.getpid()))
            self.mib = max(self.mib, sum(_resident_mib(Path("/proc") / pid / "status") for pid in pids))

    def peak_mib(self) -> int:
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return round(max(self.mib, own))


def _with_children(pid: str) -> list[str]:
    """A process, those that it started, and those that these did."""
    started: list[str] = []
    with contextlib.suppress(OSError):
        started = [child for of in Path(f"/proc/{pid}/task").glob("*/children") for child in of.read_text().split()]
    return [pid, *(one for child in started for one in _with_children(child))]


def _resident_mib(status: Path) -> float:
    """Nothing where a child is gone, or the system has no such file."""
    try:
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    except (OSError, StopIteration):
        return 0.0
    return int(line.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--solver", choices=("cbc", "highs"), default="cbc")
    parser.add_argument("--time-limit", type=float, default=None, metavar="SECONDS")
    parser.add_argument("--no-textbook", action="store_true", help="skip the textbook formulation")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    given = parser.parse_args()
    result = measured(given.workloads, given.seed, given.solver, given.time_limit, not given.no_textbook)
    if given.format == "json":
        print(json.dumps(result, indent=1))
    else:
        print("\n".join(f"{key:30} {value}" for key, value in result.items()))


if __name__ == "__main__":
    main()
