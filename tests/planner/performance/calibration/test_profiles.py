from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.entries import shipped_catalog
from planner.catalog.names import checkpoint
from planner.catalog.profile import MaxRate, MeasuredPoint, Profile, find_profile, profiles_text
from planner.catalog.variant import Variant
from planner.io.errors import InputError
from planner.performance.calibration.benchmark_runs import BenchPoint, Spread
from planner.performance.calibration.datasheet_limits import Replica, beyond_limits, rate_beyond_limits, too_large
from planner.performance.calibration.lookup import max_rate
from planner.performance.calibration.profiles import make_profiles, profiles_from_text, read_profiles
from planner.performance.calibration.read_results import read_results
from planner.performance.latency import decode_step_s, prefill_s
from planner.performance.machine import Machine
from tests.support.places import TESTS
from tests.support.rows import for_each

FILES = TESTS / "results"
CATALOG = shipped_catalog()
DEPLOYMENT: dict[str, Any] = {
    "model": "llama-3.1-8b", "quantization": "fp16", "gpu": "h100", "gpus_per_replica": 1,
}  # fmt: skip
RUN = BenchPoint(
    file="run.json", input_tokens=512, output_tokens=128, concurrency=8, requests_per_s=8.1,
    ttft_ms=Spread(32), tpot_ms=Spread(7.5), **DEPLOYMENT,
)  # fmt: skip


def replica(model: str = "llama-3.1-8b", quantization: str = "fp16", gpu: str = "h100", gpus: int = 1) -> Replica:
    return Replica(CATALOG.models[model], CATALOG.quantizations[quantization], CATALOG.gpus[gpu], gpus)


def machine(model: str = "llama-3.1-8b", gpu: str = "h100", gpus: int = 1) -> Machine:
    return Machine(
        CATALOG.models[model], CATALOG.quantizations["fp16"], CATALOG.gpus[gpu], gpus, CATALOG.efficiency_of(gpu)
    )


def profile(points: Sequence[MeasuredPoint] = (), max_rates: Sequence[MaxRate] = ()) -> Profile:
    return Profile(**DEPLOYMENT, points=tuple(points), max_rates=tuple(max_rates))


def point(in_flight: float = 8, input_tokens: float = 512, output_tokens: float = 128, **rest: Any) -> MeasuredPoint:
    return MeasuredPoint(input_tokens=input_tokens, output_tokens=output_tokens, concurrency=in_flight, **rest)


