"""The simulator against the naive one, event for event, and against arithmetic done by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("numba", reason="the simulator is compiled by numba: install fleetplan[verify]")

from planner.performance.latency import decode_step_s, prefill_added_s, prefill_s
from planner.performance.machine import Machine
from planner.performance.memory import kv_room_bytes
from planner.verification import engine, steps
from planner.verification.block_cache import NO_BLOCKS, Blocks, taken
from planner.verification.step_times import StepTimes, step_times
from tests.support import machines
from tests.support.naive_engine import Request, naive_serve
from tests.support.rows import for_each
from tests.support.simulated import capacity, constant_step, requests, served_by

GROUPS, CASES = 8, 50
MACHINES = [machines.machine(name) for name in machines.MACHINES]
RANKS = [machines.machine(name, None, "data") for name in machines.RANKS]
RANKS += [machines.machine(machines.MOE, None, "data", "sglang")]


def drawn_case(
    rng: np.random.Generator, machines: list[Machine] = MACHINES, most: int = 50
) -> tuple[steps.Requests, list[tuple[float, int, int]], StepTimes, list[int]]:
    """A few requests on up to five replicas: short and long ones, crowded and sparse, memory tight and ample."""
    n = int(rng.integers(1, most))
    prompt = rng.integers(1, int(rng.choice([30, 400, 3000])) + 1, n)
    output = rng.integers(1, int(rng.choice([2, 12, 40, 150])) + 1, n)
    found = np.where(rng.random(n) < rng.choice([0, 0.5]), np.floor(rng.random(n) * prompt), 0)
    sequences, budget = int(rng.choice([1, 2, 5, 16, 32])), int(rng.choice([64, 100, 512, 2048, 8192]))
    machine = machines[rng.integers(len(machines))]
    times = step_times(machine, sequences, budget, float((prompt + output).max()), 0.0)
    window = times.kv_window_bytes_per_token * np.minimum(prompt + output, times.window_tokens)
    most = float(((prompt - found + output) * times.kv_bytes_per_token + window).max())
    room = most * float(rng.choice([0.7, 1.01, 1.5, 3, 1000])) * float(rng.uniform(1, 1.2))
    span = 0.05 * n * float(rng.choice([0.01, 1, 10]))
    arrival = np.sort(rng.uniform(0, span, n))
    if rng.random() < 0.2:
        arrival = np.round(arrival, 1)  # many at once, as in a log that counts in ticks
    changes = np.sort(rng.uniform(0, 1.5 * span, int(rng.choice([0, 0, 2, 5])))).tolist()
    entries = [(0.0, int(rng.integers(0, 6)), engine.DRAINED)]
    entries += [(at, int(rng.integers(0, 6)), int(rng.integers(0, 4))) for at in changes]
    entries += [(2 * span, int(rng.integers(1, 6)), engine.DRAINED)] if rng.random() < 0.8 else []
    asked = requests(arrival, prompt, output, found, rng.random(n) < 0.5)
    router = int(rng.choice([engine.LEAST_REQUESTS, engine.ROUND_ROBIN]))
    return asked, entries, replace(times, kv_room_bytes=room), [sequences, budget, router]


@for_each("group", range(GROUPS))
def test_every_token_comes_when_the_naive_simulator_says(group: int) -> None:
    agrees_with_the_naive_one(MACHINES, [group], CASES)


@pytest.mark.parametrize("group", range(2))
def test_ranks_run_their_steps_together_as_the_naive_simulator_says(group: int) -> None:
    agrees_with_the_naive_one(RANKS, [group, 3], CASES // 2, 200)


def agrees_with_the_naive_one(given: list[Machine], seed: list[int], cases: int, most: int = 50) -> None:
    seen: Counter[str] = Counter()
    for case in range(cases):
        rng = np.random.default_rng([*seed, case])
        asked, entries, times, (sequences, budget, router) = drawn_case(rng, given, most)
        outcome = engine.serve(asked, capacity(*entries), times, sequences, budget, router, 1)
        each = [[int(x) for x in column] for column in (asked.prompt, asked.found, asked.output)]
        naive = [Request(*z) for z in zip(asked.arrival_s.tolist(), *each, asked.critical.tolist(), strict=True)]
        world = naive_serve(naive, entries, times, sequences, budget, router)
        where = f"seed {seed}, case {case}"
        cuts = rng.uniform(0, asked.arrival_s[-1], 4).tolist()
        assert are_equal(in_parts(asked, entries, times, [sequences, budget, router], cuts), outcome), where
        assert outcome.state.tolist() == [r.state for r in naive], where
        assert outcome.preempted.tolist() == [r.preempted for r in naive], where
        assert outcome.first_s == pytest.approx([r.first_s for r in naive], rel=1e-9), where
        assert outcome.last_s == pytest.approx([r.last_s for r in naive], rel=1e-9), where
        assert outcome.tokens.tolist() == [world.prefilled, world.decoded], where
        assert outcome.busy_s.sum() == pytest.approx(world.busy_s, rel=1e-9), where
        for state in (steps.SERVED, steps.REFUSED, steps.SHED):
            seen[f"state {state}"] += any(r.state == state for r in naive)
        nothing_lost = all(change in (engine.DRAINED, engine.SHEDDING) for _, _, change in entries)
        seen["preempted"] += nothing_lost and any(r.preempted for r in naive)
    assert all(seen[f"state {state}"] for state in (steps.SERVED, steps.REFUSED, steps.SHED)), seen
    assert seen["preempted"], seen


def in_parts(
    asked: steps.Requests, entries: list[tuple[float, int, int]], times: StepTimes, numbers: list[int],
    cuts: list[float], blocks: Blocks | None = None, slack: float = 8.0,
) -> steps.Outcome:  # fmt: skip
    """The outcome where requests are let in and taken away part by part, and compiled code is called ever so often."""
    hours = int(asked.arrival_s[-1] / 3600) + 25
    tokens = 0 if blocks is None or not len(blocks.ids) else blocks.tokens
    numbers = [*numbers, 1, hours, tokens, 20_000]
    simulation = engine.Simulation(capacity(*entries), times, *numbers, slack=slack)
    found = engine._unanswered(len(asked.arrival_s), hours)
    there = np.zeros(0, dtype=np.int64)

    def take() -> None:
        nonlocal there
        ended, _, outcome = simulation.take_ended()
        for name in engine.OF_REQUESTS:
            getattr(found, name)[there[ended]] = getattr(outcome, name)
        there = np.delete(there, ended)

    bounds = [-np.inf, *sorted(cuts), np.inf]
    for begin, end in pairwise(bounds):
        part = np.flatnonzero((asked.arrival_s >= begin) & (asked.arrival_s < end))
        simulation.add(steps.Requests(*(x[part] for x in asked)), NO_BLOCKS if not tokens else taken(blocks, part))
        there = np.concatenate([there, part])
        simulation.steps = 3
        simulation.run(end)
        take()
    for name in engine.OF_REQUESTS:
        getattr(found, name)[there] = getattr(simulation.outcome, name)
    return found._replace(busy_s=simulation.outcome.busy_s, tokens=simulation.outcome.tokens)


def are_equal(one: steps.Outcome, other: steps.Outcome) -> bool:
    """To the last bit; but a pause changes the order in which replicas add to an hour's busy seconds."""
    exact = one._replace(busy_s=np.zeros(0)), other._replace(busy_s=np.zeros(0))
    same_sums = np.allclose(one.busy_s, other.busy_s, rtol=1e-12, atol=1e-12)
    return same_sums and all(np.array_equal(a, b) for a, b in zip(*exact, strict=True))


