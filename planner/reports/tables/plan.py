"""The tables of a plan, each defined once; text, Markdown, pages and CSV are renderings of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.case.case import Assumption, Workload
from planner.case.support import support_of
from planner.case.vendors import VENDOR_NAMES, vendor_usd
from planner.io.formatting import percent, span
from planner.plan.account.account import account_of
from planner.plan.plan import DeploymentPlan, FleetLine, Plan, PoolPlan, SlotRecord
from planner.plan.serve_commands import serve_commands
from planner.reports import phrases
from planner.reports.table import DATA, EVERY, FILES, PEOPLE, Cells, Table
from planner.reports.table import Column as C
from planner.reports.tables.answers import elsewhere, to_sign, what_moves_it
from planner.reports.tables.bought import bought
from planner.reports.tables.options import options, rejected
from planner.reports.tables.prices import prices
from planner.reports.tables.quality import quality
from planner.reports.tables.showback import showback_table
from planner.reports.tables.studies import study_tables

NAMES = (
    *("fleet", "fleet_by_hour", "workloads", "deployments", "replicas_by_hour", "costs", "options", "rejected"),
    *("binding", "commitments", "assumptions", "prices", "commands", "to_sign", "what_moves_it", "elsewhere"),
    *("quality", "power", "allowances", "bought", "showback"),
    *("waterfall", "volumes", "crossings", "providers"),
)
"""of all tables; the last four are there where a study was made"""
MONEY = C("cost_usd_per_month", "$/month", "money")
SLOT = (
    C("month", "month", "count", get=lambda at: at.slot.month + 1),
    C("day", "day", get=lambda at: at.slot.day),
    C("hour", "hour", "count", get=lambda at: at.slot.hour),
    C("hours_per_month", "h/month", "number", get=lambda at: at.slot.hours_per_month),
)


def tables_of(plan: Plan) -> tuple[Table, ...]:
    """All tables of a plan, then those of its studies, always in the same order."""
    makers = (fleet, fleet_by_hour, workloads, deployments, replicas_by_hour, costs, options, rejected, binding,
              commitments, assumptions, prices, commands, to_sign, what_moves_it, elsewhere, quality,
              power, allowances, bought, showback)  # fmt: skip
    return (*(make(plan) for make in makers), *study_tables(plan))


def fleet(plan: Plan) -> Table:
    """Instances by how they are bought; people read what else is paid for below them."""
    months = plan.slots[-1].month + 1

    def hours(f: FleetLine) -> float:
        return sum(n * s.hours_per_month for n, s in zip(f.instances_by_slot, plan.slots, strict=True)) / months

    columns = (
        C("offer", "fleet"),
        C("gpu", "gpu", formats=DATA),
        C("gpus_per_instance", "gpus each", "count", DATA),
        C("gpus", "gpu", formats=PEOPLE, get=lambda f: f"{f.gpus_per_instance} x {f.gpu}"),
        C("purchase", "buy", "way to buy"),
        C("instances", "instances", "count", PEOPLE, get=lambda f: span(f.instances_by_slot)),
        C("instances_min", "fewest", "count", DATA, get=lambda f: min(f.instances_by_slot)),
        C("instances_max", "most", "count", DATA, get=lambda f: max(f.instances_by_slot)),
        C("instance_hours_per_month", "instance-h/month", "count", DATA, get=hours),
        C("price_usd_per_h", "$/h each", "price", get=lambda f: f.usd_per_h),
        C("starts_per_month", "starts/month", "count", DATA),
        C("starting_usd_per_month", "starting $/month", "money", DATA),
        MONEY,
        C("share_of_cost_frac", "% of cost", "percent", get=lambda f: _share(f.cost_usd_per_month, plan)),
        C("price_source", "price from", formats=DATA),
        C("price_date", "price of", formats=DATA),
        C("price_assumption", "assumed", formats=DATA),
    )
    people = (*plan.fleet, *_also_paid(plan))
    return Table("fleet", "Fleet", columns, plan.fleet, tuple(phrases.fleet_notes(plan)), people)


def _also_paid(plan: Plan) -> Iterator[Cells]:
    """APIs, caches, engineers and vendors: what, why, and USD a month."""

    def paid(what: str, why: str | None, usd: float) -> Cells:
        return Cells(offer=what, purchase=why, cost_usd_per_month=usd, share_of_cost_frac=_share(usd, plan))

    for w in plan.workloads:
        if w.api:
            yield paid(w.api, f"api, {percent(w.api_share_frac)} of {w.name}", w.api_cost_usd_per_month)
        if w.caching_cost_usd_per_month:
            yield paid("caches", f"{w.caching} of {w.name}", w.caching_cost_usd_per_month)
    if plan.costs.engineers_usd_per_month:
        yield paid("engineers", None, plan.costs.engineers_usd_per_month)
    for kind, name in account_of(plan).money.vendors:
        if cost := vendor_usd(plan.case, (kind, name)):
            yield paid(name, f"fixed cost of the {VENDOR_NAMES[kind]}", cost)


@dataclass(frozen=True)
class _FleetAt:
    """Instances in a slot."""

    slot: SlotRecord
    t: int
    line: FleetLine


def fleet_by_hour(plan: Plan) -> Table:
    columns = (
        *SLOT,
        C("offer", "instance", get=lambda at: at.line.offer),
        C("purchase", "buy", "way to buy", get=lambda at: at.line.purchase),
        C("instances", "instances", "count", get=lambda at: at.line.instances_by_slot[at.t]),
    )
    records = tuple(_FleetAt(s, t, f) for t, s in enumerate(plan.slots) for f in plan.fleet)
    return Table("fleet_by_hour", "Fleet by hour", columns, records)


@dataclass(frozen=True)
class _ReplicasAt:
    """Replicas of a deployment in a slot."""

    slot: SlotRecord
    t: int
    pool: PoolPlan
    planned: DeploymentPlan


def replicas_by_hour(plan: Plan) -> Table:
    columns = (
        *SLOT,
        C("pool", "pool", get=lambda at: at.pool.key),
        C("deployment", "deployment", get=lambda at: at.planned.deployment.key),
        C("replicas", "replicas", "count", get=lambda at: at.planned.replicas_by_slot[at.t]),
        C("firm_replicas", "not on spot", "count", get=lambda at: at.planned.firm_replicas_by_slot[at.t]),
        C("load_replicas", "busy", "number", get=lambda at: at.planned.load_by_slot[at.t]),
    )
    records = tuple(
        _ReplicasAt(s, t, p, d) for t, s in enumerate(plan.slots) for p in plan.pools for d in p.deployments
    )
    return Table("replicas_by_hour", "Replicas by hour", columns, records)


def workloads(plan: Plan) -> Table:
    """A row for each workload; what serves it, deployment by deployment, is the table of pools."""
    shed = FILES if any(w.shed_share_frac for w in plan.workloads) else DATA
    refused = FILES if any(w.refused_share_frac for w in plan.workloads) else DATA
    columns = (
        C("workload", "workload", get=lambda w: w.name),
        C("pool", "pool", formats=DATA),
        C("deployments", "deployments",
          get=lambda w: " + ".join(d.name for d in plan.pool_of(w.name).deployments) or None),
        C("caching", "caching"),
        C("api", "api", formats=DATA),
        C("requests_per_month", "requests/month", "tokens", DATA),
        C("tokens_per_month", "tokens/month", "tokens"),
        C("cache_share_frac", "from cache", "percent", DATA),
        C("api_share_frac", "api", "percent"),
        C("shed_share_frac", "shed", "percent", shed),
        C("refused_share_frac", "refused", "percent", refused),
        C("gpu_usd_per_month", "gpu $/month", "money", DATA, get=lambda w: w.gpu_cost_usd_per_month),
        C("api_usd_per_month", "api $/month", "money", DATA, get=lambda w: w.api_cost_usd_per_month),
        C("caching_usd_per_month", "caches $/month", "money", DATA, get=lambda w: w.caching_cost_usd_per_month),
        MONEY,
        C("usd_per_1m_tokens", "$/1M tokens", "small price"),
        C("penalty_usd_per_month", "penalty $/month", "money", DATA),
    )  # fmt: skip
    return Table("workloads", "Workloads", columns, plan.workloads)


@dataclass(frozen=True)
class _Deployed:
    """A deployment of a pool, with the workloads that it serves."""

    pool: PoolPlan
    planned: DeploymentPlan
    workloads: list[Workload]


def deployments(plan: Plan) -> Table:
    def of(name: str, title: str, kind: str = "text") -> C:
        """What the record of the deployment says under this name."""
        return C(name, title, kind, get=lambda x: getattr(x.planned.deployment, name))

    drafting = any(d.deployment.speculation for pool in plan.pools for d in pool.deployments)
    columns = (
        C("pool", "pool", get=lambda x: x.pool.key),
        C("deployment", "deployment", get=lambda x: x.planned.deployment.key),
        of("model", "model"),
        of("quantization", "quantization"),
        of("gpu", "gpu"),
        of("gpus_per_replica", "gpus each", "count"),
        C("parallelism", "parallelism", get=lambda x: x.planned.deployment.variant.parallelism),
        C("speculation", "drafts", formats=EVERY if drafting else DATA, get=lambda x: x.planned.deployment.speculation),
        of("offer", "instance"),
        C("replicas_min", "fewest", "count", get=lambda x: min(x.planned.replicas_by_slot)),
        C("replicas_max", "most", "count", get=lambda x: max(x.planned.replicas_by_slot)),
        C("spot_replicas_max", "most on spot", "count", get=lambda x: max(spot_replicas(plan, x.planned))),
        C("utilization_frac", "load", "percent", get=lambda x: x.planned.utilization_frac),
        of("requests_in_flight", "in flight", "count"),
        of("ttft_ms", "TTFT ms", "count"),
        C("ttft_objective_ms", "of ms", "count", get=lambda x: 1e3 * min(w.ttft.seconds for w in x.workloads)),
        of("tpot_ms", "TPOT ms", "count"),
        C("tpot_objective_ms", "of ms", "count", get=lambda x: 1e3 * min(w.tpot.seconds for w in x.workloads)),
        of("e2e_ms", "E2E ms", "count"),
        of("e2e_per_token_ms", "E2E ms per token", "count"),
        of("bound_by", "bound by"),
        of("quality_loss_frac", "quality loss", "percent"),
        of("basis", "basis"),
        C("support", "engine support", get=lambda x: support_of(plan.case, x.planned.deployment.variant).verdict),
        of("error_frac", "error", "percent"),
    )
    records = tuple(
        _Deployed(pool, d, [w for w in plan.case.workloads if w.name in pool.workloads])
        for pool in plan.pools
        for d in pool.deployments
    )
    return Table("deployments", "Deployments", columns, records)


def spot_replicas(plan: Plan, planned: DeploymentPlan) -> list[int]:
    """Replicas that run on spot, at most, by slot: they need not be firm, and so much spot is bought of their offer."""
    d = planned.deployment
    bought = [f for f in plan.fleet if f.offer == d.offer and f.purchase == "spot"]
    return [
        min(n - firm, sum(f.instances_by_slot[t] * f.gpus_per_instance for f in bought) // d.gpus_per_replica)
        for t, (n, firm) in enumerate(zip(planned.replicas_by_slot, planned.firm_replicas_by_slot, strict=True))
    ]


def costs(plan: Plan) -> Table:
    parts = [(key.removesuffix("_usd_per_month").replace("_", " "), usd) for key, usd in plan.costs if usd is not None]
    parts += [("held", plan.held_usd_per_month)] if plan.held_usd_per_month else []
    rows = tuple((name, usd, _share(usd, plan)) for name, usd in (*parts, ("total", plan.total_usd_per_month)))
    columns = (C("part", "part"), MONEY, C("share_of_cost_frac", "% of cost", "percent"))
    return Table("costs", "Costs", columns, rows)


def showback(plan: Plan) -> Table:
    """What each team costs, to the cent; people read the sum below."""
    return showback_table("Showback by team", plan.showback or (), "usd_per_month", {"held": "held, paid anyway $"})


def binding(plan: Plan) -> Table:
    columns = (
        C("limit", "limit"),
        C("name", "of", missing="the whole fleet"),
        C("value", "value", "count"),
        C("hours_per_month", "h/month", "count"),
    )
    return Table("binding", "Limits reached", columns, plan.binding)


def commitments(plan: Plan) -> Table:
    owed = C("owed_after_the_quarter_usd", "$ owed after the quarter", "money", get=lambda c: c.beyond_horizon_usd)
    columns = (
        C("offer", "instance"),
        C("term", "term", "way to buy"),
        C("instances", "instances", "count"),
        C("upfront_usd", "$ at signing", "money"),
        owed,
    )
    return Table("commitments", "Commitments", columns, plan.commitments)


def allowances(plan: Plan) -> Table:
    """Savings plans and provisioned units: what they cost, cover and save, and how much of them is used."""
    columns = (
        C("name", "savings plan or units"),
        C("amount", "amount", formats=PEOPLE, get=lambda a: phrases.allowance_amount(plan, a)),
        C("units", "units", "number", DATA),
        C("held", "held", formats=DATA, get=lambda a: str(a.held).lower()),
        C("usd_per_month", "$/month", "money"),
        C("covered_usd_per_month", "$/month covered", "money"),
        C("saved_usd_per_month", "$/month saved", "money"),
        C("used_frac", "% used", "percent"),
        C("covered_frac", "% covered", "percent"),
        C("owed_after_the_quarter_usd", "$ owed after the quarter", "money", get=lambda a: a.beyond_horizon_usd),
        C("source", "source", formats=FILES),
    )
    return Table("allowances", "Savings plans and provisioned units", columns, plan.allowances or ())


def power(plan: Plan) -> Table:
    """Power, energy and carbon by place, and of the whole."""
    columns = (
        C("place", "place"),
        C("peak_kw", "kW at most", "number"),
        C("kwh_per_month", "kWh/month", "count"),
        C("co2_kg_per_month", "kg CO2e/month", "count"),
        C("pue", "PUE", "number"),
        C("grid_g_per_kwh", "g CO2e/kWh", "count"),
        C("doubt", "doubt"),
        C("source", "PUE and grid from", formats=DATA),
    )
    found = plan.power
    if found is None:
        return Table("power", "Power and carbon", columns, ())
    return Table("power", "Power and carbon", columns, found.places, tuple(phrases.power_notes(plan)))


def assumptions(plan: Plan) -> Table:
    """What the demand file does not say; people read what several workloads have alike once."""
    columns = (C("key", "key"), C("value", "value"), C("why", "why"))
    return Table(
        "assumptions", phrases.ASSUMED, columns, plan.assumptions, people=tuple(_assumed_alike(plan, plan.assumptions))
    )


def _assumed_alike(plan: Plan, assumed: tuple[Assumption, ...]) -> Iterator[tuple[str, str, str]]:
    names = [w.name for w in plan.workloads]
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for a in assumed:
        owner = next((n for n in names if a.key.startswith(f"workloads.{n}.")), None)
        key = a.key.removeprefix(f"workloads.{owner}.") if owner else a.key
        grouped.setdefault((key, a.value, a.why), []).extend([owner] if owner else [])
    for (key, value, why), owners in grouped.items():
        every = "all workloads" if len(owners) == len(names) > 1 else ", ".join(owners)
        yield f"{key} ({every})" if owners else key, value, why


def commands(plan: Plan) -> Table:
    columns = (
        C("pool", "pool"),
        C("deployment", "deployment"),
        C("environment", "environment", "code", get=lambda c: " ".join(c.environment) or None),
        C("command", "command", "code"),
        C("notes", "notes", get=lambda c: "; ".join(c.notes) or None),
    )
    return Table("commands", "Commands", columns, tuple(serve_commands(plan)))


def _share(usd_per_month: float, plan: Plan) -> float | None:
    return usd_per_month / plan.total_usd_per_month if plan.total_usd_per_month else None
