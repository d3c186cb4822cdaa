"""How many tokens a step may have: what TPOT asks for, or more where TTFT binds."""

from __future__ import annotations

from planner.candidates.pools import groups_alone
from planner.candidates.replica import Replica, replicas_with
from planner.candidates.step_budget import replica_for, replicas_for
from planner.candidates.tpot_share import keeps_tpot
from planner.case.demand.load import case_from_text
from planner.catalog.variant import Variant

DEMAND = """
workloads:
  - name: w
    models: [{model}]
    forecast: {{requests_per_day: 500k, shape: flat, burstiness: {scv}}}
    tokens: {{input: {prompt}, output: {answer}}}
    {slo}
    quality: {{max_loss: 2%}}
    api: forbidden
menu: {{gpus: [{gpu}]}}
baseline: openai/gpt-4o
"""


def replica(
    prompt: str, answer: str, slo: str, model: str = "llama-3.1-8b", gpu: str = "l40s", gpus: int = 1, scv: float = 2
) -> tuple[Replica, Replica]:
    """As it is chosen, and with the engine's own steps."""
    text = DEMAND.format(model=model, scv=scv, prompt=prompt, answer=answer, slo=slo, gpu=gpu)
    case = case_from_text(text)
    variant = Variant(model, "fp8", gpu, gpus)
    traffic = groups_alone(case)[0].traffic
    chosen = replica_for(case, traffic, variant)
    (again,) = replicas_for(case, [traffic], variant)
    assert again.machine.engine.chunk_tokens == chosen.machine.engine.chunk_tokens
    return chosen, next(replicas_with(case, [traffic], variant))


def test_small_steps_where_tpot_binds() -> None:
    """Short answers in bursts, which a full step would slow down."""
    found, own = replica("{p50: 1500, p95: 7400}", "{p50: 13, p95: 90}", "slo: {ttft_p95: 1s, tpot_p95: 60ms}", scv=10)
    assert found.machine.engine.chunk_tokens == 1024 < own.machine.engine.chunk_tokens


def test_large_steps_where_ttft_binds() -> None:
    """Long prompts that are late in many small steps, and answers that a full step hardly slows down."""
    found, own = replica(
        "{p50: 18000, p95: 60000}", "{p50: 250, p95: 1200}", "slo: {ttft_p95: 4s, tpot_p95: 50ms}",
        "llama-3.3-70b", "h100", 8,
    )  # fmt: skip
    assert found.machine.engine.chunk_tokens == own.machine.engine.chunk_tokens == 8192
    hurried, _ = replica(
        "{p50: 18000, p95: 60000}", "{p50: 250, p95: 1200}", "slo: {ttft_p95: 60s, tpot_p95: 50ms}",
        "llama-3.3-70b", "h100", 8,
    )  # fmt: skip
    assert hurried.machine.engine.chunk_tokens < 8192, "with time for prompts, TPOT decides"


def test_smaller_steps_for_short_answers_in_bursts() -> None:
    """A full step of 2,048 tokens takes less than 1.5 times TPOT, which evens out over long answers alone."""
    tokens, slo = "{p50: 1500, p95: 7000}", "slo: {ttft_p95: 800ms, tpot_p95: 60ms}"
    short, long = (
        replica(tokens, answer, slo, "qwen2.5-7b", scv=23)[0].machine.engine.chunk_tokens
        for answer in ("{p50: 15, p95: 90}", "{p50: 150, p95: 900}")
    )
    assert short == 1024 < long


def test_a_full_step_alone_decides_where_tpot_holds_with_none() -> None:
    """An answer of four tokens is late by any prompt beside it, however small its steps."""
    found, _ = replica("{p50: 8000, p95: 24000}", "{p50: 4, p95: 16}", "slo: {ttft_p95: 20s, tpot_p95: 30ms}", scv=10)
    assert found.serves_all
    assert not keeps_tpot(found, 0.3)
    assert found.machine.engine.chunk_tokens == 1024


def test_work_that_may_wait_takes_the_engine_s_own() -> None:
    found, own = replica("250", "4", "deadline: 6h")
    assert found.machine.engine.chunk_tokens == own.machine.engine.chunk_tokens


def test_small_steps_make_prompts_late() -> None:
    """By the percentile of prefill, steps and wait together."""
    text = DEMAND.format(
        model="llama-3.1-8b", scv=2, prompt="{p50: 6000, p95: 30000}", answer="{p50: 200, p95: 500}",
        slo="slo: {ttft_p95: 5s, tpot_p95: 60ms}", gpu="h100",
    )  # fmt: skip
    case = case_from_text(text)
    traffic, variant = groups_alone(case)[0].traffic, Variant("llama-3.1-8b", "fp8", "h100", 1)
    late = [next(replicas_with(case, [traffic], variant, n)).ttft_s(0.3) for n in (1024, 2048, 8192)]
    assert late[0] > late[1] > late[2]
