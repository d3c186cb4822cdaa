"""What follows from the plan of a horizon: months of each scenario, how far commitments are used, when they end.

The words are those of the cloud providers' tools: coverage is the share of the eligible instance-hours that commitments
cover, utilization the share of the committed instance-hours that are used. Spot is not eligible. As on a bill, what
runs is counted against commitments first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypeVar

from planner.case import terms
from planner.case.case import OWNED, Case, Future, Holding
from planner.case.dates import quarter_days
from planner.case.quarters import (
    BudgetPeriod,
    MonthGroup,
    case_in,
    covers,
    future_of,
    held_instances_in_part,
    holding_usd,
    month_groups,
    serves_in_part,
    span_name,
)
from planner.case.slots import hours_in_a_month
from planner.catalog.terms import is_bought, term_months
from planner.plan.account.account import account_of
from planner.plan.account.replicas import boxes_filled
from planner.plan.horizon.horizon_plan import (
    MONTHS_OF_A_QUARTER,
    HorizonPlan,
    QuarterPlan,
    ScenarioResult,
    SignedCommitment,
)
from planner.plan.plan import Plan
from problems.constants import HOURS_PER_MONTH

T = TypeVar("T")


def quarters_of(horizon: HorizonPlan) -> range:
    return range(_future(horizon).quarters)


def days_of(horizon: HorizonPlan, quarter: int) -> tuple[date, date]:
    return quarter_days(_future(horizon).starts, quarter)


def _future(horizon: HorizonPlan) -> Future:
    return future_of(horizon.case)


def months_name(horizon: HorizonPlan, first: int, last: int) -> str:
    """Quarters as 2027-04 to 2027-06."""
    return f"{days_of(horizon, first)[0]:%Y-%m} to {days_of(horizon, last)[1]:%Y-%m}"


def months_in(horizon: HorizonPlan, quarter: int, scenario: str) -> dict[int, float]:
    """The months of a quarter's plan that are a scenario's, and for how many months of the calendar each stands."""
    groups = _groups(horizon, quarter, scenario)
    return {m: group.count for m, group in enumerate(groups) if scenario in group.scenarios}


def calendar_name(horizon: HorizonPlan, quarter: int, scenario: str, month: int) -> str:
    """The months of the calendar that a month of a quarter's plan stands for, as 2027-04 to 2027-06."""
    return span_name(_future(horizon).starts, _groups(horizon, quarter, scenario)[month].months)


def _groups(horizon: HorizonPlan, quarter: int, scenario: str) -> tuple[MonthGroup, ...]:
    scenarios = [s for s in _future(horizon).scenarios if quarter == 0 or s.name == scenario]
    return month_groups(horizon.case, quarter, scenarios)


def baseline_by_quarter(case: Case, scenario: str, quarters: Sequence[QuarterPlan]) -> tuple[float, ...]:
    """What the requests that are answered in a scenario would cost at their API baselines."""
    future = future_of(case)
    usd = [0.0] * future.quarters
    for q in quarters:
        if q.scenario in (None, scenario):
            scenarios = [s for s in future.scenarios if q.scenario in (None, s.name)]
            money = account_of(q.plan).money
            for month, group in enumerate(month_groups(case, q.quarter, scenarios)):
                if scenario in group.scenarios:
                    usd[q.quarter] += group.count * money.baseline_usd_of_month(month)
    return tuple(usd)


def expected_baseline_usd(horizon: HorizonPlan) -> float | None:
    """Mean over the scenarios; None where a plan does not know it."""
    known = [(s.probability_frac, s.baseline_usd) for s in horizon.scenarios]
    return None if any(usd is None for _, usd in known) else sum(p * (usd or 0.0) for p, usd in known)


def spent_in(horizon: HorizonPlan, period: BudgetPeriod) -> dict[str, float]:
    """What the quarters of a budget come to in each scenario, with what is held in them."""
    return {s.name: period.held_usd + sum(s.by_quarter_usd[q] for q in period.quarters) for s in horizon.scenarios}


