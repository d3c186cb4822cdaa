"""A controller at work on one deployment: its floor by the hour, what it reads of the replicas, and what it orders.

The floor is the plan's count of each hour, which rises early by the start-up time. Instances are billed from their
order until their last answer is written.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from planner.case.controller import Controller
from planner.case.start_up import start_s, start_within_s
from planner.plan.account.account import PlanAccount
from planner.plan.plan import DeploymentPlan, PoolPlan
from planner.verification.arrivals import HOURS
from planner.verification.engine import DRAINED, FAILED, RECLAIMED, SHEDDING, Simulation
from planner.verification.scaling import READY, STARTING, Rule, fresh, rule_of, started, tick
from planner.verification.steps import UNFINISHED

SEEN_S, RATIO_PERCENTILE, MOST_RATIO = 60.0, 90, 2.0
"""of latencies: over which the SLO ratio is read, at which percentile, and the most that is reported"""


@dataclass(frozen=True, eq=False)
class Setting:
    """What a controller needs to know of a deployment."""

    controller: Controller
    rule: Rule
    planned: np.ndarray
    """replicas [hour of the week]"""
    machine_s: float
    engine_s: float
    """of a start"""
    each_has: int
    """replicas of an instance"""
    alone: bool
    """whether no other deployment stands on this offer"""

    @property
    def ticks_per_h(self) -> int:
        return round(3600 / self.controller.period_s)

    @property
    def lead_s(self) -> float:
        c = self.controller
        return (self.machine_s + self.engine_s if c.lead_s is None else c.lead_s) + c.more_lead_s

    def floors(self) -> np.ndarray:
        """Of each tick of the week; it rises early."""
        c = self.controller
        at_s = c.period_s * np.arange(HOURS * self.ticks_per_h)
        if not c.has_floor:
            return np.full(len(at_s), self.rule.fewest)
        kept = np.ceil(c.floor_share * self.planned - 1e-9).astype(np.int64)
        floor = np.zeros(len(at_s), dtype=np.int64)
        for k in range(int(self.lead_s // 3600) + 2):
            ahead = ((at_s + min(3600.0 * k, self.lead_s)) // 3600).astype(int) % HOURS
            floor = np.maximum(floor, kept[ahead])
        return np.minimum(np.maximum(floor + c.buffer * (floor > 0), self.rule.fewest), self.rule.most)

    def instances(self, replicas: np.ndarray) -> np.ndarray:
        """In use; where others stand beside them, their share of instances."""
        share = replicas / self.each_has
        return np.asarray(np.ceil(share) if self.alone else share)


def setting_of(
    view: PlanAccount, pool: PoolPlan, deployed: DeploymentPlan, week: np.ndarray, controller: Controller
) -> Setting:
    """Targets and bounds as amounts, starts as the plan counts on."""
    d = deployed.deployment
    replicas = np.array(deployed.replicas_by_slot)
    peak = int(replicas.max())
    target = controller.target
    if controller.of_plan:
        target *= of_plan(view, pool, deployed, controller.signal)
    fewest = int(replicas.min()) if controller.fewest is None else controller.fewest
    most = max(math.ceil(peak * controller.most_ratio - 1e-9) + controller.buffer, 1)
    engine_s = start_within_s(view.case, d.model, d.quantization)
    others = [x for p in view.plan.pools for x in p.deployments if x.deployment.offer == d.offer and x is not deployed]
    return Setting(
        controller=controller,
        rule=rule_of(controller, target, fewest, most),
        planned=replicas[week],
        machine_s=start_s(view.case, d.model, d.quantization) - engine_s,
        engine_s=engine_s,
        each_has=max(1, view.case.offers[d.offer].gpus // d.gpus_per_replica),
        alone=not others,
    )


def of_plan(view: PlanAccount, pool: PoolPlan, deployed: DeploymentPlan, signal: str) -> float:
    """What a replica of the plan has of a signal in its busiest hour."""
    load, replicas = np.array(deployed.load_by_slot), np.array(deployed.replicas_by_slot)
    busy = np.divide(load, replicas, out=np.zeros_like(load), where=replicas > 0)
    if signal == "rate":
        rate = view.carried(pool, pool.deployments.index(deployed)).sum(axis=1)
        each = np.divide(rate, replicas, out=np.zeros_like(load), where=replicas > 0)
        return max(float(each.max()), 1e-9)
    return max(1.0, float(round(deployed.deployment.requests_in_flight * busy.max())))


class Operator:
    """Runs the replicas of a simulation as its controller says, and keeps the books."""

    def __init__(
        self, setting: Setting, targets_s: tuple[float, float], losses: tuple[tuple[float, int, int], ...] = ()
    ) -> None:
        """Targets of TTFT and TPOT are those that the SLO ratio is held against.

        Losses are times, how replicas go (FAILED or RECLAIMED), and how many.
        """
        self.setting, self.targets_s, self.losses = setting, targets_s, losses
        self.floor = setting.floors()
        ticks = HOURS * setting.ticks_per_h
        self.ready, self.wanted, self.billed, self.came, self.in_flight = (np.zeros(ticks) for _ in range(5))
        self.added = self.removed = self.ups = self.downs = 0
        """replicas ordered and given back, and decisions that did so"""

    @property
    def most(self) -> int:
        return self.setting.rule.most

    def begin(self, begin_s: float) -> int:
        """Replicas at the beginning, which are ready."""
        count = int(max(self.floor[self._place(begin_s)], self.setting.planned[int(begin_s // 3600) % HOURS]))
        self.memory = fresh(self.setting.rule, min(count, self.most))
        self.now_s = begin_s
        self.ttft, self.tpot = np.zeros((2, 0)), np.zeros((2, 0))
        self.sheds_until_s = -math.inf
        return int(self.memory.at[READY])

    def run(self, simulation: Simulation, until_s: float, counts: range) -> None:
        """Serve until some time, and look at the replicas at each tick; what happens in some hours counts."""
        period = self.setting.controller.period_s
        while self.now_s + period <= until_s + 1e-6:
            before, self.now_s = self.now_s, self.now_s + period
            simulation.run(self.now_s)
            self._look(simulation, before, counts)
        simulation.run(until_s)

    def _look(self, simulation: Simulation, before_s: float, counts: range) -> None:
        place = self._place(self.now_s - 1e-6)
        came = int(np.diff(np.searchsorted(simulation.requests.arrival_s, [before_s, self.now_s]))[0])
        signal = self._signal(simulation, before_s, came)
        s, at = self.setting, self.memory.at
        count = int(at[READY] + at[STARTING])
        floor = int(self.floor[self._place(self.now_s)])
        taken = self._lose(before_s)
        left = int(at[READY])
        gone = tick(s.rule, self.memory, self.now_s, signal, floor, s.machine_s, s.engine_s, s.each_has)
        ready, after = int(at[READY]), int(at[READY] + at[STARTING])
        soon = self.memory.ready_at_s[: at[STARTING]]
        soon = soon[soon < self.now_s + s.controller.period_s]
        entries = [(self.now_s, left, taken)] if taken is not None else []
        entries += [(time_s, ready + k, DRAINED) for k, time_s in enumerate([self.now_s, *soon.tolist()])]
        entries = [
            (time_s, replicas, SHEDDING if how == DRAINED and time_s < self.sheds_until_s else how)
            for time_s, replicas, how in entries
        ]
        simulation.scale([e[0] for e in entries], [e[1] for e in entries], [e[2] for e in entries])
        if counts.start <= (self.now_s - 1e-6) // 3600 < counts.stop:
            drained = int((simulation.replicas_at_work[ready:] > 0).sum())
            self.ready[place], self.wanted[place], self.came[place] = ready, after, came
            self.in_flight[place] = simulation.state.replicas.inside.sum() + simulation.waiting
            self.billed[place] = after + max(drained, gone)
            self.added, self.removed = self.added + max(0, after - count), self.removed + max(0, count - after)
            self.ups, self.downs = self.ups + (after > count), self.downs + (after < count)

    def _lose(self, before_s: float) -> int | None:
        """Take the replicas that were lost since the last look, as of now; how they went, if any did.

        Nobody decides on those: their pods wait for machines and start again by themselves.
        """
        lost = [(how, taken) for at_s, how, taken in self.losses if before_s < at_s <= self.now_s]
        memory, s = self.memory, self.setting
        if not lost:
            return None
        start_s, reclaimed = s.machine_s + s.engine_s, any(how == RECLAIMED for how, _ in lost)
        started(memory, self.now_s)
        gone = min(int(memory.at[READY]), sum(taken for _, taken in lost))
        starting = int(memory.at[STARTING])
        times = np.sort(np.append(memory.ready_at_s[:starting], np.full(gone, self.now_s + start_s)))
        memory.ready_at_s[: len(times)] = times
        memory.at[READY], memory.at[STARTING] = memory.at[READY] - gone, starting + gone
        if reclaimed:
            self.sheds_until_s = self.now_s + start_s
        return RECLAIMED if reclaimed else FAILED

    def _place(self, time_s: float) -> int:
        return int(time_s // self.setting.controller.period_s) % len(self.floor)

    def _signal(self, simulation: Simulation, before_s: float, came: int) -> float:
        kind, state = self.setting.controller.signal, simulation.state
        if self.setting.controller.law == "none":
            return 0.0
        if kind == "running":
            return float(state.replicas.inside.sum())
        if kind == "waiting":
            return float(simulation.waiting)
        if kind == "kv":
            each = 1 if simulation.ranks is None else simulation.ranks.number
            used = state.replicas.used[: each * int(self.memory.at[READY])]
            return float(used.sum() / state.speed.room / each)
        if kind == "tokens":
            to_come = (state.outcome.first_s < 0) & (state.outcome.state == UNFINISHED)
            to_come &= state.requests.arrival_s <= self.now_s
            tokens = state.requests.prompt - state.requests.found - state.each.computed
            return float(np.maximum(tokens[to_come], 0.0).sum())
        if kind == "rate":
            return came / self.setting.controller.period_s
        if kind == "slo":
            return self._ratio(simulation, before_s)
        return float(state.replicas.inside.sum() + simulation.waiting)

    def _ratio(self, simulation: Simulation, before_s: float) -> float:
        """How near P90 of TTFT and TPOT of the last minute are to their targets."""
        requests, outcome, c = simulation.requests, simulation.outcome, self.setting.controller
        known_s = outcome.last_s if c.latencies_at_end else outcome.first_s
        first = np.flatnonzero((known_s > before_s) & (known_s <= self.now_s))
        last = np.flatnonzero((outcome.last_s > before_s) & (outcome.last_s <= self.now_s) & (requests.output > 1))
        ttft = np.array([known_s[first], outcome.first_s[first] - requests.arrival_s[first]])
        each_s = (outcome.last_s[last] - outcome.first_s[last]) / (requests.output[last] - 1)
        tpot = np.array([outcome.last_s[last], each_s])
        self.ttft, self.tpot = (
            np.concatenate([old[:, old[0] > self.now_s - SEEN_S], new], axis=1)
            for old, new in ((self.ttft, ttft), (self.tpot, tpot))
        )
        ratios = [
            read_quantile(seen[1], buckets) / target
            for seen, buckets, target in zip(
                (self.ttft, self.tpot), (c.ttft_buckets_s, c.tpot_buckets_s), self.targets_s, strict=True
            )
            if seen.shape[1]
        ]
        return min(MOST_RATIO, max(ratios, default=0.0))


def read_quantile(values: np.ndarray, buckets: tuple[float, ...]) -> float:
    """P90 as a histogram shows it to Prometheus: in proportion within a bucket, the last bound beyond all of them."""
    if not buckets:
        return float(np.percentile(values, RATIO_PERCENTILE))
    bounds, rank = np.array([0.0, *buckets]), RATIO_PERCENTILE / 100 * len(values)
    within = np.searchsorted(np.sort(values), bounds, side="right")
    within[0] = 0
    k = int(np.searchsorted(within, rank))
    if k == len(bounds):
        return float(bounds[-1])
    return float(bounds[k - 1] + (bounds[k] - bounds[k - 1]) * (rank - within[k - 1]) / (within[k] - within[k - 1]))
