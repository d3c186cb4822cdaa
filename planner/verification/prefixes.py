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
from planner.verification.compiled import compiled

BLOCKS_A_PROMPT, SMALLEST, LARGEST = 16, 16, 512
"""blocks of a mean prompt, about, and the tokens that a block may have"""
MOST_REMEMBERED = 6e6
"""blocks of earlier prompts, for which there is memory: larger blocks find a little less"""
CANDIDATES = 48
"""earlier requests, one after the other, that a request may go on from"""
ROUNDS, FINE, CLOSE_FRAC = 4, 400, 0.002
FEWEST_TRIED, MOST_TRIED, TRIED_GAPS = 5_000, 50_000, 4.0
"""requests by which drawing is tuned, and how often the longest gap fits into the time in which they come at least"""


def block_tokens(workloads: list[Workload], peak_rps: float = 0.0) -> int:
    """Tokens of a block that suit the prompts of workloads: the shortest decide, and memory for what may come back."""
    means = [sum(b.share_frac * b.input_tokens for b in w.buckets) for w in workloads]
    fitting = np.round(np.log2(min(means) / BLOCKS_A_PROMPT))
    tokens = int(2 ** np.clip(fitting, np.log2(SMALLEST), np.log2(LARGEST)))
    longest_s = max(longest_gap_s(w) for w in workloads)
    while peak_rps * longest_s * max(means) / tokens > MOST_REMEMBERED:
        tokens *= 2
    return tokens


def longest_gap_s(w: Workload) -> float:
    """After how long prompts come back at most."""
    return float(_gaps(w)[1][-1])


class PromptBlocks:
    """Blocks of a workload's prompts, drawn for some requests after the others. It remembers what may come back."""

    def __init__(self, w: Workload, tokens: int, scale: float) -> None:
        self.w, self.tokens, self.scale = w, tokens, scale
        self.shares, self.gaps_s = _gaps(w)
        self.began_s: float | None = None
        self.times = np.zeros(0)
        self.whole, self.shared, self.ids = (np.zeros(0, dtype=np.int64) for _ in range(3))
        self.followed = np.zeros(0, dtype=np.bool_)
        self.count = int(w.shared_prefix_tokens // tokens)
        """numbers given so far; the first are those of the prefix that prompts share"""

    def draw(self, times: np.ndarray, prompt: np.ndarray, rng: np.random.Generator) -> Blocks:
        """Blocks of the next requests, in the order of their arrival."""
        return self._drawn(times, prompt, rng)[0]

    def found(self, times: np.ndarray, prompt: np.ndarray, rng: np.random.Generator) -> float:
        """Share of the tokens of the later half of some requests that earlier ones have, without shared prefixes."""
        _, again = self._drawn(times, prompt, rng)
        late = slice(len(times) // 2, None)
        return float(again[late].sum()) * self.tokens / max(1.0, float(prompt[late].sum()))

    def _drawn(self, times: np.ndarray, prompt: np.ndarray, rng: np.random.Generator) -> tuple[Blocks, np.ndarray]:
        if not len(times):
            return Blocks(np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64), self.tokens), np.zeros(0)
        self.began_s = float(times[0]) if self.began_s is None else self.began_s
        known, whole = len(self.times), (prompt // self.tokens).astype(np.int64)
        alike = rng.random(len(times)) < self.w.prefix_hit_frac
        shared = np.where(alike, np.minimum(int(self.w.shared_prefix_tokens // self.tokens), whole), 0)
        draw, since_s = rng.random(len(times)), times - self.began_s
        # Requests that go on from others find whole prompts, or as much as those had: more of them than of the tokens.
        goes_on = draw < self.scale * self.shares[-1]
        gap_s = np.where(goes_on, np.interp(draw / self.scale, self.shares, self.gaps_s), np.inf)
        self.times = np.concatenate([self.times, times])
        before = np.searchsorted(self.times, times - np.where(gap_s <= since_s, gap_s, 0.0), side="right") - 1
        before = np.where(gap_s <= since_s, before, -1)
        self.whole, self.shared = np.concatenate([self.whole, whole]), np.concatenate([self.shared, shared])
        self.ids = np.concatenate([self.ids, np.zeros(int(whole.sum()), dtype=np.int64)])
        self.followed = np.concatenate([self.followed, np.zeros(len(times), dtype=np.bool_)])
        begin = np.concatenate([[0], np.cumsum(self.whole)])
        self.count, again = _named(
            self.whole, self.shared, before, begin, self.ids, self.followed, known, self.count
        )  # fmt: skip
        blocks = Blocks(self.ids[begin[known] :].copy(), begin[known:] - begin[known], self.tokens)
        self._forget(begin)
        return blocks, again

    def _forget(self, begin: np.ndarray) -> None:
        """Drop what comes back no more, and what there is no memory for."""
        old = int(np.searchsorted(self.times, self.times[-1] - self.gaps_s[-1])) - CANDIDATES
        cut = max(0, old, int(np.searchsorted(begin, begin[-1] - 2 * MOST_REMEMBERED)))
        self.ids = self.ids[begin[cut] :].copy()
        self.times, self.followed = self.times[cut:].copy(), self.followed[cut:].copy()
        self.whole, self.shared = self.whole[cut:].copy(), self.shared[cut:].copy()


def tuned_scale(w: Workload, tokens: int, prompts: np.ndarray, rps: float, rng: np.random.Generator) -> float:
    """How many more requests must go on from others than tokens are found, for prompts such as these."""
    shares, gaps_s = _gaps(w)
    wanted, scale = float(shares[-1]), 1.0
    if wanted <= 0 or not len(prompts):
        return scale
    count = int(np.clip(TRIED_GAPS * gaps_s[-1] * rps, FEWEST_TRIED, MOST_TRIED))
    prompt = rng.choice(prompts, count)
    span_s = max(TRIED_GAPS * float(gaps_s[-1]), count / max(rps, 1e-9))
    times, seed, most = np.sort(rng.uniform(0, span_s, count)), int(rng.integers(1 << 31)), 1 / wanted
    for _ in range(ROUNDS):
        found = PromptBlocks(w, tokens, scale).found(times, prompt, np.random.default_rng(seed))
        if found <= 0 or abs(found - wanted) < CLOSE_FRAC or scale >= most > scale * wanted / found:
            break
        scale = min(scale * wanted / found, most)
    return scale


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


@compiled
def _named(
    whole: np.ndarray,
    shared: np.ndarray,
    before: np.ndarray,
    begin: np.ndarray,
    ids: np.ndarray,
    followed: np.ndarray,
    known: int,
    count: int,
) -> tuple[int, np.ndarray]:
    """Number the blocks of requests behind those that are known: numbers given so far, and how many of each request
    an earlier one has, without shared prefixes."""
    n = len(whole)
    again = np.zeros(n - known, dtype=np.int64)
    for i in range(known, n):
        best, most, last = -1, shared[i], before[i - known]
        if last >= 0:
            for j in range(min(last, i - 1), max(-1, last - CANDIDATES), -1):
                if not followed[j] and shared[j] == shared[i] and min(whole[j], whole[i]) > most:
                    best, most = j, min(whole[j], whole[i])
                    if most == whole[i]:
                        break
        at = begin[i]
        if best >= 0:
            followed[best] = True
            again[i - known] = most - shared[i]
            for k in range(most):
                ids[at + k] = ids[begin[best] + k]
        else:
            most = shared[i]
            for k in range(most):
                ids[at + k] = k
        for k in range(most, whole[i]):
            ids[at + k] = count
            count += 1
    return count, again