@dataclass(frozen=True)
class Use:
    """Instance-hours of one offer."""

    eligible_h: float = 0.0
    """of instances that run something, spot left out"""
    committed_h: float = 0.0
    covered_h: float = 0.0
    """both: committed, and used"""

    def __add__(self, other: Use) -> Use:
        return Use(
            self.eligible_h + other.eligible_h, self.committed_h + other.committed_h, self.covered_h + other.covered_h
        )

    def times(self, factor: float) -> Use:
        return Use(factor * self.eligible_h, factor * self.committed_h, factor * self.covered_h)

    @property
    def coverage_frac(self) -> float | None:
        return self.covered_h / self.eligible_h if self.eligible_h else None

    @property
    def utilization_frac(self) -> float | None:
        return self.covered_h / self.committed_h if self.committed_h else None


def use_of(horizon: HorizonPlan, offer: str, scenario: ScenarioResult, quarters: Sequence[int]) -> Use:
    """How far commitments to an offer are used in a scenario, and how far they cover what runs."""
    total = Use()
    for quarter in quarters:
        plan = horizon.plan_of(quarter, scenario.name)
        months = months_in(horizon, quarter, scenario.name)
        whole, parts = committed_in(plan, offer), held_instances_in_part(plan.case, offer)
        running, spot = running_by_slot(plan, offer), _bought(plan, offer, "spot")
        for t, slot in enumerate(plan.slots):
            hours = months.get(slot.month, 0) * hours_in_a_month(slot.day)
            eligible = max(0, running[t] - spot[t])
            committed = whole + sum(n for n, of in parts if slot.month in of)
            total += Use(hours * eligible, hours * committed, hours * min(committed, eligible))
        total += Use(committed_h=_idle_h(horizon, offer, quarter))
    return total


def _idle_h(horizon: HorizonPlan, offer: str, quarter: int) -> float:
    """Instance-hours of holdings that are paid for a part of a quarter only, and of no use in it."""
    first, last = days_of(horizon, quarter)
    hours = 0.0
    for h in horizon.case.held or ():
        begins, ends = max(first, h.first_day or first), min(last, h.last_day or last)
        of_use = (begins, ends) == (first, last) or serves_in_part(horizon.case, h, quarter)
        if h.offer == offer and h.purchase != OWNED and not of_use:
            share = max(0, (ends - begins).days + 1) / ((last - first).days + 1)
            hours += h.instances * MONTHS_OF_A_QUARTER * HOURS_PER_MONTH * share
    return hours


@dataclass(frozen=True)
class PartQuarter:
    """A holding that begins or lapses within a quarter."""

    holding: Holding
    quarter: int
    usd: float
    """paid for its days there"""
    of_use: bool
    """whether it covers what runs on demand then"""


def parts_of_quarters(horizon: HorizonPlan) -> Iterator[PartQuarter]:
    """Commitments that are paid for a part of a quarter only, by quarter."""
    for quarter in quarters_of(horizon):
        for h in horizon.case.held or ():
            usd = holding_usd(horizon.case, h, quarter)
            if usd and not covers(h, *days_of(horizon, quarter)):
                yield PartQuarter(h, quarter, usd, serves_in_part(horizon.case, h, quarter))


def committed_in(plan: Plan, offer: str) -> int:
    """Instances of an offer that are paid for whether they run or not."""
    return sum(h.instances for h in plan.case.held or () if h.offer == offer and h.purchase != OWNED)


def running_by_slot(plan: Plan, offer: str) -> list[int]:
    """Instances that the replicas on an offer fill, wherever they find room [slot]."""
    there = [d for pool in plan.pools for d in pool.deployments if d.deployment.offer == offer]
    box = plan.case.offers[offer].gpus if there else 1
    counts = []
    for t in range(len(plan.slots)):
        replicas: Counter[int] = Counter()
        for d in there:
            replicas[d.deployment.gpus_per_replica] += d.replicas_by_slot[t]
        counts.append(boxes_filled(box, replicas))
    return counts


