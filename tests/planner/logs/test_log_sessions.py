"""Sessions of logs: what goes on from what, and figures from which as much is found again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import planner
from planner.case.demand.from_sessions import session_lines
from planner.logs.reading.session_files import read_session_file
from planner.logs.sessions import SessionRows, are_sessions, fitted, rows_of_blocks, rows_of_turns
from planner.performance.length_spread import LengthSpread
from planner.performance.sessions import SessionKind, Sessions, WaitPoint, Waits, ages_of, sample_of

HEAD = "session,seq,agent,t_s,input_tokens,output_tokens,shared_blocks,shared_with,gap_s\n"


def drawn() -> SessionRows:
    points = tuple(WaitPoint(below_frac=q, seconds=s) for q, s in ((0.1, 2.0), (0.6, 10.0), (0.95, 90.0), (1.0, 900.0)))
    kind = SessionKind(
        share_frac=1.0,
        turns=LengthSpread(p50=10, p95=35),
        first_prompt=LengthSpread(p50=4000, p95=9000),
        appended=LengthSpread(p50=500, p95=2500),
        answer=LengthSpread(p50=200, p95=700),
        waits=(Waits(share_frac=1.0, points=points),),
    )
    some = sample_of(Sessions(kinds=(kind,)))
    prompts = np.maximum(0.0, some.kept - np.r_[0.0, some.answer[:-1]])
    return SessionRows(
        some.session, some.wait_s, some.prompt, some.answer, np.where(np.isfinite(some.wait_s), prompts, 0)
    )


def test_figures_of_a_log_find_what_the_log_finds() -> None:
    rows = drawn()
    sessions = fitted(rows)
    later = np.isfinite(rows.wait_s)
    again = rows.kept + np.r_[0.0, rows.answer[:-1]]
    ages = ages_of(sessions, 1)
    some = sample_of(sessions)
    assert float(some.weight @ some.prompt / some.weight.sum()) == pytest.approx(float(rows.prompt.mean()), rel=0.05)
    for seconds in (5.0, 30.0, 200.0, 1e6):
        found = float(again[later & (rows.wait_s <= seconds)].sum() / rows.prompt.sum())
        assert ages.found_frac(seconds) == pytest.approx(found, abs=0.03)


def test_what_a_file_says_of_paces_and_growth_is_what_was_fitted() -> None:
    rows = drawn()
    runs = np.concatenate([np.full(n, k % 2) for k, n in enumerate(np.bincount(rows.thread))])  # slow and fast sessions
    waits = np.where(runs == 1, 0.2, 5.0) * rows.wait_s
    sessions = fitted(replace(rows, wait_s=waits), by_length=1, by_pace=1)
    (kind,) = sessions.kinds
    assert kind.alike is not None and 0.2 < kind.alike < 0.9
    assert fitted(rows, by_length=1, by_pace=1).kinds[0].alike is None
    slower = sessions.model_copy(update={"kinds": (kind.model_copy(update={"slows": 0.4}),)})
    text = "\n".join(["workloads:", "  - name: w", "    models: [llama-3.1-8b]", "    forecast: {sessions_per_day: 1k}",
                      *session_lines(rows, slower), "baseline: openai/gpt-4o", ""])  # fmt: skip
    again = planner.case_from_text(text).workloads[0].sessions
    assert again is not None
    assert (again.kinds[0].slows, again.kinds[0].alike) == (0.4, pytest.approx(kind.alike, rel=0.01))


def test_turns_of_a_named_session_go_on_from_each_other() -> None:
    session, start = np.array([7, 9, 7, 7]), np.array([0.0, 1.0, 30.0, 90.0])
    rows = rows_of_turns(session, start, np.array([100, 50, 180, 60]), np.array([5, 5, 5, 5]))
    assert rows.sessions == 2
    assert rows.wait_s.tolist() == [np.inf, 30.0, 60.0, np.inf]
    assert rows.kept.tolist() == [0.0, 100.0, 0.0, 0.0]  # the last prompt of session 7 was shortened
    assert len(rows.assumed) == 2
    assert not are_sessions(rows)


def test_prompts_with_the_blocks_of_another_are_its_next_turn() -> None:
    """All begin with the system prompt, block 1, which makes no session."""
    blocks = [np.array(b) for b in ([1, 2, 3], [1, 8], [1, 2, 3, 4, 5], [1, 8, 9], [1])]
    rows = rows_of_blocks(blocks, np.arange(5.0), np.array([310, 210, 520, 330, 120]), np.full(5, 10), 100)
    assert rows.sessions == 3
    assert sorted(rows.kept.tolist()) == [0.0, 0.0, 0.0, 200.0, 300.0]
    assert sorted(rows.wait_s[np.isfinite(rows.wait_s)].tolist()) == [2.0, 2.0]


def test_a_file_of_sessions_becomes_a_demand_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    lines = []
    for s in range(40):
        blocks, t = 100, 0.0
        for k in range(12):
            shared, gap = (blocks, float(rng.exponential(20.0))) if k else (0, 0.0)
            blocks += int(rng.integers(2, 30)) if k else 0
            t += gap
            with_whom = k - 1 if k else ""
            lines.append(f"s{s},{k},root,{t:.1f},{64 * blocks},{50 + s},{shared},{with_whom},{gap:.2f}")
    path = tmp_path / "sessions.csv"
    path.write_text(HEAD + "\n".join(lines) + "\n")
    made = planner.demand(path, name="agent")
    case = planner.case_from_text(made.text)
    w = case.workloads[0]
    assert w.sessions is not None
    rows = read_session_file(path)
    mean = sum(b.share_frac * b.input_tokens for b in w.buckets)
    assert mean == pytest.approx(float(rows.prompt.mean()), rel=0.05)
    assert "DECIDE" in made.text
