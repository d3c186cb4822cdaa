"""Scoring the performance model on a CSV of measurements."""

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from planner.catalog.entries import shipped_catalog
from planner.io.errors import InputError
from planner.performance.accuracy import Accuracy, score
from planner.performance.closed_loop import closed_loop
from planner.performance.latency import decode_step_s, prefill_s
from planner.performance.machine import Machine
from planner.performance.measurements import engine_named
from planner.performance.memory import Layout
from planner.reports.performance import accuracy_document
from planner.reports.text import as_text
from tests.support.rows import for_each

CATALOG = shipped_catalog()
COLUMNS = ("source", "url_or_repo_path", "model", "params_b", "gpu", "n_gpus", "tp", "dtype_weights",
           "dtype_kv", "engine", "input_len", "output_len", "batch_or_concurrency", "metric", "value",
           "notes", "attention_dp", "moe_tp", "moe_ep", "pp", "prefill_tp", "decode_workers")  # fmt: skip
BASE = {"source": "mine", "model": "llama-3.1-8b", "gpu": "H100-80GB-SXM", "n_gpus": "1", "tp": "1",
        "engine": "vllm", "dtype_weights": "fp16", "input_len": "512", "output_len": "128",
        "batch_or_concurrency": "8"}  # fmt: skip


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({**BASE, **row} for row in rows)
    return path


def scored(tmp_path: Path, *rows: dict[str, object]) -> Accuracy:
    return score(write(tmp_path / "points.csv", list(rows)))


def machine(gpus: int = 1, engine: str = "vllm") -> Machine:
    return Machine(
        CATALOG.models["llama-3.1-8b"], CATALOG.quantizations["fp16"], CATALOG.gpus["h100"], gpus,
        CATALOG.efficiency_of("h100"), CATALOG.engines[engine],
    )  # fmt: skip


def reason(tmp_path: Path, **row: object) -> str:
    result = scored(tmp_path, {"metric": "tpot_ms", "value": 9, **row})
    assert result.rows == 1 and not result.scored
    assert result.skipped == {result.reasons[0]: 1}
    return result.reasons[0]


def test_errors_are_fractions_of_the_measurement(tmp_path: Path) -> None:
    truth = 1e3 * float(decode_step_s(machine(), 8.0, 512 + 64))
    rows = [{"metric": "decode_step_ms", "value": truth * factor} for factor in (1.0, 1.25, 0.8)]
    errors = scored(tmp_path, *rows).by_metric["decode_step_ms"]
    assert errors.n == 3
    assert errors.mape == pytest.approx((0 + 0.2 + 0.25) / 3)
    assert errors.median_ape == pytest.approx(0.2)
    assert errors.bias == pytest.approx((0 - 0.2 + 0.25) / 3)


def test_each_metric_is_what_it_says(tmp_path: Path) -> None:
    run = closed_loop(machine(), 8.0, 512.0, 128.0)
    expected = {
        "decode_step_ms": 1e3 * decode_step_s(machine(), 8.0, 576.0),
        "prefill_ms": 1e3 * prefill_s(machine(), 512.0, None, 8.0),
        "ttft_ms": 1e3 * run.ttft_s,
        "tpot_ms": 1e3 * run.tpot_s,
        "req_s": run.requests_per_s,
        "output_tok_s": 128 * run.requests_per_s,
    }
    rows = [{"metric": metric, "value": float(value) * 1.1} for metric, value in expected.items()]
    result = scored(tmp_path, *rows)
    assert {s.point.metric: s.predicted for s in result.scored} == pytest.approx(
        {metric: float(value) for metric, value in expected.items()}
    )
    assert result.by_metric["ttft_ms"].bias == pytest.approx(1 / 1.1 - 1)


def test_several_replicas_add_up_and_max_fills_the_engine(tmp_path: Path) -> None:
    full = closed_loop(machine(), np.inf, 512.0, 128.0)
    rows = [{"metric": "output_tok_s", "value": 9000, "batch_or_concurrency": "max", "n_gpus": n} for n in ("1", "4")]
    one, four = scored(tmp_path, *rows).scored
    assert one.predicted == pytest.approx(float(128 * full.requests_per_s))
    assert four.predicted == pytest.approx(4 * one.predicted)


def test_a_median_over_tokens_is_an_undisturbed_step(tmp_path: Path) -> None:
    rows = [{"metric": "tpot_ms", "value": 9, "notes": note} for note in ("", "p50 per-token latency")]
    mean, median = scored(tmp_path, *rows).scored
    assert median.predicted == pytest.approx(1e3 * float(decode_step_s(machine(), 8.0, 576.0)))
    assert mean.predicted > median.predicted


def test_kv_precision_follows_the_row_else_the_engine(tmp_path: Path) -> None:
    long = {"metric": "decode_step_ms", "value": 30, "dtype_weights": "fp8", "input_len": 8000,
            "batch_or_concurrency": 64}  # fmt: skip
    kinds = [("vllm", ""), ("vllm", "fp8"), ("trtllm", ""), ("trtllm", "fp16")]
    wide, narrow, usual, told = (
        s.predicted for s in scored(tmp_path, *[{**long, "engine": e, "dtype_kv": kv} for e, kv in kinds]).scored
    )
    assert narrow < wide and usual < told


