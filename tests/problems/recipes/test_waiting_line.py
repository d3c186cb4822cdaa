"""Work that waits in a line, against moves from slot to slot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from problems.model import Column, Row, build_model
from problems.recipes.deferral import left_over
from problems.recipes.recipe import Deferral
from solvers.backends.highs import solve_lp
from solvers.pricing.routing import work_moved
from tests.support.rows import for_each


def work_of_days(seed: int) -> tuple[Deferral, np.ndarray]:
    """Two days of some hours each, work that may take some of them, and room in each slot (load)."""
    drawn = np.random.default_rng(seed)
    hours_of_day, long = int(drawn.integers(3, 9)), int(drawn.integers(1, 10))
    slots = np.arange(2 * hours_of_day)
    day = slots // hours_of_day
    window = (day[:, None] == day) & ((slots[None, :] - slots[:, None]) % hours_of_day < long)
    load = drawn.uniform(0, 2, len(slots)) * (drawn.random(len(slots)) < 0.7)
    room = np.round(drawn.uniform(0, 3, len(slots)) * drawn.choice([0.5, 1.0, 1.5]))
    return Deferral(load, window, np.where(day, 8.0, 22.0), 1.0), room


def least_left_over(deferral: Deferral, room: np.ndarray) -> tuple[float, np.ndarray]:
    """Work that leaves the line where as little as possible does, and what is done or leaves in each stretch."""
    line = deferral.line
    n = len(line.work)
    columns = [Column(("sent", k), 1.0) for k in range(n)]
    columns += [Column(("waits", k), 0.0, upper=float(line.may_wait[k])) for k in range(n)]
    done = np.bincount(line.stretch_of, room * deferral.hours) / line.unit
    rows = []
    for k in range(n):
        waits: dict[int, float] = {n + k: 1.0}
        waits[n + int(line.before[k])] = waits.get(n + int(line.before[k]), 0.0) - 1.0
        terms = [(k, 1.0), *((c, sign) for c, sign in waits.items() if sign)]
        rows.append(Row(("done", k), terms, ">=", float(line.work[k] - done[k])))
    lp = solve_lp(build_model(columns, rows))
    assert lp.x is not None
    assert lp.objective is not None
    return lp.objective * line.unit, done + lp.x[:n]


@for_each("seed", range(200))
def test_a_line_does_as_much_as_moves_within_windows(seed: int) -> None:
    deferral, room = work_of_days(seed)
    work = deferral.load * deferral.hours
    moved = work_moved(deferral, room)
    assert moved is not None
    left, done = least_left_over(deferral, room)
    assert left == pytest.approx(float(work @ (1 - moved.sum(axis=1))), rel=1e-6, abs=1e-5 * (1 + work.sum()))
    assert (deferral.line.waits(done) <= deferral.line.may_wait + 1e-9).all()


def test_what_waits_is_right_from_the_first_hour_on() -> None:
    """All comes in the last hour and is done in the first two: it waits at the end of the last and of the first."""
    slots = np.arange(4)
    window = (slots[None, :] - slots[:, None]) % 4 < 3
    line = Deferral(np.array([0.0, 0.0, 0.0, 4.0]), window, np.ones(4), None).line
    assert line.unit == 1.0
    assert line.waits(np.array([2.0, 2.0, 0.0, 0.0])).tolist() == [2.0, 0.0, 0.0, 4.0]
    assert line.may_wait.tolist() == [4.0, 0.0, 0.0, 4.0]
    assert line.most.tolist() == [4.0, 4.0, 0.0, 4.0]


def test_a_day_through_which_work_may_wait_is_one_stretch() -> None:
    line = Deferral(np.array([1.0, 2.0, 3.0]), np.ones((3, 3), dtype=bool), np.full(3, 10.0), None).line
    assert (line.unit, line.work.tolist(), line.may_wait.tolist()) == (20.0, [3.0], [0.0])
    assert line.slots(0).tolist() == [0, 1, 2]


def test_windows_of_another_kind_are_told() -> None:
    window = np.array([[1, 1, 0], [0, 1, 0], [0, 1, 1]], dtype=bool)
    with pytest.raises(ValueError, match="hours that follow on its arrival"):
        _ = Deferral(np.ones(3), window, np.ones(3), None).line


@for_each("seed", range(300))
def test_whole_servings_that_do_all_work_are_enough_in_every_run_of_hours(seed: int) -> None:
    """Counts at random, as few as still leave nothing over: no measure may ask for more."""
    drawn = np.random.default_rng(seed)
    deferral, _ = work_of_days(seed)
    fewest, each = int(drawn.integers(1, 4)), float(drawn.choice([0.2, 0.7, 1.5, 4.0]))
    deferral = replace(deferral, api_usd_per_load_h=None, lot=fewest * each)
    slots, work = np.arange(len(deferral.load)), float(deferral.load @ deferral.hours)
    counts = np.full(len(slots), 40)
    for t in drawn.permutation(np.repeat(slots, 40)).tolist():
        fewer = counts.copy()
        fewer[t] = 0 if counts[t] <= fewest else counts[t] - 1
        if left_over(deferral.load * deferral.hours, fewer * each * deferral.hours, deferral).sum() <= 1e-9 * work:
            counts = fewer
    room = counts * each * deferral.hours / deferral.line.unit
    assert all(parts.sum() >= 1 - 1e-6 for _, parts in deferral.done_in_runs(room, slots))


def test_a_window_with_work_takes_whole_replicas() -> None:
    """An hour's work for a tenth of a lot, in any of four hours: the LP runs a quarter of a lot, not a tenth."""
    slots = np.arange(8)
    window = (slots[None, :] - slots[:, None]) % 8 < 4
    deferral = Deferral(np.full(8, 0.1), window, np.ones(8), None, lot=2.0)
    assert [(run.stretches, run.lots) for run in deferral.runs] == [
        (tuple((first + k) % 8 for k in range(4)), 1) for first in range(8)
    ]
    servings, parts = deferral.done_in_runs(np.full(8, 2.0) / deferral.line.unit, slots)[0]
    assert (servings.tolist(), parts.tolist()) == ([0, 1, 2, 3], [1.0] * 4)


def test_an_api_may_do_parts_of_lots() -> None:
    deferral = Deferral(np.full(3, 0.1), np.eye(3, dtype=bool), np.ones(3), 1.0, lot=2.0)
    assert not deferral.runs
