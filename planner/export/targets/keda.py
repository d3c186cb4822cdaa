"""A ScaledObject for each Deployment of the kubernetes target: replicas by the hour as planned, more under load.

A cron trigger holds each block of equal hours, in the plan's time zone. KEDA takes the largest that any trigger asks
for, so these are a floor under the trigger on load.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from planner.export.hosted import Hosted, HostedFleet, Part
from planner.export.hours import blocks, cron, fewest, peak
from planner.export.manifests import documents
from planner.export.record import Export, Step
from planner.io.errors import listed

PROMETHEUS = "http://prometheus-operated.monitoring.svc:9090"
STABLE_S = 300
"""before replicas are taken away; also how long those of a block stay after its end"""


def export(fleet: HostedFleet) -> Export:
    files = {
        f"{h.cluster}/{h.name}.yaml": documents(fleet.header, *(_scaled_object(fleet, h, part) for part in h.parts))
        for h in fleet.hosted
    }
    zone = fleet.settings.time_zone
    return Export(
        files=files,
        covers=(
            "a ScaledObject for each Deployment of the kubernetes target; its cron triggers hold the table below",
            "where replicas are added, a block starts early by the time that a start takes, weights included, so that "
            "they serve from the full hour on (give --weights as for the kubernetes target)",
            "a trigger on load adds replicas above that floor, up to those of the busiest hour: the plan buys no more "
            "(to allow more, raise maxReplicaCount and the limits of the NodePools)",
            "the threshold of that trigger is what a replica has in flight in the busiest hour of the plan; without "
            "Prometheus the floor stays",
        ),
        steps=(
            Step("Install KEDA, and apply the kubernetes target of the same plan."),
            *(
                Step(
                    f"In the cluster of {cluster}:",
                    (f"kubectl apply --dry-run=server -f {cluster}/", f"kubectl apply -f {cluster}/"),
                )
                for cluster in fleet.clusters
            ),
        ),
        left_to_you=(
            "Prometheus: put its address at serverAddress; it must scrape the pods and keep their names in the label "
            "'pod'",
            f"the time zone: hours are those of {zone}; export again with --time-zone if the demand file means others",
        ),
        cautions=(
            "applying the kubernetes target again sets the replicas of the busiest hour until KEDA's next look",
            *_handovers(fleet),
        ),
    )


def _handovers(fleet: HostedFleet) -> Iterator[str]:
    """Hours at which some replicas can only start once others have left their GPUs."""
    for offer, there in fleet.offers.items():
        late: dict[str, list[str]] = {}
        most = max(fleet.bought_gpus(offer, t) for t in fleet.slots)
        for before, after in pairwise(fleet.slots):
            slot = fleet.plan.slots[after]
            counts = [(h.gpus, h.plan.replicas_by_slot[before], h.plan.replicas_by_slot[after]) for h in there]
            both = sum(gpus * max(old, new) for gpus, old, new in counts)
            if slot.hour and both > most and any(new > old for _, old, new in counts):
                late.setdefault(slot.day, []).append(f"{slot.hour}:00")
        if late:
            times = listed([f"{listed(hours, 'and')} of a {day}" for day, hours in late.items()], "and")
            yield (
                f"the plan never has GPUs of {offer} for the replicas that go and those that come at once: at {times} "
                f"new ones start once the others are gone, {STABLE_S // 60} min and an answer after the hour"
            )


def _scaled_object(fleet: HostedFleet, h: Hosted, part: Part) -> dict[str, Any]:
    least = fewest(part.hours)
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": part.name, "labels": {"app.kubernetes.io/managed-by": "fleetplan"}},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": part.name},
            "pollingInterval": 30,
            "cooldownPeriod": STABLE_S,
            "minReplicaCount": least,
            "maxReplicaCount": peak(part.hours),
            "fallback": {"failureThreshold": 3, "replicas": least},
            "advanced": {
                "horizontalPodAutoscalerConfig": {
                    "behavior": {"scaleDown": {"stabilizationWindowSeconds": STABLE_S}},
                },
            },
            "triggers": [*_cron_triggers(fleet, h, part), _load_trigger(h, part)],
        },
    }


def _cron_triggers(fleet: HostedFleet, h: Hosted, part: Part) -> list[dict[str, Any]]:
    """One for each block above the fewest, which are always there."""
    triggers = []
    for block in blocks(part.hours):
        if block.replicas > fewest(part.hours):
            start, end = cron(block, math.ceil(h.start_s / 60))
            name = f"{block.day.replace(' ', '-')}-{block.start_h:02d}h"
            schedule = {"timezone": fleet.settings.time_zone, "start": start, "end": end}
            schedule |= {"desiredReplicas": str(block.replicas)}
            triggers.append({"type": "cron", "name": name, "metadata": schedule})
    return triggers


def _load_trigger(h: Hosted, part: Part) -> dict[str, Any]:
    """Requests running and waiting; a pod's name is that of its Deployment and two words more."""
    pods = f'{{pod=~"{part.name}-[a-z0-9]+-[a-z0-9]+"}}'
    query = f"sum(vllm:num_requests_running{pods}) + sum(vllm:num_requests_waiting{pods})"
    metadata = {"serverAddress": PROMETHEUS, "query": query, "threshold": str(h.in_flight)}
    return {"type": "prometheus", "name": "load", "metadata": metadata}
