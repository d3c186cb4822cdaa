"""AIBrix: the Deployments of the kubernetes target, each with a PodAutoscaler whose schedules hold the plan's hours.

Facts: autoscaling.aibrix.ai/v1alpha1 of vllm-project/aibrix@e3e10f9e (2026-08-22). A window ends at 23:59 at the latest
and none crosses midnight, so the last minute of a day has the replicas of the base.
"""

from __future__ import annotations

from typing import Any

from planner.export.hosted import PORT, Hosted, HostedFleet, Part
from planner.export.hours import fewest, peak
from planner.export.record import Export, Step, undone_by_applying
from planner.export.targets import kubernetes
from planner.export.targets.keda import handovers, lead_min, most_replicas
from planner.export.windows import at_midnight, windows

LOAD = "num_requests_running"
"""what AIBrix calls vllm:num_requests_running"""
LONGEST_NAME = 63


def export(fleet: HostedFleet) -> Export:
    base = kubernetes.export(fleet)
    scalers = {
        f"{h.cluster}/{h.name}-hours.yaml": fleet.manifests(*(_autoscaler(fleet, h, part) for part in h.parts))
        for h in fleet.hosted
    }
    late = Step(
        "Watch that the bounds follow the clock:", ("kubectl get podautoscaler -o wide", "kubectl get deployment")
    )
    return Export(
        files=base.files | scalers,
        covers=(
            *(c for c in base.covers if not c.startswith("as many replicas")),
            "a PodAutoscaler for each Deployment (NAME-hours.yaml): its schedules hold the table of hours as fewest "
            "replicas, in windows that start early by the time that a start takes; requests running add replicas up "
            "to those of the busiest hour of all months, and --headroom",
        ),
        steps=(Step("Install AIBrix, with a version whose PodAutoscaler has schedules."), *base.steps, late),
        undo=undone_by_applying(fleet.clusters),
        left_to_you=base.left_to_you,
        cautions=(
            *(c for c in base.cautions if "without the keda target" not in c),
            "no window crosses midnight, and none holds the minute 23:59: the base has its replicas, those of the "
            "busiest last hour of a day",
            "AIBrix tolerates a tenth of difference, and cools down for 300 s before it takes replicas away",
            *handovers(fleet),
        ),
    )


def _autoscaler(fleet: HostedFleet, h: Hosted, part: Part) -> dict[str, Any]:
    most = most_replicas(fleet, part)
    schedules = [
        {
            "name": f"{'-'.join(w.days).lower()}-{w.start.replace(':', '')}"[:LONGEST_NAME],
            "startTime": w.start,
            "endTime": w.end,
            "timezone": fleet.settings.time_zone,
            "daysOfWeek": list(w.days),
            "minReplicas": w.replicas,
        }
        for w in windows(part.floor, lead_min(h))
    ]
    steady = fewest(part.floor) == peak(part.floor)
    return {
        "apiVersion": "autoscaling.aibrix.ai/v1alpha1",
        "kind": "PodAutoscaler",
        "metadata": {"name": part.name, "labels": {"app.kubernetes.io/managed-by": "fleetplan"}},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": part.name},
            "scalingStrategy": "APA",
            "minReplicas": at_midnight(part.floor, lead_min(h)),
            "maxReplicas": max(1, most),
            "metricsSources": [
                {
                    "metricSourceType": "pod",
                    "protocolType": "http",
                    "port": str(PORT),
                    "path": "metrics",
                    "targetMetric": LOAD,
                    "targetValue": str(h.target_in_flight),
                }
            ],
            **({} if steady else {"schedules": schedules}),
        },
    }
