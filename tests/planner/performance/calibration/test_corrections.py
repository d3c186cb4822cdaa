from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.entries import shipped_catalog
from planner.catalog.profile import MaxRate, MeasuredPoint, Profile
from planner.performance.calibration.correction import Correction, correction_of, predicted
from planner.performance.calibration.errors import errors_before_after
from planner.performance.calibration.lookup import basis_of, max_rate
from planner.performance.calibration.make_profiles import make_profiles
from planner.performance.calibration.read_results import read_results
from planner.performance.latency import Machine, decode_step_s
from tests.support.places import TESTS

FILES = TESTS / "results"
CATALOG = shipped_catalog()


def machine() -> Machine:
    c = CATALOG
    return Machine(c.models["llama-3.1-8b"], c.quantizations["fp16"], c.gpus["h100"], 1, c.efficiency_of("h100"))


def profile(points: Sequence[MeasuredPoint] = (), max_rates: Sequence[MaxRate] = ()) -> Profile:
    return Profile(
        model="llama-3.1-8b", quantization="fp16", gpu="h100", gpus_per_replica=1, points=tuple(points),
        max_rates=tuple(max_rates),
    )  # fmt: skip


def point(in_flight: float = 8, input_tokens: float = 512, output_tokens: float = 128, **rest: Any) -> MeasuredPoint:
    return MeasuredPoint(input_tokens=input_tokens, output_tokens=output_tokens, concurrency=in_flight, **rest)


# -- the correction ---------------------------------------------------------------------------------------


def truth(m: Machine, decode: float, prefill: float, batches: Sequence[float], **lengths: float) -> list[MeasuredPoint]:
    """Runs of a replica that is this much slower than predicted."""
    shape = {"input_tokens": 512.0, "output_tokens": 128.0, **lengths}
    slower = Correction(np.array([1.0]), np.array([decode]), prefill, prefill, "measured")
    runs = [(batch, predicted(m, slower, shape["input_tokens"], shape["output_tokens"], batch)) for batch in batches]
    return [point(b, **shape, tpot_ms=r.tpot_ms, ttft_ms=r.ttft_ms, requests_per_s=r.requests_per_s) for b, r in runs]


@given(
    decode=st.floats(0.95, 3),
    prefill=st.floats(0.9, 3),
    batches=st.lists(st.integers(2, 200), min_size=1, max_size=5, unique=True),
)
def test_the_correction_finds_a_known_slowness(decode: float, prefill: float, batches: list[int]) -> None:
    m = machine()
    found = correction_of(profile(truth(m, decode, prefill, [1, *batches])), m)
    assert found.prefill_ratio == pytest.approx(prefill)
    assert found.decode_ratio(np.array([1.0, *batches])) == pytest.approx(decode)
    assert found.prefill_basis == "measured"


def test_the_correction_passes_through_the_points() -> None:
    m = machine()
    (made,) = make_profiles(read_results([FILES / "vllm_new.jsonl"]), catalog=CATALOG)
    found = correction_of(made, m)
    for p in made.points:
        assert predicted(m, found, 512, 128, p.concurrency).tpot_ms == pytest.approx(p.tpot_ms, rel=1e-6)


def test_the_ratio_is_interpolated_in_logarithms_and_stays_at_the_ends() -> None:
    found = Correction(np.array([4.0, 64.0]), np.array([1.0, 4.0]), 1.0, 1.0, "measured")
    assert found.decode_ratio(np.array([1, 4, 16, 64, 512])) == pytest.approx([1, 1, 2, 4, 4])
    assert float(found.decode_ratio(16)) == pytest.approx(2)


def test_static_batches_give_the_step_itself() -> None:
    m = machine()
    step = float(decode_step_s(m, 8, 512 + 64)) * 1e3
    found = correction_of(profile([point(8, decode_step_ms=1.5 * step)]), m)
    assert found.decode_ratio(8.0) == pytest.approx(1.5)
    assert (found.prefill_ratio, found.prefill_basis) == (1.0, "predicted")


