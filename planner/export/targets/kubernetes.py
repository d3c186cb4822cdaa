"""Deployment, Service and PodDisruptionBudget for each deployment of a plan.

Replicas on spot are a Deployment of their own behind the same Service, so that those that must not be reclaimed never
wait for a place that spot has taken.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from planner.export.hosted import PORT, Hosted, HostedFleet, Part
from planner.export.hours import peak
from planner.export.names import GROUPS_END, label_value
from planner.export.pods import (
    GROUP,
    HOME,
    MONITORING,
    RESTRICTED,
    USER,
    budget,
    environment,
    filling_job,
    folder_maker,
    labels_of,
    metadata,
    monitor,
    pod_security,
    scraped,
    weights_left,
    weights_mount,
    weights_volume,
)
from planner.export.record import Export, Step, undone_by_applying
from planner.export.weights import DOWNLOAD, HOST_PATH, PVC
from planner.io.errors import listed
from planner.plan.serve_commands import NODES

CAPACITY_TYPE = "karpenter.sh/capacity-type"
SPOT_LABELS = {
    "aws": ((CAPACITY_TYPE, "spot"), ("eks.amazonaws.com/capacityType", "SPOT")),
    "azure": ((CAPACITY_TYPE, "spot"), ("kubernetes.azure.com/scalesetpriority", "spot")),
    "gcp": ((CAPACITY_TYPE, "spot"), ("cloud.google.com/gke-spot", "true")),
}
"""labels of spot nodes: those of Karpenter and of the cloud's own node groups (their documentation, 2026-11)"""
ANYWHERE = ((CAPACITY_TYPE, "spot"),)
INSTANCE_TYPE, REGION, ZONE, HOST = (
    "node.kubernetes.io/instance-type", "topology.kubernetes.io/region", "topology.kubernetes.io/zone",
    "kubernetes.io/hostname",
)  # fmt: skip
LABELLED_BY_CLOUD = ("aws", "azure", "gcp")
"""clouds whose Kubernetes labels nodes with their instance type and region"""
GROUPS_API, GROUPS = "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"
FIRST_OF_A_GROUP = {"leaderworkerset.sigs.k8s.io/worker-index": "0"}
"""a label that its controller sets: of the pod that answers"""
OVER_BOXES = True
"""whether replicas over several instances are exported"""
WORK, SHM = "/srv/vllm", "/dev/shm"
LEAST_START_S, START_SLACK = 600, 3
"""a replica is given up after so long, or so many times the planned start"""
NOTICE_S = 120
"""between the notice of a reclaim and its end, on AWS; other clouds give less"""
SLEEP_S, AFTER_S = 15, 30
"""the wait before a replica is told to stop, so that nothing more is sent to it, and the time after its last answer"""
LEAST_DRAIN_S = 15
VLLM_PODS = {"app.kubernetes.io/name": "vllm"}
CPUS_PER_GPU, GIB_PER_GPU = 2, 8
"""requests that fit the smallest instances of the catalog: 4 CPUs and 16 GiB beside a GPU"""


