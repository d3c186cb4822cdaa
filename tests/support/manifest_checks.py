"""Checks of exported files: core kinds with a validator, other kinds by the fields that exports use.

The facts about KEDA and Karpenter are excerpts of their CustomResourceDefinitions: kedacore/keda@8b4f083c
config/crd/bases/keda.sh_scaledobjects.yaml and kubernetes-sigs/karpenter@22664681
pkg/apis/crds/karpenter.sh_nodepools.yaml (both 2026-08-20), Apache-2.0. Those about services are from SkyPilot 0.14.1,
those about Compose files from the Compose specification.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import jsonschema
import kubernetes_validate.utils
import yaml

from planner.export.export import README
from tests.support.places import TESTS

kubernetes_validate.utils.schema_contents = cache(kubernetes_validate.utils.schema_contents)
"""large files, read once"""
NAME = {"type": "string", "pattern": r"^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0}
DURATION = {"type": "string", "pattern": r"^(([0-9]+(s|m|h))+|Never)$"}
LABELS = {"type": "object", "additionalProperties": TEXT}
LABEL_VALUE = {"type": "string", "pattern": r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$", "maxLength": 63}
METADATA = {"name": NAME, "namespace": NAME, "labels": LABELS, "annotations": LABELS}


def closed(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """An object with these fields and no others."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def metadata() -> dict[str, Any]:
    return closed(METADATA, optional=("namespace", "annotations"))


def array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": 1}


