"""Workloads of a demand file as a Case holds them: rates by hour, length buckets, objectives and levers."""

from __future__ import annotations

import numpy as np

from planner.case.case import Bucket, LatencyTarget, ModelChoice, Workload
from planner.case.demand.diagnostics import Diagnostics
from planner.case.demand.load_levers import Surroundings, levers_of
from planner.case.demand.logged_lengths import spread_of
from planner.case.demand.usage import Hours, LoggedHours, by_hour, usage_hours
from planner.case.demand.workload_schema import Spread, WorkloadSpec
from planner.case.length_buckets import Lengths, buckets_from, given_lengths, must_hold, spread_lengths
from planner.catalog.entries import CHAT, DEFAULT_BENCHMARK, find, traffic_kinds
from planner.catalog.names import unknown_model
from planner.io.errors import InputError, Path
from planner.io.named_files import NamedFiles
from planner.logs.lengths import Marginals
from planner.logs.usage import Usage, read_usage_file
from planner.performance.length_spread import LengthSpread, quantile, slices

HOURS_PER_WEEK = 168
DEFAULT_SHAPE = "business-hours"
DEFAULT_VARIATION = 0.20
DEFAULT_BURSTINESS = traffic_kinds()[CHAT].burstiness
MOST_KNOWN_BURSTINESS = max(kind.burstiness for kind in traffic_kinds().values())
TIGHT_TTFT_S = 1.0
"""targets up to which bursts matter more than anything else"""
DEFAULT_TTFT_S, DEFAULT_TPOT_S, DEFAULT_PERCENTILE = 2.0, 0.05, 0.95
WAITING_TPOT_S = 1.0
"""of work with a deadline: so slow that it never binds"""
DEFAULT_MAX_LOSS = 0.02
DEFAULT_INPUT = LengthSpread(p50=1020.0, p95=2316.0)
DEFAULT_OUTPUT = LengthSpread(p50=129.0, p95=660.0)
"""p50 and the p95 of a log-normal with that median and the mean of the trace: 1,155 and 211 tokens"""
LOG_NORMAL_MEAN = "of a log-normal through p50 and p95, which may be off by a quarter"


