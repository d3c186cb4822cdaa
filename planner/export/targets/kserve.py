"""KServe: an LLMInferenceService for each deployment, scaled by KEDA's triggers as the plan has its hours.

Facts: serving.kserve.io/v1alpha2 of kserve/kserve@aaac4e29 (2026-08-21). KServe's own template starts vLLM, and takes
its arguments from VLLM_ADDITIONAL_ARGS.
"""

from __future__ import annotations

import shlex
from typing import Any

from planner.export.hosted import Hosted, HostedFleet, Part
from planner.export.hours import fewest, peak
from planner.export.pods import HUGGING_FACE, budget, labels_of, metadata, own_labels, secret
from planner.export.record import Export, Step, undone_by_applying
from planner.export.targets.keda import (
    LOOK_S,
    STABLE_S,
    clocks,
    cron_triggers,
    handovers,
    load_trigger,
    most_replicas,
    steering,
    tolerated,
)
from planner.export.targets.kubernetes import WORK, drain_s, grace_s, groups_need, placement, resources
from planner.export.weights import DOWNLOAD

WEIGHTS_FROM = (DOWNLOAD,)
CLAIM = "pvc://YOUR-CLAIM"
"""in place of weights that are not on the Hub"""
SHM_VOLUME = "dshm"
"""of KServe's template, with 1 GiB"""
OVER_BOXES = True
SHARED_BY_TEMPLATE = ("--tensor-parallel-size", "--pipeline-parallel-size")
"""arguments that KServe's template of pipelines writes itself"""
PODS = 'pod=~"{name}-kserve-[a-z0-9]+-[a-z0-9]+"'
"""pods of the Deployment that KServe makes of a service"""


def export(fleet: HostedFleet) -> Export:
    files = {
        f"{h.cluster}/{h.name}.yaml": fleet.manifests(
            *(_service(fleet, h, part) for part in h.parts),
            *(budget(part.name, own_labels(part)) for part in h.parts),
        )
        for h in fleet.hosted
    }
    spot = [h.name for h in fleet.hosted if len(h.parts) > 1]
    return Export(
        files=files,
        covers=(
            "an LLMInferenceService for each deployment, in a folder for each cloud and region: model, GPUs, instance "
            "type, and the engine's arguments as planned",
            "scaling by KEDA: cron triggers hold the table of hours as a floor, and start early by the time that a "
            "start takes; a trigger on load adds replicas up to those of the busiest hour of all months, and "
            "--headroom",
            "KServe's route, gateway and scheduler in front of each, and a budget by which one replica at a time may "
            "be evicted",
        ),
        steps=(
            Step("Install KServe with LLMInferenceService v1alpha2, its gateway, and KEDA."),
            *(
                Step(
                    f"In the cluster of {cluster}:",
                    (
                        'kubectl create secret generic huggingface --from-literal=token="$HF_TOKEN"',
                        f"kubectl apply --dry-run=server -f {cluster}/",
                        f"kubectl apply -f {cluster}/",
                        "kubectl get llminferenceservice",
                    ),
                )
                for cluster in fleet.clusters
            ),
        ),
        undo=undone_by_applying(fleet.clusters)[:1],
        reached_at="http://YOUR-GATEWAY/NAMESPACE/{name}/v1",
        replicas_of='pod=~"{name}(-spot)?-kserve-[a-z0-9]+-[a-z0-9]+"',
        left_to_you=(
            "Prometheus: put its address at serverAddress; it must scrape the pods, which speak TLS unless you have "
            "switched it off, and keep their names in the label 'pod'",
            f"probes are those of KServe's template, of which some give up after 10 min: raise startupProbe where an "
            f"engine needs longer; the plan counts on up to {max(h.planned_weights_s for h in fleet.hosted):,.0f} s to "
            "load the weights once they are downloaded; a token of the Hub goes to KServe's storage initializer by the "
            "service account",
            "the key that clients show: KServe's gateway checks who calls, the engine does not",
            *(
                f"{h.name}: {h.checkpoint} is not an id on the Hub; put it into a volume claim, and name that in "
                "model.uri"
                for h in fleet.hosted
                if not h.on_the_hub
            ),
            *groups_need(fleet),
        ),
        cautions=(
            *(
                f"{name} and {name}-spot are two services with a route each: give both to what stands in front of "
                "them, in the proportion of their replicas"
                for name in spot
            ),
            "an update is to replace replicas in place (rolloutStrategy), since the plan buys no GPUs beside them: "
            "where your version keeps to the default of Deployments, it waits for a GPU until you take a replica away",
            *(
                f"{h.name}: replicas over several instances are not scaled by KEDA's triggers here, so that as many "
                "run as in the busiest hour; KServe's template of pipelines is newer than its others: try it first"
                for h in fleet.hosted
                if h.boxes > 1
            ),
            *clocks(fleet),
            *tolerated(fleet),
            *handovers(fleet),
        ),
    )


