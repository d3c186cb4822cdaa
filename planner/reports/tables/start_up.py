"""What the start of each deployment is made of, and what each way to shorten it is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from planner.case.case import Case, StartParts
from planner.case.start_up import start_by_parts, start_facts
from planner.plan.plan import DeploymentPlan, Plan
from planner.reports.table import Cells, Table
from planner.reports.table import Column as C

PARTS = ("node", "image", "framework", "weights", "compile", "graphs", "profiling", "wake", "instance")
FASTEST = "memory"


@dataclass(frozen=True)
class Shorter:
    """A way to start sooner, as the demand file names it."""

    what: str
    key: str
    saved_s: float
    """of the slowest deployment"""
    usd_per_month: float
    """of instances that wait for it"""
    cost: str
    """what it takes in return, and is not counted"""


def start_up(plan: Plan) -> Table:
    """Seconds of each part, by deployment."""
    started = {d.name: start_by_parts(plan.case, d.deployment.model, d.deployment.quantization) for d in _hosted(plan)}
    there = [part for part in PARTS if any(part in parts for parts in started.values())]
    columns = (
        C("deployment", "seconds from order to answer"),
        *(C(f"{part}_s", part, ",.0f") for part in there),
        C("in_all_s", "in all", ",.0f"),
    )
    rows = [
        Cells({"deployment": name, "in_all_s": sum(parts.values())} | {f"{k}_s": s for k, s in parts.items()})
        for name, parts in started.items()
    ]
    return Table("start_up", "What a start takes", columns, tuple(rows))


def shorter_starts(plan: Plan) -> Table:
    """What each named part would save, the most worth first."""
    columns = (
        C("what", "to start sooner"), C("key", "under 'policy: startup'", "code"), C("saved_s", "seconds less", ",.0f"),
        C("usd_per_month", "waiting paid $/month", "money"), C("cost", "not counted"),
    )  # fmt: skip
    ways = sorted(_ways(plan), key=lambda way: (-way.usd_per_month, -way.saved_s))
    note = "paid: starts a month x seconds saved x the price of the instances that start; nothing where none does"
    return Table("shorter_starts", "What a sooner start is worth", columns, tuple(ways), (note,) if ways else ())


def _hosted(plan: Plan) -> list[DeploymentPlan]:
    return [d for pool in plan.pools for d in pool.deployments if any(d.replicas_by_slot)]


def _ways(plan: Plan) -> Iterator[Shorter]:
    parts, facts = plan.case.start.parts, start_facts()
    if parts is None or parts.wake_gb_per_s is not None or not _hosted(plan):
        return
    cached = {"compile": facts["compile_cached"].time, "profiling": facts["profiling_cached"].time}
    rate = max(plan.case.start.weights_gb_per_s, facts[FASTEST].rate)
    yield from _shorter(plan, "a warm pool of machines", "warm_pool: true", {"node_s": 0.0}, "what waits is paid for")
    yield from _shorter(plan, "the image on the machines", "image_cached: true", {"image_s": 0.0}, "images to maintain")
    yield from _shorter(plan, "a compile cache that replicas share", "compile_cached: true", cached, "a volume")
    yield from _shorter(plan, "weights in the host's memory", "weights: memory", {}, "host memory", rate)
    asleep = {"wake_gb_per_s": facts["sleep"].rate}
    yield from _shorter(plan, "replicas that sleep", "sleep: true", asleep, "their GPUs stay paid for")


def _shorter(
    plan: Plan, what: str, key: str, change: Mapping[str, object], cost: str, gb_per_s: float | None = None
) -> Iterator[Shorter]:
    before = plan.case
    assert before.start.parts is not None
    parts: StartParts = before.start.parts.model_copy(update=change)
    start = before.start.model_copy(
        update={"parts": parts, "weights_gb_per_s": gb_per_s or before.start.weights_gb_per_s}
    )
    after = before.model_copy(update={"start": start})
    saved: dict[str, float] = {}
    for d in _hosted(plan):
        of = d.deployment
        less = _total(before, of.model, of.quantization) - _total(after, of.model, of.quantization)
        saved[of.offer] = max(saved.get(of.offer, 0.0), less)
    if max(saved.values()) >= 1:
        paid = sum(line.starts_per_month * saved.get(line.offer, 0.0) / 3600 * line.usd_per_h for line in plan.fleet)
        yield Shorter(what, key, max(saved.values()), paid, cost)


def _total(case: Case, model: str, quantization: str) -> float:
    return sum(start_by_parts(case, model, quantization).values())
