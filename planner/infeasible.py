"""Why no fleet can do it, and which limit to move."""

from __future__ import annotations

from dataclasses import replace

from planner.candidates import Candidates
from planner.case import Case
from problems.fleet import Fleet
from solvers.column_generation import generate


class Infeasible(Exception):
    """No fleet meets the demand, the SLOs and the limits. `reasons` say which of them to move."""

    def __init__(self, name: str, reasons: tuple[str, ...], proved: bool = True) -> None:
        self.name, self.reasons, self.proved = name, reasons, proved
        super().__init__("\n".join(reasons))


def explain_infeasibility(case: Case, candidates: Candidates, fleet: Fleet) -> Infeasible:
    """Workloads that nothing can serve; else each kind of limit relaxed by itself."""
    alone = tuple(
        line for w in fleet.workloads if not fleet.recipes_of[w] for line in _nothing_serves(w, case, candidates)
    )
    if alone:
        return Infeasible(case.name, alone)
    relaxed = {
        "the budget (policy.budget_usd_per_month)": replace(fleet, budget_usd_per_month=None),
        "the GPU limits (policy.max_gpus)": replace(fleet, max_gpus={}),
        "the instance limits (policy.max_instances)": replace(
            fleet, offers={k: replace(o, max_instances=None) for k, o in fleet.offers.items()}
        ),
    }
    helps = [name for name, changed in relaxed.items() if _has_a_limit(name, fleet) and generate(changed).feasible]
    if helps:
        return Infeasible(case.name, tuple(f"Without {name} there is a plan: raise it." for name in helps))
    why = "No single limit is to blame: relax several of budget, GPU and instance limits, purchase options or SLOs."
    return Infeasible(case.name, (why,))


def _has_a_limit(name: str, fleet: Fleet) -> bool:
    if "budget" in name:
        return fleet.budget_usd_per_month is not None
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
