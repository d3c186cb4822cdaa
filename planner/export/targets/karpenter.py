"""NodePools for what a plan holds or buys: one for each offer and way to buy, limited to the plan's GPUs."""

from __future__ import annotations

from typing import Any

from planner.case.prices import HELD
from planner.catalog.terms import is_term
from planner.export.hosted import Hosted, HostedFleet
from planner.export.names import label_value, plain, unique
from planner.export.record import Export, Step, undone_by_applying
from planner.export.targets.kubernetes import CAPACITY_TYPE, INSTANCE_TYPE, REGION
from planner.io.errors import input_error, listed
from planner.plan.plan import FleetLine

NODE_CLASSES = {
    "aws": ("karpenter.k8s.aws", "EC2NodeClass"),
    "azure": ("karpenter.azure.com", "AKSNodeClass"),
    "gcp": ("karpenter.k8s.gcp", "GCENodeClass"),
}
"""group and kind of what each provider of Karpenter calls a class of nodes (their repositories, 2026-11)"""
RESERVED, ON_DEMAND, SPOT = "reserved", "on-demand", "spot"
POOL_WEIGHTS = {RESERVED: 100, ON_DEMAND: 50, SPOT: 10}
"""of the pool of each way to buy: what is paid for anyway comes first"""
WITH_RESERVATIONS = ("aws",)
"""clouds whose provider knows nodes of capacity type reserved; elsewhere a commitment is a discount on demand"""
SPARE_INSTANCES = 1
"""of each pool beyond the plan: Karpenter starts the node that replaces another before it drains that one, as many at
a time as the budget below allows"""

OVER_BOXES = True


def export(fleet: HostedFleet) -> Export:
    bought = _bought(fleet)
    known = {key: gpus for key, gpus in bought.items() if _provider(fleet, key[0]) in NODE_CLASSES}
    if not known:
        providers = listed(sorted({_provider(fleet, offer) for offer, _ in bought}), "and")
        raise input_error("--to", f"Karpenter has no provider for {providers}", "Export to kubernetes, and add nodes")
    names = dict(zip(known, unique(f"{_instance(fleet, offer)}-{way}" for offer, way in known), strict=True))
    clusters = {h.plan.deployment.offer: h.cluster for h in fleet.hosted}
    files: dict[str, list[dict[str, Any]]] = {}
    for (offer, way), gpus in known.items():
        path = f"{clusters[offer]}/{plain(_instance(fleet, offer))}.yaml"
        files.setdefault(path, []).append(_node_pool(fleet, names[offer, way], offer, way, gpus))
    others = sorted({offer for offer, _ in bought} - {offer for offer, _ in known})
    return Export(
        files={path: fleet.manifests(*pools) for path, pools in files.items()},
        covers=(
            "a NodePool for each instance type and purchase type: first what is held or reserved, then on demand, then "
            "spot",
            "each is limited to the GPUs of the plan's busiest hour plus one instance: a node that drifts or fails is "
            "replaced by a new one before it is drained",
            "the Deployments of the kubernetes target choose their nodes: those that are not called -spot never run "
            "on spot nodes",
            "pools of instances that hold several replicas are consolidated, one node at a time, so that replicas are "
            "packed as densely as planned; nodes of other pools are given back when they are empty",
        ),
        steps=(
            Step("Install Karpenter 1.x with its provider for your cloud, and a node class called 'default'."),
            *(
                Step(
                    f"In the cluster of {cluster}:",
                    (f"kubectl apply --dry-run=server -f {cluster}/", f"kubectl apply -f {cluster}/"),
                )
                for cluster in sorted({path.split("/")[0] for path in files})
            ),
            Step("Apply the kubernetes target of the same plan, then the keda target."),
        ),
        undo=undone_by_applying(sorted({path.split("/")[0] for path in files}))[:1],
        left_to_you=(
            f"the node class: image, network, roles, and a disk with room for the weights ({_disks(fleet)})",
            "commitments: a savings plan or reserved instance is a discount on nodes that run on demand and needs "
            "nothing here; capacity reservations are named in the node class (capacityReservationSelectorTerms on AWS)",
            *(f"nodes of {offer}: Karpenter has no provider for that cloud" for offer in others),
        ),
    )


def _disks(fleet: HostedFleet) -> str:
    """What the replicas of an instance download or read into it, at most."""
    gb = {offer: max(map(_disk_gb, there)) for offer, there in fleet.offers.items()}
    return listed([f"{_instance(fleet, offer)}: {most:,.0f} GB" for offer, most in gb.items()], "and")


def _disk_gb(h: Hosted) -> float:
    return h.weights_gb * max(1, h.offer.gpus // h.gpus)


def _provider(fleet: HostedFleet, offer: str) -> str:
    return fleet.plan.case.offers[offer].provider


def _instance(fleet: HostedFleet, offer: str) -> str:
    return fleet.plan.case.offers[offer].instance


def _bought(fleet: HostedFleet) -> dict[tuple[str, str], int]:
    """GPUs of the busiest hour of the month, by offer and way to buy; holdings and commitments together."""
    hours: dict[tuple[str, str], list[int]] = {}
    for line in fleet.plan.fleet:
        gpus = [line.instances_by_slot[t] * line.gpus_per_instance for t in fleet.slots]
        before = hours.get((line.offer, _way(line)), [0] * len(gpus))
        hours[line.offer, _way(line)] = [a + b for a, b in zip(before, gpus, strict=True)]
    ordered = sorted(hours, key=lambda key: (key[0], -POOL_WEIGHTS[key[1]]))
    return {key: max(hours[key]) for key in ordered if max(hours[key]) and key[0] in fleet.offers}


def _way(line: FleetLine) -> str:
    return RESERVED if is_term(line.purchase) or line.purchase == HELD else line.purchase


def _capacity_types(provider: str, way: str) -> list[str]:
    if way != RESERVED:
        return [way]
    return [RESERVED, ON_DEMAND] if provider in WITH_RESERVATIONS else [ON_DEMAND]


def _node_pool(fleet: HostedFleet, name: str, offer: str, way: str, gpus: int) -> dict[str, Any]:
    sold = fleet.plan.case.offers[offer]
    group, kind = NODE_CLASSES[sold.provider]
    there = fleet.offers[offer]
    resource = "amd.com/gpu" if there[0].is_amd else "nvidia.com/gpu"
    wanted = {
        INSTANCE_TYPE: [label_value(sold.instance)],
        REGION: [label_value(sold.region)],
        CAPACITY_TYPE: _capacity_types(sold.provider, way),
    }
    shared = any(sold.gpus // h.gpus > 1 for h in there)
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "fleetplan"}},
        "spec": {
            "weight": POOL_WEIGHTS[way],
            "limits": {resource: str(gpus + SPARE_INSTANCES * sold.gpus)},
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized" if shared else "WhenEmpty",
                "consolidateAfter": "5m",
                "budgets": [
                    {"nodes": "100%", "reasons": ["Empty"]},
                    {"nodes": str(SPARE_INSTANCES), "reasons": ["Underutilized", "Drifted"]},
                ],
            },
            "template": {
                "spec": {
                    "nodeClassRef": {"group": group, "kind": kind, "name": "default"},
                    "expireAfter": "Never",
                    "taints": [{"key": resource, "value": "true", "effect": "NoSchedule"}],
                    "requirements": [{"key": k, "operator": "In", "values": v} for k, v in wanted.items()],
                },
            },
        },
    }
