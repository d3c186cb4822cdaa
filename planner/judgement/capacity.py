"""Scarce instances that a plan buys by the hour, as if they were always there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planner.case.prices import price_of
from planner.io.formatting import counted, usd
from planner.judgement.concern import Concern
from planner.plan.account.account import account_of
from planner.plan.plan import Plan
from planner.plan.stock import Stock, stocks_exceeded
from problems.constants import HOURS_PER_MONTH

RESERVED = "reserved-1y"


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
