"""From a solution of the optimizer to the plan that people read."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version

from planner.candidates.enumerate import Candidates, Rejection
from planner.case.case import Case, Workload
from planner.case.costs import baseline_of, baseline_usd_per_month
from planner.case.horizon import Slot
from planner.case.quarters import held_usd_per_month
from planner.case.vendors import vendor_usd, vendors_bought_of
from planner.catalog.entries import TERM_MONTHS
from planner.optimization.binding import binding_limits
from planner.optimization.options import all_options, chosen_options
from planner.optimization.purchases import commitments, extra_at_p95, fleet_lines
from planner.optimization.serving import ServedPool, pool_plan, served_pools
from planner.optimization.throughput_range import cost_range
from planner.optimization.workloads import workload_plans
from planner.plan.plan import (
    Baseline,
    BaselineBill,
    CostRange,
    Costs,
    FleetLine,
    Plan,
    PoolPlan,
    Proof,
    RejectionRecord,
    SlotRecord,
    WorkloadPlan,
)
from problems.fleet_problem import FleetProblem
from problems.recipes.recipe import Recipe
from problems.recipes.singles import MOST_STEPS
from solvers.heuristics.incumbent import Incumbent
from solvers.search.fleet_solution import FleetSolution, Options

__all__ = ["assemble_plan", "with_all_options", "with_cost_range"]


def assemble_plan(
    case: Case,
    candidates: Candidates,
    fleet: FleetProblem,
    solution: FleetSolution,
    slots: tuple[Slot, ...],
    options: Options,
) -> Plan:
    """The plan with the options that were chosen alone; `with_all_options` and `with_cost_range` complete it."""
    best = solution.best
    assert best is not None
    lines = tuple(fleet_lines(case, fleet, best))
    served = served_pools(candidates, fleet, best)
    pools = tuple(pool_plan(fleet, pool) for pool in served)
    workloads = tuple(workload_plans(case, fleet, served, lines, slots))
    costs = _costs(case, lines, pools, workloads)
    tokens = sum(w.tokens_per_month for w in workloads)
    cost, penalty = costs.total(), sum(w.penalty_usd_per_month for w in workloads)
    objective = cost + penalty
    solution = replace(solution)  # should this plan not hold, it refutes nothing
    solution.withdraw_bound_refuted_by(objective)
    bound = min(solution.bound_usd_per_month, objective)
    return Plan(
        name=case.name,
        status=solution.outcome.value,  # type: ignore[arg-type]
        cost_usd_per_month=cost,
        held_usd_per_month=held_usd_per_month(case),
        penalty_usd_per_month=penalty,
        bound_usd_per_month=bound,
        gap_frac=max(0.0, (objective - bound) / objective) if objective else 0.0,
        usd_per_1m_tokens=1e6 * cost / tokens if tokens else 0.0,
        tokens_per_month=tokens,
        costs=costs,
        baseline=_baseline(case, cost, tokens, _baseline_usd(case, fleet, served, slots)),
        fleet=lines,
        pools=pools,
        workloads=workloads,
        commitments=tuple(commitments(case, best)),
        binding=tuple(binding_limits(case, fleet, best, served, lines)),
        spot_at_p95_usd_per_month=cost + sum(extra_at_p95(case, line) for line in lines),
        if_throughput_is_off=CostRange(mid_usd_per_month=objective),
        options=tuple(chosen_options(served, workloads)),
        rejected=tuple(RejectionRecord.of(r) for r in _not_in_use(candidates, served)),
        slots=tuple(SlotRecord(**vars(s)) for s in slots),
        proof=_proof(case, fleet, solution, options),
        assumptions=case.assumptions,
        case_hash=case.hash(),
        case=case,
        fleetplan_version=version("fleetplan"),
    )


def with_all_options(
    plan: Plan, candidates: Candidates, fleet: FleetProblem, best: Incumbent
) -> tuple[Plan, list[Recipe]]:
    """The plan with every way to serve each workload by itself beside the chosen one, and the cheapest of each."""
    found = all_options(candidates, fleet, served_pools(candidates, fleet, best), plan.workloads)
    return plan.model_copy(update={"options": tuple(found.records)}), found.cheapest


def with_cost_range(
    plan: Plan, candidates: Candidates, fleet: FleetProblem, best: Incumbent, time_limit_s: float | None
) -> Plan:
    """The plan with how far its cost moves if throughput is off: two more searches."""
    objective = plan.cost_usd_per_month + plan.penalty_usd_per_month
    found = cost_range(plan.case, candidates, fleet, best, objective, time_limit_s)
    return plan.model_copy(update={"if_throughput_is_off": found})


def _not_in_use(candidates: Candidates, pools: tuple[ServedPool, ...]) -> list[Rejection]:
    """Reasons against candidates, but for those that serve a part of the requests in this plan after all."""
    used = {(w, h.candidate.name) for pool in pools for w in pool.group.workloads for h in pool.hosted}
    return [r for r in candidates.rejected if (r.workload, r.candidate) not in used]


def _costs(
    case: Case, lines: tuple[FleetLine, ...], pools: tuple[PoolPlan, ...], workloads: tuple[WorkloadPlan, ...]
) -> Costs:
    def paid(*purchases: str) -> float:
        return float(sum(line.cost_usd_per_month for line in lines if line.purchase in purchases))

    hosted = any(pool.deployments for pool in pools)
    return Costs(
        reserved_usd_per_month=paid(*TERM_MONTHS),
        on_demand_usd_per_month=paid("on-demand"),
        spot_usd_per_month=paid("spot"),
        api_usd_per_month=float(sum(w.api_cost_usd_per_month for w in workloads)),
        caching_usd_per_month=float(sum(w.caching_cost_usd_per_month for w in workloads)),
        engineers_usd_per_month=case.engineers_usd_per_month if hosted else 0.0,
        vendors_usd_per_month=_vendors_usd(case, lines, workloads),
    )


def _vendors_usd(case: Case, lines: tuple[FleetLine, ...], workloads: tuple[WorkloadPlan, ...]) -> float | None:
    """Fixed costs of all vendors in use; None where the policy has none."""
    if case.limits.vendor_usd_per_month is None:
        return None
    in_use = vendors_bought_of(case, (line.offer for line in lines), (w.api for w in workloads if w.api))
    return float(sum(vendor_usd(case, vendor) for vendor in in_use))


def _baseline_usd(
    case: Case, fleet: FleetProblem, pools: tuple[ServedPool, ...], slots: tuple[Slot, ...]
) -> dict[str, float]:
    """Price of the requests of each workload that this plan answers, at its baseline."""
    return {
        w.name: baseline_usd_per_month(case, w, pool.answered_per_month(fleet, slots, w))
        for pool in pools
        for w in pool.group.members
    }


def _baseline(case: Case, cost: float, tokens: float, usd_of: dict[str, float]) -> Baseline:
    api, usd = case.apis[case.baseline], sum(usd_of.values())
    told = any(w.baseline is not None or not w.api_allowed for w in case.workloads)
    return Baseline(
        provider=api.provider,
        model=api.model,
        cost_usd_per_month=usd,
        usd_per_1m_tokens=1e6 * usd / tokens if tokens else 0.0,
        savings_usd_per_month=usd - cost,
        savings_frac=(usd - cost) / usd if usd else 0.0,
        source=api.source,
        date=api.date,
        by_workload=tuple(_baseline_bill(case, w, usd_of[w.name]) for w in case.workloads) if told else None,
    )


def _baseline_bill(case: Case, w: Workload, usd: float) -> BaselineBill:
    return BaselineBill(workload=w.name, api=baseline_of(case, w), cost_usd_per_month=usd, may_use_an_api=w.api_allowed)


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
        f"the cost{objective} of all fleets with {each} in a pool and an API for the rest, over the pools considered "
        f"({counted}), under the staffing rule, on the candidates listed{limits}"
    )


def _coarse_steps(fleet: FleetProblem) -> tuple[str, ...]:
    if any(recipe.between is not None for recipe in fleet.recipes):
        return (f"where more than {MOST_STEPS} replicas are needed, API overflow is tried in steps of several",)
    return ()
