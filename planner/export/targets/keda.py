"""A ScaledObject for each Deployment of the kubernetes target: replicas by the hour as planned, more under load.

A cron trigger holds each block of equal hours, in the plan's time zone. KEDA takes the largest that any trigger asks
for, so these are a floor under the trigger on load: high enough that a HorizontalPodAutoscaler reaches the planned
count (planner/export/tolerance.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from planner.case.controller import Controller
from planner.export.hosted import Hosted, HostedFleet, Part
from planner.export.hours import Skipped, cron, fewest, peak
from planner.export.names import GROUPS_END
from planner.export.promises import RUNNING, WAITING, selector
from planner.export.record import Export, Step, undone_by_applying
from planner.export.targets.kubernetes import GROUPS, GROUPS_API, name_of_groups
from planner.export.tolerance import Floors, floors
from planner.io.errors import listed
from planner.io.formatting import counted, percent

PODS = 'pod=~"{name}-[a-z0-9]+-[a-z0-9]+"'
"""selects the pods of a Deployment by its {name}"""
FIRST_PODS = f'pod=~"{{name}}{GROUPS_END}-[0-9]+"'
"""of groups: those that answer"""
OVER_BOXES = True
PROMETHEUS = "http://prometheus-operated.monitoring.svc:9090"
STABLE_S = 300
"""before replicas are taken away; also how long those of a block stay after its end"""
HPA_LOOKS_S = 15
"""between looks of a HorizontalPodAutoscaler, where nobody changed it"""
SILENT = (
    "a query that answers nothing looks healthy, for KEDA then serves its fallback: look at the ScalingActive "
    "condition of the HorizontalPodAutoscalers (<unknown> on the left of TARGETS is broken, 0 is idle)"
)
LOOK_S = 30
"""between looks at the triggers of what has no replica at some time"""


def export(fleet: HostedFleet) -> Export:
    files = {
        f"{h.cluster}/{h.name}.yaml": fleet.manifests(*(_scaled_object(fleet, h, part) for part in h.parts))
        for h in fleet.hosted
    }
    zone = fleet.settings.time_zone
    return Export(
        files=files,
        covers=(
            "a ScaledObject for each Deployment of the kubernetes target; its cron triggers hold the table below",
            "where replicas are added, a block begins early by the start-up time, weights included, so that they serve "
            "from the full hour on (give --weights as for the kubernetes target)",
            "a trigger on load adds replicas above that floor, up to those of the busiest hour of all months"
            + _headroom(fleet),
            *thresholds(fleet),
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
        undo=(
            *undone_by_applying(fleet.clusters)[:1],
            Step(
                "Or freeze the present number of replicas while you investigate: KEDA then leaves it alone.",
                ("kubectl annotate scaledobject NAME autoscaling.keda.sh/paused=true",),
            ),
        ),
        left_to_you=(
            "Prometheus: put its address at serverAddress; it must scrape the pods and keep their names in the label "
            "'pod'",
            f"the time zone: hours are those of {zone}; export again with --time-zone if the demand file means others",
        ),
        cautions=(
            "applying the kubernetes target again sets the replicas of the busiest hour until KEDA next polls",
            SILENT,
            *clocks(fleet),
            *tolerated(fleet),
            *handovers(fleet),
        ),
    )


def thresholds(fleet: HostedFleet) -> Iterator[str]:
    """What the trigger on load compares with, and how far it may go."""
    tuned = fleet.hosted[0].tuned
    if tuned is None:
        yield (
            "the threshold of that trigger is what a replica has in flight in the busiest hour of the plan; without "
            "Prometheus the floor stays"
        )
        return
    yield (
        f"the settings are those that were tuned: a threshold of {percent(tuned.target)} of what a replica has in "
        f"flight in the busiest hour, {_averaging(tuned)}floors of {percent(tuned.floor_share)} of the planned "
        f"replicas and {tuned.buffer} more, {tuned.more_lead_s / 60:g} min earlier than a start, a ceiling of "
        f"{tuned.most_ratio:g} times the plan's peak, {tuned.down_window_s:g} s before replicas go; without "
        "Prometheus the floor stays"
    )
    if tuned.most_ratio > 1 or tuned.buffer:
        yield "the plan buys no instances for what is above its peak: raise the limits of the NodePools"


def _averaging(tuned: Controller) -> str:
    return f"averaged over {tuned.window_s / 60:g} min, " if tuned.window_s else ""


def _headroom(fleet: HostedFleet) -> str:
    share = fleet.settings.headroom_frac
    if not share:
        return ": the plan buys no more (to allow more, export with --headroom and raise the limits of the NodePools)"
    return (
        f" and {percent(share)} more (--headroom), for which the plan buys nothing: raise the limits of the NodePools"
    )


def tolerated(fleet: HostedFleet) -> Iterator[str]:
    """What it takes that a HorizontalPodAutoscaler leaves counts alone that are nearly right."""
    parts = [(part, floors_of(fleet, h, part)) for h in fleet.hosted for part in h.parts]
    off = [(part, written) for part, written in parts if any(written.more_by_hour) or written.are_raised]
    if not off:
        return
    yield (
        "a HorizontalPodAutoscaler changes nothing while the replicas asked for differ by no more than a tenth from "
        "those that there are: desiredReplicas is above the planned count where that would not be reached from the "
        "hours before; a count that the trigger on load left, no more than a tenth below a floor, stays as it is"
    )
    for part, written in off:
        hours = [more for more in written.more_by_hour if more]
        if hours:
            yield (
                f"{part.name} therefore runs more replicas than planned in {counted(len(hours), 'hour')} a week, by up "
                f"to {max(hours)}: where the plan's instances of these hours are full, on instances bought in addition"
            )
    yield (
        "with tolerance: 0 under scaleUp and scaleDown of behavior, desiredReplicas may be the planned count: clusters "
        "have that field from Kubernetes 1.35 on (1.33 with the feature gate HPAConfigurableTolerance), KEDA from 2.18"
    )


def clocks(fleet: HostedFleet) -> Iterator[str]:
    """What the night in which summer time begins does to triggers: KEDA passes over times that do not exist."""
    without = fleet.skipped
    if without is None:
        return
    early = [
        part.name
        for h in fleet.hosted
        for part in h.parts
        if any(_starts_in(trigger["metadata"]["start"], without) for trigger in cron_triggers(fleet, h, part))
    ]
    span = f"{_clock(without.first_min)} to {_clock(without.after_min)}"
    zone = fleet.settings.time_zone
    found = (
        f"{zone} has no {span} in the night in which summer time begins: what would end or begin at "
        f"{_clock(without.first_min)} does so a minute earlier all year, since KEDA passes over times that do not exist"
    )
    if early:
        found += (
            f"; {listed(early, 'and')}: a block that begins within that hour is there from the day before, once a year"
        )
    yield found


def _starts_in(expression: str, without: Skipped) -> bool:
    minute, hour, *_ = expression.split()
    return without.first_min <= 60 * int(hour) + int(minute) < without.after_min


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


def handovers(fleet: HostedFleet) -> Iterator[str]:
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
    api, kind = (GROUPS_API, GROUPS) if h.boxes > 1 else ("apps/v1", "Deployment")
    replicas_of = FIRST_PODS if h.boxes > 1 else PODS
    name = name_of_groups(part) if h.boxes > 1 else part.name
    target = {"apiVersion": api, "kind": kind, "name": name}
    return scaled_object(fleet, h, part, target, [load_trigger(fleet, h, part, replicas_of)])


def scaled_object(
    fleet: HostedFleet, h: Hosted, part: Part, target: dict[str, str], on_load: list[dict[str, Any]], least: int = 0
) -> dict[str, Any]:
    """Of anything that can be scaled: the plan's hours as a floor under triggers on load."""
    least, most = max(least, fewest(part.floor)), most_replicas(fleet, part)
    # KEDA looks by itself only at what may have no replica: everything else is the HorizontalPodAutoscaler's
    from_zero = {"pollingInterval": LOOK_S, "cooldownPeriod": STABLE_S} if not least else {}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": part.name, "labels": {"app.kubernetes.io/managed-by": "fleetplan"}},
        "spec": {
            "scaleTargetRef": target,
            **from_zero,
            "minReplicaCount": least,
            "maxReplicaCount": most,
            **steering(fleet, part, least),
            "triggers": [*cron_triggers(fleet, h, part), *on_load],
        },
    }


