"""Controllers: their laws by hand, and event for event as a slow and obvious one has it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from planner.case.controller import Controller, controllers
from planner.verification import engine
from planner.verification.operation import Operator, Setting, read_quantile
from planner.verification.scaling import READY, STARTING, Memory, Rule, fresh, rule_of, tick
from tests.support.naive_controller import NaiveController
from tests.support.naive_engine import Request, naive_serve
from tests.support.rows import for_each
from tests.support.simulated import constant_step

SHIPPED = tuple(controllers())


def of(name: str, **change: object) -> Controller:
    return controllers()[name].model_copy(update=change)


@dataclass(eq=False)
class Looped:
    """A controller with a floor and a start of so many seconds."""

    controller: Controller
    target: float = 10.0
    fewest: int = 1
    most: int = 50
    start_s: float = 0.0
    ready: int = 2
    now_s: float = 0.0
    counts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rule: Rule = rule_of(self.controller, self.target, self.fewest, self.most)
        self.memory: Memory = fresh(self.rule, self.ready)

    def look(self, signal: float, floor: int = 0) -> int:
        tick(self.rule, self.memory, self.now_s, signal, floor, 0.0, self.start_s, 1)
        self.now_s += self.controller.period_s
        self.counts.append(int(self.memory.at[READY] + self.memory.at[STARTING]))
        return self.counts[-1]


def test_a_hpa_leaves_alone_what_is_within_a_tenth() -> None:
    loop = Looped(of("keda"), ready=10)
    assert loop.look(109.0) == 10, "10.9 replicas' worth of load"
    assert loop.look(111.0) == 12, "11.1, so 12 are asked for, at once"


def test_down_only_after_its_window_and_to_the_highest_of_it() -> None:
    loop = Looped(of("keda"), ready=10)
    for k in range(20):
        assert loop.look(40.0 if k else 100.0) == 10, "the 100 of the first tick are within 300 s"
    assert loop.look(40.0) == 4


def test_steps_of_a_hpa_are_the_larger_of_pods_and_share() -> None:
    loop = Looped(of("hpa"), ready=2)
    assert loop.look(1000.0) == 6, "four pods are more than all of two"
    assert [loop.look(1000.0) for _ in range(3)] == [6, 6, 6], "in a minute"
    assert loop.look(1000.0) == 12, "all of six are more than four"


def test_the_law_of_llm_d_by_hand() -> None:
    """s = 1.1 beside 0.55: twice the ready ones; with half of them ready, as many as there are."""
    loop = Looped(of("llm-d-slo", window_s=0, up_window_s=0), ready=3, start_s=100.0)
    assert loop.look(1.1) == 6
    assert loop.look(1.1) == 6, "c = 3/6: n + ceil(6 (1.1 x 0.5 / 0.55 - 1)) = 6"
    steady = Looped(of("llm-d-slo", window_s=0, down_window_s=0), ready=6)
    assert steady.look(0.5) == 6, "between 0.40 and 0.55"
    assert steady.look(0.2) == 5, "n - floor(6 (1 - 0.2/0.4)) = 3, one pod in 120 s"
    assert [steady.look(0.2) for _ in range(8)] == [5] * 7 + [4]


def test_skyserve_waits_for_300_s() -> None:
    loop = Looped(of("skyserve"), ready=2)
    counts = [loop.look(40.0) for _ in range(16)]
    assert counts == [4] * 16, "nothing was asked for before, so the first tick is all of its window"
    later = Looped(of("skyserve"), ready=2)
    counts = [later.look(20.0 if k < 16 else 60.0) for k in range(40)]
    assert counts.index(6) - 16 >= 15, "300 s of 20 s ticks in which more was asked for"


def test_aibrix_panics_and_gives_nothing_back_in_panic() -> None:
    loop = Looped(of("aibrix"), ready=2)
    for _ in range(12):
        loop.look(20.0)
    counts = [loop.look(100.0) for _ in range(4)]
    assert counts[-1] > 2
    assert loop.look(0.0) >= counts[-1], "it has panicked"


def test_a_schedule_reads_nothing() -> None:
    loop = Looped(of("schedule", down_window_s=0), ready=1)
    assert [loop.look(1e9, floor) for floor in (1, 3, 2)] == [1, 3, 2]


def test_what_starts_is_ready_after_it_and_goes_first() -> None:
    loop = Looped(of("keda", down_window_s=0), ready=1, start_s=40.0)
    assert loop.look(30.0) == 3 and loop.memory.at[READY] == 1
    assert loop.look(20.0) == 2 and loop.memory.at[STARTING] == 1
    loop.look(20.0)
    loop.look(20.0)
    assert loop.memory.at[READY] == 2, "45 s later"


def drawn(rng: np.random.Generator) -> Controller:
    """Any law with any windows and limits."""
    c = controllers()[str(rng.choice(SHIPPED))]
    window = lambda: float(rng.choice([0, 10, 15, 30, 45, 100, 180]))  # noqa: E731
    some = lambda x: None if rng.random() < 0.5 else x  # noqa: E731
    return c.model_copy(
        update={
            "period_s": float(rng.choice([5, 15, 20])), "window_s": window(), "up_window_s": window(),
            "down_window_s": window(), "up_pods": some(int(rng.integers(0, 4))), "up_frac": some(float(rng.random())),
            "up_period_s": window(), "down_pods": some(int(rng.integers(0, 3))),
            "down_frac": some(float(rng.random())), "down_period_s": window(), "cooldown_s": window(),
            "panic_window_s": window(), "panic_threshold": float(rng.uniform(1, 3)),
            "up_rate": some(float(rng.uniform(1, 3))), "down_rate": some(float(rng.uniform(1, 3))),
        }
    )  # fmt: skip


@for_each("seed", range(40))
def test_any_controller_decides_as_the_naive_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(5):
        c, target, fewest = drawn(rng), float(rng.uniform(1, 20)), int(rng.integers(0, 3))
        most, ready = fewest + int(rng.integers(0, 12)), fewest
        machine_s, engine_s, each_has = float(rng.uniform(0, 90)), float(rng.uniform(0, 90)), int(rng.integers(1, 5))
        rule = rule_of(c, target, fewest, most)
        memory, naive = (
            fresh(rule, ready),
            NaiveController(c, target, fewest, most, machine_s, engine_s, each_has, ready),
        )
        for k in range(120):
            now, floor = c.period_s * (k + 1), int(rng.integers(0, 4)) if k % 9 == 0 else 0
            signal = float(rng.uniform(0, 2)) if c.law == "slo" else float(rng.gamma(2, target))
            tick(rule, memory, now, signal, min(floor, max(most, fewest)), machine_s, engine_s, each_has)
            naive.look(now, signal, min(floor, max(most, fewest)))
            starting = memory.ready_at_s[: memory.at[STARTING]].tolist()
            assert (int(memory.at[READY]), starting) == (naive.ready, pytest.approx(naive.starting)), (seed, c, k)


def naive_quantile(values: list[float], bounds: tuple[float, ...]) -> float:
    """P90 as Prometheus has it, with cumulative buckets as it stores them."""
    if not bounds:
        return float(np.percentile(values, 90))
    below, before = 0.0, 0
    for bound in bounds:
        count = sum(v <= bound for v in values)
        if count >= 0.9 * len(values):
            return below + (bound - below) * (0.9 * len(values) - before) / (count - before)
        below, before = bound, count
    return bounds[-1]


def naive_signal(c: Controller, world: list[Request], now: float, targets_s: tuple[float, float]) -> float:
    """What a controller reads, from all requests of a world that was served anew."""
    there = [r for r in world if r.arrival_s < now and not 0 <= r.last_s <= now]
    if c.signal == "in-flight":
        return float(len(there))
    if c.signal == "rate":
        return sum(now - c.period_s <= r.arrival_s < now for r in world) / c.period_s
    assert c.signal == "slo"
    seen = [r for r in world if now - 60 < (r.last_s if c.latencies_at_end else r.first_s) <= now]
    ended = [r for r in world if now - 60 < r.last_s <= now and r.output > 1]
    ttft = [r.first_s - r.arrival_s for r in seen]
    tpot = [(r.last_s - r.first_s) / (r.output - 1) for r in ended]
    ratios = [naive_quantile(ttft, c.ttft_buckets_s) / targets_s[0]] if ttft else []
    ratios += [naive_quantile(tpot, c.tpot_buckets_s) / targets_s[1]] if tpot else []
    return min(2.0, max(ratios, default=0.0))


def test_a_histogram_shows_38_ms_where_all_are_between_20_and_40() -> None:
    """As the router's own record has it (0.38 of 100 ms, minute after minute), whatever they are in that bucket."""
    bounds = controllers()["llm-d-slo"].tpot_buckets_s
    assert read_quantile(np.full(50, 0.021), bounds) == pytest.approx(0.038)
    assert read_quantile(np.full(50, 0.040), bounds) == pytest.approx(0.038)
    assert read_quantile(np.full(50, 0.041), bounds) == pytest.approx(0.058)
    assert read_quantile(np.full(5, 99.0), bounds) == bounds[-1]
    rng = np.random.default_rng(4)
    for _ in range(50):
        values = rng.gamma(2, 0.02, int(rng.integers(1, 40)))
        assert read_quantile(values, bounds) == pytest.approx(naive_quantile(values.tolist(), bounds))


