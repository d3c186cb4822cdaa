"""Models that are sold by the token."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from planner.catalog.entries.sourced import Named, Sourced
from planner.io.validation import FieldProblem, Strict


class ApiTier(Strict):
    """Prices of a request whose input exceeds a length."""

    above_input_tokens: int = 0
    input_usd_per_1m: float = Field(ge=0)
    cached_input_usd_per_1m: float | None = Field(default=None, ge=0)
    """None: cached input costs as much as any input."""
    output_usd_per_1m: float = Field(ge=0)


class ApiPrices(Sourced):
    """Prices per token, by the length of the request."""

    tiers: tuple[ApiTier, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _starts_at_zero(self) -> Self:
        if all(tier.above_input_tokens for tier in self.tiers):
            raise FieldProblem(("tiers",), "has no price for short requests", "Add a tier without above_input_tokens")
        return self

    def usd(self, input_tokens: float, cached_tokens: float, output_tokens: float) -> float:
        """One request; its length decides the tier of all of its tokens."""
        reached = [t for t in self.tiers if input_tokens > t.above_input_tokens or t.above_input_tokens == 0]
        tier = max(reached, key=lambda t: t.above_input_tokens)
        cached_price = tier.cached_input_usd_per_1m
        cached_price = tier.input_usd_per_1m if cached_price is None else cached_price
        fresh = (input_tokens - cached_tokens) * tier.input_usd_per_1m
        return (fresh + cached_tokens * cached_price + output_tokens * tier.output_usd_per_1m) / 1e6


class ApiBatch(ApiPrices):
    """Prices of requests that may wait."""

    turnaround_h: float = Field(gt=0)
    """Hours within which the provider answers."""


class ApiModel(ApiPrices, Named):
    """A model sold by the token."""

    provider: str
    model: str
    max_context_tokens: int | None = Field(default=None, gt=0)
    """Tokens of the longest request that it takes. None: not known, and taken to be as long as any."""
    batch: ApiBatch | None = None
    """Where the provider has a cheaper price for work that waits."""

    def request_usd(
        self, input_tokens: float, cached_tokens: float, output_tokens: float, wait_h: float = 0.0
    ) -> float:
        """One request whose answer may take so many hours: at the batch price where that is kept and cheaper."""
        usd = self.usd(input_tokens, cached_tokens, output_tokens)
        if self.batch is None or self.batch.turnaround_h > wait_h:
            return usd
        return min(usd, self.batch.usd(input_tokens, cached_tokens, output_tokens))
