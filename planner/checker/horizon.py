"""The independent check of the plan of a horizon: every quarter, scenario and commitment, from its JSON alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from planner.case.case import Case, Future, Scenario
from planner.case.prices import price_of
from planner.case.quarters import block_name
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.catalog.terms import is_bought, is_term, term_months
from planner.checker.claims import PROVED_GAP, ROUNDING
from planner.checker.figures import MONTH_HOURS, REL, differs, in_words, is_not
from planner.checker.horizon_allowances import (
    allowance_held_usd,
    allowance_owed_usd,
    quarter_holds_what_is_signed,
    signed_allowances_are_sold,
)
from planner.checker.one_block import block_problems
from planner.checker.quarter_cases import (
    amendments_fit,
    as_amended,
    holding_usd,
    month_start,
    months_alike,
    quarter_case_is_true,
    quarter_span,
)
from planner.plan.account.account import account_of
from planner.plan.horizon.horizon_plan import HorizonPlan, ScenarioResult, SignedAllowance, SignedCommitment
from planner.plan.plan import PLAN_FORMAT

SHORT_MONTHS = 12
"""terms up to this are worth their price after the horizon"""


def horizon_problems(data: Any, screened: bool = False) -> Iterator[str]:
    """Everything that is wrong with the plan of a horizon, in words."""
    format_ = data.get("format")
    if format_ != PLAN_FORMAT:
        yield f"expected a plan of format '{PLAN_FORMAT}', got {format_!r:.60}"
        return
    try:
        horizon = HorizonPlan.model_validate_json(json.dumps(data, allow_nan=False))
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        yield from (f"{'.'.join(str(p) for p in e['loc'])}: {e['msg']}, got {e['input']!r:.60}" for e in mistakes)
        return
    if horizon.case_hash != horizon.case.hash():
        yield "the case inside is not the one that was planned (its hash differs)"
    yield from is_not("the name of the case", horizon.name, horizon.case.name)
    if horizon.case.future is None:
        yield "the case inside has no horizon"
        return
    unusable = [*_quarters_and_scenarios_fit(horizon, horizon.case.future)]
    yield from unusable or _figures(horizon, horizon.case.future, screened)


def _quarters_and_scenarios_fit(horizon: HorizonPlan, future: Future) -> Iterator[str]:
    """One plan for the first quarter, whatever happens, and one for each later quarter of each scenario."""
    expected = [(0, None)] + [(q, s.name) for s in future.scenarios for q in range(1, future.quarters)]
    if Counter((q.quarter, q.scenario) for q in horizon.quarters) != Counter(expected):
        yield "there is not one plan for the first quarter and one for each later quarter and scenario"
    claimed = [(s.name, s.probability_frac) for s in horizon.scenarios]
    true = [(s.name, s.probability_frac) for s in future.scenarios]
    yield from is_not("the list of scenarios and their probabilities", claimed, true)
    if any(len(s.by_quarter_usd) != future.quarters for s in horizon.scenarios):
        yield "a scenario does not have a cost for each quarter"
    names = {s.name for s in future.scenarios}
    for c in horizon.commitments:
        if c.quarter >= future.quarters or (c.scenario is not None and c.scenario not in names):
            yield f"{c.offer}, {c.term}: signed in a quarter or scenario that does not exist"
            continue
        if _signed_in(horizon.case, c) < 0:
            yield f"{c.offer}, {c.term}: it would have to be ordered before the horizon begins"
            continue
        if (_signed_in(horizon.case, c) == 0) != (c.scenario is None):
            yield f"{c.offer}, {c.term}: what is signed now is signed in every scenario, and nothing else is"
        case = _case_when_signed(horizon, future, c)
        if c.offer not in case.offers or not is_term(c.term) or c.term not in case.purchase:
            yield f"{c.offer}, {c.term}: is not on the menu"
    yield from amendments_fit(horizon.case)


def _case_when_signed(horizon: HorizonPlan, future: Future, c: SignedCommitment) -> Case:
    """The case of the quarter and the scenario that a commitment is signed in: its prices are those of it."""
    scenario = next((s for s in future.scenarios if s.name == c.scenario), None)
    return as_amended(horizon.case, _signed_in(horizon.case, c), scenario)


def _signed_in(case: Case, c: SignedCommitment) -> int:
    """The quarter in which it is signed: a server comes in the quarter after its lead time, whole quarters of it."""
    price = case.offers[c.offer].prices.bought if c.offer in case.offers else None
    if price is None or not is_bought(c.term):
        return c.quarter
    lead = 0
    while MONTHS_OF_A_QUARTER * lead < price.lead_months:
        lead += 1
    return c.quarter - lead


def _figures(horizon: HorizonPlan, future: Future, screened: bool) -> Iterator[str]:
    yield from _commitments_are_true(horizon, future)
    yield from signed_allowances_are_sold(horizon, future)
    for q in horizon.quarters:
        where = block_name(q.quarter, q.scenario)
        mine = [s for s in future.scenarios if q.scenario in (None, s.name)]
        signed = [c for c in horizon.commitments if c.scenario in (None, q.scenario)]
        problems = in_words(block_problems(q.plan.as_json(), screened))
        if q.plan.commitments:
            problems.append("it signs commitments of its own")
        problems += quarter_case_is_true(horizon.case, q.plan.case, q.quarter, mine, signed)
        allowances = [a for a in horizon.allowances or () if a.scenario in (None, q.scenario)]
        problems += quarter_holds_what_is_signed(horizon.case, q.plan.case, q.quarter, allowances)
        yield from (f"{where}: {problem}" for problem in problems)
    yield from _money_adds_up(horizon, future)


def _commitments_are_true(horizon: HorizonPlan, future: Future) -> Iterator[str]:
    lines = Counter((c.offer, c.term, c.quarter, c.scenario) for c in horizon.commitments)
    for (offer, term, quarter, _), times in lines.items():
        if times > 1:
            yield f"{offer}, {term}: signed in {times} lines with quarter {quarter + 1}"
    for c in horizon.commitments:
        yield from (f"{c.offer}, {c.term}: {problem}" for problem in _commitment_is_true(horizon, future, c))
    limit = future.max_liability_usd
    for s in future.scenarios:
        owed = sum(_owed_usd(horizon, future, c) for c in _signed(horizon, s.name))
        owed += sum(allowance_owed_usd(future, a) for a in _signed_allowances(horizon, s.name))
        if limit is not None and owed > limit * (1 + REL):
            yield f"{s.name}: ${owed:,.2f} is owed for long terms after the horizon, ${limit:,.2f} is allowed"


def _owed_usd(horizon: HorizonPlan, future: Future, c: SignedCommitment) -> float:
    """What is still to be paid after the horizon for a term of more than a year; what was paid up front is not owed."""
    price, months = price_of(_case_when_signed(horizon, future, c), c.offer, c.term), term_months(c.term)
    if price is None or (months <= SHORT_MONTHS and not is_bought(c.term)):
        return 0.0
    left = max(0, months - MONTHS_OF_A_QUARTER * (future.quarters - c.quarter))
    bought = _case_when_signed(horizon, future, c).offers[c.offer].prices.bought
    if bought is not None and is_bought(c.term):  # what it is still to lose of its price
        return c.instances * (bought.price_usd - bought.residual_usd) * left / months
    return c.instances * price.later_usd_per_h * MONTH_HOURS * left


def _commitment_is_true(horizon: HorizonPlan, future: Future, c: SignedCommitment) -> Iterator[str]:
    price = price_of(_case_when_signed(horizon, future, c), c.offer, c.term)
    if price is None:
        yield "is not sold"
        return
    months = term_months(c.term)
    first = quarter_span(future.starts, c.quarter)[0]
    inside = min(months, MONTHS_OF_A_QUARTER * (future.quarters - c.quarter))
    a_month = c.instances * price.usd_per_h * MONTH_HOURS
    yield from is_not("its first day", c.first_day, first)
    yield from is_not("its last day", c.last_day, month_start(first, months) - timedelta(days=1))
    yield from differs("its price usd_per_h", c.usd_per_h, price.usd_per_h)
    yield from differs("upfront_usd", c.upfront_usd, c.instances * price.upfront_usd)
    yield from differs("inside_usd", c.inside_usd, a_month * inside)
    yield from differs("beyond_usd", c.beyond_usd, a_month * (months - inside))
    lost = 0.0
    if months > SHORT_MONTHS and months > inside and not is_bought(c.term):
        if future.unused_worth_frac is None and future.max_liability_usd is None:
            yield "a term of more than a year outlasts the horizon, and the file does not allow that"
        lost = 0.0 if future.unused_worth_frac is None else 1 - future.unused_worth_frac
    yield from differs("counted_usd", c.counted_usd, a_month * (inside + lost * (months - inside)))


def _signed(horizon: HorizonPlan, scenario: str) -> list[SignedCommitment]:
    """What is signed now, and what is signed later in a scenario."""
    return [c for c in horizon.commitments if c.scenario in (None, scenario)]


def _signed_allowances(horizon: HorizonPlan, scenario: str) -> list[SignedAllowance]:
    return [a for a in horizon.allowances or () if a.scenario in (None, scenario)]


def _held_usd(case: Case, future: Future, quarter: int) -> float:
    """What is paid in a quarter for what was held before."""
    allowances = sum(allowance_held_usd(future, a, quarter) for a in case.allowances or ())
    return sum(holding_usd(future, h, quarter) for h in case.held or ()) + allowances


def _money_adds_up(horizon: HorizonPlan, future: Future) -> Iterator[str]:
    held = sum(_held_usd(horizon.case, future, q) for q in range(future.quarters))
    yield from differs("held_usd", horizon.held_usd, held)
    expected = 0.0
    come_to: dict[str, float] = {}
    for s, result in zip(future.scenarios, horizon.scenarios, strict=True):
        by_quarter, penalties = [], 0.0
        for q in range(future.quarters):
            usd, penalty = _quarter_usd(horizon, future, q, s)
            by_quarter.append(usd)
            penalties += penalty
        for q, usd in enumerate(by_quarter):
            yield from differs(f"{s.name}: what quarter {q + 1} costs", result.by_quarter_usd[q], usd)
        yield from differs(f"{s.name}: cost_usd", result.cost_usd, sum(by_quarter) + held)
        if result.baseline_by_quarter_usd is not None:
            api = tuple(_baseline_usd(horizon, future, q, s) for q in range(future.quarters))
            if len(result.baseline_by_quarter_usd) != future.quarters:
                yield f"{s.name}: the API baseline does not have a cost for each quarter"
            for q, usd in enumerate(api[: len(result.baseline_by_quarter_usd)]):
                yield from differs(
                    f"{s.name}: quarter {q + 1} at the API baseline", result.baseline_by_quarter_usd[q], usd
                )
        yield from _budget_is_kept(horizon.case, future, s.name, by_quarter)
        yield from differs(f"{s.name}: penalty_usd", result.penalty_usd, penalties)
        lost = sum(c.counted_usd - c.inside_usd for c in _signed(horizon, s.name))
        lost += sum(a.counted_usd - a.inside_usd for a in _signed_allowances(horizon, s.name))
        come_to[s.name] = sum(by_quarter) + penalties + lost
        yield from differs(f"{s.name}: counted_usd", result.counted_usd, come_to[s.name])
        yield from _regret_is_true(result, come_to[s.name])
        if len(future.scenarios) == 1 and result.if_known_usd is not None:
            yield from differs(f"{s.name}: if_known_usd of the only scenario", result.if_known_usd, come_to[s.name])
        expected += s.probability_frac * (sum(by_quarter) + held)
    yield from differs("expected_cost_usd", horizon.expected_cost_usd, expected)
    yield from _measure_is_true(horizon, future, come_to)
    yield from _claims_are_honest(horizon)


def _budget_is_kept(case: Case, future: Future, scenario: str, by_quarter: list[float]) -> Iterator[str]:
    """A budget for a quarter or a year, over the quarters of the horizon and with what is held in them."""
    limit, months = case.limits.budget_usd, case.limits.budget_months
    if limit is None or months is None:
        return
    together = months // MONTHS_OF_A_QUARTER
    for first in range(0, future.quarters, together):
        some = range(first, min(first + together, future.quarters))
        spent = sum(by_quarter[q] + _held_usd(case, future, q) for q in some)
        most = limit * len(some) / together
        if spent > most * (1 + REL):
            which = f"quarter {first + 1}" if len(some) == 1 else f"quarters {first + 1} to {first + len(some)}"
            yield f"{scenario}: {which} cost ${spent:,.2f}, the budget is ${most:,.2f}"


def _measure_is_true(horizon: HorizonPlan, future: Future, come_to: dict[str, float]) -> Iterator[str]:
    """What was minimized is what the file asks for, and so is the figure; the worst scenario is the worst."""
    yield from is_not("what is minimized", horizon.risk, future.risk)
    most = max(come_to.values())
    named = come_to.get(horizon.worst_scenario)
    if named is None:
        yield f"the worst scenario is given as {horizon.worst_scenario}, which is not a scenario"
    elif named < most * (1 - REL):
        worst = max(come_to, key=lambda name: come_to[name])
        yield f"the worst scenario is {worst} with ${most:,.2f}, not {horizon.worst_scenario} with ${named:,.2f}"
    mean = sum(s.probability_frac * come_to[s.name] for s in future.scenarios)
    true, which = (most, "in the worst case") if future.risk == "worst-case" else (mean, "expected")
    yield from differs(f"counted_usd, {which}", horizon.counted_usd, true)


def _quarter_usd(horizon: HorizonPlan, future: Future, quarter: int, s: Scenario) -> tuple[float, float]:
    """What a quarter costs in a scenario, its plan and new commitments, and the penalty of what is shed."""
    money = account_of(horizon.plan_of(quarter, s.name)).money
    planned_for = [x for x in future.scenarios if quarter == 0 or x.name == s.name]
    cost = penalty = 0.0
    for month, alike in enumerate(months_alike(horizon.case, quarter, planned_for)):
        if s.name in alike.scenarios:
            cost += alike.count * (money.month_usd(month) - money.held_usd)
            penalty += alike.count * money.penalty_usd_of_month(month)
    first, last = quarter_span(future.starts, quarter)
    in_force = [c for c in _signed(horizon, s.name) if c.first_day <= first and c.last_day >= last]
    cost += sum(c.instances * c.usd_per_h * MONTH_HOURS * MONTHS_OF_A_QUARTER for c in in_force)
    allowances = [a for a in _signed_allowances(horizon, s.name) if a.first_day <= first and a.last_day >= last]
    return cost + sum(a.usd_per_month * MONTHS_OF_A_QUARTER for a in allowances), penalty


def _baseline_usd(horizon: HorizonPlan, future: Future, quarter: int, s: Scenario) -> float:
    """What the requests that a quarter answers in a scenario would cost at the API baselines."""
    money = account_of(horizon.plan_of(quarter, s.name)).money
    planned_for = [x for x in future.scenarios if quarter == 0 or x.name == s.name]
    months = enumerate(months_alike(horizon.case, quarter, planned_for))
    return sum(m.count * money.baseline_usd_of_month(k) for k, m in months if s.name in m.scenarios)


def _regret_is_true(result: ScenarioResult, comes_to: float) -> Iterator[str]:
    if result.if_known_usd is None:
        if result.regret_usd is not None:
            yield f"{result.name}: there is a regret, but no plan with foresight"
        return
    yield from differs(f"{result.name}: regret_usd", result.regret_usd, comes_to - result.if_known_usd, of=comes_to)
    if (result.regret_usd or 0.0) < -REL * comes_to:
        yield f"{result.name}: the plan with foresight costs more than this one"
    bound = result.if_known_bound_usd
    if bound is None:
        yield f"{result.name}: a plan with foresight has no bound"
    elif bound > min(result.if_known_usd, comes_to) * (1 + REL):
        yield f"{result.name}: a plan costs less than the bound of plans with foresight"


def _claims_are_honest(horizon: HorizonPlan) -> Iterator[str]:
    """No plan is below its bound, and what is called optimal is proved."""
    counted, bound = horizon.counted_usd, horizon.bound_usd
    if bound > counted * (1 + REL):
        yield f"the plan costs ${counted:,.2f}, less than its bound of ${bound:,.2f}"
    gap = max(0.0, (counted - bound) / counted) if counted > 0 else 0.0
    yield from differs("gap_frac", horizon.gap_frac, gap)
    if horizon.status == "optimal" and gap > PROVED_GAP * (1 + ROUNDING):
        yield f"the plan is called optimal, but is proved within {gap:.4%} only"
    if horizon.status in ("within-gap", "feasible") and gap < PROVED_GAP * (1 - ROUNDING):
        yield f"the plan is called {horizon.status}, but its bound proves it optimal"
    middle = horizon.middle
    if middle is not None and middle.counted_usd is not None and middle.counted_usd < bound * (1 - REL):
        yield "committing for the middle scenario costs less than the bound"
    if middle is not None and (middle.counted_usd or 0.0) < (middle.bound_usd or 0.0) * (1 - REL):
        yield "committing for the middle scenario costs less than its own bound"
    if middle is not None and middle.scenario != _middle(horizon):
        yield f"the middle scenario is {_middle(horizon)}, not {middle.scenario}"
    if horizon.long_terms_would_save_usd is not None and horizon.long_terms_would_save_usd < 0:
        yield "long terms would save a negative amount"
    yield from _curve_goes_through_the_plan(horizon)


def _middle(horizon: HorizonPlan) -> str:
    """The scenario whose cost is not exceeded with a probability of a half."""
    total, ranked = 0.0, sorted(horizon.scenarios, key=lambda s: s.cost_usd)
    for s in ranked:
        total += s.probability_frac
        if total >= 0.5 - 1e-9:
            return s.name
    return ranked[-1].name


def _curve_goes_through_the_plan(horizon: HorizonPlan) -> Iterator[str]:
    curve = horizon.curve
    if curve is None:
        return
    signed = sum(c.instances for c in horizon.signed_now if (c.offer, c.term) == (curve.offer, curve.term))
    if not signed:
        yield f"the curve is of {curve.offer} {curve.term}, which is not signed now"
    if len({p.instances for p in curve.points}) < len(curve.points) or min(p.instances for p in curve.points) < 0:
        yield "the curve has a number of instances twice, or less than none"
    if signed not in {p.instances for p in curve.points}:
        yield f"the curve leaves out the {signed} instances that are signed"
    costs = sorted((s.cost_usd, s.probability_frac) for s in horizon.scenarios)
    sums = [sum(p for _, p in costs[: k + 1]) for k in range(len(costs))]
    p90 = next((usd for (usd, _), total in zip(costs, sums, strict=True) if total >= 0.9 - 1e-9), costs[-1][0])
    future = horizon.case.future
    plain = future is not None and future.unused_worth_frac is None
    plain &= all(w.shed_usd_per_request is None for q in horizon.quarters for w in q.plan.case.workloads)
    """nothing counts beside the cost, neither penalties nor what a term is not worth"""
    for p in curve.points:
        where = f"the curve at {p.instances} instances:"
        if p.instances == signed:
            yield from differs(f"{where} expected_usd", p.expected_usd, horizon.expected_cost_usd)
            yield from differs(f"{where} p90_usd", p.p90_usd, p90)
            yield from differs(f"{where} worst_usd", p.worst_usd, costs[-1][0])
            yield from differs(f"{where} gap_frac", p.gap_frac, horizon.gap_frac)
        if p.gap_frac is not None and not 0 <= p.gap_frac <= 1:
            yield f"{where} its gap is {p.gap_frac}"
        least = horizon.bound_usd + horizon.held_usd
        minimized = p.worst_usd if horizon.risk == "worst-case" else p.expected_usd
        if plain and minimized is not None and minimized < least * (1 - REL):
            yield f"{where} it costs less than any plan can"
        known = [usd for usd in (p.expected_usd, p.p90_usd) if usd is not None]
        if len(known) == 1 or (p.worst_usd is None) != (not known):
            yield f"{where} some figures are missing"
        elif p.worst_usd is not None and max(known) > p.worst_usd * (1 + REL):
            yield f"{where} its worst case is not the worst"
