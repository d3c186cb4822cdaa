from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planner.catalog.entries import shipped_catalog
from planner.catalog.profile import MaxRate, MeasuredPoint, Profile
from planner.performance.calibration.correction import Correction, in_flight_of, predicted
from planner.performance.calibration.fitting import Runs, assessed, correction_of, starts_together
from planner.performance.calibration.lookup import basis_of, max_rate
from planner.performance.latency import decode_step_s, prefill_s
from planner.performance.machine import Machine
from tests.support.places import TESTS
from tests.support.rows import for_each

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


def fitted(points: Sequence[MeasuredPoint], m: Machine) -> Correction:
    return Runs.of(points, m).correction(np.ones(len(points), dtype=bool))


# -- the correction ---------------------------------------------------------------------------------------


def truth(m: Machine, slower: Correction, batches: Sequence[float], **lengths: float) -> list[MeasuredPoint]:
    """Runs of a replica that is this much slower than predicted, over lengths that vary."""
    shape = {"input_tokens": 512.5, "output_tokens": 128.5, **lengths}
    runs = [(batch, predicted(m, slower, shape["input_tokens"], shape["output_tokens"], batch)) for batch in batches]
    return [point(b, **shape, tpot_ms=r.tpot_ms, ttft_ms=r.ttft_ms, requests_per_s=r.requests_per_s) for b, r in runs]


def ratios(decode: float, prefill: float = 1.0, added_s: float = 0.0) -> Correction:
    return Correction(
        decode_level=decode, most_in_flight=512, prefill_ratio=prefill, ttft_ratio=prefill, ttft_added_s=added_s
    )


@given(
    decode=st.floats(0.9, 3),
    prefill=st.floats(0.9, 2.5),
    batches=st.lists(st.integers(2, 200), min_size=3, max_size=6, unique=True),
)
@example(decode=0.9375, prefill=1.0, batches=[99, 128, 135])
def test_the_correction_finds_a_known_slowness(decode: float, prefill: float, batches: list[int]) -> None:
    """What it makes of rates and TTFT; how far each is steps or prefill, runs of one length hardly tell.

    A few percent may be left as they are, where the runs that are held out get a TPOT that is no better.
    """
    m, slower = machine(), ratios(decode, prefill)
    found = correction_of(profile(truth(m, slower, [1, *batches])), m)
    for batch in (1, *batches):
        true, now = (predicted(m, c, 512.5, 128.5, batch) for c in (slower, found))
        assert now.requests_per_s == pytest.approx(true.requests_per_s, rel=0.04 if found.corrects_rates else 0.12)
        assert now.ttft_ms == pytest.approx(true.ttft_ms, rel=0.04)


def test_one_smooth_ratio_for_runs_that_zigzag() -> None:
    m = machine()
    slow = {8: 1.1, 54: 2.0, 64: 1.1, 128: 1.2}
    runs = [run for batch, ratio in slow.items() for run in truth(m, ratios(ratio), [batch])]
    found = fitted(runs, m).decode_ratio(np.array([8, 54, 59, 64, 128]))
    assert (np.diff(np.sign(np.diff(found))) == 0).all(), "rises or falls all along"
    assert ((found > 1.0) & (found < 1.5)).all()


def test_a_step_of_other_batches_than_measured_has_the_ratio_of_the_nearest() -> None:
    found = Correction(decode_level=2.0, decode_power=0.5, least_in_flight=4, most_in_flight=64)
    assert found.decode_ratio(np.array([1, 4, 16, 64, 512])) == pytest.approx([1, 1, 2, 4, 4])


def test_static_batches_give_the_step_itself() -> None:
    m = machine()
    runs = [point(b, decode_step_ms=1.5e3 * float(decode_step_s(m, b, 512 + 64))) for b in (4, 8, 16)]
    found = correction_of(profile(runs), m)
    assert found.decode_ratio(8.0) == pytest.approx(1.5, rel=0.02)
    assert found.prefill_ratio == pytest.approx(1.0)


def test_latencies_give_the_rate_of_a_closed_loop_that_names_none() -> None:
    m = machine()
    runs = truth(m, ratios(1.4), [1, 8, 32])
    silent = [p.model_copy(update={"requests_per_s": None, "ttft_ms": _closed(p)}) for p in runs]
    named, found = (fitted(some, m) for some in (runs, silent))
    assert found.decode_ratio(16.0) == pytest.approx(float(named.decode_ratio(16.0)), rel=0.03)


def _closed(p: MeasuredPoint) -> float:
    """TTFT with which latencies and rate agree."""
    return p.concurrency / (p.requests_per_s or 1) * 1e3 - (p.output_tokens - 1) * (p.tpot_ms or 0)


def test_ttft_is_a_constant_and_a_part_that_grows_with_the_prompt() -> None:
    """50 ms of network and tokenizer delay every first token and slow no other request down."""
    m, remote = machine(), ratios(1.0, 1.0, added_s=0.05)
    runs = [
        run for tokens in (256.5, 1024.5, 8192.5) for run in truth(m, remote, [1, 16, 64], input_tokens=tokens)
    ]  # fmt: skip
    found = correction_of(profile(runs), m)
    assert found.prefill_ratio == pytest.approx(1.0, abs=0.05)
    for tokens in (300.0, 3000.0):
        alone = float(prefill_s(m, tokens))
        assert found.lone_ttft_s(alone) == pytest.approx(alone + 0.05, rel=0.06)


