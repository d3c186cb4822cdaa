"""The tables of the first screen: what to sign, what could move the cost, and what the same requests cost elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from planner.case.allowances import allowance_of
from planner.case.apis import baseline_of
from planner.case.vendors import apis_usd, vendor_usd
from planner.catalog.names import sells
from planner.catalog.terms import in_years, is_bought, term_months
from planner.io.formatting import counted, percent
from planner.io.remembered import of_the_last
from planner.plan.account.account import account_of
from planner.plan.account.other_demand import other_demand
from planner.plan.account.showback import held_usd_by_workload
from planner.plan.plan import Plan, WorkloadPlan
from planner.plan.quality_notes import size_beside
from planner.plan.sellers import having_usd, there_usd
from planner.plan.signing import allowances_to_be_signed, to_be_signed, whole_term_usd
from planner.plan.study_records import ProviderBill, Studies
from planner.reports.phrases import NOTHING_USD, alike, allowance_amount, throughput_error
from planner.reports.table import DATA, EVERY, PEOPLE, Cell, Cells, Format, Table
from planner.reports.table import Column as C

ASSUMED_OFF_FRAC = 0.10
"""by which prices that nobody publishes are taken to be off"""
SELLERS_SHOWN = 3
"""of some workloads' models, for the workloads that cost most; the table of providers has all"""
TERMS = {
    "reserved-1y": "1 year", "reserved-3y": "3 years", "reserved-1y-upfront": "1 year, paid up front",
    "reserved-3y-upfront": "3 years, paid up front",
}  # fmt: skip


def term_name(term: str) -> str:
    """How long something is signed for, or how long a server that is bought lives."""
    return f"bought, {in_years(term_months(term))}" if is_bought(term) else TERMS[term]


ALLOWANCE_TERMS = {"hourly": "by the hour, all hours", "1mo": "1 month", "1y": "1 year", "3y": "3 years"}
OTHER_MODEL = "listed, not in use"
"""of a model that workloads may run, where something else answers them"""
BY_THE_HOUR, BY_THE_TOKEN, SALARIES = "by the hour", "by the token", "salaries"


def to_sign(plan: Plan) -> Table:
    """Every part of the whole bill, by what has to be signed for it and for how long; the rows add up to it."""
    upfront: tuple[Format, ...] = EVERY if any(c.upfront_usd for c in plan.commitments) else DATA
    columns = (
        C("what", "what"),
        C("term", "for", missing=""),
        C("cost_usd_per_month", "$/month", "money"),
        C("whole_term_usd", "$ whole term", "money"),
        C("at_signing_usd", "$ at signing", "money", upfront),
        C("after_the_quarter_usd", "$ owed after the quarter", "money", DATA),
    )
    signed = (*_commitments(plan), *_allowances(plan))
    whole = Cells(
        what="in all", cost_usd_per_month=plan.total_usd_per_month, whole_term_usd=whole_terms_usd(plan) or None
    )
    for key in ("at_signing_usd", "after_the_quarter_usd"):
        whole[key] = sum(float(row[key] or 0.0) for row in signed) or None
    return Table("to_sign", "What to sign", columns, (*signed, *_unsigned(plan), whole))


def whole_terms_usd(plan: Plan) -> float:
    """What is signed for, over its whole terms."""
    allowances = (whole_term_usd(plan, a) or 0.0 for a in allowances_to_be_signed(plan))
    return sum(s.whole_term_usd for s in to_be_signed(plan)) + sum(allowances)


def _commitments(plan: Plan) -> Iterator[Cells]:
    for s in to_be_signed(plan):
        c, line = s.commitment, s.line
        yield Cells(
            what=f"{c.instances} x {c.offer} ({line.gpus_per_instance} x {line.gpu})",
            term=term_name(c.term),
            cost_usd_per_month=line.cost_usd_per_month,
            whole_term_usd=s.whole_term_usd,
            at_signing_usd=c.upfront_usd or None,
            after_the_quarter_usd=c.beyond_horizon_usd,
        )


def _allowances(plan: Plan) -> Iterator[Cells]:
    """Savings plans and provisioned units, whose cost is taken out of that of what they cover."""
    for a in allowances_to_be_signed(plan):
        yield Cells(
            what=f"{allowance_amount(plan, a)} of {a.name}",
            term=ALLOWANCE_TERMS[allowance_of(plan.case, a.name).term],
            cost_usd_per_month=a.usd_per_month,
            whole_term_usd=whole_term_usd(plan, a),
            at_signing_usd=None,
            after_the_quarter_usd=a.beyond_horizon_usd or None,
        )


def _allowances_usd(plan: Plan, of_apis: bool) -> float:
    signed = allowances_to_be_signed(plan)
    return sum(a.usd_per_month for a in signed if (allowance_of(plan.case, a.name).api is not None) == of_apis)


