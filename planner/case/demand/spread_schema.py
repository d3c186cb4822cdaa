"""Lengths as people write them in a demand file."""

from __future__ import annotations

from typing import Any

from pydantic import GetJsonSchemaHandler, TypeAdapter, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from planner.io.units import PositiveCount, parse_positive_count
from planner.io.validation import FieldProblem, Strict
from planner.performance.length_spread import LengthSpread, least_mean

MOST_TOKENS = 1e8
MOST_TAIL = 10.0
"""times p95 that a mean may be: beyond that, a few requests are nearly all of the tokens"""


class Spread(Strict):
    """Lengths given by two percentiles (a log-normal is fitted to them), or one number for all requests."""

    p50: PositiveCount
    p95: PositiveCount
    mean: PositiveCount | None = None
    """The mean, if you know it: a log-normal overstates the mean of many prompts."""

    @model_validator(mode="before")
    @classmethod
    def _one_number(cls, value: Any) -> Any:
        if isinstance(value, dict | list | None):
            return value
        number = parse_positive_count(value)
        return {"p50": number, "p95": number}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [TypeAdapter(PositiveCount).json_schema(), handler(core_schema)]}

    @model_validator(mode="after")
    def _in_order(self) -> Spread:
        if self.p95 < self.p50:
            raise FieldProblem(("p95",), "is below p50", "Write the larger number at p95")
        if self.p95 > MOST_TOKENS:
            raise FieldProblem(("p95",), "is above 100 million tokens", "Check the number and its suffix")
        if self.p95 > 200 * self.p50:
            raise FieldProblem(("p95",), "is over 200 times p50", "Split such a workload into two")
        if self.mean is not None:
            self._mean_is_possible(self.mean)
        return self

    def _mean_is_possible(self, mean: float) -> None:
        spread = LengthSpread(p50=self.p50, p95=self.p95)
        least, most = (self.p50, self.p50) if self.p95 == self.p50 else (least_mean(spread), MOST_TAIL * self.p95)
        if not least * (1 - 1e-9) <= mean <= most * (1 + 1e-9):
            message = f"is not between {least:,.0f} and {most:,.0f}, which p50 and p95 allow"
            raise FieldProblem(("mean",), message, "Check the three numbers, or leave the mean out")
