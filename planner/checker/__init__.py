"""The independent check: are the figures of a plan true, and does it hold? It reads only the plan's JSON.

Figures follow from the case and from what was decided: the account works them out again, and every leaf that differs is
refused. Whether the plan holds is for the rules of this room: rates, staffing, packing, routes, limits and promises, in
plain arithmetic, which share no code with the rules of the optimizer (problems/, solvers/). What a replica can do comes
from the performance model, asked anew, and why something is rejected from the screening of the menu. What nothing can
work out again is listed in remarks.py. An empty list means that the plan holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from planner.checker.alternatives import options_are_named, rejections_are_true
from planner.checker.checked import Checked
from planner.checker.claims import claims_are_honest
from planner.checker.deployment import deployments_are_allowed
from planner.checker.figures import figures_that_differ
from planner.checker.limits import limits_hold
from planner.checker.purchases import purchases_hold
from planner.checker.serving import pools_are_served
from planner.checker.structure import names_and_lengths_fit, plan_or_problems
from planner.checker.studies import studies_hold
from planner.plan.account import account_of
from planner.plan.account.figures import worked_out_again

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
    account = account_of(plan)
    yield from deployments_are_allowed(account)
    true = worked_out_again(plan, account)
    yield from figures_that_differ(_without_its_case(plan.as_json()), _without_its_case(true.as_json()))
    checked = Checked(true, account)
    yield from pools_are_served(checked)
    yield from purchases_hold(checked)
    yield from limits_hold(checked)
    yield from claims_are_honest(checked)
    yield from options_are_named(checked)
    yield from studies_hold(checked)
    if not screened:
        yield from rejections_are_true(checked)


def _without_its_case(plan: dict[str, Any]) -> dict[str, Any]:
    """The case is guarded by its hash."""
    return {key: value for key, value in plan.items() if key != "case"}


def _on_one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
