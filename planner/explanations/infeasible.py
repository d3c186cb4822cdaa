"""Why no fleet can do it: what nothing can serve, and the least that must be moved, each limit by itself.

Where no single limit makes room, a smallest set of them that does so together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from planner.candidates.enumerate import Candidates
from planner.case.apis import is_of_another_model, is_too_small
from planner.case.case import Case
from planner.case.changes import one_after_the_other, with_limits
from planner.explanations.limits import every_limit
from planner.explanations.relaxations import Infeasible, Limit, Relaxation, Shedding
from planner.io.formatting import usd
from planner.optimization.replan import Replanner, to_compare
from problems.fleet_problem import FleetProblem
from solvers.backends.clock import Stopped, why_stopped
from solvers.search.fleet_solution import Options, Outcome, Progress

MOST_CASES = 100
"""that are tried for all remedies together"""
LEAST_GAP_FRAC = 0.01
"""what a remedy would cost need not be known better"""
REASONS_SHOWN = 8


def explain_infeasibility(
    case: Case,
    candidates: Candidates,
    fleet: FleetProblem,
    options: Options,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    proved: bool = True,
) -> Infeasible:
    """What cannot be served, and every remedy that is known to work, the cheapest first.

    `proved`: that there is no plan, and not only that none was found within the limits of the search.
    """
    options = replace(options, gap_frac=max(options.gap_frac, LEAST_GAP_FRAC))
    total_s = options.time_limit_s
    replanner = Replanner(case, to_compare(options), on_progress, total_s=total_s, most_cases=MOST_CASES, fleet=fleet)
    unserved: list[str] = []
    remedies: list[Relaxation] = []
    stopped = ""
    try:
        unserved += _unserved(replanner, case)
        limits = _most_promising_first(every_limit(case, unserved), unserved)
        for k, limit in enumerate(limits):
            with replanner.part(f"limit {k + 1} of {len(limits)}: "):
                remedy = limit.smallest(replanner, case, proved)
            remedies += [remedy] if remedy is not None else []
        if not remedies:
            for remedy in _together(replanner, case, unserved):
                remedies.append(remedy)  # one by one, so that an interruption keeps the first
    except Stopped as stop:
        stopped = why_stopped(stop)
    remedies.sort(key=lambda r: r.cost_usd_per_month)
    reasons = [] if proved else ["The search stopped before it found a plan or proved that there is none."]
    reasons += [line for w in unserved for line in _nothing_serves(w, case, candidates)]
    return Infeasible(
        case.name, (*reasons, *remedies_in_words(remedies, stopped or replanner.stopped)), proved, tuple(remedies)
    )


def remedies_in_words(remedies: list[Relaxation], stopped: str = "") -> list[str]:
    lines = []
    if remedies:
        lines.append(
            "This change would be enough:"
            if len(remedies) == 1
            else "Any one of these changes would be enough, cheapest first:"
        )
        lines += [f"  {_line(r)}" for r in remedies]
    elif not stopped:
        lines.append("No change of limits makes this case feasible: add options to the menu or reduce the demand.")
    if stopped:
        lines.append(f"Not everything was tried: {stopped}.")
    return lines


def _line(remedy: Relaxation) -> str:
    doubt = "" if remedy.proved_smallest else "; a smaller change may be enough"
    return f"{remedy.said}: a plan then costs {usd(remedy.cost_usd_per_month)} a month{doubt}"


def _most_promising_first(limits: list[Limit], unserved: list[str]) -> list[Limit]:
    """Workloads that nothing can serve come before all else."""
    return sorted(limits, key=lambda limit: limit.workload not in unserved)


def _together(replanner: Replanner, case: Case, unserved: list[str]) -> Iterator[Relaxation]:
    """Smallest sets of limits that make room together: what is least negotiable is kept, then what is most."""
    limits = [limit for limit in every_limit(case, unserved) if not isinstance(limit, Shedding)]
    if replanner.possible(_loosened(case, limits), "every limit loosened").best is None:
        return
    first = _needed(replanner, case, limits, limits[::-1])
    yield from _moved_together(replanner, case, first)
    second = _needed(replanner, case, limits, limits)
    if {need.limit.key for need in second} != {need.limit.key for need in first}:
        yield from _moved_together(replanner, case, second)


@dataclass(frozen=True)
class _Need:
    """A limit without moving which no plan was found, however far others are moved."""

    limit: Limit
    proved: bool


def _needed(replanner: Replanner, case: Case, limits: list[Limit], put_back: list[Limit]) -> list[_Need]:
    """All limits loosened, then put back one by one where there still is a plan: those that cannot be."""
    loose, needs = limits, {}
    for k, limit in enumerate(put_back):
        others = [x for x in loose if x is not limit]
        with replanner.part(f"several limits, {k + 1} of {len(put_back)}: "):
            found = replanner.possible(_loosened(case, others), f"without moving {limit.key}")
        if found.best is not None:
            loose = others
        else:
            needs[limit.key] = found.outcome is Outcome.INFEASIBLE
    return [_Need(limit, needs[limit.key]) for limit in loose]


def _moved_together(replanner: Replanner, case: Case, needed: list[_Need]) -> Iterator[Relaxation]:
    """Each of them moved as little as will do, one after the other."""
    moved: list[Relaxation] = []
    for k, need in enumerate(needed):
        around = one_after_the_other([*(r.change for r in moved), *(x.limit.loosest for x in needed[k + 1 :])])(case)
        remedy = need.limit.smallest(replanner, around, need.proved)
        if remedy is None:
            return
        moved.append(remedy)
    yield Relaxation(
        limit=" and ".join(r.limit for r in moved),
        said=", and ".join(r.said for r in moved),
        change=one_after_the_other([r.change for r in moved]),
        cost_usd_per_month=moved[-1].cost_usd_per_month,
        proved_smallest=all(r.proved_smallest for r in moved),
    )


def _loosened(case: Case, limits: list[Limit]) -> Case:
    return one_after_the_other([limit.loosest for limit in limits])(case)


def _unserved(replanner: Replanner, case: Case) -> list[str]:
    """Workloads that nothing on the menu can serve, however much of it there is."""
    unlimited = with_limits(
        budget_usd_per_month=None, budget_usd=None, budget_months=None,
        power_kw=None, max_gpus={}, max_instances={},
        max_gpu_types=None, max_vendors=None, api_per_minute=None,
    )(case)  # fmt: skip
    doubtful = [w for w in case.workloads if not replanner.fleet.recipes_of[w.name]]
    found = [
        (w.name, replanner.possible(unlimited.model_copy(update={"workloads": (w,)}), f"{w.name} by itself"))
        for w in doubtful
    ]
    return [name for name, solution in found if solution.outcome is Outcome.INFEASIBLE]


def _nothing_serves(workload: str, case: Case, candidates: Candidates) -> list[str]:
    """The reasons that came up for a workload, one line each kind of reason."""
    spec = next(w for w in case.workloads if w.name == workload)
    api = "its requests may not go to an API" if not spec.api_allowed else "no API is on the menu"
    if spec.api_allowed and case.menu_apis:
        own = [name for name in case.menu_apis if not is_of_another_model(case, spec, name)]
        small = all(is_too_small(case, spec, name) for name in own)
        lower_tier = "every API on the menu sells a model of a lower tier, which may not serve it"
        api = lower_tier if small else "no API on the menu accepts requests of this length"
        api = api if own else "no API on the menu sells one of its models"
    lines = [f"'{workload}': nothing on the menu can serve it, and {api}."]
    first = {r.reason: r for r in reversed(candidates.rejected) if r.workload == workload}
    return lines + [f"  {r}" for r in list(first.values())[:REASONS_SHOWN]]
