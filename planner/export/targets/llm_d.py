"""llm-d: an overlay for each cluster, with ScaledObjects on what the endpoint picker measures.

The Deployments are those of the kubernetes target. Facts: metrics and labels of llm-d's guide to KEDA with the endpoint
picker (llm-d/llm-d@1890658, 2026-09); the Workload Variant Autoscaler is deprecated since 0.9 and not written.
"""

from __future__ import annotations

from typing import Any

from planner.export import inference_gateway
from planner.export.hosted import Hosted, HostedFleet, Part
from planner.export.hours import peak
from planner.export.inference_gateway import CHART, GATEWAY, PICKER
from planner.export.manifests import documents
from planner.export.pods import MONITORING
from planner.export.promises import selector
from planner.export.record import Export, Step
from planner.export.targets import kubernetes
from planner.export.targets.keda import PROMETHEUS, SILENT, averaged, clocks, handovers, scaled_object, tolerated

QUEUED, RUNNING = "llm_d_epp_flow_control_queue_size", "llm_d_epp_request_running"
QUEUED_A_REPLICA = 1
"""the threshold of llm-d's own guide"""


def export(fleet: HostedFleet) -> Export:
    base = kubernetes.export(fleet)
    files = dict(base.files)
    for h in fleet.hosted:
        files[f"{h.cluster}/{h.name}-scaling.yaml"] = fleet.manifests(*(_scaled(fleet, h, part) for part in h.parts))
        files[f"{h.cluster}/{h.name}-pool.yaml"] = fleet.manifests(*inference_gateway.pool(fleet, h))
        files[f"picker/{h.name}.yaml"] = inference_gateway.picker(fleet, h)
    for cluster in fleet.clusters:
        files[f"{cluster}/kustomization.yaml"] = _overlay(fleet, cluster, sorted(files))
    return Export(
        files=files,
        covers=(
            "a kustomize overlay for each cloud and region, which is a cluster of its own: Deployments with the "
            "engine's arguments as planned, Services and budgets as in the kubernetes target",
            "an InferencePool, an HTTPRoute and InferenceObjectives for each deployment, and in picker/ the values of "
            "llm-d's chart for its endpoint picker",
            "a ScaledObject for each Deployment: cron triggers hold the table of hours as a floor, and requests "
            "running and queued at the endpoint picker add replicas, up to those of the busiest hour of all months "
            "and --headroom; replicas on spot are added after the firm ones",
        ),
        steps=(
            Step(
                "Install KEDA, and what llm-d needs: Gateway API, InferencePool, InferenceObjective, and a gateway "
                f"with a Gateway called {GATEWAY} in the namespace of the deployments."
            ),
            *(step for step in base.steps if step.what != "Apply it:" and step is not MONITORING),
            *(_apply(fleet, cluster) for cluster in fleet.clusters),
            MONITORING,
        ),
        undo=tuple(
            Step(
                f"In the cluster of {c}, apply the last export that was good, or pause KEDA while you look:",
                (f"kubectl apply -k {c}/", "kubectl annotate scaledobject NAME autoscaling.keda.sh/paused=true"),
            )
            for c in fleet.clusters
        ),
        left_to_you=(
            *base.left_to_you,
            "Prometheus: put its address at serverAddress; it must scrape the endpoint pickers (monitoring.prometheus "
            "of the chart) with the label 'service', and the pods with the label 'pod'",
            "routes by length, APIs and work that waits: the gateway target of the same plan has them, and the same "
            "pools",
        ),
        cautions=(
            *(c for c in base.cautions if "without the keda target" not in c),
            SILENT,
            *clocks(fleet),
            *tolerated(fleet),
            *handovers(fleet),
        ),
    )


def _apply(fleet: HostedFleet, cluster: str) -> Step:
    pickers = (
        f"helm upgrade --install {h.name} {CHART} -f picker/{h.name}.yaml" for h in fleet.hosted if h.cluster == cluster
    )
    apply = f"kubectl apply -k {cluster}/"
    return Step(f"In the cluster of {cluster}:", (*pickers, f"kubectl apply --dry-run=server -k {cluster}/", apply))


def _scaled(fleet: HostedFleet, h: Hosted, part: Part) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": part.name}
    return scaled_object(fleet, h, part, target, [_running(fleet, h, part), _queued(fleet, h, part)])


def _running(fleet: HostedFleet, h: Hosted, part: Part) -> dict[str, Any]:
    """A pool has one picker: replicas on spot are for what is more than the firm ones take."""
    query = f"sum({RUNNING}{_picker(fleet, h)})"
    firm = peak(h.firm)
    if part.spot and firm:
        query = f"clamp_min({query} - {firm * h.target_in_flight}, 0)"
    return _trigger("running", averaged(h, query), h.target_in_flight)


def _queued(fleet: HostedFleet, h: Hosted, part: Part) -> dict[str, Any]:
    return _trigger("queued", f"sum({QUEUED}{_picker(fleet, h)}) or vector(0)", QUEUED_A_REPLICA)


def _picker(fleet: HostedFleet, h: Hosted) -> str:
    return selector(fleet, f'service="{{name}}{PICKER}"', h.name)


def _trigger(name: str, query: str, threshold: int) -> dict[str, Any]:
    metadata = {"serverAddress": PROMETHEUS, "query": query, "threshold": str(threshold)}
    return {"type": "prometheus", "name": name, "metadata": metadata}


def _overlay(fleet: HostedFleet, cluster: str, files: list[str]) -> str:
    mine = [path.split("/")[1] for path in files if path.startswith(f"{cluster}/")]
    place = {"namespace": fleet.settings.namespace} if fleet.settings.namespace else {}
    whole = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **place, "resources": mine}
    return documents(fleet.header, whole)
