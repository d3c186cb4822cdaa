"""Length buckets: requests of about one length, each pair of a slice of prompts and one of answers."""

from __future__ import annotations

from planner.case.case import Bucket

SMALLEST_SHARE = 1e-4


def buckets_from(inputs: list[tuple[float, float]], outputs: list[tuple[float, float]]) -> tuple[Bucket, ...]:
    """Every pair of an input and an output slice (lengths taken as independent)."""
    return tuple(
        Bucket(share_frac=p * q, input_tokens=max(1.0, i), output_tokens=max(1.0, o))
        for p, i in inputs
        for q, o in outputs
        if p * q >= SMALLEST_SHARE
    )


def must_hold(buckets: tuple[Bucket, ...], percentile: float, outputs: bool = False) -> list[bool]:
    """Which buckets an objective at this percentile binds: all but the longest prompts (or answers) beyond it."""
    lengths = [b.output_tokens if outputs else b.input_tokens for b in buckets]
    pairs = list(zip(lengths, (b.share_frac for b in buckets), strict=True))
    shorter = {n: sum(share for length, share in pairs if length < n) for n in set(lengths)}
    return [shorter[n] < percentile - 1e-9 for n in lengths]
