"""Serve a plan: requests to deployments as the plan says, deployments to the simulator, latencies held to promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version

import numpy as np

from planner.candidates.replica import TABLE, machine_for, measured_for
from planner.case.case import RouterName
from planner.case.weights import start_s
from planner.plan.plan import DeploymentPlan, Plan, PoolPlan
from planner.plan.serve_commands import engine_settings
from planner.plan.view import PlanView, Served, traffic_of
from planner.verification import engine
from planner.verification.arrivals import HOURS, Stream, drawn_stream, slots_of_week, swings
from planner.verification.block_cache import joined
from planner.verification.measuring import Tally
from planner.verification.prefixes import block_tokens
from planner.verification.records import DeploymentServed, Verification
from planner.verification.request_logs import RequestSource
from planner.verification.step_times import step_times

ROUTERS: dict[RouterName, int] = {
    "least-requests": engine.LEAST_REQUESTS,
    "prefix-aware": engine.PREFIX_AWARE,
    "round-robin": engine.ROUND_ROBIN,
    "random": engine.RANDOM,
}
ON_API, ON_GPUS, PLANNED_SHED, TURNED_AWAY = -1, 0, -2, -3
"""where a request goes: an API, deployment number 0 and up, or nowhere: shed, or longer than is let in"""


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
    replica_frac: float = 1.0
    """share of the planned replicas that run, rounded up"""
    days: int = 7


AS_PLANNED = ServeOptions()


@dataclass(frozen=True, eq=False)
class Arrived:
    """Requests of a workload, and where each goes."""

    served: Served
    stream: Stream
    place: np.ndarray
    release_s: np.ndarray
    """when work that may wait is let in"""


def verify_plan(
    plan: Plan,
    options: ServeOptions = AS_PLANNED,
    on_progress: Callable[[str, float], None] = lambda what, done: None,
    log: RequestSource | None = None,
) -> Verification:
    """Serve a week of a plan's demand, or a log in place of one workload, and hold every promise against it."""
    view = PlanView(plan)
    month = _busiest_month(view) if options.month is None else options.month
    week = slots_of_week(plan, month)
    factors = swings(
        tuple(s.w for s in view.served), view.case.tenancy.correlation, np.random.default_rng(options.seed)
    )
    tallies = {s.w.name: Tally(s.w, planned_found_frac(view, s)) for s in view.served}
    deployments: list[DeploymentServed] = []
    notes = []
    for n, pool in enumerate(plan.pools):
        fleet = _Pool(view, pool, week, options, n)
        parts = fleet.parts(log)
        for k, hours in enumerate(parts):
            on_progress(f"serving {pool.key}", (n + k / len(parts)) / len(plan.pools))
            fleet.serve(hours, factors, log, tallies)
        deployments += fleet.deployments()
        if any(d.deployment.bound_by == TABLE for d in pool.deployments):
            notes.append(f"{pool.key}: rates were measured, step times are those of the performance model")
    workloads = tuple(tallies[s.w.name].result() for s in view.served)
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
        deployments=tuple(deployments),
        notes=tuple(notes),
    )


