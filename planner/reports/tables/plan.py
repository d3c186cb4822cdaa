"""The tables of a plan, each defined once; text, Markdown, pages and CSV are renderings of them."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case.support import support_of
from planner.case.vendors import VENDOR_NAMES, vendor_usd
from planner.io.formatting import percent, span
from planner.plan.plan import DeploymentPlan, Plan, PoolPlan, WorkloadPlan
from planner.plan.serve_commands import serve_commands
from planner.reports import phrases
from planner.reports.tables.answers import elsewhere, to_sign, what_moves_it
from planner.reports.tables.options import options, rejected
from planner.reports.tables.prices import prices
from planner.reports.tables.quality import quality
from planner.reports.tables.studies import study_tables
from planner.reports.tables.table import DATA, FILES, PEOPLE, Row, Table
from planner.reports.tables.table import Column as C

NAMES = (
    *("fleet", "fleet_by_hour", "workloads", "deployments", "replicas_by_hour", "costs", "options", "rejected"),
    *("binding", "commitments", "assumptions", "prices", "commands", "to_sign", "what_moves_it", "elsewhere"),
    "quality",
    *("waterfall", "volumes", "crossings", "providers"),
)
"""of all tables; the last four are there where a study was made"""
MONEY = C("cost_usd_per_month", "$/month", "money")
WORKLOAD = C("workload", "workload")


def tables_of(plan: Plan) -> tuple[Table, ...]:
    """All tables of a plan, then those of its studies, always in the same order."""
    return (
        fleet(plan),
        fleet_by_hour(plan),
        workloads(plan),
        deployments(plan),
        replicas_by_hour(plan),
        costs(plan),
        options(plan),
        rejected(plan),
        binding(plan),
        commitments(plan),
        assumptions(plan),
        prices(plan),
        commands(plan),
        to_sign(plan),
        what_moves_it(plan),
        elsewhere(plan),
        quality(plan),
        *study_tables(plan),
    )


def fleet(plan: Plan) -> Table:
    """Instances by how they are bought; people read what else is paid for below them."""
    months = plan.slots[-1].month + 1
    rows: list[Row] = []
    for f in plan.fleet:
        hours = sum(n * s.hours_per_month for n, s in zip(f.instances_by_slot, plan.slots, strict=True)) / months
        rows.append(
            (f.offer, f.gpu, f.gpus_per_instance, f"{f.gpus_per_instance} x {f.gpu}", f.purchase,
             span(f.instances_by_slot), min(f.instances_by_slot), max(f.instances_by_slot), hours, f.usd_per_h,
             f.starts_per_month, f.starting_usd_per_month, f.cost_usd_per_month, _share(f.cost_usd_per_month, plan),
             f.price_source, f.price_date, f.price_assumption)
        )  # fmt: skip
    columns = (
        C("offer", "fleet"), C("gpu", "gpu", formats=DATA), C("gpus_per_instance", "gpus each", "count", DATA),
        C("gpus", "gpu", formats=PEOPLE), C("purchase", "buy"), C("instances", "instances", "count", PEOPLE),
        C("instances_min", "fewest", "count", DATA), C("instances_max", "most", "count", DATA),
        C("instance_hours_per_month", "instance-h/month", "count", DATA), C("price_usd_per_h", "$/h each", "price"),
        C("starts_per_month", "starts/month", "count", DATA),
        C("starting_usd_per_month", "starting $/month", "money", DATA), MONEY,
        C("share_of_cost_frac", "% of cost", "percent"), C("price_source", "price from", formats=DATA),
        C("price_date", "price of", formats=DATA), C("price_assumption", "assumed", formats=DATA),
    )  # fmt: skip
    others = (
        (what, None, None, None, why, *[None] * 7, cost, _share(cost, plan), None, None, None)
        for what, why, cost in _also_paid(plan)
    )
    notes = tuple(phrases.fleet_notes(plan))
    return Table("fleet", "Fleet", columns, tuple(rows), notes, people_rows=(*rows, *others))


def _also_paid(plan: Plan) -> Iterator[tuple[str, str | None, float]]:
    """APIs, caches and engineers: what, why, and USD a month."""
    for w in plan.workloads:
        if w.api:
            yield w.api, f"api, {percent(w.api_share_frac)} of {w.name}", w.api_cost_usd_per_month
        if w.caching_cost_usd_per_month:
            yield "caches", f"{w.caching} of {w.name}", w.caching_cost_usd_per_month
    if plan.costs.engineers_usd_per_month:
        yield "engineers", None, plan.costs.engineers_usd_per_month
    for kind, name in plan.vendors_in_use():
        cost = vendor_usd(plan.case, (kind, name))
        if cost:
            yield name, f"fixed cost of the {VENDOR_NAMES[kind]}", cost


def fleet_by_hour(plan: Plan) -> Table:
    rows = tuple(
        (s.month + 1, s.day, s.hour, s.hours_per_month, f.offer, f.purchase, f.instances_by_slot[t])
        for t, s in enumerate(plan.slots)
        for f in plan.fleet
    )
    columns = (*_slot_columns(), C("offer", "instance"), C("purchase", "buy"), C("instances", "instances", "count"))
    return Table("fleet_by_hour", "Fleet by hour", columns, rows)


def replicas_by_hour(plan: Plan) -> Table:
    rows = tuple(
        (s.month + 1, s.day, s.hour, s.hours_per_month, pool.key, d.deployment.key, d.replicas_by_slot[t],
         d.firm_replicas_by_slot[t], d.load_by_slot[t])
        for t, s in enumerate(plan.slots)
        for pool in plan.pools
        for d in pool.deployments
    )  # fmt: skip
    columns = (
        *_slot_columns(), C("pool", "pool"), C("deployment", "deployment"), C("replicas", "replicas", "count"),
        C("firm_replicas", "not on spot", "count"), C("load_replicas", "busy", "number"),
    )  # fmt: skip
    return Table("replicas_by_hour", "Replicas by hour", columns, rows)


def workloads(plan: Plan) -> Table:
    """A row for each workload; what serves it, deployment by deployment, is the table of pools."""
    shed = FILES if any(w.shed_share_frac for w in plan.workloads) else DATA
    refused = FILES if any(w.refused_share_frac for w in plan.workloads) else DATA
    columns = (
        WORKLOAD, C("pool", "pool", formats=DATA), C("deployments", "deployments"), C("caching", "caching"),
        C("api", "api", formats=DATA), C("requests_per_month", "requests/month", "tokens", DATA),
        C("tokens_per_month", "tokens/month", "tokens"), C("cache_share_frac", "from cache", "percent", DATA),
        C("api_share_frac", "api", "percent"), C("shed_share_frac", "shed", "percent", shed),
        C("refused_share_frac", "refused", "percent", refused),
        C("gpu_usd_per_month", "gpu $/month", "money", DATA), C("api_usd_per_month", "api $/month", "money", DATA),
        C("caching_usd_per_month", "caches $/month", "money", DATA), MONEY,
        C("usd_per_1m_tokens", "$/1M tokens", "small price"),
        C("penalty_usd_per_month", "penalty $/month", "money", DATA),
    )  # fmt: skip
    return Table("workloads", "Workloads", columns, tuple(_workload_row(plan, w) for w in plan.workloads))


def _workload_row(plan: Plan, w: WorkloadPlan) -> Row:
    pool = plan.pool_of(w.name)
    return (
        w.name, w.pool, " + ".join(d.name for d in pool.deployments) or None, w.caching, w.api,
        w.requests_per_month, w.tokens_per_month, w.cache_share_frac, w.api_share_frac, w.shed_share_frac,
        w.refused_share_frac,
        w.gpu_cost_usd_per_month, w.api_cost_usd_per_month, w.caching_cost_usd_per_month, w.cost_usd_per_month,
        w.usd_per_1m_tokens, w.penalty_usd_per_month,
    )  # fmt: skip


def deployments(plan: Plan) -> Table:
    columns = (
        C("pool", "pool"), C("deployment", "deployment"), C("model", "model"), C("quantization", "quantization"),
        C("gpu", "gpu"), C("gpus_per_replica", "gpus each", "count"), C("parallelism", "parallelism"),
        C("offer", "instance"), C("replicas_min", "fewest", "count"), C("replicas_max", "most", "count"),
        C("spot_replicas_max", "most on spot", "count"), C("utilization_frac", "load", "percent"),
        C("requests_in_flight", "in flight", "count"), C("ttft_ms", "TTFT ms", "count"),
        C("ttft_objective_ms", "of ms", "count"), C("tpot_ms", "TPOT ms", "count"),
        C("tpot_objective_ms", "of ms", "count"), C("e2e_ms", "E2E ms", "count"), C("bound_by", "bound by"),
        C("quality_loss_frac", "quality loss", "percent"), C("basis", "basis"),
        C("support", "engine support"), C("error_frac", "error", "percent"),
    )  # fmt: skip
    rows = tuple(_deployment_row(plan, pool, d) for pool in plan.pools for d in pool.deployments)
    return Table("deployments", "Deployments", columns, rows)


def _deployment_row(plan: Plan, pool: PoolPlan, planned: DeploymentPlan) -> Row:
    d, of = planned.deployment, [w for w in plan.case.workloads if w.name in pool.workloads]
    return (
        pool.key, d.key, d.model, d.quantization, d.gpu, d.gpus_per_replica, d.variant.parallelism, d.offer,
        min(planned.replicas_by_slot),
        max(planned.replicas_by_slot), max(spot_replicas(plan, planned)), planned.utilization_frac,
        d.requests_in_flight, d.ttft_ms, 1e3 * min(w.ttft.seconds for w in of), d.tpot_ms,
        1e3 * min(w.tpot.seconds for w in of), d.e2e_ms,
        d.bound_by, d.quality_loss_frac, d.basis,
        support_of(plan.case, d.variant).verdict, d.error_frac,
    )  # fmt: skip


def spot_replicas(plan: Plan, planned: DeploymentPlan) -> list[int]:
    """Replicas that run on spot, at most, by slot: they need not be firm, and so much spot is bought of their offer."""
    d = planned.deployment
    bought = [f for f in plan.fleet if f.offer == d.offer and f.purchase == "spot"]
    return [
        min(n - firm, sum(f.instances_by_slot[t] * f.gpus_per_instance for f in bought) // d.gpus_per_replica)
        for t, (n, firm) in enumerate(zip(planned.replicas_by_slot, planned.firm_replicas_by_slot, strict=True))
    ]


def costs(plan: Plan) -> Table:
    told = ((key, usd) for key, usd in plan.costs if usd is not None)
    parts = [(key.removesuffix("_usd_per_month").replace("_", " "), usd) for key, usd in told]
    rows = tuple((name, usd, _share(usd, plan)) for name, usd in parts)
    rows += (("total", plan.cost_usd_per_month, _share(plan.cost_usd_per_month, plan)),)
    columns = (C("part", "part"), MONEY, C("share_of_cost_frac", "% of cost", "percent"))
    return Table("costs", "Costs", columns, rows)


def binding(plan: Plan) -> Table:
    rows = tuple((b.limit, b.name, b.value, b.hours_per_month) for b in plan.binding)
    columns = (
        C("limit", "limit"), C("name", "of", missing="the whole fleet"), C("value", "value", "count"),
        C("hours_per_month", "h/month", "count"),
    )  # fmt: skip
    return Table("binding", "Limits reached", columns, rows)


def commitments(plan: Plan) -> Table:
    rows = tuple((c.offer, c.term, c.instances, c.upfront_usd, c.beyond_horizon_usd) for c in plan.commitments)
    columns = (
        C("offer", "instance"), C("term", "term"), C("instances", "instances", "count"),
        C("upfront_usd", "$ at signing", "money"), C("owed_after_the_quarter_usd", "$ owed after the quarter", "money"),
    )  # fmt: skip
    return Table("commitments", "Commitments", columns, rows)


def assumptions(plan: Plan) -> Table:
    """What the demand file does not say; people read what several workloads have alike once."""
    rows = tuple((a.key, a.value, a.why) for a in plan.assumptions)
    columns = (C("key", "key"), C("value", "value"), C("why", "why"))
    return Table("assumptions", "Assumptions", columns, rows, people_rows=tuple(_assumed_alike(plan)))


def _assumed_alike(plan: Plan) -> Iterator[tuple[str, str, str]]:
    names = [w.name for w in plan.workloads]
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for a in plan.assumptions:
        owner = next((n for n in names if a.key.startswith(f"workloads.{n}.")), None)
        key = a.key.removeprefix(f"workloads.{owner}.") if owner else a.key
        grouped.setdefault((key, a.value, a.why), []).extend([owner] if owner else [])
    for (key, value, why), owners in grouped.items():
        every = "all workloads" if len(owners) == len(names) > 1 else ", ".join(owners)
        yield f"{key} ({every})" if owners else key, value, why


def commands(plan: Plan) -> Table:
    rows = tuple(
        (c.pool, c.deployment, " ".join(c.environment) or None, c.command, "; ".join(c.notes) or None)
        for c in serve_commands(plan)
    )
    columns = (
        C("pool", "pool"), C("deployment", "deployment"), C("environment", "environment", "code"),
        C("command", "command", "code"), C("notes", "notes"),
    )  # fmt: skip
    return Table("commands", "Commands", columns, rows)


def _slot_columns() -> tuple[C, ...]:
    return (C("month", "month", "count"), C("day", "day"), C("hour", "hour", "count"),
            C("hours_per_month", "h/month", "number"))  # fmt: skip


def _share(usd_per_month: float, plan: Plan) -> float | None:
    return usd_per_month / plan.cost_usd_per_month if plan.cost_usd_per_month else None