CRON = {
    "timezone": TEXT, "desiredReplicas": {"type": "string", "pattern": "^[0-9]+$"},
    "start": {"type": "string", "pattern": r"^\d+ \d+ \* \* [\d,*-]+$"},
    "end": {"type": "string", "pattern": r"^\d+ \d+ \* \* [\d,*-]+$"},
}  # fmt: skip
PROMETHEUS = {"serverAddress": TEXT, "query": TEXT, "threshold": {"type": "string", "pattern": "^[1-9][0-9]*$"}}
TRIGGER = closed({"type": {"enum": ["cron", "prometheus"]}, "name": TEXT, "metadata": {"type": "object"}}) | {
    "allOf": [
        {"if": {"properties": {"type": {"const": kind}}}, "then": {"properties": {"metadata": closed(fields)}}}
        for kind, fields in (("cron", CRON), ("prometheus", PROMETHEUS))
    ]
}
POLICY = closed({"type": {"enum": ["Pods", "Percent"]}, "value": COUNT | {"minimum": 1}, "periodSeconds": COUNT})
BEHAVIOR = closed(
    {"scaleUp": closed({"policies": array(POLICY)}), "scaleDown": closed({"stabilizationWindowSeconds": COUNT})}
)
SCALED_OBJECT = closed(
    {
        "apiVersion": {"const": "keda.sh/v1alpha1"},
        "kind": {"const": "ScaledObject"},
        "metadata": metadata(),
        "spec": closed(
            {
                "scaleTargetRef": closed({"apiVersion": TEXT, "kind": TEXT, "name": NAME}),
                "pollingInterval": COUNT | {"minimum": 1},
                "cooldownPeriod": COUNT,
                "minReplicaCount": COUNT,
                "maxReplicaCount": COUNT | {"minimum": 1},
                "fallback": closed({"failureThreshold": COUNT, "replicas": COUNT}),
                "advanced": closed({"horizontalPodAutoscalerConfig": closed({"behavior": BEHAVIOR})}),
                "triggers": array(TRIGGER),
            },
            optional=("pollingInterval", "cooldownPeriod"),
        ),
    }
)
BUDGET = closed(
    {
        "nodes": {"type": "string", "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$"},
        "reasons": array({"enum": ["Underutilized", "Empty", "Drifted"]}),
    }
)
NODE_SPEC = closed(
    {
        "nodeClassRef": closed({"group": {"type": "string", "pattern": "^[^/]*$"}, "kind": TEXT, "name": TEXT}),
        "expireAfter": DURATION,
        "taints": array(closed({"key": TEXT, "value": LABEL_VALUE, "effect": {"const": "NoSchedule"}})),
        "requirements": array(closed({"key": TEXT, "operator": {"const": "In"}, "values": array(LABEL_VALUE)})),
    }
)
NODE_POOL = closed(
    {
        "apiVersion": {"const": "karpenter.sh/v1"},
        "kind": {"const": "NodePool"},
        "metadata": metadata(),
        "spec": closed(
            {
                "weight": {"type": "integer", "minimum": 1, "maximum": 100},
                "limits": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[1-9][0-9]*$"}},
                "disruption": closed(
                    {
                        "consolidationPolicy": {"enum": ["WhenEmpty", "WhenEmptyOrUnderutilized"]},
                        "consolidateAfter": DURATION,
                        "budgets": array(BUDGET),
                    }
                ),
                "template": closed({"spec": NODE_SPEC}),
            }
        ),
    }
)
POLICY = closed(
    {
        "min_replicas": COUNT,
        "max_replicas": COUNT | {"minimum": 1},
        "target_qps_per_replica": {"type": "number", "exclusiveMinimum": 0},
        "upscale_delay_seconds": COUNT,
        "downscale_delay_seconds": COUNT,
        "base_ondemand_fallback_replicas": COUNT,
    },
    optional=("base_ondemand_fallback_replicas",),
)
SKY_SERVICE = closed(
    {
        "name": NAME,
        "service": closed(
            {
                "readiness_probe": closed({"path": TEXT, "initial_delay_seconds": COUNT}),
                "load_balancing_policy": {"enum": ["least_load", "round_robin"]},
                "replica_policy": POLICY,
            }
        ),
        "resources": closed(
            {"infra": TEXT, "instance_type": TEXT, "use_spot": {"type": "boolean"}, "ports": COUNT, "disk_size": COUNT}
        ),
        "secrets": closed({"HF_TOKEN": {"type": "null"}, "VLLM_API_KEY": {"type": "null"}}),
        "file_mounts": LABELS,
        "setup": TEXT,
        "run": TEXT,
    },
    optional=("file_mounts",),
)
WORDS = array(TEXT)
DEVICE = closed({"driver": {"const": "nvidia"}, "device_ids": WORDS, "capabilities": WORDS})
COMPOSE_SERVICE = closed(
    {
        "image": TEXT, "entrypoint": WORDS, "command": WORDS, "working_dir": TEXT, "environment": LABELS,
        "ports": WORDS, "volumes": WORDS, "shm_size": TEXT, "restart": TEXT, "stop_grace_period": DURATION,
        "healthcheck": closed(
            {"test": WORDS, "interval": DURATION, "timeout": DURATION, "retries": COUNT, "start_period": DURATION}
        ),
        "deploy": closed({"resources": closed({"reservations": closed({"devices": array(DEVICE)})})}),
        "devices": WORDS, "group_add": WORDS,
    },
    optional=("deploy", "devices", "group_add", "volumes"),
)  # fmt: skip
COMPOSE = closed(
    {
        "name": NAME,
        "services": {"type": "object", "propertyNames": NAME, "additionalProperties": COMPOSE_SERVICE},
        "volumes": {"type": "object"},
    },
    optional=("volumes",),
)
ROUTE_RULE = closed(
    {
        "matches": array(closed({"headers": array(closed({"type": {"const": "Exact"}, "name": TEXT, "value": TEXT}))})),
        "backendRefs": array(closed({"group": TEXT, "kind": TEXT, "name": NAME})),
        "timeouts": closed({"request": DURATION}),
    }
)
HTTP_ROUTE = closed(
    {
        "apiVersion": {"const": "gateway.networking.k8s.io/v1"},
        "kind": {"const": "HTTPRoute"},
        "metadata": metadata(),
        "spec": closed({"parentRefs": array(closed({"name": NAME})), "rules": array(ROUTE_RULE)}),
    }
)
OBJECTIVE = closed(
    {
        "apiVersion": {"const": "llm-d.ai/v1alpha2"},
        "kind": {"const": "InferenceObjective"},
        "metadata": metadata(),
        "spec": closed({"priority": {"type": "integer"}, "poolRef": closed({"group": TEXT, "name": NAME})}),
    }
)
POD_MONITOR = closed(
    {
        "apiVersion": {"const": "monitoring.coreos.com/v1"},
        "kind": {"const": "PodMonitor"},
        "metadata": metadata(),
        "spec": closed(
            {
                "selector": closed({"matchLabels": LABELS}),
                "podMetricsEndpoints": array(closed({"port": TEXT, "path": TEXT, "interval": DURATION})),
            }
        ),
    }
)
DYNAMO_MODEL = closed(
    {
        "apiVersion": {"const": "nvidia.com/v1alpha1"},
        "kind": {"const": "DynamoModel"},
        "metadata": metadata(),
        "spec": closed(
            {
                "modelName": TEXT,
                "baseModelName": TEXT,
                "modelType": {"enum": ["base", "lora", "adapter"]},
                "source": closed({"uri": {"type": "string", "pattern": "^(s3|hf)://"}}),
            }
        ),
    }
)
KUSTOMIZATION = closed(
    {
        "apiVersion": {"const": "kustomize.config.k8s.io/v1beta1"},
        "kind": {"const": "Kustomization"},
        "namespace": NAME,
        "resources": array(TEXT),
        "configMapGenerator": array(closed({"name": NAME, "files": array(TEXT)})),
    },
    optional=("namespace", "configMapGenerator"),
)
ENTRY = closed(
    {
        "model_name": TEXT,
        "litellm_params": {"type": "object", "required": ["model", "weight"]},
        "model_info": closed({"id": TEXT, "fleetplan_to": TEXT}),
    }
)
PROXY_CONFIG = closed(
    {
        "model_list": array(ENTRY),
        "router_settings": {"type": "object"},
        "litellm_settings": {"type": "object"},
        "general_settings": {"type": "object"},
    }
)
"""LiteLLM loads it itself in tests/planner/export/test_gateway.py"""
PICKER = closed(
    {
        "router": closed(
            {
                "modelServers": closed({"type": TEXT, "matchLabels": LABELS, "targetPorts": array({"type": "object"})}),
                "inferencePool": closed({"create": {"type": "boolean"}}),
                "epp": closed({"pluginsConfigFile": TEXT, "pluginsCustomConfig": LABELS, "image": LABELS}, ("image",)),
            }
        )
    }
)
SCHEMAS = TESTS / "support" / "schemas"
STACK_VALUES = SCHEMAS / "production-stack-values.json.gz"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
KINDS = {
    "ScaledObject": SCALED_OBJECT, "NodePool": NODE_POOL, "HTTPRoute": HTTP_ROUTE, "InferenceObjective": OBJECTIVE,
    "Kustomization": KUSTOMIZATION, "PodMonitor": POD_MONITOR, "DynamoModel": DYNAMO_MODEL,
}  # fmt: skip
BY_FILE = {
    ("skypilot", ""): SKY_SERVICE,
    ("compose", ""): COMPOSE,
    ("gateway", "litellm/config.yaml"): PROXY_CONFIG,
    ("gateway", "picker/"): PICKER,
    ("llm-d", "picker/"): PICKER,
    ("production-stack", "values.yaml"): json.loads(
        gzip.decompress((SCHEMAS / "production-stack-values.json.gz").read_bytes())
    ),
}
"""schemas of files that hold no objects of Kubernetes, by target and how their path begins"""
VOLUMES_OF_RESTRICTED = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
"""sources that the restricted standard admits; image since 1.33 (kubernetes/kubernetes#130394)"""
SECRETS = ("TOKEN", "KEY", "PASSWORD", "SECRET")


