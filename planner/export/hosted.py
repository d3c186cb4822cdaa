"""What a plan hosts in a month, as every target needs it: names, arguments, and replicas by the hour, firm and spot."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from planner.case.controller import Controller
from planner.case.start_up import start_by_parts
from planner.case.weights import weights_of
from planner.catalog.entries import Gpu, Offer
from planner.export.hours import Hours, Skipped, peak, skipped
from planner.export.manifests import documents
from planner.export.names import SPOT, plain, unique
from planner.export.packing import Box, Wanted, packed, skews
from planner.export.weights import BUCKET, HUB_ID, STREAM, Weights
from planner.plan.account.account import PlanAccount, account_of
from planner.plan.plan import DeploymentPlan, Plan, PoolPlan
from planner.plan.serve_commands import NODES, OFFLOAD, ServeCommand, host_gib, serve_commands

VLLM = "0.33.0"
"""version whose flags are written: PyPI, 2026-11-01"""
IMAGES = {
    "amd": "rocm/vllm:rocm7.14.0_cdna_ubuntu24.04_py3.14_pytorch_2.11.0_vllm_0.23.0",  # rocm.docs.amd.com, 2026-11
}
NVIDIA_IMAGE = f"vllm/vllm-openai:v{VLLM}"
PORT = 8000
WITHOUT_NAMESPACE = ("NodePool",)
"""kinds of which a cluster has one set"""
SPOT_PURCHASE = "spot"
OTHERWISE_YEAR = 2027
"""whose clocks count where a plan does not say when it begins"""


@dataclass(frozen=True)
class Settings:
    """What a plan does not say."""

    month: int = 0
    time_zone: str = "UTC"
    image: str | None = None
    weights: Weights = field(default_factory=Weights)
    headroom_frac: float = 0.0
    """replicas above those of the busiest hour that may be added under load, as a share of them"""
    namespace: str | None = None
    """of what Kubernetes keeps in one; None: that of whoever applies it"""
    registry: str | None = None
    """which images are pulled from, under the names that they have; None: where they are published"""

    def mirrored(self, image: str) -> str:
        """An image as the registry has it."""
        if self.registry is None:
            return image
        host, slash, path = image.partition("/")
        published = slash and ("." in host or ":" in host or host == "localhost")
        return f"{self.registry}/{path if published else image}"


@dataclass(frozen=True, eq=False)
class Part:
    """The replicas of a deployment that run on instances bought firmly, or those on spot."""

    name: str
    spot: bool
    hours: Hours
    """as planned"""
    floor: Hours
    """that a schedule holds: the plan's, and the buffer of a controller that was tuned for it"""
    most: int
    """in any hour of any month of the plan, or the ceiling of that controller"""