def test_a_rate_alone_gives_the_step_too() -> None:
    m = machine()
    rates = [p.model_copy(update={"tpot_ms": None}) for p in truth(m, 1.4, 1.0, [1, 16])]
    assert correction_of(profile(rates), m).decode_ratio(np.array([1, 16])) == pytest.approx(1.4, rel=1e-3)


def test_ttft_under_load_is_waiting_and_does_not_slow_the_prefill_down() -> None:
    m = machine()
    loaded = [p.model_copy(update={"ttft_ms": 5000.0}) for p in truth(m, 1.2, 1.0, [8, 32, 128])]
    found = correction_of(profile(loaded), m)
    assert found.prefill_basis == "fitted"
    assert found.prefill_ratio == pytest.approx(1.0, abs=0.1)
    assert found.ttft_ratio == pytest.approx(1.0, abs=0.1)


def test_requests_queued_in_the_engine_are_not_in_flight() -> None:
    m = machine()
    (run,) = truth(m, 1.3, 1.0, [32])
    queued = run.model_copy(update={"concurrency": 256.0, "ttft_ms": 20_000.0})
    found = correction_of(profile([queued]), m)
    assert found.in_flight == pytest.approx([32], rel=0.05)
    assert found.decode_ratio(32.0) == pytest.approx(1.3, rel=0.1)


def test_a_prefill_that_leaves_no_time_for_decoding_is_not_taken_whole() -> None:
    """TTFT holds work outside the replica (network, tokenizer), which does not delay the others."""
    m = machine()
    runs = truth(m, 1.1, 1.0, [1, 32, 64], output_tokens=16)
    runs[0] = runs[0].model_copy(update={"ttft_ms": 20 * (runs[0].ttft_ms or 0)})
    found = correction_of(profile(runs), m)
    assert found.prefill_basis == "fitted"
    assert found.prefill_ratio < 2
    assert found.ttft_ratio == pytest.approx(20)
    assert np.all(found.decode_ratio(np.array([32, 64])) > 0.5)


def test_a_table_corrects_nothing() -> None:
    found = correction_of(profile(max_rates=[MaxRate(input_tokens=1, output_tokens=1, requests_per_s=1)]), machine())
    assert found.prefill_ratio == 1
    assert found.decode_ratio(np.array([1, 50])) == pytest.approx(1)


# -- before and after -------------------------------------------------------------------------------------


def test_errors_before_and_after_with_each_run_left_out() -> None:
    m = machine()
    rows = {row.metric: row for row in errors_before_after(profile(truth(m, 1.5, 1.2, [1, 2, 8, 32])), m)}
    assert set(rows) == {"tpot_ms", "ttft_ms", "requests_per_s"}
    assert all(row.held_out for row in rows.values())
    assert rows["ttft_ms"].n == 1  # the others wait
    assert rows["ttft_ms"].before_mean_ape == pytest.approx(1 - 1 / 1.2)
    assert rows["tpot_ms"].before_mean_ape > 0.25
    assert rows["tpot_ms"].after_mean_ape < 1e-6
    assert rows["requests_per_s"].after_mean_ape < 1e-6


def test_the_error_after_is_not_that_of_a_fit_to_itself() -> None:
    """One run far off the others: a correction passes through it, the others do not foresee it."""
    m = machine()
    runs = truth(m, 1.2, 1.0, [1, 4, 64])
    (odd,) = truth(m, 2.4, 1.0, [16])
    rows = {row.metric: row for row in errors_before_after(profile([*runs, odd]), m)}
    assert rows["tpot_ms"].after_mean_ape > 0.1


def test_repetitions_of_a_run_are_left_out_with_it() -> None:
    m = machine()
    runs = truth(m, 1.2, 1.0, [1, 4, 64])
    odd = truth(m, 2.4, 1.0, [16])
    rows = {row.metric: row for row in errors_before_after(profile([*runs, *odd, *odd]), m)}
    assert rows["tpot_ms"].after_mean_ape > 0.15


