"""Profiles out of benchmark runs: whose measurement each run is, what it measures, and whether that can be; and profile
files, read and held against the datasheet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from planner.catalog.entries import Catalog, names_of
from planner.catalog.names import checkpoint, find_gpu, find_model, unknown_model
from planner.catalog.profile import MaxRate, MeasuredPoint, Profile, ProfileFile
from planner.catalog.variant import PARALLELISMS, TENSOR, Parallelism, Variant
from planner.io.errors import Diagnostic, InputError, did_you_mean, escaped, listed, shown
from planner.io.strict_yaml import Document, parse_yaml, read_yaml
from planner.io.validation import validate
from planner.performance.calibration.benchmark_runs import BenchPoint
from planner.performance.calibration.datasheet_limits import (
    Replica,
    beyond_limits,
    in_other_units,
    rate_beyond_limits,
    replica_of,
    too_large,
)
from planner.performance.machine_by_name import cannot_share
from planner.performance.memory import Layout, parallelism_of

ONE_REPLICA = "Benchmark one replica; a plan multiplies them"
NO_PIPELINES = "Measure tensor parallelism: plans have no pipelines"
ONE_WAY = "Add enable_expert_parallel=true to its metadata if it was on, or give --parallelism"
MOST_FAILED_FRAC = 0.1
KEPT_UP_FRAC = 0.9
"""of the arrivals: below it, requests of an open loop pile up"""
CHECK_DEPLOYMENT = "Check GPUs and quantization"
CHECK_UNITS = "Are these microseconds? Divide by 1,000: latencies are read in ms"
GIVE_MEANS = "Add the means beside them (ttft_ms, tpot_ms)"


@dataclass
class RunVariants:
    """The variant of each run; what is given here wins over what files say, and complaints are collected."""

    catalog: Catalog
    options: Mapping[str, str | None]
    gpus: int | None
    parallelism: Parallelism | None
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def variant(self, point: BenchPoint) -> Variant | None:
        if point.model is not None and self.options["model"] is None:
            named, stored = checkpoint(point.model, self.catalog.models, self.catalog.quantizations)
            point = replace(point, model=named or point.model, quantization=point.quantization or stored)
        model = self._named(point, "model", self.catalog.models, "model")
        gpu = self._named(point, "gpu", self.catalog.gpus, "GPU")
        quantization = self._named(point, "quantization", self.catalog.quantizations, "quantization", model)
        gpus = self.gpus if self.gpus is not None else point.gpus_per_replica
        if gpus is None:
            self._ask(point, "GPUs per replica", "--gpus-per-replica 1")
        elif gpus < 1:
            self._complain(point, f"a replica cannot have {gpus} GPUs", "Give --gpus-per-replica 1 or more")
            gpus = None
        if model is None or gpu is None or quantization is None or gpus is None:
            return None
        parallelism = self._parallelism(point, model, gpus)
        if parallelism is None:
            return None
        if point.sharing.drafts is not None:
            message = f"was measured with speculative decoding ({shown(point.sharing.drafts)})"
            self._complain(point, message, "Leave it out: drafts are predicted from runs without")
            return None
        variant = Variant(model, quantization, gpu, gpus, parallelism)
        cannot = cannot_share(variant, self.catalog.models[model])
        if cannot:
            self._complain(point, cannot, "Check --gpus-per-replica and --parallelism")
        return None if cannot else variant

    def _parallelism(self, point: BenchPoint, model: str, gpus: int) -> Parallelism | None:
        """How the GPUs shared the model: as the option says, the file's words, or its degrees of parallelism."""
        layout, mixture = point.sharing.layout(gpus), self.catalog.models[model].moe is not None
        words = self.parallelism or (point.sharing.parallelism or "").lower()
        if not mixture and layout.attention_copies > 1:
            message = (
                f"was measured on {layout.attention_copies} replicas together: {model} is not a mixture of experts"
            )
            self._complain(point, message, ONE_REPLICA)
            return None
        if words:
            parallelism = next((way for way in PARALLELISMS if way == words), None)
            if parallelism is None:
                self._complain(point, f"there is no parallelism {shown(words)}", f"Use {listed(PARALLELISMS)}")
            return parallelism
        if not mixture and layout.stages == 1:
            return TENSOR
        parallelism = parallelism_of(layout, gpus)
        if parallelism is None:
            remedy = NO_PIPELINES if layout.stages > 1 else ONE_WAY
            self._complain(point, f"{_in_degrees(layout)} on {gpus} GPUs: plans do not support this mix", remedy)
        return parallelism

    def _complain(self, point: BenchPoint, message: str, remedy: str) -> None:
        self.diagnostics.append(Diagnostic(point.file, point.line, None, "", message, remedy))

    def _named(
        self, point: BenchPoint, name: str, entries: Mapping[str, Any], what: str, model: str | None = None
    ) -> str | None:
        option = self.options[name]
        written = option if option is not None else getattr(point, name)
        if written is None:
            native = self.catalog.models[model].native_quantization if model is not None else None
            self._ask(point, what, f"--{name} {native or 'NAME'}")
            return None
        key = (find_gpu if name == "gpu" else find_model)(written, entries)
        if key is None:
            file, line = (f"--{name}", None) if option is not None else (point.file, point.line)
            message = f"there is no {what} {shown(written, 60)} in the catalog"
            short = written.rsplit("/", 1)[-1]
            known = unknown_model(short, entries) if name == "model" else did_you_mean(short, names_of(entries))
            remedy = known or f"Give --{name} NAME, or add it to a catalog of your own"
            self.diagnostics.append(Diagnostic(file, line, None, "", message, remedy))
        return key

    def _ask(self, point: BenchPoint, what: str, option: str) -> None:
        # The file as a whole lacks it, so a file of a thousand lines asks once.
        asked = Diagnostic(point.file, None, None, "", f"does not say the {what}", f"Give it with {option}")
        if asked not in self.diagnostics:
            self.diagnostics.append(asked)


