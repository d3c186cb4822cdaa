"""The staffing rule: the formula, its inverse, and a simulation of the system it describes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from problems.staffing import CAUTION, MOST_REPLICAS, Routing, Staffing, carries_no_less, staffing_z
from tests.support.rows import for_each

loads = st.floats(0.001, 2000)
staffings = st.builds(
    Staffing,
    z=st.floats(0, 4),
    arrival_scv=st.floats(0, 20),
    rate_cv=st.floats(0, 1.5),
    batch=st.floats(1, 512),
    min_replicas=st.integers(1, 4),
    max_utilization=st.sampled_from([1.0, 0.7, 0.1]),
    routing=st.none()
    | st.builds(Routing, exponent=st.floats(0, 0.6), prompt_share=st.floats(0.05, 1), burst_room=st.floats(0.5, 1)),
)
seeded = settings(derandomize=True, deadline=None, max_examples=200)


def replicas(staffing: Staffing, load: float) -> int:
    return int(staffing.replicas(np.array([load]))[0])


def carried(staffing: Staffing, n: int) -> float:
    return float(staffing.carried_load(np.array([n]))[0])


def test_margin_by_hand() -> None:
    # R = 5, B = 64, c2 = 4: arrivals give 5 x 5 / 128; of a rate that varies by 10%, sigma = 0.09975, so two standard
    # deviations by requests are exp(0.1995 + 0.004975) - 1 = 0.22689 above the mean, of 5.
    staffing = Staffing(z=2.0, arrival_scv=4.0, rate_cv=0.1, batch=64.0, min_replicas=1)
    assert staffing.margin(np.array([5.0]))[0] == pytest.approx(math.sqrt(4 * 25 / 128 + (5 * 0.22689) ** 2), rel=1e-4)


def test_replicas_by_hand() -> None:
    staffing = Staffing(z=1.0, arrival_scv=1.0, rate_cv=0.0, batch=1.0, min_replicas=3)
    # 4 + sqrt(4) = 6 exactly; 9 + 3 = 12 and a little more is 13; 0.25 + 0.5 is below the minimum.
    assert staffing.replicas(np.array([4.0, 9.0, 9.001, 0.25, 0.0])).tolist() == [6, 12, 13, 3, 0]


@seeded
@given(staffings)
def test_no_load_needs_no_replicas(staffing: Staffing) -> None:
    assert replicas(staffing, 0.0) == 0
    assert carried(staffing, 0) == 0.0


@seeded
@given(staffings, st.integers(1, 2000))
def test_carried_load_is_the_inverse(staffing: Staffing, n: int) -> None:
    if n < staffing.min_replicas:
        assert carried(staffing, n) == 0.0
        return
    load = carried(staffing, n)
    assert 0 < load <= n
    assert replicas(staffing, load * (1 - 1e-9)) <= n
    assert replicas(staffing, load + 1e-6 * n) > n


@for_each("off", [0.0, 1e-13, 1e-12, -1e-12, 1e-11, -1e-11, 1e-9, -1e-9, 1e-7, 1e-5, -1e-3])
def test_carried_load_where_the_quadratic_degenerates(off: float) -> None:
    """At z v = 1 the quadratic becomes linear; next to that nothing may be lost to cancellation."""
    staffing = Staffing(z=2.0, arrival_scv=1.0, rate_cv=0.5 * (1 + off), batch=32.0, min_replicas=1)
    for n in (1, 7, 100, 1000):
        load = carried(staffing, n)
        assert load + float(staffing.margin(np.array([load]))[0]) == pytest.approx(n, rel=1e-8)


@seeded
@given(staffings, st.lists(loads, min_size=2, max_size=6))
def test_many_loads_need_what_each_needs(staffing: Staffing, several: list[float]) -> None:
    """Counts are searched for all loads at once; each must come out as by itself, and be the first that suffices."""
    together = staffing.replicas(np.array(several)).tolist()
    assert together == [replicas(staffing, load) for load in several]
    for load, n in zip(several, together, strict=True):
        if n == MOST_REPLICAS:
            continue  # nobody rents so many
        assert carried(staffing, n) >= load - 1e-8 * n
        assert n == staffing.min_replicas or carried(staffing, n - 1) < load


@seeded
@given(staffings, loads, loads)
def test_more_load_needs_no_fewer_replicas(staffing: Staffing, one: float, other: float) -> None:
    assert replicas(staffing, min(one, other)) <= replicas(staffing, max(one, other))


def test_a_busy_replica_queues_prompts() -> None:
    """At most so much mean load on each: the larger of the two counts, never their sum."""
    staffing = Staffing(z=1.0, arrival_scv=1.0, rate_cv=0.0, batch=1.0, min_replicas=1, max_utilization=0.5)
    # 4 + sqrt(4) = 6 is below 4 / 0.5 = 8; 0.25 + 0.5 is above 0.25 / 0.5.
    assert staffing.replicas(np.array([4.0, 0.25])).tolist() == [8, 1]
    assert staffing.carried_load(np.array([8])).tolist() == [4.0]


def test_behind_a_router_each_of_several_carries_more() -> None:
    """By hand: s = 0.5, L1 = 0.4, gamma = 0.5, so 4 replicas carry 0.95 (1 - 0.8 / 2) / 0.5 each, capped at 1."""
    routing = Routing(exponent=0.5, prompt_share=0.25, burst_room=0.5)
    staffing = Staffing(0.0, 1.0, 0.0, 64.0, 1, max_utilization=0.4, routing=routing)
    assert staffing.most_load(np.array([1])) == pytest.approx([0.95 * 0.4])
    assert staffing.most_load(np.array([2])) == pytest.approx([0.95 * (1 - 0.8 / math.sqrt(2)) / 0.5])
    assert staffing.most_load(np.array([4])).tolist() == [1.0]
    assert staffing.replicas(np.array([0.38, 0.381, 1.65, 1.66])).tolist() == [1, 2, 2, 3]
    assert replace(staffing, max_utilization=1.0).most_load(np.array([1])).tolist() == [1.0], "TTFT does not bind"
    at_random = replace(staffing, routing=replace(routing, exponent=0.0))
    assert at_random.most_load(np.array([1, 4])) == pytest.approx([0.95 * 0.4] * 2)


def test_bursts_need_several_replicas() -> None:
    """By hand: c2 = 8 is 8, 4 and 2 for 1, 2 and 4 replicas; u(c) = c (q Gamma(1 + 1/c))^c, above c = 2 only."""
    routing = Routing(exponent=0.5, prompt_share=0.5, burst_room=0.6)
    staffing = Staffing(0.0, 8.0, 0.0, 1e6, 1, max_utilization=0.9, routing=routing)
    one, two = (c * (0.6 * math.gamma(1 + 1 / c)) ** c / 0.5 for c in (8.0, 4.0))
    assert staffing.most_load(np.array([1, 2, 4])) == pytest.approx([0.95 * one, 0.95 * two, 1.0])
    assert two > 2 * one
    blind = replace(staffing, routing=replace(routing, exponent=0.0))
    assert blind.most_load(np.array([1, 32])) == pytest.approx([0.95 * one] * 2)


@seeded
@given(staffings, st.integers(1, 500))
def test_replicas_carry_no_less_together_than_in_two_groups(staffing: Staffing, n: int) -> None:
    """n L(n) is neither concave nor convex, but merging twins relies on this (problems/dominance/offers.py)."""
    free = replace(staffing, min_replicas=1)
    each = free.carried_load(np.arange(1, 2 * n + 1))
    assert (np.diff(each) >= -1e-12).all()
    assert each[2 * n - 1] >= 2 * each[n - 1] * (1 - 1e-12)
    if n > 1:
        assert each[n] >= (each[0] + each[n - 1]) * (1 - 1e-12)


kinds = st.tuples(st.floats(0.01, 1), st.floats(0, 0.6), st.floats(0.05, 1), st.floats(0.05, 1))


@settings(derandomize=True, deadline=None, max_examples=1000)
@given(kinds, kinds, st.sampled_from([1.0, 2.0, 10.0, 89.0]))
def test_one_kind_of_replica_carries_no_less_than_another(
    one: tuple[float, ...], other: tuple[float, ...], scv: float
) -> None:
    """Held against many counts: what is said of all of them is true of each."""
    n = np.unique(np.round(np.geomspace(1, 10**6, 3000)))
    said = bool(carries_no_less(np.array(one), np.array(other), scv))
    a, b = (Routing(*kind[1:]).most_load(kind[0], scv, n) for kind in (one, other))
    if said:
        assert (a >= b - 1e-9).all()


def test_kinds_of_replica_whose_loads_cross_are_not_compared() -> None:
    slow_start, steady = np.array([0.1, 0.6, 0.5, 1.0]), np.array([0.3, 0.1, 0.5, 1.0])
    assert not carries_no_less(slow_start, steady, 1.0)
    assert not carries_no_less(steady, slow_start, 1.0)
    assert carries_no_less(np.array([0.3, 0.6, 0.5, 1.0]), steady, 1.0)


@seeded
@given(staffings, st.integers(1, 100), st.floats(0.01, 1))
def test_the_lone_load_undoes_the_gain(staffing: Staffing, n: int, alone: float) -> None:
    """At the planned limit of n replicas, each waits as a lone one does at its own."""
    if staffing.routing is None:
        return
    quiet = staffing.routing.most_load(alone, 1.0, np.array(n))
    if alone < 1 and quiet < CAUTION:
        assert staffing.routing.lone_load(float(quiet), n) == pytest.approx(alone, rel=1e-9)


def test_swings_may_differ_from_slot_to_slot() -> None:
    rate_cv = np.array([0.0, 0.1, 0.4])
    staffing = Staffing(z=2.0, arrival_scv=1.0, rate_cv=rate_cv, batch=16.0, min_replicas=1)
    loads = np.array([5.0, 5.0, 5.0])
    one_by_one = [replicas(replace(staffing, rate_cv=float(v)), 5.0) for v in rate_cv]
    assert staffing.replicas(loads).tolist() == one_by_one == [7, 7, 12]
    some = np.array([2, 0, 2, 1])
    assert staffing.in_slots(some).replicas(np.full(4, 5.0)).tolist() == [12, 7, 12, 7]
    steady = replace(staffing, rate_cv=0.1)
    assert steady.in_slots(some) is steady


@for_each("percentile", [0.9, 0.95, 0.99])
@for_each("rate_cv", [0.1, 0.2, 0.35, 0.8])
def test_requests_find_room_as_often_as_the_objective_says(rate_cv: float, percentile: float) -> None:
    """Counted by requests: while the rate is high there are more of them, so minutes with room are not enough."""
    staffing = Staffing(staffing_z(percentile), arrival_scv=1.0, rate_cv=rate_cv, batch=1e9, min_replicas=1)
    rng, sigma = np.random.default_rng(3), math.sqrt(math.log1p(rate_cv**2))
    minutes = np.exp(sigma * rng.standard_normal(400_000) - sigma**2 / 2)
    room = minutes * carried(staffing, 40) <= 40
    met = float(minutes[room].sum() / minutes.sum())
    assert percentile - 0.004 < met < percentile + 0.004
    assert float(room.mean()) > percentile, "the clock sees room more often"


@for_each("field", ["z", "arrival_scv", "rate_cv", "batch"])
@seeded
@given(staffing=staffings, load=loads, factor=st.floats(1.0, 3.0))
def test_more_risk_needs_no_fewer_replicas(field: str, staffing: Staffing, load: float, factor: float) -> None:
    """A higher z, c2 or v and a smaller batch: never fewer replicas, never more load carried."""
    value = getattr(staffing, field)
    riskier = replace(staffing, **{field: value / factor if field == "batch" else value * factor})
    assert replicas(riskier, load) >= replicas(staffing, load)
    assert float(riskier.margin(np.array([load]))[0]) >= float(staffing.margin(np.array([load]))[0]) * (1 - 1e-12)
    n = staffing.min_replicas + 3
    assert carried(riskier, n) <= carried(staffing, n) * (1 + 1e-9)


@for_each("field", ["z", "arrival_scv", "rate_cv", "batch"])
def test_each_risk_counts(field: str) -> None:
    staffing = Staffing(z=1.0, arrival_scv=1.0, rate_cv=0.2, batch=16.0, min_replicas=1)
    doubled = replace(staffing, **{field: 2 * getattr(staffing, field)})
    before, after = (float(s.margin(np.array([10.0]))[0]) for s in (staffing, doubled))
    assert (after < before * 0.98) if field == "batch" else (after > before * 1.02)


def exponential_gaps(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.exponential(1.0, n)


def gaps_with_scv_4(rng: np.random.Generator, n: int) -> np.ndarray:
    """Two-phase hyperexponential with balanced means: mean 1, squared coefficient of variation 4."""
    p = (1 + math.sqrt(3 / 5)) / 2
    means = np.where(rng.random(n) < p, 1 / (2 * p), 1 / (2 * (1 - p)))
    return rng.exponential(1.0, n) * means


@pytest.mark.parametrize(
    ("gaps", "scv", "low", "high"),
    [(exponential_gaps, 1.0, 0.272, 0.288), (gaps_with_scv_4, 4.0, 0.418, 0.446)],
)
def test_simulation_confirms_the_standard_deviation(gaps: object, scv: float, low: float, high: float) -> None:
    """Requests in flight of an infinite-server system that keeps 5 replicas of batch 64 busy on average."""
    assert callable(gaps)
    rng = np.random.default_rng(5)
    load, batch, horizon = 5.0, 64.0, 8000.0
    rate = load * batch
    drawn = gaps(rng, int(rate * horizon * 1.05)) / rate
    assert np.var(drawn) / np.mean(drawn) ** 2 == pytest.approx(scv, rel=0.02)
    arrivals = np.cumsum(drawn)
    departures = np.sort(arrivals + rng.exponential(1.0, len(arrivals)))
    times = np.arange(20.0, horizon, 0.25)
    in_flight = np.searchsorted(arrivals, times) - np.searchsorted(departures, times)
    assert arrivals[-1] > horizon
    assert in_flight.mean() / batch == pytest.approx(load, rel=0.02)
    simulated = float(in_flight.std() / batch)
    assert low < simulated < high
    staffing = Staffing(z=1.0, arrival_scv=scv, rate_cv=0.0, batch=batch, min_replicas=1)
    assert float(staffing.margin(np.array([load]))[0]) == pytest.approx(simulated, rel=0.05)
