"""Workloads of a demand file as a Case holds them: rates by hour, length buckets, objectives, and what each lets the
optimizer do: caching, sharing, waiting, staying in a region, and shedding.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from planner.case.case import (
    API_KEEPS_S,
    CACHE_KINDS,
    KV_TIERS,
    Bucket,
    LatencyTarget,
    ModelChoice,
    PrefixReuse,
    ReusePoint,
    Workload,
)
from planner.case.demand.load_sessions import check_sessions, session_lengths, sessions_of, turns_of
from planner.case.demand.load_speculation import drafts_of
from planner.case.demand.notes import Notes
from planner.case.demand.schema import MenuSpec
from planner.case.demand.spread_schema import Spread
from planner.case.demand.usage import Hours, LoggedHours, by_hour, spread_of, usage_hours
from planner.case.demand.workload_schema import Caching, Shed, WorkloadSpec
from planner.case.length_buckets import Lengths, buckets_from, given_lengths, must_hold, spread_lengths
from planner.catalog.entries import BATCH, CHAT, DEFAULT_BENCHMARK, ApiModel, Catalog, Offer, find, traffic_kinds
from planner.catalog.names import unknown_model
from planner.io.errors import InputError, Path, did_you_mean
from planner.io.named_files import NamedFiles
from planner.io.units import PERIOD_NAMES, Growth
from planner.logs.lengths import Marginals
from planner.logs.usage import Usage, read_usage_file
from planner.performance.length_spread import LengthSpread, quantile, slices
from planner.performance.sessions import Sessions

LONGEST_WAIT_H = 24.0
PENALTY_FACTORS = {"low": 3, "normal": 10, "high": 30}
"""penalty of a request that is shed, as a multiple of its price at the baseline"""
HOURS_PER_WEEK = 168
DEFAULT_SHAPE = "business-hours"
DEFAULT_VARIATION = 0.20
DEFAULT_BURSTINESS = traffic_kinds()[CHAT].burstiness
MOST_KNOWN_BURSTINESS = max(kind.burstiness for kind in traffic_kinds().values())
TIGHT_TTFT_S = 1.0
"""targets up to which bursts matter more than anything else"""
DEFAULT_PERCENTILE = 0.95
SHORT_ANSWER, LONG_ANSWER, LONG_PROMPT, MOST_IS_CACHED = 16.0, 2_000.0, 10_000.0, 0.5
"""mean tokens, and share of the prompt, by which the kind of a workload is guessed"""
DEFAULT_MAX_LOSS = 0.02
DEFAULT_INPUT = LengthSpread(p50=1020.0, p95=2316.0)
DEFAULT_OUTPUT = LengthSpread(p50=129.0, p95=660.0)
"""p50 and the p95 of a log-normal with that median and the mean of the trace: 1,155 and 211 tokens"""
LOG_NORMAL_MEAN = "of a log-normal distribution through p50 and p95; it may be off by a quarter"


@dataclass(frozen=True)
class Surroundings:
    """What a workload's levers are read against."""

    catalog: Catalog
    menu: MenuSpec
    offers: dict[str, Offer]
    """on the menu"""
    baseline: str
    baseline_api: ApiModel | None
    """None where there is no such API model, which is complained about elsewhere"""