def _in_degrees(layout: Layout) -> str:
    degrees = [f"{layout.attention_copies} x attention", f"{layout.expert_groups} x experts"]
    return listed([*degrees, *([f"{layout.stages} stages"] if layout.stages > 1 else [])], "and")


def make_profiles(
    points: Sequence[BenchPoint],
    *,
    catalog: Catalog,
    model: str | None = None,
    gpu: str | None = None,
    gpus_per_replica: int | None = None,
    parallelism: Parallelism | None = None,
    quantization: str | None = None,
) -> tuple[Profile, ...]:
    """A profile for each deployment that was measured; what is given here wins over what the files say."""
    names = {"model": model, "gpu": gpu, "quantization": quantization}
    runs = RunVariants(catalog, names, gpus_per_replica, parallelism)
    groups: dict[Variant, list[BenchPoint]] = {}
    for point in points:
        variant = runs.variant(point)
        if variant is not None:
            groups.setdefault(variant, []).append(point)
    maker = _Maker(catalog, runs.diagnostics)
    profiles = [maker.profile(variant, group) for variant, group in sorted(groups.items())]
    if not points:
        maker.diagnostics.append(Diagnostic("results", None, None, "", "there is nothing to calibrate from"))
    if maker.diagnostics:
        raise InputError(maker.diagnostics)
    return tuple(profile for profile in profiles if profile is not None)