def refusals(points: Sequence[BenchPoint], **options: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        make_profiles(points, catalog=CATALOG, **options)
    return [str(diagnostic) for diagnostic in caught.value.diagnostics]


# -- whose measurement it is ------------------------------------------------------------------------------


def test_metadata_gives_the_deployment() -> None:
    (made,) = make_profiles(read_results([FILES / "vllm_new.jsonl"]), catalog=CATALOG)
    assert made.variant == Variant("llama-3.1-8b", "fp16", "h100", 1)
    assert [p.concurrency for p in made.points] == pytest.approx([1, 3.704, 8, 32])  # 4/s x 0.926 s in flight
    assert made.points[2] == MeasuredPoint(
        input_tokens=512, output_tokens=128, concurrency=8, tpot_ms=7.5, ttft_ms=32, requests_per_s=8.1,
        source=str(FILES / "vllm_new.jsonl"), date="2026-03-03",
    )  # fmt: skip


def test_options_win_over_metadata() -> None:
    (made,) = make_profiles([RUN], catalog=CATALOG, gpu="H100-SXM", gpus_per_replica=2, quantization="bf16")
    assert made.variant == Variant("llama-3.1-8b", "fp16", "h100", 2)


def test_what_is_missing_is_asked_for_once_per_file() -> None:
    bare = replace(RUN, gpu=None, gpus_per_replica=None, quantization=None, model=None)
    texts = refusals([bare, replace(bare, concurrency=16)])
    assert texts == [
        "run.json: does not say the model. Give it with --model NAME.",
        "run.json: does not say the GPU. Give it with --gpu NAME.",
        "run.json: does not say the quantization. Give it with --quantization NAME.",
        "run.json: does not say the GPUs per replica. Give it with --gpus-per-replica 1.",
    ]


def test_a_model_published_in_one_format_suggests_it() -> None:
    (text,) = refusals([replace(RUN, model="openai/gpt-oss-20b", quantization=None)])
    assert text.endswith("Give it with --quantization mxfp4.")


def test_unknown_names_say_where_and_suggest() -> None:
    assert refusals([replace(RUN, gpu="H100-SXN", line=3)]) == [
        "run.json:3: there is no GPU 'H100-SXN' in the catalog. Did you mean 'H100-SXM'?"
    ]
    assert refusals([RUN], quantization="fp17")[0].startswith("--quantization: there is no quantization 'fp17'")


@pytest.mark.parametrize(
    "name",
    [
        "meta-llama/Llama-3.1-8B-Instruct",
        "/cache/models--meta-llama--Llama-3.1-8B-Instruct/snapshots/0123abcd/",
        "/data/models/Llama-3.1-8B-Instruct",
    ],
)
def test_models_are_found_behind_paths(name: str) -> None:
    (made,) = make_profiles([replace(RUN, model=name)], catalog=CATALOG)
    assert made.model == "llama-3.1-8b"


def test_several_deployments_give_several_profiles() -> None:
    made = make_profiles([RUN, replace(RUN, gpu="h200"), replace(RUN, concurrency=9)], catalog=CATALOG)
    assert [(p.gpu, len(p.points)) for p in made] == [("h100", 2), ("h200", 1)]
    assert find_profile(made, Variant("llama-3.1-8b", "fp16", "h200", 1)) is made[1]
    assert find_profile(made, Variant("llama-3.1-8b", "fp16", "h200", 2)) is None


def test_nothing_to_calibrate_from() -> None:
    assert "there is nothing to calibrate from" in refusals([])[0]


# -- what it measures -------------------------------------------------------------------------------------


def test_rates_without_latencies_are_a_table() -> None:
    (made,) = make_profiles(read_results([FILES / "max_rates.csv"]), catalog=CATALOG)
    assert made.points == ()
    assert len(made.max_rates) == 4
    assert max_rate(made, 1024, 512) == pytest.approx(0.8)


def test_output_tokens_give_the_rate_where_nothing_else_does() -> None:
    (made,) = make_profiles([replace(RUN, requests_per_s=None, output_tok_s=1024.0)], catalog=CATALOG)
    assert made.points[0].requests_per_s == 8


@for_each(
    ("changes", "message"),
    [
        ({"n_requests": 100, "failed": 11}, "11 of 100 requests failed"),
        ({"concurrency": None, "requests_per_s": None}, "says nothing about the requests in flight"),
        ({"tpot_ms": Spread(), "ttft_ms": Spread(), "requests_per_s": None}, "measures no latency and no rate"),
        ({"gpus_per_replica": 0}, "a replica cannot have 0 GPUs"),
        ({"model": "llama-3.1-70b"}, "the weights take 141.1 GB; 1 x 80 GB hold less"),
    ],
)
def test_runs_that_cannot_be_used(changes: dict[str, Any], message: str) -> None:
    assert message in refusals([replace(RUN, **changes)])[0]


def test_a_few_failures_are_let_pass() -> None:
    assert make_profiles([replace(RUN, n_requests=100, failed=10)], catalog=CATALOG)


def test_tables_and_runs_are_not_mixed() -> None:
    rate = replace(RUN, concurrency=None, ttft_ms=Spread(), tpot_ms=Spread())
    assert "gives a highest rate without latencies, next to runs that have them" in refusals([RUN, rate])[0]


def test_a_length_with_two_rates_is_refused() -> None:
    rate = replace(RUN, concurrency=None, ttft_ms=Spread(), tpot_ms=Spread())
    assert "8.1 and 5 requests/s" in refusals([rate, replace(rate, requests_per_s=5.0)])[0]
    assert make_profiles([rate, rate], catalog=CATALOG)


# -- faster than the datasheet ----------------------------------------------------------------------------


def test_a_decode_step_faster_than_memory_is_refused_with_the_arithmetic() -> None:
    (text,) = refusals([replace(RUN, concurrency=1, requests_per_s=None, tpot_ms=Spread(2.1))])
    assert "a decode step must read 15 GB; at 3.35 TB/s that is 4.5 ms; the file says 2.1 ms" in text


def test_several_gpus_share_the_reading() -> None:
    (text,) = refusals([replace(RUN, concurrency=1, requests_per_s=None, tpot_ms=Spread(1.0))], gpus_per_replica=4)
    assert "at 4 x 3.35 TB/s that is 1.1 ms; the file says 1 ms" in text


def test_the_kv_cache_of_the_requests_in_flight_counts() -> None:
    long = point(64, 16_000, 1000, tpot_ms=9.0)
    ((field, words),) = beyond_limits(replica(), long)
    assert field == "tpot_ms"
    assert "a decode step for 64 requests must read 84.2 GB; at 3.35 TB/s that is 25 ms" in words
    assert not list(beyond_limits(replica(), point(1, 16_000, 1000, tpot_ms=9.0)))


@for_each(
    "run",
    [
        {"tpot_ms": Spread(9.1)}, {"tpot_ms": Spread(p50=9.1)}, {"decode_step_ms": 7.0},
        {"concurrency": 1, "ttft_ms": Spread(40.0)}, {"requests_per_s": 3.0, "tpot_ms": Spread(p95=12.0)},
    ],
)  # fmt: skip
def test_microseconds_in_columns_of_ms_are_refused(run: dict[str, Any]) -> None:
    """Nothing else in such a row contradicts them; a profile of them made a replica 1,000 times too slow."""
    plain = replace(RUN, line=3, requests_per_s=None, tpot_ms=Spread(), ttft_ms=Spread(), e2e_ms=Spread())
    assert make_profiles([replace(plain, **run)], catalog=CATALOG)
    latency = {
        name: x * 1e3 if isinstance(x, float) else x.times(1e3) for name, x in run.items() if name.endswith("_ms")
    }
    (text,) = refusals([replace(plain, **(run | latency))])
    assert f"{RUN.file}:3: a " in text and "times the least that it can take" in text and "microseconds?" in text


def test_percentiles_alone_are_refused_with_the_remedy() -> None:
    tails = replace(RUN, line=2, requests_per_s=None, tpot_ms=Spread(p95=12.0), ttft_ms=Spread(p99=90.0))
    (text,) = refusals([tails])
    assert "gives percentiles of TTFT and TPOT and no mean or median" in text and "Add the means" in text


def test_requests_that_waited_for_their_first_token_held_nobody_up() -> None:
    """With 64 allowed and 60 of them waiting, a step is that of 4."""
    assert not list(beyond_limits(replica(), point(64, 16_000, 1000, tpot_ms=9.0, requests_per_s=0.44)))


def test_a_prefill_faster_than_arithmetic_is_refused_with_the_arithmetic() -> None:
    (text,) = refusals([replace(RUN, input_tokens=16_384, concurrency=1, requests_per_s=None, ttft_ms=Spread(90))])
    assert "prefilling 1.638e+04 tokens takes 229 TFLOP; at 989 TFLOPS that is 231 ms; the file says 90 ms" in text


def test_rates_are_held_against_arithmetic_and_memory() -> None:
    few = MaxRate(input_tokens=8192, output_tokens=8, requests_per_s=20)
    ((_, words),) = rate_beyond_limits(replica(), few)
    assert words == "8200 tokens take 114 TFLOP; at 989 TFLOPS that is 8.64 a second; the file says 20 requests/s"
    much = MaxRate(input_tokens=64, output_tokens=1000, requests_per_s=20)
    ((_, words),) = rate_beyond_limits(replica(), much, in_flight=32)
    assert "a decode step for 32 requests must read" in words
    assert words.endswith("ms: 6.62 requests/s; the file says 20 requests/s")


def test_a_mixture_reads_more_experts_the_more_requests_choose() -> None:
    mixture = replica("mixtral-8x7b", gpus=2)
    one, many = mixture.weight_bytes_read(1), mixture.weight_bytes_read(64)
    assert one == pytest.approx(2 * CATALOG.models["mixtral-8x7b"].active_parameters_b * 1e9, rel=0.05)
    assert 0.5 < many / mixture.weight_bytes_read(1e9) <= 1
    assert mixture.weight_bytes_read(1e9) < 0.6 * 2 * CATALOG.models["mixtral-8x7b"].parameters_b * 1e9


@for_each("gpu", ["h100", "l4", "a100-80gb", "mi300x"])
@for_each("model", ["llama-3.1-8b", "gemma-2-2b", "qwen3-30b-a3b"])
@for_each("batch", [1, 16, 128])
def test_the_model_itself_stays_within_the_limits(model: str, gpu: str, batch: int) -> None:
    limits, m = replica(model, gpu=gpu, gpus=4), machine(model, gpu, 4)
    assert limits.step_s(batch, 1000) < float(decode_step_s(m, batch, 1000))
    assert limits.prefill_s(4000) < float(prefill_s(m, 4000))


def test_weights_that_fit_are_not_too_large() -> None:
    assert too_large(replica("llama-3.1-70b", gpus=2)) == ""
    assert too_large(replica("llama-3.1-70b", "fp8", gpus=1)) == ""


# -- the file ---------------------------------------------------------------------------------------------


def test_round_trip_of_every_fixture() -> None:
    files = ["vllm_new.jsonl", "guidellm_v1.json", "wide.csv", "long.csv"]
    made = make_profiles(read_results(FILES / name for name in files), catalog=CATALOG)
    made += make_profiles(read_results([FILES / "max_rates.csv"]), catalog=CATALOG)
    text = profiles_text(made)
    again = profiles_from_text(text, CATALOG)
    assert profiles_text(again) == text
    assert profiles_text(tuple(reversed(made))) == text
    assert {p.variant: sorted(map(repr, p.points)) for p in again} == {
        p.variant: sorted(map(repr, p.points)) for p in made
    }


def test_the_text_is_plain_to_read() -> None:
    assert profiles_text([profile([point(8, tpot_ms=7.5, source="my run: 1.json", date="2026-03-06")])]) == (
        "# Measurements of your own deployments; a plan uses them before its own estimates.\n"
        "\n"
        "format: fleetplan-profile/1\n"
        "profiles:\n"
        "  - model: llama-3.1-8b\n"
        "    quantization: fp16\n"
        "    gpu: h100\n"
        "    gpus_per_replica: 1\n"
        "    points:\n"
        "      - {input_tokens: 512, output_tokens: 128, concurrency: 8, tpot_ms: 7.5, "
        'source: "my run: 1.json", date: "2026-03-06"}\n'
    )


@given(
    engine=st.text(max_size=20).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)),
    tpot=st.floats(5, 2_000),
    concurrency=st.floats(0.01, 1e4),
)
def test_any_text_and_number_survives_the_file(engine: str, tpot: float, concurrency: float) -> None:
    made = profile([point(concurrency, 16, 1, tpot_ms=max(tpot, concurrency))]).model_copy(update={"engine": engine})
    assert profiles_from_text(profiles_text([made]), CATALOG) == (made,)


