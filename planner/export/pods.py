"""What every pod has: a user without rights, secrets by reference, and its weights, wherever they come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.export.hosted import Hosted, HostedFleet, Part
from planner.export.record import Step
from planner.export.weights import BUCKET, DOWNLOAD, HOST_PATH, IMAGE, PVC, REGISTRY, STREAM, Weights
from planner.io.errors import listed

HOME = "/home/vllm"
WEIGHTS_AT = "/weights"
HUB_CACHE = f"{WEIGHTS_AT}/hub"
"""a cache of the Hugging Face Hub, wherever the weights come from"""
USER, GROUP, USER_NAME = 2000, 0, "vllm"
"""whom vLLM's image is prepared for (vllm-project/vllm docs/deployment/docker.md, 2026-11); it has no other user"""
HUGGING_FACE, API_KEY = ("huggingface", "token"), ("vllm", "api-key")
"""secrets and their keys: the Hub's token, and what clients of the engine must show"""
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""of a container, for the restricted Pod Security Standard"""
ROOM = 1.2
"""of a disk, times the weights that it holds: unfinished downloads, tokenizers and locks take some too"""


def metadata(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "labels": labels | {"app.kubernetes.io/managed-by": "fleetplan"}}


def labels_of(h: Hosted, part: Part | None = None) -> dict[str, str]:
    """What the pods of a deployment have in common, or those of a part of it."""
    labels = {"app.kubernetes.io/name": "vllm", "app.kubernetes.io/instance": h.name}
    return labels if part is None else labels | {"app.kubernetes.io/component": "spot" if part.spot else "firm"}


def own_labels(part: Part) -> dict[str, str]:
    """Of pods that an operator makes: it writes those of app.kubernetes.io itself, and finds its pods by them."""
    return {"fleetplan/part": part.name}


def budget(name: str, labels: dict[str, str], allowed: dict[str, int] | None = None) -> dict[str, Any]:
    """Of pods that may be evicted: one at a time, unless the controller of the pods does not tell how many it has."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(name, labels),
        "spec": {
            **(allowed or {"maxUnavailable": 1}),
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": labels},
        },
    }


def monitor(name: str, labels: dict[str, str], port: str = "http") -> dict[str, Any]:
    """Tells Prometheus, where its operator runs it, to scrape pods; other set-ups read their annotations."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": metadata(name, labels),
        "spec": {
            "selector": {"matchLabels": labels},
            "podMetricsEndpoints": [{"port": port, "path": "/metrics", "interval": "15s"}],
        },
    }


def scraped(port: int) -> dict[str, str]:
    """Annotations of pods."""
    return {"prometheus.io/scrape": "true", "prometheus.io/port": str(port), "prometheus.io/path": "/metrics"}


MONITORING = Step(
    "Where Prometheus' operator runs it, tell it of the pods (with the labels that its podMonitorSelector asks for); "
    "other set-ups read the annotations of the pods.",
    ("kubectl apply -f monitoring/",),
)


def pod_security() -> dict[str, Any]:
    """What the restricted standard asks of a pod, and a group that may write its volumes."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": GROUP,
        "fsGroup": GROUP,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def secret(name: str, key: tuple[str, str], optional: bool) -> dict[str, Any]:
    """A variable that refers to a key of a secret."""
    reference: dict[str, Any] = {"name": key[0], "key": key[1]} | ({"optional": True} if optional else {})
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}


def own_home() -> list[dict[str, Any]]:
    """Caches go below HOME; libraries ask for the user's name, which other images may not have."""
    return [{"name": "HOME", "value": HOME}, {"name": "USER", "value": USER_NAME}]


def environment(h: Hosted) -> list[dict[str, Any]]:
    found = [*own_home(), secret("VLLM_API_KEY", API_KEY, optional=False)]
    if h.weights.kind == STREAM:
        return found
    found.append({"name": "HF_HUB_CACHE", "value": HUB_CACHE})
    if h.weights.offline:
        return [*found, {"name": "HF_HUB_OFFLINE", "value": "1"}]
    return [*found, secret("HF_TOKEN", HUGGING_FACE, optional=True)]


def weights_volume(h: Hosted) -> list[dict[str, Any]]:
    way = h.weights
    if way.kind == STREAM:
        return []
    sources: dict[str, dict[str, Any]] = {
        DOWNLOAD: {"emptyDir": {}},
        PVC: {"persistentVolumeClaim": {"claimName": way.place, "readOnly": True}},
        HOST_PATH: {"hostPath": {"path": way.place, "type": "DirectoryOrCreate"}},
        IMAGE: {"image": {"reference": way.place or f"{REGISTRY}/weights/{h.name}:1", "pullPolicy": "IfNotPresent"}},
    }
    return [{"name": "weights"} | sources[way.kind]]


