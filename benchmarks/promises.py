"""Cases where promises are tight or fleets were too large: planned, served, and the smallest fleet that holds.

    python benchmarks/promises.py [NAME ...] [--seeds 5] [--requests 3000000] [--json FILE] [--folder DIR]

Every file of benchmarks/promises is planned and served for two weekdays, once for each seed, by a sample of hours where
there are more requests than `--requests`. `served` is the smallest
share of requests within the target that is nearest to being missed, and `hours` the smallest share of hours in which
it was kept. `enough` is the smallest peak of replicas that still keeps all promises with every seed, all hours having
the same share of their replicas, rounded up. A fleet is too large that still holds with 15% fewer replicas, or with one
fewer where there are less than four; that count is tried first, since fleets that are far too small take longest.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import planner
from planner.plan.plan import Plan
from planner.plan.serve_commands import engine_settings
from planner.verification.serving import ServeOptions, verify_plan
from solvers.search.fleet_solution import Options

CASES = Path(__file__).resolve().parent / "promises"
SECONDS = 30.0
MUST_NOT_HOLD, MANY = 0.85, 4
"""share of the replicas with which a fleet must not hold that has at least so many"""
HEAD = (
    "| case | $/month | deployments | step budget | peak replicas | promise | served | hours | holds | enough |\n"
    "|---|---:|---|---:|---:|---|---:|---:|---|---:|"
)


@dataclass(frozen=True)
class Served:
    """What the worst of several seeds made of a fleet."""

    promise: str
    within_frac: float
    hours_frac: float
    holds: bool


@dataclass(frozen=True)
class Row:
    name: str
    usd_per_month: float
    deployments: str
    budgets: str
    peak: int
    served: Served
    enough: int

    def __str__(self) -> str:
        s = self.served
        return (
            f"| {self.name} | {self.usd_per_month:,.0f} | {self.deployments} | {self.budgets} | {self.peak} "
            f"| {s.promise} | {s.within_frac:.1%} | {s.hours_frac:.0%} | {'yes' if s.holds else '**no**'} "
            f"| {self.enough or 'more'} |"
        )


def judged(plan: Plan, options: ServeOptions, seeds: range) -> Served:
    runs = [verify_plan(plan, replace(options, seed=seed)) for seed in seeds]
    promises = [(w.name, p) for run in runs for w in run.workloads for p in w.promises]
    name, nearest = min(promises, key=lambda pair: pair[1].within_frac - pair[1].percentile)
    return Served(
        promise=f"{name} {nearest.what}",
        within_frac=nearest.within_frac,
        hours_frac=min((p.hours_kept_frac for _, p in promises if p.hours_kept_frac is not None), default=1.0),
        holds=all(run.kept for run in runs),
    )


def fewest(peak: int, holds: Callable[[int], bool]) -> int:
    """The smallest peak at which it holds, by halving after the first that would be too few; it does at the whole."""
    low, high, tried = 0, peak, too_large(peak)
    while high - low > 1:
        low, high = (low, tried) if holds(tried) else (tried, high)
        tried = (low + high) // 2
    return high


def too_large(peak: int) -> int:
    """The most replicas at which a fleet that was planned with a peak must not hold."""
    return math.floor(MUST_NOT_HOLD * peak + 1e-9) if peak >= MANY else peak - 1


def row(file: Path, seeds: int, tried: ServeOptions) -> Row:
    plan = planner.plan_fleet(planner.load_case(file), Options(time_limit_s=SECONDS))
    told = [(pool, d) for pool in plan.pools for d in pool.deployments]
    peak = max((sum(each) for each in zip(*(d.replicas_by_slot for _, d in told), strict=True)), default=0)
    served = judged(plan, tried, range(1, seeds + 1))

    def holds(replicas: int) -> bool:
        some = replace(tried, replica_frac=replicas / peak - 1e-9)
        return judged(plan, some, range(1, 2)).holds and judged(plan, some, range(2, seeds + 1)).holds

    return Row(
        name=file.stem,
        usd_per_month=plan.cost_usd_per_month,
        deployments=", ".join(
            f"{d.deployment.model} {d.deployment.quantization} {d.deployment.gpus_per_replica} x {d.deployment.gpu}"
            for _, d in told
        ),
        budgets=", ".join(f"{engine_settings(plan, pool, d.deployment).batched_tokens:,}" for pool, d in told),
        peak=int(peak),
        served=served,
        enough=fewest(int(peak), holds) if served.holds and peak else 0,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=3_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, default=CASES)
    args = parser.parse_args()
    tried = ServeOptions(days=2, most_requests=args.requests)
    print(HEAD, flush=True)
    rows = []
    for file in sorted(args.folder.glob("*.yaml")):
        if not args.names or file.stem in args.names:
            rows.append(row(file, args.seeds, tried))
            print(rows[-1], flush=True)
            if args.json:
                args.json.write_text(json.dumps([asdict(r) for r in rows], indent=1))


if __name__ == "__main__":
    main()
