"""What makes the plan cheap at run time: routes by length and hour, overflow to APIs, shedding, and work that waits.

LiteLLM's proxy decides where a request goes; an inference gateway finds the replica of a pool that it goes to.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from importlib.resources import files as resources
from typing import Any

from planner.export import inference_gateway, litellm, queue, scripts
from planner.export.hosted import HostedFleet
from planner.export.inference_gateway import CHART, GATEWAY
from planner.export.manifests import documents
from planner.export.names import unique
from planner.export.pods import (
    API_KEY,
    MONITORING,
    RESTRICTED,
    budget,
    metadata,
    monitor,
    pod_security,
    scraped,
    secret,
)
from planner.export.promises import Check
from planner.export.record import Export, Step, undone_by_applying
from planner.export.routing import SHED, routes
from planner.export.targets.kubernetes import HOST
from planner.io.errors import listed
from planner.io.formatting import percent

PROXY_IMAGE = "ghcr.io/berriai/litellm-non_root:main-stable"
PROXY_PORT = 4000
PLACE = "http://YOUR-GATEWAY/v1"
LABELS = {"app.kubernetes.io/name": "litellm"}


def export(fleet: HostedFleet) -> Export:
    files = {f"{h.cluster}/{h.name}.yaml": fleet.manifests(*inference_gateway.pool(fleet, h)) for h in fleet.hosted}
    files |= {f"picker/{h.name}.yaml": inference_gateway.picker(fleet, h) for h in fleet.hosted}
    files |= {
        "litellm/config.yaml": litellm.config(fleet),
        "litellm/routes.json": litellm.routes_json(fleet),
        "litellm/fleetplan_router.py": script("fleetplan_router.py"),
        "monitoring/proxy.yaml": fleet.manifests(monitor("litellm", LABELS)),
        "litellm/proxy.yaml": fleet.manifests(*_proxy(fleet)),
        "litellm/kustomization.yaml": _kustomization(
            fleet, "litellm", ["proxy.yaml"], ["config.yaml", "routes.json", "fleetplan_router.py"]
        ),
    }
    waits = queue.waiting(fleet)
    if waits:
        image = fleet.settings.mirrored(PROXY_IMAGE)
        files |= {
            "queue/queue.json": queue.queue_json(fleet),
            "queue/fleetplan_queue.py": script("fleetplan_queue.py"),
            "queue/jobs.yaml": fleet.manifests(
                *(
                    queue.job(fleet, w, name, image, "fleetplan-queue")
                    for w, name in zip(waits, unique(w.name for w in waits), strict=True)
                )
            ),
            "queue/kustomization.yaml": _kustomization(
                fleet, "fleetplan-queue", ["jobs.yaml"], ["queue.json", "fleetplan_queue.py"]
            ),
        }
    return Export(
        files=files,
        covers=tuple(_covers(fleet)),
        steps=tuple(_steps(fleet)),
        undo=(
            *undone_by_applying(fleet.clusters)[:1],
            Step("Bypass the hook: the proxy then uses only the month's shares.", (WITHOUT_HOOK,)),
        ),
        left_to_you=tuple(_left(fleet)),
        cautions=tuple(_cautions(fleet)),
        checks=tuple(_checks(fleet)),
        brings_gateway=True,
    )


WITHOUT_HOOK = "sed -i '/fleetplan_router.hook/d' litellm/config.yaml && kubectl apply --server-side -k litellm/"
OVER = "[1h]"
TOTAL, FALLBACKS, FAILED = (
    "litellm_deployment_total_requests_total",
    "litellm_deployment_successful_fallbacks_total",
    "litellm_proxy_failed_requests_metric_total",
)
"""counters of LiteLLM 1.106 (litellm/types/integrations/prometheus.py)"""


def script(name: str) -> str:
    return resources(scripts).joinpath(name).read_text(encoding="utf-8")


def needs_proxy(fleet: HostedFleet) -> bool:
    """Whether some requests do not simply go to the one pool of their workload."""
    return any(len(r.to) > 1 or w.api for r in routes(fleet) for w in fleet.plan.workloads) or bool(
        queue.waiting(fleet)
    )


def _covers(fleet: HostedFleet) -> Iterator[str]:
    router = fleet.plan.case.limits.routing
    yield (
        f"a folder for each cluster: an InferencePool over the replicas of each deployment, an HTTPRoute to it by the "
        f"header {inference_gateway.POOL_HEADER}, and an InferenceObjective for each workload: its priority when the "
        "pool is saturated"
    )
    yield f"picker/: values for the chart of each pool's endpoint picker, with {router} routing as the plan assumes"
    yield (
        "litellm/: the proxy that clients call, with the workload as the model's name: config.yaml has destinations, "
        "fallbacks and budgets; routes.json the plan's shares by tokens of the prompt and hour, which "
        "fleetplan_router.py follows"
    )
    if not needs_proxy(fleet):
        yield (
            "every request of this plan goes to the one pool of its workload: clients may call the inference gateway "
            f"themselves, with the header {inference_gateway.POOL_HEADER}, and litellm/ is not needed"
        )
    if waits := queue.waiting(fleet):
        yield (
            f"queue/: a queue for {listed([w.name for w in waits], 'and')}: the job empties it in the hours that the "
            f"plan has replicas for, at their rate; what would be late begins at once, a start and the queue's length "
            "ahead of its deadline"
        )


def _steps(fleet: HostedFleet) -> Iterator[Step]:
    yield Step(
        "In each cluster, install the Gateway API, the Inference Extension's InferencePool, llm-d's "
        "InferenceObjective and a gateway that knows them (Istio, Envoy Gateway, agentgateway, GKE), with a Gateway "
        f"called {GATEWAY} in the namespace of the deployments."
    )
    for cluster in fleet.clusters:
        pickers = [
            f"helm upgrade --install {h.name} {CHART} -f picker/{h.name}.yaml"
            for h in fleet.hosted
            if h.cluster == cluster
        ]
        yield Step(
            f"In the cluster of {cluster}, where the deployments run:",
            (f"kubectl apply --dry-run=server -f {cluster}/", *pickers, f"kubectl apply -f {cluster}/"),
        )
    yield Step(
        "Look up the address of each gateway.",
        (f"kubectl get gateway {GATEWAY} -o jsonpath='{{.status.addresses[0].value}}'",),
    )
    keys = " ".join(f'--from-literal={name}="${name}"' for name in litellm.variables(fleet))
    master = 'kubectl create secret generic litellm --from-literal=master-key="$LITELLM_MASTER_KEY"'
    yield Step(
        "Put the addresses of the gateways into litellm/proxy.yaml, make the secrets (that of the engines, vllm, too "
        "where no deployment runs in this cluster), and start the proxy.",
        (
            master,
            *([f"kubectl create secret generic apis {keys}"] if keys else []),
            "kubectl apply --server-side --dry-run=server -k litellm/",
            "kubectl apply --server-side -k litellm/",
        ),
    )
    first = fleet.plan.workloads[0].name
    hello = {"model": first, "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 5}
    yield Step(
        "Try it: an answer names the destination in the header x-litellm-model-id.",
        (
            f"kubectl port-forward service/litellm {PROXY_PORT} &",
            f"curl -i http://localhost:{PROXY_PORT}/v1/chat/completions -H 'Content-Type: application/json' "
            f'-H "Authorization: Bearer $LITELLM_MASTER_KEY" -d {shlex.quote(json.dumps(hello))}',
        ),
    )
    yield MONITORING
    if queue.waiting(fleet):
        yield Step(
            "Start the queue, and put work into it.",
            (
                'kubectl create secret generic redis --from-literal=url="$REDIS_URL"',
                "kubectl apply --server-side --dry-run=server -k queue/",
                "kubectl apply --server-side -k queue/",
                "REDIS_URL=... python3 queue/fleetplan_queue.py put WORKLOAD < requests.jsonl",
            ),
        )


def _left(fleet: HostedFleet) -> Iterator[str]:
    yield (
        f"the version of {fleet.settings.mirrored(PROXY_IMAGE)}: pin the one that you have tried; the hook was tested "
        "with LiteLLM 1.106, and uses async_filter_deployments and async_pre_call_hook"
    )
    yield (
        "clients' keys: with the master key alone, each client may do everything. Keys of their own, with limits and "
        "budgets for each team, take a database (DATABASE_URL)"
    )
    yield (
        "network policies: clients may reach only the proxy, the proxy only the gateways, and only the gateways the "
        "replicas"
    )
    for api, (requests, tokens) in litellm.busiest_minute(fleet).items():
        yield (
            f"limits of {api}: the plan sends it up to {requests:,.0f} requests and {tokens:,.0f} tokens a minute in "
            "its busiest hour on average; ask for at least twice that, since individual minutes vary"
        )
    if queue.waiting(fleet):
        yield "Redis that keeps what it is given (appendonly yes): the queue is in it"


def _cautions(fleet: HostedFleet) -> Iterator[str]:
    yield (
        "prompts are measured with LiteLLM's tokenizer, which is not each model's own: counts differ by some percent, "
        "so a prompt near the end of a range may go the other way; where it would not fit by that count, it is not sent"
    )
    if caught := [w for w in fleet.plan.workloads if w.api]:
        names = listed([f"{w.name} by {w.api}" for w in caught], "and")
        yield (
            "when replicas fail, a pool has none or sheds (429), requests are answered all the same, and cost API "
            f"prices: {names}"
        )
    if alone := [w.name for w in fleet.plan.workloads if not w.api]:
        yield f"{listed(alone, 'and')}: the plan uses no API here: while a pool has no replica its requests fail (503)"
    if shed := sorted({r.workload for r in routes(fleet) if SHED in r.to}):
        yield (
            f"{listed(shed, 'and')}: the proxy answers 429 in the shares and hours that the plan sheds, and pools shed "
            "more where load is above the plan, by the priority of each InferenceObjective"
        )
    marked = litellm.marked(fleet)
    if spot := [h.name for h in fleet.hosted if marked and any(part.spot for part in h.parts)]:
        yield (
            f"{listed(spot, 'and')}: while spot is away the picker sheds what is not critical. Clients ask for a "
            f"critical answer by another name of the model: {listed([w + litellm.CRITICAL for w in marked], 'or')}; "
            "the proxy sheds none of these"
        )
    for w in queue.waiting(fleet):
        if any(min(h.replicas[day]) == 0 for h in fleet.hosted if w.name in h.pool.workloads for day in h.replicas):
            yield (
                f"{w.name}: its pool has no replica in some hours; to wake one for what is due then, add a trigger of "
                f"KEDA's type redis to its ScaledObject, with the list fleetplan:{w.name}:due"
            )


def _checks(fleet: HostedFleet) -> Iterator[Check]:
    """What the proxy has to show: where requests went, what was shed and what fell back."""
    critical = litellm.marked(fleet)
    for w in fleet.plan.workloads:
        names = [w.name, *([w.name + litellm.CRITICAL] if w.name in critical else [])]
        mine = [r for r in routes(fleet) if r.workload == w.name]
        to = litellm.month_shares(fleet, w.name)
        if len(to) > 1:
            every = _requests([f"{name}/{place}" for name in names for place in to])
            for place, share in to.items():
                query = f"{_requests([f'{name}/{place}' for name in names])} / {every}"
                holds = f"{percent(share)} over the month; the shares of an hour are in litellm/routes.json"
                yield Check(w.name, f"share sent to {place}", query, holds)
        which = "{requested_model=" + _quoted(w.name)
        if shed := sum(r.share_frac * r.to.get(SHED, 0.0) for r in mine):
            refused = f'sum(increase({FAILED}{which},exception_status="429"}}{OVER}))'
            yield Check(w.name, "requests shed", refused, f"{percent(shed)} of its requests over the month")
        if w.api is not None:
            fell = f"sum(increase({FALLBACKS}{which}}}{OVER}))"
            yield Check(w.name, "requests that fell back", fell, f"none: each is paid to {w.api} beyond the plan")


def _requests(ids: list[str]) -> str:
    return f"sum(increase({TOTAL}{{model_id=~{_quoted('|'.join(map(re.escape, ids)))}}}{OVER}))"


def _quoted(text: str) -> str:
    """As a string of PromQL, which has Go's escapes."""
    return json.dumps(text, ensure_ascii=False)