@for_each(
    ("row", "expected"),
    [
        ({"notes": "SUSPECT: exceeds bandwidth"}, "marked SUSPECT"),
        ({"prefill_tp": "4"}, "disaggregated serving, which is not modelled"),
        ({"decode_workers": "2"}, "disaggregated serving, which is not modelled"),
        ({"input_len": ""}, "no lengths"),
        ({"output_len": "nan"}, "no lengths"),
        ({"dtype_weights": "unknown"}, "unknown precision"),
        ({"dtype_weights": ""}, "unknown precision"),
        ({"model": "my-own-13b"}, "unknown model"),
        ({"gpu": "Voodoo2"}, "unknown GPU"),
        ({"metric": "joules"}, "unknown metric"),
        ({"value": "0"}, "no value"),
        ({"value": ""}, "no value"),
        ({"batch_or_concurrency": "server-SLO"}, "no batch or concurrency"),
        ({"tp": "", "n_gpus": ""}, "no tensor-parallel degree"),
        ({"output_len": "1"}, "no second token"),
        ({"gpu": "A100-80GB-SXM", "dtype_weights": "fp8"}, "the GPU has no native fp8"),
        ({"gpu": "T4", "dtype_weights": "fp8"}, "the GPU has no native fp8"),
        ({"model": "llama-3.1-70b"}, "weights exceed the memory of the GPUs stated"),
        ({"value": "1.5"}, "faster than the datasheet of the GPUs allows"),
        ({"metric": "output_tok_s", "value": "5000"}, "faster than the datasheet of the GPUs allows"),
        ({"metric": "prefill_ms", "value": "20"}, "faster than the datasheet of the GPUs allows"),
    ],
)
def test_rows_left_out_say_why(tmp_path: Path, row: dict[str, object], expected: str) -> None:
    assert reason(tmp_path, **row) == expected


@for_each(
    "name",
    ["gptj-6b", "bloom-176b", "internlm-20b", "falcon-180b", "llama2-7b", "llama2-70b", "llama3-8b",
     "llama3-70b", "llama3.1-405b", "mistral-7b", "mixtral-8x7b", "qwen3-32b", "qwen3-235b",
     "gpt-oss-120b"],
)  # fmt: skip
@for_each("gpu", ["A100-80GB-SXM", "A100-80GB-PCIe", "H100-80GB-PCIe", "H200-141GB-SXM", "L40S", "A10G"])
def test_names_of_published_tables_are_known(tmp_path: Path, name: str, gpu: str) -> None:
    row = {"model": name, "gpu": gpu, "tp": 64, "n_gpus": 64, "metric": "ttft_ms", "value": 1e4}
    assert len(scored(tmp_path, row).scored) == 1


def test_four_bits_mean_the_native_format_where_there_is_one(tmp_path: Path) -> None:
    row = {"metric": "tpot_ms", "value": 20, "dtype_weights": "fp4", "tp": 2, "n_gpus": 2}
    result = scored(tmp_path, {**row, "model": "gpt-oss-120b"}, {**row, "gpu": "b200"}, row)
    assert [s.point.machine_key[1] for s in result.scored] == ["mxfp4", "nvfp4", "mxfp4"]


def test_layouts_are_read_from_columns_else_from_notes(tmp_path: Path) -> None:
    row = {"metric": "tpot_ms", "value": 20, "model": "deepseek-r1", "gpu": "h200", "dtype_weights": "fp8"}
    spread = {"tp": 1, "n_gpus": 8, "attention_dp": 8, "moe_ep": 8, "pp": 1}
    columns, notes = scored(
        tmp_path, {**row, **spread}, {**row, "tp": 8, "n_gpus": 8, "notes": "moe_ep=8 gemm=fp8"}
    ).scored
    assert columns.point.machine_key.gpus == 8 and columns.point.machine_key.layout == Layout(8, 8, 1)
    assert notes.point.machine_key.layout == Layout(), "an empty column is not recorded, whatever the notes say"
    bare = tmp_path / "bare.csv"
    names = [n for n in COLUMNS if n not in ("attention_dp", "moe_tp", "moe_ep", "pp")]
    cells = {**BASE, **row, "tp": 8, "n_gpus": 8, "notes": "attention_dp=1 moe_ep=8"}
    bare.write_text(",".join(names) + "\n" + ",".join(str(cells.get(n, "")) for n in names) + "\n")
    assert score(bare).scored[0].point.machine_key.layout == Layout(1, 8, 1)


