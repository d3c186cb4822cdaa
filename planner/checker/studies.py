"""Studies that travel with a plan: what adds up must do so, bills are worked out again, and crossings lie where the
costs say. What a search found for a changed case, arithmetic cannot repeat."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from planner.case.apis import request_usd
from planner.catalog.terms import is_bought
from planner.checker.checked import Checked
from planner.checker.figures import REL, differs, is_not
from planner.levers import FIRST_STEP, FOOTNOTE, LAST_STEP, STEPS
from planner.plan.account.other_demand import MULTIPLES, other_demand
from planner.plan.study_records import (
    BreakEven,
    Crossing,
    DemandPoint,
    ProviderBill,
    StepRecord,
    Studies,
    VolumePoint,
    Waterfall,
)

FIRST_STEPS = (FIRST_STEP, FOOTNOTE, LAST_STEP)
"""older plans begin with a naive fleet"""
ORDER = (FIRST_STEP, FOOTNOTE, "batching", *(step.key for step in STEPS))
"""batching is a step of older plans"""
PLANNED = ("optimal", "within-gap", "feasible", "interrupted")
NOT_PLANNED = ("infeasible", "not-found")
SELF_HOSTED, API = "self-hosted", "api"
MIXED_SAVES_FRAC = 0.001
"""a plan with APIs as well must save so much of the bill before it counts as cheaper"""
EQUAL = 1e-9
"""a tie, but for rounding, goes to the API"""


def studies_hold(checked: Checked) -> Iterator[str]:
    studies: Studies | None = checked.plan.studies
    if studies is None:
        return
    if studies.waterfall is None and studies.break_even is None and not (studies.providers or studies.demand):
        yield "it has studies, but none of them is there"
    if studies.waterfall is not None:
        for problem in _waterfall_holds(checked, studies.waterfall):
            yield f"the waterfall: {problem}"
    if studies.break_even is not None:
        for problem in _break_even_holds(checked, studies.break_even):
            yield f"the break-even: {problem}"
    for problem in _providers_hold(checked, studies.providers):
        yield f"the providers: {problem}"
    for problem in _demand_holds(checked, studies.demand):
        yield f"other demand: {problem}"


# -- the waterfall ----------------------------------------------------------------------------------------------


def _waterfall_holds(checked: Checked, waterfall: Waterfall) -> Iterator[str]:
    keys = [step.key for step in waterfall.steps]
    if keys != sorted(set(keys), key=lambda k: ORDER.index(k) if k in ORDER else -1) or keys[-1:] != [LAST_STEP]:
        yield f"its steps are {', '.join(keys)}"
        return
    if keys[0] not in FIRST_STEPS:
        yield "it does not begin with a fleet of one GPU type"
    if waterfall.naive is not None:
        yield from is_not("the key of the naive fleet", waterfall.naive.key, FOOTNOTE)
        for problem in _step_holds(checked, waterfall.naive, None):
            yield f"naive: {problem}"
    before: StepRecord | None = None
    for step in waterfall.steps:
        for problem in _step_holds(checked, step, before):
            yield f"{step.key}: {problem}"
        before = step if step.cost_usd_per_month is not None else before
    yield from _last_step_is_the_plan(checked, waterfall.steps[-1])
    costs = [s.cost_usd_per_month for s in waterfall.steps if s.cost_usd_per_month is not None]
    saves = costs[0] - costs[-1]
    yield from differs("saves_usd_per_month", waterfall.saves_usd_per_month, saves, of=costs[0])
    yield from differs("saves_frac", waterfall.saves_frac, saves / costs[0] if costs[0] else 0.0)


def _step_holds(checked: Checked, step: StepRecord, before: StepRecord | None) -> Iterator[str]:
    cost, bound = step.cost_usd_per_month, step.bound_usd_per_month
    if cost is None:
        figures = (bound, step.usd_per_1m_tokens, step.saves_usd_per_month, step.saves_frac)
        if step.status not in NOT_PLANNED or step.fleet or any(x is not None for x in figures):
            yield f"it has no cost, but other figures or the status {step.status}"
        return
    if step.status not in PLANNED:
        yield f"it has a cost and the status {step.status}"
    if bound is None or not 0 <= bound <= cost * (1 + REL):
        yield f"the bound {bound} lies outside 0 and the cost {cost}"
    if step.key != LAST_STEP:
        tokens = sum(n * each for n, each in _all_tokens(checked))
        yield from differs("usd_per_1m_tokens", step.usd_per_1m_tokens, 1e6 * cost / tokens if tokens else 0.0)
    usd = before.cost_usd_per_month if before is not None else None
    saves = None if usd is None else usd - cost
    frac = None if saves is None or usd is None else saves / usd if usd else 0.0
    yield from differs("saves_usd_per_month", step.saves_usd_per_month, saves, of=max(cost, usd or 0.0))
    yield from differs("saves_frac", step.saves_frac, frac)
    if saves is not None and saves < -REL * cost and step.key != LAST_STEP:
        yield f"it costs ${cost:,.2f}, more than the step before"


def _last_step_is_the_plan(checked: Checked, step: StepRecord) -> Iterator[str]:
    plan = checked.plan
    usd = plan.objective_usd_per_month
    yield from differs("the cost of the last step", step.cost_usd_per_month, usd)
    yield from differs("the bound of the last step", step.bound_usd_per_month, plan.bound_usd_per_month)
    yield from differs("the usd_per_1m_tokens of the last step", step.usd_per_1m_tokens, plan.usd_per_1m_tokens)
    yield from is_not("the status of the last step", step.status, plan.status)
    fleet = tuple(f"{max(x.instances_by_slot)} x {x.offer} ({x.gpu}), {x.purchase}" for x in plan.fleet)
    yield from is_not("the fleet of the last step", step.fleet, fleet)


def _all_tokens(checked: Checked) -> Iterator[tuple[float, float]]:
    """Requests a month and tokens of each, by length, nothing shed."""
    for w in checked.case.workloads:
        requests = checked.account.requests_per_month(w)
        yield from ((requests * b.share_frac, b.input_tokens + b.output_tokens) for b in w.buckets)


# -- the break-even ---------------------------------------------------------------------------------------------


def _break_even_holds(checked: Checked, curve: BreakEven) -> Iterator[str]:
    case = checked.case
    api = case.apis[case.baseline]
    yield from is_not("the provider", curve.provider, api.provider)
    yield from is_not("the model", curve.model, api.model)
    yield from differs("engineers_usd_per_month", curve.engineers_usd_per_month, case.engineers_usd_per_month)
    multiples = [p.multiple for p in curve.points]
    if multiples != sorted(set(multiples)) or 1.0 not in multiples or min(multiples) <= 0:
        yield "its volumes do not rise, or the demand of the case is none of them"
        return
    tokens = sum(n * each for n, each in _all_tokens(checked))
    usd = sum(
        checked.account.requests_per_month(w) * b.share_frac * price
        for w in case.workloads
        for b, price in zip(w.buckets, request_usd(case, w, w.baseline or case.baseline), strict=True)
    )
    named = {case.apis[w.baseline or case.baseline].provider for w in case.workloads}
    fixed = sum((case.limits.vendor_usd_per_month or {}).get(f"api {name}", 0.0) for name in named)
    for p in curve.points:
        for problem in _point_holds(checked, p, tokens, usd * p.multiple + fixed):
            yield f"at {p.multiple:g} times the volume: {problem}"
    yield from _own_holds(checked, curve, tokens)
    for way, worth, crossings in (("self_hosted", 0.0, curve.crossings), ("mixed", MIXED_SAVES_FRAC,
                                                                         curve.mixed_crossings)):  # fmt: skip
        yield from _costs_do_not_fall(curve.points, way)
        yield from _crossings_hold(curve.points, way, worth, crossings, tokens, (usd, fixed))


def _own_holds(checked: Checked, curve: BreakEven, tokens: float) -> Iterator[str]:
    """Servers may be left out of a plan that may buy them, so it costs no more than one that may not."""
    points = curve.own
    sold = any(is_bought(way) for way in checked.case.purchase)
    if (points is not None) != sold:
        yield "it says whether servers are bought, and the menu has none, or the other way round"
    multiples = [p.multiple for p in points or ()]
    if multiples != sorted(set(multiples)) or any(m <= 0 for m in multiples):
        yield "volumes at which servers may be bought do not rise"
    for p in points or ():
        yield from differs(f"tokens_per_month at {p.multiple:g} times", p.tokens_per_month, tokens * p.multiple)
        own, least = p.with_servers_usd_per_month, p.with_servers_bound_usd_per_month
        rented, bound = p.rented_usd_per_month, p.rented_bound_usd_per_month
        wrong = own is not None and not 0 <= least <= own * (1 + REL)
        if rented is not None:
            wrong |= own is None or own > rented * (1 + REL) or bound is None or not 0 <= bound <= rented * (1 + REL)
        if wrong:
            yield f"with and without servers, costs and bounds at {p.multiple:g} times the volume contradict each other"


def _point_holds(checked: Checked, p: VolumePoint, tokens: float, usd: float) -> Iterator[str]:
    yield from differs("tokens_per_month", p.tokens_per_month, tokens * p.multiple)
    yield from differs("api_usd_per_month", p.api_usd_per_month, usd)
    for way in ("self_hosted", "mixed"):
        cost, bound = _cost(p, way), _bound(p, way)
        if cost is not None and (bound is None or not 0 <= bound <= cost * (1 + REL)):
            yield f"the bound {bound} of the {way} plan lies outside 0 and its cost {cost}"
    own, mixed = p.self_hosted_usd_per_month, p.mixed_usd_per_month
    if own is not None and own < checked.case.engineers_usd_per_month * (1 - REL):
        yield "the self-hosted plan costs less than its engineers"
    if own is not None and mixed is not None and mixed > own * (1 + REL):
        yield "the plan with APIs as well costs more than the self-hosted one, which it may be"
    bound = p.mixed_bound_usd_per_month
    if own is not None and bound is not None and bound > own * (1 + REL):
        yield "the bound of the plan with APIs as well is above a plan that it may be"


def _costs_do_not_fall(points: tuple[VolumePoint, ...], way: str) -> Iterator[str]:
    """A fleet for more demand serves less as well, so none costs less than what is proved for less demand."""
    known = [p for p in points if _cost(p, way) is not None]
    for a, b in pairwise(known):
        low, high = _bound(a, way), _cost(b, way)
        if low is not None and high is not None and high < low * (1 - REL):
            yield f"the {way} plan costs less at {b.multiple:g} than is proved at {a.multiple:g} times the volume"


def _crossings_hold(
    points: tuple[VolumePoint, ...],
    way: str,
    worth: float,
    crossings: tuple[Crossing, ...],
    tokens: float,
    bill: tuple[float, float],
) -> Iterator[str]:
    """Exactly the changes between neighbours for which it is proved which way is cheaper."""
    usd, fixed = bill
    known = [(p.multiple, cheaper) for p in points if (cheaper := _cheaper(p, way, worth)) is not None]
    changes = [((a, b), now) for (a, was), (b, now) in pairwise(known) if was != now]
    if [(c.between_multiples, c.cheaper_from_here) for c in crossings] != changes:
        yield f"the crossings of the {way} plan are not where its costs cross the API bill"
    for c in crossings:
        low, high = c.between_multiples
        if not low <= c.multiple * (1 + EQUAL) or not c.multiple <= high * (1 + EQUAL):
            yield f"a crossing at {c.multiple:g} lies outside {low:g} and {high:g}"
        yield from differs("tokens_per_month of a crossing", c.tokens_per_month, tokens * c.multiple)
        yield from differs("usd_per_month of a crossing", c.usd_per_month, usd * c.multiple + fixed)


def _cheaper(p: VolumePoint, way: str, worth: float) -> str | None:
    cost, bound, limit = _cost(p, way), _bound(p, way), p.api_usd_per_month * (1 - worth)
    if cost is not None and cost < limit * (1 - EQUAL):
        return SELF_HOSTED
    return API if bound is not None and bound >= limit * (1 - EQUAL) else None


def _cost(p: VolumePoint, way: str) -> float | None:
    return p.self_hosted_usd_per_month if way == "self_hosted" else p.mixed_usd_per_month


def _bound(p: VolumePoint, way: str) -> float | None:
    return p.self_hosted_bound_usd_per_month if way == "self_hosted" else p.mixed_bound_usd_per_month


# -- the providers ----------------------------------------------------------------------------------------------


def _providers_hold(checked: Checked, bills: tuple[ProviderBill, ...]) -> Iterator[str]:
    if not bills:
        return
    case = checked.case
    roles = [b.role for b in bills]
    compared = [name for name in case.compare_with or () if name != case.baseline]
    if roles[0] != "baseline" or roles.count("baseline") != 1 or roles.count("compared") != len(compared):
        yield "they are not the baseline, then those that the case compares with"
        return
    if all(w.baseline in (None, case.baseline) for w in case.workloads):
        of_plan = checked.plan.baseline.cost_usd_per_month
        yield from differs("the bill of the baseline", bills[0].cost_usd_per_month, of_plan)
    listed = {"baseline": [case.apis[case.baseline]], "compared": [case.apis[name] for name in compared]}
    for b in bills:
        for problem in _bill_holds(checked, b):
            yield f"{b.provider} {b.model}: {problem}"
        if b.role in listed and b.prices not in listed[b.role]:
            yield f"{b.provider} {b.model}: its prices are not those of the case"
        if b.role not in listed and b.prices.max_context_tokens is not None:
            yield f"{b.provider} {b.model}: its context is not known"


def _bill_holds(checked: Checked, b: ProviderBill) -> Iterator[str]:
    served = [s for s in checked.account.served if s.w.name in b.workloads]
    names = tuple(s.w.name for s in served)
    whole = tuple(w.name for w in checked.case.workloads)
    if names != b.workloads or not names or (b.role != "same model" and names != whole):
        yield f"it cannot serve {', '.join(b.workloads) or 'nothing'}"
        return
    for what, claimed, true in (("provider", b.provider, b.prices.provider), ("model", b.model, b.prices.model),
                                ("source", b.source, b.prices.source), ("date", b.date, b.prices.date)):  # fmt: skip
        yield from is_not(f"its {what}", claimed, true)
    usd, plain, tokens = 0.0, 0.0, 0.0
    case = checked.case.model_copy(update={"apis": {"this": b.prices}})
    undiscounted = b.prices.model_copy(update={"batch": None})
    for s in served:
        answered = checked.account.answered_per_month(s)
        uncached = s.w.model_copy(update={"prefix_hit_frac": 0.0, "shared_prefix_tokens": 0.0})
        list_case = case.model_copy(update={"apis": {"this": undiscounted}})
        usd += sum(n * price for n, price in zip(answered, request_usd(case, s.w, "this"), strict=True))
        plain += sum(n * price for n, price in zip(answered, request_usd(list_case, uncached, "this"), strict=True))
        tokens += checked.account.tokens_per_month(s)
    yield from differs("cost_usd_per_month", b.cost_usd_per_month, usd)
    yield from differs("without_discounts_usd_per_month", b.without_discounts_usd_per_month, plain)
    yield from differs("usd_per_1m_tokens", b.usd_per_1m_tokens, 1e6 * usd / tokens if tokens else 0.0)


# -- other demand -----------------------------------------------------------------------------------------------


def _demand_holds(checked: Checked, points: tuple[DemandPoint, ...]) -> Iterator[str]:
    """What is signed stays, and the rest follows the demand."""
    multiples = [p.multiple for p in points]
    if points and tuple(multiples) != MULTIPLES:
        yield f"its multiples of the demand are {multiples}, not {list(MULTIPLES)}"
        return
    for p, true in zip(points, other_demand(checked.plan, account=checked.account) if points else (), strict=True):
        at = f"at {p.multiple:g} times the demand"
        yield from differs(f"cost_usd_per_month {at}", p.cost_usd_per_month, true.cost_usd_per_month)
        yield from differs(f"usd_per_1m_tokens {at}", p.usd_per_1m_tokens, true.usd_per_1m_tokens)
        yield from is_not(f"the list of quotas exceeded {at}", p.beyond, true.beyond)
