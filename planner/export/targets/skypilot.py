"""A SkyServe service for each deployment of a plan, on the instances it was planned on.

A replica of a service is a whole instance. Where one holds several replicas of the plan, the engine runs them side by
side (data parallel) behind one port.
"""

from __future__ import annotations

import math
import shlex
from typing import Any

from planner.export.hosted import PORT, VLLM, Hosted, HostedFleet
from planner.export.hours import Hours, fewest, peak
from planner.export.manifests import documents
from planner.export.record import IN_JOB, Export, Step
from planner.export.weights import DOWNLOAD, STREAM
from planner.io.errors import input_error, listed

CLOUDS = ("aws", "azure", "gcp", "lambda", "nebius", "oci", "runpod", "verda")
"""clouds of the catalog that SkyPilot 0.14 rents from"""
LEAST_START_S, START_SLACK = 1200, 3
UP_S, DOWN_S = 60, 1200
LEAST_QPS = 0.001
SECRETS = "--secret HF_TOKEN --secret VLLM_API_KEY"
RANKS = "--data-parallel-size"
WEIGHTS_FROM = (DOWNLOAD, STREAM)
LEAST_DISK_GB, DISK_ROOM_GB, DISK_STEP_GB = 512, 200, 64
"""of an instance: at least, beside the weights for its image, the engine and caches, and rounded up to"""


def export(fleet: HostedFleet) -> Export:
    known = [h for h in fleet.hosted if h.offer.provider in CLOUDS]
    if not known:
        providers = listed(sorted({h.offer.provider for h in fleet.hosted}), "and")
        raise input_error("--to", f"SkyPilot does not rent from {providers}", "Export to kubernetes or compose")
    left = [h for h in fleet.hosted if h not in known]
    return Export(
        files={f"{h.name}.yaml": documents(fleet.header, _service(h)) for h in known},
        covers=(
            "a service for each deployment, with the engine's arguments as planned",
            "replicas between the fewest and the most of the plan's hours, by requests a second: as many as a replica "
            "takes in the busiest hour",
            "where the plan uses spot, the replicas that must not be reclaimed are base_ondemand_fallback_replicas",
        ),
        steps=(
            Step(
                "Check the clouds, and read the token that downloads the weights and the key that clients must show.",
                ("sky check", "export HF_TOKEN=... VLLM_API_KEY=..."),
            ),
            *(Step(f"Start {h.name}:", (f"sky serve up {SECRETS} -n {h.name} {h.name}.yaml",)) for h in known),
            Step("Watch them come up, then enter their endpoints in the gateway.", ("sky serve status",)),
        ),
        undo=(Step("Update a service to the last good file.", ("sky serve update NAME NAME.yaml",)),),
        replicas_of=IN_JOB,
        by_the_hour=False,
        left_to_you=(
            "the hours: SkyServe follows the load, not the clock; to hold the table below, change min_replicas and "
            "run 'sky serve update' on a schedule",
            "commitments: SkyPilot rents on demand, and the discount comes with the bill; capacity reservations are "
            "named in its own configuration",
            *(
                f"weights of {h.name}: put them under {h.arguments[0]} as safetensors, where the instance may read them"
                for h in known
                if h.weights.kind == STREAM and h.on_the_hub
            ),
            *(f"{h.name}: SkyPilot does not rent from {h.offer.provider}" for h in left),
        ),
        cautions=(*_firm(known), *_boxes(fleet, known), *_experts(fleet, known)),
    )


def per_instance(h: Hosted) -> int:
    """Replicas of the plan on an instance."""
    return h.offer.gpus // h.gpus


def _instances(h: Hosted, hours: Hours) -> Hours:
    return {day: tuple(_instances_for(h, n) for n in counts) for day, counts in hours.items()}


def _instances_for(h: Hosted, replicas: int) -> int:
    return max(math.ceil(replicas / per_instance(h)), 2 if h.spread and replicas > 1 else 0)


def _must_be_firm(h: Hosted) -> int:
    """Instances that must not be spot, in the hour that needs most."""
    return _instances_for(h, h.must_be_firm)


