"""How tests tamper with a plan: one place changed at a time, whatever is there."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from itertools import islice
from random import Random
from typing import Any

import planner
from planner.case.case import case_from_json
from planner.checker.figures import in_words
from planner.checker.horizon import horizon_problems
from planner.checker.one_block import block_problems
from planner.checker.remarks import REMARKS
from planner.plan.saved import has_quarters

Json = dict[str, Any]
Place = tuple[str | int, ...]
Kinds = dict[str, list[Place]]
DROPPED = object()
"""stands for an entry of a list that is taken out"""
SMALLEST = 1e-6
"""figures below this are rounding; changes of a smaller share than this are too"""
WORDS = (
    ("optimal", "within-gap", "feasible", "interrupted"), ("weekday", "weekend"), ("expected", "worst-case"),
    ("unable", "dominated", "too much of a pool"), ("tensor", "expert", "data"), ("self-hosted", "api"),
    ("baseline", "compared", "same model"), ("time-limit", "interrupted"), ("options", "if_throughput_is_off"),
)  # fmt: skip
"""words that a place may have"""


def rehashed(plan: Json) -> None:
    plan["case_hash"] = case_from_json(plan["case"]).hash()


def places(node: Any, above: Place = ()) -> Iterator[Place]:
    """Every place in the JSON, inner ones too."""
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for step, value in inside:
        yield (*above, step)
        yield from places(value, (*above, step))


def kind_of(place: Place) -> str:
    """Places that differ only in the entry of a list are of one kind, such as fleet.*.usd_per_h."""
    return ".".join("*" if isinstance(step, int) else step for step in place)


def kinds_of(node: Any) -> Kinds:
    kinds: Kinds = {}
    for place in places(node):
        kinds.setdefault(kind_of(place), []).append(place)
    return kinds


def of_each_kind(node: Any, most: int) -> list[Place]:
    """Some places of each kind."""
    return [p for some in kinds_of(node).values() for p in Random(0).sample(some, min(most, len(some)))]


def holder(plan: Any, place: Place) -> Any:
    for step in place[:-1]:
        plan = plan[step]
    return plan


def value_at(plan: Any, place: Place) -> Any:
    return holder(plan, place)[place[-1]]


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


def changes(value: Any, others: list[Any]) -> Iterator[Any]:
    """Other values of the same type: a little more and less, another day or name, one that stands elsewhere."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1)
    elif isinstance(value, float):
        yield from (value * 1.01, value * 0.99) if abs(value) > SMALLEST else (0.01,)
        if abs(value) < 0.1 / SMALLEST:
            yield value + 1
    elif isinstance(value, str):
        yield _next_day(value) or value + "x"
        yield from (word for words in WORDS if value in words for word in words if word != value)
    yield from islice((x for x in others if type(x) is type(value) and not _same(x, value)), 1)
    if value is not None:
        yield None


def _same(a: Any, b: Any) -> bool:
    return math.isclose(a, b, rel_tol=SMALLEST, abs_tol=SMALLEST) if isinstance(a, float) else a == b


def _next_day(text: str) -> str | None:
    try:
        return (date.fromisoformat(text) + timedelta(days=1)).isoformat()
    except ValueError:
        return None


def with_value(plan: Json, place: Place, value: Any) -> Json:
    """A copy that differs at one place; what is not on the way there is not copied."""
    top = dict(plan)
    node: Any = top
    for step in place[:-1]:
        node[step] = copy.copy(node[step])
        node = node[step]
    if value is DROPPED:
        del node[place[-1]]
    else:
        node[place[-1]] = value
    return top


def tampered(plan: Json, of_a_kind: int | None, skipped: tuple[str, ...] = ()) -> Iterator[tuple[Place, Json]]:
    """Every single change of a plan: some leaves of each kind, or all of them, and entries that are taken out."""
    for kind, found in kinds_of({key: value for key, value in plan.items() if key not in skipped}).items():
        some = found if of_a_kind is None else Random(kind).sample(found, min(of_a_kind, len(found)))
        others = [x for p in islice(found, 50) if not isinstance(x := value_at(plan, p), dict | list)]
        for place in some:
            value = value_at(plan, place)
            if not isinstance(value, dict | list):
                yield from ((place, with_value(plan, place, new)) for new in changes(value, others))
            if isinstance(place[-1], int):
                yield place, with_value(plan, place, DROPPED)


def is_refused(plan: Any) -> bool:
    """Whether the checker says anything; it need not say everything."""
    problems: Callable[[Any], Iterator[str]] = horizon_problems if has_quarters(plan) else block_problems
    return bool(in_words(islice(problems(plan), 1)))


def unseen(plan: Json, of_a_kind: int | None, skipped: tuple[str, ...] = ()) -> Iterator[tuple[Place, Json]]:
    """Changes that the checker passes."""
    return ((place, lie) for place, lie in tampered(plan, of_a_kind, skipped) if not is_refused(lie))


def is_a_remark(place: Place) -> bool:
    return any(remark.covers(kind_of(place)) for remark in REMARKS)


def passes_unlisted(plan: Json, of_a_kind: int, skipped: tuple[str, ...] = ("case",)) -> set[str]:
    """Kinds of leaves that can be changed unnoticed, and are no remarks; the case is guarded by its hash."""
    return {kind_of(place) for place, _ in unseen(plan, of_a_kind, skipped) if not is_a_remark(place)}


def refused_with(words: str, plan: Json) -> None:
    problems = planner.check_plan(plan)
    assert any(words in problem for problem in problems), problems
    assert all(problem and problem.isprintable() for problem in problems)
