"""A slow and obvious controller, written from the published laws: everything is looked up in the whole history."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean

from planner.case.controller import Controller


@dataclass(eq=False)
class NaiveController:
    c: Controller
    target: float
    fewest: int
    most: int
    machine_s: float
    engine_s: float
    each_has: int
    ready: int
    starting: list[float] = field(default_factory=list)
    """times at which replicas will be ready"""
    signals: list[tuple[float, float]] = field(default_factory=list)
    asked: list[tuple[float, int]] = field(default_factory=list)
    counts: list[tuple[float, int, int]] = field(default_factory=list)
    """time, count before and after"""
    panic_until: float = -1.0

    def look(self, now: float, signal: float, floor: int) -> None:
        self.ready += sum(at <= now for at in self.starting)
        self.starting = [at for at in self.starting if at > now]
        count = self.ready + len(self.starting)
        self.signals.append((now, signal))
        asked = max(self._law(now, count), floor, self.fewest)
        asked = min(asked, max(self.most, self.fewest))
        self.asked.append((now, asked))
        least = min(n for at, n in self.asked if self._within(at, now, self.c.up_window_s))
        greatest = max(n for at, n in self.asked if self._within(at, now, self.c.down_window_s))
        after = min(max(count, least), greatest)
        if after > count and (self.c.up_pods is not None or self.c.up_frac is not None):
            added = [b - a for at, a, b in self.counts if b > a and self._within(at, now, self.c.up_period_s)]
            before = count - sum(added)
            pods = before + (self.c.up_pods or 0)
            after = max(count, min(after, max(pods, math.ceil(before * (1 + (self.c.up_frac or 0.0)) - 1e-9))))
        if after < count and (self.c.down_pods is not None or self.c.down_frac is not None):
            removed = [a - b for at, a, b in self.counts if b < a and self._within(at, now, self.c.down_period_s)]
            before = count + sum(removed)
            pods = before - (self.c.down_pods or 0)
            after = min(count, max(after, min(pods, math.floor(before * (1 - (self.c.down_frac or 0.0)) + 1e-9))))
        last_down = max((at for at, a, b in self.counts if b < a), default=-math.inf)
        if after < count and now - last_down < self.c.cooldown_s - 1e-6:
            after = count
        after = min(max(after, self.fewest), max(self.most, self.fewest))
        self.counts.append((now, count, after))
        self._order(now, after)

    def lose(self, now: float, taken: int) -> None:
        """Ready replicas go without a decision; as many start again at once, on new machines."""
        self.ready += sum(at <= now for at in self.starting)
        self.starting = [at for at in self.starting if at > now]
        gone = min(self.ready, taken)
        self.ready -= gone
        self.starting = sorted([*self.starting, *[now + self.machine_s + self.engine_s] * gone])

    def _within(self, at: float, now: float, window_s: float) -> bool:
        """The last ticks of a window; a window of none has the tick itself."""
        return at > now - max(window_s, self.c.period_s) + 1e-6

    def _mean(self, now: float, window_s: float) -> float:
        return fmean(x for at, x in self.signals if self._within(at, now, window_s))

    def _law(self, now: float, count: int) -> int:
        c, seen = self.c, self._mean(now, self.c.window_s)
        if c.law == "none":
            return 0
        if c.law == "slo":
            if seen > c.up_at:
                credit = self.ready / count if 0 < self.ready < count else 1
                return count + math.ceil(count * (seen * credit / c.up_at - 1) - 1e-9)
            return count - math.floor(count * (1 - seen / c.down_at) + 1e-9) if seen < c.down_at else count
        nearly = count > 0 and abs(seen / (count * self.target) - 1) <= c.tolerance_frac
        asked = count if nearly else math.ceil(seen / self.target - 1e-9)
        if c.law == "panic":
            panic = math.ceil(self._mean(now, c.panic_window_s) / self.target - 1e-9)
            if panic >= c.panic_threshold * max(1, self.ready):
                self.panic_until = now + math.ceil(max(c.window_s, c.period_s) / c.period_s) * c.period_s
            if now <= self.panic_until + 1e-6:
                asked = max(asked, panic, count)
        if c.up_rate is not None:
            asked = min(asked, max(count, math.ceil(c.up_rate * max(1, self.ready))))
        return asked if c.down_rate is None else max(asked, math.floor(self.ready / c.down_rate))

    def _order(self, now: float, after: int) -> None:
        while self.ready + len(self.starting) < after:
            new = (self.ready + len(self.starting)) % self.each_has == 0
            self.starting.append(now + self.engine_s + (self.machine_s if new else 0.0))
        self.starting.sort()
        while self.starting and self.ready + len(self.starting) > after:
            self.starting.pop()
        self.ready = min(self.ready, after)
