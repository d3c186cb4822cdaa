"""Blocks of drawn prompts, so that caches of every size find what a workload's curve of reuse says. Compiled by numba.

A request may go on from an earlier one: it begins with the same blocks, as the next turn of a conversation does. How
long ago that was is drawn from the curve. A cache of d tokens finds what was last used up to d different tokens ago,
and while so many different ones come, W(d) tokens come in all,

    W(d) = integral from 0 to d of dx / (1 - h(x)),

since of what comes while a cache of x tokens fills, a share h(x) is there already. At the rate of the curve that takes
W(d) / rate. Each request is gone on from once, so nothing is used more recently than was drawn.
"""

from __future__ import annotations

import numpy as np

from planner.case.case import Workload
from planner.verification.block_cache import Blocks
from planner.verification.compiled import entry

BLOCKS_A_PROMPT, SMALLEST, LARGEST = 16, 16, 512
"""blocks of a mean prompt, about, and the tokens that a block may have"""
MOST_PLACES = 2e8
"""blocks times replicas that may have them, for which there is memory: larger blocks find a little less"""
CANDIDATES = 48
"""earlier requests, one after the other, that a request may go on from"""
ROUNDS, FINE, CLOSE_FRAC = 4, 400, 0.002


def block_tokens(workloads: list[Workload], requests: float = 0.0, replicas: int = 1) -> int:
    """Tokens of a block that suit the prompts of workloads: the shortest decide, and memory for so many requests."""
    means = [sum(b.share_frac * b.input_tokens for b in w.buckets) for w in workloads]
    fitting = np.round(np.log2(min(means) / BLOCKS_A_PROMPT))
    tokens = int(2 ** np.clip(fitting, np.log2(SMALLEST), np.log2(LARGEST)))
    while requests * replicas * max(means) / tokens > MOST_PLACES:
        tokens *= 2
    return tokens


def drawn_blocks(w: Workload, times: np.ndarray, prompt: np.ndarray, tokens: int, rng: np.random.Generator) -> Blocks:
    """Blocks of requests in the order of their arrival."""
    assert w.prefix_reuse is not None
    whole = (prompt // tokens).astype(np.int64)
    begin = np.concatenate([[0], np.cumsum(whole)])
    alike = rng.random(len(times)) < w.prefix_hit_frac
    shared = np.where(alike, np.minimum(int(w.shared_prefix_tokens // tokens), whole), 0)
    shares, gaps_s = _gaps(w)
    draw, wanted = rng.random(len(times)), float(shares[-1])
    since_s, late = times - times[:1], np.arange(len(times)) >= len(times) // 2
    ids, scale, most = np.zeros(begin[-1], dtype=np.int32), 1.0, 1 / max(wanted, 1e-9)
    for _ in range(ROUNDS):
        # Requests that go on from others find whole prompts, or as much as those had: more of them than of the tokens.
        gap_s = np.where(draw < scale * wanted, np.interp(draw / scale, shares, gaps_s), np.inf)
        before = np.searchsorted(since_s, since_s - np.where(gap_s <= since_s, gap_s, 0.0), side="right") - 1
        ids, again = _named(whole, shared, np.where(gap_s <= since_s, before, -1), begin)
        found = float(again[late].sum()) * tokens / max(1.0, float(prompt[late].sum()))
        if found <= 0 or abs(found - wanted) < CLOSE_FRAC or scale >= most > scale * wanted / found:
            break
        scale = min(scale * wanted / found, most)
    return Blocks(ids, begin, tokens)


def _gaps(w: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Shares of prompt tokens that are found beyond shared prefixes, and after how long these come back at most [s]"""
    reuse = w.prefix_reuse
    assert reuse is not None
    sizes = np.unique(np.concatenate([np.linspace(0, p.cache_tokens, FINE) for p in reuse.points]))
    found = np.array([reuse.found_frac(size) for size in sizes])
    middle = np.minimum((found[1:] + found[:-1]) / 2, 0.999)
    come = np.concatenate([[0.0], np.cumsum(np.diff(sizes) / (1 - middle))])
    beyond = np.maximum(0.0, found - w.shared_found_frac)
    first = int(np.searchsorted(beyond, 0.0, side="right")) - 1
    return beyond[max(0, first) :], come[max(0, first) :] / reuse.tokens_per_s


@entry
def _named(
    whole: np.ndarray, shared: np.ndarray, before: np.ndarray, begin: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of all blocks, and how many of each request an earlier one has, without shared prefixes."""
    n = len(whole)
    ids = np.zeros(begin[n], dtype=np.int32)
    again = np.zeros(n, dtype=np.int64)
    followed = np.zeros(n, dtype=np.bool_)
    count = shared.max() if n else 0
    for i in range(n):
        best, most = -1, shared[i]
        if before[i] >= 0:
            for j in range(min(before[i], i - 1), max(-1, before[i] - CANDIDATES), -1):
                if not followed[j] and shared[j] == shared[i] and min(whole[j], whole[i]) > most:
                    best, most = j, min(whole[j], whole[i])
                    if most == whole[i]:
                        break
        at = begin[i]
        if best >= 0:
            followed[best] = True
            again[i] = most - shared[i]
            for k in range(most):
                ids[at + k] = ids[begin[best] + k]
        else:
            most = shared[i]
            for k in range(most):
                ids[at + k] = k
        for k in range(most, whole[i]):
            ids[at + k] = count
            count += 1
    return ids, again
