"""The commands that would run a plan: what a shell makes of them, and that their flags are the plan's figures."""

from __future__ import annotations

import re
import shlex

from planner.catalog.entries import shipped_catalog
from planner.plan.plan import Plan
from planner.plan.serve_commands import ServeCommand, serve_commands
from tests.support.lever_plans import lever_plan
from tests.support.rows import for_each

HOSTILE = "$(rm -rf /) `id`; 'x' \"y\" =z <b> \n| é"


def flags(command: ServeCommand) -> dict[str, list[str]]:
    """What a shell hands over, by flag; whatever stands before the first flag is the model."""
    words = shlex.split(command.command)
    assert words[:2] == ["vllm", "serve"]
    found: dict[str, list[str]] = {"": []}
    flag = ""
    for word in words[2:]:
        if word.startswith("--"):
            flag = word
            assert flag not in found
            found[flag] = []
        else:
            found[flag].append(word)
    return found


def changed(plan: Plan, **fields: object) -> Plan:
    """The same plan whose only deployment differs."""
    (pool,) = plan.pools
    first = pool.deployments[0]
    new = first.model_copy(update={"deployment": first.deployment.model_copy(update=fields)})
    return plan.model_copy(update={"pools": (pool.model_copy(update={"deployments": (new,)}),)})


def test_adapters_and_caches_of_a_shared_pool() -> None:
    plan = lever_plan("together")
    (command,) = serve_commands(plan)
    told = flags(command)
    assert told[""] == ["RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic"]
    assert "--quantization" not in told, "vLLM reads the method from the checkpoint"
    assert "--enable-lora" in told and told["--max-loras"] == ["1"]
    assert told["--lora-modules"] == ["tuned=adapters/tuned"]
    assert "--enable-prefix-caching" in told and "--no-enable-prefix-caching" not in told
    assert any("semantic cache sits in front" in note for note in command.notes)
    longest = max(b.input_tokens + b.output_tokens for w in plan.case.workloads for b in w.buckets)
    assert longest < int(told["--max-model-len"][0]) <= plan.case.models["llama-3.1-8b"].max_context_tokens


def test_each_deployment_of_a_mix_takes_the_lengths_that_it_serves() -> None:
    plan = lever_plan("mixed")
    commands = serve_commands(plan)
    assert [c.deployment for c in commands] == [d.deployment.key for d in plan.pools[0].deployments]
    sizes = {c.gpus_per_replica: int(flags(c)["--max-model-len"][0]) for c in commands}
    assert sizes[1] <= sizes[2] == 131_072, "what memory holds, up to the model's context"
    for command, d in zip(commands, plan.pools[0].deployments, strict=True):
        told = flags(command)
        assert told["--tensor-parallel-size"] == [str(d.deployment.gpus_per_replica)]
        assert "--enable-prefix-caching" not in told and "--enable-lora" not in told
        assert "--no-enable-prefix-caching" not in told, "it costs nothing, and the engine decides"
        counted = d.deployment.requests_in_flight
        least = counted - 1 if d.deployment.bound_by == "KV memory" else 1.5 * counted
        assert least <= int(told["--max-num-seqs"][0]) <= max(least + 1, 1.13 * 1.5 * counted)
        assert told["--gpu-memory-utilization"] == [f"{plan.case.engine.usable_memory_frac:g}"]


def test_replicas_that_share_an_instance_get_their_own_gpus() -> None:
    two = next(c for c in serve_commands(lever_plan("mixed")) if c.gpus_per_replica == 2)
    if two.replicas_per_instance > 1:
        assert two.environment == ("CUDA_VISIBLE_DEVICES=0,1",)
    one = next(c for c in serve_commands(lever_plan("mixed")) if c.replicas_per_instance == 1)
    assert one.environment == ()
    plan = lever_plan("waiting")
    offers = {key: o.model_copy(update={"gpus": 8}) for key, o in plan.case.offers.items()}
    wide = plan.model_copy(update={"case": plan.case.model_copy(update={"offers": offers})})
    (command,) = serve_commands(changed(wide, gpus_per_replica=4))
    assert (command.replicas_per_instance, command.environment) == (2, ("CUDA_VISIBLE_DEVICES=0,1,2,3",))
    assert any("CUDA_VISIBLE_DEVICES and --port" in note for note in command.notes)