def export(fleet: HostedFleet) -> Export:
    files = {f"{h.cluster}/{h.name}.yaml": fleet.manifests(*_objects(fleet, h)) for h in fleet.hosted}
    files["monitoring/pods.yaml"] = fleet.manifests(monitor("vllm", VLLM_PODS))
    if fleet.settings.weights.kind == PVC:
        files |= {f"weights/{c}.yaml": fleet.manifests(filling_job(fleet, c)) for c in fleet.clusters}
    return Export(
        files=files,
        covers=(
            "a folder for each cloud and region, which is a cluster of its own; in it, a file for each deployment",
            *_workloads_are_told(fleet),
            "a Service in front of it, spot or not, and a budget by which one replica at a time may be evicted",
            *_spread_is_told(fleet),
            "as many replicas of each as its busiest hour needs: the targets keda and karpenter follow the hours",
            _security(fleet),
            "a replica that stops takes no new requests and finishes those it has: --shutdown-timeout is the longest "
            "answer of the plan, on spot what the notice of a reclaim leaves",
        ),
        steps=(*(step for cluster in fleet.clusters for step in _steps(fleet, cluster)), MONITORING),
        undo=undone(fleet),
        by_the_hour=False,
        left_to_you=(
            *weights_left(fleet),
            *_users(fleet),
            f"requests of {CPUS_PER_GPU} CPUs and {GIB_PER_GPU} GiB a GPU are not part of the plan: set them to suit "
            "your instances",
            *_labels(fleet),
            *groups_need(fleet),
        ),
        cautions=(
            "an update replaces replicas in place (maxSurge 0), since the plan buys no spare GPUs: apply it in a quiet "
            "hour",
            *_crowded(fleet),
            *_not_held_apart(fleet),
        ),
    )


def _workloads_are_told(fleet: HostedFleet) -> Iterator[str]:
    if any(h.boxes == 1 for h in fleet.hosted):
        yield (
            "a Deployment with the engine's arguments as planned, as many GPUs as a replica takes, and the instance "
            "type it was planned on; its name ends in -spot if it runs on spot instances"
        )
    for h in fleet.hosted:
        if h.boxes > 1:
            yield (
                f"{h.name}: a LeaderWorkerSet (its name ends in {GROUPS_END}), in groups of {h.boxes} pods on as many "
                "instances; the first answers, and a group is started anew as a whole if one of its pods is lost"
            )


def groups_need(fleet: HostedFleet) -> Iterator[str]:
    """What to do about replicas over several instances that no manifest can."""
    there = [h for h in fleet.hosted if h.boxes > 1]
    if not there:
        return
    links = listed(sorted({h.offer.interconnect.kind for h in there if h.offer.interconnect}), "and")
    yield (
        f"{listed([h.name for h in there], 'and')}: install LeaderWorkerSet 0.6 or later; ask for the devices of the "
        f"interconnect ({links}) in the resources of its pods, as your device plugin calls them, and rent instances "
        "that it connects: a placement group, a cluster or a rack"
    )


def _spread_is_told(fleet: HostedFleet) -> Iterator[str]:
    if any(max_skew(fleet, h, part) is not None for h in fleet.hosted for part in h.parts):
        yield "topologySpreadConstraints by which replicas of a deployment do not all stand on one node, as in the plan"


def _crowded(fleet: HostedFleet) -> Iterator[str]:
    """Where deployments have their busiest hours at different times."""
    for offer, there in fleet.offers.items():
        wanted = sum(h.gpus * peak(part.hours) for h in there for part in h.parts)
        bought = max(fleet.bought_gpus(offer, t) for t in fleet.slots)
        if wanted > bought:
            names = listed([h.name for h in there], "and")
            yield (
                f"{names} together want {wanted} GPUs of {offer} in their busiest hours, and the plan never buys more "
                f"than {bought}, since these hours differ: without the keda target some replicas wait for a place"
            )


def _steps(fleet: HostedFleet, cluster: str) -> Iterator[Step]:
    secrets = ['kubectl create secret generic vllm --from-literal=api-key="$VLLM_API_KEY"']
    if fleet.settings.weights.kind in (DOWNLOAD, HOST_PATH, PVC):
        secrets.append('kubectl create secret generic huggingface --from-literal=token="$HF_TOKEN"')
    yield Step(f"In the cluster of {cluster}, make the secrets:", tuple(secrets))
    if fleet.settings.weights.kind == PVC:
        wait = "kubectl wait --for=condition=complete --timeout=6h job/weights"
        again = "kubectl delete job weights --ignore-not-found"  # a job that is there cannot be changed
        fill = (again, f"kubectl apply -f weights/{cluster}.yaml", wait)
        yield Step("Fill the claim, once and when models change:", fill)
    yield Step("Apply it:", (f"kubectl apply --dry-run=server -f {cluster}/", f"kubectl apply -f {cluster}/"))


