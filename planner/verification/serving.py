"""Serve a plan: requests to deployments as the plan says, deployments to the simulator, latencies held to promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version

import numpy as np

from planner.candidates.replica import TABLE, machine_for, measured_for
from planner.plan.plan import DeploymentPlan, Plan, PoolPlan
from planner.plan.serve_commands import engine_settings
from planner.plan.view import PlanView, Served, traffic_of
from planner.verification import engine
from planner.verification.arrivals import HOURS, Stream, drawn_stream, slots_of_week, swings
from planner.verification.measuring import served_workload
from planner.verification.records import DeploymentServed, Verification, WorkloadServed
from planner.verification.step_times import step_times

ROUTERS = {"least-requests": engine.LEAST_REQUESTS, "round-robin": engine.ROUND_ROBIN, "random": engine.RANDOM}
ON_API, ON_GPUS, PLANNED_SHED = -1, 0, -2
"""where a request goes: an API, deployment number 0 and up, or nowhere"""


@dataclass(frozen=True)
class ServeOptions:
    seed: int = 1
    load: float = 1.0
    """times the demand of the plan"""
    router: str = "least-requests"
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


@dataclass(frozen=True, eq=False)
class Answered:
    """What came of the requests of a workload; NaN where there was no token."""

    first_s: np.ndarray
    last_s: np.ndarray
    state: np.ndarray
    preempted: np.ndarray


def verify_plan(
    plan: Plan,
    options: ServeOptions = AS_PLANNED,
    on_progress: Callable[[str, float], None] = lambda what, done: None,
    streams: dict[str, Stream] | None = None,
    source: str = "drawn from the demand file",
) -> Verification:
    """Serve a week of a plan's demand, or requests of a log, and hold every promise against what came of it."""
    view = PlanView(plan)
    month = _busiest_month(view) if options.month is None else options.month
    week = slots_of_week(plan, month)
    rng = np.random.default_rng(options.seed)
    on_progress("drawing requests", 0.0)
    arrived = _arrived(view, week, options, rng, streams)
    answers = {name: _nothing(len(a.stream)) for name, a in arrived.items()}
    deployments, notes = [], []
    pairs = [(pool, k) for pool in plan.pools for k in range(len(pool.deployments))]
    for n, (pool, k) in enumerate(pairs):
        on_progress(f"serving {pool.deployments[k].deployment.key}", n / len(pairs))
        deployments.append(_serve_deployment(view, pool, k, week, arrived, answers, options, rng))
        if pool.deployments[k].deployment.bound_by == TABLE:
            notes.append(f"{pool.key}: rates were measured, step times are those of the performance model")
    on_progress("measuring", 1.0)
    workloads = tuple(_measured(arrived[s.w.name], answers[s.w.name]) for s in view.served)
    return Verification(
        plan=plan.name,
        case_hash=plan.case_hash,
        fleetplan_version=version("fleetplan"),
        seed=options.seed,
        router=options.router,
        load=options.load,
        month=month,
        source=source,
        requests=sum(w.requests for w in workloads),
        workloads=workloads,
        deployments=tuple(deployments),
        notes=tuple(notes),
    )


def _busiest_month(view: PlanView) -> int:
    months = sorted({s.month for s in view.plan.slots})
    hours = [[t for t, s in enumerate(view.plan.slots) if s.month == m] for m in months]
    rates = [np.array(view.rates_rps(s.seen)) for s in view.served]
    return months[int(np.argmax([sum(float(r[h].sum()) for r in rates) for h in hours]))]


def _arrived(
    view: PlanView, week: np.ndarray, options: ServeOptions, rng: np.random.Generator, streams: dict[str, Stream] | None
) -> dict[str, Arrived]:
    factors = swings(tuple(s.w for s in view.served), view.case.tenancy.correlation, rng)
    arrived = {}
    for s, factor in zip(view.served, factors, strict=True):
        rates = options.load * np.array(view.rates_rps(s.seen))[week]
        rates[24 * options.days :] = 0.0
        stream = streams[s.w.name] if streams is not None else drawn_stream(s.seen, rates, factor, rng)
        slot = week[np.minimum(stream.arrival_s / 3600, HOURS - 1).astype(int)]
        place = _places(view, s, stream, slot, rng)
        arrived[s.w.name] = Arrived(s, stream, place, _released(view, s, stream, slot, rng))
    return arrived


