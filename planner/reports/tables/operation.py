"""A plan in operation: what its controller keeps and costs beside its own hours, and which capacity comes first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.case.prices import price_of
from planner.io.formatting import counted, percent, usd, usd_small
from planner.plan.account.account import account_of
from planner.plan.operated import Attained, Operation
from planner.plan.plan import Plan
from planner.reports.table import Cells, Table
from planner.reports.table import Column as C

PROVED_FOR = (
    "proved for fleets that keep the planner's own staffing rule in whole hours, at the same prices, start-up times "
    "and arrivals, where the forecast is right; a controller with fewer replicas than that rule is not covered"
)


def in_short(o: Operation) -> str:
    """The price of lag, for a first screen."""
    return f"in operation behind {o.controller.name}: {_keeps(o)}, {_costs(o)}"


def _keeps(o: Operation) -> str:
    when = f" where demand is {o.differs}" if o.differs else ""
    if o.tuned is not None and o.tuned.forecast_error_frac:
        when = f" with forecasts right or {percent(o.tuned.forecast_error_frac)} off"
    return (f"MISSES {', '.join(missed(o))}" if missed(o) else "keeps every promise") + when


def _costs(o: Operation) -> str:
    lag = f"{'+' if o.lag_frac >= 0 else '-'}{percent(abs(o.lag_frac), 1)}"
    above = "" if o.differs else f", at most {percent(max(0.0, o.above_bound_frac), 1)} above any controller"
    return f"{usd(o.usd_per_month)} / month: lag costs {lag}{above}"


def missed(o: Operation) -> list[str]:
    wrong = o.tuned.differing if o.tuned is not None else ()
    runs = [("", o.attained), *((f" ({run.differs})", run.attained) for run in wrong)]
    return [
        f"{a.workload}: {a.what} {percent(a.within_frac, 1)} of {percent(a.percentile)}{how}"
        for how, attained in runs
        for a in attained
        if not a.kept
    ]


def notes(o: Operation) -> Iterator[str]:
    if o.differs:
        yield f"demand differed from the forecast by {o.differs}: the proven bound is for the forecast"
    else:
        yield f"at most {percent(max(0.0, o.above_bound_frac), 1)} above any controller: {PROVED_FOR}"
    if o.tuned is not None:
        t = o.tuned
        yield (
            f"tuned for forecasts off by {percent(t.forecast_error_frac)} either way: {counted(t.settings, 'setting')} "
            f"as flows on days of seeds {', '.join(map(str, t.seeds[:-1]))}, {counted(t.rounds, 'setting')} request by "
            f"request on days of seed {t.seeds[-1]}; flows said {usd(t.flow_usd_per_month)} a month"
        )
        for run in t.differing:
            yield (
                f"where demand is {run.differs}: {usd(run.usd_per_month)} a month, "
                f"{'every promise kept' if run.kept else 'a promise missed'}"
            )
    yield "billed: instances from their order to their last answer, starts included; APIs in proportion to what came"


@dataclass(frozen=True)
class _Kept:
    attained: Attained
    beside: Attained | None


def promises(o: Operation) -> Table:
    """Behind the controller, and by the plan's own hours."""
    columns = (
        C("workload", "workload", get=lambda x: x.attained.workload),
        C("promise", "promise", get=lambda x: f"{x.attained.what} for {percent(x.attained.percentile)}"),
        C("within_frac", "in operation", ">s", get=lambda x: _share(x.attained)),
        C("beside_frac", "plan's own hours", ">s", get=lambda x: _share(x.beside)),
    )
    own = {(a.workload, a.what): a for a in o.beside}
    return Table(
        "operation_promises", "promises in operation", columns,
        tuple(_Kept(a, own.get((a.workload, a.what))) for a in o.attained),
    )  # fmt: skip


def _share(a: Attained | None) -> str | None:
    return None if a is None else percent(a.within_frac, 1) + ("" if a.kept else " MISSED")


def operated(o: Operation) -> Table:
    columns = (
        C("deployment", "deployment", get=lambda d: f"{d.pool}: {d.deployment}"),
        C("target", "target", ".3g", get=lambda d: d.target or None),
        C("bounds", "replicas", get=lambda d: f"{d.fewest} to {d.most}"),
        C("start_s", "start s", ",.0f"),
        C("mean_replicas", "ready, mean", ".2f"),
        C("planned_mean_replicas", "planned", ".2f"),
        C("instance_h_per_month", "billed h/month", "count"),
        C("planned_instance_h_per_month", "planned", "count"),
        C("usd_per_month", "$/month", "money"),
        C("planned_usd_per_month", "planned", "money"),
        C("events", "up / down", get=lambda d: f"{d.ups} / {d.downs}"),
    )
    note = "$: instances that are paid by the hour; up and down: decisions in the hours that were served"
    return Table("operation", "Behind the controller", columns, tuple(o.deployments), (note,))


def settings(o: Operation) -> Table:
    """What to set."""
    c = o.controller
    rows = [
        ("signal", c.signal),
        ("target", f"{percent(c.target)} of the plan's" if c.of_plan else f"{c.target:g} a replica"),
        ("averaged over", f"{c.window_s:g} s" if c.window_s else "one look"),
        ("floor", f"{percent(c.floor_share)} of the plan's hours" if c.has_floor else "the fewest"),
        ("buffer", counted(c.buffer, "replica")),
        ("earlier than a start", f"{c.more_lead_s / 60:g} min"), ("ceiling", f"{c.most_ratio:g} x the peak"),
        ("before it takes away", f"{c.down_window_s:g} s"), ("period", f"{c.period_s:g} s"),
    ]  # fmt: skip
    columns = (C("what", "setting"), C("value", c.name))
    return Table("operation_settings", "Settings", columns, tuple(Cells({"what": w, "value": v}) for w, v in rows))


def scale_order(plan: Plan) -> Table:
    """Which variant scales first, and when an API is cheaper than one more replica, by marginal cost."""
    view = account_of(plan)
    rows: list[Cells] = []
    for pool in plan.pools:
        ways: list[tuple[float, str]] = []
        for k, deployed in enumerate(pool.deployments):
            d = deployed.deployment
            offer = view.case.offers[d.offer]
            price = price_of(view.case, d.offer, "on-demand") or price_of(view.case, d.offer, "spot")
            rate = view.carried(pool, k).sum()
            if price is None or not rate:
                continue
            each_s = sum(deployed.load_by_slot) / rate
            busiest = max(x / n for x, n in zip(deployed.load_by_slot, deployed.replicas_by_slot, strict=True) if n)
            replica_usd_per_h = price.usd_per_h * d.gpus_per_replica / offer.gpus
            ways.append((1000 * replica_usd_per_h / 3600 * each_s / busiest, f"one more replica: {deployed.name}"))
        for w in plan.workloads:
            sent = w.api_share_frac * w.requests_per_month
            if w.name in pool.workloads and w.api and sent:
                ways.append((1000 * w.api_cost_usd_per_month / sent, f"{w.api} for {w.name}"))
        for rank, (cost, what) in enumerate(sorted(ways), start=1):
            rows.append(Cells({"pool": ", ".join(pool.workloads), "rank": rank, "what": what, "usd": usd_small(cost)}))
    columns = (
        C("pool", "workloads"), C("rank", "", "count"), C("what", "what scales next"),
        C("usd", "$ / 1,000 requests when busy", ">s"),
    )  # fmt: skip
    note = "a replica costs its hour whole: where it would have little to do, what comes next is cheaper"
    return Table("scale_order", "What scales first, by marginal cost", columns, tuple(rows), (note,) if rows else ())
