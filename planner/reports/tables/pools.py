"""The pools of a plan: what serves each workload, deployment by deployment, and how far the cost may move."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case.case import Workload
from planner.io.formatting import percent, span, usd
from planner.plan.plan import DeploymentPlan, Plan, PoolPlan, WorkloadPlan
from planner.reports.phrases import basis, throughput_error
from planner.reports.tables.plan import spot_replicas
from planner.reports.tables.table import BLANK, SCREEN, Row, Table
from planner.reports.tables.table import Column as C

NAMES_SHOWN = 3


def pools(plan: Plan) -> Table:
    """Pool by pool; the workloads that share one follow it, indented."""
    rows: list[Row] = []
    for pool in plan.pools:
        members = [w for w in plan.workloads if w.name in pool.workloads]
        rows += _pool_rows(plan, pool, members)
        if len(members) > 1:
            rows += [_member_row(w, members) for w in members]
    cached = SCREEN if any(w.caching != "none" for w in plan.workloads) else ()
    columns = (
        C("workload", "workload"), C("deployment", "deployment"), C("replicas", "replicas", "count"),
        C("spot", "spot", "count"), C("api_share_frac", "api", "share"), C("caching", "caching", formats=cached),
        C("utilization_frac", "load", "percent"), C("ttft", "TTFT", "number"), C("tpot", "TPOT when full", "number"),
        C("cost_usd_per_month", "$/month", "money"), C("usd_per_1m_tokens", "$/1M", "small price"),
        C("basis", "basis"),
    )  # fmt: skip
    return Table("pools", "Workloads", columns, tuple(rows), (*_waiting(plan), *_range(plan)))


def pool_name(pool: PoolPlan) -> str:
    """The workloads of a pool; of many the first."""
    names = pool.workloads[:NAMES_SHOWN]
    more = len(pool.workloads) - len(names)
    return " + ".join(names) + (f" + {more} more" if more else "")


def _pool_rows(plan: Plan, pool: PoolPlan, members: list[WorkloadPlan]) -> Iterator[Row]:
    """One for each deployment; the first has the money of all of them."""
    usd_per_month, tokens = sum(w.cost_usd_per_month for w in members), sum(w.tokens_per_month for w in members)
    money = (usd_per_month, 1e6 * usd_per_month / tokens if tokens else None)
    first = members[0]
    caching = _caching(first, pool) if len(members) == 1 else BLANK
    if not pool.deployments:
        nothing = (None, None, first.api_share_frac, caching, None, None, None)
        yield (pool_name(pool), first.api or "shed", *nothing, *money, "list price")
    of = [w for w in plan.case.workloads if w.name in pool.workloads]
    for k, d in enumerate(pool.deployments):
        name, api, cost = (BLANK, BLANK, (BLANK, BLANK)) if k else (pool_name(pool), first.api_share_frac, money)
        spot = spot_replicas(plan, d)
        counts = (span(d.replicas_by_slot), span(spot) if any(spot) else None)
        yield (name, _deployment(plan, pool, k), *counts, api, BLANK if k else caching, *_figures(d, of), *cost,
               basis(plan, d.deployment))  # fmt: skip


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


def _figures(planned: DeploymentPlan, of: list[Workload]) -> Row:
    """Load, TTFT and TPOT; of several workloads the tightest objectives."""
    d, ttft_s, tpot_s = planned.deployment, min(w.ttft.seconds for w in of), min(w.tpot.seconds for w in of)
    return (
        planned.utilization_frac,
        f"{d.ttft_ms / 1e3:.2f} of {ttft_s:g} s" if d.ttft_ms is not None else "may wait",
        f"{d.tpot_ms:.0f} of {tpot_s * 1e3:.0f} ms" if d.tpot_ms else "as measured",
    )


def _member_row(w: WorkloadPlan, members: list[WorkloadPlan]) -> Row:
    """A workload of a shared pool: what it pays of it."""
    share = w.gpu_cost_usd_per_month / sum(x.gpu_cost_usd_per_month for x in members)
    figures = (BLANK, BLANK, BLANK, _caching(w), BLANK, BLANK, BLANK, w.cost_usd_per_month, w.usd_per_1m_tokens)
    return (f"  {w.name}", f"  {percent(share)} of the load", *figures, BLANK)


def _waiting(plan: Plan) -> Iterator[str]:
    for w in plan.workloads:
        if w.moves:
            months = plan.slots[-1].month + 1
            moved = sum(3600 * plan.slots[m.from_slot].hours_per_month * m.requests_per_s for m in w.moves) / months
            longest = max((plan.slots[m.to_slot].hour - plan.slots[m.from_slot].hour) % 24 for m in w.moves)
            share = percent(moved / w.requests_per_month)
            yield f"{w.name}: {share} of its requests wait, up to {longest} h"


def _range(plan: Plan) -> Iterator[str]:
    """How far the cost moves if the throughput of each deployment is off by its own error."""
    off = throughput_error(plan)
    if not off or not plan.has("if_throughput_is_off"):
        return
    r = plan.if_throughput_is_off
    ends = [
        usd(x) if x is not None else "no plan inside the limits" for x in (r.low_usd_per_month, r.high_usd_per_month)
    ]
    money = f"{ends[0]} to {ends[1]} / month"
    money += ", penalties included" if any(w.shed_usd_per_request for w in plan.case.workloads) else ""
    yield f"if replicas are {off} faster or slower (the error of these figures): {money}"