def levers_of(
    w: WorkloadSpec,
    k: int,
    buckets: tuple[Bucket, ...],
    mean_rps: float,
    around: Surroundings,
    notes: Notes,
) -> dict[str, Any]:
    """The fields of a case's workload that say what may be done with it; `mean_rps` is its mean rate over a week."""
    _check_residency(w, ("workloads", k), around, notes)
    menu, caching = around.menu, w.caching
    if caching.prefix_hit_rate and caching.prefix_reuse is None and w.sessions is None:
        why = "the hit rate is assumed not to depend on the replicas' memory or on the router; with a curve it does"
        notes.assume(f"workloads.{w.name}.caching.prefix_reuse", "none", why)
    deadline_h = None if w.deadline is None else w.deadline / 3600
    return {
        "shared_prefix_tokens": float(caching.shared_prefix_tokens),
        "prefix_hit_frac": caching.prefix_hit_rate,
        "prefixes": float(caching.prefixes),
        "prefix_reuse": _reuse(caching, w.name, buckets, mean_rps, notes) if caching.prefix_reuse else None,
        "template_tokens": float(caching.template_tokens),
        "template_hit_frac": caching.template_hit_rate,
        "semantic_hit_frac": caching.semantic_hit_rate,
        "caching": caching_options(caching, menu.caching, w.sessions is not None),
        "sharing": w.tenancy == "shared" and "shared" in menu.tenancy,
        "adapter_gb": w.adapter.size if w.adapter else None,
        "deadline_h": _wait_h(w, deadline_h, notes) if menu.defer else None,
        "api_wait_h": deadline_h or 0.0 if menu.api_batch else 0.0,
        "regions": w.regions,
        "providers": w.providers,
        "shed_usd_per_request": _penalty(w.shed, k, w.name, buckets, around, notes) if w.shed else None,
        "api_allowed": _api_allowed(w, notes),
        "smaller_apis_forbidden": True if w.api == "no-smaller" else None,
        "api_tier": w.api_tier,
        "baseline": w.baseline,
    }


def caching_options(caching: Caching, allowed: tuple[str, ...] | None, sessions: bool = False) -> tuple[str, ...]:
    """No cache, and every combination of the kinds that the workload describes and the menu allows."""
    rates = {
        "prefix": caching.prefix_hit_rate or (caching.prefix_reuse is not None) or sessions,
        "template": caching.template_hit_rate,
        "semantic": caching.semantic_hit_rate,
    }
    rates |= dict.fromkeys(caching.kv_tiers, True)
    kinds = [kind for kind in CACHE_KINDS if rates.get(kind) and (allowed is None or kind in allowed)]
    several = (c for n in range(1, len(kinds) + 1) for c in combinations(kinds, n))
    return ("none", *("+".join(c) for c in several if "prefix" in c or not set(c) & set(KV_TIERS)))


def _reuse(caching: Caching, name: str, buckets: tuple[Bucket, ...], mean_rps: float, notes: Notes) -> PrefixReuse:
    """The curve with the tokens a second that it was measured at."""
    spec, key = caching.prefix_reuse, f"workloads.{name}.caching.prefix_reuse"
    assert spec is not None
    if spec.requests_per_s is None:
        why = (
            "the curve is assumed to be measured at the workload's own mean rate; prompts come back after the same time"
        )
        notes.assume(f"{key}.requests_per_s", f"{mean_rps:.4g}", f"{why}, however many others there are")
    rate = spec.requests_per_s or mean_rps
    tokens = sum(b.share_frac * b.input_tokens for b in buckets)
    points = tuple(ReusePoint(cache_tokens=float(p.tokens), hit_frac=p.hit_rate) for p in spec.curve)
    reuse = PrefixReuse(points=points, tokens_per_s=max(rate * tokens, 1e-9))
    kept = reuse.found_frac(API_KEEPS_S * reuse.tokens_per_s)
    why = "API bills count no reuse beyond it, since a provider sees only what it is sent; one that is sent everything"
    why = f"{why} and keeps prompts for {API_KEEPS_S / 60:g} min would find about {kept:.0%} of prompt tokens"
    notes.assume(f"{key}, on APIs", "the shared prefix", why)
    return reuse


def _wait_h(w: WorkloadSpec, deadline_h: float | None, notes: Notes) -> float | None:
    """Hours that work may move; a plan repeats its days, so they hold no longer wait."""
    if deadline_h is None or deadline_h <= LONGEST_WAIT_H:
        return deadline_h
    why = "a plan consists of days that repeat, so work moves by a day at most"
    notes.assume(f"workloads.{w.name}.deadline", f"{LONGEST_WAIT_H:g} h", why)
    return LONGEST_WAIT_H