def test_two_runs_are_too_few_to_leave_one_out() -> None:
    m = machine()
    rows = errors_before_after(profile(truth(m, 1.5, 1.2, [1, 8])), m)
    assert not any(row.held_out for row in rows)


# -- lengths ----------------------------------------------------------------------------------------------

SQUARE = [(256.0, 128.0), (1024.0, 128.0), (256.0, 512.0), (1024.0, 512.0)]


@pytest.mark.parametrize(
    ("lengths", "asked", "basis"),
    [
        (SQUARE, (256, 128), "measured"),
        (SQUARE, (280, 140), "measured"),
        (SQUARE, (285, 140), "interpolated"),
        (SQUARE, (500, 250), "interpolated"),
        (SQUARE, (1200, 250), "scaled"),
        (SQUARE, (500, 60), "scaled"),
        (SQUARE[:3], (500, 200), "interpolated"),
        (SQUARE[:3], (800, 400), "scaled"),
        (SQUARE[:2], (512, 128), "interpolated"),
        (SQUARE[:2], (512, 160), "scaled"),
        (SQUARE[:1], (512, 128), "scaled"),
    ],
)
def test_the_basis_of_a_length(lengths: list[tuple[float, float]], asked: tuple[float, float], basis: str) -> None:
    runs = profile([point(8, a, b, tpot_ms=9) for a, b in lengths])
    table = profile(max_rates=[MaxRate(input_tokens=a, output_tokens=b, requests_per_s=1) for a, b in lengths])
    assert basis_of(runs, *asked) == basis
    assert basis_of(table, *asked) == basis


RATES = dict(zip(SQUARE, (4.0, 2.0, 1.5, 0.8), strict=True))
TABLE = profile(max_rates=[MaxRate(input_tokens=a, output_tokens=b, requests_per_s=r) for (a, b), r in RATES.items()])


def test_a_table_is_exact_where_it_was_measured() -> None:
    for lengths, rate in RATES.items():
        assert max_rate(TABLE, *lengths) == pytest.approx(rate)


def test_between_entries_seconds_are_interpolated_in_the_logarithms_of_lengths() -> None:
    assert max_rate(TABLE, 512, 128) == pytest.approx(1 / (0.5 / 4 + 0.5 / 2))
    assert max_rate(TABLE, 512, 256) == pytest.approx(4 / (1 / 4 + 1 / 2 + 1 / 1.5 + 1 / 0.8))


def test_beyond_the_table_only_shorter_requests_have_a_rate() -> None:
    assert max_rate(TABLE, 10, 10) == pytest.approx(4)
    assert max_rate(TABLE, 10, 512) == pytest.approx(1.5)
    assert max_rate(TABLE, 1025, 128) is None
    assert max_rate(TABLE, 256, 513) is None
    assert max_rate(profile([point(tpot_ms=9)]), 256, 128) is None


def test_a_missing_corner_counts_as_the_next_longer_entry() -> None:
    holey = profile(max_rates=[r for r in TABLE.max_rates if (r.input_tokens, r.output_tokens) != (256, 128)])
    assert max_rate(holey, 400, 200) == pytest.approx(0.8)
    assert max_rate(holey, 200, 300) == pytest.approx(1.5)  # two entries are longer; the faster one holds, too
    assert max_rate(holey, 1024, 200) is not None
    corner = profile(max_rates=[r for r in TABLE.max_rates if (r.input_tokens, r.output_tokens) != (1024, 512)])
    assert max_rate(corner, 1000, 500) is None


@given(a=st.floats(1, 1024), b=st.floats(1, 512), longer=st.floats(1, 4))
def test_longer_requests_are_never_faster(a: float, b: float, longer: float) -> None:
    here, there = max_rate(TABLE, a, b), max_rate(TABLE, min(a * longer, 1024), b)
    assert here is not None
    assert there is not None
    assert 0.8 - 1e-9 <= there <= here * (1 + 1e-9) <= 4 + 1e-6
