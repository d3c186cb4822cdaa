"""A demand file from logs: every figure with its basis beside it, and a mark at what is still to be decided."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from planner.case.demand.from_sessions import session_lines
from planner.case.demand.future_schema import LEAST_SPREAD_FRAC
from planner.case.demand.load_workloads import DEFAULT_BURSTINESS, DEFAULT_INPUT, DEFAULT_VARIATION
from planner.case.demand.usage import side_text, spread_of
from planner.case.demand.workload_schema import MOST_BURSTINESS, MOST_VARIATION
from planner.catalog.apis import Tier, api_model, api_named, tier_of_api, tier_of_model
from planner.catalog.entries import shipped_catalog
from planner.catalog.names import find_model
from planner.catalog.sellers import counted_sellers_of
from planner.io.errors import escaped, input_error, shortened, shown
from planner.io.formatting import counted
from planner.logs.lengths import LengthBucket, Lengths, Marginals
from planner.logs.measure import Measured, Workload, hour_notes
from planner.logs.reuse import BLOCK_TOKENS, ReuseCurve
from planner.logs.sessions import fitted
from planner.logs.statistics import WITHIN_HOUR_VARIATION
from planner.performance.length_spread import slices

MOST_FOUND = 0.9999
"""share of prompt tokens below which the planner takes a hit rate"""
DECIDE = "DECIDE"
"""marks what no log can tell"""
LIKE: dict[Tier | None, tuple[str, str]] = {
    "small": ("llama-3.1-8b", "openai/gpt-4o-mini"),
    "medium": ("qwen3-32b", "openai/gpt-4o"),
    "large": ("llama-3.3-70b", "openai/gpt-4o"),
    None: ("llama-3.1-8b", "openai/gpt-4o-mini"),
}
"""an open model and an API model by tier, where a log names only the other one; somebody must decide"""
LEAST_BURSTINESS, FEWEST_IN_PEAK = 0.05, 20.0
MOST_NAME = 80
"""characters that a demand file takes"""


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
            lines.append(f"      # {key}: {DECIDE}: the log does not say; this is the default")
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
        how = "totals only; the log does not show which requests had them"
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
    shares = [(size, share) for size, share in curve.by_blocks if 0 < share < curve.endless]
    shares.append((max([curve.distinct, *(size + 1 for size, _ in shares)]), curve.endless))
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
        for size, share in shares
    ]
    return lines


def _percent(share: float) -> str:
    return f"{100 * min(1.0, max(0.0001, share)):.2f}".rstrip("0").rstrip(".") + "%"


@dataclass(frozen=True)
class Variation:
    share: float
    basis: str


def demand_text(measured: Measured, name: str) -> str:
    """The text of a demand file that plans as it is."""
    check_name(name)
    names = _names(measured, name)
    lines = [*_head(measured), "workloads:"]
    used = [_used(workload) for workload in measured.workloads]
    most = used[max(range(len(used)), key=lambda k: measured.workloads[k].traffic.total)]
    for workload, title, its in zip(measured.workloads, names, used, strict=True):
        lines += _workload(workload, title, measured, its)
        if its.baseline != most.baseline:
            lines.append(f"    baseline: {its.baseline}   # {its.why_baseline}")
    guessed = [key for key in ("models", "baseline") if any(key in its.guessed for its in used)]
    lines += [
        "",
        f"menu: {{providers: [aws], regions: [us-east-1]}}   # {DECIDE}: where you may rent",
        f"baseline: {most.baseline}   # {most.why_baseline}",
    ]
    if guessed:
        lines.append(f"decide: [{', '.join(guessed)}]   # guessed above: check them, then remove this line")
    if measured.dated:
        lines.append(f"time_zone: {measured.options.zone}   # of the hours above")
    lines += _a_year_ahead(measured.workloads, names)
    return "\n".join(lines) + "\n"


def _a_year_ahead(workloads: Sequence[Workload], names: Sequence[str]) -> list[str]:
    """Scenarios to plan a year by, as comments: no log is as sure of a year as it is of next week."""
    if any(w.growth.per_month is None for w in workloads):
        return []  # the log is too short to say anything of a year
    spread = 1 + LEAST_SPREAD_FRAC
    lines = [
        "",
        comment(
            f"A year ahead, nothing is surer than {1 / spread - 1:.0%} to {spread - 1:+.0%} (P10 to P90): assumed, "
            f"{DECIDE}. To sign for a year, take these lines in:"
        ),
        "# starts: 2027-01-01",
        "# horizon: 4 quarters",
        "# scenarios:",
    ]
    for label, probability, times in (("P10", "30%", 1 / spread), ("P50", "40%", 1.0), ("P90", "30%", spread)):
        lines.append(f"#   - name: {label}")
        lines.append(f"#     probability: {probability}")
        if times != 1.0:
            lines.append("#     changes:")
            for w, name in zip(workloads, names, strict=True):
                growth = (1 + (w.growth.per_month or 0.0)) * times ** (1 / 12) - 1
                quote = '"' if "'" in name else "'"
                path = json.dumps(f"workloads.{quote}{name}{quote}.forecast.growth_per_month", ensure_ascii=False)
                lines.append(f"#       {path}: {100 * growth:+.2f}%")
    return lines


def check_name(name: str) -> None:
    """Refuse a name of a workload that no demand file may have."""
    if not name.strip() or len(name) > MOST_NAME or name != escaped(name):
        remedy = f"Write one line of 1 to {MOST_NAME} characters"
        raise input_error("--name", f"{shown(shortened(name, 60))} cannot be the name of a workload", remedy)


def _names(measured: Measured, name: str) -> list[str]:
    """Names of workloads, each once, and such as a demand file takes."""
    names: list[str] = []
    for w in measured.workloads:
        title = shortened(escaped(w.traffic.name).strip(), 70) if measured.options.by else name
        title = title or "(none)"
        while title in names:
            title += "'"
        names.append(title)
    return names


def _head(measured: Measured) -> list[str]:
    ledger, options = measured.ledger, measured.options
    formats = ", ".join(f"{n} x {name}" for name, n in ledger.formats.items())
    lines = [
        "Demand from logs. Plan it with:   fleetplan plan THIS-FILE",
        f"Read: {formats}; {counted(ledger.rows, 'row')}. Hours are those of {options.zone}"
        + (f", with {counted(len(options.holidays), 'holiday')} as weekend days." if options.holidays else "."),
        *ledger.left_out_lines(),
        *ledger.notes,
        f"Lines with {DECIDE} are defaults that no log can tell: models, objectives, where to rent.",
    ]
    if not measured.dated:
        lines.insert(2, "The log has no dates: it is assumed to begin on a Monday at 0h.")
    return [comment(line) for line in lines] + [""]


def _workload(w: Workload, title: str, measured: Measured, used: Used) -> list[str]:
    t = w.traffic
    name = json.dumps(title, ensure_ascii=False)
    lines = [f"  - name: {name}", f"    models: [{used.model}]   # {used.why_model}", "    forecast:"]
    rate = t.total / max(1.0, t.span_s)
    volume = f"{counted(t.total, 'request')} in {_span(t.span_s)}, {_number(rate)} a second on average"
    lines.append(comment(volume, " " * 6))
    lines += _rates(w)
    growth = f"{100 * w.growth.per_month:+.1f}%" if w.growth.per_month else "0%"
    mark = f"{DECIDE}: not measured, " if w.growth.per_month is None else ""
    lines.append(f"      growth_per_month: {growth}   # {mark}{w.growth.basis}")
    variation = variation_of(w)
    lines.append(f"      variation: {100 * variation.share:.1f}%   # {variation.basis}")
    lines.append(f"      burstiness: {_burstiness(w)}")
    sessions = measured.sessions if len(measured.workloads) == 1 else None
    if sessions is None:
        lines += ["    tokens:", *token_lines(t.lengths)]
    else:
        lines += session_lines(sessions, fitted(sessions))
    lines.append(
        f"    # slo: {{ttft_p95: 2s, tpot_p95: 50ms}}   # {DECIDE}: what you promised your users; assumed if left out"
    )
    if sessions is not None:
        return lines
    lines += caching_lines(w, measured.reuse if len(measured.workloads) == 1 else None)
    if title == "batch":
        lines.append(f"    # deadline: 24h   # {DECIDE}: batch work that may wait")
    return lines


@dataclass(frozen=True)
class Used:
    """The models to plan with and to compare with, as far as a log names them."""

    model: str
    why_model: str
    baseline: str
    why_baseline: str
    guessed: tuple[str, ...]


def _used(w: Workload) -> Used:
    """The catalog's name of the model most used, or one of the tier of the API that was; and the other way round."""
    models = shipped_catalog().models
    seen = [(name, n) for name, n in w.traffic.models if name]
    total = max(1.0, w.traffic.total)
    parts = ", ".join(f"{shown(name)} {n / total:.0%}" for name, n in seen[:3])
    known = next(((key, n) for name, n in seen if (key := find_model(name, models))), None)
    api = next((api for name, _ in seen if not find_model(name, models) and (api := api_named(name))), None)
    if known is None:
        tier = tier_of_api(api) if api else None
        model, baseline = LIKE[tier]
        why = f"the log names {parts}, which the catalog does not host" if seen else "the log names no model"
        why = f"{why}; this is an open model of the same tier ({tier})" if tier else why
        if api is None:
            return Used(
                model, f"{DECIDE}: {why}", baseline, f"{DECIDE}: the API model to compare with", ("models", "baseline")
            )
        return Used(model, f"{DECIDE}: {why}", api, f"of the log{_in_words(tier)}", ("models",))
    model, n = known
    guessed: tuple[str, ...] = ()
    why = "from the log"
    if n < 0.999 * total:
        hint = "" if w.traffic.name and len(seen) == 1 else "; --by model splits it"
        why, guessed = f"{DECIDE}: the log mixes {parts}{hint}", ("models",)
    tier = tier_of_model(models[model])
    why = f"{why}{_in_words(tier)}"
    if api is not None:
        return Used(model, why, api, f"of the log{_in_words(tier_of_api(api))}", guessed)
    seller = _seller(model)
    if seller is not None:
        return Used(model, why, seller, f"the cheapest known seller of {model}, the model of the log", guessed)
    return Used(model, why, LIKE[tier][1], f"{DECIDE}: an API model of the same tier ({tier})", (*guessed, "baseline"))