def _check_residency(w: WorkloadSpec, path: Path, around: Surroundings, notes: Notes) -> None:
    """Complain about places that are not on the menu, or that leave nothing of it."""
    left, wrong = list(around.offers.values()), not around.offers
    for name, given in (("provider", w.providers), ("region", w.regions)):
        on_menu = sorted({getattr(offer, name) for offer in around.offers.values()})
        known = {getattr(offer, name) for offer in around.catalog.offers.values()}
        for i, value in enumerate(given or ()):
            if on_menu and value not in on_menu:
                remedy = f"Add it to 'menu: {name}s'" if value in known else did_you_mean(value, on_menu)
                notes.complain((*path, f"{name}s", i), f"no instance on the menu has the {name} '{value}'", remedy)
                wrong = True
        left = [offer for offer in left if given is None or getattr(offer, name) in given]
    if not left and not wrong:
        message = "together with 'providers', this leaves no instance on the menu"
        notes.complain((*path, "regions"), message, "Widen one of the two")


def _api_allowed(w: WorkloadSpec, notes: Notes) -> bool:
    """Data that must stay somewhere does not go to an API unless the user says that it may."""
    if "api" not in w.model_fields_set and (w.regions or w.providers):
        why = "its data must stay within 'regions' and 'providers'; write api: allowed if the API is there too"
        notes.assume(f"workloads.{w.name}.api", "forbidden", why)
        return False
    return w.api != "forbidden"


def _penalty(
    shed: Shed, k: int, name: str, buckets: tuple[Bucket, ...], around: Surroundings, notes: Notes
) -> float | None:
    """USD of turning one request away."""
    if shed.penalty_per_1k_requests is not None:
        return shed.penalty_per_1k_requests / 1000
    api, factor = around.baseline_api, PENALTY_FACTORS[shed.priority or "high"]
    if api is None:
        return None
    usd = sum(b.share_frac * api.usd(b.input_tokens, 0.0, b.output_tokens) for b in buckets)
    if usd <= 0:
        message = f"cannot be priced: {around.baseline} charges nothing for a request"
        notes.complain(("workloads", k, "shed", "priority"), message, "Write {penalty_per_1k_requests: $5}")
        return None
    why = (
        f"{factor} times what {around.baseline} charges for its mean request with nothing cached; not part of any cost"
    )
    notes.assume(f"workloads.{name}.shed.priority", f"${1000 * factor * usd:.4g} per 1k requests", why)
    return factor * usd


