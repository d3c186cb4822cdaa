"""The workloads of a plan as text: pool by pool, deployment by deployment, and how far the cost may move."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case.case import Workload
from planner.io.errors import escaped
from planner.io.formatting import percent, span, usd
from planner.plan.plan import DeploymentPlan, Plan, PoolPlan, WorkloadPlan
from planner.reports.plan_tables import spot_replicas
from planner.reports.text import columns

NAMES_SHOWN = 3
HEAD = (
    *("workload", "deployment", "replicas", "spot", "api"),
    *("load", "TTFT", "TPOT when full", "$/month", "$/1M", "basis"),
)
CACHING = 5
"""place of the column that is there where anything is cached"""


def workload_lines(plan: Plan) -> Iterator[str]:
    cached = any(w.caching != "none" for w in plan.workloads)
    yield from columns(workload_rows(plan), right="cdeghijk" if cached else "cdefghij")
    yield from (f"  {escaped(line)}" for line in workload_remarks(plan))


def workload_rows(plan: Plan) -> list[tuple[str, ...]]:
    """Pool by pool, a head first; those that share a pool follow it, indented."""
    cached = any(w.caching != "none" for w in plan.workloads)
    rows = [_with_caching(HEAD, "caching", cached)]
    for pool in plan.pools:
        told = [w for w in plan.workloads if w.name in pool.workloads]
        first, *others = _pool_rows(plan, pool, told)
        rows.append(_with_caching(first, _caching(told[0]) if len(told) == 1 else "", cached))
        rows += [_with_caching(row, "", cached) for row in others]
        if len(told) > 1:
            rows += [_with_caching(_member_row(plan, w), _caching(w), cached) for w in told]
    return rows


def workload_remarks(plan: Plan) -> Iterator[str]:
    yield from _waiting(plan)
    yield from _range(plan)


def pool_name(pool: PoolPlan) -> str:
    """The workloads of a pool; of many the first."""
    names = pool.workloads[:NAMES_SHOWN]
    more = len(pool.workloads) - len(names)
    return " + ".join(names) + (f" + {more} more" if more else "")


def _with_caching(row: tuple[str, ...], caching: str, cached: bool) -> tuple[str, ...]:
    return (*row[:CACHING], caching, *row[CACHING:]) if cached else row


def _caching(w: WorkloadPlan) -> str:
    found = f", {percent(w.cache_share_frac)} found" if w.cache_share_frac else ""
    return "-" if w.caching == "none" else w.caching + found


def _pool_rows(plan: Plan, pool: PoolPlan, told: list[WorkloadPlan]) -> Iterator[tuple[str, ...]]:
    """One for each deployment; the first has the money of all of them."""
    usd_per_month, tokens = sum(w.cost_usd_per_month for w in told), sum(w.tokens_per_month for w in told)
    money = (f"{usd_per_month:,.0f}", f"{1e6 * usd_per_month / tokens:.3f}" if tokens else "-")
    api = percent(told[0].api_share_frac) if told[0].api_share_frac else "-"
    if not pool.deployments:
        yield (pool_name(pool), told[0].api or "turned away", "-", "-", api, "-", "-", "-", *money, "list price")
    for k, d in enumerate(pool.deployments):
        name, cost = (pool_name(pool), money) if k == 0 else ("", ("", ""))
        figures = _figures(plan, pool, d, api if k == 0 else "")
        yield (name, _deployment(plan, pool, k), *figures, *cost, d.deployment.basis)


def _deployment(plan: Plan, pool: PoolPlan, k: int) -> str:
    d = pool.deployments[k].deployment
    text = f"{d.model} {d.quantization}  {d.gpus_per_replica} x {d.gpu}"
    if len(pool.deployments) == 1:
        return text
    return ("+ " if k else "") + text + f", {percent(_share_of_requests(plan, pool, k))} of requests"


def _share_of_requests(plan: Plan, pool: PoolPlan, k: int) -> float:
    """That the k-th deployment of a mix serves."""
    told = next(w for w in plan.workloads if w.name == pool.workloads[0])
    months = plan.slots[-1].month + 1
    others = [
        sum(3600 * plan.slots[f.slot].hours_per_month * sum(f.requests_per_s) for f in flows) / months
        for flows in told.deployment_flows
    ]
    if k:
        return others[k - 1] / told.requests_per_month
    elsewhere = told.api_share_frac + told.shed_share_frac + told.cache_share_frac
    return max(0.0, 1 - elsewhere - sum(others) / told.requests_per_month)


def _figures(plan: Plan, pool: PoolPlan, told: DeploymentPlan, api: str) -> tuple[str, ...]:
    """Replicas, spot, API, load, TTFT and TPOT; of several workloads the tightest objectives."""
    d, of = told.deployment, _workloads_of(plan, pool)
    spot = spot_replicas(plan, told)
    ttft_s, tpot_s = min(w.ttft.seconds for w in of), min(w.tpot.seconds for w in of)
    return (
        span(told.replicas_by_slot),
        span(spot) if any(spot) else "-",
        api,
        percent(told.utilization_frac),
        f"{d.ttft_ms / 1e3:.2f} of {ttft_s:g} s" if d.ttft_ms is not None else "may wait",
        f"{d.tpot_ms:.0f} of {tpot_s * 1e3:.0f} ms" if d.tpot_ms else "as measured",
    )


def _workloads_of(plan: Plan, pool: PoolPlan) -> list[Workload]:
    return [w for w in plan.case.workloads if w.name in pool.workloads]


def _member_row(plan: Plan, w: WorkloadPlan) -> tuple[str, ...]:
    """A workload of a shared pool: what it pays of it."""
    money = (f"{w.cost_usd_per_month:,.0f}", f"{w.usd_per_1m_tokens:.3f}")
    pool = [x for x in plan.workloads if x.pool == w.pool]
    share = w.gpu_cost_usd_per_month / sum(x.gpu_cost_usd_per_month for x in pool)
    return (f"  {w.name}", f"  {percent(share)} of the load", "", "", "", "", "", "", *money, "")


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
    hosted = [d.deployment for pool in plan.pools for d in pool.deployments]
    if not hosted or not plan.has("if_throughput_is_off"):
        return
    errors = sorted({d.error_frac for d in hosted})
    off = percent(errors[0]) if len(errors) == 1 else f"{percent(errors[0])} to {percent(errors[-1])}"
    r = plan.if_throughput_is_off
    ends = [
        usd(x) if x is not None else "no plan inside the limits" for x in (r.low_usd_per_month, r.high_usd_per_month)
    ]
    money = f"{ends[0]} to {ends[1]} / month"
    money += ", penalties included" if any(w.shed_usd_per_request for w in plan.case.workloads) else ""
    yield f"if replicas are {off} faster or slower (the error of these figures): {money}"
