"""Lengths and caches that logs show, as lines of a demand file."""

from __future__ import annotations

from planner.case.demand.workload_schema import MOST_TAIL
from planner.io.errors import escaped
from planner.logs.lengths import LengthBucket, Lengths, Marginals, Side
from planner.logs.measure import Workload
from planner.logs.reuse import BLOCK_TOKENS, ReuseCurve
from planner.performance.length_spread import LengthSpread, least_mean

DECIDE = "DECIDE"
"""marks what no log can tell"""
TYPICAL = {"prompt": (0.883, 3.536), "output": (0.611, 2.136)}
"""p50 and p95 over the mean in Azure's conversation trace of 2023, where a log has means only"""


def comment(text: str, indent: str = "") -> str:
    return f"{indent}# {escaped(text)}"


def token_lines(lengths: Lengths | Marginals | None) -> list[str]:
    if isinstance(lengths, Lengths):
        sides = (("prompts", lengths.prompt), ("answers", lengths.output))
        lines = [comment(f"{kind}: {_side(side)}", " " * 6) for kind, side in sides]
        total = sum(b.requests for b in lengths.buckets)
        lines.append("      buckets:")
        shares = _shares(lengths.buckets, total)
        for b, share in zip(lengths.buckets, shares, strict=True):
            numbers = f"input: {max(1.0, b.input_tokens):.1f}, output: {max(1.0, b.output_tokens):.1f}"
            lines.append(f"        - {{{numbers}, share: {share}%}}")
        return lines
    lines = []
    for key, name in (("input", "prompt"), ("output", "output")):
        side = getattr(lengths, name) if lengths is not None else None
        if side is None:
            lines.append(f"      # {key}: {DECIDE}: the log does not say; the default is taken")
        else:
            lines.append(f"      {key}: {_spread(side, name)}")
    return lines if any(not line.lstrip().startswith("#") for line in lines) else ["      {}", *lines]


def _shares(buckets: tuple[LengthBucket, ...], total: int) -> list[str]:
    """Percentages that add up to 100 exactly."""
    units = [round(b.requests * 10**8 / total) for b in buckets]
    units[units.index(max(units))] += 10**8 - sum(units)
    return [f"{unit / 10**6:.6f}".rstrip("0").rstrip(".") for unit in units]


def _side(side: Side) -> str:
    parts = [f"mean {side.mean:,.1f}"]
    parts += [f"p{100 * q:g} {tokens:,.0f}" for q, tokens in side.percentiles.items() if q in (0.5, 0.95, 0.999)]
    return ", ".join(parts)


def _spread(side: Side, name: str) -> str:
    if not side.percentiles:
        p50, p95 = (max(1.0, side.mean * ratio) for ratio in TYPICAL[name])
        basis = f"{DECIDE}: only the mean is known; spread as in Azure's conversation trace of 2023"
    else:
        p50 = max(1.0, side.percentiles[0.5])
        p95 = min(max(p50, side.percentiles[0.95]), 200 * p50)
        basis = f"{_side(side)}, from histograms (between their bounds on a logarithmic scale)"
    mean = f", mean: {side.mean:.1f}"
    if p95 > p50 and not least_mean(LengthSpread(p50=p50, p95=p95)) <= side.mean <= MOST_TAIL * p95:
        mean, basis = "", f"{basis}; no spread through both has the mean {side.mean:,.1f}"
    elif p95 == p50:
        mean = ""
    return f"{{p50: {p50:.1f}, p95: {p95:.1f}{mean}}}   # {basis}"


def caching_lines(w: Workload, curve: ReuseCurve | None) -> list[str]:
    if curve is not None:
        return _reuse(curve)
    use = w.traffic.cache
    if use is None or use.cached_tokens <= 0 or use.prompt_tokens <= 0:
        return []
    share = use.cached_tokens / use.prompt_tokens
    if use.hits:
        rate, tokens = use.hits / use.requests, use.cached_tokens / use.hits
        how = f"{use.hits:,.0f} of {use.requests:,.0f} requests had some, {tokens:,.0f} tokens each"
    else:
        rate, tokens = share, use.prompt_tokens / use.requests
        how = "totals only: which requests had them is not known"
    note = f"{share:.1%} of prompt tokens were cached, with the caches and the router of the logged fleet; {how}"
    figures = f"shared_prefix_tokens: {max(1, round(tokens))}, prefix_hit_rate: {_percent(rate)}"
    return [comment(note, "    "), f"    caching: {{{figures}}}"]


def _reuse(curve: ReuseCurve) -> list[str]:
    """The curve as a comment, and as figures only what every replica finds: the prefix that all requests share."""
    sizes = [f"{100 * share:.1f}% in {size:,}" for size, share in curve.by_blocks]
    notes = [
        f"prefix blocks of {BLOCK_TOKENS} tokens ready, by the blocks that one shared cache holds (exact LRU): "
        + ", ".join(sizes[:4]),
        "  " + ", ".join([*sizes[4:], f"{100 * curve.endless:.1f}% without a limit"]),
        f"  of {curve.references:,} blocks, {curve.distinct:,} different; replicas behind a router that is blind to "
        "prefixes find less",
    ]
    lines = [comment(note, "    ") for note in notes]
    if curve.shared_blocks:
        tokens = curve.shared_blocks * BLOCK_TOKENS
        rate = _percent(curve.shared_frac)
        figures = f"shared_prefix_tokens: {tokens}, prefix_hit_rate: {rate}"
        lines.append(f"    caching: {{{figures}}}   # what most requests begin with")
    return lines


def _percent(share: float) -> str:
    return f"{100 * min(1.0, max(0.0001, share)):.2f}".rstrip("0").rstrip(".") + "%"
