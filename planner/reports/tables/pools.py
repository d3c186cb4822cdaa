"""The pools of a plan: what serves each workload, deployment by deployment, and how far the cost may move."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case.case import Workload
from planner.io.formatting import percent, span
from planner.plan.plan import DeploymentPlan, Plan, PoolPlan, WorkloadPlan
from planner.reports.phrases import basis
from planner.reports.table import BLANK, SCREEN, Cell, Cells, Table
from planner.reports.table import Column as C
from planner.reports.tables.plan import spot_replicas

NAMES_SHOWN = 3


def pools(plan: Plan) -> Table:
    """Pool by pool; the workloads that share one follow it, indented."""
    rows: list[Cells] = []
    for pool in plan.pools:
        members = [w for w in plan.workloads if w.name in pool.workloads]
        rows += _pool_rows(plan, pool, members)
        if len(members) > 1:
            rows += [_member_row(w, members) for w in members]
    columns = (
        C("workload", "workload"),
        C("deployment", "deployment"),
        C("replicas", "replicas", "count"),
        C("spot", "spot", "count"),
        C("api_share_frac", "api", "share"),
        C("caching", "caching", formats=SCREEN if any(w.caching != "none" for w in plan.workloads) else ()),
        C("utilization_frac", "load", "percent"),
        C("ttft", "TTFT", "number"),
        C("tpot", "TPOT when full", "number"),
        C("cost_usd_per_month", "$/month", "money"),
        C("usd_per_1m_tokens", "$/1M", "small price"),
        C("basis", "basis"),
    )
    return Table("pools", "Workloads", columns, tuple(rows), tuple(_waiting(plan)))


def pool_name(pool: PoolPlan) -> str:
    """The workloads of a pool; of many the first."""
    names = pool.workloads[:NAMES_SHOWN]
    more = len(pool.workloads) - len(names)
    return " + ".join(names) + (f" + {more} more" if more else "")


def _pool_rows(plan: Plan, pool: PoolPlan, members: list[WorkloadPlan]) -> Iterator[Cells]:
    """One for each deployment; the first has the money of all of them."""
    usd_per_month, tokens = sum(w.cost_usd_per_month for w in members), sum(w.tokens_per_month for w in members)
    first = members[0]
    whole = Cells(
        workload=pool_name(pool),
        api_share_frac=first.api_share_frac,
        caching=_caching(first, pool) if len(members) == 1 else BLANK,
        cost_usd_per_month=usd_per_month,
        usd_per_1m_tokens=1e6 * usd_per_month / tokens if tokens else None,
    )
    if not pool.deployments:
        yield Cells(whole, deployment=first.api or "shed", basis="list price")
    of = [w for w in plan.case.workloads if w.name in pool.workloads]
    for k, d in enumerate(pool.deployments):
        spot = spot_replicas(plan, d)
        yield Cells(
            dict.fromkeys(whole, BLANK) if k else whole,
            deployment=_deployment(plan, pool, k),
            replicas=span(d.replicas_by_slot),
            spot=span(spot) if any(spot) else None,
            basis=basis(plan, d.deployment),
            **_figures(d, of),
        )


def _caching(w: WorkloadPlan, pool: PoolPlan | None = None) -> str | None:
    hits = f", {percent(w.cache_share_frac)} found" if w.cache_share_frac else ""
    caches = [d.deployment.prefix_cache for d in pool.deployments] if pool is not None else []
    if caches and caches[0] is not None:
        hits += f", {percent(caches[0].found_fracs[0])} of prompts found"
    return None if w.caching == "none" else w.caching + hits


def _deployment(plan: Plan, pool: PoolPlan, k: int) -> str:
    d = pool.deployments[k].deployment
    text = f"{d.model} {d.quantization}  {d.variant.gpus}"
    if len(pool.deployments) == 1:
        return text
    return ("+ " if k else "") + text + f", {percent(_share_of_requests(plan, pool, k))} of requests"


def _share_of_requests(plan: Plan, pool: PoolPlan, k: int) -> float:
    """What the k-th deployment of a mix serves."""
    first = next(w for w in plan.workloads if w.name == pool.workloads[0])
    months = plan.slots[-1].month + 1
    others = [
        sum(3600 * plan.slots[f.slot].hours_per_month * sum(f.requests_per_s) for f in flows) / months
        for flows in first.deployment_flows
    ]
    if k:
        return others[k - 1] / first.requests_per_month
    elsewhere = first.api_share_frac + first.shed_share_frac + first.cache_share_frac
    return max(0.0, 1 - elsewhere - sum(others) / first.requests_per_month)


def _figures(planned: DeploymentPlan, of: list[Workload]) -> dict[str, Cell]:
    """Load, TTFT and TPOT; of several workloads the tightest objectives."""
    d, ttft_s, tpot_s = planned.deployment, min(w.ttft.seconds for w in of), min(w.tpot.seconds for w in of)
    return {
        "utilization_frac": planned.utilization_frac,
        "ttft": f"{d.ttft_ms / 1e3:.2f} of {ttft_s:g} s" if d.ttft_ms is not None else "may wait",
        "tpot": f"{d.tpot_ms:.0f} of {tpot_s * 1e3:.0f} ms" if d.tpot_ms else "as measured",
    }


def _member_row(w: WorkloadPlan, members: list[WorkloadPlan]) -> Cells:
    """A workload of a shared pool: what it pays of it."""
    share = w.gpu_cost_usd_per_month / sum(x.gpu_cost_usd_per_month for x in members)
    blank = ("replicas", "spot", "api_share_frac", "utilization_frac", "ttft", "tpot", "basis")
    return Cells(
        dict.fromkeys(blank, BLANK),
        workload=f"  {w.name}",
        deployment=f"  {percent(share)} of the load",
        caching=_caching(w),
        cost_usd_per_month=w.cost_usd_per_month,
        usd_per_1m_tokens=w.usd_per_1m_tokens,
    )


def _waiting(plan: Plan) -> Iterator[str]:
    for w in plan.workloads:
        if w.moves:
            months = plan.slots[-1].month + 1
            moved = sum(3600 * plan.slots[m.from_slot].hours_per_month * m.requests_per_s for m in w.moves) / months
            longest = max((plan.slots[m.to_slot].hour - plan.slots[m.from_slot].hour) % 24 for m in w.moves)
            share = percent(moved / w.requests_per_month)
            yield f"{w.name}: {share} of its requests wait, up to {longest} h"
