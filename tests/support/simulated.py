"""Requests, replicas and step times that tests of the simulator are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.verification import engine
from planner.verification.engine import Capacity
from planner.verification.step_times import StepTimes
from planner.verification.steps import Outcome, Requests


def constant_step(seconds: float, sequences: int) -> StepTimes:
    """A replica whose every step takes as long, whatever is in it, with memory for everything."""
    return StepTimes(
        decode_s=np.full((sequences + 1, 2), seconds),
        seen_step=1.0,
        added_s=np.zeros((sequences + 1, 2)),
        alone_s=np.full(2, seconds),
        root_steps=1.0,
        prompt_alone_s=0.0,
        prompt_beside_s=0.0,
        host_s=0.0,
        attention_s=0.0,
        attention_alone_s=0.0,
        attention_short_tokens=0.0,
        full_frac=1.0,
        kv_bytes_per_token=1.0,
        kv_window_bytes_per_token=0.0,
        window_tokens=0.0,
        kv_window_tokens=0.0,
        kv_room_bytes=1e15,
        cached_bytes_per_token=1.0,
    )


def requests(
    arrival_s: Sequence[float] | np.ndarray,
    prompt: object,
    output: object,
    found: object = 0.0,
    critical: object = True,
) -> Requests:
    """Lengths are one for all, or one for each; every test gives numba the same types."""
    n = len(arrival_s)
    return Requests(
        np.asarray(arrival_s, dtype=float),
        np.broadcast_to(prompt, n).astype(float),
        np.broadcast_to(found, n).astype(float),
        np.broadcast_to(output, n).astype(np.int64),
        np.broadcast_to(critical, n).astype(bool),
    )


def capacity(*entries: tuple[float, int, int]) -> Capacity:
    """(from when on, replicas, how those that go do so)"""
    times, replicas, changes = zip(*entries, strict=True)
    return Capacity(np.array(times, dtype=float), np.array(replicas, dtype=np.int64), np.array(changes, dtype=np.int64))


def served_by(
    replicas: int, asked: Requests, times: StepTimes, sequences: int = 1, budget: int = 8192, router: int = 0,
    seed: int = 1,
) -> Outcome:  # fmt: skip
    """The same replicas all the time."""
    return engine.serve(asked, capacity((0.0, replicas, engine.DRAINED)), times, sequences, budget, router, seed)