class WorkloadReader:
    def __init__(
        self, around: Surroundings, files: NamedFiles, notes: Notes, names: frozenset[str], zone: str | None
    ) -> None:
        self.around, self.files, self.notes, self.names, self.zone = around, files, notes, names, zone
        self.logs: dict[tuple[object, ...], Usage] = {}
        """by their names and columns, each read once"""
        self.logged: dict[str, LoggedHours] = {}
        """what logs have, by workload"""

    def workload(self, w: WorkloadSpec, k: int) -> Workload:
        path, key = ("workloads", k), f"workloads.{w.name}"
        models = []
        for m, choice in enumerate(w.models):
            name = find(choice.name, self.around.catalog.models)
            if name is None:
                known = self.around.catalog.models
                self.notes.unknown((*path, "models", m), "model", choice.name, known, unknown_model(choice.name, known))
            else:
                models.append(ModelChoice(model=name, quality_loss_frac=choice.quality_loss))
        sessions = None if w.sessions is None else sessions_of(w.sessions, float(w.caching.shared_prefix_tokens))
        if sessions is not None and models:
            contexts = [self.around.catalog.models[m.model].max_context_tokens for m in models]
            check_sessions(w, sessions, path, contexts, self.notes)
        hours = self._hours(w, path, key, sessions)
        if w.quality is None:
            self.notes.assume(f"{key}.quality.max_loss", f"{DEFAULT_MAX_LOSS:.0%}", "no quality limit was given")
        if w.spot is None:
            self.notes.assume(
                f"{key}.spot.critical_share", "100%", "all requests are assumed to be critical, so spot is not used"
            )
        if w.forecast.growth is not None:
            self.notes.assume(f"{key}.forecast.growth", *_unrolled(w.forecast.growth))
        rate_cv = w.forecast.variation
        if rate_cv is None:
            rate_cv = hours.variation if hours.variation is not None else DEFAULT_VARIATION
            why = (
                "public ServeGen traces vary by 20% to 35% around their hourly means"
                if hours.variation is None
                else "from the log: day to day, and within the hour (12% as in ServeGen traces where it shows none)"
                if w.forecast.csv is not None
                else "day to day from the hours given, 12% within the hour (ServeGen traces)"
            )
            self.notes.assume(f"{key}.forecast.variation", f"{rate_cv:.0%}", why)
        lengths = self._admitted(w, path, key, self._lengths(w, key, hours.lengths, sessions), models)
        buckets, limit = lengths.buckets, lengths.length_limit
        admitted = 1 - (limit.refused_frac if limit else 0.0)
        kind = self._kind(w, buckets, key)
        ttft = self._objective(w, "ttft", kind, key)
        mean_rps = (5 * sum(hours.weekday_rps) + 2 * sum(hours.weekend_rps)) / HOURS_PER_WEEK
        return Workload(
            name=w.name,
            team=w.team,
            models=tuple(models),
            weekday_rps=hours.weekday_rps,
            weekend_rps=hours.weekend_rps,
            growth_per_month_frac=w.forecast.monthly_growth_frac,
            log_days=w.forecast.log_days or hours.log_days,
            rate_cv=rate_cv,
            arrival_scv=self._burstiness(w, kind, key),
            **lengths.fields,
            ttft=ttft,
            ttft_prompt_tokens=_prompt_at(lengths, ttft.percentile, admitted),
            tpot=self._objective(w, "tpot", kind, key),
            e2e=_target(w.slo.given("e2e")),
            e2e_per_token=_target(w.slo.given("e2e_per_token")),
            max_quality_loss_frac=w.quality.max_loss if w.quality else DEFAULT_MAX_LOSS,
            quality_benchmark=w.quality.benchmark if w.quality and w.quality.benchmark != DEFAULT_BENCHMARK else None,
            unmeasured_forbidden=True if w.quality and w.quality.unmeasured == "forbidden" else None,
            critical_share_frac=w.spot.critical_share if w.spot else 1.0,
            sessions=sessions,
            drafts=drafts_of(w, models, self.around.menu, self.around.catalog, self.notes),
            **levers_of(w, k, buckets, admitted * mean_rps, self.around, self.notes),
        )

    def _kind(self, w: WorkloadSpec, buckets: tuple[Bucket, ...], key: str) -> str:
        """As given, or guessed; code completion looks like chat by its lengths, so it is never guessed."""
        if w.kind is not None:
            return w.kind
        if w.sessions is not None:
            self.notes.assume(
                f"{key}.kind", "agent", "it has sessions; it sets what is not given, write 'kind' to change"
            )
            return "agent"
        prompt = sum(b.share_frac * b.input_tokens for b in buckets)
        answer = sum(b.share_frac * b.output_tokens for b in buckets)
        if w.deadline is not None:
            kind, seen = "batch", "it has a deadline"
        elif answer <= SHORT_ANSWER:
            kind, seen = "classification", f"answers have {answer:.0f} tokens on average"
        elif answer >= LONG_ANSWER:
            kind, seen = "reasoning", f"answers have {answer:,.0f} tokens on average"
        elif prompt >= LONG_PROMPT and _cached_share(w, buckets, prompt) >= MOST_IS_CACHED:
            kind, seen = "agent", f"prompts have {prompt:,.0f} tokens on average, most of them cached"
        else:
            kind, seen = CHAT, f"answers have {answer:,.0f} tokens on average"
        pace = w.slo.given("tpot") or w.slo.given("e2e") or w.slo.given("e2e_per_token")
        objectives = w.slo.given("ttft") and pace
        if w.forecast.burstiness is None or not objectives:
            why = (
                f"guessed, because {seen}; it sets the burstiness and objectives that are not given; write 'kind' to "
                "change it"
            )
            self.notes.assume(f"{key}.kind", kind, why)
        return kind

    def _burstiness(self, w: WorkloadSpec, kind: str, key: str) -> float:
        """As given, or that of the workload's kind of traffic."""
        given, key = w.forecast.burstiness, f"{key}.forecast.burstiness"
        if given is not None:
            if given > MOST_KNOWN_BURSTINESS:
                why = (f"{given:g} is above what public traces show (code completion {MOST_KNOWN_BURSTINESS:g}); over "
                       "longer windows it counts swings of the rate as bursts: run 'fleetplan demand'")  # fmt: skip
                self.notes.assume(f"{key}.window", "a minute", why)
            return given
        usual = traffic_kinds()[kind]
        if w.kind is None:
            known = f"chat traces show 1.1 to 6, code completion {MOST_KNOWN_BURSTINESS:g}"
            why = f"squared CV of gaps inside a minute; {known}"
        else:
            why = f"of kind {w.kind}: {usual.source}, as of {usual.date}"
        target = w.slo.given("ttft")
        if w.kind is None and target is not None and target[0] <= TIGHT_TTFT_S:
            why += "; TTFT IS TIGHT: bursts decide how many replicas it takes, so measure burstiness from a log"
        self.notes.assume(key, f"{usual.burstiness:g}", why)
        return usual.burstiness

    def _hours(self, w: WorkloadSpec, path: Path, key: str, sessions: Sessions | None) -> Hours:
        """Requests/s by hour of a weekday and of a weekend day, and the variation that the input itself shows."""
        f = w.forecast
        if f.csv is not None:
            return self._from_csv(f.csv, f.columns, w.name, (*path, "forecast", "csv"), key)
        if f.hourly is not None:
            return _from_hourly(np.array(f.hourly) / 3600)
        name = f.shape or DEFAULT_SHAPE
        if f.shape is None:
            self.notes.assume(f"{key}.forecast.shape", DEFAULT_SHAPE, "no hourly figures and no shape were given")
        if name not in self.around.catalog.shapes:
            self.notes.unknown((*path, "forecast", "shape"), "shape", name, self.around.catalog.shapes)
            name = DEFAULT_SHAPE
        shape = self.around.catalog.shapes[name]
        weekday, weekend = np.array(shape.weekday), np.array(shape.weekend)
        per_day = (5 * weekday.sum() + 2 * weekend.sum()) / 7
        requests = f.requests_per_day or 0.0
        if f.sessions_per_day is not None and sessions is not None:
            requests = f.sessions_per_day * turns_of(sessions)
            self.notes.assume(f"{key}.forecast.requests_per_day", f"{requests:,.0f}", "sessions times their turns")
        scale = requests / per_day / 3600
        return Hours(tuple((weekday * scale).tolist()), tuple((weekend * scale).tolist()))

    def _from_csv(self, csv: str, columns: dict[str, str], workload: str, path: Path, key: str) -> Hours:
        try:
            file = self.files.beside(self.notes.document, path, csv)
            log = (csv, *sorted(columns.items()))
            if log not in self.logs:
                self.logs[log] = read_usage_file(file, self.names, columns)
            hours = usage_hours(self.logs[log], file, workload, self.zone)
        except InputError as error:
            self.notes.mistakes += error.diagnostics
            return Hours((1.0,) * 24, (1.0,) * 24)
        if hours.logged is not None:
            self.logged[workload] = hours.logged
        for note in hours.notes:
            self.notes.assume(f"{key}.forecast.csv", note, "as in the log; a gap is never read as no demand")
        return hours

    def _admitted(self, w: WorkloadSpec, path: Path, key: str, arriving: Lengths, models: list[ModelChoice]) -> Lengths:
        """Lengths of the requests that are let in, cut at the contexts of the models that may serve them."""
        contexts = [self.around.catalog.models[m.model].max_context_tokens for m in models]
        if not contexts:
            return arriving
        if arriving.input_spread is not None and arriving.output_spread is not None:
            lengths = spread_lengths(arriving.input_spread, arriving.output_spread, contexts, w.tokens.longest)
        else:
            lengths = given_lengths(arriving.buckets, contexts, w.tokens.longest)
        if not lengths.buckets:
            message, remedy = "refuses nearly all requests", "Give prompt and answer together, or leave it out"
            self.notes.complain((*path, "tokens", "longest"), message, remedy)
            return arriving
        limit = lengths.length_limit
        if w.tokens.longest is None and limit is not None:
            of = "the requests" if lengths.input_spread is None else "requests spread by these percentiles"
            why = f"the largest context of its models; {limit.refused_frac:.2%} of {of} are longer and are refused"
            self.notes.assume(f"{key}.tokens.longest", f"{limit.tokens:,} tokens", why)
        return lengths

    def _lengths(self, w: WorkloadSpec, key: str, logged: Marginals | None, sessions: Sessions | None) -> Lengths:
        """Buckets of all that arrive, and the distributions that they were cut from."""
        if sessions is not None:
            return Lengths(session_lengths(sessions))
        self._note_unused_tokens(w, key, logged)
        if w.tokens.buckets is not None:
            specs = (b for b in w.tokens.buckets if b.share > 0)
            each = (Bucket(share_frac=b.share, input_tokens=b.input, output_tokens=b.output) for b in specs)
            return Lengths(tuple(each))
        trace = "median and mean of the conversation trace of Azure's 2023 LLM inference traces"
        spreads = []
        for name, given, side, default in (
            ("input", w.tokens.input, logged.prompt if logged else None, DEFAULT_INPUT),
            ("output", w.tokens.output, logged.output if logged else None, DEFAULT_OUTPUT),
        ):
            if given is None and side is not None:
                default, basis = spread_of(side, "prompt" if name == "input" else name)
                self.notes.assume(f"{key}.tokens.{name}", f"mean {side.mean:,.0f}", f"from the log: {basis}")
            elif given is None:
                mean = _mean_of(default)
                self.notes.assume(f"{key}.tokens.{name}", f"p50 {default.p50:.0f}, mean {mean:.0f}", trace)
            spreads.append(_spread(given, default))
            if given is not None and given.mean is None and given.p95 > given.p50:
                value, where = f"{_mean_of(spreads[-1]):,.0f} tokens", f"'mean' under tokens.{name}"
                self.notes.assume(f"{key}.tokens.{name}.mean", value, f"{LOG_NORMAL_MEAN}; {where} replaces it")
        prompts, answers = spreads
        return Lengths(buckets_from(slices(prompts), slices(answers)), prompts, answers)

    def _note_unused_tokens(self, w: WorkloadSpec, key: str, logged: Marginals | None) -> None:
        """Say what the log has of lengths that the file gives."""
        sides = (("input", w.tokens.input, "prompt"), ("output", w.tokens.output, "output"))
        for name, given, side in sides:
            mean = getattr(logged, side).mean if logged is not None and getattr(logged, side) is not None else None
            if mean is not None and (given is not None or w.tokens.buckets is not None):
                value = f"{name} tokens of the log are not used: their mean is {mean:,.0f}"
                self.notes.assume(f"{key}.forecast.csv", value, "the file gives tokens")

    def _objective(self, w: WorkloadSpec, objective: str, kind: str, key: str) -> LatencyTarget:
        """As given, or of its kind; where the whole answer has an objective, none is assumed for its pace."""
        given, key = w.slo.given(objective), f"{key}.slo.{objective}_p95"
        if given is not None:
            return LatencyTarget(seconds=given[0], percentile=given[1])
        usual, whole = traffic_kinds()[kind if w.deadline is None else BATCH], w.slo.given("e2e")
        per_token = w.slo.given("e2e_per_token")
        if w.deadline is not None and objective == "ttft":
            seconds, value, why = w.deadline, f"{w.deadline / 3600:g} h", usual.tpot_why
        elif w.deadline is None and objective == "tpot" and per_token is not None:
            self.notes.assume(key, "none", "E2E per token is given, which no further token may take longer than")
            return LatencyTarget(seconds=per_token[0], percentile=per_token[1])
        elif w.deadline is None and objective == "tpot" and whole is not None:
            self.notes.assume(key, "none", "E2E is given, so a token may take as long as a whole answer")
            return LatencyTarget(seconds=whole[0], percentile=whole[1])
        else:
            seconds = usual.ttft_s if objective == "ttft" else usual.tpot_s
            reason = usual.ttft_why if objective == "ttft" else usual.tpot_why
            value = f"{seconds * 1000:g} ms" if seconds < 1 or w.deadline is None else f"{seconds:g} s"
            why = reason if w.deadline is not None else f"no objective was given; of kind {kind}: {reason}"
        self.notes.assume(key, value, why)
        return LatencyTarget(seconds=seconds, percentile=DEFAULT_PERCENTILE)


