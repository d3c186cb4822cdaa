"""Parameter counts that were published, in a model's name or by whoever asks, against those computed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from planner.io.errors import Problem, input_error, shown
from planner.io.units import parse_count

TOLERANCE_FRAC = 0.05
_ACTIVE_AND_EXPERTS = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?)b-\d+e(?![a-z0-9])")
_ACTIVE = re.compile(r"(?i)[-_]a(\d+(?:\.\d+)?)b(?![a-z0-9])")
_TOTAL = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?)([bmt])(?![a-z0-9])")
_UNITS_B = {"m": 1e-3, "b": 1.0, "t": 1e3}


@dataclass(frozen=True)
class NamedCounts:
    """What a name says, in units of 10^9."""

    total_b: float | None = None
    active_b: float | None = None
    active_step_b: float = 1.0
    """what the last digit of the active count stands for"""


def parse_parameters(value: object) -> float:
    """A number of parameters with its unit, such as "70.6B"."""
    count = parse_count(value)
    if count < 1e6:
        raise Problem(f"expected a number of parameters, got {shown(value)}", 'Write one such as "70.6B" or "1.04T"')
    return count


def named_counts(name: str) -> NamedCounts:
    """ "-70B" is all parameters, "-30B-A3B" all and active ones, "-17B-16E" active ones and experts."""
    name = name.rsplit("/", 1)[-1]
    if match := _ACTIVE_AND_EXPERTS.search(name):
        return NamedCounts(active_b=float(match[1]), active_step_b=_step(match[1]))
    total = _TOTAL.search(name)
    active = _ACTIVE.search(name)
    return NamedCounts(
        float(total[1]) * _UNITS_B[total[2].lower()] if total else None,
        float(active[1]) if active else None,
        _step(active[1]) if active else 1.0,
    )


def doubts(name: str, total_b: float, active_b: float, vocabulary_b: float) -> list[str]:
    """Where the name disagrees with what was computed by more than 5%.

    Published active counts are rounded, and some leave the embedding and the output layer out.
    """
    said = named_counts(name)
    found = []
    if said.total_b is not None and abs(total_b / said.total_b - 1) > TOLERANCE_FRAC:
        found.append(_disagree("parameters", total_b, said.total_b))
    if said.active_b is not None:
        allowed = max(TOLERANCE_FRAC * said.active_b, said.active_step_b / 2)
        if not -allowed <= active_b - said.active_b <= allowed + vocabulary_b:
            found.append(_disagree("active parameters", active_b, said.active_b))
    return found


def check_published(published_b: float | None, total_b: float) -> None:
    """Refuse an entry whose weights are more than 5% off what was published."""
    if published_b is not None and abs(total_b / published_b - 1) > TOLERANCE_FRAC:
        off = f"{total_b / published_b - 1:+.1%} from {published_b:g}B"
        message = f"the shapes of the config come to {total_b:,.2f}B, {off}"
        raise input_error("--parameters", message, "Check the config, or leave --parameters out to take its count")


def _disagree(what: str, computed_b: float, said_b: float) -> str:
    return f"the name says {said_b:g}B {what}, the shapes of the config come to {computed_b:,.2f}B: check the config"


def _step(digits: str) -> float:
    return float(10 ** -len(digits.partition(".")[2]))
