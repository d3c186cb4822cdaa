"""How much of prompts a prefix cache has ready, by its size: exact LRU, from the block hashes of a trace.

A block is looked up when its request comes and counts as a hit if it is among the C blocks used last. A request uses
its blocks from the last to the first, so that the head of a prefix outlives its tail, and a block that is there has
all of its prefix there. One pass gives every size at once: a block is a hit in all caches that are at least as large
as its stack distance, the number of different blocks used since it was used last (Mattson and others, 1970).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BLOCK_TOKENS = 512
MOST_REFERENCES = 5_000_000
SIZES = (*(m * 10**e for e in range(2, 6) for m in (1, 2, 3, 5, 7)), 1_000_000)
"""of caches, in blocks"""
Blocks = Sequence[int] | np.ndarray
"""numbers of a prompt's blocks, in their order"""
SHARED_FRAC = 0.5
"""share of the requests that begin with a block, from which on it is a prefix that all share"""


@dataclass(frozen=True)
class ReuseCurve:
    """Share of prompt blocks that are hits."""

    references: int
    distinct: int
    endless: float
    by_blocks: tuple[tuple[int, float], ...]
    """cache size in blocks -> share of hits"""
    shared_blocks: int
    """leading blocks that most requests have in common"""
    shared_frac: float
    """of the requests that begin with them"""


def reuse_curve(requests: Sequence[Blocks], sizes: Sequence[int] = SIZES) -> ReuseCurve:
    """The curve of requests in the order of their times."""
    counts = np.array([len(blocks) for blocks in requests], dtype=np.int64)
    distances = stack_distances(requests)
    seen = np.sort(distances[distances > 0])
    total = max(1, len(distances))
    useful = [size for size in sizes if not len(seen) or size <= 2 * seen[-1]]
    by_blocks = tuple((size, float(np.searchsorted(seen, size, side="right")) / total) for size in useful)
    shared, frac = _shared(requests, len(counts))
    distinct = int((distances == 0).sum())
    return ReuseCurve(len(distances), distinct, len(seen) / total, by_blocks, shared, frac)


def stack_distances(requests: Sequence[Blocks]) -> np.ndarray:
    """Of each block of each request, in the order in which they are used; 0 where it was never used before."""
    used = np.concatenate([np.zeros(0, np.int64), *(np.asarray(blocks, dtype=np.int64)[::-1] for blocks in requests)])
    lengths = np.array([len(blocks) for blocks in requests], dtype=np.int64)
    if not len(used):
        return used
    looked_up = np.repeat(np.cumsum(lengths) - lengths, lengths)
    order = np.argsort(used, kind="stable")
    again = np.r_[False, used[order][1:] == used[order][:-1]]
    before = np.full(len(used), -1, dtype=np.int64)
    before[order[again]] = order[np.flatnonzero(again) - 1]
    ask = (before >= 0) & (before < looked_up)  # a block that a request has twice is one block
    # Different blocks used since `before` and ahead of the request: uses whose own predecessor is no later.
    distances = np.zeros(len(used), dtype=np.int64)
    distances[ask] = _no_later(before, looked_up[ask], before[ask]) - before[ask]
    return distances


def _no_later(values: np.ndarray, stops: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """For each (stop, bound): how many of values[:stop] are at most bound, by sorted blocks of every power of two."""
    count = np.zeros(len(stops), dtype=np.int64)
    levels = len(values).bit_length()
    size = 1 << levels
    most = len(values) + 1
    padded = np.full(size, most, dtype=np.int64)
    padded[: len(values)] = values
    for level in range(levels + 1):
        width = 1 << level
        blocks = np.sort(padded.reshape(-1, width), axis=1)
        padded = blocks.reshape(-1)
        asked = np.flatnonzero(stops & width)
        if not len(asked):
            continue
        block = (stops[asked] >> (level + 1)) << 1
        keys = (padded + 1 + np.repeat(np.arange(size >> level), width) * (most + 2)).astype(np.int64)
        target = bounds[asked] + 1 + block * (most + 2)
        count[asked] += np.searchsorted(keys, target, side="right") - block * width
    return count


def _shared(requests: Sequence[Blocks], total: int) -> tuple[int, float]:
    """Leading blocks that at least half of the requests have in common."""
    shared, frac, alike = 0, 0.0, list(requests)
    while alike:
        heads = [blocks[shared] for blocks in alike if len(blocks) > shared]
        if not heads:
            break
        values, counts = np.unique(np.array(heads), return_counts=True)
        best = int(counts.argmax())
        if counts[best] < SHARED_FRAC * total:
            break
        alike = [blocks for blocks in alike if len(blocks) > shared and blocks[shared] == values[best]]
        shared, frac = shared + 1, float(counts[best]) / total
    return shared, frac
