"""Seconds where milliseconds are usual: found by arithmetic that only one reading of the numbers survives.

    a token takes between 0.1 ms and a minute, a first token at least 1 ms
    E2E = TTFT + (output - 1) x TPOT                              [within a factor of 2: these are means]
    requests in flight = requests/s x E2E                         [at most the concurrency allowed]

A unit mistaken is a factor of 1000, so the tolerances can be wide and still decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from planner.complaints import listed
from planner.results.points import BenchPoint

LEAST_TPOT_MS, MOST_TPOT_MS, LEAST_TTFT_MS = 0.1, 60_000.0, 1.0
E2E_FACTOR = 2.0
IN_FLIGHT_ABOVE, IN_FLIGHT_BELOW = 1.5, 0.02
RATE_TOLERANCE = 0.2
LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")


@dataclass(frozen=True)
class Settled:
    """A point in ms, or why it cannot be one."""

    point: BenchPoint
    problem: str = ""
    remedy: str = ""


def settled(point: BenchPoint) -> Settled:
    """The point as it must have been meant; a conversion is noted, a contradiction is a problem."""
    rates = _rates_disagree(point)
    if rates:
        return Settled(point, rates, "Give output tokens only, or check the lengths")
    wrong = _contradiction(point)
    if not wrong:
        return Settled(point)
    for readings in _readings():
        fitting = {other for other in (_read_as(point, reading) for reading in readings) if not _contradiction(other)}
        if len(fitting) == 1:
            meant = fitting.pop()
            return Settled(replace(meant, notes=(*point.notes, _note(point, meant, wrong))))
    return Settled(point, wrong, "Check the units; TTFT, TPOT and E2E are read in ms")


def _readings() -> Iterator[list[dict[str, float]]]:
    """Other readings, the likely ones first: all latencies in another unit, then one of them, then two."""
    yield [dict.fromkeys(LATENCIES, 1e3)]
    yield [dict.fromkeys(LATENCIES, 1e-3)]
    for many in (1, 2):
        yield [dict.fromkeys(names, factor) for names in combinations(LATENCIES, many) for factor in (1e3, 1e-3)]


def _read_as(point: BenchPoint, factors: dict[str, float]) -> BenchPoint:
    return replace(point, **{name: getattr(point, name).times(factor) for name, factor in factors.items()})


def _rates_disagree(point: BenchPoint) -> str:
    if point.requests_per_s is None or point.output_tok_s is None:
        return ""
    expected = point.requests_per_s * point.output_tokens
    if abs(point.output_tok_s / expected - 1) <= RATE_TOLERANCE:
        return ""
    return (
        f"{point.requests_per_s:.4g} requests/s x {point.output_tokens:.4g} tokens are {expected:.4g} tok/s; "
        f"the file says {point.output_tok_s:.4g}"
    )


def _contradiction(point: BenchPoint) -> str:
    """The first thing that cannot be, with its arithmetic; empty if nothing is wrong."""
    ttft, tpot, e2e = point.ttft_ms.typical, point.tpot_ms.typical, point.e2e_ms.typical
    if tpot is not None and not LEAST_TPOT_MS <= tpot <= MOST_TPOT_MS:
        return f"a TPOT of {tpot:.3g} ms cannot be"
    if ttft is not None and ttft < LEAST_TTFT_MS:
        return f"a TTFT of {ttft:.3g} ms cannot be"
    if ttft is not None and e2e is not None and ttft > e2e * E2E_FACTOR:
        return f"a TTFT of {ttft:.4g} ms is longer than the whole request ({e2e:.4g} ms)"
    total = None if tpot is None else (ttft or 0.0) + (point.output_tokens - 1) * tpot
    if total is not None and e2e is not None and not total / E2E_FACTOR <= e2e <= total * _slack(ttft):
        first = "" if ttft is None else f"{ttft:.4g} + "
        return f"{first}{point.output_tokens - 1:.4g} x {tpot:.4g} are {total:.4g} ms; the file says {e2e:.4g}"
    return _in_flight_contradiction(point, e2e if e2e is not None else total)


def _slack(ttft: float | None) -> float:
    """Without TTFT the sum is only a part of E2E, which may then be far longer."""
    return E2E_FACTOR if ttft is not None else 100.0


def _in_flight_contradiction(point: BenchPoint, e2e_ms: float | None) -> str:
    rate = point.requests_per_s or (point.output_tok_s / point.output_tokens if point.output_tok_s else None)
    if e2e_ms is None or rate is None:
        return ""
    allowed = point.concurrency or point.n_requests
    in_flight = rate * e2e_ms / 1e3
    sum_in_words = f"{rate:.4g} requests/s x {e2e_ms / 1e3:.4g} s are {in_flight:.3g} requests in flight"
    if allowed is not None and in_flight > allowed * IN_FLIGHT_ABOVE:
        return f"{sum_in_words}; the file says {allowed:g}"
    # With a request rate the concurrency is a cap that need not be reached.
    if point.concurrency and point.request_rate_per_s is None and in_flight < point.concurrency * IN_FLIGHT_BELOW:
        return f"{sum_in_words}; the file says {point.concurrency:g}"
    return ""


def _note(before: BenchPoint, after: BenchPoint, why: str) -> str:
    changed = [name for name in LATENCIES if getattr(before, name) != getattr(after, name)]
    longer = any((getattr(after, n).typical or 0) > (getattr(before, n).typical or 0) for n in changed)
    names = listed([name.removesuffix("_ms").upper() for name in changed], "and")
    return f"{names} taken as {'seconds' if longer else 'microseconds'} and converted to ms: {why}"
