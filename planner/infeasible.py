"""Why no fleet can do it, and which limit to move."""

from __future__ import annotations

import math
from dataclasses import replace

from planner.candidates import Candidates
from planner.case import Case
from planner.complaints import Infeasible
from problems.fleet import Fleet
from solvers.fleet_solver import Options, solve_fleet
from solvers.incumbent import cost_by_month

BRIEFLY = Options(gap_frac=0.5, node_limit=500, time_limit_s=20.0)


def explain_infeasibility(case: Case, candidates: Candidates, fleet: Fleet) -> Infeasible:
    """Workloads that nothing can serve; else each kind of limit relaxed by itself."""
    alone = tuple(
        line for w in fleet.workloads if not fleet.recipes_of[w] for line in _nothing_serves(w, case, candidates)
    )
    if alone:
        return Infeasible(case.name, alone)
    critical = any(w.critical_share_frac > 0 for w in case.workloads)
    if critical and not any(option != "spot" for option in case.purchase):
        why = "Spot alone cannot carry load that must survive a reclaim: add on-demand to menu.purchase."
        return Infeasible(case.name, (why,))
    relaxed = {
        "the GPU limits (policy.max_gpus)": replace(fleet, max_gpus={}),
        "the instance limits (policy.max_instances)": replace(
            fleet, offers={k: replace(o, max_instances=None) for k, o in fleet.offers.items()}
        ),
    }
    helps = [
        name for name, changed in relaxed.items() if _has_a_limit(name, fleet) and solve_fleet(changed, BRIEFLY).best
    ]
    remedies = [f"Without {name} there is a plan: raise them." for name in helps]
    remedies = _budget_that_would_do(fleet) + remedies
    if remedies:
        return Infeasible(case.name, tuple(remedies))
    why = "No single limit is to blame: relax several of budget, GPU and instance limits, purchase options or SLOs."
    return Infeasible(case.name, (why,))


def _budget_that_would_do(fleet: Fleet) -> list[str]:
    """What the dearest month of the cheapest plan costs, where the budget is the only thing in its way."""
    if fleet.budget_usd_per_month is None:
        return []
    free = solve_fleet(replace(fleet, budget_usd_per_month=None)).best
    if free is None:
        return []
    needed = float(cost_by_month(fleet, free.paths, free.purchases).max())
    return [
        f"Raise the budget (policy.budget_usd_per_month) from ${fleet.budget_usd_per_month:,.0f} "
        f"to ${math.ceil(needed):,} a month."
    ]


def _has_a_limit(name: str, fleet: Fleet) -> bool:
    if "max_gpus" in name:
        return bool(fleet.max_gpus)
    return any(o.max_instances is not None for o in fleet.offers.values())


def _nothing_serves(workload: str, case: Case, candidates: Candidates) -> list[str]:
    """The reasons that came up for a workload, one line each kind of reason."""
    spec = next(w for w in case.workloads if w.name == workload)
    api = "its requests may not go to an API" if not spec.api_allowed else "no API is on the menu"
    lines = [f"'{workload}': nothing on the menu can serve it, and {api}."]
    seen: set[str] = set()
    for r in candidates.rejected:
        if r.workload == workload and r.reason not in seen:
            seen.add(r.reason)
            lines.append(f"  {r}")
    return lines
