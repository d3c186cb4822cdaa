"""Serve a plan: requests to deployments as the plan says, deployments to the simulator, latencies held to promises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import pairwise

import numpy as np

from planner.candidates.replica import TABLE, machine_for, measured_for
from planner.case.api_limits import limits_by_api
from planner.case.case import HOURS_KEPT_FRAC, RouterName
from planner.case.controller import Controller
from planner.case.drafts import speculation_of
from planner.case.start_up import start_s
from planner.io.formatting import counted
from planner.performance.latency import prompts_behind_s
from planner.plan.account.account import PlanAccount, account_of
from planner.plan.account.flows import Served
from planner.plan.operated import Attained, DeploymentOperated, Operation
from planner.plan.plan import DeploymentPlan, Plan, PoolPlan
from planner.plan.serve_commands import engine_settings
from planner.verification import engine, steps
from planner.verification.arrivals import HOURS, slots_of_week, swings
from planner.verification.billing import planned_usd, prices_of
from planner.verification.block_cache import NO_BLOCKS, joined
from planner.verification.differs import Differs
from planner.verification.measuring import Ended, PoolHours, Tally
from planner.verification.operation import Operator, setting_of
from planner.verification.records import DeploymentServed, HoursServed, Verification, WorkloadServed
from planner.verification.request_logs import RequestSource
from planner.verification.sampling import MOST_REQUESTS, WARM_UP_MIN, Schedule, Stretch, shared_out
from planner.verification.scaling import READY
from planner.verification.step_times import step_times
from planner.verification.stock_outs import StockOuts, stock_outs
from planner.verification.traffic import ON_API, ON_GPUS, PARTS, PLANNED_SHED, TURNED_AWAY, Arrived, Traffic
from solvers.backends.clock import Stopped, check, why_stopped

ROUTERS: dict[RouterName, int] = {
    "least-requests": engine.LEAST_REQUESTS,
    "prefix-aware": engine.PREFIX_AWARE,
    "round-robin": engine.ROUND_ROBIN,
    "random": engine.RANDOM,
}
MOST_WAITING = 2_000_000
"""requests of a deployment that wait or are under way, which bounds memory: nobody gets in behind so many"""
DRAWN_POINTS = 720
"""of a day"""
LONGEST_AFTER = 1.0
"""hours for which requests keep coming after a sampled hour, until its own are done"""


@dataclass(frozen=True)
class ServeOptions:
    seed: int = 1
    load: float = 1.0
    """times the demand of the plan"""
    router: RouterName | None = None
    """that of the plan's policy where it is None"""
    month: int | None = None
    """of the quarter, from 0 on; the busiest where it is None"""
    reclaims: int = 0
    """times in the week that a zone's spot replicas are taken away"""
    failures: int = 0
    """times in the week that a replica fails"""
    stock_outs: int = 0
    """hours of the week in which scarce instances beyond what may be there cannot be had"""
    replica_frac: float = 1.0
    """share of the planned replicas that run, rounded up"""
    days: int = 7
    most_requests: int | None = MOST_REQUESTS
    """beyond which hours are sampled; None: never"""
    busiest: int | None = None
    """about so many requests, from minutes of the busiest hours alone, and nothing else; None: the whole week"""
    controller: Controller | None = None
    """that scales every deployment; None: replicas are those of the plan's hours"""
    differs: Differs | None = None
    """how demand differs from the forecast"""


AS_PLANNED = ServeOptions()


def verify_plan(
    plan: Plan,
    options: ServeOptions = AS_PLANNED,
    on_progress: Callable[[str, float], None] = lambda what, done: None,
    log: RequestSource | None = None,
    keep_partial: bool = False,
) -> Verification:
    """Serve a week of a plan's demand, or a log in place of one workload, and hold every promise against it.

    With `keep_partial` a stop ends it with what was measured until then, which says so.
    """
    view = account_of(plan)
    month = busiest_month(view) if options.month is None else options.month
    week = slots_of_week(plan, month)
    factors = swings(
        tuple(s.w for s in view.served), view.case.tenancy.correlation, np.random.default_rng(options.seed)
    )
    if options.differs is not None:
        factors = factors * np.repeat(options.differs.factors(view, week, options.seed), 60)
    out = stock_outs(plan, week, options.stock_outs, options.days, options.seed)
    fleets: list[_Pool] = []
    stopped = None
    try:
        for n, pool in enumerate(plan.pools):
            fleets.append(_Pool(view, pool, week, options, Traffic(
                view, pool, week, factors, options.load, (options.seed, n), log
            ), n, out))  # fmt: skip
        _serve(fleets, options, on_progress)
    except Stopped as stop:
        if not keep_partial:
            raise
        stopped = why_stopped(stop)
    tallied = {name: result for fleet in fleets for name, result in fleet.results().items()}
    workloads = tuple(tallied[s.w.name] if s.w.name in tallied else Tally(s.w).result() for s in view.served)
    hours = tuple(fleet.hours() for fleet in fleets)
    return Verification(
        plan=plan.name,
        case_hash=plan.case_hash,
        fleetplan_version=version("fleetplan"),
        seed=options.seed,
        router=_router(plan, options),
        load=options.load,
        month=month,
        source=log.name if log is not None else "drawn from the demand file",
        requests=sum(w.requests for w in workloads),
        workloads=workloads,
        deployments=tuple(served for fleet in fleets for served in fleet.deployments()),
        notes=(*out.notes, *(note for fleet in fleets for note in fleet.notes()), *_never_turned_away(plan)),
        stopped=stopped,
        hours=hours if stopped is not None or any(h.sampled for h in hours) else (),
        operation=_operation(view, fleets, options, workloads),
    )


