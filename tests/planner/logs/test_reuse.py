"""The reuse curve of a trace against an LRU cache that is played through block by block."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.logs.reuse import reuse_curve, stack_distances


def hits_of(requests: list[list[int]], size: int) -> int:
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for blocks in requests:
        hits += sum(block in cache for block in blocks)
        for block in reversed(blocks):
            cache.pop(block, None)
            cache[block] = None
        while len(cache) > size:
            cache.popitem(last=False)
    return hits


@st.composite
def traces(draw: st.DrawFn) -> list[list[int]]:
    """Requests that share prefixes with earlier ones, each block with an id of its own."""
    requests: list[list[int]] = []
    fresh = 0
    for _ in range(draw(st.integers(1, 25))):
        start: list[int] = []
        if requests and draw(st.booleans()):
            earlier = draw(st.sampled_from(requests))
            start = earlier[: draw(st.integers(0, len(earlier)))]
        new = draw(st.integers(0, 4))
        requests.append(start + list(range(fresh, fresh + new)))
        fresh += new
    return requests


@given(traces(), st.integers(1, 40))
@settings(max_examples=150, deadline=None)
def test_hits_are_those_of_lru(requests: list[list[int]], size: int) -> None:
    distances = stack_distances(requests)
    assert int(((distances > 0) & (distances <= size)).sum()) == hits_of(requests, size)


def test_the_curve_of_a_shared_prompt() -> None:
    requests = [[0, 1, 10 + k] for k in range(100)]
    curve = reuse_curve(requests, sizes=(1, 2, 3, 300))
    assert (curve.references, curve.distinct) == (300, 102)
    assert curve.endless == 198 / 300
    assert dict(curve.by_blocks)[1] == 99 / 300 and dict(curve.by_blocks)[2] == 198 / 300
    assert (curve.shared_blocks, curve.shared_frac) == (2, 1.0)