def _in_words(tier: Tier | None) -> str:
    return f", a {tier} model" if tier else ""


def _seller(model: str) -> str | None:
    """Who of the known sellers asks least for a token in and one out."""

    def usd(name: str) -> float:
        prices = api_model(name)
        return prices.usd(1.0, 0.0, 1.0) if prices else math.inf

    return min(counted_sellers_of([(model, shipped_catalog().models[model])]), key=lambda x: (usd(x), x), default=None)


def _rates(w: Workload) -> list[str]:
    r = w.rates
    if r.flat:
        per_day = _number(24 * r.weekday[0])
        return [
            f"      requests_per_day: {per_day}   # {DECIDE}: the log is too short for hours of the day, its mean rate",
            f"      shape: flat                  # {DECIDE}: is used for all of them",
            f"      log_days: {_number(r.days)}",
        ]
    lines = [
        comment(f"requests per hour, means of the last {r.latest_days:.3g} days of known hours", " " * 6),
        *(comment(note, " " * 6) for note in hour_notes(w)),
        "      hourly: [",
    ]
    for kind, values in (("weekday from 0h on", r.weekday), ("weekend day", r.weekend)):
        for start in (0, 12):
            part = ", ".join(_number(x) for x in values[start : start + 12])
            lines.append(f"        {part},{f'   # {kind}' if start == 0 else ''}")
    return [
        *lines,
        "      ]",
        f"      log_days: {_number(r.days)}   # fewer than 28 are not enough to sign commitments on",
    ]


