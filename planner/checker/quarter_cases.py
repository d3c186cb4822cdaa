"""The case of each quarter of a horizon, worked out again: its months and their weights, its demand, what is held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from planner.case.case import OWNED, Case, Future, Holding, Scenario, Workload
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.catalog.terms import is_term
from planner.checker.figures import MONTH_HOURS, differs, is_not
from planner.plan.horizon.horizon_plan import SignedCommitment

OWN = {
    *("name", "workloads", "purchase", "months", "starts", "held", "held_besides_usd_per_month"),
    *("future", "assumptions", "allowances"),
}
"""what a quarter has of its own; all else is as in the horizon"""


def month_start(starts: date, months: int) -> date:
    """The first day of a month of the horizon, from 0."""
    count = 12 * starts.year + starts.month - 1 + months
    return date(count // 12, count % 12 + 1, 1)


def quarter_span(starts: date, quarter: int) -> tuple[date, date]:
    """First and last day."""
    first = month_start(starts, MONTHS_OF_A_QUARTER * quarter)
    return first, month_start(starts, MONTHS_OF_A_QUARTER * (quarter + 1)) - timedelta(days=1)


def as_amended(case: Case, quarter: int, scenario: Scenario | None) -> Case:
    """The horizon's case with all that differs in a quarter of a scenario; what is signed now is as it stands."""
    latest = None
    for a in (scenario.amendments if scenario is not None else None) or ():
        if a.from_quarter <= quarter and (latest is None or a.from_quarter > latest.from_quarter):
            latest = a
    if latest is None:
        return case
    new = {key: value for key, value in latest if key != "from_quarter" and value is not None}
    return case.model_copy(update=new)


def amendments_fit(case: Case) -> Iterator[str]:
    """Whether scenarios are all that may happen, and amend none of what they share: quarters, offers, rates."""
    assert case.future is not None
    total = sum(s.probability_frac for s in case.future.scenarios)
    if abs(total - 1) > 1e-6:
        yield f"the probabilities of the scenarios add up to {total:.6%}"
    for s in case.future.scenarios:
        begin = [a.from_quarter for a in s.amendments or ()]
        if begin != sorted(set(begin)) or any(not 0 < q < case.future.quarters for q in begin):
            yield f"{s.name}: its amendments do not begin with later quarters, one after the other"
        for a in s.amendments or ():
            if a.offers is not None and not case.offers.keys() <= a.offers.keys():
                yield f"{s.name}: offers that may be signed for now are gone later"
            if a.workloads is not None and list(map(_demand, a.workloads)) != list(map(_demand, case.workloads)):
                yield f"{s.name}: its amended workloads are not those of the horizon, or come at other rates"


def _demand(w: Workload) -> tuple[object, ...]:
    return w.name, w.weekday_rps, w.weekend_rps, w.growth_per_month_frac, w.month_factors


@dataclass
class MonthsAlike:
    """Months of the calendar in which the same scenarios have the same demand: one month of the quarter's case."""

    factors: tuple[float, ...]
    """of each workload"""
    scenarios: tuple[str, ...]
    part: int
    """of the quarter, from 0: of those in which the same is held"""
    count: float = 0.0
    """of a quarter that is cut, by their days"""


def months_alike(case: Case, quarter: int, scenarios: Sequence[Scenario]) -> list[MonthsAlike]:
    """In the order in which they come."""
    assert case.future is not None
    found: list[MonthsAlike] = []
    parts = parts_alike(case, quarter)
    for part, days in enumerate(parts):
        for month in range(MONTHS_OF_A_QUARTER * quarter, MONTHS_OF_A_QUARTER * (quarter + 1)):
            begins, after = (month_start(case.future.starts, month + k) for k in (0, 1))
            inside = sum(begins <= day < after for day in days)
            share = MONTHS_OF_A_QUARTER * inside / sum(map(len, parts)) if len(parts) > 1 else 1.0
            if not share:
                continue
            demand = {s.name: tuple(s.month_factors[w.name][month] for w in case.workloads) for s in scenarios}
            for factors in dict.fromkeys(demand.values()):
                together = tuple(name for name, mine in demand.items() if mine == factors)
                same = [m for m in found if (m.factors, m.scenarios, m.part) == (factors, together, part)]
                if not same:
                    same = [MonthsAlike(factors, together, part)]
                    found += same
                same[0].count += share
    return found


