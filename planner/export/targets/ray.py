"""Ray Serve LLM: a RayService for each deployment. It follows the load and knows no hours.

Facts: ray.io/v1 of ray-project/kuberay@feeaf72f (2026-08-19); fields of Serve's configuration from docs.ray.io (2026).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from planner.export.hosted import Hosted, HostedFleet, Part
from planner.export.hours import fewest
from planner.export.pods import API_KEY, HUGGING_FACE, budget, labels_of, metadata, own_home, own_labels, secret
from planner.export.record import Export, Step, undone_by_applying
from planner.export.targets.keda import most_replicas
from planner.export.targets.kubernetes import drain_s, grace_s, placement, resources
from planner.export.weights import BUCKET, DOWNLOAD

WEIGHTS_FROM = (DOWNLOAD,)
IMAGE = "rayproject/ray-llm:YOUR-VERSION"
ADAPTERS = f"{BUCKET}/adapters"
OVER_BOXES = True
UP_S, DOWN_S = 30, 600
MORE_ADMITTED = 2
"""times the requests in flight of the busiest hour: beyond them requests wait at the router"""
LEAST = 1


def export(fleet: HostedFleet) -> Export:
    files = {
        f"{h.cluster}/{h.name}.yaml": fleet.manifests(
            *(_service(fleet, h, part) for part in h.parts), *(b for part in h.parts for b in _budget(part, h.boxes))
        )
        for h in fleet.hosted
    }
    return Export(
        files=files,
        covers=(
            "a RayService for each deployment, in a folder for each cloud and region: Serve's LLM application with the "
            "engine's arguments as planned, and a group of workers on the instance type it was planned on",
            "replicas between the fewest and the most of the plan's hours (and --headroom) by requests in flight: as "
            "many as a replica has in the busiest hour",
        ),
        steps=(
            Step("Install KubeRay 1.5 or later."),
            *(
                Step(
                    f"In the cluster of {cluster}:",
                    (
                        'kubectl create secret generic huggingface --from-literal=token="$HF_TOKEN"',
                        'kubectl create secret generic vllm --from-literal=api-key="$VLLM_API_KEY"',
                        f"kubectl apply --dry-run=server -f {cluster}/",
                        f"kubectl apply -f {cluster}/",
                        "kubectl get rayservice",
                    ),
                )
                for cluster in fleet.clusters
            ),
        ),
        undo=undone_by_applying(fleet.clusters)[:1],
        reached_at="http://{name}-serve-svc.NAMESPACE:8000/v1",
        replicas_of='ray_io_cluster=~"{name}(-spot)?-.*"',
        by_the_hour=False,
        left_to_you=(
            *(() if fleet.settings.image else (f"the version of Ray: {IMAGE} is a place, --image names one",)),
            "the hours: Ray Serve follows the load, not the clock. To hold the table of hours, set min_replicas in "
            "serveConfigV2 to it ahead of each change, by the time that a start takes, with a CronJob or by hand; a "
            "new "
            "serveConfigV2 changes the application in place",
            *(
                f"{h.name}: rent instances that the interconnect joins, and ask for its devices in the resources of "
                "workers"
                for h in fleet.hosted
                if h.boxes > 1
            ),
            "clients' keys: Serve does not check VLLM_API_KEY; put a gateway in front",
        ),
        cautions=tuple(_cautions(fleet)),
    )


def _cautions(fleet: HostedFleet) -> Iterator[str]:
    for h in fleet.hosted:
        if len(h.parts) > 1:
            yield f"{h.name} and {h.name}-spot are two services: give both to what stands in front of them"
        if h.adapters:
            yield (
                f"{h.name}: Serve loads adapters from {ADAPTERS}, a folder each, and clients name one as "
                f"{h.checkpoint}:ADAPTER; in LiteLLM's config write the models so"
            )
        if h.boxes > 1:
            yield (
                f"{h.name}: a replica takes {h.boxes} workers, each a whole instance with a stage of its pipeline; "
                "Serve packs its GPUs onto as few nodes as hold them"
            )
        if "--data-parallel-size" in h.arguments:
            yield (
                f"{h.name}: the plan runs copies of attention in one engine (data_parallel_size), of which Serve makes "
                "a group of replicas: try it with your version before you count on it"
            )
        if fewest(h.replicas) < LEAST:
            yield (
                f"{h.name}: Serve's LLM application keeps one replica running even in hours for which the plan has none"
            )


def _budget(part: Part, boxes: int) -> Iterator[dict[str, Any]]:
    """Ray tells Kubernetes no count of its pods, so a budget can only say how many must stay: all but one."""
    if fewest(part.hours) > LEAST:
        yield budget(part.name, own_labels(part), {"minAvailable": fewest(part.hours) * boxes - 1})


def _service(fleet: HostedFleet, h: Hosted, part: Part) -> dict[str, Any]:
    image, least, most = _image(fleet), max(LEAST, fewest(part.floor)), max(LEAST, most_replicas(fleet, part))
    own = own_labels(part)
    env = [*own_home(), secret("HF_TOKEN", HUGGING_FACE, optional=True), secret("VLLM_API_KEY", API_KEY, optional=True)]
    home = {"volumes": [{"name": "home", "emptyDir": {}}]}
    mounts = [{"name": "home", "mountPath": "/home/vllm"}]
    head = {
        "name": "ray-head",
        "image": image,
        "env": env,
        "resources": {"requests": {"cpu": "2", "memory": "8Gi"}},
        "volumeMounts": mounts,
    }
    worker = {"name": "ray-worker", "image": image, "env": env, "resources": resources(h), "volumeMounts": mounts}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": metadata(part.name, labels_of(h, part)),
        "spec": {
            "serveConfigV2": yaml.safe_dump(_serve(h, part, least, most), sort_keys=False, width=10_000),
            "rayClusterConfig": {
                "enableInTreeAutoscaling": True,
                "headGroupSpec": {
                    "rayStartParams": {"num-gpus": "0", "dashboard-host": "0.0.0.0"},
                    "template": {"spec": {"containers": [head], **home}},
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "gpus",
                        "replicas": least * h.boxes,
                        "minReplicas": least * h.boxes,
                        "maxReplicas": most * h.boxes,
                        "rayStartParams": {},
                        "template": {
                            "metadata": {"labels": own},
                            "spec": {
                                "terminationGracePeriodSeconds": grace_s(h, part),
                                **placement(fleet, h, part, own),
                                "containers": [worker],
                                **home,
                            },
                        },
                    }
                ],
            },
        },
    }


def _image(fleet: HostedFleet) -> str:
    return fleet.settings.image or fleet.settings.mirrored(IMAGE)


def _serve(h: Hosted, part: Part, least: int, most: int) -> dict[str, Any]:
    adapters = {"dynamic_lora_loading_path": ADAPTERS, "max_num_adapters_per_replica": len(h.adapter_names)}
    config = {
        "model_loading_config": {"model_id": h.checkpoint, "model_source": h.arguments[0]},
        "engine_kwargs": engine_kwargs(h.arguments[1:]),
        **({"lora_config": adapters} if h.adapters else {}),
        "deployment_config": {
            "max_ongoing_requests": MORE_ADMITTED * h.in_flight,
            "graceful_shutdown_timeout_s": drain_s(h, part),
            "autoscaling_config": {
                "min_replicas": least,
                "max_replicas": most,
                "target_ongoing_requests": h.target_in_flight,
                "upscale_delay_s": UP_S,
                "downscale_delay_s": DOWN_S,
            },
        },
    }
    application = {
        "name": h.name,
        "route_prefix": "/",
        "import_path": "ray.serve.llm:build_openai_app",
        "args": {"llm_configs": [config]},
    }
    return {"applications": [application]}


def engine_kwargs(arguments: list[str]) -> dict[str, Any]:
    """vLLM's arguments by the names that they have in Python; Serve itself loads adapters."""
    found: dict[str, Any] = {}
    name = ""
    for word in arguments:
        if word.startswith("--"):
            name = word.removeprefix("--").replace("-", "_")
            found[name] = True
        elif found[name] is True:
            found[name] = json.loads(word) if word.startswith("{") else _number(word)
        else:
            found[name] = [*(found[name] if isinstance(found[name], list) else [found[name]]), word]
    found.pop("lora_modules", None)
    return found


def _number(word: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