class _Pool:
    """A pool that is served part by part of the week."""

    def __init__(self, view: PlanView, pool: PoolPlan, week: np.ndarray, options: ServeOptions, number: int) -> None:
        self.view, self.pool, self.week, self.options, self.number = view, pool, week, options, number
        self.members = view.members(pool)
        rng = np.random.default_rng([options.seed, number])
        reusing = [s.seen for s in self.members if s.seen.prefix_reuse is not None]
        self.block_tokens = 1
        if reusing:
            peak_rps = options.load * sum(max(*w.weekday_rps, *w.weekend_rps) for w in reusing)
            replicas = max((max(d.replicas_by_slot) for d in pool.deployments), default=1)
            self.block_tokens = block_tokens(reusing, 3600 * len(self.parts(None)[0]) * peak_rps, max(1, replicas))
        self.machines = [_Served(view, pool, d, week, options, rng) for d in pool.deployments]

    def parts(self, log: RequestSource | None) -> list[range]:
        """Days, which bounds memory; the whole week where work moves from one to the next."""
        hours = 24 * self.options.days
        logged = log is not None and log.workload in self.pool.workloads
        if logged or any(s.told.moves for s in self.members):
            return [range(hours)]
        return [range(h, h + 24) for h in range(0, hours, 24)]

    def serve(self, hours: range, factors: np.ndarray, log: RequestSource | None, tallies: dict[str, Tally]) -> None:
        view, rng = self.view, np.random.default_rng([self.options.seed, self.number, hours.start])
        arrived = []
        logged = log.block_tokens if log is not None and log.workload in self.pool.workloads else None
        tokens = logged or self.block_tokens
        for s in self.members:
            if log is not None and log.workload == s.w.name:
                stream = log.stream(s.seen, self.options.load, rng, tokens)
            else:
                rates = self.options.load * np.array(view.arriving_rps(s.seen))[self.week]
                stream = drawn_stream(s.seen, rates, factors[view.served.index(s)], hours, rng, tokens)
            slot = self.week[np.minimum(stream.arrival_s / 3600, HOURS - 1).astype(int)]
            place = _places(view, s, stream, slot, rng)
            arrived.append(Arrived(s, stream, place, _released(view, s, stream, slot, rng)))
        answers = [_Answers(len(a.stream)) for a in arrived]
        for k, machine in enumerate(self.machines):
            machine.serve(k, hours, arrived, answers)
        for a, answer in zip(arrived, answers, strict=True):
            state = np.where(a.place == PLANNED_SHED, engine.SHED, answer.state)
            state = np.where(a.place == TURNED_AWAY, engine.REFUSED, state)
            tallies[a.served.w.name].add(
                a.stream, a.place >= ON_GPUS, a.place == ON_API, state, answer.first_s, answer.last_s, answer.preempted,
                answer.found,
            )  # fmt: skip

    def deployments(self) -> list[DeploymentServed]:
        return [machine.result() for machine in self.machines]


class _Answers:
    """Outcome of the requests of a workload; -1 where there was no token."""

    def __init__(self, count: int) -> None:
        self.first_s, self.last_s = np.full(count, -1.0), np.full(count, -1.0)
        self.state = np.full(count, engine.UNFINISHED, dtype=np.int8)
        self.preempted = np.zeros(count, dtype=np.int32)
        self.found = np.zeros(count)


def _router(plan: Plan, options: ServeOptions) -> RouterName:
    return options.router or plan.case.limits.routing


def _busiest_month(view: PlanView) -> int:
    months = sorted({s.month for s in view.plan.slots})
    hours = [[t for t, s in enumerate(view.plan.slots) if s.month == m] for m in months]
    rates = [np.array(view.rates_rps(s.seen)) for s in view.served]
    return months[int(np.argmax([sum(float(r[h].sum()) for r in rates) for h in hours]))]