def _security(fleet: HostedFleet) -> str:
    if fleet.settings.weights.kind == HOST_PATH:
        return (
            "the engine runs as the restricted Pod Security Standard asks, but hostPath is forbidden by it and by "
            "baseline: the namespace must admit privileged pods, in which a first container makes the folder as root"
        )
    return f"pods pass the restricted Pod Security Standard: user {USER}, no capabilities, no escalation, seccomp"


def _users(fleet: HostedFleet) -> Iterator[str]:
    if fleet.settings.image is not None:
        yield f"the image: it must run as user {USER} of group {GROUP}, as vLLM's own does, and know --shutdown-timeout"
    elif any(h.is_amd for h in fleet.hosted):
        yield (
            f"AMD: no source says that its image runs as user {USER}; try it, and add the group of /dev/kfd to "
            "supplementalGroups where nodes ask for it"
        )


def _labels(fleet: HostedFleet) -> list[str]:
    """What to tell nodes that no cloud labels."""
    other = dict.fromkeys(
        f"{INSTANCE_TYPE}={label_value(h.offer.instance)} {REGION}={label_value(h.offer.region)}"
        for h in fleet.hosted
        if h.offer.provider not in LABELLED_BY_CLOUD
    )
    return [f"label the nodes yourself: kubectl label node NODE {labels}" for labels in other]


def _objects(fleet: HostedFleet, h: Hosted) -> list[dict[str, Any]]:
    deployments = [(_group if h.boxes > 1 else _deployment)(fleet, h, part) for part in h.parts]
    return [*deployments, _service(h), *(budget(part.name, labels_of(h, part)) for part in h.parts)]


def _deployment(fleet: HostedFleet, h: Hosted, part: Part) -> dict[str, Any]:
    labels = labels_of(h, part)
    annotations = {
        "fleetplan/case": fleet.plan.case_hash,
        "fleetplan/deployment": h.plan.deployment.key,
        "fleetplan/workloads": json.dumps(list(h.pool.workloads)),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(part.name, labels) | {"annotations": annotations},
        "spec": {
            "replicas": peak(part.hours),
            "progressDeadlineSeconds": 2 * start_limit_s(h),
            "strategy": in_place(),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": scraped(PORT)}, "spec": _pod(fleet, h, part)},
        },
    }


def _group(fleet: HostedFleet, h: Hosted, part: Part) -> dict[str, Any]:
    """Replicas over several instances: groups of pods, of which the first answers; one that is lost takes all along."""
    as_deployed = _deployment(fleet, h, part)
    labels, worker = labels_of(h, part), _pod(fleet, h, part, answers=False)
    leader = as_deployed["spec"]["template"] | {"spec": _pod(fleet, h, part)}
    return {
        "apiVersion": GROUPS_API,
        "kind": GROUPS,
        "metadata": as_deployed["metadata"] | {"name": name_of_groups(part)},
        "spec": {
            "replicas": peak(part.hours),
            "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": in_place()["rollingUpdate"]},
            "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": {
                "size": h.boxes,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": leader,
                "workerTemplate": {"metadata": {"labels": labels}, "spec": worker},
            },
        },
    }


def undone(fleet: HostedFleet) -> tuple[Step, ...]:
    """`kubectl rollout` knows Deployments and no groups of pods."""
    by_applying, by_kubectl = undone_by_applying(fleet.clusters)
    if all(h.boxes > 1 for h in fleet.hosted):
        return (by_applying,)
    groups = listed([h.name for h in fleet.hosted if h.boxes > 1], "and")
    but = f" Not for {groups}: kubectl keeps no versions of a {GROUPS}." if groups else ""
    return (by_applying, replace(by_kubectl, what=by_kubectl.what + but))


