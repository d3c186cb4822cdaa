"""How many replicas a controller asks for, and which of them are ready: one tick of its loop, compiled by numba.

A tick reads a signal, averages it, asks a law for a count, and holds that within stabilization windows, steps, cooldown
and bounds, in the order of a HorizontalPodAutoscaler. Replicas that are asked for are ready after their start, removals
count at once: those that still start go first, the latest of them before others.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from planner.case.controller import LAWS, Controller
from planner.verification.compiled import compiled, inlined

NONE, PROPORTIONAL, SLO, PANIC = range(4)
assert LAWS == ("none", "proportional", "slo", "panic")
UNLIMITED = 1_000_000


class Rule(NamedTuple):
    """A controller for one deployment; windows are counted in ticks."""

    law: int
    target: float
    up_at: float
    down_at: float
    tolerance: float
    window: int
    up_window: int
    down_window: int
    up_pods: int
    up_frac: float
    up_period: int
    down_pods: int
    down_frac: float
    down_period: int
    cooldown: int
    panic_window: int
    panic_threshold: float
    up_rate: float
    down_rate: float
    fewest: int
    most: int


class Memory(NamedTuple):
    """What a controller remembers: rings by tick, and the replicas that start."""

    signal: np.ndarray
    asked: np.ndarray
    added: np.ndarray
    removed: np.ndarray
    at: np.ndarray
    """the counters named below"""
    ready_at_s: np.ndarray
    """of those that start, the soonest first"""


TICK, READY, STARTING, LAST_DOWN, PANIC_UNTIL = range(5)
COUNTERS = 5


def rule_of(c: Controller, target: float, fewest: int, most: int) -> Rule:
    """The rule of a controller with its target as an amount and its bounds as counts."""

    def ticks(seconds: float) -> int:
        return math.ceil(seconds / c.period_s - 1e-9)

    free_up, free_down = c.up_pods is None and c.up_frac is None, c.down_pods is None and c.down_frac is None
    return Rule(
        law=LAWS.index(c.law), target=float(target), up_at=c.up_at, down_at=c.down_at,
        tolerance=c.tolerance_frac, window=max(1, ticks(c.window_s)), up_window=max(1, ticks(c.up_window_s)),
        down_window=max(1, ticks(c.down_window_s)), up_pods=UNLIMITED if free_up else c.up_pods or 0,
        up_frac=c.up_frac or 0.0, up_period=max(1, ticks(c.up_period_s)),
        down_pods=UNLIMITED if free_down else c.down_pods or 0, down_frac=c.down_frac or 0.0,
        down_period=max(1, ticks(c.down_period_s)), cooldown=ticks(c.cooldown_s),
        panic_window=max(1, ticks(c.panic_window_s)), panic_threshold=c.panic_threshold,
        up_rate=c.up_rate or math.inf, down_rate=c.down_rate or math.inf, fewest=fewest, most=max(most, fewest),
    )  # fmt: skip


def fresh(rule: Rule, ready: int) -> Memory:
    """A controller that has seen nothing, with so many replicas ready."""
    longest = max(rule.window, rule.up_window, rule.down_window, rule.up_period, rule.down_period, rule.panic_window)
    memory = Memory(
        np.zeros(longest), np.zeros(longest, dtype=np.int64), np.zeros(longest, dtype=np.int64),
        np.zeros(longest, dtype=np.int64), np.zeros(COUNTERS, dtype=np.int64), np.full(max(1, rule.most), np.inf),
    )  # fmt: skip
    memory.at[READY], memory.at[LAST_DOWN], memory.at[PANIC_UNTIL] = ready, -UNLIMITED, -1
    return memory


@inlined
def proportional(count: int, total: float, target: float, tolerance: float) -> int:
    """A HorizontalPodAutoscaler on an average value: as many as bring it to its target, unless that is nearly so."""
    if count > 0 and abs(total / (count * target) - 1.0) <= tolerance:
        return count
    return math.ceil(total / target - 1e-9)


@inlined
def by_slo(count: int, ready: int, ratio: float, up_at: float, down_at: float) -> int:
    """llm-d's SLO-aware law: in proportion to the ratio, corrected by the share that is ready, if any is."""
    if ratio > up_at:
        credit = ready / count if 0 < ready < count else 1.0
        return count + math.ceil(count * (ratio * credit / up_at - 1.0) - 1e-9)
    if ratio < down_at:
        return count - math.floor(count * (1.0 - ratio / down_at) + 1e-9)
    return count


@compiled
def _mean(ring: np.ndarray, tick: int, window: int) -> float:
    total, n = 0.0, min(window, tick + 1)
    for k in range(n):
        total += ring[(tick - k) % len(ring)]
    return total / n


