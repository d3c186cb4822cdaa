"""Servers that may be bought, as people write them in a demand file.

Docstrings of fields are what editors show (JSON schema) and what the error messages quote.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field, model_validator

from planner.io.errors import shown
from planner.io.rates import Months, UsdPerMonth, Years
from planner.io.units import Fraction, PositiveWhole, Usd, WholeNumber
from planner.io.validation import FieldProblem, Strict

MOST_OWN = 20
_NOTHING = re.compile(r"(?:\$ ?|usd ?)?0*\.?0+(?: ?usd)?", re.IGNORECASE)
MOST_GPUS, DEAREST_USD = 1024, 1e8
"""of one server"""
QUARTER, LONGEST_LIFE, LONGEST_LEAD = 3, 240, 36
"""months"""


class OwnSpec(Strict):
    """A server that may be bought: what it is, where it stands, and what it costs over its life."""

    name: str = Field(min_length=1, max_length=40, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", examples=["8xh200"])
    like: str | None = Field(default=None, examples=["aws/p5en.48xlarge"])
    """An instance of the catalog with the same GPUs, memory and network."""
    gpu: str | None = Field(default=None, examples=["h200"])
    """Or its GPU, and how many it has."""
    gpus: PositiveWhole | None = Field(default=None, le=MOST_GPUS, examples=[8])
    site: str = Field(examples=["hq"])
    """Where it stands: an entry of `sites` with usd_per_kwh."""
    price: Usd = Field(examples=["$310k"])
    """Of one server with its share of network and racks, delivered."""
    residual: Fraction = Field(default=0.0, examples=["15%"])
    """Share of its price that it is worth at the end of its life."""
    life_years: Years = Field(examples=[4])
    """Over which it loses that value, in a straight line."""
    capital_cost: Fraction = Field(default=0.0, examples=["9%"])
    """What capital costs a year, on the mean of its price and its residual value."""
    maintenance: Fraction = Field(default=0.0, examples=["5%"])
    """A year, as a share of its price: support, spare parts, insurance."""
    colocation_usd_per_month: UsdPerMonth = Field(default=0.0, examples=[1800])
    """Space, power feed and hands in a data center; energy is not in it."""
    lead_months: Months = Field(default=0, examples=[3])
    """From the order until it serves; a plan of one quarter takes it to be there."""
    max_instances: WholeNumber | None = Field(default=None, examples=[4])
    """The most that may be bought."""

    @model_validator(mode="before")
    @classmethod
    def _has_a_price(cls, given: Any) -> Any:
        price = given.get("price") if isinstance(given, dict) else None
        if isinstance(price, int | float | str) and not isinstance(price, bool) and _NOTHING.fullmatch(str(price)):
            remedy = "Write what one costs; of those that you have already, say how many under 'have', as owned"
            raise FieldProblem(("price",), f"must be above $0, got {shown(price)}", remedy)
        return given

    @model_validator(mode="after")
    def _makes_sense(self) -> OwnSpec:
        if self.price > DEAREST_USD:
            raise FieldProblem(("price",), "is above $100M for one server", "Check the number")
        if self.like is None and (self.gpu is None or self.gpus is None):
            raise FieldProblem((), "needs 'like', or 'gpu' and 'gpus'", "Add like: aws/p5en.48xlarge")
        if self.like is not None and (self.gpu is not None or self.gpus is not None):
            key = "gpu" if self.gpu is not None else "gpus"
            raise FieldProblem((key,), "is given besides like", "Leave one of them out")
        months = 12 * self.life_years
        if months < QUARTER:
            raise FieldProblem(
                ("life_years",), "is shorter than a quarter, the step of plans", "Write 4 for four years"
            )
        if months > LONGEST_LIFE or abs(months / QUARTER - round(months / QUARTER)) > 1e-9:
            message = "is not a whole number of quarters up to 20 years"
            raise FieldProblem(("life_years",), message, "Write 4, or 3.5")
        if self.lead_months > LONGEST_LEAD:
            raise FieldProblem(("lead_months",), "is above three years", "Check the number: it is in months")
        return self
