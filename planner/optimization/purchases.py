"""What is bought, at which prices, and what stays owed."""

from __future__ import annotations

import numpy as np

from planner.case.case import Case
from planner.case.horizon import MONTHS_OF_A_QUARTER
from planner.catalog.entries import TERM_MONTHS, HourlyPrice, SpotPrice
from planner.plan.plan import HELD, HELD_SOURCE, Commitment, FleetLine
from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import FleetProblem
from solvers.heuristics.incumbent import Incumbent


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


def extra_at_p95(case: Case, line: FleetLine) -> float:
    """What spot instances cost more a month at the 95th percentile of their price."""
    spot = case.offers[line.offer].prices.spot
    if line.purchase != "spot" or spot is None:
        return 0.0
    return line.cost_usd_per_month * (spot.p95_usd_per_h / spot.p50_usd_per_h - 1)
