"""Where a length lies among those that were measured, and what a table of highest rates says of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import log
from typing import Literal

from planner.catalog.profile import Profile

Basis = Literal["measured", "interpolated", "scaled"]
Place = tuple[float, float]

NEAR = 0.1
"""A length within so much of a measured one counts as measured."""
_TOUCHING = 1e-9


def basis_of(profile: Profile, input_tokens: float, output_tokens: float) -> Basis:
    """How close a request is to what was measured: at it, among it, or away from it."""
    lengths = {(p.input_tokens, p.output_tokens) for p in profile.points}
    lengths |= {(r.input_tokens, r.output_tokens) for r in profile.max_rates}
    if any(abs(input_tokens - a) <= NEAR * a and abs(output_tokens - b) <= NEAR * b for a, b in lengths):
        return "measured"
    hull = _hull([(log(a), log(b)) for a, b in lengths])
    return "interpolated" if _inside((log(input_tokens), log(output_tokens)), hull) else "scaled"


def max_rate(profile: Profile, input_tokens: float, output_tokens: float) -> float | None:
    """Requests/s of a length from the table of highest rates; None where it has none or was never that long.

    Between four entries the seconds per request are interpolated in the logarithms of both lengths. Shorter
    requests than any measured count as the shortest, and where a corner is missing, as the next longer entry.
    """
    table = {(r.input_tokens, r.output_tokens): 1 / r.requests_per_s for r in profile.max_rates}
    if not table:
        return None
    inputs, outputs = (sorted({key[axis] for key in table}) for axis in (0, 1))
    if input_tokens > inputs[-1] or output_tokens > outputs[-1]:
        return None
    lower_in, upper_in, share_in = _between(inputs, input_tokens)
    lower_out, upper_out, share_out = _between(outputs, output_tokens)
    corners = (
        ((lower_in, lower_out), (1 - share_in) * (1 - share_out)),
        ((upper_in, lower_out), share_in * (1 - share_out)),
        ((lower_in, upper_out), (1 - share_in) * share_out),
        ((upper_in, upper_out), share_in * share_out),
    )
    needed = [(corner, share) for corner, share in corners if share > 0]
    if all(corner in table for corner, _ in needed):
        return 1 / sum(share * table[corner] for corner, share in needed)
    longer = [seconds for (a, b), seconds in table.items() if a >= input_tokens and b >= output_tokens]
    return 1 / min(longer) if longer else None


def _between(grid: Sequence[float], value: float) -> tuple[float, float, float]:
    """The neighbours of a value on a grid, and how far between them it lies."""
    if value <= grid[0]:
        return grid[0], grid[0], 0.0
    k = min(bisect_right(grid, value) - 1, len(grid) - 1)
    if grid[k] == value:
        return grid[k], grid[k], 0.0
    return grid[k], grid[k + 1], log(value / grid[k]) / log(grid[k + 1] / grid[k])


def _hull(places: Sequence[Place]) -> list[Place]:
    """The convex hull, counter-clockwise; of points on a line, its two ends."""
    ordered = sorted(set(places))
    if len(ordered) < 3:
        return ordered
    halves = []
    for sequence in (ordered, ordered[::-1]):
        half: list[Place] = []
        for place in sequence:
            while len(half) >= 2 and _turn(half[-2], half[-1], place) <= _TOUCHING:
                half.pop()
            half.append(place)
        halves.append(half[:-1])
    return halves[0] + halves[1]


def _inside(place: Place, hull: Sequence[Place]) -> bool:
    if len(hull) < 3:
        return len(hull) == 2 and _on_segment(place, hull[0], hull[1])
    return all(_turn(a, b, place) >= -_TOUCHING for a, b in zip(hull, [*hull[1:], hull[0]], strict=True))


def _on_segment(place: Place, start: Place, end: Place) -> bool:
    within = all(min(a, b) - _TOUCHING <= x <= max(a, b) + _TOUCHING for x, a, b in zip(place, start, end, strict=True))
    return within and abs(_turn(start, end, place)) <= _TOUCHING


def _turn(a: Place, b: Place, c: Place) -> float:
    """Above 0 if the way from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
