"""Data-parallel ranks: the busiest decides, each has memory of its own, and nothing measured stands behind it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog.entries import shipped_catalog
from planner.performance.closed_loop import closed_loop, largest_in_flight
from planner.performance.latency import decode_step_s, prefill_added_s, prefill_s
from planner.performance.machine import ESTIMATED_ERROR_FRAC, Lora, Machine
from planner.performance.memory import Layout, kv_bytes, kv_room_bytes, layout_of
from planner.performance.queueing import under_load
from planner.performance.ranks import LENGTH_CV2, context_excess, prompt_excess
from planner.performance.throughput import MOST_IN_FLIGHT, Lengths, Limits, throughput

CATALOG = shipped_catalog()
BATCHES = np.array([1.0, 2.0, 5.0, 8.0, 9.0, 64.0, 400.0, 3000.0])


def machine(layout: Layout, model: str = "deepseek-v3", engine: str = "vllm", gpus: int = 8) -> Machine:
    return Machine(
        CATALOG.models[model], CATALOG.quantizations["fp8"], CATALOG.gpus["h200"], gpus, CATALOG.efficiency_of("h200"),
        CATALOG.engines[engine], layout=layout,
    )  # fmt: skip


DATA, TENSOR = machine(layout_of("data", 8)), machine(layout_of("tensor", 8))


def even(given: Machine) -> Machine:
    return replace(given, engine=given.engine.model_copy(update={"even_ranks": True}))


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_busiest_rank_gets_prompts_as_drawn_ones_do(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Poisson numbers of prompts, of lengths that vary, and of equal ones."""
    rng = np.random.default_rng(ranks)
    for mean in (0.01, 0.2, 1.0, 7.0, 90.0):
        count = rng.poisson(mean, (40_000, ranks))
        drawn = np.where(count > 0, rng.gamma(np.maximum(count, 1)), 0.0).max(axis=1)
        error = 4 * drawn.std() / len(drawn) ** 0.5
        excess = float(prompt_excess(np.array(ranks * mean), ranks))
        assert mean * excess == pytest.approx(drawn.mean(), abs=error, rel=0.07)
        with monkeypatch.context() as patched:
            patched.setattr("planner.performance.ranks.LENGTH_CV2", 0.0)
            excess = float(prompt_excess(np.array(ranks * mean), ranks))
        error = 4 * count.max(axis=1).std() / len(count) ** 0.5
        assert mean * excess == pytest.approx(count.max(axis=1).mean(), abs=error + 1e-3 * mean)
    rare, many = prompt_excess(np.array([0.0, 1e9]), ranks)
    assert rare == pytest.approx(ranks, rel=1e-3) and 1 < many < 1.1
    assert (np.diff(prompt_excess(np.geomspace(0.01, 500.0, 50), ranks)) < 0).all()


def test_the_busiest_rank_holds_as_much_context_as_drawn_ones_do() -> None:
    rng = np.random.default_rng(1)
    for each in (16, 64):
        drawn = rng.gamma(1 / LENGTH_CV2, LENGTH_CV2, (20_000, 8, each)).mean(axis=2).max(axis=1)
        assert float(context_excess(np.array(8.0 * each), 8)) == pytest.approx(drawn.mean(), rel=0.04)
    assert float(context_excess(np.array(1.0), 8)) == 1.0, "a lone request is all there is"


