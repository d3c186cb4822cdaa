"""NVIDIA Dynamo: a DynamoGraphDeployment for each deployment, its workers scaled by KEDA through scaling adapters.

Facts: nvidia.com/v1beta1 of ai-dynamo/dynamo@bb3100e6 (2026-08-22). A scaling adapter is called after the graph and the
component; workers that go to zero take the model off the frontend, so one always stays. Workers know the arguments of
vLLM's engine and not those of its server: adapters are loaded as DynamoModels.
"""

from __future__ import annotations

from typing import Any

from planner.export.hosted import Hosted, HostedFleet, Part
from planner.export.hours import fewest, peak
from planner.export.names import unique
from planner.export.pods import HUGGING_FACE, budget, labels_of, metadata, own_home, own_labels, secret
from planner.export.record import Export, Step, undone_by_applying
from planner.export.targets.keda import clocks, handovers, load_trigger, scaled_object, tolerated
from planner.export.targets.kubernetes import grace_s, placement, resources
from planner.export.weights import BUCKET, DOWNLOAD
from planner.io.errors import listed

WEIGHTS_FROM = (DOWNLOAD,)
RUNTIME = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:YOUR-VERSION"
FRONTEND, FIRM, SPOT = "frontend", "firm", "spot"
LEAST, FRONTENDS = 1, 2
IN_PLACE = {
    "nvidia.com/deployment-rolling-update-max-surge": "0",
    "nvidia.com/deployment-rolling-update-max-unavailable": "1",
}
"""how workers are replaced: the plan buys no GPUs beside them"""
ROUTERS = {
    "least-requests": "least-loaded",
    "prefix-aware": "kv",
    "round-robin": "round-robin",
    "random": "random",
}
"""what the frontend calls the ways to route (its --router-mode, ai-dynamo/dynamo@028cab44)"""
ADAPTERS_AT = "/home/vllm/adapters"
OF_THE_SERVER = "--lora-modules"
"""an option of `vllm serve` with values up to the end, which workers of Dynamo do not know"""


def export(fleet: HostedFleet) -> Export:
    adapters = [(h, name) for h in fleet.hosted for name in h.adapter_names]
    models = dict(zip(adapters, unique(f"{h.name}-{name}" for h, name in adapters), strict=True))
    files = {
        f"{h.cluster}/{h.name}.yaml": fleet.manifests(
            _graph(fleet, h),
            *(_adapter(h, name, models[h, name]) for name in h.adapter_names),
            *(_scaled(fleet, h, part) for part in h.parts),
            *(budget(part.name, own_labels(part)) for part in h.parts),
        )
        for h in fleet.hosted
    }
    to_zero = [part.name for h in fleet.hosted for part in h.parts if fewest(part.hours) < LEAST]
    return Export(
        files=files,
        covers=(
            f"a DynamoGraphDeployment for each deployment, in a folder for each cloud and region: {FRONTENDS} "
            f"frontends, whose router is {ROUTERS[fleet.plan.case.limits.routing]}, and workers with the engine's "
            "arguments as planned, those on spot apart; a budget by which one replica at a time may be evicted",
            "a ScaledObject for the scaling adapter of each kind of worker: cron triggers hold the table of hours as a "
            "floor, and a trigger on load adds replicas up to those of the busiest hour of all months, and --headroom",
        ),
        steps=(
            Step("Install Dynamo's operator with DynamoGraphDeployment v1beta1, and KEDA."),
            *(
                Step(
                    f"In the cluster of {cluster}:",
                    (
                        'kubectl create secret generic huggingface --from-literal=token="$HF_TOKEN"',
                        f"kubectl apply --dry-run=server -f {cluster}/",
                        f"kubectl apply -f {cluster}/",
                        "kubectl get dynamographdeployment,dynamographdeploymentscalingadapter",
                    ),
                )
                for cluster in fleet.clusters
            ),
        ),
        undo=undone_by_applying(fleet.clusters)[:1],
        reached_at="http://{name}-frontend.NAMESPACE:8000/v1",
        replicas_of='pod=~"{name}-.*(firm|spot)-.*"',
        left_to_you=(
            *(
                []
                if fleet.settings.image
                else [f"the version of the runtime: {RUNTIME} names a place, and --image one"]
            ),
            "Prometheus: put its address at serverAddress; it must scrape the workers, whose metrics are vLLM's, and "
            "keep their names in the label 'pod'",
            "clients' keys: the frontend does not check VLLM_API_KEY; put a gateway in front, and let nobody else "
            "reach it",
            *(
                f"adapters of {h.name}: put each under {BUCKET}/adapters/NAME, and give the workers a service account "
                "that may read it"
                for h in fleet.hosted
                if h.adapters
            ),
            "Dynamo's planner is not used: two autoscalers on the same workers undo each other's work",
        ),
        cautions=(
            *(
                [
                    f"{listed(to_zero, 'and')}: Dynamo cannot scale to zero, so one replica keeps running in hours for "
                    "which the plan has none"
                ]
                if to_zero
                else []
            ),
            *clocks(fleet),
            *tolerated(fleet),
            *handovers(fleet),
        ),
    )