def variation_of(w: Workload) -> Variation:
    """Swings within the hour and from day to day, together."""
    s = w.swings
    if s.variation is None:
        return Variation(DEFAULT_VARIATION, f"{DECIDE}: too few or too coarse counts to measure swings; the default")
    within = WITHIN_HOUR_VARIATION if s.within_cv is None else s.within_cv
    parts = [f"{within:.1%} within the hour (not measured: as in public traces)"]
    if s.within_cv is not None:
        where = "around the mean of the log" if w.rates.flat else "within the hour"
        parts = [f"{within:.1%} by {_step(s.within_s)} {where}, beyond the noise of counts"]
    if s.ten_minutes_cv is not None and s.within_s != 600:
        parts.append(f"{s.ten_minutes_cv:.1%} by ten minutes")
    parts.append("day to day not measured" if s.daily_cv is None else f"{s.daily_cv:.1%} day to day")
    if w.traffic.total / max(1.0, w.traffic.span_s) * w.traffic.step_s >= FEWEST_IN_PEAK:
        parts.append(f"busiest {_step(w.traffic.step_s)} {s.peak_ratio:.2f} times the mean")
    return Variation(min(MOST_VARIATION, s.variation), "; ".join(parts))


def _burstiness(w: Workload) -> str:
    b = w.bursts
    if b.scv is None:
        return f"{DEFAULT_BURSTINESS:g}   # {DECIDE}: not measured, {b.why_not}; the default of chat"
    overall = f"; CV of all gaps {b.overall_cv:.2f}" if b.overall_cv is not None else ""
    value = min(MOST_BURSTINESS, max(LEAST_BURSTINESS, b.scv))
    return f"{value:.3g}   # squared CV of {b.gaps:,} gaps over the mean gap of their {_step(b.window_s)}{overall}"


def _number(x: float) -> str:
    """Four significant digits, written out."""
    if x <= 0:
        return "0"
    digits = max(0, 3 - math.floor(math.log10(x)))
    text = f"{round(x, 3 - math.floor(math.log10(x))):.{min(12, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} seconds"


def _step(seconds: int) -> str:
    names = {60: "minute", 300: "five minutes", 600: "ten minutes", 3600: "hour"}
    return names.get(seconds, f"{seconds} s")