@dataclass(frozen=True, eq=False)
class Hosted:
    """A deployment of the plan."""

    name: str
    cluster: str
    """the folder of its cloud and region"""
    pool: PoolPlan
    plan: DeploymentPlan
    """of this deployment"""
    offer: Offer
    gpu: Gpu
    serve: ServeCommand
    image: str
    weights: Weights
    """where they come from"""
    checkpoint: str
    """id or path of the weights that are loaded"""
    weights_gb: float
    """as stored"""
    planned_weights_s: float
    """to load them, as the plan counts on"""
    weights_s: float
    """to load them on a fresh node, from where they come"""
    other_start_s: float
    """of a start, as planned, besides the weights: machine and engine"""
    drain_s: int
    """the longest answer that the plan counts on"""
    firm: Hours
    """replicas on instances that are not spot"""
    spot: Hours
    most_firm: int
    """in any hour of any month of the plan"""
    most_spot: int
    must_be_firm: int
    """replicas that must not be spot, in the hour that needs most"""
    spread: bool
    """whether its replicas stand on two instances at least"""
    load: dict[str, tuple[float, ...]]
    """replicas kept busy"""
    requests_per_s: float
    """of all replicas, on average over the hours"""
    tuned: Controller | None = None
    """that was tuned for the plan on requests in flight; None: triggers are as planned"""

    @property
    def parts(self) -> list[Part]:
        """Those that have a replica in some hour."""
        both = [
            self._part(self.name, False, self.firm, self.most_firm),
            self._part(self.name + SPOT, True, self.spot, self.most_spot),
        ]
        return [part for part in both if peak(part.hours)]

    def _part(self, name: str, spot: bool, hours: Hours, most: int) -> Part:
        """A buffer is firm where anything is."""
        if self.tuned is None:
            return Part(name, spot, hours, hours, most)
        buffer = self.tuned.buffer if not spot or not peak(self.firm) else 0
        share, least = self.tuned.floor_share, min(n for counts in hours.values() for n in counts)
        kept = {day: [max(least, math.ceil(round(share * n, 9))) for n in counts] for day, counts in hours.items()}
        floor = {day: tuple(n + buffer * (n > 0) for n in counts) for day, counts in kept.items()}
        return Part(name, spot, hours, floor, math.ceil(round(most * self.tuned.most_ratio, 9)) + buffer)

    @property
    def replicas(self) -> Hours:
        return {day: tuple(f + s for f, s in zip(self.firm[day], self.spot[day], strict=True)) for day in self.firm}

    @property
    def gpus(self) -> int:
        """of a replica"""
        return self.plan.deployment.gpus_per_replica

    @property
    def boxes(self) -> int:
        """Instances that a replica takes, as a group of pods that come and go together; 1: one, or a part of it."""
        return self.plan.deployment.boxes_per_replica or 1

    @property
    def gpus_of_a_pod(self) -> int:
        return self.gpus // self.boxes

    @property
    def host_gib(self) -> int:
        """Memory of the box in which a replica keeps KV cache; 0: none."""
        return host_gib(self.plan.deployment)

    @property
    def arguments_without_offload(self) -> list[str]:
        """Where a target has words of its own for that."""
        given = self.arguments
        at = given.index(OFFLOAD[0]) if OFFLOAD[0] in given else len(given)
        return [*given[:at], *given[at + len(OFFLOAD) + 1 :]]

    @property
    def arguments(self) -> list[str]:
        """What follows `vllm serve`, as planned, without what differs between the boxes of a replica.

        Weights that are streamed have another address and the same name.
        """
        words = shlex.split(self.serve.command)[2:]
        checkpoint, *flags = words[: words.index(NODES)] if NODES in words else words
        if self.weights.kind != STREAM or not self.on_the_hub:
            return [checkpoint, *flags]
        address = f"{self.weights.place or BUCKET}/{checkpoint}"
        return [address, "--served-model-name", checkpoint, "--load-format", "runai_streamer", *flags]

    @property
    def on_the_hub(self) -> bool:
        return HUB_ID.fullmatch(self.checkpoint) is not None

    @property
    def adapters(self) -> bool:
        return "--enable-lora" in self.arguments

    @property
    def adapter_names(self) -> list[str]:
        """Of the adapters that the engine loads."""
        return [word.partition("=")[0] for word in self.arguments if "=adapters/" in word]

    @property
    def is_amd(self) -> bool:
        return self.gpu.vendor.lower() == "amd"

    @property
    def start_s(self) -> float:
        """From the order of an instance to a replica that is ready: planned, but for where the weights come from."""
        return self.other_start_s + self.weights_s

    @cached_property
    def busiest_frac(self) -> float:
        """Load of a replica in the busiest hour."""
        pairs = ((x, n) for day in self.load for x, n in zip(self.load[day], self.replicas[day], strict=True))
        return max((load / n for load, n in pairs if n), default=0.0)

    @property
    def busiest_requests_per_s(self) -> float:
        """Requests a second of a replica in the busiest hour."""
        loads = [load for counts in self.load.values() for load in counts]
        return self.busiest_frac * self.requests_per_s * len(loads) / sum(loads) if any(loads) else 0.0

    @property
    def in_flight(self) -> int:
        """Requests that a replica works on in the busiest hour."""
        return max(1, round(self.plan.deployment.requests_in_flight * self.busiest_frac))

    @property
    def target_in_flight(self) -> int:
        """From which a trigger adds replicas."""
        return max(1, round(self.in_flight * (self.tuned.target if self.tuned else 1.0)))

    @property
    def lead_s(self) -> float:
        """By which a floor rises early."""
        return self.start_s + (self.tuned.more_lead_s if self.tuned else 0.0)