def test_a_lone_request_has_one_gpu_for_attention() -> None:
    """Everything but the experts, the collectives and the latencies takes as long as on a replica of one GPU."""
    alone = replace(DATA, gpus=1, layout=Layout())
    grown = [decode_step_s(m, 1.0, 60_000.0) - decode_step_s(m, 1.0, 10_000.0) for m in (DATA, alone)]
    assert grown[0] == pytest.approx(grown[1])
    assert DATA.dense_read_s == pytest.approx(alone.dense_read_s)
    grown = [prefill_s(m, 4000.0, 60_000.0) - prefill_s(m, 4000.0, 10_000.0) for m in (DATA, alone)]
    assert grown[0] == pytest.approx(grown[1])
    assert decode_step_s(DATA, 1.0, 2000.0) > decode_step_s(machine(layout_of("expert", 8)), 1.0, 2000.0)
    for found in (closed_loop(DATA, 1.0, 1000.0, 300.0), closed_loop(DATA, 4.0, 1000.0, 300.0)):
        split = closed_loop(machine(layout_of("expert", 8)), found.in_flight, 1000.0, 300.0)
        assert found.tpot_s > split.tpot_s and found.requests_per_s < split.requests_per_s


def test_uneven_ranks_are_slower_than_even_ones_and_nearly_even_where_there_is_much_work() -> None:
    step, balanced = decode_step_s(DATA, BATCHES, 2000.0), decode_step_s(even(DATA), BATCHES, 2000.0)
    assert (step > balanced).all() and (np.diff(step) > 0).all()
    assert step[-1] < 1.1 * balanced[-1]
    added = prefill_added_s(DATA, 1000.0, 1000.0, BATCHES, BATCHES / 300)
    share = prefill_added_s(even(DATA), 1000.0, 1000.0, BATCHES, BATCHES / 300)
    assert (added > share).all() and (added[-1] - share[-1]) < 0.4 * (added[0] - share[0])
    often, seldom, once = (prefill_added_s(DATA, 1000.0, 1000.0, 400.0, prompts) for prompts in (13.0, 0.13, 0.0))
    assert often < seldom <= once


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_prompts_of_one_rank_keep_the_others_waiting(engine: str) -> None:
    one = machine(layout_of("data", 8), engine=engine)
    rare, often = (float(prefill_added_s(one, 4000.0, 4000.0, 64.0, prompts)) for prompts in (6e-5, 32.0))
    assert 1.3 * often < rare < 8 * often


@pytest.mark.parametrize("parallelism", ["tensor", "expert"])
def test_one_copy_of_attention_has_no_ranks(parallelism: str) -> None:
    one = machine(Layout(expert_groups=8 if parallelism == "expert" else 1))
    assert one.ranks == 1
    assert (decode_step_s(one, BATCHES, 2000.0) == decode_step_s(even(one), BATCHES, 2000.0)).all()
    added = (prefill_added_s(m, 1000.0, 1000.0, BATCHES, BATCHES / 10) for m in (one, even(one)))
    assert np.array_equal(*added)


def test_every_rank_has_memory_of_its_own() -> None:
    model, fp8 = DATA.model, DATA.quantization
    room = kv_room_bytes(model, DATA.gpu, 8, fp8, DATA.engine.usable_memory_frac, DATA.layout)
    each = float(kv_bytes(model, fp8, 1000.0)) / 1000
    half = round(0.5 * room / 8 / each)
    assert float(largest_in_flight(DATA, half - 10.0, 1.0)) == 8 * 2
    assert float(largest_in_flight(DATA, 1.3 * half, 1.0)) == 8
    assert float(largest_in_flight(DATA, 3.0 * half, 1.0)) == 0, "it would fit into the memory of all ranks"
    assert float(largest_in_flight(DATA, half - 10.0, 1.0, 0.0, 1.2 * half)) == 0, "prefixes are kept by every rank"
    adapters = replace(DATA, lora=Lora(adapters=10))
    assert largest_in_flight(adapters, 1000.0, 100.0) < largest_in_flight(DATA, 1000.0, 100.0)
    assert decode_step_s(adapters, 64.0, 1000.0) > decode_step_s(DATA, 64.0, 1000.0)


