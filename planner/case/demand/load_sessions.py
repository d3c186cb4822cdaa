"""Sessions of a demand file as a case holds them, and the requests and lengths that follow from them."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from planner.case.case import Bucket
from planner.case.demand.notes import Notes
from planner.case.demand.session_schema import KindSpec, SessionsSpec, WaitSpec
from planner.case.demand.spread_schema import Spread
from planner.case.demand.workload_schema import WorkloadSpec
from planner.case.length_buckets import SMALLEST_SHARE
from planner.io.errors import Path
from planner.performance.length_spread import Z95, LengthSpread, slices
from planner.performance.sessions import (
    Cut,
    Sample,
    SessionKind,
    Sessions,
    WaitPoint,
    Waits,
    Window,
    ages_of,
    sample_of,
)

PROMPT_CUTS = (0.0, 0.25, 0.5, 0.7, 0.85, 0.95, 1.0)
"""quantiles of the prompts between which they are one bucket"""
LEVELS = (0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
"""quantiles of a wait that is given by two"""
TOO_LONG_FRAC = 1e-3
"""share of the turns that may be longer than every context"""


def sessions_of(spec: SessionsSpec, shared_tokens: float) -> Sessions:
    kinds = spec.kinds if spec.kinds is not None else (spec,)
    total = sum(kind.share or 1.0 for kind in kinds)
    window = Window(tokens=spec.window.tokens, head_tokens=spec.window.head) if spec.window else None
    found = tuple(_kind(kind, (kind.share or 1.0) / total) for kind in kinds)
    return Sessions(kinds=found, shared_tokens=shared_tokens, window=window)


def _kind(spec: KindSpec, share: float) -> SessionKind:
    assert spec.turns and spec.first_prompt and spec.appended and spec.answers and spec.waits  # checked by the schema
    waits, people = spec.waits, spec.waits.people_share
    given = [(waits.tools, 1.0 if people is None else 1 - people), (waits.people, 1.0 if people is None else people)]
    cut = None
    if spec.longest is not None:
        left = spec.longest.left or min(spec.first_prompt.p50, spec.longest.tokens / 2)
        cut = Cut(tokens=spec.longest.tokens, then=spec.longest.then, left_tokens=left)
    return SessionKind(
        share_frac=share,
        turns=_spread(spec.turns),
        first_prompt=_spread(spec.first_prompt),
        appended=_spread(spec.appended),
        answer=_spread(spec.answers),
        waits=tuple(Waits(share_frac=part, points=_points(w)) for w, part in given if w is not None),
        fresh_frac=spec.rewritten,
        slows=spec.slows or None,
        alike=waits.alike or None,
        cut=cut,
    )


def _spread(spec: Spread) -> LengthSpread:
    return LengthSpread(p50=spec.p50, p95=spec.p95, mean=spec.mean)


def _points(w: WaitSpec) -> tuple[WaitPoint, ...]:
    if w.points is not None:
        return tuple(WaitPoint(below_frac=p.below, seconds=p.wait) for p in w.points)
    assert w.p50 is not None and w.p95 is not None
    sigma = float(np.log(w.p95 / w.p50)) / Z95
    normals = [NormalDist().inv_cdf(q) for q in LEVELS]
    return tuple(
        WaitPoint(below_frac=q, seconds=w.p50 * float(np.exp(sigma * z))) for q, z in zip(LEVELS, normals, strict=True)
    )


def turns_of(sessions: Sessions) -> float:
    """Requests of a session, mean."""
    some = sample_of(sessions)
    return float(some.weight.sum())


def session_lengths(sessions: Sessions) -> tuple[Bucket, ...]:
    """Every slice of prompts with every slice of their answers."""
    some = sample_of(sessions)
    order = np.argsort(some.prompt, kind="stable")
    below = np.cumsum(some.weight[order]) / some.weight.sum()
    edges = np.searchsorted(below, PROMPT_CUTS[1:-1])
    answers = slices(sessions.kinds[0].answer) if len(sessions.kinds) == 1 else None
    buckets = []
    for part in np.split(order, edges):
        if not len(part):
            continue
        share = float(some.weight[part].sum() / some.weight.sum())
        prompt = float(some.weight[part] @ some.prompt[part] / some.weight[part].sum())
        for q, tokens in answers or _slices(some, part):
            if share * q >= SMALLEST_SHARE:
                buckets.append(Bucket(share_frac=share * q, input_tokens=prompt, output_tokens=max(1.0, tokens)))
    total = sum(b.share_frac for b in buckets)
    return tuple(b.model_copy(update={"share_frac": b.share_frac / total}) for b in buckets)


def _slices(some: Sample, part: np.ndarray) -> list[tuple[float, float]]:
    """(share, mean tokens) of the answers to some prompts."""
    order = part[np.argsort(some.answer[part], kind="stable")]
    below = np.cumsum(some.weight[order]) / some.weight[order].sum()
    pieces = np.split(order, np.searchsorted(below, (0.5, 0.8, 0.95)))
    total = some.weight[order].sum()
    return [
        (float(some.weight[p].sum() / total), float(some.weight[p] @ some.answer[p] / some.weight[p].sum()))
        for p in pieces
        if len(p)
    ]


def check_sessions(w: WorkloadSpec, sessions: Sessions, path: Path, contexts: list[int], notes: Notes) -> None:
    """Complain about sessions that grow beyond every context and are not cut, and say what follows from the rest."""
    some, largest = sample_of(sessions), max(contexts)
    tokens = some.prompt + some.answer
    longer = float(some.weight[tokens > largest].sum() / some.weight.sum())
    if longer > TOO_LONG_FRAC:
        longest = f"{float(tokens.max()):,.0f}"
        message = f"grow to {longest} tokens, beyond the {largest:,} of its models, in {longer:.1%} of their turns"
        remedy = f"Say what happens then: longest: {{tokens: {largest}, then: compact}}, or then: end for a new session"
        notes.complain((*path, "sessions"), message, remedy)
    key = f"workloads.{w.name}.sessions"
    prompt, answer = float(some.weight @ some.prompt), float(some.weight @ some.answer)
    turns = float(some.weight.sum())
    ages = ages_of(sessions, 1)
    value = f"{turns:,.1f} requests a session, {prompt / turns:,.0f} prompt tokens each"
    why = (
        f"{prompt / answer:,.0f} prompt tokens for one that is generated; {ages.found_frac(np.inf):.1%} of them came "
        "before, if nothing is ever dropped"
    )
    notes.assume(key, value, f"as {len(np.unique(some.session)):,} sessions drawn from these figures have it: {why}")
    half = float(np.interp(0.5, ages.below / ages.below[-1], ages.age_s)) if len(ages.age_s) else 0.0
    waits = f"half of these tokens wait less than {half:,.0f} s, "
    for seconds, name in ((60.0, "a minute"), (3600.0, "an hour")):
        share = 1 - (ages.found_frac(seconds) - ages.always) / max(1e-12, ages.found_frac(np.inf) - ages.always)
        waits += f"{share:.1%} more than {name}" + (", " if seconds == 60.0 else "")
    notes.assume(f"{key}.waits", waits, "a memory that keeps blocks for less time does not find them")
