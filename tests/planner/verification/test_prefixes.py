"""Blocks of drawn prompts: caches of every size find of them what the curve says."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba", reason="the simulator is compiled by numba: install fleetplan[verify]")

from planner.case.case import Bucket, PrefixReuse, ReusePoint, Workload
from planner.logs.reuse import reuse_curve
from planner.verification.block_cache import Blocks, joined
from planner.verification.prefixes import PromptBlocks, block_tokens, tuned_scale
from tests.support.lever_plans import lever_plan

RPS = 3.4


def workload(points: list[tuple[float, float]], prompt: float, shared: float) -> Workload:
    given = lever_plan("together").case.workloads[0]
    reuse = PrefixReuse(
        points=tuple(ReusePoint(cache_tokens=c, hit_frac=h) for c, h in points), tokens_per_s=RPS * prompt
    )
    return given.model_copy(
        update={
            "buckets": (Bucket(share_frac=1.0, input_tokens=prompt, output_tokens=100.0),),
            "prefix_reuse": reuse,
            "shared_prefix_tokens": shared,
            "prefix_hit_frac": 1.0 if shared else 0.0,
        }
    )


@pytest.mark.parametrize(
    ("points", "prompt", "shared", "spread"),
    [
        ([(0.5e6, 0.045), (2.5e6, 0.11), (5e6, 0.21), (10e6, 0.29), (25e6, 0.35)], 12_000.0, 512.0, 1.0),
        ([(0.2e6, 0.2), (1e6, 0.5), (3e6, 0.7)], 4000.0, 0.0, 0.1),
    ],
)
def test_caches_of_every_size_find_what_the_curve_says(
    points: list[tuple[float, float]], prompt: float, shared: float, spread: float
) -> None:
    rng, n = np.random.default_rng(1), 20_000
    w = workload(points, prompt, shared)
    times = np.cumsum(rng.exponential(1 / RPS, n))
    prompts = np.maximum(1, np.round(prompt * np.exp(spread * rng.standard_normal(n) - spread**2 / 2)))
    tokens = 512 if shared else block_tokens([w])
    drawing = PromptBlocks(w, tokens, tuned_scale(w, tokens, prompts, RPS, rng))
    parts = [drawing.draw(times[k], prompts[k], rng) for k in np.array_split(np.arange(n), 7)]
    assert len(drawing.times) < n / 2, "what comes back no more is forgotten"
    asked = [p.ids[a:b].tolist() for p in parts for a, b in zip(p.begin[:-1], p.begin[1:], strict=True)]
    assert [len(each) for each in asked] == (prompts // tokens).astype(int).tolist()
    curve = reuse_curve(asked, [int(size / tokens) for size, _ in points])
    for (size, share), (_, hits) in zip(points, curve.by_blocks, strict=True):
        found = hits * curve.references * tokens / prompts.sum()
        assert found == pytest.approx(share, abs=0.025), size


def test_blocks_of_several_streams_are_joined_without_a_clash() -> None:
    one = Blocks(np.array([0, 1, 0, 2], dtype=np.int32), np.array([0, 2, 4]), 16)
    two = Blocks(np.array([0, 0, 1], dtype=np.int32), np.array([0, 1, 3]), 16)
    parts = [(one, np.array([0, 1])), (None, np.array([5])), (two, np.array([1]))]
    both = joined(parts, np.array([3, 0, 2, 1]), 16)
    asked = [both.ids[a:b].tolist() for a, b in zip(both.begin[:-1], both.begin[1:], strict=True)]
    assert [len(each) for each in asked] == [2, 2, 0, 2]
    assert asked[1][0] == asked[3][0]
    assert asked[1][1] != asked[3][1]
    assert not {*asked[0]} & {*asked[1], *asked[3]}