class WorkloadReader:
    def __init__(
        self, around: Surroundings, files: NamedFiles, found: Diagnostics, names: frozenset[str], zone: str | None
    ) -> None:
        self.around, self.files, self.found, self.names, self.zone = around, files, found, names, zone
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
                self.found.unknown((*path, "models", m), "model", choice.name, known, unknown_model(choice.name, known))
            else:
                models.append(ModelChoice(model=name, quality_loss_frac=choice.quality_loss))
        hours = self._hours(w, path, key)
        if w.quality is None:
            self.found.assume(f"{key}.quality.max_loss", f"{DEFAULT_MAX_LOSS:.0%}", "no quality limit was given")
        if w.spot is None:
            self.found.assume(f"{key}.spot.critical_share", "100%", "all requests are taken to be critical, so no spot")
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
            self.found.assume(f"{key}.forecast.variation", f"{rate_cv:.0%}", why)
        lengths = self._admitted(w, path, key, self._lengths(w, key, hours.lengths), models)
        buckets, limit = lengths.buckets, lengths.length_limit
        admitted = 1 - (limit.refused_frac if limit else 0.0)
        ttft = self._objective(w, "ttft", key)
        mean_rps = (5 * sum(hours.weekday_rps) + 2 * sum(hours.weekend_rps)) / HOURS_PER_WEEK
        return Workload(
            name=w.name,
            models=tuple(models),
            weekday_rps=hours.weekday_rps,
            weekend_rps=hours.weekend_rps,
            growth_per_month_frac=w.forecast.growth_per_month,
            rate_cv=rate_cv,
            arrival_scv=self._burstiness(w, key),
            **lengths.fields,
            ttft=ttft,
            ttft_prompt_tokens=_prompt_at(lengths, ttft.percentile, admitted),
            tpot=self._objective(w, "tpot", key),
            e2e=LatencyTarget(seconds=e2e[0], percentile=e2e[1]) if (e2e := w.slo.given("e2e")) else None,
            max_quality_loss_frac=w.quality.max_loss if w.quality else DEFAULT_MAX_LOSS,
            quality_benchmark=w.quality.benchmark if w.quality and w.quality.benchmark != DEFAULT_BENCHMARK else None,
            unmeasured_forbidden=True if w.quality and w.quality.unmeasured == "forbidden" else None,
            critical_share_frac=w.spot.critical_share if w.spot else 1.0,
            **levers_of(w, k, buckets, admitted * mean_rps, self.around, self.found),
        )

    def _burstiness(self, w: WorkloadSpec, key: str) -> float:
        """As given, or that of the workload's kind of traffic."""
        given, key = w.forecast.burstiness, f"{key}.forecast.burstiness"
        if given is not None:
            if given > MOST_KNOWN_BURSTINESS:
                why = (f"{given:g} is above what public traces show (code completion {MOST_KNOWN_BURSTINESS:g}); over "
                       "longer windows it counts swings of the rate as bursts: run 'fleetplan demand'")  # fmt: skip
                self.found.assume(f"{key}.window", "a minute", why)
            return given
        kind = traffic_kinds()[w.kind or CHAT]
        if w.kind is None:
            known = f"chat traces show 1.1 to 6, code completion {MOST_KNOWN_BURSTINESS:g}"
            why = f"squared CV of gaps inside a minute; {known}"
        else:
            why = f"of kind {w.kind}: {kind.source}, as of {kind.date}"
        target = w.slo.given("ttft")
        if w.kind is None and target is not None and target[0] <= TIGHT_TTFT_S:
            why += "; TTFT IS TIGHT: bursts decide how many replicas hold it, so measure it from a log"
        self.found.assume(key, f"{kind.burstiness:g}", why)
        return kind.burstiness

    def _hours(self, w: WorkloadSpec, path: Path, key: str) -> Hours:
        """Requests/s by hour of a weekday and of a weekend day, and the variation that the input itself shows."""
        f = w.forecast
        if f.csv is not None:
            return self._from_csv(f.csv, f.columns, w.name, (*path, "forecast", "csv"), key)
        if f.hourly is not None:
            return _from_hourly(np.array(f.hourly) / 3600)
        name = f.shape or DEFAULT_SHAPE
        if f.shape is None:
            self.found.assume(f"{key}.forecast.shape", DEFAULT_SHAPE, "no hourly figures and no shape were given")
        if name not in self.around.catalog.shapes:
            self.found.unknown((*path, "forecast", "shape"), "shape", name, self.around.catalog.shapes)
            name = DEFAULT_SHAPE
        shape = self.around.catalog.shapes[name]
        weekday, weekend = np.array(shape.weekday), np.array(shape.weekend)
        per_day = (5 * weekday.sum() + 2 * weekend.sum()) / 7
        scale = (f.requests_per_day or 0.0) / per_day / 3600
        return Hours(tuple((weekday * scale).tolist()), tuple((weekend * scale).tolist()))

    def _from_csv(self, csv: str, columns: dict[str, str], workload: str, path: Path, key: str) -> Hours:
        try:
            file = self.files.beside(self.found.document, path, csv)
            log = (csv, *sorted(columns.items()))
            if log not in self.logs:
                self.logs[log] = read_usage_file(file, self.names, columns)
            hours = usage_hours(self.logs[log], file, workload, self.zone)
        except InputError as error:
            self.found.diagnostics += error.diagnostics
            return Hours((1.0,) * 24, (1.0,) * 24)
        if hours.logged is not None:
            self.logged[workload] = hours.logged
        for note in hours.notes:
            self.found.assume(f"{key}.forecast.csv", note, "as the log is; a gap is never taken for no demand")
        return hours

    def _admitted(self, w: WorkloadSpec, path: Path, key: str, arriving: Lengths, models: list[ModelChoice]) -> Lengths:
        """Lengths of the requests that are let in, cut at the contexts of the models that may serve them."""
        contexts = [self.around.catalog.models[m.model].max_context_tokens for m in models]
        if not contexts:
            return arriving
        if arriving.input_spread is not None and arriving.output_spread is not None:
            found = spread_lengths(arriving.input_spread, arriving.output_spread, contexts, w.tokens.longest)
        else:
            found = given_lengths(arriving.buckets, contexts, w.tokens.longest)
        if not found.buckets:
            message, remedy = "refuses nearly all requests", "Count prompt and answer together, or leave it out"
            self.found.complain((*path, "tokens", "longest"), message, remedy)
            return arriving
        limit = found.length_limit
        if w.tokens.longest is None and limit is not None:
            of = "the requests" if found.input_spread is None else "requests spread by these percentiles"
            why = f"the largest context of its models; {limit.refused_frac:.2%} of {of} are longer and refused"
            self.found.assume(f"{key}.tokens.longest", f"{limit.tokens:,} tokens", why)
        return found

    def _lengths(self, w: WorkloadSpec, key: str, logged: Marginals | None) -> Lengths:
        """Buckets of all that arrive, and the distributions that they were cut from."""
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
                self.found.assume(f"{key}.tokens.{name}", f"mean {side.mean:,.0f}", f"from the log: {basis}")
            elif given is None:
                mean = _mean_of(default)
                self.found.assume(f"{key}.tokens.{name}", f"p50 {default.p50:.0f}, mean {mean:.0f}", trace)
            spreads.append(_spread(given, default))
            if given is not None and given.mean is None and given.p95 > given.p50:
                value, where = f"{_mean_of(spreads[-1]):,.0f} tokens", f"'mean' under tokens.{name}"
                self.found.assume(f"{key}.tokens.{name}.mean", value, f"{LOG_NORMAL_MEAN}; {where} replaces it")
        prompts, answers = spreads
        return Lengths(buckets_from(slices(prompts), slices(answers)), prompts, answers)

    def _note_unused_tokens(self, w: WorkloadSpec, key: str, logged: Marginals | None) -> None:
        """Say what the log has of lengths that the file gives."""
        sides = (("input", w.tokens.input, "prompt"), ("output", w.tokens.output, "output"))
        for name, given, side in sides:
            mean = getattr(logged, side).mean if logged is not None and getattr(logged, side) is not None else None
            if mean is not None and (given is not None or w.tokens.buckets is not None):
                value = f"{name} tokens of the log are not used: their mean is {mean:,.0f}"
                self.found.assume(f"{key}.forecast.csv", value, "the file gives tokens")

    def _objective(self, w: WorkloadSpec, kind: str, key: str) -> LatencyTarget:
        given = w.slo.given(kind)
        if given is not None:
            return LatencyTarget(seconds=given[0], percentile=given[1])
        if w.deadline is not None:
            seconds = w.deadline if kind == "ttft" else WAITING_TPOT_S
            shown, why = f"{seconds / 3600:g} h" if kind == "ttft" else f"{seconds:g} s", "nobody waits for batch work"
        else:
            seconds = DEFAULT_TTFT_S if kind == "ttft" else DEFAULT_TPOT_S
            shown, why = f"{seconds * 1000:g} ms", "no objective was given"
        self.found.assume(f"{key}.slo.{kind}_p95", shown, why)
        return LatencyTarget(seconds=seconds, percentile=DEFAULT_PERCENTILE)


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