def against_restricted(pod: Mapping[str, Any]) -> list[str]:
    """What the restricted Pod Security Standard of Kubernetes would say about a pod's spec, by its published controls
    (kubernetes.io/docs/concepts/security/pod-security-standards, CC BY 4.0)."""
    found = [f"{key} is set" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    for volume in pod.get("volumes", []):
        sources = set(volume) - {"name"}
        found += [f"volume {volume['name']} is {source}" for source in sources - VOLUMES_OF_RESTRICTED]
    whole = pod.get("securityContext", {})
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        name, own = container["name"], container.get("securityContext", {})
        both = whole | own
        if not both.get("runAsNonRoot") or not both.get("runAsUser", 1):
            found.append(f"{name} may run as root")
        if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
            found.append(f"{name} may escalate")
        capabilities = own.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []) or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            found.append(f"{name} has capabilities")
        if both.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            found.append(f"{name} has no seccomp profile")
        if any("hostPort" in port for port in container.get("ports", [])):
            found.append(f"{name} takes a port of its host")
        handlers = [container.get(k, {}) for k in ("startupProbe", "readinessProbe", "livenessProbe")]
        if any("host" in probe.get("httpGet", {}) for probe in handlers):
            found.append(f"{name} probes another host")
    return found


def inline_secrets(pod: Mapping[str, Any]) -> list[str]:
    """Variables that should be secret, and are written down."""
    variables = [v for c in [*pod.get("initContainers", []), *pod["containers"]] for v in c.get("env", [])]
    return [v["name"] for v in variables if "value" in v and any(word in v["name"] for word in SECRETS)]


