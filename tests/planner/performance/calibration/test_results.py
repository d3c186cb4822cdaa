from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.io.errors import InputError
from planner.performance.calibration.benchmark_runs import BenchPoint, Spread
from planner.performance.calibration.read_results import read_results, settled
from tests.support.places import TESTS
from tests.support.rows import for_each

FILES = TESTS / "results"
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def complaints_about(*paths: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_results(paths)
    return [str(diagnostic) for diagnostic in caught.value.diagnostics]


def written(folder: Path, text: str, name: str = "run.json") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def changed(folder: Path, **values: Any) -> Path:
    """The old vLLM result with some keys changed; None removes one."""
    run = json.loads((FILES / "vllm_old.json").read_text()) | values
    return written(folder, json.dumps({k: v for k, v in run.items() if v is not None}))


def test_vllm_with_old_keys() -> None:
    (point,) = read_results([FILES / "vllm_old.json"])
    assert (point.engine, point.model, point.date) == ("vllm", LLAMA, "2026-03-02")
    assert (point.gpu, point.gpus_per_replica, point.quantization) == (None, None, None)
    assert (point.input_tokens, point.output_tokens) == (512, 128)  # per completed request, not per one sent
    assert (point.n_requests, point.failed, point.duration_s) == (82, 2, 10)
    assert (point.concurrency, point.request_rate_per_s) == (8, None)
    assert (point.requests_per_s, point.output_tok_s) == (8, 1024)
    assert point.ttft_ms == Spread(mean=32, p50=28, p95=None, p99=61)
    assert point.tpot_ms == Spread(mean=7.5, p50=7.4, p95=None, p99=8.8)
    assert point.e2e_ms == Spread()
    assert point.notes == ()


def test_vllm_with_new_keys_and_metadata_one_run_a_line() -> None:
    points = read_results([FILES / "vllm_new.jsonl"])
    assert [point.line for point in points] == [1, 2, 3, 4]
    assert [point.concurrency for point in points] == [1, 8, 32, None]
    assert [point.request_rate_per_s for point in points] == [None, None, None, 4.0]
    first = points[0]
    assert (first.gpu, first.gpus_per_replica, first.quantization) == ("H100-80GB-SXM", 1, "bf16")
    assert first.engine == "vllm 0.12.0"  # "openai" is the API that was spoken, not an engine
    assert first.ttft_ms == Spread(mean=24, p50=22.8, p95=36, p99=48)
    assert first.e2e_ms.mean == 849.5


def test_vllm_keys_without_a_unit_are_seconds() -> None:
    (point,) = read_results([FILES / "vllm_seconds.jsonl"])
    assert point.ttft_ms.p50 == pytest.approx(28)
    assert point.tpot_ms.p99 == pytest.approx(8.8)
    assert point.e2e_ms.p50 == pytest.approx(970)
    assert "taken as seconds" in point.notes[0]


@pytest.mark.parametrize("rate", ["inf", float("inf")])
def test_an_infinite_rate_is_no_rate(tmp_path: Path, rate: object) -> None:
    (point,) = read_results([changed(tmp_path, request_rate=rate)])
    assert point.request_rate_per_s is None


def test_itl_stands_in_for_a_missing_tpot(tmp_path: Path) -> None:
    none = dict.fromkeys(("mean_tpot_ms", "median_tpot_ms", "p99_tpot_ms"))
    (point,) = read_results([changed(tmp_path, **none)])
    assert point.tpot_ms == Spread(mean=7.6, p50=7.3, p99=21.0)


def test_sglang_names_of_the_end_to_end_latency(tmp_path: Path) -> None:
    (point,) = read_results([changed(tmp_path, mean_e2e_latency_ms=984.5)])
    assert point.e2e_ms.mean == 984.5


def test_a_run_against_several_replicas_is_refused(tmp_path: Path) -> None:
    (text,) = complaints_about(changed(tmp_path, replicas="4"))
    assert "was measured on 4 replicas together" in text


def test_guidellm_v1() -> None:
    eight, one = read_results([FILES / "guidellm_v1.json"])
    assert (eight.concurrency, one.concurrency) == (8, 1)  # streams, and one after the other
    assert (eight.model, eight.gpu, eight.gpus_per_replica, eight.quantization) == (LLAMA, "h100", 1, "fp16")
    assert eight.tpot_ms.mean == 7.5  # its time_per_output_token counts the first token in
    assert eight.e2e_ms.mean == pytest.approx(984.5)  # from seconds
    assert eight.notes == one.notes == ()  # and known to be seconds, not found out
    assert eight.ttft_ms.p95 == pytest.approx(32 * 1.3)
    assert (eight.n_requests, eight.failed) == (41, 1)  # those cut off at the end did not fail
    assert eight.duration_s == 30
    assert eight.date == "2026-03-04"


def test_guidellm_v2() -> None:
    (point,) = read_results([FILES / "guidellm_v2.json"])
    assert point.model == LLAMA
    assert point.gpu == "h100"
    assert point.concurrency == 3.6  # the mean; the cap of 10240 was never meant to be reached
    assert point.request_rate_per_s == 4
    assert point.requests_per_s == 4


@pytest.mark.parametrize("name", ["aiperf.json", "genai_perf.json"])
def test_aiperf_units_are_those_beside_each_metric(name: str) -> None:
    (point,) = read_results([FILES / name])
    assert point.model == LLAMA
    assert point.concurrency == 8
    assert point.ttft_ms.mean == pytest.approx(32)
    assert point.tpot_ms.mean == pytest.approx(7.5)
    assert point.tpot_ms.p99 == pytest.approx(9)
    assert point.e2e_ms.mean == pytest.approx(984.5)
    assert (point.input_tokens, point.output_tokens) == (512, 128)
    assert point.notes == ()


def test_aiperf_telemetry_names_the_gpu_and_errors_count() -> None:
    (point,) = read_results([FILES / "aiperf.json"])
    assert point.gpu == "NVIDIA H100-SXM"
    assert point.gpus_per_replica is None
    assert (point.n_requests, point.failed) == (202, 2)
    assert point.date == "2026-03-05"


def test_aiperf_with_an_unknown_unit(tmp_path: Path) -> None:
    run = json.loads((FILES / "aiperf.json").read_text())
    run["time_to_first_token"]["unit"] = "fortnights"
    (text,) = complaints_about(written(tmp_path, json.dumps(run)))
    assert "'time_to_first_token' has the unit 'fortnights'" in text


def test_long_csv_rows_of_one_run_are_one_point() -> None:
    first, again, step = read_results([FILES / "long.csv"])
    assert (first.tpot_ms.mean, first.ttft_ms.mean, first.requests_per_s) == (7.5, 32, 8.1)
    assert (again.tpot_ms.mean, again.ttft_ms.mean) == (7.7, None)  # a metric that comes again is another run
    assert (step.decode_step_ms, step.concurrency, step.line) == (6.4, 1, 5)
    assert (first.gpu, first.gpus_per_replica, first.quantization, first.engine) == ("H100-SXM", 1, "fp16", "vllm")


def test_wide_csv() -> None:
    one, eight = read_results([FILES / "wide.csv"])
    assert (one.concurrency, eight.concurrency) == (1, 8)
    assert eight.ttft_ms == Spread(mean=32, p95=45)
    assert eight.date == "2026-03-06"


def long_csv(folder: Path, *rows: str) -> Path:
    head = "model,gpu,n_gpus,tp,dtype_weights,input_len,output_len,batch_or_concurrency,metric,value,notes"
    return written(folder, "\n".join([head, *rows]) + "\n", "run.csv")


@for_each(
    ("row", "message"),
    [
        ("m,h100,1,1,fp16,512,128,8,tpot,7.5,", "unknown metric 'tpot'. Did you mean 'tpot_ms'?"),
        ("m,h100,1,1,fp16,,128,8,tpot_ms,7.5,", "says nothing about the input tokens"),
        ("m,h100,1,1,fp16,512,128,8,tpot_ms,fast,", "'value' must be a number, got 'fast'"),
        ("m,h100,1,1,fp16,512,128,8,tpot_ms,-1,", "'value' cannot be negative"),
        ("m,h100,8,1,fp16,512,128,8,tpot_ms,7.5,", "8 GPUs with a tensor parallelism of 1 are not one replica"),
        ("m,h100,1,1,fp16,512,128,8,tpot_ms,7.5,SUSPECT", "is marked SUSPECT"),
        ("m,h100,1,1,fp16,512,128,lots,tpot_ms,7.5,", "'batch_or_concurrency' must be a number, got 'lots'"),
    ],
)
def test_what_is_wrong_with_a_row(tmp_path: Path, row: str, message: str) -> None:
    good = "m,h100,1,1,fp16,512,128,4,tpot_ms,7.5,"
    texts = complaints_about(long_csv(tmp_path, good, row))
    assert any("run.csv:3: " in text and message in text for text in texts)


def test_a_misspelt_column_is_not_passed_over(tmp_path: Path) -> None:
    (text,) = complaints_about(written(tmp_path, "input_tokens,output_tokens,tpot_msec\n512,128,7.5\n", "run.csv"))
    assert "unknown column 'tpot_msec'. Did you mean 'tpot_ms'?" in text


def test_every_problem_of_every_file_at_once(tmp_path: Path) -> None:
    bad_row = long_csv(tmp_path, "m,h100,1,1,fp16,512,128,8,tpot,7.5,", "m,h100,1,1,fp16,512,128,8,tpot_ms,x,")
    texts = complaints_about(bad_row, tmp_path / "absent.json", FILES / "vllm_old.json")
    assert ["run.csv:2" in t for t in texts].count(True) == 1
    assert ["there is no such file" in t for t in texts].count(True) == 1
    assert ["run.csv:3" in t for t in texts].count(True) == 2
    assert not any("vllm_old" in t for t in texts)


@for_each(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("results:\n  ttft: 3\n", "is in no known format. Known are vllm bench serve"),
        ("a,b\n1,2\n", "A CSV file needs the columns model,gpu,"),
        ('{"hello": 1}', "is in no known format; its keys are 'hello'"),
        ("[1]", "expected an object for a run, got 1"),
        ('{"a": 1', "run.json:1:8: is not valid JSON"),
        ('{"a": 1}\n{"a": \n', "run.json:2:"),
        ("[" * 100_000, "is nested too deeply"),
    ],
)
def test_files_that_are_no_results(tmp_path: Path, text: str, message: str) -> None:
    assert message in complaints_about(written(tmp_path, text))[0]


