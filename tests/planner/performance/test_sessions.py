"""What memories find of sessions: the model of plans against caches that are replayed block by block."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

from planner.performance.length_spread import LengthSpread
from planner.performance.sessions import (
    Ages,
    Cut,
    Sample,
    SessionKind,
    Sessions,
    WaitPoint,
    Waits,
    Window,
    ages_from,
    ages_of,
    context_tokens,
    sample_of,
)
from tests.support.rows import for_each

BLOCK = 100


def sessions(cut: Cut | None = None, window: Window | None = None, fresh_frac: float = 0.0) -> Sessions:
    seconds = ((0.02, 1.0), (0.3, 5.0), (0.7, 20.0), (0.9, 120.0), (1.0, 1500.0))
    kind = SessionKind(
        share_frac=1.0,
        turns=LengthSpread(p50=12, p95=40),
        first_prompt=LengthSpread(p50=5000, p95=9000),
        appended=LengthSpread(p50=700, p95=2500),
        answer=LengthSpread(p50=150, p95=500),
        waits=(Waits(share_frac=1.0, points=tuple(WaitPoint(below_frac=q, seconds=s) for q, s in seconds)),),
        fresh_frac=fresh_frac,
        cut=cut,
    )
    return Sessions(kinds=(kind,), window=window)


def replayed(some: Sample, tokens: float, replicas: int, sticky: bool, seed: int) -> tuple[float, float]:
    """Share of prompt blocks found, and prompt tokens a second: sessions begin at random times; LRU on each replica."""
    rng = np.random.default_rng(seed)
    period_s, turns = 6000.0, []
    number = 0
    for _ in range(2):
        begin = np.flatnonzero(np.r_[True, some.session[1:] != some.session[:-1]])
        end = np.r_[begin[1:], len(some.session)]
        for first, last in zip(begin.tolist(), end.tolist(), strict=True):
            home, since, segment = int(rng.integers(replicas)), float(rng.uniform(0, period_s)) + number * 0.0, 0
            since += period_s * (len(turns) > 0 and _ == 1)
            for k in range(first, last):
                since += float(some.wait_s[k]) if k > first else 0.0
                segment += k > first and some.kept[k] == 0
                place = home if sticky else int(rng.integers(replicas))
                turns.append((since, place, (number, segment), some.prompt[k], some.prompt[k] + some.answer[k]))
            number += 1
    turns.sort(key=lambda t: t[0])
    caches = [OrderedDict[tuple[object, int], None]() for _ in range(replicas)]
    most, hits, asked, read = int(tokens / BLOCK / replicas), 0, 0, 0.0
    for when, place, name, prompt, whole in turns:
        cache, m = caches[place], 0
        while m < int(prompt // BLOCK) and (name, m) in cache:
            m += 1
        if period_s <= when < 2 * period_s:
            hits, asked, read = hits + m, asked + int(prompt // BLOCK), read + prompt
        for block in range(int(whole // BLOCK) - 1, -1, -1):
            cache[name, block] = None
            cache.move_to_end((name, block))
        while len(cache) > most:
            cache.popitem(last=False)
    return hits / asked, read / period_s


@for_each(
    ("replicas", "sticky", "millions"),
    [(1, True, 0.3), (1, True, 1.0), (4, True, 1.0), (4, True, 4.0), (4, False, 0.3), (4, False, 1.0), (4, False, 4.0)],
)
def test_the_model_finds_what_caches_find(replicas: int, sticky: bool, millions: float) -> None:
    known = sessions()
    found, tokens_per_s = replayed(sample_of(known), 1e6 * millions, replicas, sticky, seed=3)
    ages = ages_of(known, 1 if sticky else replicas)
    residence_s = ages.residence_s(1e6 * millions, tokens_per_s)
    predicted = ages.found_in(residence_s, 1e6 * millions / replicas / context_tokens(known))
    assert predicted == pytest.approx(found, abs=0.03)


def test_what_is_kept_is_the_integral_of_what_is_not_found() -> None:
    ages = ages_of(sessions(), 4)
    grid = np.linspace(0, 400, 40_001)
    missed = np.array([1 + ages.written - ages.found_frac(t) for t in grid.tolist()])
    assert ages.kept_s(400.0) == pytest.approx(float(np.trapezoid(missed, grid)), rel=1e-3)


@pytest.mark.parametrize("replicas", [1, 2, 16])
def test_residence_is_the_time_after_which_a_memory_is_full(replicas: int) -> None:
    ages = ages_of(sessions(), replicas)
    for tokens in (1e3, 1e5, 1e7):
        assert 50.0 * ages.kept_s(ages.residence_s(tokens, 50.0)) == pytest.approx(tokens, rel=1e-9)


def test_more_memory_and_fewer_replicas_find_no_less() -> None:
    by_replicas = [ages_of(sessions(), n) for n in (1, 2, 4, 8)]
    times = (1.0, 10.0, 100.0, 1000.0, 1e5)
    for ages in by_replicas:
        assert sorted(ages.found_frac(t) for t in times) == [ages.found_frac(t) for t in times]
    for t in times:
        assert sorted((a.found_frac(t) for a in by_replicas), reverse=True) == [a.found_frac(t) for a in by_replicas]


def test_a_turn_of_known_age_by_hand() -> None:
    """Two tokens of three came before, one of them 5 s ago and one 20 s ago."""
    ages = ages_from(np.array([20.0, 5.0]), np.array([1.0, 1.0]), 3.0)
    assert [ages.found_frac(t) for t in (4.9, 5.0, 20.0)] == pytest.approx([0.0, 1 / 3, 2 / 3])
    assert ages.kept_s(5.0) == pytest.approx(5.0)
    assert ages.kept_s(20.0) == pytest.approx(5.0 + 15.0 * 2 / 3)
    assert ages.residence_s(30.0, 2.0) == pytest.approx(20.0)


def test_sessions_are_compacted_before_they_exceed_the_context() -> None:
    some = sample_of(sessions(Cut(tokens=12_000, then="compact", left_tokens=4000.0)))
    assert float((some.prompt + some.answer).max()) <= 12_000 + 1e-6
    assert len(some.prompt) == len(sample_of(sessions()).prompt)
    ended = sample_of(sessions(Cut(tokens=12_000, then="end", left_tokens=4000.0)))
    assert len(ended.prompt) < len(some.prompt)
    assert ages_of(sessions(Cut(tokens=12_000, then="compact", left_tokens=4000.0)), 1).found_frac(np.inf) < ages_of(
        sessions(), 1
    ).found_frac(np.inf)


def test_a_window_leaves_the_head_alone_where_it_is() -> None:
    some = sample_of(sessions(window=Window(tokens=12_000, head_tokens=3000.0)))
    beyond = some.prompt + some.answer >= 12_000 - 1e-6
    assert beyond.any()
    assert float(some.kept[beyond].max()) <= 3000.0


def test_rewritten_histories_are_not_found() -> None:
    plain, rewritten = (ages_of(sessions(fresh_frac=f), 1).found_frac(np.inf) for f in (0.0, 0.25))
    assert rewritten == pytest.approx(0.75 * plain, rel=0.05)


def test_the_same_sessions_give_the_same_figures() -> None:
    sample_of.cache_clear()
    first: Ages = ages_of(sessions(), 2)
    ages_of.cache_clear()
    sample_of.cache_clear()
    again = ages_of(sessions(), 2)
    assert np.array_equal(first.below, again.below)


def test_long_sessions_may_append_less_in_a_turn_and_pause_alike() -> None:
    kind = SessionKind(
        share_frac=1.0,
        turns=LengthSpread(p50=30, p95=150),
        first_prompt=LengthSpread(p50=5000, p95=9000),
        appended=LengthSpread(p50=600, p95=4000),
        answer=LengthSpread(p50=1e-3, p95=1e-3),
        waits=(
            Waits(share_frac=1.0, points=(WaitPoint(below_frac=0.01, seconds=1), WaitPoint(below_frac=1, seconds=900))),
        ),
    )
    plain, slow, alike = (
        sample_of(Sessions(kinds=(k,)))
        for k in (kind, kind.model_copy(update={"slows": 1.0}), kind.model_copy(update={"alike": 0.5}))
    )
    new = [float((some.prompt - some.kept).sum() / len(some.prompt)) for some in (plain, slow)]
    assert new[1] == pytest.approx(new[0], rel=0.08)  # what is new of a turn stays as it was on average
    assert slow.prompt.max() < 0.5 * plain.prompt.max()  # and no session grows as long
    for some, low, high in ((plain, -0.03, 0.03), (alike, 0.4, 0.6)):
        later = np.flatnonzero((some.session[1:] == some.session[:-1]) & np.isfinite(some.wait_s[:-1]))
        score = np.log(np.where(np.isfinite(some.wait_s), some.wait_s, 1.0))
        assert low < np.corrcoef(score[later], score[later + 1])[0, 1] < high
    waits = [np.sort(some.wait_s[np.isfinite(some.wait_s)]) for some in (plain, alike)]
    assert np.percentile(waits[1], [10, 50, 90]) == pytest.approx(np.percentile(waits[0], [10, 50, 90]), rel=0.05)
    blind = [ages_of(Sessions(kinds=(k,)), 4).found_frac(60.0) for k in (kind, kind.model_copy(update={"alike": 0.5}))]
    assert blind[1] > blind[0]  # short waits that come in runs add up to less
