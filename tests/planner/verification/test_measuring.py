"""Latencies held against promises: what is counted, and that a percentile and a share tell the same."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba", reason="the simulator is compiled by numba: install fleetplan[verify]")

from planner.reports.verification import seconds
from planner.verification.arrivals import HOURS
from planner.verification.engine import REFUSED, SERVED, SHED, UNFINISHED
from planner.verification.measuring import EDGES, Ended, Tally
from planner.verification.records import WorkloadServed
from tests.support.lever_plans import lever_plan

STEP = EDGES[1] / EDGES[0]


def measured(
    ttft: np.ndarray, tpot: np.ndarray, output: np.ndarray, state: np.ndarray, parts: int = 1
) -> WorkloadServed:
    """Requests over a week with these latencies, all of them sent to GPUs, added up part by part."""
    n = len(ttft)
    arrival = np.linspace(0, 3600.0 * HOURS, n, endpoint=False)
    ones, everyone = np.ones(n), np.ones(n, dtype=bool)
    tally = Tally(lever_plan("together").case.workloads[0])
    first = np.where(state == SERVED, arrival + ttft, -1.0)
    last = np.where(state == SERVED, first + (output - 1) * tpot, -1.0)
    never = np.zeros(n, dtype=np.int32)
    those = Ended(arrival, arrival, 10 * ones, output, everyone, ~everyone, state, first, last, never, 4 * ones)
    for k in np.array_split(np.arange(n), parts):
        tally.add(Ended(*(column[k] for column in those)))
    return tally.result()


def test_every_request_is_counted_once_and_in_parts_as_in_one() -> None:
    rng, n = np.random.default_rng(1), 5000
    state = rng.choice([SERVED, REFUSED, SHED, UNFINISHED], n, p=[0.7, 0.1, 0.1, 0.1]).astype(np.int8)
    drawn = rng.lognormal(-1, 1, n), rng.lognormal(-3, 0.5, n), rng.integers(1, 50, n), state
    whole = measured(*drawn)
    assert (whole.served, whole.refused, whole.shed, whole.unfinished) == tuple(np.bincount(state, minlength=4))
    assert whole.requests == n and whole.found_frac == pytest.approx(0.4)
    assert measured(*drawn, parts=7) == whole
    served = state == SERVED
    for shown, exact in ((whole.ttft, drawn[0][served]), (whole.tpot, drawn[1][served & (drawn[2] > 1)])):
        assert shown is not None
        low = np.percentile(exact, [50, 95, 99])
        assert [shown.p50_s, shown.p95_s, shown.p99_s] == pytest.approx(low, rel=2 * (STEP - 1))


@pytest.mark.parametrize("missing", [0.0, 0.02, 0.049, 0.06])
@pytest.mark.parametrize("single", [0.0, 0.6])
def test_the_latency_at_the_percentile_keeps_the_target_where_the_promise_is_kept(
    missing: float, single: float
) -> None:
    """Requests that got no answer are slower than any; answers of one token have no time between tokens."""
    rng, n = np.random.default_rng(2), 4000
    state = np.where(rng.random(n) < missing, UNFINISHED, SERVED).astype(np.int8)
    output = np.where(rng.random(n) < single, 1, 30)
    seen = set()
    for scale in (0.05, 0.2, 0.35, 0.5, 1.0, 3.0):
        result = measured(scale * rng.lognormal(0, 1, n), 0.05 * scale * rng.lognormal(0, 1, n), output, state)
        for p in result.promises:
            if p.at_percentile_s is None:
                assert not p.kept and missing > 1 - p.percentile
            elif p.kept:
                assert p.at_percentile_s <= p.target_s * STEP
            else:
                assert p.at_percentile_s >= p.target_s / STEP
            seen.add(p.kept)
    assert seen == ({False} if missing > 0.05 else {False, True})


def test_an_hour_in_which_nothing_is_answered_has_no_percentile() -> None:
    n = 100 * HOURS
    state = np.full(n, SERVED, dtype=np.int8)
    state[700:800] = UNFINISHED
    result = measured(np.full(n, 0.1), np.full(n, 0.01), np.full(n, 5), state)
    promise = result.promises[0]
    assert promise.at_percentile_by_hour_s[7] is None and promise.at_percentile_by_hour_s[8] is not None
    assert (promise.worst_hour, promise.worst_frac, promise.bad_hours) == (7, 0.0, 1)
    assert promise.bad_hours_of_days == (7,)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0213, "21.3 ms"), (0.99999, "1 s"), (1.5, "1.5 s"), (1800.0, "1,800 s"), (3600.0, "1 h"), (5400.0, "1.5 h")],
)
def test_seconds_are_written_without_powers_of_ten(value: float, shown: str) -> None:
    assert seconds(value) == shown
