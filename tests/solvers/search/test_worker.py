"""Plans from a second process: it finds what the LP leads to, ends with this one, and does no harm by its end."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from solvers.heuristics.incumbent import Incumbent, each_by_itself
from solvers.heuristics.local_search import improved
from solvers.heuristics.rounding import near_paths
from solvers.pricing.column_generation import CONVERGED_FRAC, ColumnGeneration
from solvers.search import search, worker
from solvers.search import worker_main as plans_child
from solvers.search import worker_messages as second_process
from solvers.search.fleet_solution import Options
from solvers.search.fleet_solver import solve_fleet
from solvers.search.worker import Worker
from solvers.search.worker_main import Task, plans_of
from tests.oracle.cases import case_of
from tests.oracle.plans import check_plan
from tests.solvers.heuristics.test_rounding import two_boxes
from tests.support.fleets import Case
from tests.support.patience import wait_until


class Never:
    waits = False


def boxes() -> Case:
    """A box is three quarters full with both workloads, so that the LP has cuts about it."""
    return two_boxes(3.0, 5.0)


def task(seconds: float = 20.0) -> Task:
    """Two workloads on single GPUs, where no single change pays: a dive finds the box that serves both."""
    fleet = boxes().fleet
    alone = each_by_itself(replace(fleet, recipes=tuple(r for r in fleet.recipes if "one" in r.offers)))
    assert alone is not None
    assert improved(fleet, alone).objective == pytest.approx(6 * 730)
    generation = ColumnGeneration(fleet, lambda n, bound: None)
    generation.run(CONVERGED_FRAC, sharpen=True)
    assert generation.fleet.rounded
    return Task(generation.fleet, (alone,), near_paths(generation), tuple(generation.paths.held), "cbc", seconds)


def better_plan_of(beside: Worker) -> list[Incumbent]:
    plans: list[Incumbent] = []

    def is_better() -> bool:
        plans.extend(beside.received())
        return any(p.objective < 6 * 730 - 1 for p in plans)

    wait_until(is_better)
    return plans


def test_it_finds_the_box_that_both_fill() -> None:
    with Worker() as beside:
        beside.look(task())
        plans = better_plan_of(beside)
    best = min(plans, key=lambda plan: plan.objective)
    assert best.objective == pytest.approx(5 * 730)
    check_plan(boxes(), best)
    costs = [plan.objective for plan in plans]
    assert costs == sorted(costs, reverse=True)


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_it_ends_with_this_one(handler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where this one ignores interrupts, as a shell's background jobs do; and nobody waits for its end."""
    left, waited, wind_down = threading.Event(), [], worker._wind_down
    monkeypatch.setattr(worker, "_wind_down", lambda process: (waited.append(left.wait(60)), wind_down(process)))
    before = signal.signal(signal.SIGINT, handler)
    try:
        with Worker() as beside:
            beside.look(task(600.0))
            assert better_plan_of(beside)
            assert beside._process is not None
            pid = beside._process.pid
            assert running(pid)
        left.set()
        wait_until(lambda: not running(pid))
        assert waited == [True]
    finally:
        signal.signal(signal.SIGINT, before)


def test_without_a_task_there_is_no_process() -> None:
    with Worker() as beside:
        assert beside._process is None
        assert beside.received() == []


def test_its_end_harms_nobody() -> None:
    with Worker() as beside:
        beside.look(task())
        assert beside._process is not None
        beside._process.kill()
        beside._process.wait()
        beside.look(task())
        beside.look(task())
        assert beside.received() == [] or beside.received() == []


def test_a_new_task_replaces_the_one_before() -> None:
    class Waits:
        waits = True

    assert len(list(plans_of(task(600.0), Waits(), [], count()))) <= 4  # type: ignore[arg-type]


@pytest.mark.parametrize(("comes_after", "asked_for"), [(1, 1), (2, 2), (9, 3)])
def test_a_dive_goes_no_further_when_a_task_waits(
    comes_after: int, asked_for: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each plan of a dive takes seconds: with better prices at hand the next one is not worth them."""

    class Comes:
        waits = False

    class ThreePlans:
        def __init__(self, *of: Any) -> None:
            pass

        def decided(self, *of: Any) -> None:
            return None

        def dived(self, *of: Any) -> Any:
            for n in (1, 2, 3):
                asked.append(n)
                Comes.waits = n >= comes_after
                yield best
            Comes.waits = True

    asked: list[int] = []
    first = task()
    best = first.plans[0]
    monkeypatch.setattr(plans_child, "Dives", ThreePlans)
    monkeypatch.setattr(plans_child, "_polished", lambda task, plan, until, others: plan)
    knows_boxes = replace(first, fleet=replace(first.fleet, rounded={("both", "one", 0, 0): None}))
    list(plans_of(knows_boxes, Comes(), [best], count(1)))  # type: ignore[arg-type]
    assert asked == list(range(1, asked_for + 1))


def test_known_plans_are_gone_on_from() -> None:
    """Nothing comes that costs more than what is known."""
    first = task(3.0)
    best = min(plans_of(first, Never(), [], count()), key=lambda plan: plan.objective)  # type: ignore[arg-type]
    again = list(plans_of(replace(first, seconds=1.0), Never(), [best], count(100)))  # type: ignore[arg-type]
    assert all(plan.objective <= best.objective for plan in again)


@pytest.mark.parametrize("seed", [1003, 1008])
def test_a_search_takes_plans_from_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a time limit and no program over servings, plans come from the second process, and keep every rule."""
    for name in ("MOST_SERVINGS", "HOPELESS", "FEW_SERVINGS"):
        monkeypatch.setattr(search, name, -1)
    monkeypatch.setattr(search, "cores", lambda: 2)
    monkeypatch.setattr(second_process, "TELL_AGAIN_S", 0.5)
    told: list[Task] = []
    look = Worker.look
    monkeypatch.setattr(Worker, "look", lambda self, task: (told.append(task), look(self, task))[1])
    case = case_of(seed)
    solution = solve_fleet(case.fleet, Options(gap_frac=0.0, time_limit_s=6.0))
    assert told
    assert solution.best is not None
    check_plan(case, solution.best)
    assert solution.bound_usd_per_month <= solution.objective * (1 + 1e-9)