@dataclass(frozen=True, eq=False)
class HostedFleet:
    """All that is exported."""

    plan: Plan
    settings: Settings
    hosted: tuple[Hosted, ...]
    """deployments with a replica in some hour of the month"""
    slots: tuple[int, ...]
    """of the month"""
    view: PlanAccount

    @property
    def header(self) -> str:
        """First line of every file; nothing that a user wrote is in it."""
        which = f"month {self.settings.month + 1} of the plan" if self.view.months > 1 else "the plan"
        return f"fleetplan {self.plan.fleetplan_version}, {which} with case {self.plan.case_hash[:19]}"

    def manifests(self, *objects: dict[str, Any]) -> str:
        """A file of objects, in the namespace that was asked for."""
        return documents(self.header, *(self._placed(found) for found in objects))

    def _placed(self, found: dict[str, Any]) -> dict[str, Any]:
        if self.settings.namespace is None or found.get("kind") in WITHOUT_NAMESPACE:
            return found
        name, *rest = found["metadata"].items()
        return found | {"metadata": dict([name, ("namespace", self.settings.namespace), *rest])}

    @property
    def skipped(self) -> Skipped | None:
        """By the clocks of the year in which the plan begins."""
        first = self.plan.case.starts
        return skipped(self.settings.time_zone, first.year if first is not None else OTHERWISE_YEAR)

    @property
    def clusters(self) -> list[str]:
        return sorted({h.cluster for h in self.hosted})

    @property
    def weights_gb(self) -> dict[str, float]:
        """Of each checkpoint that is loaded, as stored."""
        return {h.checkpoint: h.weights_gb for h in self.hosted}

    @cached_property
    def offers(self) -> dict[str, list[Hosted]]:
        """What runs on each offer."""
        found: dict[str, list[Hosted]] = {}
        for h in self.hosted:
            found.setdefault(h.plan.deployment.offer, []).append(h)
        return found

    def boxes(self, offer: str, slot: int) -> list[Box]:
        """The instances of an offer in which something runs; deployments by their place in `hosted`."""
        boxes = boxes_of(self.plan, offer, slot, [h.plan for h in self.hosted])
        return [box for box in boxes if box.replicas]

    def skew(self, h: Hosted, spot: bool) -> int | None:
        """By how much instances differ in replicas of a part, each hour as even as can be; None: so they do not fit."""
        offer, place = h.plan.deployment.offer, self.offers[h.plan.deployment.offer].index(h)
        there, worst = self.offers[offer], 1
        for k, t in enumerate(self.slots):
            parts = [(x.gpus, _flat(x.spot if spot else x.firm)[k]) for x in there]
            found = skews(h.offer.gpus, instances(self.plan, offer, t, spot), parts)
            if found is None:
                return None
            worst = max(worst, found[place])
        return worst

    def bought_gpus(self, offer: str, slot: int) -> int:
        return self.plan.case.offers[offer].gpus * sum(
            line.instances_by_slot[slot] for line in self.plan.fleet if line.offer == offer
        )


def hosted_fleet(plan: Plan, settings: Settings) -> HostedFleet:
    """The deployments of a month; those without a replica are left out."""
    view = account_of(plan)
    slots = tuple(t for t, slot in enumerate(plan.slots) if slot.month == settings.month)
    planned = [(pool, d) for pool in plan.pools for d in pool.deployments]
    spot = _spot_by_slot(plan, range(len(plan.slots)), [d for _, d in planned])
    running = [k for k, (_, d) in enumerate(planned) if any(d.replicas_by_slot[t] for t in slots)]
    names = unique(_name(*planned[k]) for k in running)
    places = {(o.provider, o.region): None for k in running for o in [plan.case.offers[planned[k][1].deployment.offer]]}
    clusters = dict(zip(places, unique(f"{provider}-{region}" for provider, region in places), strict=True))
    commands = serve_commands(plan)
    hosted = tuple(
        _hosted(view, settings, slots, name, clusters, *planned[k], commands[k], spot[k])
        for k, name in zip(running, names, strict=True)
    )
    return HostedFleet(plan, settings, hosted, slots, view)


def _hosted(
    view: PlanAccount, settings: Settings, slots: tuple[int, ...], name: str, clusters: dict[tuple[str, str], str],
    pool: PoolPlan, planned: DeploymentPlan, serve: ServeCommand, spot: dict[int, int],
) -> Hosted:  # fmt: skip
    plan, case, d = view.plan, view.case, planned.deployment
    offer, gpu = case.offers[d.offer], case.gpus[d.gpu]
    weights_gb, planned_gb_per_s = weights_of(case, d.model, d.quantization).gb, case.start.weights_gb_per_s
    firm = {t: n - spot[t] for t, n in enumerate(planned.replicas_by_slot)}
    carried = view.carried(pool, pool.deployments.index(planned))
    answers = [b.output_tokens for w in case.workloads if w.name in pool.workloads for b in w.buckets]
    return Hosted(
        name=name,
        cluster=clusters[offer.provider, offer.region],
        pool=pool,
        plan=planned,
        offer=offer,
        gpu=gpu,
        serve=serve,
        image=settings.image or settings.mirrored(IMAGES.get(gpu.vendor.lower(), NVIDIA_IMAGE)),
        weights=settings.weights,
        checkpoint=shlex.split(serve.command)[2],
        weights_gb=weights_gb,
        planned_weights_s=weights_gb / planned_gb_per_s,
        weights_s=weights_gb / settings.weights.gb_per_s(planned_gb_per_s),
        other_start_s=sum(start_by_parts(case, d.model, d.quantization, weights_s=0.0).values()),
        drain_s=math.ceil(((d.ttft_ms or 0.0) + d.tpot_ms * max(answers)) / 1000),
        firm=_by_day(plan, slots, firm),
        spot=_by_day(plan, slots, spot),
        most_firm=max(firm.values()),
        most_spot=max(spot.values()),
        must_be_firm=max(planned.firm_replicas_by_slot[t] for t in slots),
        spread=is_spread(plan),
        load={
            day: tuple(planned.load_by_slot[t] for t in slots if plan.slots[t].day == day) for day in _days(plan, slots)
        },
        requests_per_s=float(carried[list(slots)].sum()) / len(slots),
        tuned=_tuned(plan),
    )