def name_of_groups(part: Part) -> str:
    """Not that of the Service in front: under its own name the controller of groups keeps one without an address."""
    return part.name + GROUPS_END


def _pod(fleet: HostedFleet, h: Hosted, part: Part, answers: bool = True) -> dict[str, Any]:
    """The pod of a replica; of one over several instances, that which answers, or another one."""
    finish_s = drain_s(h, part)
    volumes: list[dict[str, Any]] = [
        *weights_volume(h),
        {"name": "home", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{2 * h.gpus_of_a_pod}Gi"}},
    ]
    if h.adapters:
        volumes.append({"name": "adapters", "persistentVolumeClaim": {"claimName": "adapters", "readOnly": True}})
    return {
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "securityContext": pod_security(),
        "terminationGracePeriodSeconds": grace_s(h, part),
        **placement(fleet, h, part),
        **({"initContainers": [folder_maker(h)]} if h.weights.kind == HOST_PATH else {}),
        "containers": [_container(h, finish_s, answers)],
        "volumes": volumes,
    }  # fmt: skip


def drain_s(h: Hosted, part: Part) -> int:
    """For the longest answer of the plan; on spot what the notice of a reclaim leaves."""
    return max(LEAST_DRAIN_S, min(h.drain_s, NOTICE_S - SLEEP_S - AFTER_S) if part.spot else h.drain_s)


def grace_s(h: Hosted, part: Part) -> int:
    """Until a pod that stops is killed."""
    return SLEEP_S + drain_s(h, part) + AFTER_S


def placement(fleet: HostedFleet, h: Hosted, part: Part, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """Where the pods of a part may stand; `labels` select them where others than those of its Deployment do."""
    spread = list(_spread(fleet, h, part, labels or labels_of(h, part)))
    spot = [{"key": k, "operator": "Equal", "value": v, "effect": "NoSchedule"} for k, v in _spot_labels(h)]
    return {
        "nodeSelector": {INSTANCE_TYPE: label_value(h.offer.instance), REGION: label_value(h.offer.region)},
        "affinity": {"nodeAffinity": _firm_or_spot(h, part)},
        "tolerations": [
            {"key": gpu_resource(h), "operator": "Exists", "effect": "NoSchedule"},
            *(spot if part.spot else []),
        ],
        **({"topologySpreadConstraints": spread} if spread else {}),
    }


def resources(h: Hosted) -> dict[str, Any]:
    """Of a pod: a replica, or what of it stands in one instance."""
    n = h.gpus_of_a_pod
    gpus, memory = {gpu_resource(h): str(n)}, f"{GIB_PER_GPU * n + h.host_gib // h.boxes}Gi"
    return {"requests": {"cpu": str(CPUS_PER_GPU * n), "memory": memory, **gpus}, "limits": gpus}


def _spread(fleet: HostedFleet, h: Hosted, part: Part, labels: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Over instances, so that no deployment stands in one alone, and over zones where there are some."""
    if h.boxes > 1:
        return  # its pods must be near each other
    pods = {"labelSelector": {"matchLabels": labels}}
    strictly = {"whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}
    # not honored, a node that fails or is drained counts as one with no replica, and what it had fits nowhere else
    skew = max_skew(fleet, h, part)
    if skew is not None:
        yield {"maxSkew": skew, "minDomains": 2, "topologyKey": HOST} | strictly | pods
    if part.spot and h.plan.deployment.spot_zones > 1:  # the plan counts on it
        yield {"maxSkew": 1, "topologyKey": ZONE} | strictly | pods
    elif h.spread and h.offer.provider in LABELLED_BY_CLOUD:
        yield {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"} | pods


def max_skew(fleet: HostedFleet, h: Hosted, part: Part) -> int | None:
    """By how much instances may differ in replicas: one less than the fewest of two or more, or what the plan needs."""
    if not h.spread or h.gpus >= h.offer.gpus:
        return None  # each replica fills its instances
    planned = fleet.skew(h, part.spot)
    return None if planned is None else max(planned, _fewest_of_several(part) - 1)


def _fewest_of_several(part: Part) -> int:
    """Replicas of the quietest hour that has two or more."""
    return min((n for counts in part.hours.values() for n in counts if n > 1), default=2)


def _not_held_apart(fleet: HostedFleet) -> Iterator[str]:
    """Parts whose replicas Kubernetes might put on one instance in quiet hours, as the plan does not."""
    for h in fleet.hosted:
        for part in h.parts:
            shares = h.spread and h.gpus < h.offer.gpus and peak(part.hours) > 1
            skew = max_skew(fleet, h, part)
            if shares and (skew is None or skew >= _fewest_of_several(part)):
                yield (
                    f"{part.name}: the plan spreads its replicas over instances, but no maxSkew that fits its busiest "
                    "hours rules out that Kubernetes puts all of a quiet hour on one: look where they stand"
                )


def _firm_or_spot(h: Hosted, part: Part) -> dict[str, Any]:
    """Terms are alternatives, expressions of a term hold together; NotIn holds where a node has no such label."""
    if part.spot:
        terms = [[{"key": k, "operator": "In", "values": [v]}] for k, v in _spot_labels(h)]
    else:
        terms = [[{"key": k, "operator": "NotIn", "values": [v]} for k, v in _spot_labels(h)]]
    selector = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": selector}


def _spot_labels(h: Hosted) -> tuple[tuple[str, str], ...]:
    return SPOT_LABELS.get(h.offer.provider, ANYWHERE)


def joining(h: Hosted, answers: bool) -> list[str]:
    """Arguments by which the pods of a group find each other; the controller of groups sets the variables."""
    if h.boxes == 1:
        return []
    rank = ["--node-rank", "$(LWS_WORKER_INDEX)", "--master-addr", "$(LWS_LEADER_ADDRESS)"]
    return [NODES, str(h.boxes), *rank, *([] if answers else ["--headless"])]


def _container(h: Hosted, finish_s: int, answers: bool) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 10, "timeoutSeconds": 5}
    mounts = [*weights_mount(h.weights), {"name": "home", "mountPath": HOME}, {"name": "shm", "mountPath": SHM}]
    if h.adapters:
        mounts.append({"name": "adapters", "mountPath": f"{WORK}/adapters", "readOnly": True})
    probes = {
        "startupProbe": probe | {"failureThreshold": math.ceil(start_limit_s(h) / 10)},
        "readinessProbe": probe | {"failureThreshold": 3},
        "livenessProbe": probe | {"failureThreshold": 6},
    }
    given = [a.replace("$", "$$") for a in (*h.arguments, "--shutdown-timeout", str(finish_s))]
    return {
        "name": "vllm",
        "image": h.image,
        "command": ["vllm", "serve"],
        "args": [*given, *joining(h, answers)],
        "workingDir": WORK,
        "env": environment(h),
        **({"ports": [{"name": "http", "containerPort": PORT}]} if answers else {}),
        "resources": resources(h),
        **(probes if answers else {}),
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(SLEEP_S)]}}},
        "securityContext": RESTRICTED,
        "volumeMounts": mounts,
    }


def in_place() -> dict[str, Any]:
    """How replicas are replaced: the plan buys no GPUs beside them."""
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def start_limit_s(h: Hosted) -> int:
    """A replica that has not started by then is given up."""
    return max(LEAST_START_S, math.ceil(START_SLACK * h.start_s))


def gpu_resource(h: Hosted) -> str:
    return "amd.com/gpu" if h.is_amd else "nvidia.com/gpu"


def _service(h: Hosted) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(h.name, labels_of(h)),
        "spec": {
            "selector": labels_of(h) | (FIRST_OF_A_GROUP if h.boxes > 1 else {}),
            "ports": [{"name": "http", "port": PORT, "targetPort": "http"}],
        },
    }