def _bought(plan: Plan, offer: str, purchase: str) -> list[int]:
    lines = [f.instances_by_slot for f in plan.fleet if f.offer == offer and f.purchase == purchase]
    return [sum(counts) for counts in zip(*lines, strict=True)] if lines else [0] * len(plan.slots)


def quarters_covered(horizon: HorizonPlan, c: SignedCommitment) -> list[int]:
    """Quarters of the horizon in which a commitment is in force."""
    return [q for q in quarters_of(horizon) if c.first_day <= days_of(horizon, q)[0] <= c.last_day]


def gpus_of(horizon: HorizonPlan, offer: str) -> int:
    """GPUs of an instance of an offer that some quarter has."""
    return next(q.plan.case.offers[offer].gpus for q in horizon.quarters if offer in q.plan.case.offers)


def on_demand_usd_per_h(horizon: HorizonPlan, c: SignedCommitment) -> float | None:
    """What an hour on demand costs while a commitment is in force: the mean, where that changes or is not known yet."""
    found: list[tuple[float, float]] = []
    for s in (s for s in _future(horizon).scenarios if c.scenario in (None, s.name)):
        for quarter in quarters_covered(horizon, c):
            price = case_in(horizon.case, quarter, s).offers[c.offer].prices.on_demand
            if price is not None:
                found.append((s.probability_frac, price.usd_per_h))
    if len({usd for _, usd in found}) <= 1:
        return found[0][1] if found else None
    return sum(p * usd for p, usd in found) / sum(p for p, _ in found)


def break_even_frac(horizon: HorizonPlan, c: SignedCommitment) -> float | None:
    """The utilization from which on a commitment costs less than the same hours on demand."""
    price = on_demand_usd_per_h(horizon, c)
    return c.usd_per_h / price if price else None


def months_to_pay(horizon: HorizonPlan, c: SignedCommitment) -> float | None:
    """Months of such demand after which the hours used would have cost as much on demand as the whole term does."""
    price, used = on_demand_usd_per_h(horizon, c), expected_utilization(horizon, c)
    return terms.months_to_pay(c.term, c.usd_per_h, price * used) if price and used else None


def expected_utilization(horizon: HorizonPlan, c: SignedCommitment) -> float | None:
    """Mean over the scenarios in which it is signed, of all commitments to its offer, while it is in force."""
    mine = [s for s in horizon.scenarios if c.scenario in (None, s.name)]
    used = [use_of(horizon, c.offer, s, quarters_covered(horizon, c)).utilization_frac for s in mine]
    known = [(s.probability_frac, u) for s, u in zip(mine, used, strict=True) if u is not None]
    weight = sum(p for p, _ in known)
    return sum(p * u for p, u in known) / weight if weight else None


def usd_per_month(c: SignedCommitment | Holding) -> float:
    """What all instances cost in a month; what was paid up front is spread over the term."""
    return c.instances * c.usd_per_h * HOURS_PER_MONTH


def book_beyond_usd(horizon: HorizonPlan, c: SignedCommitment) -> float | None:
    """What servers that are bought are worth when the horizon ends; None for what is rented, or gone by then."""
    price, last = horizon.case.offers[c.offer].prices.bought, quarters_of(horizon)[-1]
    if not is_bought(c.term) or price is None or last not in quarters_covered(horizon, c):
        return None
    return c.instances * price.book_usd(MONTHS_OF_A_QUARTER * len(quarters_covered(horizon, c)))


def owed_beyond_usd(horizon: HorizonPlan, c: SignedCommitment) -> float:
    """Still to be paid in cash after the horizon; what is paid up front is not."""
    if is_bought(c.term):
        return 0.0
    months = term_months(c.term)
    later_usd_per_h = c.usd_per_h - c.upfront_usd / (c.instances * months * HOURS_PER_MONTH)
    left = months - MONTHS_OF_A_QUARTER * len(quarters_covered(horizon, c))
    return c.instances * max(0.0, later_usd_per_h) * HOURS_PER_MONTH * left


