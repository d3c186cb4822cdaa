"""Whether what a plan asks to be signed should be: prices without a quote, plans not served, demand from short logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from planner.case.case import Workload
from planner.case.support import is_unproven
from planner.catalog.terms import in_words, is_bought, term_months
from planner.io.formatting import counted, percent, usd
from planner.judgement.concern import Concern
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.horizon.horizon_view import usd_per_month
from planner.plan.plan import Plan
from planner.plan.signing import price_doubt, signed_on_no_quote, to_be_signed

NAMES_SHOWN = 2
ALL = 1e-9
"""short of the whole, by rounding"""
MONTHS_OF_A_YEAR = 12
ENOUGH_DAYS = 28
"""of a log: four of each day of the week"""


def guessed_price(plan: Plan) -> Iterator[Concern]:
    """Commitments at prices that are assumed, stale, or of unknown date."""
    doubtful = sorted(signed_on_no_quote(plan), key=lambda s: -s.whole_term_usd)
    if not doubtful:
        return
    at_risk = sum(s.whole_term_usd for s in doubtful)
    yield _guessed(
        at_risk,
        at_risk / sum(s.whole_term_usd for s in to_be_signed(plan)),
        dict.fromkeys(s.doubt for s in doubtful),
        [_quote(s.commitment.instances, s.line.offer, s.commitment.term, s.line.usd_per_h) for s in doubtful],
        sum(s.line.cost_usd_per_month for s in doubtful),
    )


def not_served(plan: Plan) -> Iterator[Concern]:
    """Commitments of a plan of which no request was served."""
    signed = tuple(to_be_signed(plan))
    if signed and plan.verified is None and plan.sampled is None:
        yield Concern(
            key="not-served",
            usd_per_month=sum(s.line.cost_usd_per_month for s in signed),
            sentence=f"{usd(sum(s.whole_term_usd for s in signed))} would be signed for a plan that was never served",
            remedy="'fleetplan verify PLAN.json' serves it request by request; it needs fleetplan[verify]",
        )


def short_log(plan: Plan) -> Iterator[Concern]:
    """Commitments for demand that a log of less than four weeks shows, or a growth that so short a log cannot show."""
    short = [w for w in plan.case.workloads if w.log_days is not None and w.log_days < ENOUGH_DAYS]
    signed = tuple(to_be_signed(plan))
    growing = [w for w in short if w.growth_per_month_frac]
    costs = {w.name: w.cost_usd_per_month for w in plan.workloads}
    if signed and short:
        resting = sum(costs[w.name] for w in short) / (sum(costs.values()) or 1.0)
        yield Concern(
            key="short-log",
            usd_per_month=resting * sum(s.line.cost_usd_per_month for s in signed),
            sentence=f"the demand of {_rests_on(short)}, and {usd(sum(s.whole_term_usd for s in signed))} would be "
            "signed on that basis",
            remedy="buy by the hour until the log covers four weeks, or plan with 'scenarios:'",
        )
    elif growing:
        yield Concern(
            key="short-log",
            usd_per_month=sum(costs[w.name] * abs(w.growth_per_month_frac) for w in growing),
            sentence=f"the demand of {_rests_on(growing)}, too short to show that it grows by "
            f"{' or '.join(dict.fromkeys(percent(w.growth_per_month_frac) for w in growing))} a month",
            remedy="plan again in a few weeks, or plan with 'scenarios:' of growth",
        )


def bought_on_a_quarter(plan: Plan) -> Iterator[Concern]:
    """Servers that live for years, bought for the demand of one quarter, as if they were there already."""
    bought = [s for s in to_be_signed(plan) if is_bought(s.commitment.term)]
    if not bought:
        return
    years = sorted({term_months(s.commitment.term) / MONTHS_OF_A_YEAR for s in bought})
    prices = [plan.case.offers[s.commitment.offer].prices.bought for s in bought]
    wait = max(p.lead_months for p in prices if p is not None)
    late = f", and {counted(wait, 'month')} pass until all of them serve" if wait else ""
    yield Concern(
        key="bought-on-a-quarter",
        usd_per_month=sum(s.line.cost_usd_per_month for s in bought),
        sentence=f"{usd(sum(s.whole_term_usd for s in bought))} would be paid for servers that live "
        f"{' or '.join(f'{y:g}' for y in years)} years, for the demand of one quarter{late}",
        remedy="plan with 'horizon: 4 quarters' or more and 'scenarios:', which count what demand may become",
    )


def _rests_on(short: Sequence[Workload]) -> str:
    days = sorted({w.log_days or 0.0 for w in short})
    span = f"{days[0]:.3g}" if len(days) == 1 else f"{days[0]:.3g} to {days[-1]:.3g}"
    names = ", ".join(w.name for w in short[:NAMES_SHOWN])
    names += f" and {len(short) - NAMES_SHOWN} more" if len(short) > NAMES_SHOWN else ""
    return f"{names} is known from only {span} days of log"


def signed_unproven(plan: Plan) -> Iterator[Concern]:
    """Commitments to machines on which nobody has seen the engine run what they are for."""
    unproven: dict[str, list[str]] = {}
    for pool in plan.pools:
        for d in pool.deployments:
            if is_unproven(plan.case, d.deployment.variant):
                unproven.setdefault(d.deployment.offer, []).append(str(d.deployment.variant))
    signed = [s for s in to_be_signed(plan) if s.commitment.offer in unproven]
    if signed:
        what = dict.fromkeys(v for s in signed for v in unproven[s.commitment.offer])
        yield Concern(
            key="signed-unproven",
            usd_per_month=sum(s.line.cost_usd_per_month for s in signed),
            sentence=f"{usd(sum(s.whole_term_usd for s in signed))} would be signed for "
            f"{', '.join(dict.fromkeys(s.commitment.offer for s in signed))}, where {plan.case.engine_name} is not "
            f"known to run {', '.join(what)}",
            remedy="rent one by the hour and run it first, or set 'policy: {unproven: forbidden}'",
        )


def guessed_signature(horizon: HorizonPlan) -> Iterator[Concern]:
    """What is to be signed now for several quarters at prices that are assumed, stale, or of unknown date."""
    whole = {c: c.inside_usd + c.beyond_usd for c in horizon.signed_now}
    doubts = {c: price_doubt(horizon.case, c.offer, c.term) for c in horizon.signed_now}
    doubtful = sorted((c for c in whole if doubts[c]), key=lambda c: -whole[c])
    if doubtful:
        at_risk = sum(whole[c] for c in doubtful)
        yield _guessed(
            at_risk,
            at_risk / sum(whole.values()),
            dict.fromkeys(doubts[c] for c in doubtful),
            [_quote(c.instances, c.offer, c.term, c.usd_per_h) for c in doubtful],
            sum(usd_per_month(c) for c in doubtful),
        )


def _guessed(
    at_risk_usd: float, share: float, doubts: Iterable[str], quotes: Sequence[str], usd_per_month: float
) -> Concern:
    part = "all" if share > 1 - ALL else percent(share)
    more = f" and {len(quotes) - NAMES_SHOWN} more" if len(quotes) > NAMES_SHOWN else ""
    return Concern(
        key="guessed-price",
        usd_per_month=usd_per_month,
        sentence=f"{usd(at_risk_usd)} ({part} of what is to be signed) rests on prices that are {' or '.join(doubts)}, "
        "not quoted",
        remedy=f"ask for {', '.join(quotes[:NAMES_SHOWN])}{more}; write the quote under 'prices:' and plan again",
        stops_signing=True,
    )


def _quote(instances: int, offer: str, term: str, usd_per_h: float) -> str:
    """What to ask for, and the price that the plan counts on."""
    return f"{instances} x {offer} {in_words(term)} at {usd(usd_per_h)}/h each or less"
