"""What a plan says of each hour: GPUs bought, staffed and busy, and requests by who answers them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from planner.plan.account.account import account_of
from planner.plan.plan import DeploymentPlan, Flow, Plan
from planner.reports.charts.colours import FATES, PURCHASES, way_of

BySlot = Sequence[float]


@dataclass(frozen=True)
class Stack:
    """A layer of a picture."""

    name: str
    colour: int
    values: BySlot


@dataclass(frozen=True)
class Curve:
    """A line on top of them."""

    name: str
    kind: str
    values: BySlot


@dataclass(frozen=True)
class Day:
    """Hours that are drawn together."""

    title: str
    slots: tuple[int, ...]
    short: str = ""
    """for the head of a row"""


ALIKE_FRAC = 0.10
"""of the mean level: months that differ by less in their mean hour share a picture"""


@dataclass(frozen=True, eq=False)
class Hours:
    """What a plan says of each hour."""

    plan: Plan

    @cached_property
    def days(self) -> list[Day]:
        """Every kind of day of every month."""
        return [self._day(kind, (slots,)) for kind, slots in self._by_kind]

    def days_unlike(self, *series: BySlot) -> list[Day]:
        """The same, but months that hardly differ in any of these series are one: the last of them is drawn."""
        together: list[tuple[str, list[tuple[int, ...]]]] = []
        for kind, slots in self._by_kind:
            last = together[-1] if together else None
            if last is not None and last[0] == kind and all(_alike(x, last[1][0], slots) for x in series):
                last[1].append(slots)
            else:
                together.append((kind, [slots]))
        return [self._day(kind, tuple(months)) for kind, months in together]

    @cached_property
    def _by_kind(self) -> list[tuple[str, tuple[int, ...]]]:
        by_day: dict[tuple[str, int], list[int]] = {}
        for t, s in enumerate(self.plan.slots):
            by_day.setdefault((s.day, s.month), []).append(t)
        return [(kind, tuple(slots)) for (kind, _), slots in sorted(by_day.items())]

    def _day(self, kind: str, months: tuple[tuple[int, ...], ...]) -> Day:
        said = {"weekday": "a weekday", "weekend": "a weekend day"}[kind]
        first, last = (self.plan.slots[slots[0]].month + 1 for slots in (months[0], months[-1]))
        if not self.plan.slots[-1].month:
            return Day(said.capitalize(), months[-1], kind)
        if first == last:
            return Day(f"Month {last}, {said}", months[-1], f"{last} {kind}")
        title = f"Months {first} {'and' if last == first + 1 else 'to'} {last}, {said} (month {last} is drawn)"
        return Day(title, months[-1], f"{first}-{last} {kind}")

    @property
    def gpus(self) -> list[str]:
        return sorted({line.gpu for line in self.plan.fleet})

    def bought(self, purchase: str, gpu: str | None) -> list[float]:
        """GPUs that are paid for [slot]"""
        lines = [f for f in self.plan.fleet if way_of(f.purchase) == purchase and gpu in (None, f.gpu)]
        return [float(sum(f.instances_by_slot[t] * f.gpus_per_instance for f in lines)) for t in self._slots]

    def busy(self, gpu: str | None) -> list[float]:
        return self._gpus(gpu, lambda d, t: d.load_by_slot[t])

    def staffed(self, gpu: str | None) -> list[float]:
        return self._gpus(gpu, lambda d, t: d.replicas_by_slot[t])

    def stacks(self, gpu: str | None) -> list[Stack]:
        every = [Stack(name, colour, self.bought(name, gpu)) for name, colour in PURCHASES.items()]
        return [s for s in every if any(s.values)]

    @cached_property
    def fates(self) -> list[Stack]:
        """Requests a second by who answers them."""
        facts, n = account_of(self.plan), len(self.plan.slots)
        rates = {name: [0.0] * n for name in FATES}
        for s in facts.served:
            seen, asked = facts.rates_rps(s.seen), facts.rates_rps(s.w)
            api, shed = (self._rps(flows) for flows in (s.decided.api_flows, s.decided.shed_flows))
            for t in range(n):
                rates["cache"][t] += asked[t] - seen[t]
                rates["API"][t] += api[t]
                rates["shed"][t] += shed[t]
                rates["GPUs"][t] += max(0.0, seen[t] - api[t] - shed[t])
        return [Stack(name, FATES[name], v) for name, v in rates.items() if max(v) > 1e-9]

    @cached_property
    def done(self) -> list[float] | None:
        """Requests a second that GPUs do, where some wait."""
        if not any(w.moves for w in self.plan.workloads):
            return None
        done = next(list(s.values) for s in self.fates if s.name == "GPUs")
        for move in (m for w in self.plan.workloads for m in w.moves):
            done[move.from_slot] -= move.requests_per_s
            done[move.to_slot] += move.requests_per_s
        return [max(0.0, x) for x in done]

    @property
    def _slots(self) -> range:
        return range(len(self.plan.slots))

    def _gpus(self, gpu: str | None, each: Callable[[DeploymentPlan, int], float]) -> list[float]:
        of = [d for p in self.plan.pools for d in p.deployments if gpu in (None, d.deployment.gpu)]
        return [sum(d.deployment.gpus_per_replica * each(d, t) for d in of) for t in self._slots]

    def _rps(self, flows: Sequence[Flow]) -> list[float]:
        rps = [0.0] * len(self.plan.slots)
        for flow in flows:
            rps[flow.slot] += sum(flow.requests_per_s)
        return rps


def _alike(series: BySlot, a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two days hardly differ: by the mean of their hours, against the higher of their levels."""
    level = max(sum(series[t] for t in a), sum(series[t] for t in b))
    return sum(abs(series[s] - series[t]) for s, t in zip(a, b, strict=True)) <= ALIKE_FRAC * level
