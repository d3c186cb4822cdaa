"""Where pods find their weights: what each way writes, how long it takes, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from planner.case.start_up import start_s
from planner.export.export import README, export_plan
from planner.export.hosted import Settings, hosted_fleet
from planner.export.weights import KINDS, RATES, weights_from
from planner.io.errors import InputError
from tests.planner.export.test_targets import TARGETS, held_plan, plan_of
from tests.support.manifest_checks import against_restricted, assert_valid, objects, pods_of
from tests.support.rows import for_each

WAYS = [
    "download", "pvc:models", "hostPath", "hostPath:/mnt/nvme", "image", "image:registry.internal/weights:1", "stream",
    "stream:gs://models/vllm",
]  # fmt: skip
LLAMA = "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic"


def settings(way: str) -> Settings:
    return Settings(weights=weights_from(way))


def pod_of(way: str) -> dict[str, Any]:
    files = export_plan(plan_of("mixed"), "kubernetes", settings(way))
    return next(pod for pod in pods_of(files) if "startupProbe" in pod["containers"][0])


def volume_of(pod: dict[str, Any]) -> dict[str, Any] | None:
    return next((v for v in pod["volumes"] if v["name"] == "weights"), None)


def variables(pod: dict[str, Any]) -> dict[str, Any]:
    return {v["name"]: v.get("value", v.get("valueFrom")) for v in pod["containers"][0]["env"]}


@for_each("way", WAYS)
def test_every_way_is_valid_for_every_target_or_refused(way: str) -> None:
    for plan in (plan_of("together"), held_plan("mixed")):
        for target in TARGETS:
            try:
                files = export_plan(plan, target, settings(way))
            except InputError as error:
                assert f"{target} cannot take weights from {way.split(':')[0]}" in str(error)
                assert target in ("compose", "skypilot", "dynamo", "kserve", "production-stack", "ray")
                continue
            assert_valid(target, files)
            assert "loading: the plan counts on" in files[README]


@for_each("way", WAYS)
def test_pods_are_restricted_but_for_paths_of_the_node(way: str) -> None:
    files = export_plan(plan_of("mixed"), "kubernetes", settings(way))
    for pod in pods_of(files):
        found = against_restricted(pod)
        if way.startswith("hostPath"):
            assert found == ["volume weights is hostPath", "weights may run as root", "weights has capabilities"]
            engine = {k: v for k, v in pod.items() if k != "initContainers"}
            assert against_restricted(engine) == ["volume weights is hostPath"], "the engine itself is restricted"
        else:
            assert found == []
    told = "hostPath is forbidden by it and by baseline" if way.startswith("hostPath") else "pods pass the restricted"
    assert told in files[README]


def test_an_unsafe_pod_is_found_out() -> None:
    """Of the check itself: whatever is taken from a restricted pod is missed."""
    pod = pod_of("download")
    (container,) = pod["containers"]
    own = container["securityContext"]
    for key in own:
        changed = container | {"securityContext": {k: v for k, v in own.items() if k != key}}
        assert against_restricted(pod | {"containers": [changed]})
    for key in ("runAsNonRoot", "seccompProfile"):
        assert against_restricted(
            pod | {"securityContext": {k: v for k, v in pod["securityContext"].items() if k != key}}
        )
    assert against_restricted(pod | {"securityContext": pod["securityContext"] | {"runAsUser": 0}})
    assert against_restricted(pod | {"hostNetwork": True})


def test_what_each_way_mounts() -> None:
    sources = {way: volume_of(pod_of(way)) for way in WAYS}
    assert sources["download"] == {"name": "weights", "emptyDir": {}}
    claim = {"claimName": "models", "readOnly": True}
    assert sources["pvc:models"] == {"name": "weights", "persistentVolumeClaim": claim}
    assert sources["hostPath:/mnt/nvme"]["hostPath"]["path"] == "/mnt/nvme"
    assert sources["image:registry.internal/weights:1"]["image"]["reference"] == "registry.internal/weights:1"
    assert sources["image"]["image"]["reference"].startswith("YOUR-REGISTRY/")
    assert sources["stream"] is None


def test_the_engine_finds_its_weights_and_asks_the_hub_only_where_it_must() -> None:
    for way in WAYS:
        pod = pod_of(way)
        told, mounts = variables(pod), {m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
        assert told["HOME"] in mounts, "caches are written there"
        assert told["VLLM_API_KEY"] == {"secretKeyRef": {"name": "vllm", "key": "api-key"}}
        ready = way.startswith(("pvc", "image"))
        assert ("HF_HUB_OFFLINE" in told) == ready
        assert ("HF_TOKEN" in told) == way.startswith(("download", "hostPath"))
        if way.startswith("stream"):
            place = way.partition(":")[2] or "s3://YOUR-BUCKET"
            arguments = pod["containers"][0]["args"]
            assert arguments[:5] == [
                f"{place}/{LLAMA}",
                "--served-model-name",
                LLAMA,
                "--load-format",
                "runai_streamer",
            ]
        else:
            assert any(told["HF_HUB_CACHE"].startswith(mount) for mount in mounts - {told["HOME"]})
            assert pod["containers"][0]["args"][0] == LLAMA


def test_a_job_fills_the_claim_with_what_is_loaded() -> None:
    files = export_plan(plan_of("examples/two-models.yaml"), "kubernetes", settings("pvc:models"))
    jobs = [found for _, found in objects(files) if found["kind"] == "Job"]
    loaded = {pod["containers"][0]["args"][0] for pod in pods_of(files) if "args" in pod["containers"][0]}
    (job,) = jobs
    script = job["spec"]["template"]["spec"]["containers"][0]["command"][2]
    assert set(script.split(" && ")) == {f"hf download {name}" for name in loaded}
    assert job["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "models"}
    steps = [line.strip() for line in files[README].splitlines() if line.strip().startswith("kubectl")]
    fill = next(k for k, line in enumerate(steps) if line.startswith("kubectl apply -f weights/"))
    assert steps[fill - 1] == "kubectl delete job weights --ignore-not-found", "a job that is there cannot be changed"
    assert steps[fill + 1].startswith("kubectl wait --for=condition=complete")


def test_starts_follow_from_where_weights_come() -> None:
    """A start is the plan's for the instance, and what is stored at the rate of the way; probes wait thrice that."""
    plan = plan_of("mixed")
    for way in ("download", "pvc:models", "image", "stream"):
        fleet = hosted_fleet(plan, settings(way))
        h = fleet.hosted[0]
        kind = way.split(":")[0]
        rate = RATES[kind].gb_per_s if kind in RATES else plan.case.start.weights_gb_per_s
        assert h.weights_s == pytest.approx(h.weights_gb / rate)
        assert h.planned_weights_s == pytest.approx(h.weights_gb / plan.case.start.weights_gb_per_s)
        d = h.plan.deployment
        planned_s = start_s(plan.case, d.model, d.quantization)
        assert h.start_s == pytest.approx(planned_s - h.planned_weights_s + h.weights_s)
        probe = pod_of(way)["containers"][0]["startupProbe"]
        assert probe["periodSeconds"] * probe["failureThreshold"] >= math.ceil(max(600, 3 * h.start_s))
    readme = export_plan(plan, "kubernetes", settings("image"))[README]
    late_s = h.weights_gb / RATES["image"].gb_per_s - h.weights_gb
    assert f"is ready {late_s:.0f} s later than planned" in " ".join(readme.split()) and "(0.09 GB/s" in readme
    assert late_s == pytest.approx(92, abs=2)


