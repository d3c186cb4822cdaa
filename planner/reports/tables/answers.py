"""The tables of the first screen: what to sign, what could move the cost, and what the same requests cost elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.case.costs import baseline_of
from planner.case.vendors import apis_usd, vendor_usd
from planner.catalog.entries import TERM_MONTHS
from planner.catalog.names import sells
from planner.io.formatting import percent
from planner.plan.account.other_demand import other_demand
from planner.plan.plan import Plan, WorkloadPlan
from planner.plan.quality_notes import size_beside
from planner.plan.sellers import having_usd, there_usd
from planner.plan.study_records import ProviderBill, Studies
from planner.reports.phrases import NOTHING_USD, alike, throughput_error
from planner.reports.tables.table import DATA, EVERY, PEOPLE, Cell, Format, Row, Table
from planner.reports.tables.table import Column as C
from problems.constants import HOURS_PER_MONTH

ASSUMED_OFF_FRAC = 0.10
"""by which prices that nobody publishes are taken to be off"""
SELLERS_SHOWN = 3
"""of some workloads' models, for the workloads that cost most; the table of providers has all"""
TERMS = {
    "reserved-1y": "1 year", "reserved-3y": "3 years", "reserved-1y-upfront": "1 year, paid up front",
    "reserved-3y-upfront": "3 years, paid up front",
}  # fmt: skip
OTHER_MODEL = "listed, not in use"
"""of a model that workloads may run, where something else answers them"""
BY_THE_HOUR, BY_THE_TOKEN, SALARIES = "by the hour", "by the token", "salaries"


def to_sign(plan: Plan) -> Table:
    """Every part of the cost, by what has to be signed for it and for how long; the rows add up to the cost."""
    columns = (
        C("what", "what"), C("term", "for", missing=""), C("cost_usd_per_month", "$/month", "money"),
        C("whole_term_usd", "$ whole term", "money"), C("at_signing_usd", "$ at signing", "money", _if_upfront(plan)),
        C("after_the_quarter_usd", "$ owed after the quarter", "money", DATA),
    )  # fmt: skip
    rows = (*_commitments(plan), *_unsigned(plan), ("in all", None, plan.cost_usd_per_month, *_signed(plan)))
    return Table("to_sign", "What to sign", columns, rows)


def _if_upfront(plan: Plan) -> tuple[Format, ...]:
    return EVERY if any(c.upfront_usd for c in plan.commitments) else DATA


def _commitments(plan: Plan) -> Iterator[Row]:
    lines = {(line.offer, line.purchase): line for line in plan.fleet}
    for c in plan.commitments:
        line = lines[c.offer, c.term]
        what = f"{c.instances} x {c.offer} ({line.gpus_per_instance} x {line.gpu})"
        whole = c.instances * line.usd_per_h * HOURS_PER_MONTH * TERM_MONTHS[c.term]
        yield what, TERMS[c.term], line.cost_usd_per_month, whole, c.upfront_usd or None, c.beyond_horizon_usd


def _signed(plan: Plan) -> tuple[float | None, float | None, float | None]:
    rows = list(_commitments(plan))
    sums = (sum(float(row[k] or 0.0) for row in rows) for k in (3, 4, 5))
    whole, upfront, after = (total or None for total in sums)
    return whole, upfront, after


def _unsigned(plan: Plan) -> Iterator[Row]:
    """What nobody has to sign a term for."""
    for purchase, said, usd in (
        ("on-demand", "GPUs on demand", plan.costs.on_demand_usd_per_month),
        ("spot", "spot GPUs", plan.costs.spot_usd_per_month),
    ):
        lines = [line for line in plan.fleet if line.purchase == purchase]
        if lines:
            slots = range(len(plan.slots))
            most = max(sum(x.instances_by_slot[t] * x.gpus_per_instance for x in lines) for t in slots)
            yield f"up to {most} {said}", BY_THE_HOUR, usd, None, None, None
    apis = sorted({w.api for w in plan.workloads if w.api})
    if apis:
        yield ", ".join(apis), BY_THE_TOKEN, plan.costs.api_usd_per_month, None, None, None
    if plan.costs.caching_usd_per_month:
        yield "caches", "by the month", plan.costs.caching_usd_per_month, None, None, None
    if plan.costs.engineers_usd_per_month:
        yield "engineers", SALARIES, plan.costs.engineers_usd_per_month, None, None, None
    if plan.costs.vendors_usd_per_month:
        yield "fixed costs of vendors", "by the month", plan.costs.vendors_usd_per_month, None, None, None


def what_moves_it(plan: Plan) -> Table:
    """The cost if something differs from what the plan assumes: demand first, then the rest by how far it moves."""
    columns = (
        C("if", "if"), C("low_usd_per_month", "from $/month", "money"), C("high_usd_per_month", "to $/month", "money"),
        C("change", "change", formats=PEOPLE),
    )  # fmt: skip
    demand, *others = [_demand(plan), *_others(plan)]
    found = [demand, *sorted(others, key=lambda row: row[1] - row[2])]
    return Table("what_moves_it", "What could move it", columns, tuple(_changed(plan, *row) for row in found))


def _changed(plan: Plan, what: str, low: float, high: float) -> Row:
    return what, low, high, f"{_signed_percent(plan, low)} to {_signed_percent(plan, high)}"


def _signed_percent(plan: Plan, usd: float) -> str:
    cost = plan.cost_usd_per_month
    moved = (usd - cost) / cost if cost else 0.0
    return "0%" if not percent(abs(moved)).strip("0.%") else f"{'+' if moved > 0 else '-'}{percent(abs(moved))}"