def pods_of(files: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Specs of the pods that files make."""
    for _, found in objects(files):
        if found.get("kind") in ("Deployment", "Job", "CronJob"):
            yield pod_of(found)
        if found.get("kind") == "LeaderWorkerSet":
            group = found["spec"]["leaderWorkerTemplate"]
            yield from (group[role]["spec"] for role in ("leaderTemplate", "workerTemplate"))


def pod_of(found: Mapping[str, Any]) -> dict[str, Any]:
    spec = found["spec"]["jobTemplate"]["spec"] if found["kind"] == "CronJob" else found["spec"]
    pod: dict[str, Any] = spec["template"]["spec"]
    return pod


def objects(files: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Everything that the YAML files hold, with the file."""
    for name, text in files.items():
        if name.endswith(".yaml"):
            yield from ((name, found) for found in yaml.load_all(text, LOADER))


def assert_valid(target: str, files: Mapping[str, str]) -> None:
    """Every object fits its schema, names are unique within a cluster, and there is a README."""
    assert files[README].startswith("# ")
    seen = set()
    for file, found in objects(files):
        kind = found.get("kind")
        schema = next(
            (
                s
                for (of, begins), s in BY_FILE.items()
                if of == target and (file.startswith(begins) or file.endswith(f"/{begins}"))
            ),
            None,
        )
        schema = schema or KINDS.get(str(kind)) or of_the_cluster(str(kind))
        if schema is not None:
            _check(found, schema)
        else:
            kubernetes_validate.validate(found, "1.34", strict=True)
            _check(found["metadata"]["name"], NAME)
            assert_consistent(found)
        name = found["metadata"]["name"] if "metadata" in found else found.get("name", file)
        place = (PurePosixPath(file).parent if kind else "", kind, name)
        assert place not in seen, place
        seen.add(place)
    assert seen


@cache
def of_the_cluster(kind: str) -> dict[str, Any] | None:
    """The schema of a CustomResourceDefinition, which refuses fields that it does not know."""
    file = SCHEMAS / f"{kind}.json.gz"
    if not file.exists():
        return None
    found = json.loads(gzip.decompress(file.read_bytes()))
    whole = _strict(found["schema"])
    whole["properties"] |= {"apiVersion": {"const": found["apiVersion"]}, "metadata": metadata()}
    return whole


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    some = {
        key: _strict(each) for key, each in schema.items() if not key.startswith("x-kubernetes-") and key != "default"
    }
    if "properties" in schema and isinstance(schema["properties"], dict):
        some["properties"] = {name: _strict(each) for name, each in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields") and "additionalProperties" not in schema:
            some["additionalProperties"] = False
    return some


def assert_consistent(found: Mapping[str, Any]) -> None:
    """Volumes are there and used, secrets are references, and a pod is given the time that it drains for."""
    if found.get("kind") not in ("Deployment", "Job", "CronJob"):
        return
    pod = pod_of(found)
    assert inline_secrets(pod) == []
    containers = [*pod.get("initContainers", []), *pod["containers"]]
    mounted = {mount["name"] for c in containers for mount in c.get("volumeMounts", [])}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    for c in containers:
        paths = [mount["mountPath"] for mount in c["volumeMounts"]]
        assert len(paths) == len(set(paths))
    if found["kind"] == "Deployment" and pod["containers"][0]["name"] == "vllm":
        (c,) = pod["containers"]
        arguments = dict(zip(c["args"], c["args"][1:], strict=False))
        sleep_s = int(c["lifecycle"]["preStop"]["exec"]["command"][1])
        assert pod["terminationGracePeriodSeconds"] > sleep_s + int(arguments["--shutdown-timeout"])
        assert "--no-enable-prefix-caching" not in c["args"]


def _check(found: object, schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(schema).validate(found)
