"""A horizon cut into ordinary cases of one quarter, and what is held in each of them.

The first quarter is one case for all scenarios together: its months are those of every scenario, weighted by their
probability. Each later quarter is a case of its own in each scenario.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from planner.case.allowances import allowances_held_usd_per_month
from planner.case.case import AMENDED, OWNED, Allowance, Case, Future, Holding, Limits, Month, Scenario, Workload
from planner.case.dates import add_months, month_end, month_name, quarter_days
from planner.case.owned import as_many_as_there_are
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.catalog.terms import is_bought
from problems.constants import HOURS_PER_MONTH

RESERVED = "reserved"
"""source of an allowance that is instances reserved for a part of a quarter"""
HOURS_PER_QUARTER = MONTHS_OF_A_QUARTER * HOURS_PER_MONTH


@dataclass(frozen=True)
class Block:
    """What one ordinary case plans for."""

    quarter: int
    """from 0"""
    scenario: str | None
    """None: the first quarter, all scenarios together"""
    months: float
    """how much it counts in the expected cost of the horizon: its months times its probability"""


@dataclass(frozen=True)
class MonthGroup:
    """Months of a quarter in which every workload has the same rates, in the scenarios that share them."""

    months: tuple[int, ...]
    """of the horizon, from 0; of the first and the last one perhaps a part"""
    count: float
    """of months of the calendar: by their days where the quarter is cut"""
    days: tuple[date, date]
    """the first day and the last of the time in which the same is held, for all scenarios"""
    scenarios: tuple[str, ...]
    share_frac: float
    """of the quarter, over all scenarios that it is cut for: probabilities times months"""
    factors: dict[str, float]
    """workload -> times its rates"""


def future_of(case: Case) -> Future:
    assert case.future is not None, "an ordinary case has no horizon to cut"
    return case.future


def blocks_of(case: Case) -> tuple[Block, ...]:
    """The first quarter, then every scenario's later ones."""
    future = future_of(case)
    later = (
        Block(quarter, s.name, MONTHS_OF_A_QUARTER * s.probability_frac)
        for s in future.scenarios
        for quarter in range(1, future.quarters)
    )
    return (Block(0, None, float(MONTHS_OF_A_QUARTER)), *later)


def block_name(quarter: int, scenario: str | None) -> str:
    """As people say it: quarter 2, fast."""
    return f"quarter {quarter + 1}" + (f", {scenario}" if scenario is not None else "")


def block_case(case: Case, block: Block) -> Case:
    scenarios = future_of(case).scenarios
    return quarter_case(case, block.quarter, [s for s in scenarios if block.scenario in (None, s.name)])


def case_in(case: Case, quarter: int, scenario: Scenario | None) -> Case:
    """The case with the prices, objectives and menu of a quarter in a scenario; the first is the same in all."""
    begun = [a for a in (scenario.amendments if scenario else None) or () if a.from_quarter <= quarter]
    if not begun:
        return case
    return case.model_copy(update={name: new for name in AMENDED if (new := getattr(begun[-1], name)) is not None})


def ordered_quarter(case: Case, offer: str, term: str, quarter: int) -> int:
    """The quarter in which what begins with one is signed: servers are ordered by their lead time before."""
    price = case.offers[offer].prices.bought if is_bought(term) and offer in case.offers else None
    return quarter - (price.lead_quarters if price is not None else 0)


def case_when_signed(case: Case, offer: str, term: str, quarter: int, scenario: Scenario | None) -> Case:
    """The case with the prices at which a commitment that begins with a quarter is signed."""
    return case_in(case, ordered_quarter(case, offer, term, quarter), scenario)