def test_errors_by_how_gpus_share_the_model(tmp_path: Path) -> None:
    row = {"metric": "tpot_ms", "value": 20, "model": "deepseek-r1", "gpu": "b200", "dtype_weights": "fp8", "n_gpus": 8}
    ways: list[dict[str, object]] = [
        {"tp": 8}, {"tp": 8, "moe_ep": 8}, {"tp": 8, "moe_ep": 8, "metric": "ttft_ms", "value": 900},
        {"tp": 1, "attention_dp": 8, "moe_ep": 8}, {"tp": 2, "attention_dp": 4, "moe_ep": 8}, {"tp": 8, "moe_ep": 4},
    ]  # fmt: skip
    a = scored(tmp_path, *(row | way for way in ways), {"metric": "tpot_ms", "value": 9})
    assert {way: e.n for way, e in a.by_parallelism.items()} == {"tensor": 2, "expert": 2, "data": 1, "mixed": 2}
    assert set(a.as_json()["by_parallelism"]) == {"tensor", "expert", "data", "mixed"}
    assert a.by_parallelism_and_metric["expert ttft_ms"].n == 1
    assert a.as_json()["by_parallelism_and_metric"]["data tpot_ms"]["bias"] == a.by_parallelism["data"].bias
    text = as_text(accuracy_document(a))
    assert "parallelism and metric" in text
    assert "expert ttft_ms" in text


def test_stages_of_a_pipeline_each_serve_a_batch(tmp_path: Path) -> None:
    row = {"metric": "output_tok_s", "value": 3000, "batch_or_concurrency": "max", "model": "llama-3.3-70b",
           "gpu": "RTX-PRO-6000-Server", "dtype_weights": "fp4", "engine": "trtllm 1.0"}  # fmt: skip
    two, one = scored(tmp_path, {**row, "n_gpus": 2, "pp": 2}, row).scored
    assert two.point.replicas == 2 and two.predicted > 2 * one.predicted, "and each holds half of the weights"


def test_lengths_and_precisions_that_a_collection_states_loosely(tmp_path: Path) -> None:
    row = {"metric": "tpot_ms", "value": 20, "input_len": 1000, "output_len": 500}
    listed = {**row, "url_or_repo_path": "systems/silicon_sample.csv id=x"}
    plain, drawn, own = scored(tmp_path, row, listed, {**listed, "notes": "gap-analysis/h100"}).scored
    assert [s.point.input_tokens for s in (plain, drawn, own)] == [1000, 900, 1000]
    assert drawn.point.output_tokens == 450
    unknown = {**row, "dtype_weights": "unknown", "notes": "DTYPE INFERRED from checkpoint id"}
    published = scored(tmp_path, unknown, {**unknown, "model": "gpt-oss-120b", "tp": 2, "n_gpus": 2}).scored
    assert [s.point.machine_key.quantization for s in published] == ["fp16", "mxfp4"]


def test_engines_are_found_by_how_their_names_begin() -> None:
    names = {"vllm 0.18.0": "vllm", "vllm-0.11.1": "vllm-2025", "vllm 0.2.7": "vllm-2023",
             "vLLM": "vllm", "sglang 0.5": "sglang",
             "trtllm 0.14.0 bench": "tensorrt-llm-2024", "trtllm 1.0.0rc3": "tensorrt-llm", "TGI 2.0": "tgi",
             "": "vllm", "somebody's own": "vllm"}  # fmt: skip
    assert {name: engine_named(name, CATALOG.engines) for name in names} == names


def test_json_and_compressed_files(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"metric": "tpot_ms", "value": 9},
        {"metric": "ttft_ms", "value": 40, "source": "yours", "dtype_weights": "fp8", "gpu": "h200"},
        {"metric": "tpot_ms", "value": 9, "notes": "SUSPECT"},
    ]
    plain = score(write(tmp_path / "points.csv", rows)).as_json()
    assert plain == score(write(tmp_path / "points.csv.gz", rows)).as_json()
    assert json.loads(json.dumps(plain)) == plain
    assert (plain["rows"], plain["scored"], plain["skipped"]) == (3, 2, {"marked SUSPECT": 1})
    assert set(plain["by_metric"]) == {"tpot_ms", "ttft_ms"}
    assert set(plain["by_gpu"]) == {"h100", "h200"}
    assert set(plain["by_source"]) == {"mine", "yours"}
    assert set(plain["by_precision"]) == {"fp16", "fp8"}
    assert set(plain["by_metric"]["tpot_ms"]) == {"n", "mape", "median_ape", "bias"}


def test_a_file_without_the_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text("model,gpu\nllama,h100\n", encoding="utf-8")
    with pytest.raises(InputError, match="has no column source, tp, dtype_weights"):
        score(path)


def test_the_catalog_can_be_another(tmp_path: Path) -> None:
    path = write(tmp_path / "points.csv", [{"metric": "tpot_ms", "value": 9}])
    slow_engine = CATALOG.engines["vllm"].model_copy(update={"step_overhead_ms": 50.0})
    slow = CATALOG.model_copy(update={"engines": {**CATALOG.engines, "vllm": slow_engine}})
    assert score(path, slow).scored[0].predicted > score(path).scored[0].predicted + 45