@dataclass
class _Maker:
    catalog: Catalog
    diagnostics: list[Diagnostic]

    def complain(self, point: BenchPoint, message: str, remedy: str = "") -> None:
        self.diagnostics.append(Diagnostic(point.file, point.line, None, "", message, remedy))

    def profile(self, variant: Variant, group: Sequence[BenchPoint]) -> Profile | None:
        replica = replica_of(variant, self.catalog)
        reason = too_large(replica)
        if reason:
            self.complain(group[0], reason, "Check --gpu, --gpus-per-replica and --quantization")
            return None
        before = len(self.diagnostics)
        rates = [point for point in group if _is_max_rate(point)]
        runs = [point for point in group if not _is_max_rate(point)]
        if rates and runs:
            self.complain(
                rates[0],
                "gives a highest rate without latencies, next to runs that have them",
                "Calibrate tables of highest rates and benchmark runs separately",
            )
        points = [measured for point in runs if (measured := self._measured(point, replica))]
        table = self._table(rates, replica)
        if len(self.diagnostics) > before or not (points or table):
            return None
        return Profile(
            model=variant.model,
            quantization=variant.quantization,
            gpu=variant.gpu,
            gpus_per_replica=variant.gpus_per_replica,
            parallelism=None if variant.parallelism == TENSOR else variant.parallelism,
            engine=_joined(point.engine for point in group),
            source=_joined(escaped(point.file) for point in rates),
            date=max((point.date for point in rates if point.date), default=None),
            points=tuple(sorted(points, key=lambda p: (p.run, p.source or "", p.tpot_ms or 0.0))),
            max_rates=tuple(sorted(table, key=lambda r: (r.input_tokens, r.output_tokens))),
        )

    def _measured(self, point: BenchPoint, replica: Replica) -> MeasuredPoint | None:
        if point.failed and point.n_requests and point.failed > MOST_FAILED_FRAC * point.n_requests:
            self.complain(
                point,
                f"{point.failed} of {point.n_requests} requests failed, so the others had the replica to themselves",
                "Run it again with fewer requests in flight",
            )
            return None
        rate = _requests_per_s(point)
        tpot = point.tpot_ms.typical
        if tpot is None and rate is None and point.ttft_ms.typical is None and point.decode_step_ms is None:
            tails = [name for name, spread in point.latencies.items() if spread.is_tail_only]
            if tails:
                tails_only = (
                    f"gives percentiles of {listed(tails, 'and')} and no mean or median, from which nothing is fitted"
                )
                self.complain(point, tails_only, f"{GIVE_MEANS}, or output_tok_s")
            else:
                self.complain(point, "measures no latency and no rate", "Benchmark with streaming on")
            return None
        concurrency = point.concurrency or _in_flight(point, rate)
        if concurrency is None:
            self.complain(point, "says nothing about the requests in flight", "Add the concurrency to the file")
            return None
        measured = MeasuredPoint(
            input_tokens=_tidy(point.input_tokens),
            output_tokens=_tidy(point.output_tokens),
            concurrency=_tidy(concurrency),
            offered_per_s=_tidied(_offered_per_s(point, rate)),
            tpot_ms=_tidied(tpot),
            ttft_ms=_tidied(point.ttft_ms.typical),
            requests_per_s=_tidied(rate),
            decode_step_ms=_tidied(point.decode_step_ms),
            source=escaped(point.file),
            date=point.date,
        )
        # A tail is checked as if it were a mean: it is in the unit of all else, and of no mean where it stands alone.
        tail = measured.model_copy(update={"tpot_ms": point.tpot_ms.tail if tpot is None else tpot})
        units = list(in_other_units(replica, tail))
        broken = list(beyond_limits(replica, measured))
        for _, arithmetic in units:
            self.complain(point, arithmetic, CHECK_UNITS)
        for _, arithmetic in broken:
            self.complain(point, arithmetic, CHECK_DEPLOYMENT)
        return None if units or broken else measured

    def _table(self, points: Iterable[BenchPoint], replica: Replica) -> list[MaxRate]:
        table: dict[tuple[float, float], MaxRate] = {}
        for point in points:
            rate = MaxRate(
                input_tokens=_tidy(point.input_tokens),
                output_tokens=_tidy(point.output_tokens),
                requests_per_s=_tidy(_requests_per_s(point) or 0.0),
            )
            for _, arithmetic in rate_beyond_limits(replica, rate):
                self.complain(point, arithmetic, CHECK_DEPLOYMENT)
            earlier = table.setdefault((rate.input_tokens, rate.output_tokens), rate)
            if earlier != rate:
                both = f"{earlier.requests_per_s:g} and {rate.requests_per_s:g} requests/s"
                self.complain(point, f"repeats these lengths: {both}", "Keep one of the two")
        return list(table.values())


def _is_max_rate(point: BenchPoint) -> bool:
    latencies = (point.tpot_ms.typical, point.ttft_ms.typical, point.e2e_ms.typical, point.decode_step_ms)
    return point.concurrency is None and _requests_per_s(point) is not None and not any(latencies)


def _requests_per_s(point: BenchPoint) -> float | None:
    if point.requests_per_s is not None or point.output_tok_s is None:
        return point.requests_per_s
    return point.output_tok_s / point.output_tokens