def _places(view: PlanView, s: Served, stream: Stream, slot: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """By length and hour, in the proportions of the plan; what is longer than is let in goes nowhere."""
    demand = np.array(s.demand)
    pool = view.plan.pool_of(s.w.name)
    ways = {ON_API: s.told.api_flows, PLANNED_SHED: s.told.shed_flows}
    ways |= {k + 1: told for k, told in enumerate(s.told.deployment_flows)}
    draw, place = rng.random(len(stream)), np.full(len(stream), ON_GPUS if pool.deployments else ON_API)
    below = np.zeros(len(stream))
    for where, flows in ways.items():
        share = np.divide(np.array(view.flow(s.w, flows)), demand, out=np.zeros_like(demand), where=demand > 0)
        each = share[slot, stream.bucket]
        place[(draw >= below) & (draw < below + each)] = where
        below = below + each
    if s.w.length_limit is not None:
        place[stream.prompt + stream.output > s.w.length_limit.tokens] = TURNED_AWAY
    return place


def _released(view: PlanView, s: Served, stream: Stream, slot: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Work that waits is let in some time in the hour that the plan moves it to."""
    if not s.told.moves:
        return stream.arrival_s
    rate = np.array([sum(rates) for rates in s.kept])
    hour = np.array([t.hour for t in view.plan.slots])
    draw, below, release = rng.random(len(stream)), np.zeros(len(stream)), stream.arrival_s.copy()
    within = rng.random(len(stream))
    for move in s.told.moves:
        here = slot == move.from_slot
        each = np.where(here, move.requests_per_s / max(rate[move.from_slot], 1e-12), 0.0)
        moved = here & (draw >= below) & (draw < below + each)
        later = (hour[move.to_slot] - hour[move.from_slot]) % 24
        start = 3600 * (np.floor(stream.arrival_s / 3600) + later)
        release[moved] = np.maximum(start + 3600 * within, stream.arrival_s)[moved]
        below = below + each
    return release


class _Served:
    """A deployment of a pool, and what it did so far."""

    def __init__(
        self,
        view: PlanView,
        pool: PoolPlan,
        told: DeploymentPlan,
        week: np.ndarray,
        options: ServeOptions,
        rng: np.random.Generator,
    ) -> None:
        self.pool, self.told, self.week, self.options = pool, told, week, options
        d, case = told.deployment, view.case
        self.settings = engine_settings(view.plan, pool, d)
        self.router = ROUTERS[_router(view.plan, options)]
        self.capacity = _capacity(view, told, week, options, rng)
        traffic = traffic_of(view, view.members(pool))
        plain = machine_for(case, d.variant)
        _, self.correction = measured_for(case, plain, d.variant)
        self.machine = replace(plain, lora=traffic.lora)
        self.requests, self.busy_s = 0, np.zeros(24 * options.days)

    def serve(self, k: int, hours: range, arrived: list[Arrived], answers: list[_Answers]) -> None:
        """Serve the requests of some hours that go to this deployment, the k-th of its pool."""
        own = [np.flatnonzero(a.place == k) for a in arrived]
        member = np.repeat(np.arange(len(arrived)), [len(i) for i in own])
        index = np.concatenate(own)
        release = np.concatenate([a.release_s[i] for a, i in zip(arrived, own, strict=True)])
        order = np.argsort(release, kind="stable")
        member, index, release = member[order], index[order], release[order]
        self.requests += len(release)
        if not len(release):
            return

        def of(name: str) -> np.ndarray:
            return np.concatenate([getattr(a.stream, name)[i] for a, i in zip(arrived, own, strict=True)])[order]

        prompt, output = of("prompt"), of("output")
        fits = prompt + output <= self.settings.context_tokens
        requests = engine.Requests(*(x[fits] for x in (release, prompt, of("found"), output, of("critical"))))
        sequences, budget = self.settings.sequences, self.settings.batched_tokens
        longest = float((requests.prompt + requests.output).max(initial=1.0))
        resident = sum(_resident_tokens(a) for a in arrived)
        times = step_times(self.machine, sequences, budget, longest, resident, self.correction)
        tokens = next((a.stream.blocks.tokens for a in arrived if a.stream.blocks is not None), 1)
        parts = [(a.stream.blocks, i) for a, i in zip(arrived, own, strict=True)]
        blocks = joined(parts, order[fits], tokens)
        outcome = engine.serve(
            requests, self._from(hours), times, sequences, budget, self.router, self.options.seed, blocks
        )
        self.busy_s[hours.start : hours.stop] += busy_within(outcome.busy_s, hours)
        for m, answer in enumerate(answers):
            mine = member[fits] == m
            at = index[fits][mine]
            answer.first_s[at], answer.last_s[at] = outcome.first_s[mine], outcome.last_s[mine]
            answer.state[at], answer.preempted[at] = outcome.state[mine], outcome.preempted[mine]
            answer.found[at] = np.maximum(outcome.found[mine], 0.0)
            answer.state[index[~fits][member[~fits] == m]] = engine.REFUSED

    def _from(self, hours: range) -> engine.Capacity:
        """The capacity from the first of these hours on; a replica that fails before them is there again or not."""
        begin = 3600.0 * hours.start
        times, counts, changes = self.capacity
        first = int(np.searchsorted(times, begin, side="right")) - 1
        start = engine.Capacity(np.array([begin]), counts[first : first + 1], changes[first : first + 1])
        return engine.Capacity(
            *(np.concatenate([a, b[first + 1 :]]) for a, b in zip(start, self.capacity, strict=True))
        )

    def result(self) -> DeploymentServed:
        hours = 24 * self.options.days
        replicas = running(self.told, self.options.replica_frac)[self.week][:hours]
        load = np.array(self.told.load_by_slot)[self.week][:hours]
        there_s = float(replicas.sum()) * 3600
        # Replicas that go finish their work when they do not count any more.
        busy_s = float(np.minimum(self.busy_s, 3600 * replicas).sum())
        return DeploymentServed(
            pool=self.pool.key,
            deployment=self.told.deployment.key,
            requests=self.requests,
            mean_replicas=float(replicas.mean()),
            peak_replicas=int(replicas.max()),
            utilization_frac=busy_s / there_s if there_s else 0.0,
            load_frac=float(self.options.load * load.sum() * 3600 / there_s) if there_s else 0.0,
        )


def busy_within(busy_s: np.ndarray, hours: range) -> np.ndarray:
    """Time in steps in some hours [hour]; what is left over after the last of them is done in another time."""
    found = np.zeros(len(hours))
    of_hours = busy_s[hours.start : hours.stop]
    found[: len(of_hours)] = of_hours
    return found


def _resident_tokens(a: Arrived) -> float:
    """What a replica keeps all the time so that it is found; blocks that caches decide on are no part of it."""
    seen = a.served.seen
    prefixes = seen.prefixes * seen.shared_prefix_tokens if a.stream.blocks is None else 0.0
    return prefixes + seen.template_tokens


def planned_found_frac(view: PlanView, s: Served) -> float:
    """Share of a workload's prompt tokens on GPUs that the plan expects to find."""
    pool = view.plan.pool_of(s.w.name)
    members = view.members(pool)
    start = sum(len(other.w.buckets) for other in members[: members.index(s)])
    found = tokens = 0.0
    for k, told in enumerate(pool.deployments):
        carried = [view.a_month([rates[start + b] for rates in view.carried(pool, k)]) for b in range(len(s.w.buckets))]
        cache = told.deployment.prefix_cache
        more = cache.found_fracs[members.index(s)] - s.seen.shared_found_frac if cache is not None else 0.0
        for rate, b in zip(carried, s.w.buckets, strict=True):
            tokens += rate * b.input_tokens
            found += rate * (s.seen.cached_tokens(b.input_tokens) + more * b.input_tokens)
    return found / tokens if tokens else 0.0


def running(told: DeploymentPlan, replica_frac: float) -> np.ndarray:
    """Replicas that run [slot]."""
    return np.ceil(replica_frac * np.array(told.replicas_by_slot) - 1e-9).astype(np.int64)


def _capacity(
    view: PlanView, told: DeploymentPlan, week: np.ndarray, options: ServeOptions, rng: np.random.Generator
) -> engine.Capacity:
    """Replicas by the hour, less what a reclaim or a failure takes until a new one has started."""
    planned = running(told, options.replica_frac)[week]
    planned = np.concatenate([planned, planned])  # what waits at the end of the week is done in the next
    spot = np.maximum(0, np.array(told.replicas_by_slot) - np.array(told.firm_replicas_by_slot))[week]
    cuts = [(engine.RECLAIMED, -(-spot // max(1, told.deployment.spot_zones)))] * options.reclaims
    cuts += [(engine.FAILED, np.minimum(planned[:HOURS], 1))] * options.failures
    down_s = _start_up_s(view, told)
    events: list[tuple[float, int, int]] = [(3600.0 * h, engine.DRAINED, 0) for h in range(len(planned))]
    for change, taken in cuts:
        busy = np.flatnonzero(np.minimum(taken, planned[:HOURS])[: 24 * options.days] > 0)
        if len(busy):
            hour = int(rng.choice(busy))
            start = 3600.0 * hour + float(rng.uniform(0, 3600))
            events += [(start, change, -int(taken[hour])), (start + down_s, change, int(taken[hour]))]
    return _replicas_over_time(planned, sorted(events))


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


def _start_up_s(view: PlanView, told: DeploymentPlan) -> float:
    d = told.deployment
    return max(60.0, start_s(view.case, d.model, d.quantization))