def _places(view: PlanView, s: Served, stream: Stream, slot: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """By length and hour, in the proportions of the plan."""
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


def _serve_deployment(
    view: PlanView,
    pool: PoolPlan,
    k: int,
    week: np.ndarray,
    arrived: dict[str, Arrived],
    answers: dict[str, Answered],
    options: ServeOptions,
    rng: np.random.Generator,
) -> DeploymentServed:
    told, plan = pool.deployments[k], view.plan
    d, case = told.deployment, plan.case
    members = view.members(pool)
    own = [np.flatnonzero(arrived[s.w.name].place == k) for s in members]
    member = np.repeat(np.arange(len(members)), [len(i) for i in own])
    index = np.concatenate(own) if own else np.zeros(0, dtype=np.int64)
    release = np.concatenate([arrived[s.w.name].release_s[i] for s, i in zip(members, own, strict=True)])
    order = np.argsort(release, kind="stable")
    member, index, release = member[order], index[order], release[order]

    def of(name: str) -> np.ndarray:
        whole = [getattr(arrived[s.w.name].stream, name)[i] for s, i in zip(members, own, strict=True)]
        return np.concatenate(whole)[order]

    prompt, output = of("prompt"), of("output")
    settings = engine_settings(plan, d)
    fits = prompt + output <= settings.context_tokens
    requests = engine.Requests(release, prompt, of("found"), output, of("critical"))
    requests = engine.Requests(*(column[fits] for column in requests))
    capacity = _capacity(view, told, week, options, rng)
    replicas = np.ceil(options.replica_frac * np.array(told.replicas_by_slot)[week] - 1e-9)
    traffic = traffic_of(view, members)
    plain = machine_for(case, d.model, d.quantization, d.gpu, d.gpus_per_replica)
    _, correction = measured_for(case, plain, d.model, d.quantization, d.gpu, d.gpus_per_replica)
    longest = float((requests.prompt + requests.output).max(initial=1.0))
    times = step_times(
        replace(plain, lora=traffic.lora), settings.sequences, settings.batched_tokens, longest,
        float(np.max(traffic.lengths.resident_tokens)), correction,
    )  # fmt: skip
    outcome = engine.serve(
        requests, capacity, times, settings.sequences, settings.batched_tokens, ROUTERS[options.router], options.seed
    )
    for m, s in enumerate(members):
        answer = answers[s.w.name]
        mine = member[fits] == m
        at = index[fits][mine]
        answer.first_s[at], answer.last_s[at] = outcome.first_s[mine], outcome.last_s[mine]
        answer.state[at], answer.preempted[at] = outcome.state[mine], outcome.preempted[mine]
        answer.state[index[~fits][member[~fits] == m]] = engine.REFUSED
    hours = 24 * options.days
    there = float(replicas[:hours].sum()) * 3600
    load = np.array(told.load_by_slot)[week][:hours]
    return DeploymentServed(
        pool=pool.key,
        deployment=d.key,
        requests=len(release),
        mean_replicas=float(replicas[:hours].mean()),
        peak_replicas=int(replicas.max()),
        utilization_frac=float(outcome.busy_s[:hours].sum() / there) if there else 0.0,
        load_frac=float(options.load * load.sum() * 3600 / there) if there else 0.0,
    )


def _capacity(
    view: PlanView, told: DeploymentPlan, week: np.ndarray, options: ServeOptions, rng: np.random.Generator
) -> engine.Capacity:
    """Replicas by the hour, less what a reclaim or a failure takes until a new one has started."""
    planned = np.ceil(options.replica_frac * np.array(told.replicas_by_slot)[week] - 1e-9).astype(np.int64)
    spot = np.maximum(0, np.array(told.replicas_by_slot) - np.array(told.firm_replicas_by_slot))[week]
    times, counts, changes = [0.0], [int(planned[0])], [engine.DRAINED]
    cuts = [(engine.RECLAIMED, -(-spot // max(1, told.deployment.spot_zones)))] * options.reclaims
    cuts += [(engine.FAILED, np.minimum(planned, 1))] * options.failures
    down_s = _start_up_s(view, told)
    events: list[tuple[float, int, int]] = [(3600.0 * h, int(planned[h]), engine.DRAINED) for h in range(1, HOURS)]
    for change, taken in cuts:
        busy = np.flatnonzero(taken > 0)
        if not len(busy):
            continue
        hour = int(rng.choice(busy))
        start = 3600.0 * hour + float(rng.uniform(0, 3600))
        events.append((start, int(planned[hour] - taken[hour]), change))
        end_hour = min(HOURS - 1, int((start + down_s) / 3600))
        events = [e for e in events if not start < e[0] <= start + down_s or e[0] == start]
        events.append((start + down_s, int(planned[end_hour]), engine.DRAINED))
    for time_s, count, change in sorted(events):
        if count != counts[-1] or change != changes[-1]:
            times.append(time_s)
            counts.append(max(0, count))
            changes.append(change)
    return engine.Capacity(np.array(times), np.array(counts), np.array(changes))


def _start_up_s(view: PlanView, told: DeploymentPlan) -> float:
    from planner.performance.memory import weight_bytes

    case, d = view.case, told.deployment
    loading = weight_bytes(case.models[d.model], case.quantizations[d.quantization]) / 1e9 / case.start.weights_gb_per_s
    return max(60.0, case.start.instance_s + loading)


def _nothing(count: int) -> Answered:
    state = np.full(count, engine.UNFINISHED, dtype=np.int8)
    return Answered(np.full(count, -1.0), np.full(count, -1.0), state, np.zeros(count, dtype=np.int32))


def _measured(arrived: Arrived, answer: Answered) -> WorkloadServed:
    s, stream = arrived.served, arrived.stream
    hosted = arrived.place >= ON_GPUS
    state = np.where(arrived.place == PLANNED_SHED, engine.SHED, answer.state)
    return served_workload(
        s.w, stream, hosted, arrived.place == ON_API, state, answer.first_s, answer.last_s, answer.preempted
    )
