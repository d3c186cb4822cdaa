"""Lengths and caches that logs show, as lines of a demand file."""

from __future__ import annotations

import math
from bisect import bisect_left

from planner.case.demand.load_workloads import DEFAULT_INPUT
from planner.case.demand.logged_lengths import side_text, spread_of
from planner.io.errors import escaped
from planner.logs.lengths import LengthBucket, Lengths, Marginals
from planner.logs.measure import Workload
from planner.logs.reuse import BLOCK_TOKENS, ReuseCurve
from planner.performance.length_spread import slices

MOST_FOUND = 0.9999
"""share of prompt tokens below which the planner takes a hit rate"""
DECIDE = "DECIDE"
"""marks what no log can tell"""


def comment(text: str, indent: str = "") -> str:
    return f"{indent}# {escaped(text)}"


def token_lines(lengths: Lengths | Marginals | None) -> list[str]:
    if isinstance(lengths, Lengths):
        sides = (("prompts", lengths.prompt), ("answers", lengths.output))
        lines = [comment(f"{kind}: {side_text(side)}", " " * 6) for kind, side in sides]
        lines.append("      buckets:")
        for tokens, output, share in _buckets(lengths):
            lines.append(f"        - {{input: {tokens}, output: {output}, share: {share}%}}")
        return lines
    lines = []
    for key, name in (("input", "prompt"), ("output", "output")):
        side = getattr(lengths, name) if lengths is not None else None
        if side is None:
            lines.append(f"      # {key}: {DECIDE}: the log does not say; the default is taken")
        else:
            s, basis = spread_of(side, name)
            basis = basis if side.percentiles else f"{DECIDE}: {basis}"
            mean = "" if s.mean is None else f", mean: {s.mean}"
            lines.append(f"      {key}: {{p50: {s.p50}, p95: {s.p95}{mean}}}   # {basis}")
    return lines if any(not line.lstrip().startswith("#") for line in lines) else ["      {}", *lines]


def _prompts(lengths: Lengths | Marginals | None) -> list[tuple[float, float]]:
    """(share, tokens) of the prompts, as the planner takes them from the lines of token_lines."""
    if isinstance(lengths, Lengths):
        return [(float(share) / 100, float(tokens)) for tokens, _, share in _buckets(lengths)]
    side = lengths.prompt if lengths is not None else None
    spread = DEFAULT_INPUT if side is None else spread_of(side, "prompt")[0]
    return [(share, max(1.0, tokens)) for share, tokens in slices(spread)]


def _buckets(lengths: Lengths) -> list[tuple[str, str, str]]:
    """Input, output and percentage of each bucket, as they are written."""
    total = sum(b.requests for b in lengths.buckets)
    rows = zip(lengths.buckets, _shares(lengths.buckets, total), strict=True)
    return [(f"{max(1.0, b.input_tokens):.1f}", f"{max(1.0, b.output_tokens):.1f}", share) for b, share in rows]


def _shares(buckets: tuple[LengthBucket, ...], total: int) -> list[str]:
    """Percentages that add up to 100 exactly."""
    units = [round(b.requests * 10**8 / total) for b in buckets]
    units[units.index(max(units))] += 10**8 - sum(units)
    return [f"{unit / 10**6:.6f}".rstrip("0").rstrip(".") for unit in units]


def caching_lines(w: Workload, curve: ReuseCurve | None) -> list[str]:
    if curve is not None:
        return _reuse(curve, w.traffic.total / max(1.0, w.traffic.span_s))
    use = w.traffic.cache
    if use is None or use.cached_tokens <= 0 or use.prompt_tokens <= 0:
        return []
    share = use.cached_tokens / use.prompt_tokens
    if use.hits:
        tokens = use.cached_tokens / use.hits
        how = f"{use.hits:,.0f} of {use.requests:,.0f} requests had some, {tokens:,.0f} tokens each"
    else:
        tokens = use.prompt_tokens / use.requests
        how = "totals only: which requests had them is not known"
    prefix, rate = _prefix(_prompts(w.traffic.lengths), share, tokens)
    note = f"{share:.1%} of prompt tokens were cached, with the caches and the router of the logged fleet; {how}"
    figures = f"shared_prefix_tokens: {prefix}, prefix_hit_rate: {_percent(rate)}"
    return [comment(note, "    "), f"    caching: {{{figures}}}   # together that share, as some prompts are shorter"]


def _prefix(prompts: list[tuple[float, float]], share: float, tokens: float) -> tuple[int, float]:
    """A prefix and its hit rate with which this share of prompt tokens is cached, where prompts may be shorter.

    The prefix is the one given, or longer where even hits on all requests would be too few.
    """
    wanted = min(1.0, share) * sum(p * n for p, n in prompts)
    longest = math.ceil(max(n for _, n in prompts))

    def within(prefix: float) -> float:
        return sum(p * min(prefix, n) for p, n in prompts)

    least = min(longest, max(1, round(tokens)))
    prefix = least + bisect_left(range(least, longest), wanted, key=within)
    return prefix, min(1.0, wanted / within(prefix))


def _reuse(curve: ReuseCurve, requests_per_s: float) -> list[str]:
    """The curve by tokens, with what all requests share, which every replica finds."""
    if curve.endless <= 0:
        return []
    found = [(size, share) for size, share in curve.by_blocks if 0 < share < curve.endless]
    found.append((max([curve.distinct, *(size + 1 for size, _ in found)]), curve.endless))
    lines = ["    caching:"]
    if curve.shared_blocks:
        lines += [
            f"      shared_prefix_tokens: {curve.shared_blocks * BLOCK_TOKENS}   # what most requests begin with",
            f"      prefix_hit_rate: {_percent(curve.shared_frac)}",
        ]
    notes = (
        f"share of prompt tokens ready, by the tokens that one cache for all requests holds (exact LRU, blocks of "
        f"{BLOCK_TOKENS})",
        f"{100 * curve.endless:.1f}% without a limit; {curve.references:,} blocks, {curve.distinct:,} different",
        f"{DECIDE}: 'policy: {{routing: prefix-aware}}' finds most of it; others send requests past their prefix",
    )
    lines += [
        *(comment(note, " " * 6) for note in notes),
        "      prefix_reuse:",
        f"        requests_per_s: {requests_per_s:.6g}   # of the log",
        "        curve:",
    ]
    lines += [
        f"          - {{tokens: {size * BLOCK_TOKENS}, hit_rate: {_percent(min(share, MOST_FOUND))}}}"
        for size, share in found
    ]
    return lines


def _percent(share: float) -> str:
    return f"{100 * min(1.0, max(0.0001, share)):.2f}".rstrip("0").rstrip(".") + "%"