def test_a_replica_counts_on_as_many_requests_for_each_rank() -> None:
    qwen = machine(layout_of("data", 8), "qwen3-235b-a22b")
    short = Lengths(np.array([100.0, 4000.0]), np.array([100.0, 500.0]), np.zeros(2))
    found = throughput(qwen, short, Limits(10.0, 0.0))
    assert found.in_flight[0] > 2 * MOST_IN_FLIGHT and found.in_flight[0] <= 8 * MOST_IN_FLIGHT
    assert (found.in_flight % 8 == 0).all()
    tight = throughput(qwen, short, Limits(float(decode_step_s(qwen, 3.0, 4250.0)) * 1.001, 0.0))
    assert 0 < tight.in_flight[1] < 8


@pytest.mark.parametrize(("gpus", "prompt"), [(4, 14_000.0), (8, 6000.0), (8, 20_000.0)])
def test_the_busiest_rank_has_memory_for_what_it_holds(gpus: int, prompt: float) -> None:
    """Of ranks with as many requests each, whose lengths vary, on average."""
    glm = machine(layout_of("data", gpus), "glm-4.5", gpus=gpus)
    found = throughput(glm, Lengths(np.array([prompt]), np.array([300.0]), np.zeros(1)), Limits(10.0, 0.0))
    assert found.bound_by == ("KV memory",)
    fits, each = float(largest_in_flight(glm, prompt, 300.0)) / gpus, round(found.in_flight[0] / gpus)
    drawn = np.random.default_rng(1).gamma(1 / LENGTH_CV2, LENGTH_CV2, (4000, gpus, each)).sum(axis=2).max(axis=1)
    assert 0.5 * fits < drawn.mean() < 1.02 * fits


def test_nothing_measured_stands_behind_ranks_of_vllm_and_sglang() -> None:
    assert TENSOR.basis == "calibrated" and TENSOR.error_frac < ESTIMATED_ERROR_FRAC
    for engine in ("vllm", "sglang"):
        ranks = machine(layout_of("data", 8), engine=engine)
        assert (ranks.basis, ranks.error_frac) == ("estimated", ESTIMATED_ERROR_FRAC)
        assert "data parallel" in ranks.rates.source
    assert machine(layout_of("data", 8), engine="tensorrt-llm").basis == "calibrated"


def test_many_requests_in_flight_are_worth_ranks_and_few_are_not() -> None:
    lengths = Lengths(np.array([1000.0]), np.array([1000.0]), np.zeros(1))
    loose, tight = Limits(0.2, 1.64), Limits(0.03, 1.64)
    expert = machine(layout_of("expert", 8))
    many, few = ([float(throughput(m, lengths, x).requests_per_s[0]) for m in (DATA, expert)] for x in (loose, tight))
    assert many[0] > 1.3 * many[1] and few[0] < few[1]
    loaded = [under_load(m, 1000.0, 1000.0, 0.2) for m in (DATA, expert)]
    assert loaded[0].tpot_s > loaded[1].tpot_s and loaded[0].ttft_s > loaded[1].ttft_s


@given(
    ranks=st.integers(2, 16), batch=st.floats(1, 4000), more=st.floats(1, 4), prompt=st.floats(1, 30_000),
    output=st.floats(1, 5000), context=st.floats(1, 60_000), engine=st.sampled_from(["vllm", "sglang"]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_steps_grow_with_requests_and_uneven_work_lies_between_even_and_all_on_one_rank(
    ranks: int, batch: float, more: float, prompt: float, output: float, context: float, engine: str
) -> None:
    one = machine(Layout(ranks, ranks), "qwen3-235b-a22b", engine, ranks)
    assert decode_step_s(one, batch * more, context) >= decode_step_s(one, batch, context)
    assert decode_step_s(one, batch, context * more) >= decode_step_s(one, batch, context)
    least, added = (float(prefill_added_s(m, prompt, prompt, batch, batch / output)) for m in (even(one), one))
    if one.engine.mixes_prefill:
        assert least <= added * (1 + 1e-9)
    assert added <= float(prefill_s(one, prompt)) * (1 + 1e-2)