def test_a_directory_and_bytes_are_refused(tmp_path: Path) -> None:
    assert "this is a directory" in complaints_about(tmp_path)[0]
    binary = tmp_path / "weights.bin"
    binary.write_bytes(b"\x80\x81\x82")
    assert "is not a text file" in complaints_about(binary)[0]
    binary.write_bytes(b"\x1f\x8bnot gzip at all")
    assert "cannot be read" in complaints_about(binary)[0]


def test_gzip_is_seen_by_content(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(gzip.compress((FILES / "vllm_old.json").read_bytes()))
    (packed,) = read_results([path])
    (plain,) = read_results([FILES / "vllm_old.json"])
    assert replace(packed, file=plain.file) == plain


def test_nothing_completed(tmp_path: Path) -> None:
    texts = complaints_about(changed(tmp_path, completed=0, total_output_tokens=0))
    assert any("not one request completed" in text for text in texts)


# -- units ------------------------------------------------------------------------------------------------

MEASURED = BenchPoint(
    file="run", input_tokens=512, output_tokens=128, concurrency=8, requests_per_s=8.1, output_tok_s=1036.8,
    ttft_ms=Spread(32, 30, 45, 60), tpot_ms=Spread(7.5, 7.4, 8, 9), e2e_ms=Spread(984.5), n_requests=200,
)  # fmt: skip


def test_a_consistent_point_stays_as_it_is() -> None:
    assert settled(MEASURED).point == MEASURED


def test_seconds_in_ms_columns_are_converted_with_a_note() -> None:
    names = ("ttft_ms", "tpot_ms", "e2e_ms")
    result = settled(replace(MEASURED, **{name: getattr(MEASURED, name).times(1e-3) for name in names}))
    assert not result.problem
    assert result.point.tpot_ms.mean == pytest.approx(7.5)
    assert result.point.notes == (
        "TTFT, TPOT and E2E taken as seconds and converted to ms: a TPOT of 0.0075 ms cannot be",
    )


@for_each("name", ["ttft_ms", "tpot_ms", "e2e_ms"])
@for_each("factor", [1e-3, 1e3])
def test_one_latency_in_another_unit_is_found(name: str, factor: float) -> None:
    result = settled(replace(MEASURED, **{name: getattr(MEASURED, name).times(factor)}))
    assert not result.problem
    assert getattr(result.point, name).mean == pytest.approx(getattr(MEASURED, name).mean)
    assert name.removesuffix("_ms").upper() in result.point.notes[0]


def test_slow_tokens_in_seconds_are_told_by_the_requests_in_flight() -> None:
    """A TPOT of 0.2 could be ms; 8 requests in flight that make 40 tokens a second could not."""
    slow = replace(MEASURED, ttft_ms=Spread(1.2), tpot_ms=Spread(0.2), e2e_ms=Spread(), requests_per_s=0.3,
                   output_tok_s=38.4)  # fmt: skip
    result = settled(slow)
    assert result.point.tpot_ms.mean == pytest.approx(200)
    assert "requests/s x 0.0266 s are 0.00798 requests in flight; the file says 8" in result.point.notes[0]


def test_total_tokens_in_place_of_output_tokens_are_refused_with_the_arithmetic() -> None:
    result = settled(replace(MEASURED, output_tok_s=5184))
    assert result.problem == "8.1 requests/s x 128 tokens are 1037 tok/s; the file says 5184"


def test_a_contradiction_that_no_unit_explains_is_refused_with_the_arithmetic() -> None:
    result = settled(replace(MEASURED, e2e_ms=Spread(9000)))
    assert result.problem == "32 + 127 x 7.5 are 984.5 ms; the file says 9000"
    assert result.point.notes == ()


def test_contradictions_reach_the_user_with_their_line(tmp_path: Path) -> None:
    row = "512,128,8,7.5,32,9000"
    path = written(tmp_path, f"input_tokens,output_tokens,concurrency,tpot_ms,ttft_ms,e2e_ms\n{row}\n", "run.csv")
    (text,) = complaints_about(path)
    assert "run.csv:2: 32 + 127 x 7.5 are 984.5 ms; the file says 9000. Check the units" in text


@given(
    tpot=st.floats(2, 300),
    ttft=st.floats(10, 20_000),
    output=st.integers(16, 4000),
    concurrency=st.integers(1, 512),
    in_seconds=st.booleans(),
)
def test_any_steady_run_is_read_in_either_unit(
    tpot: float, ttft: float, output: int, concurrency: int, in_seconds: bool
) -> None:
    e2e = ttft + (output - 1) * tpot
    factor = 1e-3 if in_seconds else 1.0
    point = BenchPoint(
        file="run", input_tokens=512, output_tokens=output, concurrency=concurrency,
        requests_per_s=concurrency / e2e * 1e3, ttft_ms=Spread(ttft * factor), tpot_ms=Spread(tpot * factor),
        e2e_ms=Spread(e2e * factor),
    )  # fmt: skip
    result = settled(point)
    assert not result.problem
    assert result.point.tpot_ms.mean == pytest.approx(tpot)
    assert result.point.ttft_ms.mean == pytest.approx(ttft)
    assert bool(result.point.notes) == in_seconds