def with_other_demand(plan: Plan) -> Plan:
    """The plan with what it costs at other demand: as recorded, or worked out now by the same arithmetic."""
    known = plan.studies or Studies()
    if known.demand:
        return plan
    return plan.model_copy(update={"studies": known.model_copy(update={"demand": other_demand(plan)})})


def _demand(plan: Plan) -> tuple[str, float, float]:
    studies = with_other_demand(plan).studies
    assert studies is not None
    points = studies.demand
    low, high = points[0], points[-1]
    off = f"{percent(1 - low.multiple)} lower or {percent(high.multiple - 1)} higher"
    beyond = f" (beyond your quota: {high.beyond[0]})" if high.beyond else ""
    costs = (low.cost_usd_per_month, plan.cost_usd_per_month, high.cost_usd_per_month)
    return f"demand is {off}{beyond}", min(costs), max(costs)


def _others(plan: Plan) -> Iterator[tuple[str, float, float]]:
    cost, shed = plan.cost_usd_per_month, plan.penalty_usd_per_month
    r, off = plan.if_throughput_is_off, throughput_error(plan)
    if off and plan.has("if_throughput_is_off"):
        low = cost if r.low_usd_per_month is None else r.low_usd_per_month - shed
        high = cost if r.high_usd_per_month is None else r.high_usd_per_month - shed
        none = "; slower, no plan keeps the limits" if r.high_usd_per_month is None else ""
        yield f"replicas are {off} faster or slower{none}", low, high
    if plan.spot_at_p95_usd_per_month > cost + NOTHING_USD:
        yield "spot stays at the 95th percentile of its price", cost, plan.spot_at_p95_usd_per_month
    if assumed := assumed_usd(plan):
        moved = ASSUMED_OFF_FRAC * assumed
        share = percent(assumed / cost)
        yield f"assumed prices ({share} of the cost) are {percent(ASSUMED_OFF_FRAC)} off", cost - moved, cost + moved


def assumed_usd(plan: Plan) -> float:
    """USD a month at prices that are assumptions."""
    return sum(line.cost_usd_per_month for line in plan.fleet if line.price_assumption)


def elsewhere(plan: Plan) -> Table:
    """Bills of all workloads first, then the cheapest seller of a model for some of them, each beside the plan's."""
    rows = tuple(_bills(plan))
    columns = (
        C("api", "bought from"), C("model_size", "model"), C("workloads", "for"),
        C("there_usd_per_month", "there $/month", "money"), fixed_column(row[4] for row in rows),
        C("here_usd_per_month", "here $/month", "money"),
    )  # fmt: skip
    return Table("elsewhere", "What the same costs elsewhere", columns, rows)


def fixed_column(costs: Iterable[Cell]) -> C:
    """What it costs to have a provider, besides its bill; people see it where one of them costs something."""
    return C("fixed_usd_per_month", "+ fixed $/month", "money", EVERY if any(costs) else DATA)


def _bills(plan: Plan) -> Iterator[Row]:
    everything = "everything" if len(plan.workloads) == 1 else f"all {len(plan.workloads)}"
    bills = plan.studies.providers if plan.studies else ()
    b, names = plan.baseline, tuple(w.name for w in plan.workloads)
    whole = [
        (f"{x.provider}/{x.model}", x.cost_usd_per_month, fixed_usd(plan, x)) for x in bills if x.role != "same model"
    ]
    at_baselines = apis_usd(plan.case, {baseline_of(plan.case, w) for w in plan.case.workloads})
    alone = [(f"{b.provider}/{b.model}", b.cost_usd_per_month, at_baselines)]
    for api, usd, fixed in sorted(whole or alone, key=lambda row: row[1]):
        yield api, size_beside(plan, api, names), everything, usd, fixed, plan.cost_usd_per_month
    least: dict[tuple[str, ...], ProviderBill] = {}
    for bill in bills:
        known = least.get(bill.workloads)
        if bill.role == "same model" and (known is None or there_usd(plan, bill) < there_usd(plan, known)):
            least[bill.workloads] = bill
    ranked = sorted(least.items(), key=lambda x: -here_usd(plan, x[0]))
    for workloads, bill in ranked[:SELLERS_SHOWN]:
        here = here_usd(plan, workloads)
        api = f"{bill.provider}/{bill.model}"
        size, fixed = _likeness(plan, api, workloads), fixed_usd(plan, bill)
        yield api, size, alike(workloads), bill.cost_usd_per_month, fixed, here


def fixed_usd(plan: Plan, bill: ProviderBill) -> float:
    """What it costs to have the provider of a bill; nothing more where the plan has it, and some workloads join."""
    return having_usd(plan, bill) if bill.role == "same model" else vendor_usd(plan.case, ("api", bill.provider))


def _likeness(plan: Plan, api: str, workloads: tuple[str, ...]) -> str:
    """Whether an API sells the very model that answers some workloads, on GPUs or at another API, or only one that they
    list."""
    sold = {key: model for key, model in plan.case.models.items() if sells(api, key, model)}

    def is_the_same(told: WorkloadPlan) -> bool:
        bought = told.api is not None and any(sells(told.api, key, model) for key, model in sold.items())
        return bought or not sold.keys().isdisjoint(told.models)

    return "the same" if all(is_the_same(w) for w in plan.workloads if w.name in workloads) else OTHER_MODEL


def here_usd(plan: Plan, workloads: tuple[str, ...]) -> float:
    """What some workloads cost in the plan, engineers aside."""
    return sum(w.cost_usd_per_month for w in plan.workloads if w.name in workloads)
