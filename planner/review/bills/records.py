"""A bill against a plan, as data. Money is USD in whole cents over the hours that bill and review share."""

from __future__ import annotations

import datetime
from typing import Literal

from planner.io.validation import Strict

ChargeKind = Literal[
    "instances", "apis", "no offer", "other services", "commitments bought", "taxes", "credits", "corrections",
    "adjustments", "other accounts", "repeated", "outside the period",
]  # fmt: skip
BoughtAs = Literal["reserved", "on-demand", "spot"]


class KindOfCharge(Strict):
    """Every row of a bill in USD, or with a rate, is of one kind; the kinds add up to the bill."""

    kind: ChargeKind
    rows: int
    billed_usd: float
    """as invoiced: a commitment when it is paid for"""
    effective_usd: float
    """amortized: a commitment over the hours that it covers"""
    counted: bool
    """whether it is held against the plan"""


class PaidInstance(Strict):
    """Instances of one offer bought in one way: paid against planned."""

    offer: str
    purchase: BoughtAs
    planned_usd: float
    paid_usd: float
    """what was not used included"""
    unused_usd: float
    """of commitments and of reserved capacity"""
    planned_hours: float
    paid_hours: float
    """used"""
    planned_usd_per_h: float | None
    paid_usd_per_h: float | None
    """without what was not used"""


class PaidApi(Strict):
    """A model bought by the token: paid against planned."""

    api: str
    planned_usd: float
    paid_usd: float
    planned_input_tokens: float
    planned_output_tokens: float
    input_tokens: float
    """cached ones included"""
    cached_input_tokens: float
    output_tokens: float


class CommitmentUse(Strict):
    """What a commitment was worth in the period."""

    id: str
    name: str
    type: str
    used_usd: float
    unused_usd: float
    utilization_frac: float | None
    """used / (used + unused), by amortized cost"""
    used_hours: float
    coverage_frac: float | None
    """of all hours of the instances that it was used for, those that it covered"""
    used_for: tuple[str, ...]
    by_spend: bool = False
    """whether dollars are committed, not instances: a savings plan"""


class SpotPaid(Strict):
    """Spot's real price against the planned one."""

    offer: str
    hours: float
    planned_usd_per_h: float | None
    planned_p95_usd_per_h: float | None
    paid_usd_per_h: float
    lowest_day_usd_per_h: float
    highest_day_usd_per_h: float


class TeamSpend(Strict):
    """What one team's tag is on."""

    team: str | None
    """None: no tag"""
    instances_usd: float
    apis_usd: float
    usd: float
    share_frac: float


class NoOffer(Strict):
    """Something of the bill that the plan does not know."""

    what: str
    why: str
    rows: int
    hours: float
    """of instances"""
    gpu_hours: float = 0.0
    """of GPUs, where the rows count those"""
    effective_usd: float


class OtherService(Strict):
    service: str
    rows: int
    effective_usd: float


class OtherCurrency(Strict):
    """Charges that are in no sum."""

    currency: str
    """with the kind of charge, as in "EUR (taxes)", where a rate would not make it count"""
    rows: int
    billed: float
    effective: float

    @property
    def would_count(self) -> bool:
        return " (" not in self.currency


class ConvertedCurrency(Strict):
    """Charges that count, as USD."""

    currency: str
    rows: int
    billed: float
    effective: float
    usd: float
    """for one unit"""
    date: datetime.date
    effective_usd: float


class BillPrice(Strict):
    """A contracted price that differs from the menu's."""

    offer: str
    purchase: str
    before_usd_per_h: float | None
    usd_per_h: float
    source: str
    date: str | None
    taken: bool = True
    """whether the next plan is made at it"""


class BillReview(Strict):
    """What was paid against what was planned, over the hours that the bill has of the period."""

    files: tuple[str, ...]
    first_hour: str
    last_hour: str
    hours: float
    rows: int
    planned_usd: float
    """for instances and APIs"""
    paid_usd: float
    """for instances and APIs, amortized"""
    paid_usd_per_month: float
    not_on_the_bill_usd_per_month: float
    """engineers and caches, as planned: no bill has them"""
    total_billed_usd: float
    total_effective_usd: float
    kinds: tuple[KindOfCharge, ...]
    instances: tuple[PaidInstance, ...]
    apis: tuple[PaidApi, ...]
    commitments: tuple[CommitmentUse, ...]
    spot: tuple[SpotPaid, ...]
    team_tag: str
    teams: tuple[TeamSpend, ...]
    """most first; what is not tagged and what nobody used last"""
    no_offer: tuple[NoOffer, ...]
    other_services: tuple[OtherService, ...]
    other_currencies: tuple[OtherCurrency, ...]
    converted_currencies: tuple[ConvertedCurrency, ...] = ()
    prices: tuple[BillPrice, ...]
    """that differ from those known before"""
    notes: tuple[str, ...]
