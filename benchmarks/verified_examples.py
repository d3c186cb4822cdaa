"""Every example and lever file, planned and served for a week: do its promises hold?

    python benchmarks/verified_examples.py [FILE ...]

Prints a Markdown table. A plan that misses a promise is tightened and planned again, as `fleetplan plan --verify` does,
and stands in a second row.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import planner
from planner.plan.plan import Plan
from planner.studies.verified_plan import plan_and_verify
from planner.verification.records import Verification
from planner.verification.serving import AS_PLANNED, verify_plan
from solvers.search.fleet_solution import Options

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
HEAD = (
    "| file | $/month | requests | nearest to its promise | served (95% interval) | all targets | refused |\n"
    "|---|---:|---:|---|---|---:|---:|"
)


EVERY_HOUR = replace(AS_PLANNED, most_requests=None)


def row(name: str, plan: Plan, served: Verification) -> str:
    """The promise that is nearest to being missed, or is missed most."""
    promises = [(w.name, p) for w in served.workloads for p in w.promises]
    begin = f"| {name} | {plan.cost_usd_per_month:,.0f} | {served.requests:,} |"
    if not promises:
        return f"{begin} nothing is served on GPUs | | | |"
    workload, p = min(promises, key=lambda pair: pair[1].within_frac - pair[1].percentile)
    target = f"{p.target_s / 3600:g} h" if p.target_s >= 3600 else f"{1e3 * p.target_s:g} ms"
    requests = sum(w.served for w in served.workloads)
    refused = sum(w.refused for w in served.workloads) / max(1, requests)
    together = sum((w.all_within_frac or 0.0) * w.served for w in served.workloads) / max(1, requests)
    share = f"{p.within_frac:.1%} ({p.low_frac:.1%} to {p.high_frac:.1%}){'' if p.kept else ' missed'}"
    return f"{begin} {workload}: {p.what} {target} for {p.percentile:.0%} | {share} | {together:.1%} | {refused:.3%} |"


def main(files: list[Path]) -> None:
    print(HEAD, flush=True)
    for file in files:
        case = planner.load_case(file)
        plan = planner.plan_fleet(case, Options(time_limit_s=60.0))
        served = verify_plan(plan, EVERY_HOUR)
        print(row(file.stem, plan, served), flush=True)
        if not served.kept:
            mended = plan_and_verify(case, Options(time_limit_s=600.0), EVERY_HOUR)
            print(row(f"{file.stem}, `--verify`", mended, verify_plan(mended, EVERY_HOUR)), flush=True)


if __name__ == "__main__":
    main(
        [Path(name) for name in sys.argv[1:]] or [*sorted(EXAMPLES.glob("*.yaml")), *sorted(EXAMPLES.glob("levers/*"))]
    )