FLEETS = (
    of("keda", period_s=2.0, down_window_s=6.0, lead_s=0.0, schedule=False),
    of("llm-d-slo", period_s=2.0, window_s=4.0, up_window_s=0.0, down_window_s=6.0, up_period_s=4.0, down_period_s=4.0),
    of("skyserve", period_s=2.0, window_s=6.0, up_window_s=4.0, down_window_s=8.0),
    of("aibrix", period_s=2.0, window_s=8.0, panic_window_s=4.0, cooldown_s=6.0, signal="in-flight"),
)


@for_each("seed", range(2))
@for_each("c", FLEETS)
def test_a_fleet_behind_a_controller_is_that_of_the_naive_simulation(seed: int, c: Controller) -> None:
    """The naive one serves all requests anew at each tick, with the replicas that were ordered until then."""
    rng = np.random.default_rng(seed)
    times, sequences, budget, most, period, targets_s = constant_step(0.0503, 4), 4, 64, 5, 2.0, (1.0, 0.1)
    machine_s, engine_s, each_has = float(rng.uniform(0, 5)), float(rng.uniform(0, 5)), int(rng.integers(1, 4))
    target = 0.5 if c.signal == "rate" else 3.0
    count = 80
    arrival = np.sort(rng.uniform(0, 40, count) + 15 * (rng.random(count) < 0.4))
    prompt, output = rng.integers(4, 30, count).astype(float), rng.integers(5, 60, count)
    asked = engine.Requests(arrival, prompt, np.zeros(count), output, np.ones(count, dtype=np.bool_))
    rule = rule_of(c, target, 1, most)
    setting = Setting(c, rule, np.ones(168, dtype=np.int64), machine_s, engine_s, each_has, alone=True)
    losses = tuple((float(at), engine.FAILED, 1 + k % 2) for k, at in enumerate(rng.uniform(10, 50, 3 * (seed % 2))))
    operator = Operator(setting, targets_s, losses)
    first = operator.begin(0.0)
    start = engine.Capacity(np.array([0.0]), np.array([first]), np.array([0]))
    simulation = engine.Simulation(start, times, sequences, budget, engine.LEAST_REQUESTS, 1, 30, most_replicas=most)
    simulation.add(asked)
    naive, entries = NaiveController(c, target, 1, most, machine_s, engine_s, each_has, 1), [(0.0, 1, 0)]
    history = []
    for k in range(30):
        now = period * (k + 1)
        operator.run(simulation, now, range(1))
        world = [Request(float(t), int(p), 0, int(o), True) for t, p, o in zip(arrival, prompt, output, strict=True)]
        naive_serve(world, entries, times, sequences, budget, engine.LEAST_REQUESTS)
        taken = sum(n for at, _, n in losses if now - period < at <= now)
        if taken:
            naive.lose(now, taken)
            entries.append((now, naive.ready, engine.FAILED))
        ready_before = [at for at in naive.starting if at <= now]
        naive.look(now, naive_signal(c, world, now, targets_s), 1)
        if entries[-1][1] != naive.ready or ready_before:
            entries.append((now, naive.ready, 0))
        coming = [at for at in naive.starting if at < now + period]
        entries += [(at, naive.ready + n + 1, 0) for n, at in enumerate(coming)]
        history.append((now, naive.ready, len(naive.starting)))
        at = operator.memory.at
        assert (now, int(at[READY]), int(at[STARTING])) == history[-1], (seed, k)
    simulation.run()
    world = [Request(float(t), int(p), 0, int(o), True) for t, p, o in zip(arrival, prompt, output, strict=True)]
    naive_serve(world, entries, times, sequences, budget, engine.LEAST_REQUESTS)
    assert simulation.outcome.last_s == pytest.approx([r.last_s for r in world], rel=1e-9)
    assert len({ready for _, ready, _ in history}) > 1, "something was scaled"