@for_each(
    ("published", "quantization", "model", "flag"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "fp16", "meta-llama/Llama-3.1-8B-Instruct", None),
        ("meta-llama/Llama-3.1-8B-Instruct", "fp8", "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", None),
        ("meta-llama/Llama-3.1-8B-Instruct", "int4-awq", "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", None),
        ("ours/tuned", "fp8", "ours/tuned", ["fp8"]),
        ("ours/tuned", "int4-awq", "YOUR-CHECKPOINT/tuned-int4-awq", None),
        ("ours/tuned", "int4-gptq", "YOUR-CHECKPOINT/tuned-int4-gptq", None),
    ],
)
def test_known_checkpoints_are_named_and_others_are_quantized_on_load_or_a_marked_place(
    published: str, quantization: str, model: str, flag: list[str] | None
) -> None:
    """Naming awq or gptq would force slower kernels than vLLM picks by itself, so it is not named."""
    plan = lever_plan("waiting")
    models = {key: m.model_copy(update={"checkpoint": published}) for key, m in plan.case.models.items()}
    known = {"quantizations": shipped_catalog().quantizations, "models": models}
    plan = plan.model_copy(update={"case": plan.case.model_copy(update=known)})
    (command,) = serve_commands(changed(plan, quantization=quantization))
    told = flags(command)
    assert told[""] == [model]
    assert told.get("--quantization") == flag
    assert any("put the id or path of a checkpoint" in note for note in command.notes) == ("YOUR" in model)


def test_a_published_format_needs_no_flag_and_old_gpus_have_no_bf16() -> None:
    plan, catalog = lever_plan("waiting"), shipped_catalog()
    case = plan.case.model_copy(
        update={
            "models": catalog.models,
            "quantizations": catalog.quantizations,
            "gpus": catalog.gpus,
            "efficiency": catalog.efficiency,
        }
    )
    plan = plan.model_copy(update={"case": case})
    (native,) = serve_commands(changed(plan, model="deepseek-v3", quantization="fp8"))
    assert "--quantization" not in flags(native) and flags(native)[""] == ["deepseek-ai/DeepSeek-V3"]
    (old,) = serve_commands(changed(plan, gpu="t4"))
    assert flags(old)["--dtype"] == ["half"]
    assert "--kv-cache-dtype" not in flags(old)


@for_each("stored", [key for key, q in shipped_catalog().quantizations.items() if q.kv_bits == 16])
def test_an_8_bit_cache_is_named_beside_the_same_weights(stored: str) -> None:
    plan, catalog = lever_plan("waiting"), shipped_catalog()
    known = {"models": catalog.models, "quantizations": catalog.quantizations, "gpus": catalog.gpus}
    plan = plan.model_copy(update={"case": plan.case.model_copy(update=known)})
    for model in ("llama-3.1-8b", "deepseek-v3"):
        wide, narrow = (
            serve_commands(changed(plan, model=model, quantization=q))[0] for q in (stored, f"{stored}-kv8")
        )
        assert flags(narrow)["--kv-cache-dtype"] == ["fp8"] and "--kv-cache-dtype" not in flags(wide)
        for name in ("", "--quantization", "--dtype"):
            assert flags(narrow).get(name) == flags(wide).get(name)
        assert any("scales of 1" in note for note in narrow.notes)


def test_what_a_user_named_cannot_reach_the_shell() -> None:
    plan = lever_plan("together")
    text = plan.to_json().replace('"tuned"', '"HOSTILE"').replace("llama-3.1-8b", "-MODEL")
    import json

    data = json.loads(
        text.replace("HOSTILE", json.dumps(HOSTILE)[1:-1]).replace("-MODEL", json.dumps("-" + HOSTILE)[1:-1])
    )
    for model in data["case"]["models"].values():
        model.pop("checkpoint")
    hostile = Plan.model_validate_json(json.dumps(data))
    (command,) = serve_commands(hostile)
    told = flags(command)
    assert told[""] == ["./-" + HOSTILE]
    (module,) = told["--lora-modules"]
    assert re.fullmatch(r"[A-Za-z0-9._-]+=adapters/[A-Za-z0-9._-]+", module)


def test_nothing_hosted_needs_no_command() -> None:
    plan = lever_plan("together")
    bare = plan.model_copy(update={"pools": tuple(p.model_copy(update={"deployments": ()}) for p in plan.pools)})
    assert serve_commands(bare) == ()


def test_every_shipped_model_says_where_its_weights_are() -> None:
    for key, model in shipped_catalog().models.items():
        assert model.checkpoint and re.fullmatch(r"[\w.-]+/[\w.-]+", model.checkpoint), key