def _tuned(plan: Plan) -> Controller | None:
    """The controller of a plan that was tuned for it."""
    return plan.operation.controller if plan.operation is not None and plan.operation.tuned is not None else None


def _name(pool: PoolPlan, planned: DeploymentPlan) -> str:
    """The workload, or the model that several share; the GPUs too where several deployments serve one pool."""
    d = planned.deployment
    base = plain(pool.workloads[0]) if len(pool.workloads) == 1 else f"shared-{plain(d.model)}"
    if len(pool.deployments) == 1:
        return base
    gpus = f"{d.gpus_per_replica}x-" if d.gpus_per_replica > 1 else ""
    gpus += f"{d.parallelism}-" if d.parallelism else ""
    gpus += f"{plain(d.speculation)}-" if d.speculation else ""
    return f"{base[:24].rstrip('-')}-{gpus}{plain(d.gpu, 'gpu')}"


def _flat(hours: Hours) -> list[int]:
    """Of the slots of a month, in their order."""
    return [n for counts in hours.values() for n in counts]


def _days(plan: Plan, slots: tuple[int, ...]) -> list[str]:
    return list(dict.fromkeys(plan.slots[t].day for t in slots))


def _by_day(plan: Plan, slots: tuple[int, ...], counts: dict[int, int]) -> Hours:
    return {day: tuple(counts[t] for t in slots if plan.slots[t].day == day) for day in _days(plan, slots)}


def is_spread(plan: Plan) -> bool:
    """Whether the replicas of a deployment stand on two instances at least."""
    return bool(plan.case.limits.spread) and plan.case.limits.min_replicas > 1


def instances(plan: Plan, offer: str, slot: int, spot: bool) -> int:
    """Instances of an offer that are bought in an hour."""
    lines = (line for line in plan.fleet if line.offer == offer and (line.purchase == SPOT_PURCHASE) == spot)
    return sum(line.instances_by_slot[slot] for line in lines)


def boxes_of(plan: Plan, offer: str, slot: int, planned: list[DeploymentPlan]) -> list[Box]:
    """The instances of an offer in an hour with what stands in them, by the places of the deployments."""
    there = [(k, d) for k, d in enumerate(planned) if d.deployment.offer == offer]
    wanted = [
        Wanted(d.deployment.gpus_per_replica, d.firm_replicas_by_slot[slot], d.replicas_by_slot[slot]) for _, d in there
    ]
    bought = (instances(plan, offer, slot, spot=False), instances(plan, offer, slot, spot=True))
    boxes = packed(plan.case.offers[offer].gpus, *bought, wanted, is_spread(plan))
    for box in boxes:
        box.replicas = Counter({there[k][0]: n for k, n in box.replicas.items()})
    return boxes


def _spot_by_slot(plan: Plan, slots: Sequence[int], planned: list[DeploymentPlan]) -> list[dict[int, int]]:
    """Replicas of each deployment that stand in spot instances, by slot."""
    spot = [dict.fromkeys(slots, 0) for _ in planned]
    offers = dict.fromkeys(line.offer for line in plan.fleet if line.purchase == SPOT_PURCHASE)
    for offer in offers:
        for t in slots:
            for k, n in _on_spot(boxes_of(plan, offer, t, planned)):
                spot[k][t] += n
    return spot


def _on_spot(boxes: list[Box]) -> Iterator[tuple[int, int]]:
    return ((k, n) for box in boxes if box.spot for k, n in box.replicas.items())
