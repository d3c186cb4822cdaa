"""Every dollar: what fleet, API, caches and engineers cost, whose it is, and what the baseline would cost."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case.case import Workload
from planner.checker.prices import (
    TERM_MONTHS,
    caches_usd_per_month,
    embedding_usd_per_request,
    held_usd,
    request_usd,
)
from planner.checker.purchases import instance_hours, line_usd, price_of_line
from planner.checker.vendors import held_of_vendor_usd, in_use, sells, vendors_usd
from planner.plan.view import MONTH_HOURS, REL, PlanView, Served, differs, hours_of_slot, is_not


def money_adds_up(facts: PlanView) -> Iterator[str]:
    plan, parts = facts.plan, _parts(facts)
    for part, usd in parts.items():
        yield from differs(f"costs.{part}", getattr(plan.costs, part) or 0.0, usd)
    cost, tokens = sum(parts.values()), sum(facts.tokens_per_month(s) for s in facts.served)
    penalty = sum(_penalty_usd(facts, s) for s in facts.served)
    yield from differs("the cost_usd_per_month of the plan", plan.cost_usd_per_month, cost)
    yield from differs("the held_usd_per_month of the plan", plan.held_usd_per_month, held_usd(facts.case))
    yield from differs("the penalty_usd_per_month of the plan", plan.penalty_usd_per_month, penalty)
    yield from differs("the tokens_per_month of the plan", plan.tokens_per_month, tokens)
    yield from differs("the usd_per_1m_tokens of the plan", plan.usd_per_1m_tokens, _per_1m(cost, tokens))
    at_p95 = cost + _spot_rise_usd(facts)
    yield from differs("spot_at_p95_usd_per_month", plan.spot_at_p95_usd_per_month, at_p95)
    for s in facts.served:
        for problem in _workload_pays_its_share(facts, s):
            yield f"{s.w.name}: {problem}"
    yield from _budget_is_kept(facts)
    yield from _vendors_are_paid_no_more_than_allowed(facts)
    yield from _baseline_is_true(facts, cost, tokens)


def month_usd(facts: PlanView, month: int) -> float:
    """What one month costs with what is held, penalties aside."""
    slots = facts.plan.slots
    hourly = [0.0] * len(slots)
    for line in facts.plan.fleet:
        usd = price_of_line(facts, line).usd_per_h
        hourly = [x + n * usd for x, n in zip(hourly, instance_hours(facts, line), strict=True)]
    for s in facts.served:
        parts = zip(hourly, _api_usd_per_h(facts, s), _caching_usd_per_h(facts, s), strict=True)
        hourly = [sum(x) for x in parts]
    usd = sum(hours_of_slot(s) * x for s, x in zip(slots, hourly, strict=True) if s.month == month)
    return usd + _engineers_usd(facts) + vendors_usd(facts) + held_usd(facts.case)


def vendor_usd_of_month(facts: PlanView, kind: str, name: str, month: int) -> float:
    """What a vendor is paid in one month besides what is held: instances, API bills, and what having it costs."""
    slots, fixed = facts.plan.slots, (facts.case.limits.vendor_usd_per_month or {}).get(f"{kind} {name}", 0.0)
    hourly = [0.0] * len(slots)
    for line in facts.plan.fleet:
        if sells(facts, kind, name, line.offer):
            usd = price_of_line(facts, line).usd_per_h
            hourly = [x + n * usd for x, n in zip(hourly, instance_hours(facts, line), strict=True)]
    for s in facts.served:
        if kind == "api" and s.told.api is not None and facts.case.apis[s.told.api].provider == name:
            hourly = [x + usd for x, usd in zip(hourly, _api_usd_per_h(facts, s), strict=True)]
    paid = sum(hours_of_slot(s) * x for s, x in zip(slots, hourly, strict=True) if s.month == month)
    return paid + (fixed if name in in_use(facts)[kind] else 0.0)


def _vendors_are_paid_no_more_than_allowed(facts: PlanView) -> Iterator[str]:
    """What is held counts; where that alone is more than a cap, nothing more is bought there."""
    for key, most in (facts.case.limits.vendor_cap_usd_per_month or {}).items():
        kind, _, name = key.partition(" ")
        left = max(0.0, most - held_of_vendor_usd(facts, kind, name))
        for month in range(facts.months):
            usd = vendor_usd_of_month(facts, kind, name, month)
            if usd > left * (1 + REL) + REL:
                paid = f"is paid ${usd:,.2f} besides what is held, ${left:,.2f} allowed"
                yield f"month {month + 1}: the {kind} {name} {paid}"


def penalty_usd_of_month(facts: PlanView, month: int) -> float:
    """Penalty of what is shed in one month."""
    usd = 0.0
    for s in facts.served:
        for slot, rates in zip(facts.plan.slots, facts.flow(s.w, s.told.shed_flows), strict=True):
            if slot.month == month:
                usd += 3600 * hours_of_slot(slot) * sum(rates) * (s.w.shed_usd_per_request or 0.0)
    return usd


def _per_1m(usd: float, tokens: float) -> float:
    return 1e6 * usd / tokens if tokens else 0.0


def _parts(facts: PlanView) -> dict[str, float]:
    def paid(*purchases: str) -> float:
        return sum(line_usd(facts, line) for line in facts.plan.fleet if line.purchase in purchases)

    return {
        "reserved_usd_per_month": paid(*TERM_MONTHS),
        "on_demand_usd_per_month": paid("on-demand"),
        "spot_usd_per_month": paid("spot"),
        "api_usd_per_month": sum(facts.a_month(_api_usd_per_h(facts, s)) for s in facts.served),
        "caching_usd_per_month": sum(facts.a_month(_caching_usd_per_h(facts, s)) for s in facts.served),
        "engineers_usd_per_month": _engineers_usd(facts),
        "vendors_usd_per_month": vendors_usd(facts),
    }


def _api_usd_per_h(facts: PlanView, s: Served) -> list[float]:
    """[slot]; providers keep prefixes whatever is cached on this side"""
    if s.told.api is None:
        return [0.0] * len(facts.slots)
    usd = request_usd(facts.case, s.w, s.told.api)
    sent = facts.flow(s.w, s.told.api_flows)
    return [3600 * sum(r * u for r, u in zip(rates, usd, strict=True)) for rates in sent]


def _caching_usd_per_h(facts: PlanView, s: Served) -> list[float]:
    return caching_usd_per_h(facts, s.w, s.told.caching)


def caching_usd_per_h(facts: PlanView, w: Workload, option: str) -> list[float]:
    """[slot]; every request is looked up, those that are found too"""
    costs = facts.case.cache_costs
    fixed = caches_usd_per_month(costs, option) / MONTH_HOURS
    each = embedding_usd_per_request(costs, w, option)
    return [fixed + 3600 * rate * each for rate in facts.rates_rps(w)]


def _penalty_usd(facts: PlanView, s: Served) -> float:
    return facts.sent_per_month(s, s.told.shed_flows) * (s.w.shed_usd_per_request or 0.0)


def _engineers_usd(facts: PlanView) -> float:
    """Nobody is needed where nothing is hosted."""
    hosted = any(pool.deployments for pool in facts.plan.pools)
    return facts.case.engineers_usd_per_month if hosted else 0.0


def _spot_rise_usd(facts: PlanView) -> float:
    """What more spot instances cost a month at the 95th percentile of their price."""
    rise = 0.0
    for line in facts.plan.fleet:
        price = price_of_line(facts, line)
        rise += facts.a_month(instance_hours(facts, line)) * (price.at_p95_usd_per_h - price.usd_per_h)
    return rise


def _workload_pays_its_share(facts: PlanView, s: Served) -> Iterator[str]:
    gpu_usd, api_usd = _gpu_usd(facts, s), facts.a_month(_api_usd_per_h(facts, s))
    caching_usd = facts.a_month(_caching_usd_per_h(facts, s))
    usd = gpu_usd + api_usd + caching_usd
    yield from differs("penalty_usd_per_month", s.told.penalty_usd_per_month, _penalty_usd(facts, s))
    yield from differs("gpu_cost_usd_per_month", s.told.gpu_cost_usd_per_month, gpu_usd)
    yield from differs("api_cost_usd_per_month", s.told.api_cost_usd_per_month, api_usd)
    yield from differs("caching_cost_usd_per_month", s.told.caching_cost_usd_per_month, caching_usd)
    yield from differs("cost_usd_per_month", s.told.cost_usd_per_month, usd)
    yield from differs("usd_per_1m_tokens", s.told.usd_per_1m_tokens, _per_1m(usd, facts.tokens_per_month(s)))


def _gpu_usd(facts: PlanView, s: Served) -> float:
    """Deployments on the same offer share its cost by their GPU-hours, workloads in a pool by their load-hours."""
    pool, usd = facts.plan.pool_of(s.w.name), 0.0
    for d in pool.deployments:
        offer = d.deployment.offer
        there = [x for p in facts.plan.pools for x in p.deployments if x.deployment.offer == offer]
        hours = [facts.a_month(x.replicas_by_slot) * x.deployment.gpus_per_replica for x in there]
        own = facts.a_month(d.replicas_by_slot) * d.deployment.gpus_per_replica
        paid = sum(line_usd(facts, line) for line in facts.plan.fleet if line.offer == offer)
        usd += paid * own / sum(hours) if own else 0.0
    return usd * facts.share_of_load(pool, s)


def _budget_is_kept(facts: PlanView) -> Iterator[str]:
    """In every month: a mean over the quarter would hide a last month that costs too much."""
    budget = facts.case.limits.budget_usd_per_month
    for month in range(facts.months) if budget is not None else ():
        usd = month_usd(facts, month)
        if budget is not None and usd > budget * (1 + REL):
            yield f"month {month + 1} costs ${usd:,.2f}, the budget is ${budget:,.2f}"


def _baseline_is_true(facts: PlanView, cost: float, tokens: float) -> Iterator[str]:
    """All that is answered would be bought, what a cache of answers finds too; prompts are cached by the provider."""
    case, told = facts.case, facts.plan.baseline
    api, usd = case.apis[case.baseline], 0.0
    bills = []
    for s in facts.served:
        api_of_its_own = s.w.baseline or case.baseline
        prices = request_usd(case, s.w, api_of_its_own)
        own = sum(n * price for n, price in zip(facts.answered_per_month(s), prices, strict=True))
        bills.append((s.w.name, api_of_its_own, own, s.w.api_allowed))
        usd += own
    yield from _baselines_are_told(facts, bills)
    saved_frac = (usd - cost) / usd if usd else 0.0
    yield from is_not("the provider of the baseline", told.provider, api.provider)
    yield from is_not("the model of the baseline", told.model, api.model)
    yield from is_not("the source of the baseline", told.source, api.source)
    yield from is_not("the date of the baseline", told.date, api.date)
    yield from differs("the cost_usd_per_month of the baseline", told.cost_usd_per_month, usd)
    yield from differs("the usd_per_1m_tokens of the baseline", told.usd_per_1m_tokens, _per_1m(usd, tokens))
    yield from differs("savings_usd_per_month", told.savings_usd_per_month, usd - cost, of=max(usd, cost))
    yield from differs("savings_frac", told.savings_frac, saved_frac)


def _baselines_are_told(facts: PlanView, bills: list[tuple[str, str, float, bool]]) -> Iterator[str]:
    """One by one where a workload has a baseline of its own, or may not use an API; else not at all."""
    told = facts.plan.baseline.by_workload
    needed = any(s.w.baseline is not None or not s.w.api_allowed for s in facts.served)
    names = [name for name, *_ in bills] if needed else []
    if (told is not None) != needed or [b.workload for b in told or ()] != names:
        yield "the baselines of the workloads are not those of the case"
        return
    for b, (name, api, usd, allowed) in zip(told or (), bills, strict=False):
        yield from is_not(f"the baseline of {name}", b.api, api)
        yield from is_not(f"whether {name} may use an API", b.may_use_an_api, allowed)
        yield from differs(f"what the baseline of {name} costs", b.cost_usd_per_month, usd)