def month_groups(case: Case, quarter: int, scenarios: Sequence[Scenario]) -> tuple[MonthGroup, ...]:
    """Months of a quarter, scenarios that are alike in one together, then months that are alike in the same ones.

    What a quarter costs in a scenario is the mean over its months: of each group that the scenario is in, the cost of a
    month times the number of its months, divided by 3. A quarter within which something that is held begins or lapses
    is cut there, and its months count by their days, as what is held is paid.
    """
    names = [w.name for w in case.workloads]
    total = sum(s.probability_frac for s in scenarios) * MONTHS_OF_A_QUARTER
    alike: dict[tuple[tuple[date, date], tuple[str, ...], tuple[float, ...]], dict[int, float]] = {}
    parts, whole = days_alike(case, quarter), quarter_days(future_of(case).starts, quarter)
    for days in parts:
        for month in range(MONTHS_OF_A_QUARTER * quarter, MONTHS_OF_A_QUARTER * (quarter + 1)):
            first = add_months(future_of(case).starts, month)
            inside = _share_of_days(max(first, days[0]), min(month_end(first), days[1]), *whole)
            share = MONTHS_OF_A_QUARTER * inside if len(parts) > 1 else 1.0
            sharing: dict[tuple[float, ...], list[str]] = {}
            for s in scenarios if share else ():
                sharing.setdefault(tuple(s.month_factors[name][month] for name in names), []).append(s.name)
            for factors, members in sharing.items():
                alike.setdefault((days, tuple(members), factors), {})[month] = share
    probability = {s.name: s.probability_frac for s in scenarios}
    return tuple(
        MonthGroup(
            months=tuple(months),
            count=sum(months.values()),
            days=days,
            scenarios=members,
            share_frac=sum(months.values()) * sum(probability[name] for name in members) / total,
            factors=dict(zip(names, factors, strict=True)),
        )
        for (days, members, factors), months in alike.items()
    )


def days_alike(case: Case, quarter: int) -> list[tuple[date, date]]:
    """A quarter, cut where instances or allowances that are held begin or lapse: first and last day of each part.

    Owned boxes that are there for a part of it are not used in it.
    """
    first, last = quarter_days(future_of(case).starts, quarter)
    rented = [h for h in case.held or () if h.purchase != OWNED]
    begin = {h.first_day for h in rented if h.first_day is not None}
    ends = [h.last_day for h in rented] + [a.last_day for a in case.allowances or () if a.held]
    begin |= {day + timedelta(days=1) for day in ends if day is not None}
    cuts = [first, *sorted(day for day in begin if first < day <= last)]
    return list(zip(cuts, [*(day - timedelta(days=1) for day in cuts[1:]), last], strict=True))


def quarter_case(case: Case, quarter: int, scenarios: Sequence[Scenario]) -> Case:
    """One quarter of a horizon as an ordinary case, for one scenario or several together.

    A workload without demand in the whole quarter is left out.
    """
    future = future_of(case)
    groups = month_groups(case, quarter, scenarios)
    case = case_in(case, quarter, scenarios[0])
    several = len(scenarios) > 1

    def label(group: MonthGroup) -> str:
        when = span_name(future.starts, group.months) + _part_name(group.days)
        which = several and len(group.scenarios) < len(scenarios)
        return f"{when}, {' or '.join(group.scenarios)}" if which else when

    def in_quarter(w: Workload) -> Workload:
        factors = tuple(g.factors[w.name] for g in groups)
        return w.model_copy(update={"month_factors": factors, "growth_per_month_frac": 0.0})

    case = as_many_as_there_are(case, held_in(case, quarter))
    return case.model_copy(
        update={
            "workloads": tuple(in_quarter(w) for w in case.workloads if any(g.factors[w.name] for g in groups)),
            "months": tuple(Month(label=label(g), weight=g.share_frac * len(groups)) for g in groups),
            "starts": quarter_days(future.starts, quarter)[0],
            "held": held_in(case, quarter) or None,
            "allowances": (*held_in_part(case, quarter, groups), *allowances_in(case, quarter)) or None,
            "held_besides_usd_per_month": held_besides_usd(case, quarter) / MONTHS_OF_A_QUARTER or None,
            "limits": without_longer_budget(case.limits),
            "future": None,
        }
    )


def _part_name(days: tuple[date, date]) -> str:
    """Where a part of a quarter does not begin or end with a month."""
    first, last = days
    since = f", from {first}" if first.day > 1 else ""
    return since + (f", until {last}" if last != month_end(last) else "")


def without_longer_budget(limits: Limits) -> Limits:
    """What limits a quarter by itself: a budget of several months is kept by the horizon as a whole."""
    if limits.budget_usd is None:
        return limits
    return limits.model_copy(update={"budget_usd": None, "budget_months": None})