@compiled
def _asked(rule: Rule, memory: Memory, count: int, ready: int, tick: int) -> int:
    """What the law asks for."""
    if rule.law == NONE:
        return 0
    seen = _mean(memory.signal, tick, rule.window)
    if rule.law == SLO:
        return by_slo(count, ready, seen, rule.up_at, rule.down_at)
    asked = proportional(count, seen, rule.target, rule.tolerance)
    if rule.law == PANIC:
        lately = _mean(memory.signal, tick, rule.panic_window)
        in_panic = math.ceil(lately / rule.target - 1e-9)
        if in_panic >= rule.panic_threshold * max(1, ready):
            memory.at[PANIC_UNTIL] = tick + rule.window
        if tick <= memory.at[PANIC_UNTIL]:
            asked = max(asked, in_panic, count)
    if rule.up_rate < math.inf:
        asked = min(asked, max(count, math.ceil(rule.up_rate * max(1, ready))))
    if rule.down_rate < math.inf:
        asked = max(asked, math.floor(ready / rule.down_rate))
    return asked


@compiled
def decide(rule: Rule, memory: Memory, signal: float, floor: int) -> int:
    """Replicas from this tick on, ready or not."""
    tick, ready = memory.at[TICK], memory.at[READY]
    count = ready + memory.at[STARTING]
    place = tick % len(memory.signal)
    memory.signal[place] = signal
    asked = min(max(_asked(rule, memory, count, ready, tick), floor, rule.fewest), rule.most)
    memory.asked[place] = asked
    after = asked
    if asked > count:  # the lowest of the window, and none is taken away
        for k in range(min(rule.up_window, tick + 1)):
            after = min(after, memory.asked[(tick - k) % len(memory.asked)])
        after = max(after, count)
    elif asked < count:  # the highest of the window, and none is added
        for k in range(min(rule.down_window, tick + 1)):
            after = max(after, memory.asked[(tick - k) % len(memory.asked)])
        after = min(after, count)
    if after > count and rule.up_pods < UNLIMITED:
        before = count
        for k in range(1, min(rule.up_period, tick + 1)):
            before -= memory.added[(tick - k) % len(memory.added)]
        limit = max(before + rule.up_pods, math.ceil(before * (1.0 + rule.up_frac) - 1e-9))
        after = max(count, min(after, limit))
    if after < count and rule.down_pods < UNLIMITED:
        before = count
        for k in range(1, min(rule.down_period, tick + 1)):
            before += memory.removed[(tick - k) % len(memory.removed)]
        limit = min(before - rule.down_pods, math.floor(before * (1.0 - rule.down_frac) + 1e-9))
        after = min(count, max(after, limit))
    if after < count and tick - memory.at[LAST_DOWN] < rule.cooldown:
        after = count
    after = min(max(after, rule.fewest), rule.most)
    memory.added[place], memory.removed[place] = max(0, after - count), max(0, count - after)
    if after < count:
        memory.at[LAST_DOWN] = tick
    memory.at[TICK] = tick + 1
    return int(after)


@compiled
def become(memory: Memory, now_s: float, after: int, machine_s: float, engine_s: float, each_has: int) -> int:
    """Order or take away replicas; returns how many of the ready ones go. New machines take longer than the engine."""
    ready, starting = memory.at[READY], memory.at[STARTING]
    while ready + starting < after:
        is_new = (ready + starting) % each_has == 0
        at = now_s + engine_s + (machine_s if is_new else 0.0)
        k = starting
        while k > 0 and memory.ready_at_s[k - 1] > at:
            memory.ready_at_s[k] = memory.ready_at_s[k - 1]
            k -= 1
        memory.ready_at_s[k] = at
        starting += 1
    while starting > 0 and ready + starting > after:
        starting -= 1
        memory.ready_at_s[starting] = np.inf
    gone = max(0, ready - after)
    memory.at[READY], memory.at[STARTING] = ready - gone, starting
    return int(gone)


@compiled
def started(memory: Memory, now_s: float) -> int:
    """Replicas whose start is over count as ready; returns how many those are."""
    starting, n = memory.at[STARTING], 0
    while n < starting and memory.ready_at_s[n] <= now_s:
        n += 1
    for k in range(starting - n):
        memory.ready_at_s[k] = memory.ready_at_s[k + n]
    for k in range(starting - n, starting):
        memory.ready_at_s[k] = np.inf
    memory.at[READY] += n
    memory.at[STARTING] = starting - n
    return n


@compiled
def tick(
    rule: Rule,
    memory: Memory,
    now_s: float,
    signal: float,
    floor: int,
    machine_s: float,
    engine_s: float,
    each_has: int,
) -> int:
    """One look of the controller; returns the ready replicas that it takes away."""
    started(memory, now_s)
    return become(memory, now_s, decide(rule, memory, signal, floor), machine_s, engine_s, each_has)
