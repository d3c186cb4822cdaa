"""A Compose file for an instance: the replicas that the plan puts on it, each with GPUs and a port of its own."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from planner.export.hosted import PORT, Hosted, HostedFleet
from planner.export.manifests import documents
from planner.export.names import unique
from planner.export.record import IN_JOB, Export, Step
from planner.export.weights import BUCKET, DOWNLOAD, HOST_PATH, STREAM
from planner.io.errors import listed

LEAST_START_S, START_SLACK = 600, 3
WORK, CACHE = "/srv/vllm", "/root/.cache/huggingface"
HEALTHY = f"import urllib.request; urllib.request.urlopen('http://localhost:{PORT}/health', timeout=5)"
LEAST_DRAIN_S, AFTER_S = 15, 30
"""of a service that stops: the shortest wait for answers, and the time after the last one"""
WEIGHTS_FROM = (DOWNLOAD, HOST_PATH, STREAM)


def export(fleet: HostedFleet) -> Export:
    kinds = _kinds(fleet)
    names = unique(fleet.plan.case.offers[offer].instance for offer, _ in kinds)
    files = {
        f"{name}/compose.yaml": documents(fleet.header, _project(fleet, name, dict(replicas)))
        for name, (_, replicas) in zip(names, kinds, strict=True)
    }
    covers = [
        f"{name}/: {_phrase(fleet, dict(replicas))} on an instance of {offer}; {when} the plan has {most} such"
        for (name, ((offer, replicas), (most, when))) in zip(names, kinds.items(), strict=True)
    ]
    return Export(
        files=files,
        covers=tuple(covers),
        steps=(
            Step("On each instance, install Docker, the driver and the NVIDIA Container Toolkit (ROCm for AMD)."),
            Step("Load the secrets into the environment from where you keep them.", ("export HF_TOKEN VLLM_API_KEY",)),
            *(Step(f"On {name}:", (f"cd {name} && docker compose up --detach",)) for name in names),
            Step("Wait until every service is healthy, then enter the ports in the gateway.", ("docker compose ps",)),
        ),
        undo=(Step("Start the last good file.", ("docker compose up --detach --remove-orphans",)),),
        replicas_of=IN_JOB,
        by_the_hour=False,
        left_to_you=(
            "ports are open only to the instance itself (127.0.0.1), because keys are sent unencrypted. Run the "
            "gateway on it, or change the address and put TLS in front",
            _weights_left(fleet),
            "the hours: start and stop instances by the table below; where several deployments share one, other hours "
            "may hold other numbers of the same services",
        ),
    )


def _weights_left(fleet: HostedFleet) -> str:
    way, gb = fleet.settings.weights, listed([f"{id} ({gb:,.0f} GB)" for id, gb in fleet.weights_gb.items()], "and")
    if way.kind == STREAM:
        return f"weights: put {gb} under {way.place or BUCKET}/ID as safetensors, where the instances may read them"
    place = way.place if way.kind == HOST_PATH else "the volume 'weights'"
    return f"weights: the first start on an instance downloads {gb} into {place}, later ones read them there"


Kind = tuple[str, tuple[tuple[int, int], ...]]
"""an offer, and how many replicas of each deployment stand on an instance of it"""


def _kinds(fleet: HostedFleet) -> dict[Kind, tuple[int, str]]:
    """Instances that are alike, with their number and the hour: the busiest of the offer, and that of each deployment
    which does not run then."""
    kinds: dict[Kind, tuple[int, str]] = {}
    for offer, there in fleet.offers.items():
        slot = max(fleet.slots, key=lambda t: sum(h.gpus * h.plan.replicas_by_slot[t] for h in there))
        kinds |= _alike(fleet, offer, slot)
        for k, h in enumerate(fleet.hosted):
            if h in there and not any(k in dict(replicas) for _, replicas in kinds):
                own = _alike(fleet, offer, max(fleet.slots, key=lambda t: h.plan.replicas_by_slot[t]))
                kinds |= {kind: count for kind, count in own.items() if k in dict(kind[1]) and kind not in kinds}
    return kinds


def _alike(fleet: HostedFleet, offer: str, slot: int) -> dict[Kind, tuple[int, str]]:
    """The most frequent first."""
    alike = Counter(tuple(sorted(box.replicas.items())) for box in fleet.boxes(offer, slot))
    when = f"at {fleet.plan.slots[slot].hour}:00 of a {fleet.plan.slots[slot].day}"
    ordered = sorted(alike.items(), key=lambda kind: (-kind[1], kind[0]))
    return {(offer, replicas): (count, when) for replicas, count in ordered}


def _phrase(fleet: HostedFleet, replicas: dict[int, int]) -> str:
    return " and ".join(f"{n} x {fleet.hosted[k].name}" for k, n in replicas.items())


def _project(fleet: HostedFleet, name: str, replicas: dict[int, int]) -> dict[str, Any]:
    services: dict[str, Any] = {}
    first_gpu = 0
    for k, count in replicas.items():
        h = fleet.hosted[k]
        for n in range(count):
            gpus = [str(g) for g in range(first_gpu, first_gpu + h.gpus)]
            services[f"{h.name}-{n + 1}"] = _service(h, gpus, PORT + len(services))
            first_gpu += h.gpus
    return {"name": name, "services": services} | (
        {"volumes": {"weights": {}}} if fleet.settings.weights.kind == DOWNLOAD else {}
    )


def _service(h: Hosted, gpus: list[str], port: int) -> dict[str, Any]:
    start_s = max(LEAST_START_S, math.ceil(START_SLACK * h.start_s))
    drain_s = max(LEAST_DRAIN_S, h.drain_s)
    places = {DOWNLOAD: [f"weights:{CACHE}"], HOST_PATH: [f"{h.weights.place}:{CACHE}"]}
    volumes = [*places.get(h.weights.kind, []), *([f"./adapters:{WORK}/adapters:ro"] if h.adapters else [])]
    service: dict[str, Any] = {
        "image": h.image,
        "entrypoint": ["vllm", "serve"],
        "command": [a.replace("$", "$$") for a in (*h.arguments, "--shutdown-timeout", str(drain_s))],
        "working_dir": WORK,
        "environment": {"HF_TOKEN": "${HF_TOKEN:-}", "VLLM_API_KEY": "${VLLM_API_KEY:?the key that clients show}"},
        "ports": [f"127.0.0.1:{port}:{PORT}"],
        **({"volumes": volumes} if volumes else {}),
        "shm_size": f"{2 * h.gpus}gb",
        "restart": "unless-stopped",
        "stop_grace_period": f"{drain_s + AFTER_S}s",
        "healthcheck": {
            "test": ["CMD", "python3", "-c", HEALTHY],
            "interval": "10s",
            "timeout": "10s",
            "retries": 3,
            "start_period": f"{start_s}s",
        },
    }
    if h.is_amd:
        service["environment"] |= {"HIP_VISIBLE_DEVICES": ",".join(gpus)}
        return service | {"devices": ["/dev/kfd", "/dev/dri"], "group_add": ["video"]}
    device = {"driver": "nvidia", "device_ids": gpus, "capabilities": ["gpu"]}
    return service | {"deploy": {"resources": {"reservations": {"devices": [device]}}}}
