"""Savings plans and provisioned units as people write them in a demand file.

Docstrings of fields are what editors show (JSON schema) and what the error messages quote.
"""

from __future__ import annotations

from datetime import date
from typing import Literal

from pydantic import Field, model_validator

from planner.io.units import Count, Fraction, PositiveCount, PositiveWhole, UsdPerHour, WholeNumber
from planner.io.validation import FieldProblem, Strict

MOST_ALLOWANCES = 50


class SavingsPlanSpec(Strict):
    """A commitment to spend so much an hour, which instances on demand take up at lower rates."""

    name: str = Field(min_length=1, max_length=60, pattern=r"^\S(.*\S)?$", examples=["compute-1y"])
    provider: str | None = Field(default=None, examples=["aws"])
    """Whose instances it covers: all on the menu that are sold on demand."""
    offers: tuple[str, ...] | None = Field(default=None, min_length=1, examples=[["aws/p5.48xlarge"]])
    """Or the instances that it covers, as provider/instance or provider/instance@region."""
    discount: Fraction | None = Field(default=None, examples=["28%"])
    """What its rates are below the on-demand price."""
    rates: dict[str, UsdPerHour] = Field(default={}, examples=[{"aws/p5.48xlarge": "$30/h"}])
    """Or its rate for each instance; those without one have the discount."""
    term: Literal["1y", "3y"] = "1y"
    """For how long it is signed; in a plan of one quarter, one of three years can only be held."""
    step: UsdPerHour | None = Field(default=None, examples=["$1/h"])
    """In what steps it is signed; by default any amount, and over several quarters steps of about an instance."""
    held: UsdPerHour = Field(default=0.0, examples=["$50/h"])
    """What is signed already, and paid in any case; then no more of it is signed."""
    until: date | None = Field(default=None, examples=["2027-06-30"])
    """The last day of what is held; by default it outlasts the plan."""
    max: UsdPerHour | None = Field(default=None, examples=["$100/h"])
    """The most that may be signed."""

    @model_validator(mode="after")
    def _makes_sense(self) -> SavingsPlanSpec:
        if (self.provider is None) == (self.offers is None):
            both = self.offers is not None
            message = "is given besides provider" if both else "needs 'provider' or 'offers', what it covers"
            raise FieldProblem(("offers",) if both else (), message, "Write provider: aws, or offers: [...]")
        if self.discount is None and not self.rates:
            raise FieldProblem((), "needs 'discount' or 'rates', what it charges", "Add discount: 28%")
        if self.discount == 1:
            raise FieldProblem(("discount",), "leaves nothing to pay", "Write what its rates are below on demand")
        if zero := next((name for name, rate in self.rates.items() if not rate), None):
            raise FieldProblem(("rates", zero), "must be above $0/h", "Write the plan's rate, such as $30/h")
        if self.step == 0:
            raise FieldProblem(("step",), "is nothing", "Leave it out, or write $1/h")
        if self.until is not None and not self.held:
            raise FieldProblem(("until",), "is the last day of what is held, and nothing is", "Add held: $50/h")
        if self.held and self.until is None and self.max is not None:
            raise FieldProblem(("max",), "is given besides held, of which no more is signed", "Leave one of them out")
        if self.max == 0:
            raise FieldProblem(("max",), "allows nothing", "Leave this savings plan out")
        return self


class ProvisionedSpec(Strict):
    """Provisioned throughput of an API: units that hold so many tokens a minute; the rest is paid by the token."""

    name: str | None = Field(default=None, min_length=1, max_length=60, pattern=r"^\S(.*\S)?$", examples=["ptu-1y"])
    """By default the API."""
    api: str = Field(examples=["azure/gpt-4.1"])
    """An API model on the menu, as provider/model."""
    price: UsdPerHour = Field(examples=["$1/h"])
    """Price of a unit, after the discount of its term."""
    tokens_per_minute: PositiveCount | None = Field(default=None, examples=["3k"])
    """Input tokens a minute that a unit holds; this and the next four by default as published."""
    output_weight: PositiveCount | None = Field(default=None, examples=[4])
    """Input tokens that an output token counts as."""
    cached_weight: Count | None = Field(default=None, examples=[0])
    """Input tokens that a cached one counts as."""
    minimum: PositiveWhole | None = Field(default=None, examples=[15])
    """The fewest units that are sold."""
    step: PositiveWhole | None = Field(default=None, examples=[5])
    """In what steps there are more."""
    term: Literal["hourly", "1mo", "1y"] = "hourly"
    """For how long units are signed; they are held in every hour of the plan in any case."""
    held: WholeNumber = Field(default=0, examples=[50])
    """Units that are signed already, and paid in any case; then no more of them are signed."""
    until: date | None = Field(default=None, examples=["2027-06-30"])
    """The last day of what is held; by default it outlasts the plan."""
    max: PositiveWhole | None = Field(default=None, examples=[500])
    """The most units that may be signed."""

    @model_validator(mode="after")
    def _makes_sense(self) -> ProvisionedSpec:
        if not self.price:
            raise FieldProblem(("price",), "must be above $0/h", "Write the price of a unit, such as $1/h")
        if self.until is not None and not self.held:
            raise FieldProblem(("until",), "is the last day of what is held, and nothing is", "Add held: 50")
        if self.held and self.until is None and self.max is not None:
            raise FieldProblem(("max",), "is given besides held, of which no more are signed", "Leave one of them out")
        if self.minimum is not None and self.max is not None and self.max < self.minimum:
            raise FieldProblem(("max",), f"is below the minimum, {self.minimum}", "Allow at least the minimum")
        return self