def _in_flight(point: BenchPoint, rate: float | None) -> float | None:
    """Little's law. Of requests sent all at once, only the time after their long wait for a first token counts."""
    tpot, ttft = point.tpot_ms.typical, point.ttft_ms.typical
    if rate is None or tpot is None:
        return None
    waits = point.request_rate_per_s is None
    return max(1.0, rate * (point.output_tokens * tpot + (0.0 if waits or ttft is None else ttft)) / 1e3)


def _offered_per_s(point: BenchPoint, rate: float | None) -> float | None:
    """Arrivals, where the replica kept up with them; else it was full, as in a closed loop."""
    offered = point.request_rate_per_s
    return offered if offered is not None and rate is not None and rate >= KEPT_UP_FRAC * offered else None


def _joined(names: Iterable[str | None]) -> str | None:
    return ", ".join(sorted({name for name in names if name})) or None


def _tidy(value: float) -> float:
    """Six digits: more than any benchmark repeats, and few enough to read."""
    return float(f"{value:.6g}")


def _tidied(value: float | None) -> float | None:
    return None if value is None else _tidy(value)


def read_profiles(path: Path | str, catalog: Catalog) -> tuple[Profile, ...]:
    """The profiles of a YAML file; raises InputError with everything that is wrong with it."""
    return _checked(read_yaml(path), catalog)


def profiles_from_text(text: str, catalog: Catalog, file: str = "<text>") -> tuple[Profile, ...]:
    """Read a profile from YAML text."""
    return _checked(parse_yaml(text, file), catalog)


def _checked(document: Document, catalog: Catalog) -> tuple[Profile, ...]:
    written = validate(ProfileFile, document).profiles
    diagnostics: list[Diagnostic] = []
    resolved: list[Profile] = []
    for k, profile in enumerate(written):
        known, wrong = _resolved(profile, k, document, catalog)
        diagnostics += wrong
        if not wrong:
            if any(known.variant == other.variant for other in resolved):
                message = f"there are two profiles of {known.name}"
                diagnostics.append(document.diagnostic(("profiles", k), message, "Put all points into one of them"))
            diagnostics += _implausible(known, k, document, catalog)
        resolved.append(known)
    if diagnostics:
        raise InputError(diagnostics)
    return tuple(resolved)


def _resolved(profile: Profile, k: int, document: Document, catalog: Catalog) -> tuple[Profile, list[Diagnostic]]:
    kinds: dict[str, tuple[str, Mapping[str, Any]]] = {
        "model": ("model", catalog.models),
        "quantization": ("quantization", catalog.quantizations),
        "gpu": ("GPU", catalog.gpus),
    }
    keys: dict[str, str] = {}
    diagnostics = []
    for name, (what, entries) in kinds.items():
        value = getattr(profile, name)
        key = (find_gpu if name == "gpu" else find_model)(value, entries)
        if key is None:
            message = f"there is no {what} {shown(value)} in the catalog"
            remedy = unknown_model(value, entries) if name == "model" else did_you_mean(value, names_of(entries))
            diagnostics.append(document.diagnostic(("profiles", k, name), message, remedy))
        else:
            keys[name] = key
    return profile.model_copy(update=keys), diagnostics


def _implausible(profile: Profile, k: int, document: Document, catalog: Catalog) -> list[Diagnostic]:
    replica = replica_of(profile.variant, catalog)
    cannot = cannot_share(profile.variant, replica.model)
    if cannot:
        where = ("profiles", k, "parallelism") if profile.parallelism else ("profiles", k)
        return [document.diagnostic(where, cannot, "Check model, gpus_per_replica and parallelism")]
    reason = too_large(replica)
    if reason:
        return [document.diagnostic(("profiles", k), reason, "Check gpu, gpus_per_replica and quantization")]
    diagnostics = []
    for i, point in enumerate(profile.points):
        for name, arithmetic in beyond_limits(replica, point):
            diagnostics.append(document.diagnostic(("profiles", k, "points", i, name), arithmetic, CHECK_DEPLOYMENT))
        for name, arithmetic in in_other_units(replica, point):
            diagnostics.append(document.diagnostic(("profiles", k, "points", i, name), arithmetic, CHECK_UNITS))
    for i, rate in enumerate(profile.max_rates):
        for name, arithmetic in rate_beyond_limits(replica, rate):
            diagnostics.append(document.diagnostic(("profiles", k, "max_rates", i, name), arithmetic, CHECK_DEPLOYMENT))
    return diagnostics
