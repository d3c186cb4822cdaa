"""What is recorded of the simplest plan near the cheapest one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import Field

from planner.io.validation import Strict


class Reduction(Strict):
    """One kind of complication, cut down as far as can be."""

    without: tuple[str, ...]
    """as people call it; where one of several has to go, the program decides which"""
    saves_usd_per_month: float | None
    """of having it, beside the plan as it was simplified before; None: no plan without was found"""
    done: bool
    """whether the simplest plan does without"""


class Simpler(Strict):
    within_frac: float = Field(ge=0)
    """of the optimum's cost that simplicity may take"""
    cost_usd_per_month: float
    """of the simplest plan, penalties included: that of the optimum where nothing could be cut"""
    bound_usd_per_month: float
    """no plan under its limits has a lower cost + penalty"""
    reductions: tuple[Reduction, ...]
    chosen: bool
    """whether this plan is the simplest one"""


@dataclass(frozen=True)
class Tried:
    """A reduction beside the plan that was made."""

    without: tuple[str, ...]
    more_usd: float | None
    """a month at most, with all that was cut before; None: no such plan was found"""
    after: bool
    """whether something else was cut before"""
    done: bool


def reductions_of(found: Simpler | None) -> Iterator[Tried]:
    """What was cut, and what each comes to beside the plan itself."""
    before = 0.0
    for r in found.reductions if found else ():
        more = None if r.saves_usd_per_month is None else max(0.0, before + r.saves_usd_per_month)
        yield Tried(r.without, more, before > 0, r.done)
        if r.done:
            before += r.saves_usd_per_month or 0.0