def test_ttft_of_two_requests_is_waiting_already() -> None:
    m = machine()
    runs = [p.model_copy(update={"ttft_ms": 2 * (p.ttft_ms or 0)}) for p in truth(m, ratios(1.0), [2, 8, 32])]
    found = correction_of(profile(runs), m)
    assert (found.ttft_ratio, found.ttft_added_s) == (1.0, 0.0)


def test_requests_queued_in_the_engine_are_not_in_flight() -> None:
    m = machine()
    (run,) = truth(m, ratios(1.3), [32])
    queued = run.model_copy(update={"concurrency": 256.0, "ttft_ms": 20_000.0})
    assert in_flight_of(queued, m) == pytest.approx(32, rel=0.05)
    assert fitted([queued], m).decode_ratio(32.0) == pytest.approx(1.3, rel=0.1)


def test_answers_of_one_length_are_seen_by_their_mean_unless_the_file_says_otherwise() -> None:
    run = {"tpot_ms": 9.0, "requests_per_s": 7.0}
    assert starts_together(point(8, 1023.98, 128.0, **run))
    assert starts_together(point(8, 1024.0, 128.016, **run))
    assert not starts_together(point(8, 1024.0, 128.4, **run))
    assert not starts_together(point(8, 1024.0, 128.0, lengths_vary=True, **run))
    assert not starts_together(point(1, 1024.0, 128.0, **run))
    assert not starts_together(point(8, 1024.0, 128.0, offered_per_s=7.0, **run))


@pytest.mark.parametrize(("decode", "counts"), [(0.8, False), (1.3, True)])
def test_requests_that_start_together_can_show_slowness_and_no_speed(decode: float, counts: bool) -> None:
    m, batches = machine(), [1, 4, 16, 64, 128]
    same = truth(m, ratios(decode), batches, input_tokens=512.0, output_tokens=128.0)
    varied = truth(m, ratios(decode), batches)
    together, apart = (assessed(runs, m) for runs in (same, varied))
    assert float(apart.correction.decode_ratio(16)) == pytest.approx(decode, rel=0.05)
    expected = decode if counts else 1.0
    assert float(together.correction.decode_ratio(16)) == pytest.approx(expected, rel=0.05)
    assert (together.flattered, apart.flattered) == (not counts, False)


def test_a_rate_that_was_offered_is_not_what_a_replica_can_do() -> None:
    m = machine()
    calm = [p.model_copy(update={"offered_per_s": p.requests_per_s}) for p in truth(m, ratios(1.0), [2, 4, 8])]
    half = [p.model_copy(update={"requests_per_s": 0.5 * (p.requests_per_s or 0)}) for p in calm]
    assert fitted(half, m).decode_ratio(4.0) == pytest.approx(1.0, abs=0.05)


def test_a_table_corrects_nothing() -> None:
    found = correction_of(profile(max_rates=[MaxRate(input_tokens=1, output_tokens=1, requests_per_s=1)]), machine())
    assert found.prefill_ratio == 1
    assert found.decode_ratio(np.array([1, 50])) == pytest.approx(1)


# -- what is used -----------------------------------------------------------------------------------------


def test_errors_before_and_after_with_each_run_left_out() -> None:
    m = machine()
    result = assessed(truth(m, ratios(1.5, 1.2), [1, 2, 8, 32]), m)
    rows = {row.metric: row for row in result.errors}
    assert set(rows) == {"tpot_ms", "ttft_ms", "requests_per_s"}
    assert rows["requests_per_s"].held_out and rows["tpot_ms"].held_out
    assert rows["ttft_ms"].n == 1, "the others wait"
    assert not rows["ttft_ms"].held_out, "nothing else measures it"
    assert rows["tpot_ms"].before_mean_ape > 0.25 > 0.1 > rows["tpot_ms"].after_mean_ape
    assert rows["requests_per_s"].after_mean_ape < 0.05
    assert result.uses_rates and result.uses_ttft


def test_the_error_after_is_not_that_of_a_fit_to_itself() -> None:
    """One run far off the others: the others do not foresee it, however often it is repeated."""
    m = machine()
    runs, odd = truth(m, ratios(1.2), [1, 4, 64]), truth(m, ratios(2.4), [16])
    for repeated in (odd, [*odd, *odd]):
        rows = {row.metric: row for row in assessed([*runs, *repeated], m).errors}
        assert rows["tpot_ms"].after_mean_ape > 0.1


def test_what_loses_on_runs_that_were_held_out_is_not_used() -> None:
    """Runs of several deployments under one name: each is as far from the others as from the prediction."""
    m = machine()
    slow = {1: 1.0, 2: 2.2, 8: 0.95, 64: 1.0}
    runs = [run for batch, ratio in slow.items() for run in truth(m, ratios(ratio), [batch])]
    result = assessed(runs, m)
    assert any(row.loses for row in result.errors)
    assert not result.uses_rates
    assert not result.correction.corrects_rates
    assert result.correction.decode_ratio(np.array([1, 8, 64])) == pytest.approx(1)


def test_two_runs_that_contradict_each_other_are_not_used() -> None:
    m = machine()
    result = assessed([*truth(m, ratios(1.0), [16]), *truth(m, ratios(4.0), [16])], m)
    assert not any(row.held_out for row in result.errors)
    assert not result.uses_rates


def test_two_runs_are_too_few_to_leave_one_out() -> None:
    m = machine()
    assert not any(row.held_out for row in assessed(truth(m, ratios(1.5, 1.2), [1, 8]), m).errors)


# -- lengths ----------------------------------------------------------------------------------------------

SQUARE = [(256.0, 128.0), (1024.0, 128.0), (256.0, 512.0), (1024.0, 512.0)]


@for_each(
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
