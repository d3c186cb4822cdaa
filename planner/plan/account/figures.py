"""From decisions to the plan that people read: every figure is worked out here and nowhere else."""

from __future__ import annotations

from planner.case.slots import refused_per_month
from planner.plan.account.account import SAME_USD, Account, per_1m
from planner.plan.account.flows import Served
from planner.plan.account.limits import limits_reached
from planner.plan.account.power import power_of
from planner.plan.account.replicas import deployment_record
from planner.plan.account.showback import showback_of
from planner.plan.decisions import PoolDecision
from planner.plan.plan import (
    CostRange,
    DeploymentPlan,
    Plan,
    PoolPlan,
    Proof,
    RejectionRecord,
    SlotRecord,
    Status,
    WorkloadPlan,
)


def plan_of(
    account: Account,
    *,
    status: Status,
    bound_usd: float,
    proof: Proof,
    rejected: tuple[RejectionRecord, ...],
    fleetplan_version: str,
    long_terms: bool = True,
) -> Plan:
    """The plan of some decisions, with what a search said of them; options and ranges come later.

    Of a quarter of a horizon, which decides about all terms, `long_terms` are not estimated.
    """
    case, money = account.case, account.money
    objective = money.objective_usd
    workloads = tuple(_workload(account, s) for s in account.served)
    return Plan(
        name=case.name,
        status=status,
        cost_usd_per_month=money.cost_usd,
        held_usd_per_month=money.held_usd,
        penalty_usd_per_month=money.penalty_usd,
        bound_usd_per_month=bound_usd,
        gap_frac=max(0.0, (objective - bound_usd) / objective) if objective > SAME_USD else 0.0,
        usd_per_1m_tokens=per_1m(money.cost_usd, money.tokens),
        tokens_per_month=money.tokens,
        costs=money.costs,
        baseline=money.baseline,
        fleet=tuple(money.line(bought) for bought in account.decided.purchases),
        pools=tuple(_pool(account, pool) for pool in account.decided.pools),
        workloads=workloads,
        commitments=money.commitments,
        allowances=money.cover.records,
        bought=money.bought,
        power=power_of(account),
        showback=showback_of(account, workloads),
        long_terms=money.long_terms if long_terms else None,
        binding=limits_reached(account),
        spot_at_p95_usd_per_month=money.cost_usd + money.spot_rise_usd,
        if_throughput_is_off=CostRange(mid_usd_per_month=objective),
        options=(),
        rejected=rejected,
        slots=tuple(SlotRecord(**vars(s)) for s in account.slots),
        proof=proof,
        assumptions=case.assumptions,
        case_hash=case.hash(),
        case=case,
        fleetplan_version=fleetplan_version,
    )


def worked_out_again(plan: Plan, account: Account) -> Plan:
    """The same plan with every figure that follows from its case and its decisions worked out anew.

    What a search found, and what is said of how it was made, stays as it is.
    """
    again = plan_of(
        account,
        status=plan.status,
        bound_usd=plan.bound_usd_per_month,
        proof=plan.proof,
        rejected=plan.rejected,
        fleetplan_version=plan.fleetplan_version,
        long_terms=plan.long_terms is not None,
    )
    mid, ends = again.if_throughput_is_off.mid_usd_per_month, plan.if_throughput_is_off
    return again.model_copy(
        update={
            "if_throughput_is_off": ends.model_copy(update={"mid_usd_per_month": mid}),
            "options": plan.options,
            "assumed_limits": plan.assumed_limits,
            "simpler": plan.simpler,
            "left_out": plan.left_out,
            "verified": plan.verified,
            "sampled": plan.sampled,
            "operation": plan.operation,
            "studies": plan.studies,
        }
    )


def _pool(account: Account, pool: PoolDecision) -> PoolPlan:
    deployments = range(len(pool.deployments))
    return PoolPlan(
        key=pool.key,
        workloads=pool.workloads,
        deployments=tuple(_deployment(account, pool, k) for k in deployments),
    )


def _deployment(account: Account, pool: PoolDecision, k: int) -> DeploymentPlan:
    d, load = pool.deployments[k], account.load(pool, k)
    running = account.a_month(d.replicas_by_slot)
    return DeploymentPlan(
        deployment=deployment_record(account, pool, k),
        replicas_by_slot=d.replicas_by_slot,
        firm_replicas_by_slot=d.firm_replicas_by_slot,
        load_by_slot=tuple(load.tolist()),
        utilization_frac=account.a_month(load) / running if running else 0.0,
    )


def _workload(account: Account, s: Served) -> WorkloadPlan:
    w, decided, pool, money = s.w, s.decided, account.pool_of(s.w.name), account.money
    requests, tokens = account.requests_per_month(w), account.tokens_per_month(s)
    shed = account.sent_per_month(s, decided.shed_flows)
    gpu_usd = money.gpu_usd(s)
    api_usd, caching_usd = account.a_month(money.api_usd_per_h(s)), account.a_month(money.caching_usd_per_h(s))
    usd = gpu_usd + api_usd + caching_usd
    limit = w.length_limit
    return WorkloadPlan(
        name=w.name,
        pool=pool.key,
        caching=decided.caching,
        models=tuple(d.model for d in pool.deployments),
        quantizations=tuple(d.quantization for d in pool.deployments),
        api=decided.api,
        api_flows=decided.api_flows,
        shed_flows=decided.shed_flows,
        deployment_flows=decided.deployment_flows,
        moves=decided.moves,
        requests_per_month=requests,
        longest_request_tokens=limit.tokens if limit else None,
        refused_share_frac=limit.refused_frac if limit and limit.refused_frac else None,
        refused_requests_per_month=refused_per_month(w, account.slots) or None,
        tokens_per_month=tokens,
        cache_share_frac=1 - account.requests_per_month(s.seen) / requests,
        api_share_frac=account.sent_per_month(s, decided.api_flows) / requests,
        shed_share_frac=shed / requests,
        shed_requests_per_month=shed,
        penalty_usd_per_month=money.penalty_usd_of(s),
        gpu_cost_usd_per_month=gpu_usd,
        api_cost_usd_per_month=api_usd,
        caching_cost_usd_per_month=caching_usd,
        cost_usd_per_month=usd,
        usd_per_1m_tokens=per_1m(usd, tokens),
    )
