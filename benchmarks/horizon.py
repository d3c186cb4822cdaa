"""How horizons scale: N workloads over some quarters and scenarios, 48 slots each, their gap, time and memory.

python benchmarks/horizon.py --workloads 5 --seed 0 --time-limit 600
python benchmarks/horizon.py --workloads 3 --quarters 2 --scenarios 2 --time-limit 100

Demand steps up with each quarter by what makes 20%, 50% or 80% in the year. What is timed is the plan alone, without
what it is compared with afterwards. Seconds of all cores are those to compare on a machine with other work: blocks are
searched in processes of their own. 5 workloads over 4 quarters and 3 scenarios end at a gap of 2.9% in 806 of them,
504 by the clock (docs/evidence/formulation.md, Measured).
"""

from __future__ import annotations

import argparse
import resource
import time
from datetime import date

from scale import PeakMemory, generated_case

from planner.case.case import Case, Future, RiskMeasure, Scenario
from planner.optimization.horizon_work import HorizonWork
from solvers.search.fleet_solution import Options
from solvers.search.horizon.horizon_search import HorizonSearch

QUARTERS_OF_A_YEAR = 4
SLOW, MIDDLE, FAST = ("slow", 0.3, 0.2), ("middle", 0.5, 0.5), ("fast", 0.2, 0.8)
"""scenario, its weight, and growth in the year"""
SCENARIOS = {1: (MIDDLE,), 2: (SLOW, FAST), 3: (SLOW, MIDDLE, FAST)}


def horizon_case(workloads: int, seed: int, quarters: int, how_many: int, risk: RiskMeasure = "expected") -> Case:
    case = generated_case(workloads, seed)
    total = sum(weight for _, weight, _ in SCENARIOS[how_many])
    scenarios = tuple(
        Scenario(
            name=name,
            probability_frac=weight / total,
            month_factors={
                w.name: tuple((1 + growth) ** (q / QUARTERS_OF_A_YEAR) for q in range(quarters) for _ in range(3))
                for w in case.workloads
            },
        )
        for name, weight, growth in SCENARIOS[how_many]
    )
    return case.model_copy(
        update={"future": Future(starts=date(2027, 1, 1), quarters=quarters, scenarios=scenarios, risk=risk)}
    )


def _cpu_s() -> float:
    """What this process used of the cores, and those that it started and that have ended."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--workloads", type=int, default=5)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--quarters", type=int, default=4)
    arguments.add_argument("--scenarios", type=int, choices=(1, 2, 3), default=3, help="middle; slow and fast; all")
    arguments.add_argument("--risk", choices=("expected", "worst-case"), default="expected", help="what is minimized")
    arguments.add_argument("--solver", default="cbc")
    arguments.add_argument("--gap", type=float, default=0.005, help="stop when proved within this share")
    arguments.add_argument("--time-limit", type=float, default=600.0, help="seconds")
    given = arguments.parse_args()
    started = time.monotonic()
    with PeakMemory() as memory:
        work = HorizonWork(horizon_case(given.workloads, given.seed, given.quarters, given.scenarios, given.risk))
        problem = work.problem()
        formulated = time.monotonic() - started
        left_s = max(1.0, given.time_limit - formulated)
        search = HorizonSearch(problem, Options(solver=given.solver, gap_frac=given.gap, time_limit_s=left_s))
        solution = search.run()
    seconds = time.monotonic() - started
    slots = sum(len(b.fleet.slot_hours) for b in problem.blocks)
    what = f"{given.workloads} workloads, seed {given.seed}, {given.risk}"
    print(f"{what}: {len(problem.blocks)} blocks, {slots} slots")
    print(f"  ${solution.usd:,.0f} over the horizon, bound ${solution.bound_usd:,.0f}, gap {solution.gap_frac:.2%}")
    print(f"  {seconds:.0f} s, of which formulating {formulated:.0f} s; {_cpu_s():.0f} s of all cores; "
          f"{solution.rounds} rounds; {memory.peak_mib():,.0f} MiB")  # fmt: skip
    now = sum(n for n, c in zip(solution.signed, problem.commitments, strict=True) if c.quarter == 0)
    later = sum(solution.signed) - now
    print(f"  {now} commitments signed now, {later} later, of all scenarios")


if __name__ == "__main__":
    main()
