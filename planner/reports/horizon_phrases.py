"""Sentences about the plan of a horizon that several reports share, as plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from planner.case.allowances import LIKE, allowance_of, lasts_for_quarters
from planner.case.case import Allowance
from planner.case.quarters import budget_periods, lapses_in_horizon
from planner.case.terms import counted_months
from planner.catalog.terms import in_words, is_term
from planner.io.formatting import percent, tokens, usd
from planner.plan.horizon.horizon_plan import MONTHS_OF_A_QUARTER, HorizonPlan, cost_as_minimized
from planner.plan.horizon.horizon_view import (
    book_beyond_usd,
    days_of,
    expected_baseline_usd,
    months_name,
    owed_now_usd,
    parts_of_quarters,
    percentile_usd,
    quarters_of,
    signed_now_usd_per_month,
    spent_in,
)
from planner.plan.lengths import TooLong, passed_on_requests, refused_requests
from planner.plan.plan import Plan
from planner.reports.phrases import (
    ALARM_FRAC,
    amount_of,
    assumed_traffic,
    baseline_name,
    no_api_is_allowed,
)

NOTHING_USD = 0.5


def facts(horizon: HorizonPlan) -> list[str]:
    """Which months and how many scenarios."""
    quarters, scenarios = len(quarters_of(horizon)), len(horizon.scenarios)
    span = months_name(horizon, 0, quarters - 1)
    count = f"{quarters} quarter{'s' * (quarters != 1)}"
    minimized = ["worst case minimized"] if is_worst_case(horizon) else []
    return [f"{span} ({count})", f"{scenarios} scenario{'s' * (scenarios != 1)}", *minimized]


def is_worst_case(horizon: HorizonPlan) -> bool:
    """Whether the worst case was minimized, and it is not the only one."""
    return horizon.risk == "worst-case" and len(horizon.scenarios) > 1


def sign_now(horizon: HorizonPlan) -> str:
    """The answer in one line."""
    signed, allowances = horizon.signed_now, horizon.allowances_now
    if not signed and not allowances:
        terms = [term for term in horizon.case.purchase if is_term(term)]
        terms += [LIKE[a.term] for a in horizon.case.allowances or () if _may_be_signed(horizon, a)]
        later = horizon.commitments or horizon.allowances
        if not later and all(counted_months(horizon.case, term) is None for term in terms):
            return "sign nothing now: the menu has no commitment that may be signed"
        return "sign nothing now: no commitment that begins in the first quarter pays off or is allowed"
    each = [f"{c.instances} x {c.offer} {in_words(c.term)}" for c in signed]
    each += [f"{amount_of(allowance_of(horizon.case, a.name), a.units)} of {a.name} for {a.term}" for a in allowances]
    what, monthly = ", ".join(each), usd(signed_now_usd_per_month(horizon))
    cash = sum(c.upfront_usd for c in signed)
    owed = owed_now_usd(horizon)
    paid = f"{usd(cash)} in cash at signing" if cash else "no cash at signing"
    rest = f"{usd(owed)} owed after the horizon" if owed > NOTHING_USD else "nothing owed after the horizon"
    worth = sum(book_beyond_usd(horizon, c) or 0.0 for c in signed)
    left = f", {usd(worth)} of book value left then" if worth else ""
    return f"sign now: {what}; {monthly} / month, {paid}, {rest}{left}"


def _may_be_signed(horizon: HorizonPlan, a: Allowance) -> bool:
    """In some quarter, for several."""
    free = not a.held or lapses_in_horizon(horizon.case, a)
    return lasts_for_quarters(a) and free and a.most != 0


def later_allowances(horizon: HorizonPlan) -> str:
    """When savings plans and units that are held end, and what is signed later; nothing where there is neither."""
    case = horizon.case
    parts = [
        f"{amount_of(a, a.held)} of {a.name} is held until {a.last_day}"
        for a in case.allowances or ()
        if lapses_in_horizon(case, a)
    ]
    for signed in horizon.allowances or ():
        if signed.scenario is not None:
            where = f" if {signed.scenario} comes" if len(horizon.scenarios) > 1 else ""
            amount = amount_of(allowance_of(case, signed.name), signed.units)
            parts.append(f"{amount} of {signed.name} is signed on {signed.first_day} for {signed.term}{where}")
    return "; ".join(parts)


def costs(horizon: HorizonPlan) -> Iterator[str]:
    """What was minimized first, then the spread of costs, and what of them is already decided."""
    months = MONTHS_OF_A_QUARTER * len(quarters_of(horizon))
    mean, worst = horizon.expected_cost_usd, horizon.worst
    over = f"over {months} months ({usd(cost_as_minimized(horizon, horizon.risk) / months)} / month)"
    p50, p90 = (usd(percentile_usd(horizon.scenarios, share)) for share in (0.5, 0.9))
    if is_worst_case(horizon):
        yield f"worst case: {usd(worst.cost_usd)} in scenario {worst.name} {over}; expected: {usd(mean)}"
        yield f"P50 {p50}, P90 {p90}"
    else:
        yield f"expected cost {usd(mean)} {over}"
        if len(horizon.scenarios) > 1:
            yield f"P50 {p50}, P90 {p90}, worst {usd(worst.cost_usd)} ({worst.name})"
    if horizon.held_usd:
        yield f"{usd(horizon.held_usd)} of this is for what was held before and is paid in any case"
    if api := against_api(horizon):
        yield api
    if budget := within_budget(horizon):
        yield budget


def against_api(horizon: HorizonPlan) -> str:
    """What the same requests would cost at the API baseline, on average and in the scenario that costs most."""
    there = expected_baseline_usd(horizon)
    if not there:
        return ""
    names = {q.plan.case.baseline for q in horizon.quarters}
    name = baseline_name(horizon.quarters[0].plan) if len(names) == 1 else "the API baselines"
    usd_less = there - horizon.expected_cost_usd
    less = f"{percent(abs(usd_less) / there)} {'less' if usd_less >= 0 else 'more'}"
    barred = ", which no workload may use" if no_api_is_allowed(horizon.quarters[0].plan) else ""
    return f"the same requests at {name}{barred}: {usd(there)} expected; this plan costs {less} ({usd(abs(usd_less))})"


def within_budget(horizon: HorizonPlan) -> str:
    """What quarters or years spend at most of a budget of their own, with what is held; nothing where there is none."""
    limits, spent = horizon.case.limits, []
    for period in budget_periods(horizon.case):
        costs = spent_in(horizon, period)
        worst = max(costs, key=lambda name: costs[name])
        share = "" if len(period.quarters) == (limits.budget_months or 0) // MONTHS_OF_A_QUARTER else (
            f" of {usd(period.usd)}"
        )  # fmt: skip
        where = f" ({worst})" if len(horizon.scenarios) > 1 else ""
        spent.append(f"{period.name} {usd(costs[worst])}{share}{where}")
    if not spent:
        return ""
    most = " at most" if len(horizon.scenarios) > 1 else ""
    budget = f"budget of {usd(limits.budget_usd or 0.0)} a {limits.budget_period}"
    return f"{budget}:{most} {', '.join(spent)}"


def refused(horizon: HorizonPlan) -> str:
    """What is refused because it is longer than is let in; nothing where nothing is."""
    found = _too_long(horizon, refused_requests)
    each = [f"{_ranges(some)})" for some in found.values()]
    if not each:
        return ""
    much = any(r.share_frac >= ALARM_FRAC for some in found.values() for r in some)
    how = "REFUSED" if much else "refused"
    return f"{how} every month: {', '.join(each)}; figures are for the rest"


def passed_on(horizon: HorizonPlan) -> Iterator[str]:
    """Requests that are longer than the deployments of their workload admit, and where they go."""
    yield from (where_passed_on(some) for some in _too_long(horizon, passed_on_requests).values())


def where_passed_on(some: list[TooLong]) -> str:
    """One sentence for a workload, over all quarters and scenarios."""
    apis = sorted({r.to for r in some if r.to})
    where = [f"go to {' or '.join(apis)}"] if apis else []
    where += ["are shed"] if any(r.to is None for r in some) else []
    return f"{_ranges(some)}, the most its deployments accept) {' or '.join(where)}"


def long_requests(horizon: HorizonPlan) -> Iterator[str]:
    """What is refused or passed on for its length, and what is assumed of traffic, beside the headline."""
    if sentence := refused(horizon):
        yield sentence
    yield from passed_on(horizon)
    yield from dict.fromkeys(line for q in horizon.quarters for line in assumed_traffic(q.plan))


def _too_long(horizon: HorizonPlan, of: Callable[[Plan], Iterable[TooLong]]) -> dict[str, list[TooLong]]:
    """By workload, what is too long in the plans of all quarters and scenarios that have any."""
    found: dict[str, list[TooLong]] = {}
    for q in horizon.quarters:
        for r in of(q.plan):
            found.setdefault(r.workload, []).append(r)
    return found


def _ranges(some: list[TooLong]) -> str:
    """Shares, numbers and lengths from the least to the most of all quarters and scenarios."""
    shares = _from_to([r.share_frac for r in some], lambda x: percent(x, 2))
    counts = _from_to([r.requests_per_month for r in some], tokens)
    limits = _from_to([r.tokens for r in some], lambda x: f"{x:,.0f}")
    by = ", by quarter and scenario" if " to " in shares + counts + limits else ""
    return f"{shares} of {some[0].workload} ({counts} requests longer than {limits} tokens{by}"


def _from_to(values: Iterable[float], shown: Callable[[float], str]) -> str:
    known = sorted(values)
    return " to ".join(dict.fromkeys(shown(x) for x in (known[0], known[-1])))


def part_quarters(horizon: HorizonPlan) -> Iterator[str]:
    """Which commitments begin or lapse within a quarter, and what that leaves to buy."""
    for part in parts_of_quarters(horizon):
        h, months = part.holding, months_name(horizon, part.quarter, part.quarter)
        first, last = days_of(horizon, part.quarter)
        what = f"{h.instances} x {h.offer} {h.purchase}"
        paid = f"{usd(part.usd)} is paid there for their days, on which they cover what runs on demand"
        if not part.of_use:
            paid = f"{usd(part.usd)} is paid there for unused time, as nothing runs on demand that they could cover"
        if h.last_day is not None and h.last_day < last:
            needed = f"what is signed instead begins with a quarter, on {first} or after {last}"
            yield f"{what} lapse on {h.last_day}, within {months}: {paid}; {needed}"
        else:
            yield f"{what} begin on {h.first_day}, within {months}: {paid}"


def value_of_scenarios(horizon: HorizonPlan) -> str:
    """What planning for all scenarios is worth; nothing where it was not worked out, or is not proved."""
    middle = horizon.middle
    if middle is None:
        return ""
    if middle.counted_usd is None:
        return (
            f"committing for {middle.scenario} alone is not possible: what it signs now leaves another scenario "
            "without a plan"
        )
    of = " in the worst case" if is_worst_case(horizon) else ""
    if middle.counted_usd <= horizon.counted_usd:
        return f"committing for {middle.scenario} alone would cost no more{of}"
    worth = 0.0 if middle.bound_usd is None else middle.bound_usd - horizon.counted_usd
    if worth < NOTHING_USD:
        return ""
    return f"planning for all scenarios saves at least {usd(worth)}{of} over committing for {middle.scenario} alone"


def long_terms(horizon: HorizonPlan) -> str:
    """What terms would save that outlast the horizon, where they are not bought."""
    saved = horizon.long_terms_would_save_usd
    if saved is None:
        return ""
    if saved < NOTHING_USD:
        return "terms of more than a year are not bought, and would save nothing here"
    where = ", in the worst case" if is_worst_case(horizon) else ""
    return (
        f"terms of more than a year that outlast the horizon are not bought; with the same deployments they would save "
        f"{usd(saved)} in it{where}: 'unused_after_horizon: {{worth: 50%}}' or 'policy: {{max_liability: $200k}}' "
        "allows them"
    )


def proved(horizon: HorizonPlan) -> str:
    """What the bound says, and of what."""
    which = f"worst case, {horizon.worst_scenario}: cost" if is_worst_case(horizon) else "expected cost"
    of = f"{which} with penalties and commitments as counted, without what was held before"
    return f"proven lower bound {usd(horizon.bound_usd)}; this plan {usd(horizon.counted_usd)} ({of})"


def remarks(horizon: HorizonPlan) -> Iterator[str]:
    """What the tables do not say."""
    yield from (line for say in (value_of_scenarios, long_terms, proved) if (line := say(horizon)))
    yield from (f"note: {note}" for note in horizon.notes)