def test_weights_quantized_on_load_take_a_disk_for_16_bit() -> None:
    plan = plan_of("examples/own-catalog.yaml")
    bare = {key: m.model_copy(update={"checkpoint": f"ours/{key}"}) for key, m in plan.case.models.items()}
    large = {key: m.model_copy(update={"parameters_b": 300.0}) for key, m in bare.items()}
    for models, quantized_gb in ((bare, 16), (large, 303)):
        offers = {k: o.model_copy(update={"provider": "aws"}) for k, o in plan.case.offers.items()}
        case = plan.case.model_copy(update={"models": models, "offers": offers})
        changed = plan.model_copy(update={"case": case})
        (h, *_) = hosted_fleet(changed, Settings()).hosted
        assert h.weights_gb == 2 * case.models[h.plan.deployment.model].parameters_b
        assert h.weights_gb > 1.7 * quantized_gb
        ((_, service),) = objects(export_plan(changed, "skypilot", Settings()))
        assert service["resources"]["disk_size"] >= max(512, h.weights_gb + 200)
        assert "--quantization fp8" in service["run"]
    ((_, service),) = objects(export_plan(changed, "skypilot", settings("stream")))
    assert service["resources"]["disk_size"] == 512, "what is streamed needs no disk"


@for_each(
    ("way", "words"),
    [
        ("pvc", "Give the name of a PersistentVolumeClaim"), ("pvc:Models", "is not right for pvc"),
        ("hostPath:mnt", "Give an absolute path"), ("hostPath:/mnt/../etc", "is not right for hostPath"),
        ("image:a b", "is not right for image"), ("stream:http://a", "Give a bucket"), ("download:x", "takes nothing"),
        ("nfs:server", "there is no way 'nfs'"), ("hostpath", "Did you mean 'hostPath'"), ("", "there is no way ''"),
        ("image:a\n- evil", "is not right for image"),
    ],
)  # fmt: skip
def test_ways_that_do_not_exist_are_refused_with_a_remedy(way: str, words: str) -> None:
    with pytest.raises(InputError, match="--weights"):
        weights_from(way)
    with pytest.raises(InputError) as caught:
        weights_from(way)
    assert words in str(caught.value)


def test_every_rate_is_of_a_way_and_names_its_source() -> None:
    assert set(RATES) < set(KINDS)
    assert all("/" in rate.source or "." in rate.source for rate in RATES.values())
