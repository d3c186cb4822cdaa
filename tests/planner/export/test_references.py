"""Nothing that an export refers to is missing; and a reference that is broken is found out."""

from __future__ import annotations

from functools import cache

from planner.export.export import README, export_plan
from planner.export.hosted import Settings
from planner.export.weights import weights_from
from tests.support.lever_plans import lever_plan
from tests.support.manifest_references import fault_of, loose_ends
from tests.support.rows import for_each

AT_KEY = "\n                  key: api-key"
OF_POOL = "kind: InferencePool\n          name: "


@cache
def exported(name: str, target: str, weights: str = "download") -> dict[str, str]:
    return export_plan(lever_plan(name), target, Settings(namespace="llm", weights=weights_from(weights)))


@for_each("name", ["together", "mixed", "shedding", "waiting"])
def test_plans_with_every_lever_lack_nothing(name: str) -> None:
    """Two workloads with adapters on spot, pools by length, shedding and a queue, in a namespace of their own."""
    engines = exported(name, "kubernetes")
    for target in ("kubernetes", "keda", "gateway", "kserve", "aibrix", "dynamo", "llm-d", "production-stack", "ray"):
        beside = engines if target in ("keda", "gateway") else None
        assert loose_ends(target, exported(name, target), beside) == [], target
    assert loose_ends("kubernetes", exported(name, "kubernetes", "pvc:weights")) == []


@for_each(
    ("target", "file", "before", "after", "words"),
    [
        ("kubernetes", "{name}.yaml", "io/instance: {name}\n  ports", "io/instance: x\n  ports", "selects no pod"),
        ("kubernetes", "{name}.yaml", "targetPort: http", "targetPort: https", "no pod has the port"),
        ("kubernetes", "{name}.yaml", "claimName: adapters", "claimName: missing", "knows no claim missing"),
        ("kubernetes", "{name}.yaml", f"name: vllm{AT_KEY}", f"name: other{AT_KEY}", "makes no secret other"),
        ("keda", "{name}.yaml", "kind: Deployment\n    name: {name}\n", "kind: Deployment\n    name: x\n", "scales x"),
        ("keda", "{name}.yaml", "sum(vllm:num_requests_running", "sum(vllm:num_requests_running)", "closes nothing"),
        ("kserve", "{name}.yaml", "fleetplan/part: ", "app.kubernetes.io/part-of: ", "by which KServe finds its own"),
        ("dynamo", "{name}.yaml", "name: {name}-firm", "name: {name}-worker", "scales {name}-worker"),
        ("gateway", "{name}.yaml", f"{OF_POOL}{{name}}", f"{OF_POOL}x", "routes to x"),
        ("gateway", "{name}.yaml", "value: {name}\n", "value: x\n", "no route takes {name}"),
        ("gateway", "litellm/config.yaml", "x-llm-d-inference-objective: {name}-chat\n",
         "x-llm-d-inference-objective: x\n", "no objective is called x"),
        ("gateway", "litellm/config.yaml", "hosted_vllm/tuned", "hosted_vllm/other", "serves no hosted_vllm/other"),
        ("gateway", "litellm/proxy.yaml", "- name: GATEWAY_", "- name: GATE_", "the proxy has no"),
        ("gateway", "picker/{name}.yaml", "- number: 8000", "- number: 9000", "asks another port"),
        ("gateway", "litellm/kustomization.yaml", "- routes.json", "- other.json", "there is no other.json"),
        ("gateway", README, "-f picker/{name}.yaml", "-f picker/x.yaml", "there is no picker/x.yaml"),
        ("gateway", README, "literal=master-key=", "literal=master=", "no secret litellm with master-key"),
    ],
)  # fmt: skip
def test_a_broken_reference_is_found_out(target: str, file: str, before: str, after: str, words: str) -> None:
    files = exported("together", target)
    name = "shared-llama-3-1-8b"
    file, before, after, words = (text.replace("{name}", name) for text in (file, before, after, words))
    (path,) = [p for p in files if p == file or (p.endswith(f"/{file}") and not p.startswith("picker/"))]
    assert before in files[path], (path, before)
    broken = files | {path: files[path].replace(before, after)}
    engines = exported("together", "kubernetes") if target in ("keda", "gateway") else None
    assert any(words in found for found in loose_ends(target, broken, engines)), loose_ends(target, broken, engines)


@for_each("query", ['sum(x{a="b)"}', "sum(rate(vllm:x[1h]", "avg(vllm:x)", 'sum(vllm:x{a="b})'])
def test_queries_with_plain_faults_are_found_out(query: str) -> None:
    assert fault_of(query)
    assert not fault_of('histogram_quantile(0.95, sum by (le) (rate(vllm:x_bucket{pod=~"a(-b)?"}[1h])))')
