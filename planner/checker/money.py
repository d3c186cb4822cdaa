"""Every dollar: what the fleet, the API and the engineers cost, whose it is, and what the baseline would cost."""

from __future__ import annotations

from collections.abc import Iterator

from planner.catalog import SpotPrice
from planner.checker.buying import line_usd, usd_per_h
from planner.checker.facts import REL, TERM_MONTHS, Facts, differs, is_not, price_of, request_usd


def money_adds_up(facts: Facts) -> Iterator[str]:
    plan, parts = facts.plan, _parts(facts)
    for part, usd in parts.items():
        yield from differs(f"costs.{part}", getattr(plan.costs, part), usd)
    cost, tokens = sum(parts.values()), sum(facts.tokens_per_month(w) for w in facts.case.workloads)
    yield from differs("the cost_usd_per_month of the plan", plan.cost_usd_per_month, cost)
    yield from differs("the tokens_per_month of the plan", plan.tokens_per_month, tokens)
    yield from differs("the usd_per_1m_tokens of the plan", plan.usd_per_1m_tokens, 1e6 * cost / tokens)
    at_p95 = cost + _spot_rise_usd(facts)
    yield from differs("spot_at_p95_usd_per_month", plan.spot_at_p95_usd_per_month, at_p95)
    yield from _workloads_pay_their_share(facts)
    yield from _budget_is_kept(facts)
    yield from _baseline_is_true(facts, cost, tokens)


def _parts(facts: Facts) -> dict[str, float]:
    def paid(*purchases: str) -> float:
        return sum(line_usd(facts, line) for line in facts.plan.fleet if line.purchase in purchases)

    return {
        "reserved_usd_per_month": paid(*TERM_MONTHS),
        "on_demand_usd_per_month": paid("on-demand"),
        "spot_usd_per_month": paid("spot"),
        "api_usd_per_month": sum(facts.a_month(facts.api_usd_per_h(w, served)) for w, served in facts.workloads),
        "engineers_usd_per_month": _engineers_usd(facts),
    }


def _engineers_usd(facts: Facts) -> float:
    """Nobody is needed where nothing is hosted."""
    hosted = any(w.deployment is not None for w in facts.plan.workloads)
    return facts.case.engineers_usd_per_month if hosted else 0.0


def _spot_rise_usd(facts: Facts) -> float:
    """What more spot instances cost a month at the 95th percentile of their price."""
    rise = 0.0
    for line in facts.plan.fleet:
        price = price_of(facts.case, line)
        if isinstance(price, SpotPrice):
            rise += facts.a_month(line.instances_by_slot) * (price.p95_usd_per_h - price.p50_usd_per_h)
    return rise


def _workloads_pay_their_share(facts: Facts) -> Iterator[str]:
    """Workloads on the same offer share its cost by the GPU-hours they use."""
    gpu_hours = [
        facts.a_month(s.replicas_by_slot) * s.deployment.gpus_per_replica if s.deployment else 0.0
        for s in facts.plan.workloads
    ]
    for (w, served), own in zip(facts.workloads, gpu_hours, strict=True):
        gpu_usd, d = 0.0, served.deployment
        if d is not None and own:
            on_offer = [s.deployment is not None and s.deployment.offer == d.offer for s in facts.plan.workloads]
            everyone = sum(h for h, there in zip(gpu_hours, on_offer, strict=True) if there)
            paid = sum(line_usd(facts, line) for line in facts.plan.fleet if line.offer == d.offer)
            gpu_usd = paid * own / everyone
        api_usd = facts.a_month(facts.api_usd_per_h(w, served))
        per_1m = 1e6 * (gpu_usd + api_usd) / facts.tokens_per_month(w)
        yield from differs(f"{w.name}: gpu_cost_usd_per_month", served.gpu_cost_usd_per_month, gpu_usd)
        yield from differs(f"{w.name}: api_cost_usd_per_month", served.api_cost_usd_per_month, api_usd)
        yield from differs(f"{w.name}: cost_usd_per_month", served.cost_usd_per_month, gpu_usd + api_usd)
        yield from differs(f"{w.name}: usd_per_1m_tokens", served.usd_per_1m_tokens, per_1m)


def _budget_is_kept(facts: Facts) -> Iterator[str]:
    """In every month: a mean over the quarter would hide a last month that costs too much."""
    budget, slots = facts.case.limits.budget_usd_per_month, facts.plan.slots
    if budget is None:
        return
    hourly = [sum(line.instances_by_slot[t] * usd_per_h(facts, line) for line in facts.plan.fleet)
              for t in range(len(slots))]  # fmt: skip
    for w, served in facts.workloads:
        hourly = [a + b for a, b in zip(hourly, facts.api_usd_per_h(w, served), strict=True)]
    for month in range(facts.months):
        usd = sum(s.hours_per_month * x for s, x in zip(slots, hourly, strict=True) if s.month == month)
        usd += _engineers_usd(facts)
        if usd > budget * (1 + REL):
            yield f"month {month + 1} costs ${usd:,.2f}, the budget is ${budget:,.2f}"


def _baseline_is_true(facts: Facts, cost: float, tokens: float) -> Iterator[str]:
    case, told = facts.case, facts.plan.baseline
    api, usd = case.apis[case.baseline], 0.0
    for w in case.workloads:
        prices = request_usd(case, w, case.baseline)
        each = sum(b.share_frac * price for b, price in zip(w.buckets, prices, strict=True))
        usd += facts.requests_per_month(w) * each
    saved_frac = (usd - cost) / usd if usd else 0.0
    yield from is_not("the provider of the baseline", told.provider, api.provider)
    yield from is_not("the model of the baseline", told.model, api.model)
    yield from is_not("the source of the baseline", told.source, api.source)
    yield from is_not("the date of the baseline", told.date, api.date)
    yield from differs("the cost_usd_per_month of the baseline", told.cost_usd_per_month, usd)
    yield from differs("the usd_per_1m_tokens of the baseline", told.usd_per_1m_tokens, 1e6 * usd / tokens)
    yield from differs("savings_usd_per_month", told.savings_usd_per_month, usd - cost, of=max(usd, cost))
    yield from differs("savings_frac", told.savings_frac, saved_frac)