def _never_turned_away(plan: Plan) -> Iterator[str]:
    """APIs in use whose limits a minute are not simulated."""
    used = {w.api for w in plan.workloads if w.api}
    for api in dict.fromkeys(api for api, *_ in limits_by_api(plan.case)):
        if api in used:
            yield (
                f"{api} turns nobody away here: the plan keeps to its limits a minute in the busiest minute of each "
                "hour, and what more asks for is not simulated"
            )


def _operation(
    view: PlanAccount, fleets: list[_Pool], options: ServeOptions, workloads: tuple[WorkloadServed, ...]
) -> Operation | None:
    if options.controller is None:
        return None
    operated = tuple(machine for fleet in fleets for machine in fleet.operated())
    told = {w.name: w for w in view.plan.workloads}
    api = planned_api = 0.0
    for fleet in fleets:
        for tally in fleet.tallies:
            usd, came = told[tally.w.name].api_cost_usd_per_month, fleet.api_ratio(tally)
            api, planned_api = api + usd * came, planned_api + usd
    more = sum(d.usd_per_month - d.planned_usd_per_month for d in operated) + api - planned_api
    return Operation(
        controller=options.controller,
        differs="" if options.differs is None else str(options.differs),
        deployments=operated,
        api_usd_per_month=api,
        planned_api_usd_per_month=planned_api,
        usd_per_month=view.plan.cost_usd_per_month + more,
        planned_usd_per_month=view.plan.cost_usd_per_month,
        bound_usd_per_month=view.plan.bound_usd_per_month,
        attained=attained(workloads),
        requests=sum(w.requests for w in workloads),
    )


def attained(workloads: tuple[WorkloadServed, ...]) -> tuple[Attained, ...]:
    return tuple(
        Attained(
            workload=w.name,
            what=p.what,
            target_s=p.target_s,
            percentile=p.percentile,
            within_frac=p.within_frac,
            hours_kept_frac=p.hours_kept_frac,
            kept=p.kept,
        )
        for w in workloads
        for p in w.promises
    )


def _serve(fleets: list[_Pool], options: ServeOptions, on_progress: Callable[[str, float], None]) -> None:
    """Serve a stretch of every pool, then the next one of each, so that what is done says something of all."""
    most = np.inf if options.most_requests is None else options.most_requests
    if options.busiest is not None:
        sampled = sum(fleet.answers_at_once for fleet in fleets)
        for fleet in fleets:
            fleet.schedule_busiest(options.busiest / max(1, sampled))
    else:
        for fleet, share in zip(fleets, shared_out(most, [f.asked for f in fleets]), strict=True):
            fleet.schedule_within(share)
    total = sum(fleet.to_serve for fleet in fleets)
    done = 0.0
    for k in range(max((len(f.schedule.stretches) for f in fleets), default=0)):
        for fleet in (f for f in fleets if k < len(f.schedule.stretches)):
            stretch = fleet.schedule.stretches[k]

            def tell(more: float, fleet: _Pool = fleet, done: float = done) -> None:
                on_progress(f"serving {fleet.pool.key}", min(1.0, (done + more) / max(total, 1.0)))

            fleet.serve(stretch, tell)
            done += fleet.requests_in(stretch)