@for_each("engine", ["null", "True", "nan", "1e3", "0x1F", "a: b", "# c", "", "- d", "vllm"])
def test_words_that_yaml_would_take_for_something_else_survive_the_file(engine: str) -> None:
    made = profile([point(tpot_ms=7.5)]).model_copy(update={"engine": engine})
    assert profiles_from_text(profiles_text([made]), CATALOG) == (made,)


def test_a_file_is_read_with_aliases(tmp_path: Path) -> None:
    path = tmp_path / "profile.yaml"
    text = profiles_text([profile([point(8, tpot_ms=7.5)])])
    path.write_text(text.replace("gpu: h100", "gpu: H100-SXM").replace("fp16", "bf16"))
    (read,) = read_profiles(path, CATALOG)
    assert read == profile([point(8, tpot_ms=7.5)])


HEAD = "format: fleetplan-profile/1\nprofiles:\n  - model: llama-3.1-8b\n    quantization: fp16\n    gpu: h100\n"
POINT = "{input_tokens: 512, output_tokens: 128, concurrency: 1, tpot_ms: 6.5}"


@for_each(
    ("text", "line", "message"),
    [
        (HEAD + f"    gpus_per_replica: 1\n    points: [{POINT}]\n    point: 1\n", 8, "unknown key 'point'"),
        (HEAD + "    gpus_per_replica: 1\n", 3, "holds neither points nor max_rates"),
        (HEAD + "    gpus_per_replica: 0\n    points: []\n", 6, "must be more than 0"),
        (HEAD.replace("h100", "h10") + f"    gpus_per_replica: 1\n    points: [{POINT}]\n", 5, "Did you mean 'h100'?"),
        (HEAD + f"    gpus_per_replica: 1\n    points: [{POINT.replace('6.5', '2.1')}]\n", 7, "the file says 2.1 ms"),
        (
            HEAD + "    gpus_per_replica: 1\n    points: [{input_tokens: 512, output_tokens: 128, concurrency: 1}]\n",
            7,
            "a point must measure something",
        ),
        (
            HEAD.replace("llama-3.1-8b", "llama-3.1-70b") + f"    gpus_per_replica: 1\n    points: [{POINT}]\n",
            3,
            "hold less",
        ),
        (
            HEAD + f"    gpus_per_replica: 1\n    points: [{POINT}]\n"
            + HEAD.split("profiles:\n")[1].replace("h100", "H100-SXM")
            + f"    gpus_per_replica: 1\n    points: [{POINT}]\n",
            8,
            "there are two profiles of llama-3.1-8b fp16 on 1 x h100",
        ),
        ("format: fleetplan-profile/2\nprofiles: []\n", 1, "expected 'fleetplan-profile/1'"),
    ],
)  # fmt: skip
def test_mistakes_in_a_file_are_shown_at_their_line(text: str, line: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        profiles_from_text(text, CATALOG, "profile.yaml")
    assert any(c.line == line and message in str(c) for c in caught.value.diagnostics), str(caught.value)


def test_both_kinds_or_a_length_twice_are_refused() -> None:
    rate = MaxRate(input_tokens=1, output_tokens=1, requests_per_s=1)
    with pytest.raises(ValueError, match="holds both"):
        profile([point(tpot_ms=7.5)], [rate])
    with pytest.raises(ValueError, match="already given"):
        profile(max_rates=[rate, rate])


@for_each(
    ("name", "model", "stored"),
    [
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", "llama-3.1-8b", "fp8"),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "llama-3.3-70b", "fp8"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "llama-3.1-8b", "int8"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", "llama-3.1-70b", "int4-gptq"),
        ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4", "qwen2.5-72b", "int4-gptq"),
        ("/models/Qwen3-32B-AWQ", "qwen3-32b", "int4-awq"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b", None),
    ],
)
def test_checkpoints_say_how_they_are_stored(name: str, model: str, stored: str | None) -> None:
    assert checkpoint(name, CATALOG.models, CATALOG.quantizations) == (model, stored)


def test_a_checkpoint_names_the_quantization_of_its_run_unless_an_option_does() -> None:
    run = replace(RUN, model="RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", quantization=None)
    assert make_profiles([run], catalog=CATALOG)[0].quantization == "fp8"
    assert make_profiles([run], catalog=CATALOG, quantization="fp16")[0].quantization == "fp16"


def test_what_many_files_lack_is_asked_for_once() -> None:
    runs = [replace(RUN, file=f"run{k:02}.json", gpu=None) for k in range(25)]
    with pytest.raises(InputError) as raised:
        make_profiles(runs, catalog=CATALOG)
    assert str(raised.value).count("\n") == 0
    assert "run00.json: does not say the GPU (24 other files too). Give it with --gpu" in str(raised.value)
