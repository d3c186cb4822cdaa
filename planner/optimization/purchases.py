"""What is bought, at which prices, and what stays owed."""

from __future__ import annotations

import numpy as np

from planner.case.case import Case
from planner.case.horizon import MONTHS_OF_A_QUARTER
from planner.case.terms import beyond_months, months_to_pay, not_for_sale
from planner.catalog.entries import TERM_MONTHS, HourlyPrice, SpotPrice
from planner.plan.plan import HELD, HELD_SOURCE, Commitment, FleetLine, LongTerm
from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import FleetProblem
from solvers.heuristics.incumbent import Incumbent

SAME, SAME_USD = 1e-9, 1e-6
"""of prices, and of money: what is nearer to each other is the same"""


def fleet_lines(case: Case, fleet: FleetProblem, best: Incumbent) -> list[FleetLine]:
    lines = []
    for key, bought in sorted(best.purchases.items()):
        prices = case.offers[key].prices
        ways: list[tuple[str, np.ndarray, HourlyPrice | SpotPrice | None]] = [
            (term, np.full(len(fleet.slot_hours), n), prices.reserved()[term]) for term, n in bought.reserved.items()
        ]
        ways += [("on-demand", bought.on_demand, prices.on_demand), ("spot", bought.spot, prices.spot)]
        if fleet.offers[key].on_hand:
            lines.append(_held_line(case, fleet, key))
        lines += [
            _line(case, fleet, key, purchase, instances, price)
            for purchase, instances, price in ways
            if instances.any() and price is not None
        ]
    return lines


def _held_line(case: Case, fleet: FleetProblem, key: str) -> FleetLine:
    """What is there anyway costs no more in use than idle; it is paid for besides the plan."""
    offer = case.offers[key]
    return FleetLine(
        offer=key,
        gpu=offer.gpu,
        gpus_per_instance=offer.gpus,
        purchase=HELD,
        instances_by_slot=(fleet.offers[key].on_hand,) * len(fleet.slot_hours),
        usd_per_h=0.0,
        starts_per_month=0.0,
        starting_usd_per_month=0.0,
        cost_usd_per_month=0.0,
        price_source=HELD_SOURCE,
    )


def _line(
    case: Case, fleet: FleetProblem, key: str, purchase: str, instances: np.ndarray, price: HourlyPrice | SpotPrice
) -> FleetLine:
    usd_per_h = price.p50_usd_per_h if isinstance(price, SpotPrice) else price.usd_per_h
    before = np.arange(len(instances)) if fleet.slot_before is None else fleet.slot_before
    starts = float(fleet.weight @ np.maximum(0, instances - instances[before]))
    starting_usd = starts * fleet.offers[key].start_h * usd_per_h
    return FleetLine(
        offer=key,
        gpu=case.offers[key].gpu,
        gpus_per_instance=case.offers[key].gpus,
        purchase=purchase,
        instances_by_slot=tuple(int(n) for n in instances),
        usd_per_h=usd_per_h,
        starts_per_month=starts,
        starting_usd_per_month=starting_usd,
        cost_usd_per_month=float(instances @ fleet.weight) * usd_per_h + starting_usd,
        price_source=price.source,
        price_date=price.date,
        price_assumption=price.assumption,
    )


def commitments(case: Case, best: Incumbent) -> list[Commitment]:
    """What a payment up front has paid for is not owed again."""
    found = []
    for offer, bought in sorted(best.purchases.items()):
        prices = case.offers[offer].prices
        for term, n in bought.reserved.items():
            upfront = prices.upfront().get(term)
            later_usd_per_h = upfront.usd_per_h if upfront else prices.reserved()[term].usd_per_h
            months_left = TERM_MONTHS[term] - MONTHS_OF_A_QUARTER
            found.append(
                Commitment(
                    offer=offer,
                    term=term,
                    instances=n,
                    upfront_usd=n * upfront.upfront_usd if upfront else 0.0,
                    beyond_horizon_usd=n * later_usd_per_h * HOURS_PER_MONTH * months_left,
                )
            )
    return found


def long_terms(case: Case, fleet: FleetProblem, lines: tuple[FleetLine, ...]) -> tuple[LongTerm, ...] | None:
    """What terms that outlast the plan would save with the same instances in every hour; None where the menu has none.

    Shorter commitments that cost more are replaced, and so are as many instances on demand as it pays to hold all the
    time. Nothing is planned again, and quotas are not looked at.
    """
    shut = not_for_sale(case)
    if not shut:
        return None
    found = []
    for offer in dict.fromkeys(line.offer for line in lines):
        prices = case.offers[offer].prices.reserved()
        terms = [term for term in shut if term in prices]
        if terms:
            term = min(terms, key=lambda t: (round(prices[t].usd_per_h, 9), t))
            mine = [line for line in lines if line.offer == offer]
            n, replaced = _replaced(case, fleet, mine, prices[term].usd_per_h)
            if n:
                found.append(_long_term(case, offer, term, n, replaced))
    return tuple(found)


def _replaced(case: Case, fleet: FleetProblem, lines: list[FleetLine], usd_per_h: float) -> tuple[int, float]:
    """Instances of an offer that it pays to hold at this price, and what they cost as they are bought now."""
    count, usd = 0, 0.0
    for line in lines:
        instances = np.array(line.instances_by_slot)
        if line.purchase in TERM_MONTHS and line.usd_per_h > usd_per_h * (1 + SAME):
            count, usd = count + int(instances[0]), usd + line.cost_usd_per_month
        elif line.purchase == "on-demand":
            price = case.offers[line.offer].prices.on_demand
            assert price is not None
            rest = [
                _line(case, fleet, line.offer, line.purchase, np.maximum(0, instances - k), price).cost_usd_per_month
                for k in range(int(instances.max()) + 1)
            ]
            totals = [left + k * usd_per_h * HOURS_PER_MONTH for k, left in enumerate(rest)]
            k = next(k for k, total in enumerate(totals) if total <= min(totals) + SAME_USD)
            count, usd = count + k, usd + rest[0] - rest[k]
    return count, usd


def _long_term(case: Case, offer: str, term: str, n: int, replaced_usd: float) -> LongTerm:
    prices = case.offers[offer].prices
    upfront, each = prices.upfront().get(term), prices.reserved()[term].usd_per_h
    monthly = n * each * HOURS_PER_MONTH
    later = upfront.usd_per_h if upfront else each
    return LongTerm(
        offer=offer,
        term=term,
        instances=n,
        usd_per_month=monthly,
        replaces_usd_per_month=replaced_usd,
        saves_usd_per_month=replaced_usd - monthly,
        upfront_usd=n * upfront.upfront_usd if upfront else 0.0,
        beyond_horizon_usd=n * later * HOURS_PER_MONTH * beyond_months(case, term),
        months_to_pay=months_to_pay(term, monthly, replaced_usd),
    )


def extra_at_p95(case: Case, line: FleetLine) -> float:
    """What spot instances cost more a month at the 95th percentile of their price."""
    spot = case.offers[line.offer].prices.spot
    if line.purchase != "spot" or spot is None:
        return 0.0
    return line.cost_usd_per_month * (spot.p95_usd_per_h / spot.p50_usd_per_h - 1)
