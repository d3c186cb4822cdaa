"""Latencies held against promises: what is counted, and that a percentile and a share tell the same."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba", reason="the simulator is compiled by numba: install fleetplan[verify]")

from planner.reports.tables.verification import seconds
from planner.verification.arrivals import HOURS
from planner.verification.measuring import EDGES, FEWEST, Ended, PoolHours, Tally, clearly_missed, missed_hour
from planner.verification.records import WorkloadServed
from planner.verification.sampling import Measured
from planner.verification.steps import REFUSED, SERVED, SHED, UNFINISHED
from tests.support.lever_plans import lever_plan
from tests.support.rows import for_each

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


@for_each("missing", [0.0, 0.02, 0.049, 0.06])
@for_each("single", [0.0, 0.6])
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


def test_chance_alone_makes_about_one_hour_in_twenty_miss_at_most() -> None:
    """The number of late requests that is a miss, against the binomial law itself."""
    for percentile in (0.5, 0.9, 0.95, 0.99):
        for n in (20, 21, 35, 60, 100, 250, 1000, 5000):
            missed = clearly_missed(np.arange(n + 1.0), np.full(n + 1, float(n)), percentile)
            logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
            k = np.arange(n + 1)
            chance = np.exp(logs[n] - logs[k] - logs[n - k] + k * np.log(percentile) + (n - k) * np.log(1 - percentile))
            assert chance[missed].sum() < 0.065, (percentile, n)
            just = chance[: int(missed.sum()) + 1].sum()  # with one late request fewer it is no miss
            assert just > 0.04, (percentile, n)


def test_an_hour_with_a_handful_of_requests_is_not_judged() -> None:
    assert not clearly_missed(np.zeros(FEWEST), np.arange(FEWEST), 0.95).any()
    assert clearly_missed(np.array([16.0, 17.0, 19.0]), np.full(3, 20.0), 0.95).tolist() == [True, False, False]


def test_a_promise_is_kept_over_the_run_and_by_the_hour() -> None:
    """A fifth of the hours miss clearly while 97% of all requests are in time."""
    n = 100 * HOURS
    hour = np.arange(n) // 100
    late = (hour % 5 == 0) & (np.arange(n) % 100 < 15)
    result = measured(np.where(late, 99.0, 0.1), np.full(n, 0.01), np.full(n, 5), np.full(n, SERVED, dtype=np.int8))
    promise = result.promises[0]
    assert promise.within_frac == pytest.approx(0.97, abs=0.001)
    assert (promise.hours_judged, promise.bad_hours) == (HOURS, 34)
    assert promise.hours_kept_frac == promise.hours_low_frac == pytest.approx(1 - 34 / HOURS)
    assert not promise.kept and not promise.kept_by_the_hour and not promise.is_open
    assert promise.model_copy(update={"hours_promised_frac": 0.75}).kept
    assert {h.hour for h in promise.missed_hours} == set(range(0, HOURS, 5))
    assert promise.bad_hours_of_days


def test_hours_of_a_sample_count_for_what_they_stand_for() -> None:
    """One of four hours misses, and stands for a tenth of the hours only."""
    tally = Tally(lever_plan("together").case.workloads[0])
    arrival = np.concatenate([3600.0 * h + np.linspace(0, 3599, 200) for h in range(4)])
    n = len(arrival)
    ttft, ones, everyone = np.where(arrival < 3600, 99.0, 0.1), np.ones(n), np.ones(n, dtype=bool)
    tally.add(Ended(
        arrival, arrival, 10 * ones, 1 + 0 * np.arange(n), everyone, ~everyone, np.full(n, SERVED, dtype=np.int8),
        arrival + ttft, arrival + ttft, np.zeros(n, dtype=np.int32), ones,
    ))  # fmt: skip
    weights, strata = np.zeros(HOURS), np.full(HOURS, -1)
    weights[:4], strata[:40] = (4.0, 12.0, 12.0, 12.0), np.repeat([0, 1, 0, 1], [1, 3, 3, 33])
    promise = tally.result(Measured(weights, strata, sampled=True)).promises[0]
    assert promise.hours_kept_frac == pytest.approx(0.9)
    assert promise.hours_low_frac is not None and promise.hours_low_frac < 0.9 < (promise.hours_high_frac or 0)
    assert (promise.bad_hours, promise.hours_judged) == (1, 4)


def pool_hours(**seen: float) -> PoolHours:
    usual = {
        "requests": 1000.0, "planned_requests": 1000.0, "replicas": 2.0, "planned_replicas": 2.0, "busy_s": 3000.0,
        "waiting": 0.0,
    }  # fmt: skip
    return PoolHours(**{name: np.full(HOURS, x) for name, x in (usual | seen).items()})


@for_each(
    ("seen", "reason"),
    [
        ({"replicas": 1.5, "busy_s": 5000.0}, "fewer replicas than planned"),
        ({"waiting": 300.0}, "work was left over"),
        ({"requests": 1200.0}, "more requests than planned"),
        ({"requests": 1060.0}, "requests are slow by themselves"),
        ({"busy_s": 7000.0}, "replicas were busy"),
        ({}, "requests are slow by themselves"),
    ],
)
def test_a_missed_hour_has_its_reason(seen: dict[str, float], reason: str) -> None:
    owed, good = np.full(60, 10.0), np.full(60, 8.0)
    hour = missed_hour(5, good, owed, 0.0, pool_hours(**seen))
    assert (hour.reason, hour.requests, hour.hour) == (reason, 600, 5)
    assert hour.within_frac == pytest.approx(0.8)


def test_bursts_and_preemptions_are_reasons() -> None:
    owed, good = np.full(60, 10.0), np.full(60, 10.0)
    owed[:10], good[:10] = 60, 20
    hour = missed_hour(5, good, owed, 0.0, pool_hours())
    assert hour.reason == "bursts" and hour.busiest_minutes_ratio > 2
    assert missed_hour(5, good, owed, 200.0, pool_hours()).reason == "KV memory ran out"


@for_each(
    ("value", "shown"),
    [(0.0213, "21.3 ms"), (0.99999, "1 s"), (1.5, "1.5 s"), (1800.0, "1,800 s"), (3600.0, "1 h"), (5400.0, "1.5 h")],
)
def test_seconds_are_written_without_powers_of_ten(value: float, shown: str) -> None:
    assert seconds(value) == shown