class _Pool:
    """A pool that is served stretch by stretch of the week."""

    def __init__(
        self,
        view: PlanAccount,
        pool: PoolPlan,
        week: np.ndarray,
        options: ServeOptions,
        traffic: Traffic,
        number: int,
        out: StockOuts,
    ) -> None:
        self.view, self.pool, self.options, self.traffic = view, pool, options, traffic
        self.rng = np.random.default_rng([options.seed, number])
        given = view.case.limits.hours_kept_frac
        hours_kept = HOURS_KEPT_FRAC if given is None else given
        self.tallies = [Tally(s.w, planned_found_frac(view, s), hours_kept) for s in traffic.members]
        none = np.zeros(HOURS, dtype=np.int64)
        self.machines = [
            _Served(view, pool, d, week, options, self.rng, traffic, out.missing.get((pool.key, k), none))
            for k, d in enumerate(pool.deployments)
        ]
        self.served = np.zeros(HOURS, dtype=bool)
        """hours that were, to the last request"""
        self.waiting = np.zeros(HOURS)
        """requests that no replica had begun when an hour began"""
        self.fell_behind = 0
        """sampled hours at the end of which a minute's requests more were waiting than at the beginning"""
        self.schedule = Schedule.whole(traffic.requests, options.days, self._at_once)

    @property
    def _at_once(self) -> bool:
        """Days are served one by one, but where work moves from one to the next, or a log goes on."""
        return self.traffic.log is not None or any(s.decided.moves for s in self.traffic.members)

    @property
    def asked(self) -> float:
        """Requests of the days that are asked for, about."""
        return float(self.traffic.requests[: 24 * self.options.days].sum())

    @property
    def answers_at_once(self) -> bool:
        """Whether replicas answer, and nothing of it may wait."""
        return bool(self.pool.deployments) and not self.view.may_wait(self.pool)

    @property
    def to_serve(self) -> float:
        return sum(self.requests_in(stretch) for stretch in self.schedule.stretches)

    def requests_in(self, stretch: Stretch) -> float:
        """About, those of the warm-up included."""
        hours = stretch.hours
        return float(
            self.traffic.requests[hours.start : hours.stop].sum() * (1 + stretch.warm_up_min / 60 / len(hours))
        )

    @property
    def stress(self) -> np.ndarray:
        """Load of each replica [hour of the week]."""
        load = sum((np.array(m.deployed.load_by_slot) for m in self.machines), np.zeros(len(self.view.slots)))
        replicas = sum((running(m.deployed, 1.0) for m in self.machines), np.zeros(len(load)))
        return np.asarray((load / np.maximum(replicas, 1))[self.traffic.week])

    def schedule_busiest(self, most: float) -> None:
        """Serve minutes of the busiest hours; nothing of what may wait, which they do not show."""
        self.traffic.parts = PARTS[-1]
        self.schedule = Schedule.busiest(self.traffic.requests, self.stress, self.options.days, most)
        if not self.answers_at_once:
            self.schedule = replace(self.schedule, stretches=())

    def schedule_within(self, most: float) -> None:
        """Choose the hours to serve; a log is served whole."""
        stress = self.stress
        warm_up = int(np.clip(np.ceil(self.traffic.remembered_min / WARM_UP_MIN), 1, 4)) * WARM_UP_MIN
        most = np.inf if self.traffic.log is not None else most * (1 + 1e-9)
        self.schedule = Schedule.of(
            self.traffic.requests, stress, self.options.days, most, self._at_once, self.rng, warm_up
        )

    def serve(self, stretch: Stretch, tell: Callable[[float], None]) -> None:
        """Serve a stretch. Stopped, it knows which hours are done."""
        parts, hours = self.traffic.parts, stretch.hours
        first = parts * hours.start - -(-stretch.warm_up_min * parts // 60)
        last = parts * (hours.stop - 1) + -(-stretch.minutes * parts // 60)
        first, done = max(0, first), 0.0
        waiting: list[int] = []
        self.traffic.begin()
        for machine in self.machines:
            machine.begin(first / parts)
        try:
            while first < last or self._goes_on(stretch, first):
                check()
                if first in (parts * hours.start, last) and stretch.goes_on:
                    waiting.append(sum(machine.waiting for machine in self.machines))
                if first % parts == 0:
                    self.waiting[first // parts % HOURS] = sum(machine.waiting for machine in self.machines)
                tell(done)
                self._serve_part(first, hours)
                done += float(self.traffic.requests[first // parts % HOURS]) / parts
                first += 1
            for machine in self.machines:
                machine.finish()
            self._settle(hours, everybody=True)
            self.served[hours.start : hours.stop] = True
            a_minute = float(self.traffic.requests[hours.start]) / 60
            self.fell_behind += len(waiting) == 2 and waiting[1] > waiting[0] + a_minute
        except Stopped:
            self._settle(hours)
            complete = np.arange(HOURS) < first // parts
            for machine in self.machines:
                complete[machine.hours_under_way()] = False
            self.served[hours.start : hours.stop] |= complete[hours.start : hours.stop]
            raise
        finally:
            for machine in self.machines:
                machine.end(hours)
            self.traffic.end()

    def _goes_on(self, stretch: Stretch, first: int) -> bool:
        """Whether requests keep coming after the last hour of a stretch."""
        after_h = first / self.traffic.parts - stretch.hours.stop
        return stretch.goes_on and after_h < LONGEST_AFTER and any(m.is_serving(stretch.hours) for m in self.machines)

    def _serve_part(self, number: int, hours: range) -> None:
        """Serve what comes in a part of an hour; requests that are let in in some hours count."""
        arrived = self.traffic.part(number)
        for a, tally in zip(arrived, self.tallies, strict=True):
            tally.add(_counted(_elsewhere(a), hours))
        for k, machine in enumerate(self.machines):
            for tally, refused in zip(self.tallies, machine.let_in(k, arrived, hours), strict=True):
                tally.add(_counted(refused, hours))
        for machine in self.machines:
            machine.run(3600.0 * (number + 1) / self.traffic.parts, hours)
        self._settle(hours)

    def _settle(self, hours: range, everybody: bool = False) -> None:
        for machine in self.machines:
            for tally, ended in zip(self.tallies, machine.take_ended(len(self.tallies), everybody), strict=True):
                tally.add(_counted(ended, hours))

    def results(self) -> dict[str, WorkloadServed]:
        measured, showed = self.schedule.measured(self.served), self._by_hour()
        return {tally.w.name: tally.result(measured, showed) for tally in self.tallies}

    def _by_hour(self) -> PoolHours:
        return PoolHours(
            requests=sum((tally.counts["requests"] for tally in self.tallies), np.zeros(HOURS)),
            planned_requests=self.traffic.planned,
            replicas=sum((machine.replicas_by_hour() for machine in self.machines), np.zeros(HOURS)),
            planned_replicas=sum((running(m.deployed, 1.0)[m.week] for m in self.machines), np.zeros(HOURS)),
            busy_s=sum((machine.busy_s for machine in self.machines), np.zeros(HOURS)),
            waiting=self.waiting,
        )

    def hours(self) -> HoursServed:
        asked = 24 * self.options.days
        return HoursServed(
            pool=self.pool.key,
            hours=tuple(np.flatnonzero(self.served).tolist()),
            of=asked,
            sampled=self.schedule.sampled,
            requests=round(self.asked),
        )

    def deployments(self) -> list[DeploymentServed]:
        weights = self.schedule.measured(self.served).weights * self.traffic.covered
        return [machine.result(weights) for machine in self.machines]

    def operated(self) -> Iterator[DeploymentOperated]:
        """Deployments behind their controllers."""
        weights = self.schedule.measured(self.served).hours * self.traffic.covered
        late = sum(
            (tally.owed.sum(axis=1) - min_kept for tally in self.tallies for min_kept in [tally.counts["kept"]]),
            np.zeros(HOURS),
        )
        day = int(np.argmax((late * (weights > 0)).reshape(7, 24).sum(axis=1)))
        yield from (machine.operated(self.view, weights, day) for machine in self.machines)

    def api_ratio(self, tally: Tally) -> float:
        """Requests that came in the hours that were served, over those that the plan counts on."""
        weights = self.schedule.measured(self.served).weights
        planned = float(weights @ self.traffic.planned)
        came = float(weights @ sum((t.counts["requests"] for t in self.tallies), np.zeros(HOURS)))
        return came / planned if planned else 1.0

    def notes(self) -> Iterator[str]:
        if any(d.deployment.bound_by == TABLE for d in self.pool.deployments):
            yield f"{self.pool.key}: rates were measured, step times are those of the performance model"
        if self.fell_behind:
            hours = counted(self.fell_behind, "sampled hour")
            yield (
                f"{self.pool.key}: replicas fell behind in {hours}; what piles up over several hours is not seen by a "
                "sample: --requests all serves every hour"
            )
        turned_away = sum(machine.crowded_out for machine in self.machines)
        if turned_away:
            yield (
                f"{self.pool.key}: {turned_away:,} requests came while {MOST_WAITING:,} were waiting; they were not "
                "served and count as unfinished"
            )


def _elsewhere(a: Arrived) -> Ended:
    """Requests that go to no deployment."""
    some = np.flatnonzero(a.place < ON_GPUS)
    place = a.place[some]
    state = np.where(place == PLANNED_SHED, steps.SHED, steps.UNFINISHED)
    state = np.where(place == TURNED_AWAY, steps.REFUSED, state).astype(np.int8)
    return _unserved(a, some, state, on_api=place == ON_API, hosted=np.zeros(len(some), dtype=bool))


def _unserved(a: Arrived, some: np.ndarray, state: np.ndarray, on_api: np.ndarray, hosted: np.ndarray) -> Ended:
    """Requests of which no replica had any."""
    none, stream = np.full(len(some), -1.0), a.stream
    return Ended(
        a.let_in_s[some], stream.arrival_s[some], stream.prompt[some], stream.output[some], hosted, on_api, state,
        none, none, np.zeros(len(some), dtype=np.int32), np.zeros(len(some)),
    )  # fmt: skip


def _counted(ended: Ended, hours: range) -> Ended:
    """Those that were let in in some hours."""
    inside = (ended.let_in_s >= 3600.0 * hours.start) & (ended.let_in_s < 3600.0 * hours.stop)
    return ended if inside.all() else Ended(*(column[inside] for column in ended))


def _router(plan: Plan, options: ServeOptions) -> RouterName:
    return options.router or plan.case.limits.routing


def busiest_month(view: PlanAccount, months: Iterable[int] | None = None) -> int:
    """Of some months of a plan, by default of all, the first of those with the most requests that no cache answers."""
    rates = np.sum([view.rates_rps(s.seen) for s in view.served], axis=0)

    def requests(month: int) -> float:
        return float(rates[view.month_of == month].sum())

    return max(sorted(months if months is not None else {s.month for s in view.slots}), key=requests)


class _Served:
    """A deployment of a pool, and what it did so far."""

    def __init__(
        self,
        view: PlanAccount,
        pool: PoolPlan,
        deployed: DeploymentPlan,
        week: np.ndarray,
        options: ServeOptions,
        rng: np.random.Generator,
        traffic: Traffic,
        missing: np.ndarray,
    ) -> None:
        self.pool, self.deployed, self.week, self.options, self.traffic = pool, deployed, week, options, traffic
        d, case = deployed.deployment, view.case
        self.settings = engine_settings(view.plan, pool, d)
        self.router = ROUTERS[_router(view.plan, options)]
        self.slack = min(engine.MOST_SLACK, engine.SLACK_PLACES * d.staffing_in_flight)
        there = np.minimum(
            running(deployed, options.replica_frac)[week], np.maximum(0, running(deployed, 1.0)[week] - missing)
        )
        self.losses = _losses(deployed, options, rng, there, week)
        self.capacity = _capacity(view, deployed, week, options, self.losses, there)
        members = view.members(pool)
        plain = machine_for(case, d.variant, d.batched_tokens if d.boxes_per_replica else None)
        _, correction = measured_for(case, plain, d.variant)
        speculation = speculation_of(case, d.variant, [s.w for s in members])
        machine = replace(plain, lora=view.traffic(pool).lora, speculation=speculation)
        longest = min(traffic.longest, float(self.settings.context_tokens))
        resident = sum(_resident_tokens(s, traffic.caches_blocks_of(k)) for k, s in enumerate(members))
        self.machine, self.budget = machine, machine.boxes * self.settings.batched_tokens
        self.times = step_times(machine, self.settings.sequences, self.budget, longest, resident, correction)
        # Tiers are served as one, as large as the largest and as slow as what is found on average.
        tiers = (d.prefix_cache.tiers or ()) if d.prefix_cache is not None else ()
        found = sum(t.found_fracs[0] for t in tiers)
        read_us = sum(t.found_fracs[0] * t.read_us_per_token for t in tiers) / found if found else 0.0
        self.host = max((t.cache_tokens for t in tiers), default=0.0), read_us / 1e6
        self.requests, self.busy_s = np.zeros(HOURS), np.zeros(HOURS)
        self.crowded_out = 0
        self.operator: Operator | None = None
        if options.controller is not None:
            setting = setting_of(view, pool, deployed, week, options.controller)
            at_once = [s.w for s in members]
            targets_s = min(w.ttft.seconds for w in at_once), min(w.tpot.seconds for w in at_once)
            self.operator = Operator(setting, targets_s, self.losses)
        self.simulation: engine.Simulation
        """while a stretch is served"""

    def begin(self, hour: float) -> None:
        """Replicas with nothing to do, from some hour on."""
        tokens = self.traffic.block_tokens if self.traffic.caches_blocks else 0
        capacity, most = self._from(3600.0 * hour), 1
        if self.operator is not None:
            first = self.operator.begin(3600.0 * hour)
            capacity, most = (
                engine.Capacity(np.array([3600.0 * hour]), np.array([first]), np.array([0])),
                self.operator.most,
            )
        self.simulation = engine.Simulation(
            capacity, self.times, self.settings.sequences, self.budget, self.router,
            self.options.seed, 2 * HOURS, tokens, most_replicas=most, host_tokens=self.host[0], read_s=self.host[1],
            slack=self.slack,
        )  # fmt: skip
        self.member, self.arrival_s = np.zeros(0, dtype=np.int16), np.zeros(0)

    def run(self, until_s: float, hours: range) -> None:
        """Serve what comes before some time."""
        if self.operator is None:
            self.simulation.run(until_s)
        else:
            self.operator.run(self.simulation, until_s, hours)

    def finish(self) -> None:
        """Serve what is left; a controller that has no replica gets one."""
        if self.operator is not None and self.simulation.waiting and not self.operator.memory.at[READY]:
            self.simulation.scale([self.operator.now_s + self.operator.setting.engine_s], [1])
        self.simulation.run()

    def let_in(self, k: int, arrived: list[Arrived], hours: range) -> list[Ended]:
        """Let in the requests that go to this deployment, the k-th of its pool; returns those that it does not take."""
        own = [np.flatnonzero(a.place == k) for a in arrived]
        let_in = np.concatenate([a.let_in_s[i] for a, i in zip(arrived, own, strict=True)])
        hour = (let_in // 3600).astype(int)
        self.requests += np.bincount(hour[(hour >= hours.start) & (hour < hours.stop)], minlength=HOURS)

        def of(name: str) -> np.ndarray:
            return np.concatenate([getattr(a.stream, name)[i] for a, i in zip(arrived, own, strict=True)])

        prompt, output = of("prompt"), of("output")
        crowded = len(self.simulation) >= MOST_WAITING
        takes = (prompt + output <= self.settings.context_tokens) & (not crowded)
        order = np.argsort(let_in, kind="stable")
        order = order[takes[order]]
        columns = (let_in, prompt, of("found"), output, of("critical"))
        blocks = NO_BLOCKS
        if self.simulation.cache is not None:
            parts = [(a.blocks, i) for a, i in zip(arrived, own, strict=True)]
            blocks = joined(parts, order, self.traffic.block_tokens)
        self.simulation.add(steps.Requests(*(x[order] for x in columns)), blocks)
        member = np.repeat(np.arange(len(arrived), dtype=np.int16), [len(i) for i in own])
        self.member = np.concatenate([self.member, member[order]])
        self.arrival_s = np.concatenate([self.arrival_s, of("arrival_s")[order]])
        self.crowded_out += len(let_in) if crowded else 0
        state, refused = steps.UNFINISHED if crowded else steps.REFUSED, []
        begin = np.cumsum([0, *(len(i) for i in own)])
        for m, (a, i) in enumerate(zip(arrived, own, strict=True)):
            some = i[~takes[begin[m] : begin[m + 1]]]
            everyone = np.ones(len(some), dtype=bool)
            refused.append(_unserved(a, some, np.full(len(some), state, dtype=np.int8), ~everyone, everyone))
        return refused

    def take_ended(self, members: int, everybody: bool) -> list[Ended]:
        """Requests that are done, of each member; or all that are there, in which case nothing goes on."""
        ended, requests, outcome = self.simulation.take_ended()
        ended_by_member = [self._ended(ended, requests, outcome, m) for m in range(members)]
        kept = np.ones(len(self.member), dtype=bool)
        kept[ended] = False
        self.member, self.arrival_s = self.member[kept], self.arrival_s[kept]
        if everybody:
            left = self.simulation
            rest = [self._ended(np.arange(len(left)), left.requests, left.outcome, m) for m in range(members)]
            ended_by_member = [
                Ended(*map(np.concatenate, zip(a, b, strict=True))) for a, b in zip(ended_by_member, rest, strict=True)
            ]
        return ended_by_member

    def _ended(self, places: np.ndarray, requests: steps.Requests, outcome: steps.Outcome, member: int) -> Ended:
        mine = self.member[places] == member
        here, found = np.ones(int(mine.sum()), dtype=bool), np.maximum(outcome.found[mine], 0.0)
        first_s, last_s = outcome.first_s[mine], outcome.last_s[mine]
        if self.machine.boxes > 1:  # a step ends when the first box is done with it
            behind_s = prompts_behind_s(self.machine, np.maximum(requests.prompt[mine] - found, 1.0))
            first_s, last_s = (np.where(at_s < 0, at_s, at_s + behind_s) for at_s in (first_s, last_s))
        return Ended(
            requests.arrival_s[mine], self.arrival_s[places][mine], requests.prompt[mine], requests.output[mine], here,
            ~here, outcome.state[mine], first_s, last_s, outcome.preempted[mine], found,
        )  # fmt: skip

    def is_serving(self, hours: range) -> bool:
        """Whether requests of some hours are waiting or under way."""
        let_in_s = self.simulation.requests.arrival_s
        return bool(((let_in_s >= 3600.0 * hours.start) & (let_in_s < 3600.0 * hours.stop)).any())

    @property
    def waiting(self) -> int:
        """Requests that no replica has begun."""
        return self.simulation.waiting

    def hours_under_way(self) -> np.ndarray:
        """Hours of the week in which requests were let in that are not done."""
        unfinished = self.simulation.outcome.state == steps.UNFINISHED
        return np.unique((self.simulation.requests.arrival_s[unfinished] // 3600).astype(int)) % HOURS

    def end(self, hours: range) -> None:
        """Add up the time in steps in some hours, and forget the rest."""
        self.busy_s[hours.start : hours.stop] += busy_within(self.simulation.outcome.busy_s, hours)
        del self.simulation

    def _from(self, begin_s: float) -> engine.Capacity:
        """The capacity from some time on; a replica that fails before is there again or not."""
        times, counts, changes = self.capacity
        first = int(np.searchsorted(times, begin_s, side="right")) - 1
        start = engine.Capacity(np.array([begin_s]), counts[first : first + 1], changes[first : first + 1])
        return engine.Capacity(
            *(np.concatenate([a, b[first + 1 :]]) for a, b in zip(start, self.capacity, strict=True))
        )

    def replicas_by_hour(self) -> np.ndarray:
        """Replicas that ran, mean [hour of the week]."""
        if self.operator is not None:
            return np.asarray(self.operator.ready.reshape(HOURS, -1).mean(axis=1))
        times, counts, _ = self.capacity
        ends = np.append(times[1:], np.inf)
        hours = 3600.0 * np.arange(HOURS)[:, None]
        overlap = np.clip(np.minimum(ends, hours + 3600) - np.maximum(times, hours), 0.0, 3600.0)
        mean: np.ndarray = overlap @ counts / 3600
        return mean

    def result(self, weights: np.ndarray) -> DeploymentServed:
        there = weights > 0
        replicas = running(self.deployed, self.options.replica_frac)[self.week] * there
        peak = int(replicas.max())
        if self.operator is not None:
            replicas, peak = self.replicas_by_hour() * there, int(self.operator.ready.max())
        load = np.array(self.deployed.load_by_slot)[self.week]
        there_s = 3600 * float(weights @ replicas)
        # Replicas that go finish their work when they do not count any more.
        busy_s = float(weights @ np.minimum(self.busy_s, 3600 * replicas))
        return DeploymentServed(
            pool=self.pool.key,
            deployment=self.deployed.deployment.key,
            requests=int(self.requests[there].sum()),
            mean_replicas=float(weights @ replicas / weights.sum()) if there.any() else 0.0,
            peak_replicas=peak,
            utilization_frac=busy_s / there_s if there_s else 0.0,
            load_frac=float(self.options.load * (weights @ load) * 3600 / there_s) if there_s else 0.0,
        )

    def operated(self, view: PlanAccount, weights: np.ndarray, day: int) -> DeploymentOperated:
        """What a controller did, and what it came to."""
        assert self.operator is not None
        o, s = self.operator, self.operator.setting
        prices = prices_of(view, self.deployed, s, self.week)
        billed = s.instances(o.billed)
        usd_by_hour = prices.usd(billed)
        by_hour = billed.reshape(HOURS, -1).mean(axis=1)
        planned = s.instances(s.planned) + np.maximum(0, np.diff(s.planned, prepend=s.planned[-1])) / s.each_has * (
            s.machine_s / 3600
        )
        rate = view.carried(self.pool, self.pool.deployments.index(self.deployed)).sum(axis=1)
        load = np.array(self.deployed.load_by_slot)
        each_s = np.divide(load, rate, out=np.zeros_like(load), where=rate > 0)[self.week]
        busy = o.came.reshape(HOURS, -1) / s.controller.period_s * each_s[:, None]
        there = o.ready > 0
        return DeploymentOperated(
            pool=self.pool.key,
            deployment=self.deployed.deployment.key,
            target=s.rule.target if s.controller.law in ("proportional", "panic") else 0.0,
            fewest=s.rule.fewest,
            most=s.rule.most,
            start_s=s.machine_s + s.engine_s,
            mean_replicas=float(weights @ self.replicas_by_hour() / max(1e-9, weights.sum())),
            planned_mean_replicas=float(weights @ s.planned / max(1e-9, weights.sum())),
            instance_h_per_month=prices.a_month(by_hour, weights),
            planned_instance_h_per_month=prices.a_month(planned, weights),
            usd_per_month=prices.a_month(usd_by_hour, weights),
            usd_by_hour=tuple((usd_by_hour * (weights > 0)).tolist()),
            planned_usd_per_month=prices.a_month(planned_usd(prices, s), weights),
            load_frac=float((busy.reshape(-1)[there] / o.ready[there]).mean()) if there.any() else 0.0,
            in_flight=float((o.in_flight[there] / o.ready[there]).mean()) if there.any() else 0.0,
            ups=o.ups,
            downs=o.downs,
            added=o.added,
            removed=o.removed,
            worst_day=day,
            **{
                name: _of_day(values.reshape(-1), day)
                for name, values in (("demand", busy), ("wanted", o.wanted), ("ready", o.ready), ("billed", o.billed))
            },
        )


def _of_day(by_tick: np.ndarray, day: int) -> tuple[float, ...]:
    """Every two minutes, or as often as there is a tick, mean."""
    of_day = by_tick.reshape(7, -1)[day]
    points = np.linspace(0, len(of_day), min(len(of_day), DRAWN_POINTS) + 1).astype(int)
    return tuple(round(float(of_day[a:b].mean()), 3) for a, b in pairwise(points))


def busy_within(busy_s: np.ndarray, hours: range) -> np.ndarray:
    """Time in steps in some hours [hour]; what is left over after the last of them is done in another time."""
    seconds = np.zeros(len(hours))
    of_hours = busy_s[hours.start : hours.stop]
    seconds[: len(of_hours)] = of_hours
    return seconds


def _resident_tokens(s: Served, in_blocks: bool) -> float:
    """What a replica keeps all the time so that it is found; blocks that caches decide on are no part of it."""
    prefixes = 0.0 if in_blocks else s.seen.prefixes * s.seen.shared_prefix_tokens
    return prefixes + s.seen.template_tokens


def planned_found_frac(view: PlanAccount, s: Served) -> float:
    """Share of a workload's prompt tokens on GPUs that the plan expects to find."""
    pool = view.plan.pool_of(s.w.name)
    members = view.members(pool)
    start = sum(len(other.w.buckets) for other in members[: members.index(s)])
    cached = tokens = 0.0
    for k, deployed in enumerate(pool.deployments):
        carried = [view.a_month(view.carried(pool, k)[:, start + b]) for b in range(len(s.w.buckets))]
        cache = deployed.deployment.prefix_cache
        more = cache.found_fracs[members.index(s)] - s.seen.shared_found_frac if cache is not None else 0.0
        for rate, b in zip(carried, s.w.buckets, strict=True):
            tokens += rate * b.input_tokens
            cached += rate * (s.seen.cached_tokens(b.input_tokens) + more * b.input_tokens)
    return cached / tokens if tokens else 0.0


def running(deployed: DeploymentPlan, replica_frac: float) -> np.ndarray:
    """Replicas that run [slot]."""
    return np.ceil(replica_frac * np.array(deployed.replicas_by_slot) - 1e-9).astype(np.int64)


def _capacity(
    view: PlanAccount,
    deployed: DeploymentPlan,
    week: np.ndarray,
    options: ServeOptions,
    losses: tuple[tuple[float, int, int], ...],
    there: np.ndarray,
) -> engine.Capacity:
    """Replicas by the hour, less what cannot be had, and what a reclaim or a failure takes until a new one has started.

    Those that are there are without what cannot be had [hour of the week].
    """
    planned = np.concatenate(
        [there, running(deployed, options.replica_frac)[week]]
    )  # what waits at the end of the week is done in the next
    down_s = _start_up_s(view, deployed)
    events: list[tuple[float, int, int]] = [(3600.0 * h, engine.DRAINED, 0) for h in range(len(planned))]
    for start, change, taken in losses:
        events += [(start, change, -taken), (start + down_s, change, taken)]
    return _replicas_over_time(planned, sorted(events))


def _losses(
    deployed: DeploymentPlan, options: ServeOptions, rng: np.random.Generator, there: np.ndarray, week: np.ndarray
) -> tuple[tuple[float, int, int], ...]:
    """When reclaims and failures come, how, and how many of the replicas that are there each takes."""
    spot = np.maximum(0, np.array(deployed.replicas_by_slot) - np.array(deployed.firm_replicas_by_slot))[week]
    cuts = [(engine.RECLAIMED, -(-spot // max(1, deployed.deployment.spot_zones)))] * options.reclaims
    cuts += [(engine.FAILED, np.minimum(there, 1))] * options.failures
    found = []
    for change, taken in cuts:
        busy = np.flatnonzero(np.minimum(taken, there)[: 24 * options.days] > 0)
        if len(busy):
            hour = int(rng.choice(busy))
            found.append((3600.0 * hour + float(rng.uniform(0, 3600)), change, int(taken[hour])))
    return tuple(found)


def _replicas_over_time(planned: np.ndarray, events: list[tuple[float, int, int]]) -> engine.Capacity:
    """Follow the plan by the hour [replicas], and what is taken and comes back: (time, how, how many)."""
    entries: list[tuple[float, int, int]] = []
    alive, wanted, reclaimed = 0, 0, 0
    for time_s, change, more in events:
        before, wanted = wanted, int(planned[min(int(time_s / 3600), len(planned) - 1)])
        alive = min(max(0, alive + more) + max(0, wanted - before), wanted)
        reclaimed += (1 if more < 0 else -1) if change == engine.RECLAIMED else 0
        if more < 0:
            how = engine.RECLAIMED if reclaimed else engine.FAILED
        else:
            how = engine.SHEDDING if reclaimed else engine.DRAINED
        state = (alive, reclaimed > 0)
        if not entries or state != (entries[-1][1], entries[-1][2] in (engine.RECLAIMED, engine.SHEDDING)):
            entries.append((time_s, alive, how))
    times, counts, changes = zip(*entries, strict=True)
    return engine.Capacity(np.array(times), np.array(counts), np.array(changes))


def _start_up_s(view: PlanAccount, deployed: DeploymentPlan) -> float:
    d = deployed.deployment
    return max(60.0, start_s(view.case, d.model, d.quantization))
