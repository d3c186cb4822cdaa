"""What a rule of judgement finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from planner.plan.plan import Plan


@dataclass(frozen=True)
class Concern:
    """One thing that a plan rests on, or that is unusual about it."""

    key: str
    """of the rule; what docs and tests call it"""
    usd_per_month: float
    """at stake; concerns are ranked by it"""
    sentence: str
    """what it is, with its figures, for the first screen"""
    remedy: str
    """what to do about it"""
    stops_signing: bool = False
    """whether nothing should be signed before it is settled"""


Rule = Callable[[Plan], Iterator[Concern]]