def _target(given: tuple[float, float] | None) -> LatencyTarget | None:
    return None if given is None else LatencyTarget(seconds=given[0], percentile=given[1])


def _cached_share(w: WorkloadSpec, buckets: tuple[Bucket, ...], prompt: float) -> float:
    """Share of the prompt tokens that a cache may find."""
    if w.caching.prefix_reuse is not None:
        return w.caching.prefix_reuse.curve[-1].hit_rate
    prefix = sum(b.share_frac * min(b.input_tokens, w.caching.shared_prefix_tokens) for b in buckets)
    return w.caching.prefix_hit_rate * prefix / prompt


def _mean_of(spread: LengthSpread) -> float:
    return sum(share * tokens for share, tokens in slices(spread))


def _spread(given: Spread | None, default: LengthSpread) -> LengthSpread:
    return default if given is None else LengthSpread(p50=given.p50, p95=given.p95, mean=given.mean)


def _prompt_at(lengths: Lengths, percentile: float, admitted: float) -> float:
    """The prompt length at a percentile: of the distribution, or the longest bucket that it reaches.

    Of what arrives the longest prompts are refused, so a percentile of the others is a lower one of all.
    """
    if lengths.input_spread is not None:
        return quantile(lengths.input_spread, percentile * admitted)
    bound = must_hold(lengths.buckets, percentile)
    return max(b.input_tokens for b, binds in zip(lengths.buckets, bound, strict=True) if binds)


def _from_hourly(rps: np.ndarray) -> Hours:
    days = rps.reshape(-1, 24)
    if len(days) == 7:
        weekend, hour = np.repeat(np.arange(7) >= 5, 24), np.tile(np.arange(24), 7)
        return by_hour(weekend, hour, rps)
    return Hours(tuple(days[0].tolist()), tuple(days[-1].tolist()))


def _unrolled(growth: Growth) -> tuple[str, str]:
    """What growth comes to from month to month, and at the first month of each quarter."""
    each = growth.per_month_frac
    quarters = ", ".join(f"x{(1 + each) ** (3 * q):.3g}" for q in range(5))
    given = f"{100 * growth.frac:+.4g}% a {PERIOD_NAMES[growth.months]}, compounded by the month"
    why = f"{given}: quarters begin at {quarters} of the first month"
    return f"{100 * each:+.3g}% a month", why