def drawn_prompts(prompt: np.ndarray, tokens: int, rng: np.random.Generator) -> list[list[int]]:
    """Blocks of prompts, each of which begins as an earlier one does, or not at all."""
    known: list[list[int]] = []
    again, count = float(rng.choice([0.3, 0.8, 1.0])), 0
    for length in prompt.tolist():
        before = known[rng.integers(len(known))] if known and rng.random() < again else []
        same = before[: int(rng.integers(0, len(before) + 1))]
        new = max(0, int(length) // tokens - len(same))
        known.append((same + list(range(count, count + new)))[: int(length) // tokens])
        count += new
    return known


@for_each("group", range(GROUPS // 2))
def test_blocks_are_cached_as_the_naive_simulator_says(group: int) -> None:
    blocks_are_cached_as_by_the_naive_one(MACHINES, group, CASES, 50)


def test_every_rank_caches_blocks_of_its_own() -> None:
    blocks_are_cached_as_by_the_naive_one(RANKS[:1], 0, CASES // 2, 100)


def blocks_are_cached_as_by_the_naive_one(given: list[Machine], group: int, cases: int, most: int) -> None:
    seen: Counter[str] = Counter()
    for case in range(cases):
        rng = np.random.default_rng([group, case, 7])
        asked, entries, times, (sequences, budget, _) = drawn_case(rng, given, most)
        router = int(rng.choice([engine.LEAST_REQUESTS, engine.PREFIX_AWARE, engine.PREFIX_AWARE]))
        asked = asked._replace(found=np.zeros_like(asked.found))
        tokens = int(rng.choice([4, 16, 100]))
        known = drawn_prompts(asked.prompt, tokens, rng)
        begin = np.cumsum([0, *(len(blocks) for blocks in known)])
        blocks = Blocks(np.array([b for each in known for b in each], dtype=np.int32), begin, tokens)
        slack = float(rng.choice([0.0, 0.7, 4.2, 8.0]))
        outcome = engine.serve(asked, capacity(*entries), times, sequences, budget, router, 1, blocks, slack)
        each = [[int(x) for x in column] for column in (asked.prompt, asked.found, asked.output)]
        naive = [Request(*z) for z in zip(asked.arrival_s.tolist(), *each, asked.critical.tolist(), strict=True)]
        for request, mine in zip(naive, known, strict=True):
            request.blocks = mine
        world = naive_serve(naive, entries, times, sequences, budget, router, tokens, slack)
        where = f"group {group}, case {case}"
        cuts = rng.uniform(0, asked.arrival_s[-1], 4).tolist()
        numbers = [sequences, budget, router]
        assert are_equal(in_parts(asked, entries, times, numbers, cuts, blocks, slack), outcome), where
        assert outcome.state.tolist() == [r.state for r in naive], where
        assert outcome.found.tolist() == [-1 if r.first_found is None else r.first_found for r in naive], where
        assert outcome.preempted.tolist() == [r.preempted for r in naive], where
        assert outcome.first_s == pytest.approx([r.first_s for r in naive], rel=1e-9), where
        assert outcome.last_s == pytest.approx([r.last_s for r in naive], rel=1e-9), where
        assert outcome.tokens.tolist() == [world.prefilled, world.decoded], where
        seen["found"] += bool((outcome.found > 0).any())
        seen["preempted"] += any(r.preempted for r in naive)
        kept = {b for replica in world.replicas for b in (*replica.idle, *replica.users)}
        seen["evicted"] += any(b not in kept for each in known for b in each)
    assert all(seen[what] > cases // 10 for what in ("found", "preempted", "evicted")), seen


@for_each("name", machines.MACHINES)
def test_a_lone_request_takes_what_the_planner_says(name: machines.Name) -> None:
    machine, prompt, output = machines.machine(name), 1500, 200
    times = step_times(machine, 4, 8192, prompt + output, 0.0)
    outcome = served_by(1, requests([7.0], prompt, output), times, 4)
    first = float(prefill_s(machine, float(prompt)))
    rest = float(decode_step_s(machine, 1.0, prompt + np.arange(1.0, output)).sum())
    assert outcome.first_s[0] - 7.0 == pytest.approx(first, rel=1e-3)
    assert outcome.last_s[0] - outcome.first_s[0] == pytest.approx(rest, rel=1e-3)
    assert outcome.busy_s.sum() == pytest.approx(first + rest - times.host_s, rel=1e-3)


@pytest.mark.parametrize("beside", [0, 3])
def test_the_host_delays_every_first_token_whether_others_decode_or_not(beside: int) -> None:
    times = replace(constant_step(1.0, 4), host_s=0.25)
    outcome = served_by(1, requests([0.0] * beside + [9.5], 5, [50] * beside + [3]), times, 4)
    assert outcome.first_s[-1] == (11.0 if beside else 10.5) + 0.25
    assert outcome.last_s[-1] == outcome.first_s[-1] + 2
    assert outcome.busy_s.sum() == (51 if beside else 3)


@pytest.mark.parametrize("name", machines.RANKS, ids=lambda name: name[0])
def test_a_lone_request_of_a_replica_with_ranks_takes_what_the_planner_says(name: machines.Name) -> None:
    """One rank has work, the others run empty passes beside it."""
    machine, prompt, output = machines.machine(name, None, "data"), 1500, 200
    outcome = served_by(1, requests([7.0], prompt, output), step_times(machine, 4, 8192, prompt + output, 0.0), 4)
    first = float(prefill_s(machine, float(prompt)))
    rest = float(decode_step_s(machine, 1.0, prompt + np.arange(1.0, output)).sum())
    assert outcome.first_s[0] - 7.0 == pytest.approx(first, rel=0.01)
    assert outcome.last_s[0] - outcome.first_s[0] == pytest.approx(rest, rel=1e-3)


@pytest.mark.parametrize("engine_name", ["vllm", "sglang"])
def test_equal_ranks_take_what_the_planner_says_of_even_ones(engine_name: str) -> None:
    """Every rank gets a prompt of the same length at once: no rank waits for another."""
    machine, prompt, output = machines.machine(machines.MLA, None, "data", engine_name), 500, 100
    even = replace(machine, engine=machine.engine.model_copy(update={"even_ranks": True}))
    asked, times = requests(np.zeros(32), prompt, output), step_times(machine, 8, 8192, prompt + output, 0.0)
    late = capacity((0.0, 0, engine.DRAINED), (1.0, 1, engine.DRAINED))
    outcome = engine.serve(asked, late, times, 8, 8192, engine.LEAST_REQUESTS, 1)
    rest = float(decode_step_s(even, 32.0, prompt + np.arange(1.0, output)).sum())
    first = 1 + float(prefill_s(even, float(prompt), None, 32.0))
    assert outcome.first_s == pytest.approx([first] * 32, rel=0.01)
    assert outcome.last_s - outcome.first_s == pytest.approx([rest] * 32, rel=1e-3)


def test_a_prompt_on_one_rank_keeps_the_others_waiting() -> None:
    machine = machines.machine(machines.MLA, None, "data")
    times = step_times(machine, 4, 8192, 9000, 0.0)
    calm = served_by(1, requests([0.0], 100, 50), times, 4)
    disturbed = served_by(1, requests([0.0, 0.5], [100, 8000], [50, 1]), times, 4)
    waited = disturbed.last_s[0] - calm.last_s[0]
    assert waited == pytest.approx(float(prefill_added_s(machine, 8000.0, 8000.0, 1.0)), rel=0.1)


def test_a_request_must_fit_into_the_memory_of_one_rank() -> None:
    machine = machines.machine(machines.MLA, None, "data")
    room = kv_room_bytes(machine.model, machine.gpu, 8, machine.quantization, 0.9, machine.layout)
    times = step_times(machine, 4, 8192, 1e6, 0.0)
    assert times.kv_room_bytes == pytest.approx(room / 8)
    tokens = times.kv_room_bytes / times.kv_bytes_per_token
    outcome = served_by(1, requests([0.0, 0.0], [0.9 * tokens, 1.1 * tokens], 1), times, 4)
    assert outcome.state.tolist() == [steps.SERVED, steps.REFUSED]


@pytest.mark.parametrize("engine_name", ["vllm", "sglang"])
def test_a_long_lone_prompt_pays_the_overhead_of_a_prompt_once(engine_name: str) -> None:
    machine, prompt = machines.machine(machines.DENSE, None, "tensor", engine_name), 10 * 8192
    times = replace(step_times(machine, 4, 8192, prompt + 1, 0.0), kv_room_bytes=1e15)
    outcome = served_by(1, requests([0.0], prompt, 1), times, 4)
    assert outcome.first_s[0] == pytest.approx(float(prefill_s(machine, float(prompt))), rel=1e-3)


def test_requests_that_no_replica_could_take_are_spread_by_the_router() -> None:
    """They all arrive before there is a replica; round robin and random must not send them to the same one."""
    asked, times = requests(np.linspace(0, 1, 8), 10, 1), constant_step(1.0, 1)
    late = capacity((0.0, 0, engine.DRAINED), (10.0, 4, engine.DRAINED))
    outcome = engine.serve(asked, late, times, 1, 8192, engine.ROUND_ROBIN, 1)
    assert sorted(outcome.last_s) == [11.0] * 4 + [12.0] * 4
    outcome = engine.serve(asked, late, times, 1, 8192, engine.RANDOM, 1)
    assert len(set(outcome.last_s)) < 8


@pytest.mark.parametrize("seed", range(3))
def test_prompts_that_do_not_fit_together_wait_for_each_other(seed: int) -> None:
    """Any two of them need more memory than there is; the first chunk of each would fit."""
    rng, n = np.random.default_rng(seed), 100
    prompt, times = rng.integers(5001, 7000, n), replace(constant_step(1.0, 8), kv_room_bytes=10_000.0)
    outcome = served_by(1, requests(np.sort(rng.uniform(0, 600, n)), prompt, 50), times, 8, budget=1024)
    assert outcome.state.tolist() == [steps.SERVED] * n
    assert outcome.preempted.sum() == 0
    assert outcome.tokens.tolist() == [prompt.sum(), 49 * n]


def test_answers_that_outgrow_the_memory_are_preempted_once_each_at_most() -> None:
    """Two prompts fit together and their answers do not: the later one waits until the first has ended."""
    times = replace(constant_step(1.0, 8), kv_room_bytes=1000.0)
    outcome = served_by(1, requests(np.zeros(8), 400, 300), times, 8, budget=512)
    assert outcome.state.tolist() == [steps.SERVED] * 8
    assert outcome.preempted.max() == 1


def test_a_prompt_that_is_cached_whole_computes_its_last_token() -> None:
    outcome = served_by(1, requests([0.0, 0.0], 100, 3, found=100), constant_step(1.0, 2), 2)
    assert outcome.state.tolist() == [steps.SERVED] * 2
    assert outcome.tokens[0] == 2


def test_a_step_must_have_a_token_for_every_sequence() -> None:
    with pytest.raises(ValueError, match="a step of 16 tokens cannot decode 32 requests"):
        served_by(1, requests([0.0], 1, 1), constant_step(1.0, 32), 32, budget=16)


def test_nothing_to_serve_and_nobody_to_serve_it() -> None:
    assert len(served_by(2, requests([], 1, 1), constant_step(1.0, 1)).state) == 0
    assert served_by(0, requests([0.0], 1, 1), constant_step(1.0, 1)).state.tolist() == [steps.UNFINISHED]


def test_what_is_shed_while_capacity_is_lost() -> None:
    """From the reclaim to the end of it, through an hour at which a replica drains, and not what was let in before."""
    asked = requests([0.0, 1.0, 2.0, 3.0, 4.0], 1, 1, critical=[False, True, False, False, False])
    entries = [(0.0, 3, 0), (0.5, 2, engine.RECLAIMED), (2.5, 1, engine.SHEDDING), (3.5, 3, engine.DRAINED)]
    outcome = engine.serve(asked, capacity(*entries), constant_step(0.1, 1), 1, 8192, 0, 1)
    shed, served = steps.SHED, steps.SERVED
    assert outcome.state.tolist() == [served, served, shed, shed, served]


def test_a_replica_that_fails_takes_its_work_with_it_and_one_that_drains_does_not() -> None:
    asked, times = requests([0.0, 0.0], 1, 4), constant_step(1.0, 1)
    for change, last in ((engine.DRAINED, [4.0, 4.0]), (engine.FAILED, [4.0, 4.0 + 2.0])):
        outcome = engine.serve(asked, capacity((0.0, 2, 0), (2.5, 1, change)), times, 1, 8192, 0, 1)
        assert sorted(outcome.last_s.tolist()) == last, change
        assert outcome.preempted.sum() == (change == engine.FAILED)


@for_each(
    ("slack", "known", "stays"),
    [(4.0, 1.0, True), (2.0, 1.0, False), (4.0, 0.5, False), (8.0, 0.5, True), (0.0, 1.0, False)],
)
def test_a_prompt_leaves_a_replica_that_is_busier_by_more_than_what_it_finds_there_is_worth(
    slack: float, known: float, stays: bool
) -> None:
    """Three requests run where its blocks are, and none at the other replica."""
    prompts = [[*range(10)] for _ in range(4)]
    prompts.append([*range(int(10 * known)), *range(20, 30 - int(10 * known))])
    begin = np.cumsum([0, *(len(blocks) for blocks in prompts)])
    blocks = Blocks(np.array([b for each in prompts for b in each], dtype=np.int32), begin, 10)
    asked = requests([0.0, 20.0, 20.0, 20.0, 25.0], 101, [1, 50, 50, 50, 1])
    entries = capacity((0.0, 1, engine.DRAINED), (22.0, 2, engine.DRAINED))
    outcome = engine.serve(asked, entries, constant_step(1.0, 8), 8, 8192, engine.PREFIX_AWARE, 1, blocks, slack)
    assert outcome.found[-1] == (100 * known if stays else 0)