def _unsigned(plan: Plan) -> Iterator[Cells]:
    """What nobody has to sign a term for."""

    def paid(what: str, term: str, usd: float) -> Cells:
        return Cells(what=what, term=term, cost_usd_per_month=usd)

    costs = plan.costs
    for purchase, said, usd in (
        ("on-demand", "on demand", costs.on_demand_usd_per_month - _allowances_usd(plan, of_apis=False)),
        ("spot", "on spot", costs.spot_usd_per_month),
    ):
        lines = [line for line in plan.fleet if line.purchase == purchase]
        if lines:
            slots = range(len(plan.slots))
            most = max(sum(x.instances_by_slot[t] * x.gpus_per_instance for x in lines) for t in slots)
            yield paid(f"up to {counted(most, 'GPU')} {said}", BY_THE_HOUR, usd)
    if apis := sorted({w.api for w in plan.workloads if w.api}):
        yield paid(", ".join(apis), BY_THE_TOKEN, costs.api_usd_per_month - _allowances_usd(plan, of_apis=True))
    if costs.caching_usd_per_month:
        yield paid("caches", "by the month", costs.caching_usd_per_month)
    if costs.engineers_usd_per_month:
        yield paid("engineers", SALARIES, costs.engineers_usd_per_month)
    if costs.energy_usd_per_month:
        yield paid("energy of GPUs in use in servers that are bought", "by the kWh", costs.energy_usd_per_month)
    if costs.vendors_usd_per_month:
        yield paid("fixed costs of vendors", "by the month", costs.vendors_usd_per_month)
    if plan.held_usd_per_month:
        yield paid("what is held or signed already", "in any case", plan.held_usd_per_month)


@dataclass(frozen=True)
class Swing:
    """What the cost would be if something differed."""

    what: str
    low_usd_per_month: float
    high_usd_per_month: float

    @property
    def moves_usd(self) -> float:
        return self.high_usd_per_month - self.low_usd_per_month


def what_moves_it(plan: Plan) -> Table:
    """The whole bill if something differs from what the plan assumes: demand first, then the rest by how far it moves.

    What is held is part of every figure, since it moves with nothing.
    """

    def change(x: Swing) -> str:
        low, high = (_signed_percent(plan, usd) for usd in (x.low_usd_per_month, x.high_usd_per_month))
        return f"{low} to {high}"

    columns = (
        C("if", "if", get=lambda x: x.what),
        C("low_usd_per_month", "from $/month", "money"),
        C("high_usd_per_month", "to $/month", "money"),
        C("change", "change", formats=PEOPLE, get=change),
    )
    swings = (_demand(plan), *sorted(_others(plan), key=lambda x: -x.moves_usd))
    return Table("what_moves_it", "What could change the cost", columns, swings)


def _signed_percent(plan: Plan, usd: float) -> str:
    cost = plan.total_usd_per_month
    moved = (usd - cost) / cost if cost else 0.0
    return "0%" if not percent(abs(moved)).strip("0.%") else f"{'+' if moved > 0 else '-'}{percent(abs(moved))}"


@of_the_last
def with_other_demand(plan: Plan) -> Plan:
    """The plan with what it costs at other demand: as recorded, or worked out now by the same arithmetic."""
    known = plan.studies or Studies()
    if known.demand:
        return plan
    return plan.model_copy(update={"studies": known.model_copy(update={"demand": other_demand(plan)})})


def _demand(plan: Plan) -> Swing:
    studies = with_other_demand(plan).studies
    assert studies is not None
    points = studies.demand
    low, high = points[0], points[-1]
    off = f"{percent(1 - low.multiple)} lower or {percent(high.multiple - 1)} higher"
    beyond = f" (beyond your quota: {high.beyond[0]})" if high.beyond else ""
    costs = (low.cost_usd_per_month, plan.cost_usd_per_month, high.cost_usd_per_month)
    held = plan.held_usd_per_month
    return Swing(f"demand is {off}{beyond}", min(costs) + held, max(costs) + held)


def _others(plan: Plan) -> Iterator[Swing]:
    held, shed = plan.held_usd_per_month, plan.penalty_usd_per_month
    cost = plan.total_usd_per_month
    r, off = plan.if_throughput_is_off, throughput_error(plan)
    if off and plan.has("if_throughput_is_off"):
        low = cost if r.low_usd_per_month is None else r.low_usd_per_month - shed + held
        high = cost if r.high_usd_per_month is None else r.high_usd_per_month - shed + held
        none = "; if slower, no plan keeps the limits" if r.high_usd_per_month is None else ""
        yield Swing(f"replicas are {off} faster or slower{none}", low, high)
    if (at_p95 := plan.spot_at_p95_usd_per_month + held) > cost + NOTHING_USD:
        yield Swing("the spot price stays at its 95th percentile", cost, at_p95)
    if assumed := assumed_usd(plan):
        moved = ASSUMED_OFF_FRAC * assumed
        share = percent(assumed / cost)
        what = f"assumed prices ({share} of the cost) are {percent(ASSUMED_OFF_FRAC)} off"
        yield Swing(what, cost - moved, cost + moved)


