"""Pools of replicas for gateways with the Gateway API Inference Extension, and how their endpoint picker schedules.

Facts: InferencePool v1 (kubernetes-sigs/gateway-api-inference-extension@84436a96); HTTPRoute v1 (gateway-api 1.4);
InferenceObjective v1alpha2, chart and plugins of llm-d's router (llm-d/llm-d-router@17a368a5), all 2026.
"""

from __future__ import annotations

from typing import Any

from planner.case.case import PREFIX_AWARE
from planner.export.hosted import PORT, Hosted, HostedFleet
from planner.export.manifests import documents
from planner.export.names import plain, unique
from planner.export.pods import labels_of

GATEWAY = "inference-gateway"
POOL_HEADER, OBJECTIVE_HEADER = "x-fleetplan-pool", "x-llm-d-inference-objective"
"""by which requests name their pool to the gateway, and their priority to its endpoint picker"""
LEAST_TIMEOUT_S = 600
GROUP, OBJECTIVES = "inference.networking.k8s.io", "llm-d.ai"
CHART = "oci://ghcr.io/llm-d/charts/llm-d-router-gateway"
PICKER, PICKER_IMAGE = "-epp", "ghcr.io/llm-d/llm-d-router-endpoint-picker"
PICKER_PORT = 9002
CRITICAL = "-critical"
LONGEST_OBJECTIVE = 54
"""with the ending 63: a header holds it, and labels may"""
CRITICAL_PRIORITY, NORMAL_PRIORITY = 100, 0
PREFIX_WEIGHT, LOAD_WEIGHT = 2, 1
"""a prefix is worth a way to a replica that has hardly more to do than the least busy one"""


def pool(fleet: HostedFleet, h: Hosted) -> list[dict[str, Any]]:
    """The replicas of a deployment, firm and spot alike, behind one route."""
    labels = {"app.kubernetes.io/instance": h.name, "app.kubernetes.io/managed-by": "fleetplan"}
    return [
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "InferencePool",
            "metadata": {"name": h.name, "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels_of(h)},
                "targetPorts": [{"number": PORT}],
                "endpointPickerRef": {
                    "name": h.name + PICKER,
                    "port": {"number": PICKER_PORT},
                    "failureMode": "FailOpen",
                },
            },
        },
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": h.name, "labels": labels},
            "spec": {
                "parentRefs": [{"name": GATEWAY}],
                "rules": [
                    {
                        "matches": [{"headers": [{"type": "Exact", "name": POOL_HEADER, "value": h.name}]}],
                        "backendRefs": [{"group": GROUP, "kind": "InferencePool", "name": h.name}],
                        "timeouts": {"request": f"{timeout_s(fleet)}s"},
                    }
                ],
            },
        },
        *(_objective(h, name, priority, labels) for name, priority in objectives(fleet, h).items()),
    ]


def _objective(h: Hosted, name: str, priority: int, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": f"{OBJECTIVES}/v1alpha2",
        "kind": "InferenceObjective",
        "metadata": {"name": name, "labels": labels},
        "spec": {"priority": priority, "poolRef": {"group": GROUP, "name": h.name}},
    }


def objectives(fleet: HostedFleet, h: Hosted) -> dict[str, int]:
    """Priorities of the workloads of a pool: below zero is shed when the pool is saturated, the lowest first.

    Work that may wait gives way first, then what costs least to shed; of what runs on spot, all that is not marked
    critical is shed while spot is away.
    """
    there = [w for w in fleet.plan.case.workloads if w.name in h.pool.workloads]
    on_spot = any(part.spot for part in h.parts)
    giving_way = sorted(
        (w for w in there if w.deadline_h is not None or w.shed_usd_per_request is not None),
        key=lambda w: (w.deadline_h is None, w.shed_usd_per_request or 0.0, w.name),
    )
    found: dict[str, int] = {}
    for w in there:
        sheds_for_spot = on_spot and w.critical_share_frac < 1
        rank = giving_way.index(w) - len(giving_way) if w in giving_way else -1 if sheds_for_spot else NORMAL_PRIORITY
        name = objective_of(fleet, h, w.name)
        found[name] = rank
        if sheds_for_spot and w.critical_share_frac > 0:
            found[name + CRITICAL] = CRITICAL_PRIORITY
    return found


def objective_of(fleet: HostedFleet, h: Hosted, workload: str) -> str:
    """Names differ even where a workload has several pools, and where only what no name may hold tells two apart."""
    every = [(one.name, name) for one in fleet.hosted for name in one.pool.workloads]
    wanted = (name if plain(name) == pool else f"{pool}-{plain(name)}" for pool, name in every)
    return unique(wanted, (CRITICAL,), LONGEST_OBJECTIVE)[every.index((h.name, workload))]


def picker(fleet: HostedFleet, h: Hosted) -> str:
    """Values of llm-d's chart for the endpoint picker of a pool."""
    by_prefix = fleet.plan.case.limits.routing == PREFIX_AWARE
    scorers = {"prefix-cache-scorer": PREFIX_WEIGHT} if by_prefix else {}
    scorers["active-request-scorer"] = LOAD_WEIGHT
    settings = {
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [{"type": name} for name in scorers],
        "schedulingProfiles": [
            {"name": "default", "plugins": [{"pluginRef": name, "weight": n} for name, n in scorers.items()]}
        ],
    }
    epp: dict[str, Any] = {
        "pluginsConfigFile": "fleetplan.yaml",
        "pluginsCustomConfig": {"fleetplan.yaml": documents(fleet.header, settings)},
    }
    if fleet.settings.registry is not None:
        registry, _, repository = fleet.settings.mirrored(PICKER_IMAGE).rpartition("/")
        epp["image"] = {"registry": registry, "repository": repository}
    values = {
        "router": {
            "modelServers": {"type": "vllm", "matchLabels": labels_of(h), "targetPorts": [{"number": PORT}]},
            "inferencePool": {"create": False},
            "epp": epp,
        }
    }
    return documents(fleet.header, values)


def timeout_s(fleet: HostedFleet) -> int:
    """Time for the longest answer of the plan."""
    return max([LEAST_TIMEOUT_S, *(2 * h.drain_s for h in fleet.hosted)])
