"""Work that may wait: a queue in Redis, and the job that empties it in the plan's hours and before deadlines."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from planner.case.case import Workload
from planner.export.hosted import HostedFleet
from planner.export.pods import RESTRICTED, metadata, pod_security, secret
from planner.export.routing import SHED, destinations
from planner.plan.account.flows import Served

EVERY_MIN = 5
"""between starts of the job: how late it may notice a deadline"""
REDIS, GATEWAY_KEY = ("redis", "url"), ("litellm", "master-key")
"""secrets and their keys"""
LONGEST_S = 2 * 3600
LEAST_AT_ONCE = 1


def waiting(fleet: HostedFleet) -> list[Workload]:
    """Workloads with a deadline of which something is hosted."""
    hosted = {name for h in fleet.hosted for name in h.pool.workloads}
    return [w for w in fleet.plan.case.workloads if w.deadline_h is not None and w.name in hosted]


def queue_json(fleet: HostedFleet) -> str:
    """For the job: rates by the hour, and what a deadline needs."""
    served = {s.w.name: s for s in fleet.view.served}
    workloads = {w.name: _plan(fleet, served[w.name]) for w in waiting(fleet)}
    return json.dumps({"written_by": fleet.header, "workloads": workloads}, indent=1, sort_keys=True) + "\n"


def _plan(fleet: HostedFleet, s: Served) -> dict[str, Any]:
    rates = done_rps(fleet, s)
    by_day: dict[str, list[float]] = {}
    for t in fleet.slots:
        by_day.setdefault(fleet.plan.slots[t].day, []).append(round(float(rates[t]), 6))
    there = [h for h in fleet.hosted if s.w.name in h.pool.workloads]
    return {
        "time_zone": fleet.settings.time_zone,
        "requests_per_s": by_day,
        "most_per_s": max(max(hours) for hours in by_day.values()),
        "start_s": round(max(h.start_s for h in there)),
        "deadline_h": s.w.deadline_h,
        "at_once": max(LEAST_AT_ONCE, sum(h.in_flight * max(h.most_firm + h.most_spot, 1) for h in there)),
    }


def done_rps(fleet: HostedFleet, s: Served) -> np.ndarray:
    """Requests a second that are done in each hour, where they were moved to [slot]."""
    ways = [each.sum(axis=1) for to, each in destinations(fleet, s).items() if to != SHED]
    rates: np.ndarray = np.sum(ways, axis=0)
    for move in s.decided.moves:
        rates[move.from_slot] -= move.requests_per_s
        rates[move.to_slot] += move.requests_per_s
    done: np.ndarray = np.maximum(rates, 0.0)
    return done


def job(fleet: HostedFleet, w: Workload, name: str, image: str, files: str) -> dict[str, Any]:
    """Started every few minutes; one that still works is left alone."""
    labels = {"app.kubernetes.io/name": "fleetplan-queue", "app.kubernetes.io/instance": name}
    container = {
        "name": "queue",
        "image": image,
        "command": ["python3", "/plan/fleetplan_queue.py"],
        "args": ["work", w.name.replace("$", "$$")],
        "env": [
            {"name": "FLEETPLAN_GATEWAY", "value": "http://litellm:4000"},
            secret("FLEETPLAN_GATEWAY_KEY", GATEWAY_KEY, optional=False),
            secret("REDIS_URL", REDIS, optional=False),
        ],
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
        "securityContext": RESTRICTED,
        "volumeMounts": [{"name": "plan", "mountPath": "/plan", "readOnly": True}],
    }
    pod = {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "securityContext": pod_security(),
        "containers": [container],
        "volumes": [{"name": "plan", "configMap": {"name": files}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": metadata(f"queue-{name}", labels),
        "spec": {
            "schedule": f"*/{EVERY_MIN} * * * *",
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 60 * EVERY_MIN,
            "jobTemplate": {
                "spec": {
                    "activeDeadlineSeconds": LONGEST_S,
                    "backoffLimit": 0,
                    "ttlSecondsAfterFinished": 3600,
                    "template": {"metadata": {"labels": labels}, "spec": pod},
                }
            },
        },
    }
