"""Whether what exported files refer to is there: pods behind selectors, targets of scalers, routes, secrets, files.

What no file brings must be named in the README, where people are told to make it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import yaml

from planner.export.export import README
from planner.export.inference_gateway import OBJECTIVE_HEADER as OBJECTIVE
from planner.export.inference_gateway import PICKER, POOL_HEADER
from planner.export.targets.production_stack import RELEASE
from tests.support.manifest_checks import objects

Files = Mapping[str, str]
LONGEST = 63
ROOM = {"kserve": len("-kserve-workload"), "production-stack": len(f"{RELEASE}--engine-service"), "ray": 63 - 47}
"""what operators add to the name of an object, or leave of 63"""
BY_THE_OPERATOR = {"production-stack": {"sidecar"}}
FENCED = re.compile(r"^ *```sh\n(.*?)^ *```$", re.M | re.S)
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
OF_PROMQL = {
    "sum",
    "count",
    "rate",
    "increase",
    "histogram_quantile",
    "clamp_min",
    "vector",
    "by",
    "or",
    "le",
    "instance",
}


@dataclass(frozen=True)
class Pods:
    """A template: what makes it, its labels, and its containers with volumes."""

    cluster: str
    name: str
    labels: dict[str, str]
    spec: dict[str, Any]


def folder(path: str) -> str:
    return str(PurePosixPath(path).parts[0])


def templates(files: Files) -> Iterator[Pods]:
    for path, found in objects(files):
        kind, spec, cluster = found.get("kind"), found.get("spec", {}), folder(path)
        name = found.get("metadata", {}).get("name", "")
        if kind in ("Deployment", "Job"):
            yield Pods(cluster, name, spec["template"]["metadata"]["labels"], spec["template"]["spec"])
        elif kind == "LeaderWorkerSet":
            group = spec["leaderWorkerTemplate"]
            for place, role in enumerate(("leaderTemplate", "workerTemplate")):
                set_by_its_controller = {"leaderworkerset.sigs.k8s.io/worker-index": str(place)}
                labels = group[role]["metadata"]["labels"] | set_by_its_controller
                yield Pods(cluster, name, labels, group[role]["spec"])
        elif kind == "CronJob":
            template = spec["jobTemplate"]["spec"]["template"]
            yield Pods(cluster, name, template["metadata"]["labels"], template["spec"])
        elif kind == "LLMInferenceService":
            yield Pods(cluster, name, spec["labels"], spec["template"])
        elif kind == "DynamoGraphDeployment":
            for c in spec["components"]:
                template = c["podTemplate"]
                yield Pods(
                    cluster, f"{name}-{c['name']}", template.get("metadata", {}).get("labels", {}), template["spec"]
                )
        elif kind == "RayService":
            for group in spec["rayClusterConfig"]["workerGroupSpecs"]:
                yield Pods(cluster, name, group["template"]["metadata"]["labels"], group["template"]["spec"])
        elif "servingEngineSpec" in found:
            for m in found["servingEngineSpec"]["modelSpec"]:
                container = {"name": "vllm", "ports": [{"name": "container-port", "containerPort": 8000}]}
                yield Pods(
                    cluster, f"{RELEASE}-{m['name']}-deployment-vllm", m["podLabels"],
                    {"containers": [container], "volumes": m.get("extraVolumes", [])},
                )  # fmt: skip


def selectors(found: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    kind, spec = found.get("kind"), found.get("spec", {})
    if kind == "Service":
        yield spec["selector"]
    elif kind in ("PodDisruptionBudget", "PodMonitor", "InferencePool"):
        yield spec["selector"]["matchLabels"]


def loose_ends(target: str, files: Files, engines: Files | None = None) -> list[str]:
    """`engines`: an export in which the pods run that this one points at, where it has none itself."""
    pods = [*templates(files), *(templates(engines) if engines else ())]
    return [
        *_selectors(files, pods),
        *_templates(files),
        *_scaled(files, pods),
        *_routes(files, pods),
        *_proxy(files, engines),
        *_secrets_and_volumes(files),
        *_names(target, files),
        *_readme(files),
    ]


def _covers(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return bool(wanted) and wanted.items() <= labels.items()


def _selectors(files: Files, pods: list[Pods]) -> Iterator[str]:
    for path, found in objects(files):
        everywhere = folder(path) == "monitoring"
        for wanted in selectors(found):
            there = [p for p in pods if _covers(p.labels, wanted) and (everywhere or p.cluster == folder(path))]
            if not there:
                yield f"{path}: {found['kind']} {found['metadata']['name']} selects no pod"
            ports = {q for p in there for c in p.spec["containers"] for q in c.get("ports", [])
                     for q in (q.get("name"), q["containerPort"])}  # fmt: skip
            spec = found["spec"]
            asked = {q.get("targetPort") for q in spec.get("ports", [])} if found["kind"] == "Service" else set()
            asked |= {q["port"] for q in spec.get("podMetricsEndpoints", [])}
            asked |= {q["number"] for q in spec.get("targetPorts", [])}
            if there and not asked <= ports:
                yield f"{path}: no pod has the port {asked - ports}"


def _templates(files: Files) -> Iterator[str]:
    for path, found in objects(files):
        if found.get("kind") == "Deployment":
            spec = found["spec"]
            if not _covers(spec["template"]["metadata"]["labels"], spec["selector"]["matchLabels"]):
                yield f"{path}: a Deployment does not select its own pods"
        if found.get("kind") == "LLMInferenceService" and any(
            "app.kubernetes.io" in key for key in found["spec"]["labels"]
        ):
            yield f"{path}: a label by which KServe finds its own Deployments"
    for p in templates(files):
        for spread in p.spec.get("topologySpreadConstraints", []):
            if not _covers(p.labels, spread["labelSelector"]["matchLabels"]):
                yield f"{p.name}: spread by labels that it does not have"
        for c in [*p.spec.get("initContainers", []), *p.spec["containers"]]:
            known = {v["name"] for v in p.spec.get("volumes", [])}
            if not {m["name"] for m in c.get("volumeMounts", [])} <= known:
                yield f"{p.name}: {c['name']} mounts what is no volume"


def _scaled(files: Files, pods: list[Pods]) -> Iterator[str]:
    adapters = {
        (folder(path), f"{found['metadata']['name']}-{c['name']}")
        for path, found in objects(files)
        if found.get("kind") == "DynamoGraphDeployment"
        for c in found["spec"]["components"]
        if "scalingAdapter" in c
    }
    there = {(p.cluster, p.name) for p in pods}
    for path, found in objects(files):
        if found.get("kind") in ("ScaledObject", "PodAutoscaler"):
            aim = found["spec"]["scaleTargetRef"]
            known = adapters if aim["kind"].startswith("Dynamo") else there
            if (folder(path), aim["name"]) not in known:
                yield f"{path}: scales {aim['name']}, which is not there"


def _of(files: Files, kind: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(folder(path), f["metadata"]["name"]): f for path, f in objects(files) if f.get("kind") == kind}


def _routes(files: Files, pods: list[Pods]) -> Iterator[str]:
    pools = _of(files, "InferencePool")
    pickers = {path: yaml.safe_load(text) for path, text in files.items() if path.startswith("picker/")}
    for (cluster, name), pool in pools.items():
        if (cluster, name) not in _of(files, "HTTPRoute"):
            yield f"{name}: a pool without a route"
        release = pool["spec"]["endpointPickerRef"]["name"].removesuffix(PICKER)
        picker = pickers.get(f"picker/{release}.yaml")
        servers = picker["router"]["modelServers"] if picker else {}
        if servers.get("matchLabels") != pool["spec"]["selector"]["matchLabels"]:
            yield f"{name}: its picker looks at other pods"
        if f"helm upgrade --install {release} " not in files[README].replace("helm -n llm", "helm"):
            yield f"{name}: the README does not install its picker"
        if servers.get("targetPorts") != pool["spec"]["targetPorts"]:
            yield f"{name}: its picker asks another port"
    for (cluster, name), route in _of(files, "HTTPRoute").items():
        for rule in route["spec"]["rules"]:
            for to in rule["backendRefs"]:
                if (cluster, to["name"]) not in pools:
                    yield f"{name}: routes to {to['name']}, which is not there"
    for (cluster, name), objective in _of(files, "InferenceObjective").items():
        if (cluster, objective["spec"]["poolRef"]["name"]) not in pools:
            yield f"{name}: an objective of no pool"


def _proxy(files: Files, engines: Files | None) -> Iterator[str]:
    if "litellm/config.yaml" not in files:
        return
    config = yaml.safe_load(files["litellm/config.yaml"])
    routes = {
        match["value"]: cluster
        for (cluster, _), route in _of(files, "HTTPRoute").items()
        for rule in route["spec"]["rules"]
        for m in rule["matches"]
        for match in m["headers"]
        if match["name"] == POOL_HEADER
    }
    objectives = set(_of(files, "InferenceObjective"))
    (proxy,) = [p for p in templates(files) if p.name == "litellm"]
    known = {v["name"] for v in proxy.spec["containers"][0]["env"]}
    asked = set(re.findall(r'os\.environ/([^"\s]+)', files["litellm/config.yaml"]))
    if asked - known:
        yield f"the proxy has no {asked - known}"
    served = _served(engines or {})
    for entry in config["model_list"]:
        params = entry["litellm_params"]
        pool = params.get("extra_headers", {}).get(POOL_HEADER)
        if pool is None:
            continue
        if pool not in routes:
            yield f"{entry['model_name']}: no route takes {pool}"
        elif (routes[pool], params["extra_headers"][OBJECTIVE]) not in objectives:
            yield f"{entry['model_name']}: no objective is called {params['extra_headers'][OBJECTIVE]}"
        if engines and params["model"].removeprefix("hosted_vllm/") not in served.get(pool, set()):
            yield f"{entry['model_name']}: {pool} serves no {params['model']}"
    names = {entry["model_name"] for entry in config["model_list"]}
    for fallback in config["router_settings"].get("fallbacks", []):
        for name, others in fallback.items():
            if not {name, *others} <= names:
                yield f"falls back from {name} to {others}"
    by_name: dict[str, set[str]] = {}
    for entry in config["model_list"]:
        by_name.setdefault(entry["model_name"], set()).add(entry["model_info"]["fleetplan_to"])
    planned = json.loads(files["litellm/routes.json"])["workloads"]
    for name, found in planned.items():
        whole = planned[found["critical_of"]] if "critical_of" in found else found
        for r in whole["ranges"]:
            if {to for shares in r["shares"] for to in shares} - by_name.get(name, set()) - {"shed"}:
                yield f"{name}: routes.json sends it where config.yaml does not"
            for hours in r["by_hour"].values():
                if len(hours) != 24 or not set(hours) <= set(range(len(r["shares"]))):
                    yield f"{name}: an hour without shares"
    for text in files.values():
        if len(text.encode()) > 900_000:
            yield "a file that no ConfigMap holds"


def _served(engines: Files) -> dict[str, set[str]]:
    """Names of models by the pool: what each Deployment is started with."""
    found: dict[str, set[str]] = {}
    for p in templates(engines):
        words = [a.replace("$$", "$") for a in p.spec["containers"][0].get("args", [])]
        if "app.kubernetes.io/instance" not in p.labels:
            continue
        named = words[words.index("--served-model-name") + 1] if "--served-model-name" in words else words[0]
        adapters = {word.partition("=")[0] for word in words if "=adapters/" in word}
        found.setdefault(p.labels["app.kubernetes.io/instance"], set()).update({named, *adapters})
    return found


def _secrets_and_volumes(files: Files) -> Iterator[str]:
    readme = files[README].replace("\\", "")
    made = {
        (name, key)
        for name, rest in re.findall(r"create secret generic (\S+)((?: --from-literal=\S+)*)", readme)
        for key in re.findall(r"--from-literal=([^=\s]+)=", rest)
    }
    maps = {
        g["name"]: {f.split("=")[0] for f in g["files"]}
        for _, k in objects(files)
        for g in k.get("configMapGenerator", [])
    }
    for p in templates(files):
        for c in [*p.spec.get("initContainers", []), *p.spec["containers"]]:
            for v in c.get("env", []):
                ref = v.get("valueFrom", {}).get("secretKeyRef")
                named_in_words = ref and f"{ref['name']}, too" in readme
                if ref and not ref.get("optional") and (ref["name"], ref["key"]) not in made and not named_in_words:
                    yield f"{p.name}: the README makes no secret {ref['name']} with {ref['key']}"
        for v in p.spec.get("volumes", []):
            claim, config = v.get("persistentVolumeClaim"), v.get("configMap")
            if claim and claim["claimName"] not in readme:
                yield f"{p.name}: the README knows no claim {claim['claimName']}"
            if config and config["name"] not in maps:
                yield f"{p.name}: no ConfigMap {config['name']}"


def _names(target: str, files: Files) -> Iterator[str]:
    for path, found in objects(files):
        name = found.get("metadata", {}).get("name", "")
        if len(name) > LONGEST:
            yield f"{path}: {name} is longer than {LONGEST}"
        for value in found.get("metadata", {}).get("labels", {}).values():
            if len(value) > LONGEST:
                yield f"{path}: the label {value} is longer than {LONGEST}"
        if found.get("kind") in ("LLMInferenceService", "RayService") and len(name) > LONGEST - ROOM[target]:
            yield f"{path}: {name} leaves its operator no room"
        if found.get("kind") == "DynamoGraphDeployment":
            longest = max(len(c["name"]) for c in found["spec"]["components"])
            if len(name) + longest > 45:
                yield f"{path}: {name} and its components are longer than 45"
        for m in found.get("servingEngineSpec", {}).get("modelSpec", []):
            if len(m["name"]) > LONGEST - ROOM[target]:
                yield f"{path}: {m['name']} leaves no room for a subdomain"


def _readme(files: Files) -> Iterator[str]:
    """Commands are words that a shell takes, and name files that are there; queries are balanced."""
    readme = files[README]
    for block in FENCED.findall(readme):
        lines = [line.strip() for line in block.strip().split("\n")]
        if "[1h]" in block or "count(" in block:
            yield from (f"{query}: {fault}" for query in lines if (fault := fault_of(query)))
            continue
        checked = subprocess.run(["bash", "-n"], input="\n".join(lines), text=True, capture_output=True, check=False)
        if checked.returncode:
            yield f"bash refuses {lines}: {checked.stderr}"
        for line in lines:
            for flag, place in re.findall(r" (-f|-k) ([A-Za-z0-9./_-]+)", line):
                if place != "-" and not any(p == place or p.startswith(place.rstrip("/") + "/") for p in files):
                    yield f"{line}: there is no {place}"
                if flag == "-k" and f"{place.rstrip('/')}/kustomization.yaml" not in files:
                    yield f"{line}: {place} is no kustomization"
    for path, found in objects(files):
        if found.get("kind") == "Kustomization":
            at = PurePosixPath(path).parent
            named = [*found["resources"], *(f for g in found.get("configMapGenerator", []) for f in g["files"])]
            yield from (f"{path}: there is no {name}" for name in named if str(at / name) not in files)
        triggers = found.get("spec", {}).get("triggers", []) if found.get("kind") == "ScaledObject" else []
        for t in triggers:
            if fault := fault_of(t["metadata"].get("query", "")):
                yield f"{path}: {fault}"


def fault_of(query: str) -> str:
    """What is plainly wrong with a query of Prometheus; no parser, but brackets, strings and words."""
    bare = STRING.sub("", query)
    if '"' in bare:
        return "a string does not end"
    open_: list[str] = []
    for sign in bare:
        if sign in "([{":
            open_.append(sign)
        elif sign in ")]}" and (not open_ or open_.pop() + sign not in ("()", "[]", "{}")):
            return f"{sign} closes nothing"
    if open_:
        return f"{open_[-1]} stays open"
    outside = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    strange = {w for w in re.findall(r"[A-Za-z_][\w:]*", outside) if w not in OF_PROMQL and not _is_metric(w)}
    return f"unknown words {sorted(strange)}" if strange else ""


def _is_metric(word: str) -> bool:
    return word.startswith(("vllm:", "llm_d_epp_", "litellm_"))