def steering(fleet: HostedFleet, part: Part, least: int) -> dict[str, Any]:
    """What KEDA does without Prometheus, and how fast."""
    return {
        "fallback": {"failureThreshold": 3, "replicas": least},
        "advanced": {
            "horizontalPodAutoscalerConfig": {"behavior": behavior(most_replicas(fleet, part), stable_s(fleet))}
        },
    }


def stable_s(fleet: HostedFleet) -> int:
    """Before replicas are taken away."""
    tuned = fleet.hosted[0].tuned
    return STABLE_S if tuned is None else round(tuned.down_window_s)


def behavior(most: int, stable: int = STABLE_S) -> dict[str, Any]:
    """All replicas that are asked for come at once: by default counts double, and one on the way may be near enough."""
    at_once = {"type": "Pods", "value": most, "periodSeconds": HPA_LOOKS_S}
    return {"scaleUp": {"policies": [at_once]}, "scaleDown": {"stabilizationWindowSeconds": stable}}


def most_replicas(fleet: HostedFleet, part: Part) -> int:
    """Those of the busiest hour of any month, and the headroom."""
    return math.ceil(round(part.most * (1 + fleet.settings.headroom_frac), 9))


def floors_of(fleet: HostedFleet, h: Hosted, part: Part) -> Floors:
    early_min = lead_min(h) + math.ceil(stable_s(fleet) / 60)
    return floors(part.floor, most_replicas(fleet, part), applied=peak(part.hours), early_min=early_min)


def lead_min(h: Hosted) -> int:
    return math.ceil(h.lead_s / 60)


def cron_triggers(fleet: HostedFleet, h: Hosted, part: Part) -> list[dict[str, Any]]:
    """One for each block above the fewest, which are always there."""
    triggers = []
    for block, replicas in floors_of(fleet, h, part).written.items():
        start, end = cron(block, lead_min(h), fleet.skipped)
        name = f"{block.day.replace(' ', '-')}-{block.start_h:02d}h"
        schedule = {"timezone": fleet.settings.time_zone, "start": start, "end": end, "desiredReplicas": str(replicas)}
        triggers.append({"type": "cron", "name": name, "metadata": schedule})
    return triggers


def averaged(h: Hosted, query: str) -> str:
    """Over the window that was tuned: of the sum, since the mean of a pod that is new has fewer minutes."""
    window_s = round(h.tuned.window_s) if h.tuned is not None else 0
    return f"avg_over_time(({query})[{window_s}s:{HPA_LOOKS_S}s])" if window_s else query


def load_trigger(fleet: HostedFleet, h: Hosted, part: Part, replicas_of: str = PODS) -> dict[str, Any]:
    """Requests running and waiting; a pod's name is that of its Deployment and two words more."""
    pods = selector(fleet, replicas_of, part.name)
    query = averaged(h, f"sum({RUNNING}{pods}) + sum({WAITING}{pods})")
    metadata = {"serverAddress": PROMETHEUS, "query": query, "threshold": str(h.target_in_flight)}
    return {"type": "prometheus", "name": "load", "metadata": metadata}
