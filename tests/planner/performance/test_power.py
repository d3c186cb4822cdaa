"""Power of the GPUs of a replica, against its arithmetic and a few measured rows."""

from __future__ import annotations

import numpy as np
import pytest

from planner.catalog.entries import OWN_FIGURE, Sourced, day_of, shipped_catalog
from planner.catalog.power import grids, law_of, power_facts, tdp_w_of
from planner.catalog.variant import Variant
from planner.performance.latency import waiting_s
from planner.performance.machine_by_name import machine_for
from planner.performance.power import PowerLaw, StepShares, step_shares
from planner.performance.steady_state import steady_state
from tests.support.rows import for_each

MEASURED = [
    ("llama-3.1-70b", "fp16", "h100", 4, 8, 390, 441), ("llama-3.1-70b", "fp16", "h100", 4, 192, 390, 573),
    ("llama-3.1-70b", "fp16", "b200", 2, 8, 390, 849), ("llama-3.1-70b", "fp16", "b200", 2, 255, 390, 971),
    ("gpt-oss-120b", "mxfp4", "h100", 1, 8, 1500, 550), ("gpt-oss-120b", "mxfp4", "h100", 1, 64, 1500, 688),
]  # fmt: skip
"""model, quantization, GPU, GPUs, in flight, answer, W of a GPU: ML.ENERGY v3 (ml-energy/leaderboard@0cd52da)"""


def law(gpu: str) -> PowerLaw:
    found = law_of(gpu)
    return PowerLaw(found.waiting, found.reading, found.computing, found.most)


def test_power_is_what_waiting_reading_and_arithmetic_draw() -> None:
    shares = StepShares(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.1, 0.6]))
    assert PowerLaw(0.3, 0.4, 1.0, 0.97).frac(shares).tolist() == pytest.approx([0.3, 0.6, 0.97])


def test_shares_are_those_of_the_time_of_a_request() -> None:
    """By hand, of one GPU with 16 requests in flight: no network, so that only the start of kernels waits."""
    machine = machine_for(shipped_catalog(), Variant("llama-3.1-8b", "fp16", "h100", 1), "vllm")
    found, steady = step_shares(machine, 16, 1000, 200), steady_state(machine, 16, 1000, 200)
    total = float(steady.prefill_s + steady.steps * steady.step_s)
    starts_s = float(steady.steps) * machine.model.layers * machine.efficiency.layer_overhead_us / 1e6
    starts_s *= machine.engine.layer_overhead_factor
    assert float(found.busy) == pytest.approx(1 - starts_s / total)
    read = machine.parameters
    flop = 2 * (read.dense + read.head) * (1000 + 199)
    assert float(found.arithmetic) == pytest.approx(flop / (989e12 * total), rel=0.01)


def test_power_follows_what_a_step_is_made_of_and_not_its_batch() -> None:
    """More GPUs for a small model wait longer for each other, and each draws less with as many requests in flight."""
    catalog = shipped_catalog()
    one, eight = (machine_for(catalog, Variant("llama-3.1-8b", "fp16", "h100", n), "vllm") for n in (1, 8))
    assert float(waiting_s(eight, 32.0)) > float(waiting_s(one, 32.0))
    drawn = [float(law("h100").frac(step_shares(m, 32, 500, 300))) for m in (one, eight)]
    assert drawn[1] < 0.8 * drawn[0]


def test_measured_rows_are_met() -> None:
    catalog, errors = shipped_catalog(), []
    for model, quantization, gpu, gpus, in_flight, answer, watts in MEASURED:
        machine = machine_for(catalog, Variant(model, quantization, gpu, gpus), "vllm")
        tdp_w = tdp_w_of(gpu, catalog.gpus[gpu])
        assert tdp_w is not None
        errors.append(float(law(gpu).frac(step_shares(machine, in_flight, 256, answer))) * tdp_w / watts - 1)
    assert np.mean(np.abs(errors)) < 0.12, errors


def facts() -> list[tuple[str, Sourced]]:
    known = power_facts()
    return [*known.laws.items(), *known.tdp_w.items(), ("idle", known.idle), ("host", known.host), *grids().items()]


@for_each(("name", "fact"), facts())
def test_every_fact_has_a_source_and_a_day(name: str, fact: Sourced) -> None:
    assert fact.source != OWN_FIGURE, name
    assert day_of(fact.date) is not None, name


def test_every_gpu_has_a_thermal_design_power_but_the_one_that_sources_differ_about() -> None:
    gpus = shipped_catalog().gpus
    assert [name for name, gpu in gpus.items() if tdp_w_of(name, gpu) is None] == ["a10g"]
    assert set(power_facts().tdp_w) <= set(gpus)


def test_values_that_stand_for_missing_ones_are_marked() -> None:
    """One value in regions of several grids, or a zero, is marked as suspect."""
    values: dict[float, list[str]] = {}
    for key, grid in grids().items():
        if grid.suspect is None:
            values.setdefault(grid.grid_g_per_kwh, []).append(key)
    assert 0.0 not in values
    assert grids()["azure/westus3"].suspect == "filled"
    assert grids()["aws/eu-north-1"].suspect == "zero"
