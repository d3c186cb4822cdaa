"""The articles' throughput tables beside ours: docs/evidence/performance.md says what the model says."""

from __future__ import annotations

import re

import pytest

from planner.catalog.entries import shipped_catalog
from planner.catalog.variant import Variant
from planner.io.errors import InputError
from planner.performance.closed_loop import closed_loop
from planner.performance.machine_by_name import machine_for
from tests.support.places import ROOT
from tests.support.rows import for_each

DOCS = ROOT / "docs" / "evidence" / "performance.md"
ROWS = [
    ("Llama-2 7B FP16, H100", "llama-2-7b", "fp16", "h100", 1, 256),
    ("Llama-2 7B FP16, A100 80GB", "llama-2-7b", "fp16", "a100-80gb", 1, 256),
    ("Llama-2 7B FP16, A10G", "llama-2-7b", "fp16", "a10g", 1, 256),
    ("Llama-2 7B FP16, L4", "llama-2-7b", "fp16", "l4", 1, 256),
    ("Llama-2 70B FP16, 4 x A100", "llama-2-70b", "fp16", "a100-80gb", 4, 512),
    ("Llama-2 70B FP16, 4 x H100", "llama-2-70b", "fp16", "h100", 4, 512),
    ("Llama-2 70B INT4 AWQ, 2 x A100", "llama-2-70b", "int4-awq", "a100-80gb", 2, 512),
    ("Llama-2 70B INT4 AWQ, H100", "llama-2-70b", "int4-awq", "h100", 1, 512),
    ("Mixtral 8x7B FP16, 2 x A100", "mixtral-8x7b", "fp16", "a100-80gb", 2, 512),
]


@for_each(("name", "model", "quantization", "gpu", "gpus", "prompt"), ROWS)
def test_the_table_says_what_the_model_says(
    name: str, model: str, quantization: str, gpu: str, gpus: int, prompt: int
) -> None:
    machine = machine_for(shipped_catalog(), Variant(model, quantization, gpu, gpus), "vllm")
    ours = float(closed_loop(machine, float("inf"), prompt, 256).requests_per_s) * 256
    text = DOCS.read_text(encoding="utf-8")
    row = re.search(rf"^\| {re.escape(name)} \| ([\d,]+) \| ([\d,]+) \|", text, re.MULTILINE)
    assert row is not None
    article, said = (float(cell.replace(",", "")) for cell in row.groups())
    assert said == pytest.approx(ours, rel=0.005)
    assert 1 / 3 < ours / article < 3


def test_llama_2_7b_does_not_fit_a_t4() -> None:
    with pytest.raises(InputError, match="do not fit"):
        machine_for(shipped_catalog(), Variant("llama-2-7b", "fp16", "t4", 1), "vllm")