def parts_alike(case: Case, quarter: int) -> list[set[date]]:
    """Days of a quarter, cut where what is held and paid for changes from one day to the next."""
    assert case.future is not None
    parts: list[tuple[list[bool], set[date]]] = []
    for day in days_of(case.future, quarter):
        held = [there(h.first_day, h.last_day, day) for h in case.held or () if h.purchase != OWNED]
        held += [there(None, a.last_day, day) for a in case.allowances or () if a.held]
        if not parts or parts[-1][0] != held:
            parts.append((held, set()))
        parts[-1][1].add(day)
    return [days for _, days in parts]


def days_of(future: Future, quarter: int) -> list[date]:
    first, last = quarter_span(future.starts, quarter)
    return [first + timedelta(days=k) for k in range((last - first).days + 1)]


def there(first: date | None, last: date | None, day: date) -> bool:
    return (first is None or day >= first) and (last is None or day <= last)


def quarter_share(future: Future, quarter: int, first: date | None, last: date | None) -> float:
    """Of the days of a quarter, those on which something is there."""
    days = [there(first, last, day) for day in days_of(future, quarter)]
    return sum(days) / len(days)


def quarter_case_is_true(
    case: Case,
    planned: Case,
    quarter: int,
    scenarios: Sequence[Scenario],
    signed: Sequence[SignedCommitment],
) -> Iterator[str]:
    """Whether a quarter was planned for what the horizon says of it."""
    case = as_amended(case, quarter, scenarios[0])
    shared = {"budget_usd": None, "budget_months": None}
    case = case.model_copy(update={"limits": case.limits.model_copy(update=shared)})
    as_in_quarter = _with_owned_boxes(case, quarter)
    for key in type(case).model_fields:
        if key not in OWN and getattr(planned, key) != getattr(as_in_quarter, key):
            yield f"the {key} of its case differ from those of the horizon"
    by_the_hour = {purchase for purchase in case.purchase if not is_term(purchase)}
    if set(planned.purchase) - set(case.purchase) or by_the_hour - set(planned.purchase):
        yield "the ways to buy of its case differ from those of the horizon"
    if planned.future is not None:
        yield "its case is a horizon of its own"
    assert case.future is not None
    yield from is_not("the first day of its case", planned.starts, quarter_span(case.future.starts, quarter)[0])
    yield from _demand_is_true(case, planned, quarter, scenarios)
    yield from _held_is_true(case, planned, quarter, signed)
    yield from _held_in_part_is_true(case, planned, quarter, scenarios)


def _with_owned_boxes(case: Case, quarter: int) -> Case:
    """The horizon's case with as many owned boxes to run as are there for the whole quarter."""
    assert case.future is not None
    first, last = quarter_span(case.future.starts, quarter)
    there: Counter[str] = Counter()
    for h in case.held or ():
        if h.purchase == OWNED:
            whole = (h.first_day or first) <= first and (h.last_day or last) >= last
            there[f"{h.offer}+{OWNED}"] += h.instances if whole else 0
    if not there:
        return case
    limits = case.limits.model_copy(update={"max_instances": case.limits.max_instances | dict(there)})
    return case.model_copy(update={"limits": limits})


def _demand_is_true(case: Case, planned: Case, quarter: int, scenarios: Sequence[Scenario]) -> Iterator[str]:
    alike = months_alike(case, quarter, scenarios)
    chance = {s.name: s.probability_frac for s in scenarios}
    whole = MONTHS_OF_A_QUARTER * sum(chance.values())
    weights = [len(alike) * m.count * sum(chance[name] for name in m.scenarios) / whole for m in alike]
    claimed = [m.weight for m in planned.months or ()]
    if len(claimed) != len(weights):
        yield f"its case has {len(claimed)} months, the demand of {len(weights)} differs"
        return
    for k, (said, true) in enumerate(zip(claimed, weights, strict=True)):
        yield from differs(f"the weight of month {k + 1}", said, true)
    expected = []
    for w, factors in zip(case.workloads, zip(*(m.factors for m in alike), strict=True), strict=True):
        if any(factors):
            expected.append(w.model_copy(update={"month_factors": factors, "growth_per_month_frac": 0.0}))
    if tuple(expected) != planned.workloads:
        yield "the workloads of its case, or their demand, are not those of its scenario"


