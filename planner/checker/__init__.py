"""The independent check: does this plan hold, and are its figures true? It reads only the plan's JSON.

It shares no code with the optimizer (problems/, solvers/) nor with what writes the plan: rates, staffing, packing,
limits, money and every other figure are worked out again from the case with plain arithmetic. What a replica can do
comes from the performance model, asked anew, and why something is rejected from the screening of the menu. What nothing
can work out again is listed in remarks.py. An empty list means that the plan holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from planner.checker.alternatives import options_are_named, rejections_are_true
from planner.checker.binding import binding_limits_are_told, claims_are_honest
from planner.checker.costs import money_adds_up
from planner.checker.purchases import purchases_hold
from planner.checker.serving import pools_are_served
from planner.checker.structure import names_and_lengths_fit, plan_or_problems
from planner.checker.studies import studies_hold
from planner.plan.view import PlanView

__all__ = ["check_plan"]


def check_plan(plan: dict[str, Any], screened: bool = False) -> list[str]:
    """Everything that is wrong with a plan, in words; whatever is given, never an exception.

    The menu is screened again for the reasons against what cannot serve; who has just done so says `screened`.
    """
    return in_words(_problems(plan, screened))


def in_words(problems: Iterator[str]) -> list[str]:
    """Each problem on a line of its own, and last of all that of a plan that cannot be worked out to the end."""
    found: list[str] = []
    try:
        with np.errstate(all="ignore"):
            for problem in problems:
                found.append(_on_one_line(problem))
    except Exception as error:  # what cannot be worked out again is refused, whatever the reason
        found.append(_on_one_line(f"the plan cannot be worked out again: {type(error).__name__}: {error}"))
    return found


def _problems(data: dict[str, Any], screened: bool = False) -> Iterator[str]:
    plan = plan_or_problems(data)
    if isinstance(plan, list):
        yield from plan
        return
    if plan.case_hash != plan.case.hash():
        yield "the case inside is not the one that was planned (its hash differs)"
    unusable = [*names_and_lengths_fit(plan)]
    yield from unusable
    if unusable:
        return
    facts = PlanView(plan)
    yield from pools_are_served(facts)
    yield from purchases_hold(facts)
    yield from money_adds_up(facts)
    yield from binding_limits_are_told(facts)
    yield from claims_are_honest(facts)
    yield from options_are_named(facts)
    yield from studies_hold(facts)
    if not screened:
        yield from rejections_are_true(facts)


def _on_one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
