"""Offers: instances in a region, and what they cost in each way to buy."""

from __future__ import annotations

from pydantic import Field, model_validator

from planner.catalog.entries.sourced import Sourced, is_of_unknown_day
from planner.io.validation import FieldProblem, Strict
from problems.constants import HOURS_PER_MONTH

TERM_MONTHS = {"reserved-1y": 12, "reserved-3y": 36, "reserved-1y-upfront": 12, "reserved-3y-upfront": 36}
"""how long a commitment runs"""


class Price(Sourced):
    """What something costs, on a day."""

    stale: bool | None = None
    """Whether it was over a year old when the catalog was last reviewed; None: it was not."""

    @property
    def is_stale(self) -> bool:
        return bool(self.stale) or is_of_unknown_day(self.date)


class HourlyPrice(Price):
    usd_per_h: float = Field(gt=0)
    """For the whole instance."""


class SpotPrice(Price):
    p50_usd_per_h: float = Field(gt=0)
    p95_usd_per_h: float = Field(gt=0)

    @model_validator(mode="after")
    def _in_order(self) -> SpotPrice:
        if self.p95_usd_per_h < self.p50_usd_per_h:
            raise FieldProblem(("p95_usd_per_h",), "is below p50_usd_per_h", "Write the larger price at p95_usd_per_h")
        return self


class UpfrontPrice(Price):
    """A commitment that is paid when it is signed, in part or as a whole; for the whole instance."""

    upfront_usd: float = Field(gt=0)
    """For the whole term."""
    usd_per_h: float = Field(default=0.0, ge=0)
    """Besides, for every hour of the term."""

    def spread_over(self, months: int) -> HourlyPrice:
        """What an hour comes to, with the payment spread evenly over the term."""
        usd_per_h = self.usd_per_h + self.upfront_usd / (months * HOURS_PER_MONTH)
        explained = self.model_dump(include=set(Price.model_fields))
        return HourlyPrice(usd_per_h=usd_per_h, **explained)


class OfferPrices(Strict):
    on_demand: HourlyPrice | None = None
    spot: SpotPrice | None = None
    reserved_1y: HourlyPrice | None = None
    reserved_3y: HourlyPrice | None = None
    reserved_1y_upfront: UpfrontPrice | None = None
    reserved_3y_upfront: UpfrontPrice | None = None

    def by_way(self) -> dict[str, HourlyPrice | SpotPrice]:
        """Every price by way to buy; a payment up front is spread over its term."""
        always = {"on-demand": self.on_demand, "spot": self.spot}
        return {way: price for way, price in always.items() if price is not None} | self.reserved()

    def reserved(self) -> dict[str, HourlyPrice]:
        """What an hour of each commitment costs; a payment up front is spread over its term."""
        terms = {"reserved-1y": self.reserved_1y, "reserved-3y": self.reserved_3y}
        hourly = {term: price for term, price in terms.items() if price is not None}
        return hourly | {term: price.spread_over(TERM_MONTHS[term]) for term, price in self.upfront().items()}

    def upfront(self) -> dict[str, UpfrontPrice]:
        """Commitments that are paid when they are signed, as they are paid."""
        terms = {"reserved-1y-upfront": self.reserved_1y_upfront, "reserved-3y-upfront": self.reserved_3y_upfront}
        return {term: price for term, price in terms.items() if price is not None}


class Offer(Sourced):
    """A whole instance that can be rented in a region."""

    provider: str
    instance: str
    region: str
    gpu: str
    gpus: int = Field(gt=0, le=1024)
    spot_zones: int = Field(default=1, ge=1, le=100)
    """Zones of the region that sell it as spot; a reclaim is taken to empty one of them at a time."""
    prices: OfferPrices
