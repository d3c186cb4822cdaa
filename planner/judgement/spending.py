"""Whether the money of a plan is well spent.

What is to be signed: prices without a quote, plans not served, demand from short logs. What is paid besides: limits
that nobody gave, scarce instances by the hour, parts that cost nearly nothing, and models that somebody sells for less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from planner.case.case import Workload
from planner.case.prices import price_of
from planner.case.support import is_unproven
from planner.catalog.names import sells
from planner.catalog.sellers import known_sellers
from planner.catalog.terms import in_words, is_bought, term_months
from planner.io.formatting import counted, percent, usd
from planner.judgement.concern import Concern
from planner.plan.account.account import account_of
from planner.plan.complications import parts_of
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.horizon.horizon_view import usd_per_month
from planner.plan.plan import AssumedLimit, Plan
from planner.plan.sellers import cheapest_elsewhere, sold_cheaper
from planner.plan.signing import price_doubt, signed_on_no_quote, to_be_signed
from planner.plan.simpler import reductions_of
from planner.plan.stock import Stock, stocks_exceeded
from planner.plan.study_records import ProviderBill
from problems.constants import HOURS_PER_MONTH

NAMES_SHOWN = 2
ALL = 1e-9
"""short of the whole, by rounding"""
MONTHS_OF_A_YEAR = 12
ENOUGH_DAYS = 28
"""of a log: four of each day of the week"""
NAMES = {
    "slo.ttft_p95": "TTFT of {}",
    "slo.tpot_p95": "TPOT of {}",
    "quality.max_loss": "quality loss of at most {}",
    "policy.min_replicas": "at least {} replicas",
    "policy.spread": "replicas on two instances or more",
}
RESERVED = "reserved-1y"
SMALL_FRAC = 0.02
"""of the cost, engineers aside"""
OTHERS_NAMED = 2
"""the cheapest"""


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


def assumptions_that_bind(plan: Plan) -> Iterator[Concern]:
    found = plan.assumed_limits
    if found is None:
        return
    without, objective = found.without_usd_per_month, plan.objective_usd_per_month
    each = [f"{_name(limit)} (costs at least {usd(objective - limit.without_usd_per_month)})" for limit in found.limits]
    what = ", ".join(each) if each else "limits that bind only together"
    keys = " and ".join(f"'{limit.key}'" for limit in found.limits) or "the limits listed as assumed"
    yield Concern(
        key="assumed-limit",
        usd_per_month=objective - without,
        sentence=f"assumed limits: {what}; without them at most {usd(without)} / month instead of {usd(objective)}",
        remedy=f"set {keys} in the demand file to what your users need",
    )


def _name(limit: AssumedLimit) -> str:
    of = f" for {', '.join(limit.workloads)}" if limit.workloads else ""
    return NAMES[limit.key].format(limit.value) + of


@dataclass(frozen=True)
class Scarce:
    """What the instances of a stock that may not be there cost, and what it would cost to be sure of them."""

    stock: Stock
    beyond_usd: float
    """a month, for the hours beyond what may be there, at the mean price of those that run"""
    replaced_usd: float
    """a month, for the hours that as many reserved ones would serve, used first; the rest may then be there"""
    reserved_usd: float
    """a month, for these held all the time: for a year where that is for sale, else on demand"""
    starts: float
    """a month, of all of them"""


def scarce_instances(plan: Plan) -> list[Scarce]:
    """What a plan buys by the hour beyond what may be taken to be there, by GPU and region."""
    return [_scarce(plan, stock) for stock in stocks_exceeded(plan)]


def _scarce(plan: Plan, stock: Stock) -> Scarce:
    account, wanted, slots = account_of(plan), stock.wanted, len(plan.slots)
    paid = sum((np.array(line.instances_by_slot) * line.usd_per_h for line in stock.lines), np.zeros(slots))
    each_usd = np.divide(paid, wanted, out=np.zeros(slots), where=wanted > 0)
    line, count = stock.main_line, stock.peak - stock.counted_on
    reserved = price_of(plan.case, line.offer, RESERVED) or price_of(plan.case, line.offer, "on-demand")
    per_h = reserved.usd_per_h if reserved is not None else line.usd_per_h
    return Scarce(
        stock=stock,
        beyond_usd=account.a_month(stock.beyond * each_usd),
        replaced_usd=account.a_month(np.minimum(wanted, count) * each_usd),
        reserved_usd=count * per_h * HOURS_PER_MONTH,
        starts=sum(line.starts_per_month for line in stock.lines),
    )


def scarce_by_the_hour(plan: Plan) -> Iterator[Concern]:
    for s in scarce_instances(plan):
        line, offer = s.stock.main_line, plan.case.offers[s.stock.main_line.offer]
        peak, counted_on = s.stock.peak, s.stock.counted_on
        times = f", started {counted(s.starts, 'time')} a month" if s.starts >= 0.5 else ""
        count, sold = peak - counted_on, price_of(plan.case, line.offer, RESERVED) is not None
        reserving = (
            f"reserving {count} of them for a year" if sold else f"keeping {count} of them at the on-demand price"
        )
        more = s.reserved_usd - s.replaced_usd
        compared = f"{usd(abs(more))} / month {'more' if more >= 0 else 'less'} than renting by the hour"
        yield Concern(
            key="scarce-capacity",
            usd_per_month=max(more, s.beyond_usd),
            sentence=f"the plan rents up to {peak} boxes of {line.gpus_per_instance} x {line.gpu} by the hour in "
            f"{offer.provider} {offer.region}{times}, where at most {counted_on} can be counted on: {reserving} "
            f"costs {compared}",
            remedy=f"{'reserve them' if sold else 'keep them running'}, or state what you can get: 'availability: "
            "typical', or a number per instance type",
        )


def small_part(plan: Plan) -> Iterator[Concern]:
    """Each vendor, region or kind of GPU beside larger ones that has a very small share of the cost."""
    parts = [part for part in parts_of(plan) if not part.is_the_only_one]
    whole = plan.cost_usd_per_month - plan.costs.engineers_usd_per_month
    for part in parts:
        if whole and part.usd_per_month < SMALL_FRAC * whole:
            share = percent(part.usd_per_month / whole, 1)
            yield Concern(
                key="small-part",
                usd_per_month=part.usd_per_month,
                sentence=f"{part.what} accounts for only {share} of the cost ({usd(part.usd_per_month)} / month)",
                remedy=_remedy(plan, part.what),
            )


def _remedy(plan: Plan, what: str) -> str:
    simplest = "'policy: {choose: simplest}' leaves it out where that is cheap"
    for tried in reductions_of(plan.simpler):
        if what not in tried.without:
            continue
        if tried.more_usd is None:
            return "no plan without it was found, so decide whether you want it"
        return f"a plan without it costs at most {usd(tried.more_usd)} / month more; {simplest}"
    return f"decide whether it is worth having; {simplest}"


@dataclass(frozen=True)
class SoldForLess:
    """The models of a plan, at the cheapest sellers that are counted on, as every report compares them."""

    models_by_seller: dict[str, list[str]]
    workloads: tuple[str, ...]
    there_usd: float
    here_usd: float
    hosted: bool
    """whether the plan hosts them; where it does not, it buys another model in their place"""
    more_frac: float
    """how much more the plan costs"""
    shares_machines: bool
    """with other workloads, which would keep them: the cost here is a share of theirs, and not all of it would go"""

    @property
    def sellers(self) -> str:
        return " and ".join(self.models_by_seller)

    @property
    def more_usd(self) -> float:
        return self.here_usd - self.there_usd


def sold_for_less(plan: Plan) -> SoldForLess | None:
    """None where nobody who is counted on sells a model of the plan for less."""
    found = cheapest_elsewhere(plan)
    if found is None:
        return None
    sold: dict[str, list[str]] = {}
    for bill in found.bills:
        sold.setdefault(known_sellers()[bill.provider].name, []).extend(_models(plan, bill))
    bought = {name for bill in found.bills for name in bill.workloads}
    return SoldForLess(
        models_by_seller={seller: list(dict.fromkeys(models)) for seller, models in sold.items()},
        workloads=tuple(w.name for w in plan.workloads if w.name in bought),
        there_usd=found.there_usd,
        here_usd=found.here_usd,
        hosted=all(w.models for w in plan.workloads if w.name in bought),
        more_frac=found.more_frac,
        shares_machines=_share_machines(plan, bought),
    )


def _share_machines(plan: Plan, bought: set[str]) -> bool:
    """Whether some workloads stand on instances, or in a pool, of which others have a part."""
    mine, others = set[str](), set[str]()
    for pool in plan.pools:
        offers = {d.deployment.offer for d in pool.deployments}
        if bought & set(pool.workloads):
            mine |= offers
        if set(pool.workloads) - bought:
            others |= offers
    return bool(mine & others)


def cheaper_elsewhere(plan: Plan) -> Iterator[Concern]:
    less = sold_for_less(plan)
    if less is None:
        return
    counted = {name for name, seller in known_sellers().items() if seller.counted}
    others = [p for p in dict.fromkeys(bill.provider for bill in sold_cheaper(plan)) if p not in counted]
    named = ", ".join(_called(name) for name in others[:OTHERS_NAMED]) + (
        " and others" if len(others) > OTHERS_NAMED else ""
    )
    more = f"{percent(less.more_frac)} more" if less.more_frac < 1 else f"{1 + less.more_frac:.1f} times as much"
    team = ", without engineers" if plan.costs.engineers_usd_per_month else ""
    each = [f"{seller} sells {' and '.join(models)}" for seller, models in less.models_by_seller.items()]
    shared = " on machines that others need too" if less.shares_machines else ""
    compared = f"{usd(less.there_usd)} / month there, {usd(less.here_usd)} here{team}{shared} ({more})"
    yield Concern(
        key="cheaper-elsewhere",
        usd_per_month=less.more_usd,
        sentence=f"{', '.join(each)} for less: {compared}"
        + (f"; also {named}, but too little is known about them" if named else ""),
        remedy=(
            "'menu: {apis: same-model}' lets the plan use known sellers; write 'api: forbidden' for workloads that may "
            "not use an API"
        ),
    )


def _called(provider: str) -> str:
    """As people call a seller; by its id where nothing is known of it."""
    known = known_sellers().get(provider)
    return provider if known is None else known.name


def _models(plan: Plan, bill: ProviderBill) -> list[str]:
    """What the plan hosts for the workloads of a bill, or what of their models the seller sells where it hosts none."""
    found = []
    for w in (w for w in plan.workloads if w.name in bill.workloads):
        listed = next(x.models for x in plan.case.workloads if x.name == w.name)
        sold = [c.model for c in listed if sells(f"{bill.provider}/{bill.model}", c.model, plan.case.models[c.model])]
        found += list(w.models) or sold
    return found