def signed_now_usd_per_month(horizon: HorizonPlan) -> float:
    """Commitments to instances, savings plans and provisioned units."""
    allowances = sum(a.usd_per_month for a in horizon.allowances_now)
    return sum(map(usd_per_month, horizon.signed_now)) + allowances


def owed_now_usd(horizon: HorizonPlan) -> float:
    """What is signed now, and still to be paid after the horizon."""
    allowances = sum(a.beyond_usd for a in horizon.allowances_now)
    return sum(owed_beyond_usd(horizon, c) for c in horizon.signed_now) + allowances


def owed_in_usd(horizon: HorizonPlan, scenario: str) -> float:
    """What is signed now, and later in a scenario, and still to be paid after the horizon."""
    mine = (None, scenario)
    allowances = sum(a.beyond_usd for a in horizon.allowances or () if a.scenario in mine)
    return sum(owed_beyond_usd(horizon, c) for c in horizon.commitments if c.scenario in mine) + allowances


def known_usd(horizon: HorizonPlan, s: ScenarioResult) -> float | None:
    """What the plan that had known a scenario comes to, with what was held before; None: not worked out."""
    return None if s.if_known_usd is None else s.if_known_usd + horizon.held_usd


def regret_frac(horizon: HorizonPlan, s: ScenarioResult) -> float | None:
    """Regret as a share of what the plan that had known comes to."""
    known = known_usd(horizon, s)
    return s.regret_usd / known if s.regret_usd is not None and known else None


def percentile_usd(scenarios: Sequence[ScenarioResult], share: float) -> float:
    """The least cost that is not exceeded with at least this probability."""
    return at_probability([(s.cost_usd, s.probability_frac, s.cost_usd) for s in scenarios], share)


def at_probability(ranked: Sequence[tuple[float, float, T]], share: float) -> T:
    """Of (figure, probability, what it is of): that with the least figure not exceeded with this probability."""
    total = 0.0
    in_order = sorted(ranked, key=lambda each: each[0])
    for _, probability, what in in_order:
        total += probability
        if total >= share - 1e-9:
            return what
    return in_order[-1][2]


@dataclass(frozen=True)
class Expiry:
    """Instances, or a savings plan or units, that are no longer paid for from a month on."""

    month: str
    """the last one that they are there in"""
    offer: str
    purchase: str
    instances: int | None
    """None: a savings plan or units, by their name"""
    usd_per_month: float
    origin: str
    """held, signed now, or signed later"""
    scenario: str | None
    inside: bool
    """whether it ends within the horizon"""


def ladder(horizon: HorizonPlan) -> list[Expiry]:
    """Every commitment and holding with a last day, the first to end first."""
    end = days_of(horizon, quarters_of(horizon)[-1])[1]
    return [
        Expiry(f"{day:%Y-%m}", offer, purchase, n, usd, origin, scenario or None, day <= end)
        for day, offer, purchase, n, usd, origin, scenario in sorted(_ends(horizon))
    ]


def _ends(horizon: HorizonPlan) -> Iterator[tuple[date, str, str, int | None, float, str, str]]:
    for h in horizon.case.held or ():
        if h.last_day is not None and h.purchase != OWNED:
            yield h.last_day, h.offer, h.purchase, h.instances, usd_per_month(h), "held", ""
    for c in horizon.commitments:
        origin = "signed now" if c.scenario is None else "signed later"
        yield c.last_day, c.offer, c.term, c.instances, usd_per_month(c), origin, c.scenario or ""
    for a in horizon.case.allowances or ():
        if a.held and a.last_day is not None:
            yield a.last_day, a.name, a.term, None, a.held * a.usd_per_h * HOURS_PER_MONTH, "held", ""
    for signed in horizon.allowances or ():
        origin = "signed now" if signed.scenario is None else "signed later"
        yield signed.last_day, signed.name, signed.term, None, signed.usd_per_month, origin, signed.scenario or ""
