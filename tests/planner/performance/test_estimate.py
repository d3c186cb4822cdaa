"""Estimates of one deployment, many at once, and their picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from planner.catalog.variant import PARALLELISMS
from planner.io.errors import InputError
from planner.performance.estimate import estimate, predict_points
from planner.reports.performance import estimate_document, estimate_svg, points_document
from planner.reports.text import as_text
from tests.support.command_line import Command
from tests.support.rows import for_each

BASE = {"model": "llama-3.1-8b", "gpu": "h100", "input_tokens": 1000, "output_tokens": 200}


def test_memory_adds_up() -> None:
    e = estimate(**BASE, quantization="fp16")
    assert e.weights_gb == pytest.approx(16.1, abs=0.1)
    assert e.kv_gb_per_request == pytest.approx(1200 * 131_072 / 1e9)
    assert e.largest_batch * 1000 * 131_072 / 1e9 < e.kv_room_gb


def test_the_sweep_rises_and_flattens() -> None:
    sweep = estimate(**BASE).sweep
    rates = [p.output_tok_s for p in sweep]
    assert rates == sorted(rates)
    assert [p.tpot_ms for p in sweep] == sorted(p.tpot_ms for p in sweep)
    assert rates[-1] / rates[-2] < sweep[-1].concurrency / sweep[-2].concurrency


def test_a_tighter_objective_carries_less() -> None:
    loose, tight = (estimate(**BASE, tpot=(s, 0.95)).slo for s in (0.05, 0.02))
    assert loose is not None
    assert tight is not None
    assert tight.requests_per_s < loose.requests_per_s
    assert (loose.bound_by, tight.bound_by) == ("TPOT", "TPOT")
    assert tight.tpot_ms <= 20


def test_ttft_with_bursts_limits_a_replica_by_itself() -> None:
    calm, bursty = (estimate(**BASE, ttft=(0.4, 0.95), tpot=(0.05, 0.95), arrival_scv=c).slo for c in (1.0, 6.0))
    assert calm is not None
    assert bursty is not None
    assert bursty.requests_per_s < calm.requests_per_s
    assert bursty.bound_by == "TTFT"
    assert bursty.ttft_ms == pytest.approx(400, rel=0.01)


def test_nothing_is_carried_where_one_request_is_too_slow() -> None:
    slo = estimate("llama-3.1-8b", "l4", 1000, 200, tpot=(0.01, 0.95)).slo
    assert slo is not None
    assert slo.requests_per_s == 0
    assert "nothing" in as_text(estimate_document(estimate("llama-3.1-8b", "l4", 1000, 200, tpot=(0.01, 0.95))))


MIXTURE = {"model": "mixtral-8x7b", "gpus_per_replica": 2}


@for_each(
    ("changes", "words"),
    [
        ({"model": "lama-3.1-8b"}, "did you mean 'llama-3.1-8b'"),
        ({"gpu": "h1000"}, "there is no gpu"),
        ({"gpu": "a100-80gb", "quantization": "fp8"}, "no native fp8"),
        ({"model": "llama-3.1-70b"}, "do not fit"),
        ({"gpus_per_replica": 3}, "do not split over 3 GPUs. Use 1, 2, 4, 8 or 16"),
        ({"parallelism": "expert", "gpus_per_replica": 2}, "is not a mixture of experts. Leave it out"),
        (MIXTURE | {"gpus_per_replica": 1, "parallelism": "expert"}, "one GPU has nothing to share"),
        (
            MIXTURE | {"gpus_per_replica": 16, "parallelism": "data"},
            "8 experts do not split over 16 GPUs. Use 2, 4 or 8",
        ),
        (MIXTURE | {"gpu": "l4", "parallelism": "data"}, "copies of attention. Use more GPUs"),
    ],
)
def test_what_cannot_be_is_refused_in_words(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as error:
        estimate(**(BASE | changes))  # type: ignore[arg-type]
    assert words.lower() in str(error.value).lower()


def test_the_picture_is_svg_with_every_point_and_its_label() -> None:
    e = estimate(**BASE)
    root = ElementTree.fromstring(estimate_svg(e, 50.0))
    circles = [n for n in root.iter() if n.tag.endswith("circle")]
    assert len(circles) == len(e.sweep)
    assert "objective 50 ms" in "".join(root.itertext())
    assert estimate_svg(e) == estimate_svg(e)


def test_many_at_once_equal_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("model,gpu,quantization,input,output,concurrency\nllama-3.1-8b,h100,fp8,1000,200,32\n")
    (row,) = predict_points(path)
    one = estimate(**BASE, quantization="fp8", concurrency=32).at
    assert one is not None
    assert row["tpot_ms"] == one.tpot_ms
    path.write_text("model,gpu,input,output,concurrency\nllama-3.1-8b,h100,1000,200,32\nnope,h100,1,1,1\nx\n")
    with pytest.raises(InputError) as error:
        predict_points(path)
    assert ":3: model: there is no model 'nope'" in str(error.value)
    assert ":4:" in str(error.value)
    path.write_text(
        "model,gpu,gpus_per_replica,parallelism,input,output,concurrency\nmixtral-8x7b,h100,0,data,1,1,1\nx,x,two,,1,1,1\n"
    )
    with pytest.raises(InputError, match=":2: gpus-per-replica: a replica cannot have 0 GPUs") as error:
        predict_points(path)
    assert ":3: gpus_per_replica must be a whole number, got 'two'" in str(error.value)


def test_ways_to_share_experts_differ_and_are_named(tmp_path: Path) -> None:
    shape = {"model": "qwen3-30b-a3b", "gpu": "h100", "input_tokens": 1000, "output_tokens": 200, "gpus_per_replica": 4}
    ways = {way: estimate(**shape, parallelism=way, concurrency=32) for way in PARALLELISMS}  # type: ignore[arg-type]
    assert len({e.at.tpot_ms for e in ways.values() if e.at}) == 3
    assert ways["tensor"].weights_gb == ways["expert"].weights_gb < ways["data"].weights_gb
    assert as_text(estimate_document(ways["expert"])).startswith(
        "qwen3-30b-a3b fp16 on 4 x h100, expert parallel, vllm"
    )
    assert "no public measurement" in as_text(estimate_document(ways["data"]))
    assert ways["data"].as_json()["parallelism"] == "data"
    path = tmp_path / "points.csv"
    rows = "".join(f"qwen3-30b-a3b,h100,4,{way},1000,200,32\n" for way in ("", *PARALLELISMS))
    path.write_text("model,gpu,gpus_per_replica,parallelism,input,output,concurrency\n" + rows)
    each = predict_points(path)
    assert [row["parallelism"] for row in each] == ["tensor", *PARALLELISMS]
    assert [row["tpot_ms"] for row in each[1:]] == [e.at.tpot_ms for e in ways.values() if e.at]
    assert "4 x h100, data parallel" in as_text(points_document(path))
    path.write_text("model,gpu,gpus_per_replica,parallelism,input,output,concurrency\nqwen3-30b-a3b,h100,4,ep,1,1,1\n")
    with pytest.raises(InputError, match=r"points\.csv:2: parallelism: there is no parallelism 'ep'. Use tensor"):
        predict_points(path)


def test_what_the_engine_does_not_run_is_said() -> None:
    shape = {"model": "mixtral-8x7b", "gpu": "h100", "input_tokens": 1000, "output_tokens": 200, "gpus_per_replica": 2}
    e = estimate(**shape, parallelism="expert", engine="tgi")  # type: ignore[arg-type]
    assert e.support == "fails"
    assert "plans refuse it: TGI shards every layer" in as_text(estimate_document(e))
    assert "plans refuse" not in as_text(estimate_document(estimate(**shape, engine="tgi")))  # type: ignore[arg-type]


def test_an_end_to_end_objective_binds() -> None:
    free, bound = (estimate(**BASE, tpot=(0.05, 0.95), e2e=e).slo for e in (None, (4.0, 0.95)))
    assert free is not None
    assert bound is not None
    assert (free.bound_by, bound.bound_by) == ("TPOT", "E2E")
    assert bound.requests_per_s < free.requests_per_s
    assert bound.in_flight < free.in_flight
    assert 199 * bound.tpot_ms <= 4000


@pytest.mark.parametrize("of", ["input", "output"])
def test_percentiles_of_lengths_that_cannot_be_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], of: str
) -> None:
    fleetplan = Command(monkeypatch, capsys)
    shape = ("--model", "llama-3.1-8b", "--gpu", "h100", "--input", "1000", "--output", "1000", "--rate", "1")
    for given, said in (
        ((f"--{of}-p50", "900"), f"Give --{of}-p95 as well"),
        ((f"--{of}-p95", "900"), f"must be above the mean (--{of})"),
        ((f"--{of}-p50", "5000", f"--{of}-p95", "9000"), "is below any mean that fits"),
    ):
        answer = fleetplan("estimate", *shape, *given)
        assert answer.code == 2
        assert said in answer.err
