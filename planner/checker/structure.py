"""What must be so before anything can be worked out: keys and types, time, names that the case knows, lengths."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from planner.case.prices import HELD, price_of
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.checker.figures import differs
from planner.plan.plan import PLAN_FORMAT, DeploymentPlan, FleetLine, Flow, Plan, WorkloadPlan


def plan_or_problems(data: Any) -> Plan | list[str]:
    """The plan, or why it is none."""
    found = data.get("format") if isinstance(data, dict) else data
    if found != PLAN_FORMAT:
        return [f"expected a plan of format '{PLAN_FORMAT}', got {found!r:.60}"]
    try:
        return Plan.model_validate_json(json.dumps(data, allow_nan=False))
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        return [f"{'.'.join(str(part) for part in e['loc'])}: {e['msg']}, got {e['input']!r:.60}" for e in mistakes]
    except (TypeError, ValueError, RecursionError) as error:
        return [f"the plan is not JSON: {error}"]


def names_and_lengths_fit(plan: Plan) -> Iterator[str]:
    case = plan.case
    yield from _slots_are_the_quarter(plan)
    if [w.name for w in plan.workloads] != [w.name for w in case.workloads]:
        yield "the plan does not serve the workloads of the case, one by one and in order"
        return
    if sorted(name for pool in plan.pools for name in pool.workloads) != sorted(w.name for w in case.workloads):
        yield "the pools do not serve the workloads of the case, each once"
        return
    for w in case.workloads:
        if w.baseline is not None and w.baseline not in case.apis:
            yield f"the case has no API {w.baseline}, the baseline of {w.name}"
    if case.baseline not in case.apis:
        yield f"the case has no API {case.baseline}, its baseline"
    for line in plan.fleet:
        yield from _line_is_known(plan, line)
    yield from _allowances_are_known(plan)
    yield from _pools_are_known(plan)
    for workload, planned in zip(case.workloads, plan.workloads, strict=True):
        for problem in _workload_is_known(plan, planned, len(workload.buckets)):
            yield f"{workload.name}: {problem}"


def _slots_are_the_quarter(plan: Plan) -> Iterator[str]:
    grows = any(w.growth_per_month_frac for w in plan.case.workloads)
    weights = [m.weight for m in plan.case.months or ()] or [1.0] * (MONTHS_OF_A_QUARTER if grows else 1)
    expected = [(m, day, h) for m in range(len(weights)) for day in ("weekday", "weekend") for h in range(24)]
    if [(s.month, s.day, s.hour) for s in plan.slots] != expected:
        yield "the slots are not a weekday and a weekend day of each month"
        return
    yield from differs("the mean weight of the months", sum(weights) / len(weights), 1.0)
    for w in plan.case.workloads:
        if w.month_factors is not None and len(w.month_factors) != len(weights):
            yield f"{w.name}: {len(w.month_factors)} factors for {len(weights)} months"


def _line_is_known(plan: Plan, line: FleetLine) -> Iterator[str]:
    if line.purchase not in (*plan.case.purchase, HELD):
        yield f"{line.purchase} is not on the menu"
    if line.offer not in plan.case.offers:
        yield f"the case has no offer {line.offer}"
    elif price_of(plan.case, line.offer, line.purchase) is None:
        yield f"{line.offer} is not sold as {line.purchase}"
    if len(line.instances_by_slot) != len(plan.slots):
        yield f"{line.offer}: {len(line.instances_by_slot)} numbers of instances for {len(plan.slots)} slots"


def _allowances_are_known(plan: Plan) -> Iterator[str]:
    known = [a.name for a in plan.case.allowances or ()]
    names = [a.name for a in plan.allowances or ()]
    if names != [name for name in known if name in names]:
        yield "the allowances are not those of the case, each at most once and in its order"
    for known_one in plan.case.allowances or ():
        for offer in known_one.rates or {}:
            if offer not in plan.case.offers:
                yield f"{known_one.name} has a rate for {offer}, and the case has no such offer"
            elif plan.case.offers[offer].prices.on_demand is None:
                yield f"{known_one.name} has a rate for {offer}, which is not sold on demand"
        if known_one.api is not None and known_one.api not in plan.case.apis:
            yield f"{known_one.name} has units of {known_one.api}, and the case has no such API"
    for a in plan.allowances or ():
        if not 0 < a.units < math.inf:
            yield f"{a.name}: {a.units} units"


def _pools_are_known(plan: Plan) -> Iterator[str]:
    order = {w.name: k for k, w in enumerate(plan.case.workloads)}
    if any(list(pool.workloads) != sorted(pool.workloads, key=order.__getitem__) for pool in plan.pools):
        yield "the workloads of a pool are not in the order of the case"
    keys_of_pools = [pool.key for pool in plan.pools]
    for key in sorted({key for key in keys_of_pools if keys_of_pools.count(key) > 1}):
        yield f"{key}: a key of several pools"
    for planned in plan.workloads:
        if planned.pool != plan.pool_of(planned.name).key:
            yield f"{planned.name}: its pool is {plan.pool_of(planned.name).key}, not {planned.pool}"
    for pool in plan.pools:
        buckets = sum(len(w.buckets) for w in plan.case.workloads if w.name in pool.workloads)
        keys = [d.deployment.key for d in pool.deployments]
        if len(set(keys)) < len(keys):
            yield f"{pool.key}: a deployment serves it twice"
        for d in pool.deployments:
            for problem in _deployment_is_known(plan, d, buckets):
                yield f"{pool.key}: {problem}"


def _workload_is_known(plan: Plan, planned: WorkloadPlan, buckets: int) -> Iterator[str]:
    slots = range(len(plan.slots))
    for what, flows in (("API flows", planned.api_flows), ("shed flows", planned.shed_flows),
                        *(("deployment flows", flows) for flows in planned.deployment_flows)):  # fmt: skip
        yield from _flows_fit(what, flows, slots, buckets)
    if any(m.from_slot not in slots or m.to_slot not in slots for m in planned.moves):
        yield "requests wait from or until a slot that is none of the plan"
    others = max(0, len(plan.pool_of(planned.name).deployments) - 1)
    if len(planned.deployment_flows) != others:
        yield f"it has flows to {len(planned.deployment_flows)} more deployments, its pool has {others}"
    if planned.api is None:
        if planned.api_flows:
            yield "requests go to an API that is not named"
    elif planned.api not in plan.case.apis:
        yield f"the case has no API {planned.api}"


def _flows_fit(what: str, flows: tuple[Flow, ...], slots: range, buckets: int) -> Iterator[str]:
    at = [flow.slot for flow in flows]
    if len(set(at)) != len(at) or any(t not in slots for t in at):
        yield f"the slots of its {what} are not slots of the plan, each once"
    if any(len(flow.requests_per_s) != buckets for flow in flows):
        yield f"its {what} do not have one rate for each request length"


def _deployment_is_known(plan: Plan, planned: DeploymentPlan, buckets: int) -> Iterator[str]:
    case, d = plan.case, planned.deployment
    for what in ("replicas_by_slot", "firm_replicas_by_slot", "load_by_slot"):
        if len(getattr(planned, what)) != len(plan.slots):
            yield f"{what} has {len(getattr(planned, what))} entries for {len(plan.slots)} slots"
    if d.model not in case.models:
        yield f"the case has no model {d.model}"
    if d.quantization not in case.quantizations:
        yield f"the case has no quantization {d.quantization}"
    if d.offer not in case.offers:
        yield f"the case has no offer {d.offer}"
    elif (gpu := case.offers[d.offer].gpu) not in case.gpus or gpu not in case.efficiency:
        yield f"the case has no figures of the GPU {gpu}"
    if d.gpus_per_replica < 1:
        yield f"a replica of {d.gpus_per_replica} GPUs"
    boxes = d.boxes_per_replica
    if boxes is not None and (boxes < 2 or d.gpus_per_replica % boxes):
        yield f"a replica of {d.gpus_per_replica} GPUs over {boxes} boxes"
    if len(d.seconds_per_request) != buckets:
        yield "seconds_per_request does not have one entry for each request length"
