"""From a solution of the optimizer to the plan that people read."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib.metadata import version

from planner.candidates.enumerate import Candidates
from planner.candidates.rejection import Rejection
from planner.case.case import Case
from planner.optimization.options import all_options, chosen_options
from planner.optimization.serving import ServedPool, decisions, served_pools
from planner.optimization.throughput_range import cost_range
from planner.plan.account.account import Account
from planner.plan.account.figures import plan_of
from planner.plan.plan import Plan, Proof, RejectionRecord
from problems.fleet_problem import FleetProblem
from problems.recipes.recipe import Recipe
from problems.recipes.singles import MOST_STEPS
from solvers.heuristics.incumbent import Incumbent
from solvers.search.fleet_solution import FleetSolution, Options

SAME_OBJECTIVE = 1e-6
"""share by which what the solver minimized may differ from what the account of its plan comes to"""


class ContradictoryPlan(RuntimeError):
    """A defect of fleetplan: the solver and the account of its plan disagree about what it costs."""


def assemble_plan(
    case: Case,
    candidates: Candidates,
    fleet: FleetProblem,
    solution: FleetSolution,
    options: Options,
    long_terms: bool = True,
) -> Plan:
    """The plan with the options that were chosen alone; `with_all_options` and `with_cost_range` complete it."""
    best = solution.best
    assert best is not None
    served = served_pools(candidates, fleet, best)
    account = Account(case, decisions(case, fleet, best, served))
    objective = account.money.objective_usd
    if not math.isclose(objective, best.objective, rel_tol=SAME_OBJECTIVE, abs_tol=SAME_OBJECTIVE):
        raise ContradictoryPlan(
            f"its account adds up to ${objective:,.6f} a month, the solver's to ${best.objective:,.6f}"
        )
    solution = replace(solution)  # should this plan not hold, it refutes nothing
    solution.withdraw_bound_refuted_by(objective)
    plan = plan_of(
        account,
        status=solution.outcome.value,  # type: ignore[arg-type]
        bound_usd=min(solution.bound_usd_per_month, objective),
        proof=_proof(case, fleet, solution, options),
        rejected=tuple(RejectionRecord.of(r) for r in _not_in_use(candidates, served)),
        fleetplan_version=version("fleetplan"),
        long_terms=long_terms,
    )
    return plan.model_copy(update={"options": tuple(chosen_options(served, plan.workloads))})


def with_all_options(
    plan: Plan, candidates: Candidates, fleet: FleetProblem, best: Incumbent
) -> tuple[Plan, list[Recipe]]:
    """The plan with every way to serve each workload by itself beside the chosen one, and the cheapest of each."""
    found = all_options(candidates, fleet, served_pools(candidates, fleet, best), plan.workloads)
    return plan.model_copy(update={"options": tuple(found.records)}), found.cheapest


def with_cost_range(plan: Plan, candidates: Candidates, fleet: FleetProblem, best: Incumbent, options: Options) -> Plan:
    """The plan with how far its cost moves if throughput is off: two more searches, as close as the plan's own."""
    objective = plan.objective_usd_per_month
    found = cost_range(plan.case, candidates, fleet, best, objective, options)
    return plan.model_copy(update={"if_throughput_is_off": found})


def _not_in_use(candidates: Candidates, pools: tuple[ServedPool, ...]) -> list[Rejection]:
    """Reasons against candidates, but for those that serve a part of the requests in this plan after all."""
    used = {(w, h.candidate.name) for pool in pools for w in pool.group.workloads for h in pool.hosted}
    return [r for r in candidates.rejected if (r.workload, r.candidate) not in used]


def _proof(case: Case, fleet: FleetProblem, solution: FleetSolution, options: Options) -> Proof:
    return Proof(
        covers=_covers(case, fleet, solution.not_covered),
        solver=solution.solver or options.solver,
        rounds=solution.rounds,
        columns=solution.columns,
        servings_left_out=solution.servings_left_out,
        notes=(*solution.notes, *_coarse_steps(fleet)),
    )


def _covers(case: Case, fleet: FleetProblem, not_covered: str | None) -> str:
    """In words, no more than what was searched."""
    pools = fleet.pools.values()
    most, shared = max(pool.max_deployments for pool in pools), sum(len(pool.workloads) > 1 for pool in pools)
    each = f"at most {most} deployments of one model variant" if most > 1 else "one deployment"
    objective = " and penalties" if any(w.shed_usd_per_request for w in case.workloads) else ""
    counted = f"{len(fleet.pools) - shared} of one workload with one choice of caching"
    counted += f", {shared} of several that share replicas" if shared else ""
    limits = f"; {not_covered}" if not_covered else ""
    return (
        f"the cost{objective} of all fleets that serve each pool with {each} and an API for the rest, over the pools "
        f"considered ({counted}), under the staffing rule, with the candidates listed{limits}"
    )


def _coarse_steps(fleet: FleetProblem) -> tuple[str, ...]:
    if any(recipe.between is not None for recipe in fleet.recipes):
        return (
            f"where more than {MOST_STEPS} replicas are needed, API overflow is tried in steps of several replicas",
        )
    return ()
