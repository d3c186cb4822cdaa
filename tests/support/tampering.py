"""How tests tamper with a plan: one place changed at a time, whatever is there."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

import planner
from planner.case.case import case_from_json
from planner.checker import _problems, in_words

Json = dict[str, Any]
Place = tuple[str | int, ...]
FREE = ("case", "options", "rejected", "proof", "fleetplan_version", "name")
"""the case is guarded by its hash; the others are no figures of the plan, or have lies of their own"""
SEARCHED = ("low_usd_per_month", "high_usd_per_month")
"""ends of the range of costs: each is a search of its own, which arithmetic cannot repeat"""


def rehashed(plan: Json) -> None:
    plan["case_hash"] = case_from_json(plan["case"]).hash()


def places(node: Any, above: Place = ()) -> Iterator[Place]:
    """Every place in the JSON, inner ones too."""
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for step, value in inside:
        yield (*above, step)
        yield from places(value, (*above, step))


def of_each_kind(node: Any, most: int) -> list[Place]:
    """Some places of each kind: those that differ only in the entry of a list are of one kind."""
    kinds: dict[Place, list[Place]] = {}
    for place in places(node):
        kinds.setdefault(tuple("*" if isinstance(step, int) else step for step in place), []).append(place)
    return [p for some in kinds.values() for p in Random(0).sample(some, min(most, len(some)))]


def holder(plan: Any, place: Place) -> Any:
    for step in place[:-1]:
        plan = plan[step]
    return plan


def changed(value: Any) -> Any:
    if value is None:
        return 1.03
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, int):
        return value + max(1, round(0.03 * value))
    # 3% of what rounding left of a zero, such as the gap of an optimal plan, would be nothing.
    return value * 1.03 if abs(value) > 1e-9 else value + 0.03


def with_value(plan: Json, place: Place, value: Any) -> Json:
    """A copy that differs at one place; what is not on the way there is not copied."""
    top = dict(plan)
    node: Any = top
    for step in place[:-1]:
        node[step] = copy.copy(node[step])
        node = node[step]
    node[place[-1]] = value
    return top


def leaves_changed_unseen(plan: Json, of_a_kind: int) -> list[Place]:
    """Places where a changed figure goes unnoticed."""
    unseen = []
    for place in of_each_kind({k: v for k, v in plan.items() if k not in FREE}, of_a_kind):
        value = holder(plan, place)[place[-1]]
        if isinstance(value, dict | list) or place[-1] in ("label", *SEARCHED):
            continue
        if not is_refused(with_value(plan, place, changed(value))):
            unseen.append(place)
    return unseen


def is_refused(plan: Any) -> bool:
    """Whether `check_plan` says anything; it need not say everything."""
    return bool(in_words(islice(_problems(plan), 1)))


def refused_with(words: str, plan: Json) -> None:
    problems = planner.check_plan(plan)
    assert any(words in problem for problem in problems), problems
    assert all(problem and problem.isprintable() for problem in problems)
