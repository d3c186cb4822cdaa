"""Limits per minute of APIs as people write them in a demand file.

Docstrings of fields are what editors show (JSON schema) and what the error messages quote.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from planner.io.units import Count, PositiveCount
from planner.io.validation import FieldProblem, Strict


class ApiLimitSpec(Strict):
    """What a provider lets you ask of an API in a minute, at most."""

    requests_per_minute: PositiveCount | None = Field(default=None, examples=[4000])
    tokens_per_minute: PositiveCount | None = Field(default=None, examples=["2M"])
    """Of input and output together."""
    input_tokens_per_minute: PositiveCount | None = Field(default=None, examples=["2M"])
    output_tokens_per_minute: PositiveCount | None = Field(default=None, examples=["400k"])
    cached_weight: Count | None = Field(default=None, examples=[0])
    """Input tokens that a cached one counts as: 1 by default, 0 where the provider does not count them."""
    peak: float | None = Field(default=None, ge=1, le=100, examples=[1.5])
    """The busiest minute of an hour over its mean. By default from the workload's variation and burstiness."""

    @model_validator(mode="after")
    def _limits_something(self) -> ApiLimitSpec:
        if not self.most:
            message, remedy = "limits nothing", "Add tokens_per_minute: 2M, or requests_per_minute: 4000"
            raise FieldProblem((), message, remedy)
        if (self.cached_weight or 0) > 1:
            raise FieldProblem(("cached_weight",), "is above 1", "A cached token counts as one or less")
        return self

    @property
    def most(self) -> dict[str, float]:
        """By what is counted."""
        given = {
            "requests": self.requests_per_minute,
            "tokens": self.tokens_per_minute,
            "input_tokens": self.input_tokens_per_minute,
            "output_tokens": self.output_tokens_per_minute,
        }
        return {kind: most for kind, most in given.items() if most is not None}