def _kustomization(fleet: HostedFleet, name: str, manifests: list[str], contents: list[str]) -> str:
    place = {"namespace": fleet.settings.namespace} if fleet.settings.namespace else {}
    return documents(
        fleet.header,
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            **place,
            "resources": manifests,
            "configMapGenerator": [{"name": name, "files": contents}],
        },
    )


def _proxy(fleet: HostedFleet) -> list[dict[str, Any]]:
    """Two of them: each deals out the shares for itself."""
    gateways = [{"name": litellm.gateway_variable(cluster), "value": PLACE} for cluster in fleet.clusters]
    keys = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": "apis", "key": name}}}
        for name in litellm.variables(fleet)
    ]
    probe = {"httpGet": {"path": "/health/readiness", "port": "http"}, "periodSeconds": 10, "timeoutSeconds": 5}
    home = "/home/litellm"
    container = {
        "name": "litellm",
        "image": fleet.settings.mirrored(PROXY_IMAGE),
        "args": ["--config", "/plan/config.yaml", "--port", str(PROXY_PORT)],
        "env": [
            {"name": "HOME", "value": home},
            {"name": "PYTHONPATH", "value": "/plan"},
            *gateways,
            secret("VLLM_API_KEY", API_KEY, optional=False),
            secret("LITELLM_MASTER_KEY", queue.GATEWAY_KEY, optional=False),
            *keys,
        ],
        "ports": [{"name": "http", "containerPort": PROXY_PORT}],
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "4Gi"}},
        "readinessProbe": probe,
        "livenessProbe": probe | {"httpGet": {"path": "/health/liveliness", "port": "http"}, "failureThreshold": 6},
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", "15"]}}},
        "securityContext": RESTRICTED,
        "volumeMounts": [
            {"name": "plan", "mountPath": "/plan", "readOnly": True},
            {"name": "home", "mountPath": home},
        ],
    }
    apart = {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": LABELS},
    }
    pod = {
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "securityContext": pod_security(),
        "terminationGracePeriodSeconds": inference_gateway.timeout_s(fleet),
        "topologySpreadConstraints": [apart],
        "containers": [container],
        "volumes": [{"name": "plan", "configMap": {"name": "litellm"}}, {"name": "home", "emptyDir": {}}],
    }
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata("litellm", LABELS),
            "spec": {
                "replicas": litellm.PROXIES,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "selector": {"matchLabels": LABELS},
                "template": {"metadata": {"labels": LABELS, "annotations": scraped(PROXY_PORT)}, "spec": pod},
            },
        },
        budget("litellm", LABELS),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata("litellm", LABELS),
            "spec": {"selector": LABELS, "ports": [{"name": "http", "port": PROXY_PORT, "targetPort": "http"}]},
        },
    ]