def assumed_usd(plan: Plan) -> float:
    """USD a month at prices that are assumptions."""
    return sum(line.cost_usd_per_month for line in plan.fleet if line.price_assumption)


@dataclass(frozen=True)
class Elsewhere:
    """What some workloads cost at an API, and in the plan."""

    api: str
    model_size: str
    workloads: str
    there_usd_per_month: float
    fixed_usd_per_month: float
    here_usd_per_month: float


def elsewhere(plan: Plan) -> Table:
    """Bills of all workloads first, then the cheapest seller of a model for some of them, each beside the plan's."""
    bills = tuple(_bills(plan))
    columns = (
        C("api", "bought from"),
        C("model_size", "model"),
        C("workloads", "for"),
        C("there_usd_per_month", "there $/month", "money"),
        fixed_column(b.fixed_usd_per_month for b in bills),
        C("here_usd_per_month", "here $/month", "money"),
    )
    return Table("elsewhere", "What the same costs elsewhere", columns, bills)


def fixed_column(costs: Iterable[float], get: Callable[[Any], Cell] | None = None) -> C:
    """What it costs to have a provider, besides its bill; people see it where one of them costs something."""
    return C("fixed_usd_per_month", "+ fixed $/month", "money", EVERY if any(costs) else DATA, get=get)


def _bills(plan: Plan) -> Iterator[Elsewhere]:
    everything = "everything" if len(plan.workloads) == 1 else f"all {len(plan.workloads)}"
    bills = plan.studies.providers if plan.studies else ()
    b, names = plan.baseline, tuple(w.name for w in plan.workloads)
    whole = [
        (f"{x.provider}/{x.model}", x.cost_usd_per_month, fixed_usd(plan, x)) for x in bills if x.role != "same model"
    ]
    at_baselines = apis_usd(plan.case, {baseline_of(plan.case, w) for w in plan.case.workloads})
    alone = [(f"{b.provider}/{b.model}", b.cost_usd_per_month, at_baselines)]
    for api, usd, fixed in sorted(whole or alone, key=lambda row: row[1]):
        yield Elsewhere(api, size_beside(plan, api, names), everything, usd, fixed, plan.total_usd_per_month)
    least: dict[tuple[str, ...], ProviderBill] = {}
    for bill in bills:
        known = least.get(bill.workloads)
        if bill.role == "same model" and (known is None or there_usd(plan, bill) < there_usd(plan, known)):
            least[bill.workloads] = bill
    ranked = sorted(least.items(), key=lambda x: -here_usd(plan, x[0]))
    for workloads, bill in ranked[:SELLERS_SHOWN]:
        api, fixed = f"{bill.provider}/{bill.model}", fixed_usd(plan, bill)
        size, there, here = _likeness(plan, api, workloads), bill.cost_usd_per_month, here_usd(plan, workloads)
        yield Elsewhere(api, size, alike(workloads), there, fixed, here)


def fixed_usd(plan: Plan, bill: ProviderBill) -> float:
    """What it costs to have the provider of a bill; nothing more where the plan has it, and some workloads join."""
    return having_usd(plan, bill) if bill.role == "same model" else vendor_usd(plan.case, ("api", bill.provider))


def _likeness(plan: Plan, api: str, workloads: tuple[str, ...]) -> str:
    """Whether an API sells the very model that answers some workloads, on GPUs or at another API, or only one that they
    list."""
    sold = {key: model for key, model in plan.case.models.items() if sells(api, key, model)}

    def is_the_same(planned: WorkloadPlan) -> bool:
        bought = planned.api is not None and any(sells(planned.api, key, model) for key, model in sold.items())
        return bought or not sold.keys().isdisjoint(planned.models)

    return "the same" if all(is_the_same(w) for w in plan.workloads if w.name in workloads) else OTHER_MODEL


def here_usd(plan: Plan, workloads: tuple[str, ...]) -> float:
    """What some workloads cost in the plan, with their share of what is held; engineers aside."""
    held = held_usd_by_workload(account_of(plan)) if plan.held_usd_per_month else {}
    return sum(w.cost_usd_per_month + held.get(w.name, 0.0) for w in plan.workloads if w.name in workloads)