def _service(h: Hosted) -> dict[str, Any]:
    hours, spot = _instances(h, h.replicas), peak(h.spot) > 0
    policy: dict[str, Any] = {
        "min_replicas": fewest(hours),
        "max_replicas": peak(hours),
        "target_qps_per_replica": max(LEAST_QPS, float(f"{h.busiest_requests_per_s * per_instance(h):.4g}")),
        "upscale_delay_seconds": UP_S,
        "downscale_delay_seconds": DOWN_S,
    }
    if spot:
        policy |= {"base_ondemand_fallback_replicas": _must_be_firm(h)}
    command = _side_by_side(shlex.join(["vllm", "serve", *h.arguments]), per_instance(h))
    probe = {"path": "/health", "initial_delay_seconds": max(LEAST_START_S, math.ceil(START_SLACK * h.start_s))}
    engine = f'export PATH="$HOME/vllm/bin:$PATH"\n{command} --port {PORT}\n'
    mounts = {"file_mounts": {"~/adapters": "./adapters"}} if h.adapters else {}
    return {
        "name": h.name,
        "service": {"readiness_probe": probe, "load_balancing_policy": "least_load", "replica_policy": policy},
        "resources": {
            "infra": f"{h.offer.provider}/{h.offer.region}",
            "instance_type": h.offer.instance,
            "use_spot": spot,
            "ports": PORT,
            "disk_size": _disk_gb(h),
        },
        "secrets": {"HF_TOKEN": None, "VLLM_API_KEY": None},
        **mounts,
        "setup": f"python3 -m venv ~/vllm\n~/vllm/bin/pip install {_package(h)}\n",
        "run": engine,
    }


def _disk_gb(h: Hosted) -> int:
    """Replicas of an instance share one engine, and one copy of the weights as stored."""
    weights_gb = 0.0 if h.weights.kind == STREAM else h.weights_gb
    return max(LEAST_DISK_GB, DISK_STEP_GB * math.ceil((weights_gb + DISK_ROOM_GB) / DISK_STEP_GB))


def _package(h: Hosted) -> str:
    return f"'vllm[runai]=={VLLM}'" if h.weights.kind == STREAM else f"vllm=={VLLM}"


def _side_by_side(command: str, replicas: int) -> str:
    """One engine for all replicas of an instance: each is a rank, or several where attention has copies."""
    if replicas == 1:
        return command
    words = shlex.split(command)
    ranks = 1
    if RANKS in words:
        at = words.index(RANKS)
        ranks = int(words[at + 1])
        del words[at : at + 2]
    return shlex.join([*words, RANKS, str(replicas * ranks)])


def _firm(known: list[Hosted]) -> list[str]:
    return [
        f"{h.name}: {_must_be_firm(h)} on-demand instances run all day, as the hour with most critical load needs; "
        "the plan has fewer of them in quiet hours, and costs less"
        for h in known
        if peak(h.spot) and _must_be_firm(h) > fewest(_instances(h, h.replicas))
    ]


def _boxes(fleet: HostedFleet, known: list[Hosted]) -> list[str]:
    """Where services cannot share instances as the plan does."""
    notes = []
    for offer in dict.fromkeys(h.plan.deployment.offer for h in known):
        there = fleet.offers[offer]
        apart = sum(peak(_instances(h, h.replicas)) for h in there)
        planned = max(fleet.bought_gpus(offer, t) for t in fleet.slots) // there[0].offer.gpus
        if apart > planned:
            names = listed([h.name for h in there], "and")
            notes.append(
                f"{names} share instances of {offer} in the plan, {planned} at most; services cannot, and may rent "
                f"{apart}: more than the plan costs"
            )
    return notes


def _experts(fleet: HostedFleet, known: list[Hosted]) -> list[str]:
    return [
        f"{h.name}: side by side on one instance, replicas of a mixture of experts share their experts, and are not as "
        "fast as planned; the kubernetes target keeps them apart"
        for h in known
        if per_instance(h) > 1 and fleet.plan.case.models[h.plan.deployment.model].moe
    ]
