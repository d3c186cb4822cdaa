"""The policy file as people write it. A key is a rule; a rule that is not there is not asked for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path as FilePath
from typing import Annotated, Any

from pydantic import Field, PlainValidator, model_validator

from planner.io.errors import Expected, InputError, Path
from planner.io.strict_yaml import Document, parse_yaml, read_yaml
from planner.io.units import AnyFraction, Fraction, SignedFraction, UsdBare, parse_duration
from planner.io.validation import FieldProblem, Strict, validate


def parse_date(value: object) -> str:
    """A day as YYYY-MM-DD."""
    try:
        if isinstance(value, str) and len(value) == 10:
            return date.fromisoformat(value).isoformat()
    except ValueError:
        pass
    raise Expected("a date", value, "Write one such as 2027-01-31")


def parse_age(value: object) -> float:
    """Days, from "90d", "2w" or "36h"."""
    return parse_duration(value, ("d", "w")) / 86_400


Day = Annotated[str, PlainValidator(parse_date)]
Age = Annotated[float, PlainValidator(parse_age)]


class ChangeSpec(Strict):
    """Limits of their own for either direction."""

    rise: AnyFraction | None = None
    fall: Fraction | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ChangeSpec:
        if self.rise is None and self.fall is None:
            raise FieldProblem((), "needs a limit for 'rise' or 'fall'", "Write {rise: 10%, fall: 30%}")
        return self


class HeadroomSpec(Strict):
    """Limits of their own for each objective."""

    ttft: Fraction | None = None
    tpot: Fraction | None = None
    e2e: Fraction | None = None
    e2e_per_token: Fraction | None = None

    @model_validator(mode="after")
    def _says_something(self) -> HeadroomSpec:
        if all(limit is None for limit in (self.ttft, self.tpot, self.e2e, self.e2e_per_token)):
            message = "needs a limit for 'ttft', 'tpot', 'e2e' or 'e2e_per_token'"
            raise FieldProblem((), message, "Write {ttft: 10%}")
        return self


class Policy(Strict):
    as_of: Day | None = Field(default=None, examples=["2027-01-31"])
    """The day on which the age of prices is taken; today where it is not given."""
    budget_usd_per_month: UsdBare | None = Field(default=None, examples=["80k"])
    """Most that the dearest month may cost."""
    max_change: AnyFraction | ChangeSpec | None = Field(default=None, examples=["15%"])
    """How far the cost may move from that of the plan given with --against, either way; or {rise: 10%, fall: 30%}."""
    max_usd_per_1m_tokens: UsdBare | None = Field(default=None, examples=[0.5])
    min_savings: SignedFraction | None = Field(default=None, examples=["20%"])
    """Least that the plan must save of the API baseline's bill."""
    max_commitment_usd: UsdBare | None = Field(default=None, examples=["100k"])
    """Most that may be paid at signing or still be owed after the quarter."""
    max_guessed_commitment_usd: UsdBare | None = Field(default=None, examples=[0])
    """Most that may be signed for, over whole terms, at prices that are assumed, stale or of unknown date."""
    max_spot_share: Fraction | None = Field(default=None, examples=["40%"])
    """Most of the GPU-hours bought that may be spot."""
    max_api_share: Fraction | None = Field(default=None, examples=["10%"])
    """Most of the requests that may go to an API."""
    max_shed_share: Fraction | None = Field(default=None, examples=["1%"])
    """Most of the requests that may be shed."""
    allowed_regions: tuple[str, ...] | None = Field(default=None, min_length=1, examples=[["us-east-1"]])
    """Where instances may be rented."""
    min_slo_headroom: Fraction | HeadroomSpec | None = Field(default=None, examples=["10%"])
    """Share of each latency objective that stays unused in the busiest hour; or {ttft: 10%, e2e: 5%}."""
    max_gap: Fraction | None = Field(default=None, examples=["1%"])
    """How much of the cost may be unproved."""
    max_unproven_share: Fraction | None = Field(default=None, examples=["0%"])
    """Of the busy GPU-hours: deployments of which no source says that the engine runs them."""
    max_unmeasured_share: Fraction | None = Field(default=None, examples=["50%"])
    """Most of the busy GPU-hours on deployments whose throughput is not from a benchmark of your own."""
    max_power_kw: float | None = Field(default=None, ge=0, examples=[120])
    """Most kW that the plan may draw at any time, every GPU in use counted at the most that it can draw."""
    max_co2_kg_per_month: float | None = Field(default=None, ge=0, examples=[20000])
    """Most CO2e of any month, counted in the same way."""
    max_price_age: Age | None = Field(default=None, examples=["90d"])
    """Greatest age of the prices that the plan pays, and of the baseline's."""
    max_liability_usd: UsdBare | None = Field(default=None, examples=["200k"])
    """Of a horizon: most that may still be owed after it, in any scenario."""
    max_regret: AnyFraction | None = Field(default=None, examples=["10%"])
    """Of a horizon: how much more any scenario may cost than if it had been known."""
    min_coverage: Fraction | None = Field(default=None, examples=["60%"])
    """Of a horizon: least share of the eligible GPU-hours (all but spot) that commitments cover, in any scenario."""
    min_utilization: Fraction | None = Field(default=None, examples=["80%"])
    """Of a horizon: least share of the committed GPU-hours that are used, in any scenario."""

    @model_validator(mode="after")
    def _has_a_rule(self) -> Policy:
        if all(getattr(self, key) is None for key in RULES):
            raise FieldProblem((), "has no rule, so every plan keeps it", "Write one such as budget_usd_per_month: 80k")
        return self


RULES = tuple(key for key in Policy.model_fields if key != "as_of")


def load_policy(path: FilePath | str) -> Policy:
    """Read a policy file; raises InputError with everything that is wrong with it."""
    return _policy(read_yaml(path))


def policy_from_text(text: str, file: str = "<policy>") -> Policy:
    """Read a policy from YAML text."""
    return _policy(parse_yaml(text, file))


def _policy(document: Document) -> Policy:
    """A rule that somebody left blank is no rule that is switched off."""
    message, remedy = "expected a limit, got nothing", "Write one, or delete the key"
    blank = [document.diagnostic(path, message, remedy) for path in _blanks(document.data)]
    if blank:
        raise InputError(blank)
    return validate(Policy, document)


def _blanks(data: Any, path: Path = ()) -> Iterator[Path]:
    if data is None:
        yield path
    for key, value in data.items() if isinstance(data, dict) else ():
        yield from _blanks(value, (*path, key))