@dataclass(frozen=True)
class BudgetPeriod:
    """Quarters of a horizon that share a budget, with what holdings leave of it."""

    quarters: tuple[int, ...]
    usd: float
    left_usd: float

    @property
    def held_usd(self) -> float:
        return self.usd - self.left_usd

    @property
    def name(self) -> str:
        first, last = self.quarters[0] + 1, self.quarters[-1] + 1
        return f"quarter {first}" if first == last else f"quarters {first} to {last}"


def budget_periods(case: Case) -> tuple[BudgetPeriod, ...]:
    """Years begin with the horizon; of the last one that is not whole, as many quarters have their share."""
    limits, future = case.limits, future_of(case)
    if limits.budget_usd is None or limits.budget_months is None:
        return ()
    length = limits.budget_months // MONTHS_OF_A_QUARTER
    periods = []
    for first in range(0, future.quarters, length):
        some = tuple(range(first, min(first + length, future.quarters)))
        usd = limits.budget_usd * len(some) / length
        periods.append(BudgetPeriod(some, usd, usd - sum(held_usd(case, q) for q in some)))
    return tuple(periods)


def span_name(starts: date, months: Sequence[int]) -> str:
    """Months of a horizon as 2027-04 to 2027-06, or 2027-04 and 2027-06."""
    names = [month_name(starts, m) for m in months]
    adjacent = months[-1] - months[0] == len(names) - 1
    return f"{names[0]} to {names[-1]}" if adjacent and len(names) > 1 else " and ".join(names)


# -- what is held ---------------------------------------------------------------------------------------------------


def held_in(case: Case, quarter: int) -> tuple[Holding, ...]:
    """Holdings that can be used in a quarter: those that are there from its first day to its last."""
    first, last = quarter_days(future_of(case).starts, quarter)
    return tuple(h for h in case.held or () if covers(h, first, last))


def covers(holding: Holding, first: date, last: date) -> bool:
    """Whether a holding is there from the first of these days to the last."""
    begun = holding.first_day is None or holding.first_day <= first
    return begun and (holding.last_day is None or holding.last_day >= last)


def allowances_in(case: Case, quarter: int) -> tuple[Allowance, ...]:
    """Allowances as they are in a quarter: what lapses before its last day is held no more, and may be signed."""
    return tuple(
        a.model_copy(update={"held": 0.0, "last_day": None}) if a.held and not is_held_in(case, a, quarter) else a
        for a in case.allowances or ()
    )


def held_in_part(case: Case, quarter: int, groups: Sequence[MonthGroup]) -> tuple[Allowance, ...]:
    """What is held for a part of a quarter, as allowances of its months then.

    Instances that are reserved cover as many that run on demand, before anything else does: they are dollars an hour at
    their own rate. Where the menu has none on demand they are of no use.
    """
    first, last = quarter_days(future_of(case).starts, quarter)

    def months(begins: date | None, ends: date | None) -> tuple[int, ...]:
        return tuple(m for m, g in enumerate(groups) if (begins or first) <= g.days[0] and g.days[1] <= (ends or last))

    found = [
        Allowance(
            name=f"{h.purchase} {h.offer}{'' if h.first_day is None else f' from {h.first_day}'}"
            f"{'' if h.last_day is None else f' until {h.last_day}'}, {k + 1}",
            usd_per_h=1.0,
            rates={h.offer: h.usd_per_h},
            held=h.instances * h.usd_per_h,
            last_day=h.last_day,
            in_months=months(h.first_day, h.last_day),
            term="hourly",
            source=RESERVED,
        )
        for k, h in enumerate(case.held or ())
        if serves_in_part(case, h, quarter)
    ]
    found += [
        a.model_copy(
            update={"name": f"{a.name} until {a.last_day}", "most": None, "in_months": months(None, a.last_day)}
        )
        for a in case.allowances or ()
        if lapses_in(case, a, quarter)
    ]
    return tuple(found)


def is_held_instances(a: Allowance) -> bool:
    """Whether an allowance is instances that are reserved for a part of a quarter."""
    return a.in_months is not None and a.source == RESERVED


