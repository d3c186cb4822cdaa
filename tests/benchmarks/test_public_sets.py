"""Public collections of runs as rows that the model can be scored on."""

import csv
import io
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
CHAT = {"model": "llama-3.1-8b", "dtype_weights": "bf16", "gpu": "h100", "n_gpus": "2", "attention_tp": "2",
        "attention_dp": "1", "moe_ep": "", "engine": "vllm-0.11.1", "task": "lm-arena-chat", "avg_batch_size": "64.0",
        "output_len_mean": "400.0", "itl_p50_ms": "11.5", "output_tok_s": "5147"}  # fmt: skip
RUN = {"catalog_model": "qwen3-coder-480b-a35b", "model": "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", "gpu": "h200",
       "gpu_text": "8x", "engine": "sglang-0.5.7", "tp": "8", "dp": "4", "dp_attention": "yes", "ep": "2",
       "quantization": "", "spec_algorithm": "none", "input_len_mean": "500.5", "output_len_mean": "510.1",
       "max_concurrency": "16", "concurrency_mean": "13.9", "ttft_mean_ms": "155", "tpot_mean_ms": "20.8"}  # fmt: skip


def converted(tmp_path: Path, *runs: dict[str, str]) -> tuple[list[dict[str, str]], str]:
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(runs[0]))
        writer.writeheader()
        writer.writerows(runs)
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "public_sets.py"), str(path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return list(csv.DictReader(io.StringIO(done.stdout))), done.stderr


def test_a_configuration_of_mlenergy_has_a_rate_and_an_undisturbed_step(tmp_path: Path) -> None:
    (rate, step), _ = converted(tmp_path, CHAT)
    assert (rate["metric"], rate["value"], rate["tp"], rate["batch_or_concurrency"]) == (
        "output_tok_s",
        "5147",
        "2",
        "64.0",
    )
    assert (step["metric"], step["value"], step["notes"]) == ("tpot_ms", "11.5", "p50 per-token latency")
    assert (step["input_len"], step["output_len"]) == ("256", "400.0"), "prompts are assumed by task"


def test_a_median_that_prompts_interrupt_is_no_step(tmp_path: Path) -> None:
    rows, _ = converted(tmp_path, CHAT | {"avg_batch_size": "128"})
    assert [row["metric"] for row in rows] == ["output_tok_s"]


def test_images_and_idle_gpus_are_left_out_by_name(tmp_path: Path) -> None:
    idle = CHAT | {"task": "gpqa", "gpu": "b200", "n_gpus": "1"}
    rows, said = converted(tmp_path, CHAT | {"task": "image-chat"}, CHAT | {"task": "video-chat"}, idle)
    assert not rows
    assert "2 runs left out: images or videos" in said and "1 runs left out: the GPU waits for its host" in said


def test_copies_of_attention_divide_the_gpus_of_a_cookbook_run(tmp_path: Path) -> None:
    rows, _ = converted(tmp_path, RUN)
    assert [(row["metric"], row["value"]) for row in rows] == [("ttft_ms", "155"), ("tpot_ms", "20.8")]
    row = rows[0]
    assert (row["n_gpus"], row["tp"], row["attention_dp"], row["moe_ep"]) == ("8", "2", "4", "2")
    assert (row["dtype_weights"], row["batch_or_concurrency"]) == ("fp8", "13.9"), "the checkpoint names its precision"


def test_cells_of_models_with_variants_have_the_names_of_the_catalog(tmp_path: Path) -> None:
    cell = {"catalog_model": "", "model": "deepseek-v4", "variant": "pro-official", "weights": "fp4", "gpu": "h200",
            "engine": "sglang", "tp": "8", "dp_attention": "", "ep": "", "spec_algorithm": "none", "input_len": "8192",
            "output_len": "1024", "concurrency": "64", "ttft_ms": "9", "tpot_ms": "7",
            "pinned_accept_len": ""}  # fmt: skip
    other = cell | {"model": "minimax-m3", "variant": "default", "weights": "mxfp8"}
    rows, _ = converted(tmp_path, cell, other)
    assert [(row["model"], row["dtype_weights"]) for row in rows[::2]] == [
        ("deepseek-v4-pro-0813", "mxfp4"),
        ("minimax-m3", "fp8"),
    ]


def test_speculation_is_left_out(tmp_path: Path) -> None:
    rows, said = converted(tmp_path, RUN | {"spec_algorithm": "EAGLE"})
    assert not rows and "speculative decoding" in said