def _held_is_true(case: Case, planned: Case, quarter: int, signed: Sequence[SignedCommitment]) -> Iterator[str]:
    """What was held before and is there for the whole quarter, and all commitments that are in force."""
    assert case.future is not None
    besides = 0.0
    first, last = quarter_span(case.future.starts, quarter)
    expected: Counter[tuple[str, str, float]] = Counter()
    for h in case.held or ():
        if (h.first_day or first) <= first and (h.last_day or last) >= last:
            expected[h.offer, h.purchase, round(h.usd_per_h, 9)] += h.instances
        elif not _may_cover(case, h):
            besides += holding_usd(case.future, h, quarter)
    for c in signed:
        if c.first_day <= first and c.last_day >= last:
            expected[c.offer, c.term, round(c.usd_per_h, 9)] += c.instances
    claimed: Counter[tuple[str, str, float]] = Counter()
    for h in planned.held or ():
        claimed[h.offer, h.purchase, round(h.usd_per_h, 9)] += h.instances
    for offer, way, usd in sorted(expected.keys() | claimed.keys()):
        true, said = expected[offer, way, usd], claimed[offer, way, usd]
        yield from is_not(f"the number of {offer} held as {way} at ${usd:,.4g} an hour", said, true)
    paid = planned.held_besides_usd_per_month or 0.0
    yield from differs("what is paid for holdings that are there for a part of it", paid, besides / MONTHS_OF_A_QUARTER)


def holding_usd(future: Future, h: Holding, quarter: int) -> float:
    """What a holding costs in a quarter: of its 3 x 730 hours, the share of the days that it is there."""
    if h.purchase == OWNED:
        return 0.0
    return (
        h.instances
        * h.usd_per_h
        * MONTH_HOURS
        * MONTHS_OF_A_QUARTER
        * quarter_share(future, quarter, h.first_day, h.last_day)
    )


def _may_cover(case: Case, h: Holding) -> bool:
    """Whether instances that are reserved for a part of a quarter have any on demand to cover."""
    sold = case.offers[h.offer].prices.on_demand if h.offer in case.offers else None
    return h.purchase != OWNED and h.usd_per_h > 0 and "on-demand" in case.purchase and sold is not None


def _held_in_part_is_true(case: Case, planned: Case, quarter: int, scenarios: Sequence[Scenario]) -> Iterator[str]:
    """What is held for a part of the quarter covers in its months, reserved instances first, and nothing else does."""
    assert case.future is not None
    parts, alike = parts_alike(case, quarter), months_alike(case, quarter, scenarios)
    whole = set(days_of(case.future, quarter))

    def months(first: date | None, last: date | None) -> tuple[int, ...] | None:
        """of the quarter's case; None: it is there always, or never"""
        days = {day for day in whole if there(first, last, day)}
        return tuple(k for k, m in enumerate(alike) if parts[m.part] <= days) if days and days != whole else None

    expected: list[tuple[object, ...]] = []
    for h in case.held or ():
        mine = months(h.first_day, h.last_day)
        if mine is not None and _may_cover(case, h):
            expected.append(({h.offer: h.usd_per_h}, 1.0, round(h.instances * h.usd_per_h, 9), mine, None))
    for a in case.allowances or ():
        mine = months(None, a.last_day) if a.held else None
        if mine is not None:
            tokens = a.tokens_per_minute, a.output_weight, a.cached_weight
            expected.append((a.rates, a.usd_per_h, round(a.held, 9), mine, (a.api, *tokens) if a.api else None))
    claimed = [
        (
            *(a.rates, a.usd_per_h, round(a.held, 9), a.in_months),
            (a.api, a.tokens_per_minute, a.output_weight, a.cached_weight) if a.api else None,
        )
        for a in planned.allowances or ()
        if a.in_months is not None
    ]
    if claimed != expected:
        yield "what is held for a part of the quarter differs from what the horizon says of it"
