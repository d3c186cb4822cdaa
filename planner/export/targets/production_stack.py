"""The vLLM production stack: Helm values for each cluster, and ScaledObjects that hold the plan's hours.

Facts: helm/values.schema.json and helm/values.yaml of vllm-project/production-stack@a6c01db0 (2026-08-05).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from planner.case.case import PREFIX_AWARE
from planner.export.hosted import PORT, Hosted, HostedFleet, Part
from planner.export.hours import peak
from planner.export.manifests import documents
from planner.export.pods import API_KEY, HUGGING_FACE, budget, labels_of
from planner.export.record import Export, Step
from planner.export.targets.keda import clocks, handovers, load_trigger, scaled_object, tolerated
from planner.export.targets.kubernetes import CPUS_PER_GPU, GIB_PER_GPU, grace_s, in_place, placement, start_limit_s
from planner.export.weights import DOWNLOAD
from planner.io.errors import listed

WEIGHTS_FROM = (DOWNLOAD,)
RELEASE = "fleet"
PROBE_S = 10
PODS = f'pod=~"{RELEASE}-{{name}}-deployment-vllm-[a-z0-9]+-[a-z0-9]+"'
KNOWN = {
    "--max-model-len": "maxModelLen",
    "--tensor-parallel-size": "tensorParallelSize",
    "--max-num-seqs": "maxNumSeqs",
    "--dtype": "dtype",
    "--gpu-memory-utilization": "gpuMemoryUtilization",
}
"""arguments that the chart has values for"""


def export(fleet: HostedFleet) -> Export:
    by_prefix = fleet.plan.case.limits.routing == PREFIX_AWARE
    return Export(
        files={f"{c}/values.yaml": documents(fleet.header, _values(fleet, c)) for c in fleet.clusters}
        | {
            f"{h.cluster}/scaling/{h.name}.yaml": fleet.manifests(
                *(_scaled(fleet, h, part) for part in h.parts),
                *(budget(part.name, labels_of(h, part)) for part in h.parts),
            )
            for h in fleet.hosted
        },
        covers=(
            "values of the chart vllm/vllm-stack for each cloud and region, which is a cluster of its own: a modelSpec "
            "for each deployment, with the engine's arguments as planned, those on spot apart",
            "a ScaledObject for each Deployment of the chart: cron triggers hold the table of hours as a floor, and a "
            "trigger on load adds replicas up to those of the busiest hour of all months, and --headroom (the schema "
            "of the chart's own keda values admits one trigger, and hours need several), and a budget by which one "
            "replica at a time may be evicted",
        ),
        steps=(
            Step(
                "Install KEDA, and add the chart's repository.",
                ("helm repo add vllm https://vllm-project.github.io/production-stack",),
            ),
            *(_install(cluster) for cluster in fleet.clusters),
        ),
        undo=(Step("Go back to the previous release.", (f"helm history {RELEASE}", f"helm rollback {RELEASE}")),),
        replicas_of=f'pod=~"{RELEASE}-{{name}}(-spot)?-deployment-vllm-[a-z0-9]+-[a-z0-9]+"',
        left_to_you=(
            "Prometheus: put its address at serverAddress; it must scrape the pods and keep their names in the label "
            "'pod'",
        ),
        cautions=(
            "the chart has no value for the time that a pod is given to stop, so one that goes has 30 s for "
            "its answers: set terminationGracePeriodSeconds of the Deployments to "
            f"{max(grace_s(h, part) for h in fleet.hosted for part in h.parts)} s (kubectl patch, or a post-renderer)",
            *_not_held_apart(fleet),
            "runtimeClassName is empty, for nodes whose runtime has the driver by default: set it to nvidia where "
            "yours have not",
            "an upgrade of the release sets the replicas of the busiest hour until KEDA next polls",
            *(
                []
                if by_prefix
                else [
                    "the chart's router has no least-requests: it goes round robin, on which answers wait longer at "
                    f"the same load; the plan counts on {fleet.plan.case.limits.routing}, which the gateway target's "
                    "pools have: they find these pods by their labels, and the chart's router is then not needed"
                ]
            ),
            *clocks(fleet),
            *tolerated(fleet),
            *handovers(fleet),
        ),
    )


def _not_held_apart(fleet: HostedFleet) -> Iterator[str]:
    if shared := [h.name for h in fleet.hosted if h.spread and h.gpus < h.offer.gpus]:
        yield (
            f"{listed(shared, 'and')}: the plan spreads their replicas over instances, and the chart has no "
            "topologySpreadConstraints: look where they stand, or give the scheduler a default constraint by hostname"
        )


def _install(cluster: str) -> Step:
    install = f"helm upgrade --install {RELEASE} vllm/vllm-stack -f {cluster}/values.yaml"
    return Step(
        f"In the cluster of {cluster}:",
        (
            'kubectl create secret generic vllm --from-literal=api-key="$VLLM_API_KEY"',
            'kubectl create secret generic huggingface --from-literal=token="$HF_TOKEN"',
            f"{install} --dry-run=server",
            install,
            f"kubectl apply --dry-run=server -f {cluster}/scaling/",
            f"kubectl apply -f {cluster}/scaling/",
        ),
    )


def _values(fleet: HostedFleet, cluster: str) -> dict[str, Any]:
    there = [(h, part) for h in fleet.hosted if h.cluster == cluster for part in h.parts]
    key = {"secretName": API_KEY[0], "secretKey": API_KEY[1]}
    by_prefix = fleet.plan.case.limits.routing == PREFIX_AWARE
    probe = {
        "initialDelaySeconds": 15,
        "periodSeconds": PROBE_S,
        "failureThreshold": math.ceil(max(start_limit_s(h) for h, _ in there) / PROBE_S),
        "httpGet": {"path": "/health", "port": PORT},
    }
    return {
        "servingEngineSpec": {
            "vllmApiKey": key,
            "runtimeClassName": "",
            "strategy": in_place(),
            "startupProbe": probe,
            "modelSpec": [_model(fleet, h, part) for h, part in there],
        },
        "routerSpec": {"vllmApiKey": key, "routingLogic": "prefixaware" if by_prefix else "roundrobin"},
    }


def _model(fleet: HostedFleet, h: Hosted, part: Part) -> dict[str, Any]:
    place = placement(fleet, h, part)
    repository, tag = repository_and_tag(h.image)
    wanted = [{"key": k, "operator": "In", "values": [v]} for k, v in place["nodeSelector"].items()]
    spot = place["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    adapters = [{"name": "adapters", "persistentVolumeClaim": {"claimName": "adapters", "readOnly": True}}]
    return {
        "name": part.name,
        "podLabels": labels_of(h, part),
        "repository": repository,
        "tag": tag,
        "modelURL": h.arguments[0],
        "replicaCount": peak(part.hours),
        "requestCPU": CPUS_PER_GPU * h.gpus,
        "requestMemory": f"{GIB_PER_GPU * h.gpus + h.host_gib}Gi",
        "requestGPU": h.gpus,
        **({"requestGPUType": "amd.com/gpu"} if h.is_amd else {}),
        "shmSize": f"{2 * h.gpus}Gi",
        "hf_token": {"secretName": HUGGING_FACE[0], "secretKey": HUGGING_FACE[1]},
        "vllmConfig": _engine(h),
        **({"lmcacheConfig": _offloading(h)} if h.host_gib else {}),
        "nodeSelectorTerms": [{"matchExpressions": [*wanted, *term["matchExpressions"]]} for term in spot],
        "tolerations": place["tolerations"],
        **(
            {
                "extraVolumes": adapters,
                "extraVolumeMounts": [{"name": "adapters", "mountPath": "/adapters", "readOnly": True}],
            }
            if h.adapters
            else {}
        ),
    }


def repository_and_tag(image: str) -> tuple[str, str]:
    """As the chart joins them again; what follows the colon of a port is no tag."""
    repository, colon, tag = image.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (image, "latest")


def _offloading(h: Hosted) -> dict[str, Any]:
    """LMCache's buffer is one for each GPU."""
    return {"enabled": True, "cpuOffloadingBufferSize": str(h.host_gib // h.gpus)}


def _engine(h: Hosted) -> dict[str, Any]:
    """Values where the chart has them, and arguments for the rest."""
    known: dict[str, Any] = {"enablePrefixCaching": True}  # as vLLM does by itself
    rest: list[str] = []
    for name, value in _pairs(h.arguments_without_offload[1:]):
        if name in KNOWN and value is not None:
            known[KNOWN[name]] = value if name in ("--dtype",) else float(value) if "." in value else int(value)
        elif name != "--enable-prefix-caching":
            rest += [name] if value is None else [name, value]
    return known | {"extraArgs": [a.replace("=adapters/", "=/adapters/") for a in rest]}


def _pairs(arguments: list[str]) -> Iterator[tuple[str, str | None]]:
    """Options with their value, and words of their own."""
    k = 0
    while k < len(arguments):
        single = arguments[k].startswith("--") and k + 1 < len(arguments) and not arguments[k + 1].startswith("--")
        several = single and k + 2 < len(arguments) and not arguments[k + 2].startswith("--")
        if single and not several:
            yield arguments[k], arguments[k + 1]
            k += 2
        else:
            yield arguments[k], None
            k += 1


def _scaled(fleet: HostedFleet, h: Hosted, part: Part) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{RELEASE}-{part.name}-deployment-vllm"}
    return scaled_object(fleet, h, part, target, [load_trigger(fleet, h, part, PODS)])