def _additional(h: Hosted, part: Part) -> list[str]:
    """Arguments beside those of KServe's template, which joins the instances of a replica by itself."""
    given = h.arguments_without_offload[1:]
    for name in SHARED_BY_TEMPLATE if h.boxes > 1 else ():
        at = given.index(name)
        given = [*given[:at], *given[at + 2 :]]
    return [*given, "--shutdown-timeout", str(drain_s(h, part))]


def _service(fleet: HostedFleet, h: Hosted, part: Part) -> dict[str, Any]:
    arguments = _additional(h, part)
    container = {
        "name": "main",
        "image": h.image,
        "workingDir": WORK,
        "env": [
            {"name": "VLLM_ADDITIONAL_ARGS", "value": shlex.join(arguments).replace("$", "$$")},
            secret("HF_TOKEN", HUGGING_FACE, optional=True),
        ],
        "resources": resources(h),
    }
    volumes: list[dict[str, Any]] = [
        {"name": SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": f"{2 * h.gpus_of_a_pod}Gi"}}
    ]
    if h.adapters:
        container["volumeMounts"] = [{"name": "adapters", "mountPath": f"{WORK}/adapters", "readOnly": True}]
        claim = {"claimName": "adapters", "readOnly": True}
        volumes.append({"name": "adapters", "persistentVolumeClaim": claim})
    pod = {
        "terminationGracePeriodSeconds": grace_s(h, part),
        **placement(fleet, h, part, own_labels(part)),
        "containers": [container],
        "volumes": volumes,
    }
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": metadata(part.name, labels_of(h, part)),
        "spec": {
            "model": {"uri": f"hf://{h.checkpoint}" if h.on_the_hub else f"{CLAIM}/{h.name}", "name": h.checkpoint},
            "labels": own_labels(part),
            **_replicas(fleet, h, part),
            "rolloutStrategy": {"maxSurge": 0, "maxUnavailable": 1},
            **({"kvCacheOffloading": {"cpu": f"{h.host_gib}Gi", "evictionPolicy": "lru"}} if h.host_gib else {}),
            "router": {"route": {}, "gateway": {}, "scheduler": {}},
            **(_over_boxes(h, pod) if h.boxes > 1 else {}),
            "template": pod,
        },
    }


def _over_boxes(h: Hosted, pod: dict[str, Any]) -> dict[str, Any]:
    """A stage of the pipeline in each of the pods that KServe makes a LeaderWorkerSet of."""
    return {"parallelism": {"tensor": h.gpus_of_a_pod, "pipeline": h.boxes}, "worker": pod}


def _replicas(fleet: HostedFleet, h: Hosted, part: Part) -> dict[str, Any]:
    """A number, or what KEDA scales between; zero replicas are KEDA's idle count, below a least of one."""
    least, most = fewest(part.floor), most_replicas(fleet, part)
    if h.boxes > 1:
        return {"replicas": peak(part.hours)}
    if least == most:
        return {"replicas": most}
    from_zero = {"idleReplicaCount": 0, "pollingInterval": LOOK_S, "cooldownPeriod": STABLE_S} if not least else {}
    triggers = [*cron_triggers(fleet, h, part), load_trigger(fleet, h, part, PODS)]
    keda = {**from_zero, **steering(fleet, part, least), "triggers": triggers}
    return {"scaling": {"minReplicas": max(1, least), "maxReplicas": most, "keda": keda}}
