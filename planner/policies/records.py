"""What checking a plan against a policy comes to, as data. Versioned JSON: keys are added, never changed."""

from __future__ import annotations

from typing import Any, Literal

from planner.validation import Strict

CHECK_FORMAT = "fleetplan-check/1"
Unit = Literal["usd_per_month", "usd", "usd_per_1m_tokens", "frac", "days", "names"]


class Rule(Strict):
    """One rule, judged."""

    rule: str
    """its key in the policy"""
    said: str
    """what is looked at"""
    passed: bool
    value: float | tuple[str, ...] | None
    """None where there is nothing that it could be taken of"""
    limit: float | tuple[str, ...]
    at_least: bool = False
    """whether the limit is the least that will do, not the most"""
    unit: Unit
    detail: str = ""


class Check(Strict):
    format: str = CHECK_FORMAT
    plan: str
    against: str | None
    as_of: str | None
    """the day on which the age of prices is taken; None where no rule asks for it"""
    as_of_is_today: bool
    """because nobody gave a day"""
    passed: bool
    rules: tuple[Rule, ...]

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")