def held_instances_in_part(case: Case, offer: str) -> list[tuple[float, tuple[int, ...]]]:
    """Instances of an offer that are reserved for some months of a quarter's case, and these months."""
    of_offer = ((a, (a.rates or {}).get(offer)) for a in case.allowances or () if is_held_instances(a))
    return [(a.held / usd, a.in_months or ()) for a, usd in of_offer if usd]


def serves_in_part(case: Case, h: Holding, quarter: int) -> bool:
    """Whether a holding is there for a part of a quarter, and of use then."""
    first, last = quarter_days(future_of(case).starts, quarter)
    if h.purchase == OWNED or not h.usd_per_h or covers(h, first, last) or not _is_there(h, first, last):
        return False
    offer = case.offers.get(h.offer)
    return "on-demand" in case.purchase and offer is not None and offer.prices.on_demand is not None


def _is_there(h: Holding, first: date, last: date) -> bool:
    """Whether a holding is there on some of these days."""
    return (h.first_day is None or h.first_day <= last) and (h.last_day is None or h.last_day >= first)


def lapses_in(case: Case, a: Allowance, quarter: int) -> bool:
    """Whether what is held of an allowance is there for a part of a quarter."""
    first, last = quarter_days(future_of(case).starts, quarter)
    return bool(a.held) and a.last_day is not None and first <= a.last_day < last


def is_held_in(case: Case, a: Allowance, quarter: int) -> bool:
    """Whether what is held of an allowance is there until the last day of a quarter."""
    return bool(a.held) and (a.last_day is None or a.last_day >= quarter_days(future_of(case).starts, quarter)[1])


def lapses_in_horizon(case: Case, a: Allowance) -> bool:
    """Whether some quarter of a horizon does not have what is held of an allowance."""
    return case.future is not None and bool(a.held) and not is_held_in(case, a, case.future.quarters - 1)


def allowance_usd(case: Case, a: Allowance, quarter: int) -> float:
    """What is paid in a quarter for what is held of an allowance, for its days."""
    first, last = quarter_days(future_of(case).starts, quarter)
    return a.held * a.usd_per_h * HOURS_PER_QUARTER * _share_of_days(None, a.last_day, first, last)


def held_usd(case: Case, quarter: int) -> float:
    """What holdings cost in a quarter in any case; those that are there for a part of it, for their days."""
    allowances = sum(allowance_usd(case, a, quarter) for a in case.allowances or ())
    return sum(holding_usd(case, h, quarter) for h in case.held or ()) + allowances


def held_besides_usd(case: Case, quarter: int) -> float:
    """Share of `held_usd` for holdings that are there for a part of the quarter, and of no use in it."""
    usable = held_in(case, quarter)
    of_no_use = (h for h in case.held or () if h not in usable and not serves_in_part(case, h, quarter))
    return sum(holding_usd(case, h, quarter) for h in of_no_use)


def holding_usd(case: Case, holding: Holding, quarter: int) -> float:
    """Cost of a holding in a quarter of a horizon."""
    return usd_in_quarter(holding, *quarter_days(future_of(case).starts, quarter))


def usd_in_quarter(holding: Holding, first: date, last: date) -> float:
    """Price of a holding for its days within a quarter, which has 3 months of 730 h.

    Owned boxes cost nothing until they run.
    """
    if holding.purchase == OWNED:
        return 0.0
    inside = _share_of_days(holding.first_day, holding.last_day, first, last)
    return holding.instances * holding.usd_per_h * HOURS_PER_QUARTER * inside


def _share_of_days(begins: date | None, ends: date | None, first: date, last: date) -> float:
    """Of the days from first to last, those on which something is there that begins and ends so."""
    return max(0, (min(last, ends or last) - max(first, begins or first)).days + 1) / ((last - first).days + 1)


def held_usd_per_month(case: Case) -> float:
    """What holdings cost in any case in a month of an ordinary case, those that are of no use in it included."""
    paid = (h.instances * h.usd_per_h for h in case.held or () if h.purchase != OWNED)
    besides = (case.held_besides_usd_per_month or 0.0) + allowances_held_usd_per_month(case)
    return HOURS_PER_MONTH * sum(paid) + besides