def weights_mount(way: Weights) -> list[dict[str, Any]]:
    if way.kind == STREAM:
        return []
    if way.kind == IMAGE:
        return [{"name": "weights", "mountPath": HUB_CACHE, "readOnly": True}]
    return [{"name": "weights", "mountPath": WEIGHTS_AT} | ({"readOnly": True} if way.kind == PVC else {})]


def folder_maker(h: Hosted) -> dict[str, Any]:
    """A folder that the kubelet makes on a node belongs to root: this gives it to the engine's user."""
    return {
        "name": "weights",
        "image": h.image,
        "command": ["install", "-d", "-o", str(USER), "-g", str(GROUP), "-m", "0775", HUB_CACHE],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "securityContext": {
            "runAsUser": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]},
        },
        "volumeMounts": weights_mount(h.weights),
    }


def filling_job(fleet: HostedFleet, cluster: str) -> dict[str, Any]:
    """A job that downloads what the deployments of a cluster load into the claim."""
    there = [h for h in fleet.hosted if h.cluster == cluster]
    ids = dict.fromkeys(h.checkpoint for h in there if h.on_the_hub)
    labels = {"app.kubernetes.io/name": "weights"}
    container = {
        "name": "weights",
        "image": there[0].image,
        "command": ["sh", "-c", " && ".join(f"hf download {name}" for name in ids) or "true"],
        "env": [*own_home(), {"name": "HF_HUB_CACHE", "value": HUB_CACHE}, secret("HF_TOKEN", HUGGING_FACE, True)],
        "resources": {"requests": {"cpu": "2", "memory": "8Gi"}},
        "securityContext": RESTRICTED,
        "volumeMounts": [{"name": "weights", "mountPath": WEIGHTS_AT}, {"name": "home", "mountPath": HOME}],
    }
    claim = {"claimName": fleet.settings.weights.place}
    pod = {
        "restartPolicy": "OnFailure",
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "securityContext": pod_security(),
        "containers": [container],
        "volumes": [{"name": "weights", "persistentVolumeClaim": claim}, {"name": "home", "emptyDir": {}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata("weights", labels),
        "spec": {"backoffLimit": 6, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def weights_left(fleet: HostedFleet) -> Iterator[str]:
    way, sizes = fleet.settings.weights, fleet.weights_gb
    ids = listed([f"{name} ({gb:,.0f} GB)" for name, gb in sizes.items()], "and")
    if way.kind == DOWNLOAD:
        most = max(h.weights_gb * max(1, h.offer.gpus // h.gpus) for h in fleet.hosted)
        yield (
            "weights: each pod downloads its own whenever it starts; --weights takes them from a shared volume, a "
            f"cache of the node, an image or a stream; nodes need a disk with room for {most:,.0f} GB in addition to "
            "the image"
        )
    if way.kind == PVC:
        yield (
            f"weights: a PersistentVolumeClaim {way.place} in each cluster, ReadWriteMany, with room for "
            f"{ROOM * sum(sizes.values()):,.0f} GB, fast enough for many pods at once; the job in weights/ fills it "
            f"with {ids}"
        )
    if way.kind == HOST_PATH:
        yield (
            f"weights: {way.place} on each node, best on a local disk, with room for "
            f"{ROOM * sum(sizes.values()):,.0f} GB; the first pod on a node downloads, the next ones read"
        )
    if way.kind == IMAGE:
        yield (
            f"weights: images with a cache of the Hub at their root, for {ids}: HF_HUB_CACHE=hub hf download ID, then "
            "a Dockerfile of two lines, FROM scratch and COPY hub/ /; clusters need Kubernetes 1.35, or 1.33 with the "
            "feature gate ImageVolume"
        )
    if way.kind == STREAM:
        yield (
            f"weights: put {ids} under {way.place or BUCKET}/ID as safetensors, with configuration and tokenizer, and "
            "give the pods a service account that may read it"
        )
    if way.kind != DOWNLOAD:
        paths = [h for h in fleet.hosted if not h.on_the_hub]
        yield from (f"{h.name}: {h.checkpoint} is not an id on the Hub, so the image must contain it" for h in paths)
