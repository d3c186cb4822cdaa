"""Why each workload is served as it is: what serves it, what binds it, the runner-up, and why nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.candidates.candidate import SOME_LENGTHS
from planner.case.case import Case
from planner.case.changes import one_after_the_other, with_workload
from planner.catalog.variant import of_key
from planner.explanations.records import Choice, RunnerUp, extra_cost
from planner.io.formatting import percent
from planner.optimization.replan import Experiment
from planner.plan.plan import Plan, PoolPlan
from planner.plan.why_not import menu_judged
from solvers.search.fleet_solution import FleetSolution, Outcome


@dataclass(frozen=True)
class Asked:
    """Choices that share a runner-up, and the case in which it is found."""

    choices: tuple[Choice, ...]
    experiment: Experiment


def choices_of(plan: Plan, workload: str | None = None) -> list[Asked]:
    """Choices of every pool, or of one workload's; pools that differ only in name are asked once."""
    found: dict[object, Asked] = {}
    for pool in plan.pools:
        if workload is None or workload in pool.workloads:
            names = pool.workloads if workload is None else (workload,)
            choices = tuple(_choices(plan, pool, names))
            asked = Asked(choices, _without(pool, choices[0].served_by))
            key = _likeness(plan, pool, choices)
            found[key] = asked if key not in found else _merged(found[key], asked)
    return list(found.values())


def _likeness(plan: Plan, pool: PoolPlan, choices: tuple[Choice, ...]) -> object:
    """Equal for pools of one workload whose workloads ask for the same and are served alike."""
    if len(pool.workloads) > 1:
        return pool.key
    spec = next(w for w in plan.case.workloads if w.name == pool.workloads[0])
    return (spec.model_copy(update={"name": ""}).model_dump_json(), _but_for_the_name(choices[0]))


def _but_for_the_name(choice: Choice) -> Choice:
    """Equal for choices that differ in the name and in what rounding left only."""
    money = {"cost_usd_per_month": round(choice.cost_usd_per_month, 2)}
    money["usd_per_1m_tokens"] = round(choice.usd_per_1m_tokens, 6)
    return choice.model_copy(update={"workloads": (), **money})


def _merged(first: Asked, second: Asked) -> Asked:
    (one,), (other,) = first.choices, second.choices
    both = one.model_copy(update={"workloads": (*one.workloads, *other.workloads)})
    return Asked((both,), first.experiment)


def _choices(plan: Plan, pool: PoolPlan, names: tuple[str, ...]) -> Iterator[Choice]:
    """Workloads of a pool of which the same is true, together."""
    alike: dict[Choice, Choice] = {}
    for name in names:
        served = next(w for w in plan.workloads if w.name == name)
        choice = Choice(
            workloads=(name,),
            served_by=_served_by([d.name for d in pool.deployments], served.api),
            cost_usd_per_month=served.cost_usd_per_month,
            usd_per_1m_tokens=served.usd_per_1m_tokens,
            ways=sum(o.workload == name and o.cost_usd_per_month is not None for o in plan.options),
            binds=tuple(_binds(plan, pool)),
            menu=menu_judged(plan, name),
        )
        first = alike.setdefault(_but_for_the_name(choice), choice)
        if first is not choice:
            both = first.model_copy(update={"workloads": (*first.workloads, name)})
            alike[_but_for_the_name(choice)] = both
    yield from alike.values()


def _served_by(deployments: list[str], api: str | None) -> str:
    hosted = " + ".join(deployments)
    if api is None:
        return hosted or "nothing: all of it is shed"
    return f"{hosted}, {api} for the rest" if hosted else api


def _binds(plan: Plan, pool: PoolPlan) -> Iterator[str]:
    of = [w for w in plan.case.workloads if w.name in pool.workloads]
    for d in pool.deployments:
        record = d.deployment
        headroom = (
            [f"TPOT {record.tpot_ms:.0f} of {1e3 * min(w.tpot.seconds for w in of):.0f} ms"] if record.tpot_ms else []
        )
        if record.ttft_ms is not None:
            headroom.append(f"TTFT {record.ttft_ms / 1e3:.2f} of {min(w.ttft.seconds for w in of):g} s")
        yield (
            f"{d.name} is bound by {record.bound_by} at {record.requests_in_flight:.0f} requests in flight, "
            f"{percent(d.utilization_frac)} busy ({', '.join(headroom)})"
        )
    places = {pool.key, None, *(x for d in pool.deployments for x in (d.deployment.gpu, d.deployment.offer))}
    for b in plan.binding:
        if b.name in places:
            where = f" of {b.name}" if b.name not in (None, pool.key) else ""
            yield f"{b.limit} {b.value:,.0f}{where} is reached for {b.hours_per_month:,.0f} h a month"


def _without(pool: PoolPlan, served_by: str) -> Experiment:
    """What serves a pool may not serve its workloads, whoever rents it out; where only an API does, no API may."""
    label, names = f"without {served_by} for {pool.workloads[0]}", {d.name for d in pool.deployments}
    if names:
        return Experiment(label, lambda case: case, frozenset((w, name) for w in pool.workloads for name in names))
    changes = [with_workload(name, api_allowed=False) for name in pool.workloads]
    return Experiment(label, one_after_the_other(changes))


def with_runner_up(plan: Plan, choice: Choice, found: FleetSolution) -> Choice:
    return choice.model_copy(update={"runner_up": _runner_up(plan, choice.workloads[0], found)})


def _runner_up(plan: Plan, workload: str, found: FleetSolution) -> RunnerUp:
    if found.best is None:
        return RunnerUp(served_by=None, feasible=False if found.outcome is Outcome.INFEASIBLE else None)
    extra = extra_cost(plan, found)
    path = next(p for p in found.best.paths if workload in p.workloads)
    hosted = [_name_of(plan.case, use.deployment) for use in path.uses if use.replicas.any()]
    others = [name for name in path.workloads if name != workload]
    together = f", shared with {', '.join(others)}" if others else ""
    return RunnerUp(
        served_by=_served_by(hosted, path.api if path.api and path.usd_per_h.any() else None) + together,
        feasible=True,
        cost_usd_per_month=found.best.cost_usd_per_month,
        dearer_by_usd_per_month=extra.found,
        proved_usd_per_month=(extra.at_least, extra.at_most),
        verdict=extra.verdict,
    )


def _name_of(case: Case, deployment: str) -> str:
    """A deployment of a case by its key."""
    variant, offer = of_key(deployment.removesuffix(SOME_LENGTHS))
    return f"{replace(variant, gpu=case.offers[offer].gpu)} ({offer})"
