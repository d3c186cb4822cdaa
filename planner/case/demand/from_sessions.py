"""The `sessions:` entry of a demand file from sessions in logs, and a whole file where a log has nothing but these."""

from __future__ import annotations

import json

import numpy as np

from planner.catalog.entries import shipped_catalog
from planner.io.errors import escaped
from planner.logs.sessions import SessionRows, fitted
from planner.performance.length_spread import LengthSpread
from planner.performance.sessions import Cut, SessionKind, Sessions, ages_of, sample_of

DECIDE, MODEL = "DECIDE", "qwen3-coder-480b-a35b"


def session_lines(rows: SessionRows, sessions: Sessions) -> list[str]:
    """Indented as part of a workload."""
    prompt, answer = float(rows.prompt.sum()), float(rows.answer.sum())
    drawn = sample_of(sessions)
    notes = (
        f"{rows.sessions:,} sessions of {len(rows.thread):,} requests; {prompt / answer:,.0f} prompt tokens for one "
        f"that is generated, {prompt / len(rows.thread):,.0f} a request",
        f"drawn from these figures: {float(drawn.weight @ drawn.prompt / drawn.weight.sum()):,.0f} a request, of which "
        f"{ages_of(sessions, 1).found_frac(np.inf):.1%} came before",
        "kinds are by how long sessions grow and how fast they go on; waits are by the tokens that wait",
        "'slows', 'longest' and 'rewritten' are fitted to the mean prompt and to the share that came before",
        *rows.assumed,
    )
    lines = ["    sessions:", *(f"      # {escaped(note)}" for note in notes), "      kinds:"]
    shares = _shares([kind.share_frac for kind in sessions.kinds])
    for kind, share in zip(sessions.kinds, shares, strict=True):
        lines += _kind_lines(kind, share)
    return lines


def _shares(fracs: list[float]) -> list[str]:
    """Percentages that add up to 100 exactly."""
    units = [round(10_000 * f / sum(fracs)) for f in fracs]
    units[units.index(max(units))] += 10_000 - sum(units)
    return [f"{unit / 100:g}" for unit in units]


def _kind_lines(kind: SessionKind, share: str) -> list[str]:
    points = ", ".join(f"{{below: {100 * p.below_frac:g}%, wait: {_seconds(p.seconds)}}}" for p in kind.waits[0].points)
    alike = "" if kind.alike is None else f", alike: {100 * kind.alike:.3g}%"
    lines = [
        f"        - share: {share}%",
        f"          turns: {_spread(kind.turns)}",
        f"          first_prompt: {_spread(kind.first_prompt)}",
        f"          appended: {_spread(kind.appended)}",
        f"          answers: {_spread(kind.answer)}",
        f"          rewritten: {100 * kind.fresh_frac:.3g}%",
        f"          waits: {{tools: {{points: [{points}]}}{alike}}}",
    ]
    if kind.slows is not None:
        lines.append(f"          slows: {100 * kind.slows:.3g}%")
    if kind.cut is not None:
        tokens, left = kind.cut.tokens, round(min(kind.cut.left_tokens, kind.cut.tokens - 1))
        lines.append(f"          longest: {{tokens: {tokens}, then: {kind.cut.then}, left: {left}}}")
    return lines


def _spread(spread: LengthSpread) -> str:
    mean = "" if spread.mean is None else f", mean: {spread.mean:.6g}"
    return f"{{p50: {spread.p50:.6g}, p95: {spread.p95:.6g}{mean}}}"


def _seconds(seconds: float) -> str:
    return f"{max(1.0, round(1000 * seconds)):g}ms" if seconds < 10 else f"{seconds:.6g}s"


def session_file_text(rows: SessionRows, name: str) -> str:
    """A demand file for sessions of which nobody knows how many there are a day."""
    context = shipped_catalog().models[MODEL].max_context_tokens
    left = min(float(np.median(rows.prompt)), context / 2)
    sessions = fitted(rows).with_cut(Cut(tokens=context, then="compact", left_tokens=left))
    return "\n".join(
        [
            "# Demand from sessions. Plan it with:   fleetplan plan THIS-FILE",
            f"# Lines with {DECIDE} are defaults that no file of sessions can tell: how many, models, where to rent.",
            "",
            "workloads:",
            f"  - name: {json.dumps(name, ensure_ascii=False)}",
            f"    models: [{MODEL}]   # {DECIDE}: one whose context holds the prompts below",
            "    forecast:",
            f"      sessions_per_day: {rows.sessions}   # {DECIDE}: the file has as many, over unknown days",
            f"      shape: business-hours   # {DECIDE}: times are those within a session",
            *session_lines(rows, sessions),
            f"    # slo: {{ttft_p95: 5s, tpot_p95: 50ms}}   # {DECIDE}: what you promised; assumed if left out",
            "",
            f"menu: {{providers: [aws], regions: [us-east-1]}}   # {DECIDE}: where you may rent",
            f"baseline: anthropic/claude-sonnet-4-6   # {DECIDE}: the API model to compare with",
            "decide: [models, baseline]   # guessed above: check them, then remove this line",
            "",
        ]
    )