def component(part: Part) -> str:
    return SPOT if part.spot else FIRM


def _graph(fleet: HostedFleet, h: Hosted) -> dict[str, Any]:
    image = fleet.settings.image or fleet.settings.mirrored(RUNTIME)
    home = {"name": "home", "emptyDir": {}}
    mounted = [{"name": "home", "mountPath": "/home/vllm"}]
    frontend = {
        "containers": [
            {
                "name": "main",
                "image": image,
                "command": ["python3", "-m", "dynamo.frontend"],
                "env": [*own_home(), {"name": "DYN_ROUTER_MODE", "value": ROUTERS[fleet.plan.case.limits.routing]}],
                "resources": {"requests": {"cpu": "2", "memory": "4Gi"}},
                "volumeMounts": mounted,
            }
        ],
        "volumes": [home],
    }
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": metadata(h.name, labels_of(h)),
        "spec": {
            "backendFramework": "vllm",
            "components": [
                {"name": FRONTEND, "type": "frontend", "replicas": FRONTENDS, "podTemplate": {"spec": frontend}},
                *(_workers(fleet, h, part, image) for part in h.parts),
            ],
        },
    }


def _workers(fleet: HostedFleet, h: Hosted, part: Part, image: str) -> dict[str, Any]:
    own = own_labels(part)
    env = [*own_home(), secret("HF_TOKEN", HUGGING_FACE, optional=True)]
    if h.adapters:
        env += [{"name": "DYN_LORA_ENABLED", "value": "true"}, {"name": "DYN_LORA_PATH", "value": ADAPTERS_AT}]
    container = {
        "name": "main",
        "image": image,
        "command": ["python3", "-m", "dynamo.vllm"],
        "args": [a.replace("$", "$$") for a in ("--model", *engine_arguments(h.arguments))],
        "env": env,
        "resources": resources(h),
        "volumeMounts": [{"name": "home", "mountPath": "/home/vllm"}],
    }
    return {
        "name": component(part),
        "type": "worker",
        "replicas": max(LEAST, peak(part.hours)),
        "scalingAdapter": {},
        **({"modelRef": {"name": h.checkpoint}} if h.adapters else {}),
        "sharedMemorySize": f"{2 * h.gpus}Gi",
        "podTemplate": {
            "metadata": {"labels": own, "annotations": IN_PLACE},
            "spec": {
                "terminationGracePeriodSeconds": grace_s(h, part),
                **placement(fleet, h, part, own),
                "containers": [container],
                "volumes": [{"name": "home", "emptyDir": {}}],
            },
        },
    }


def engine_arguments(arguments: list[str]) -> list[str]:
    """Those that workers of Dynamo know."""
    return arguments[: arguments.index(OF_THE_SERVER)] if OF_THE_SERVER in arguments else arguments


def _adapter(h: Hosted, name: str, model: str) -> dict[str, Any]:
    """Loaded by all workers of the graph; clients name it as the model."""
    return {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoModel",
        "metadata": metadata(model, labels_of(h)),
        "spec": {
            "modelName": name,
            "baseModelName": h.checkpoint,
            "modelType": "lora",
            "source": {"uri": f"{BUCKET}/adapters/{name}"},
        },
    }


def _scaled(fleet: HostedFleet, h: Hosted, part: Part) -> dict[str, Any]:
    target = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeploymentScalingAdapter",
        "name": f"{h.name}-{component(part)}",
    }
    load = load_trigger(fleet, h, part, f'pod=~"{h.name}-.*{component(part)}-.*"')
    return scaled_object(fleet, h, part, target, [load], LEAST)
