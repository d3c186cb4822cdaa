"""From a demand file to a Case: names resolved, defaults filled in and said, everything wrong at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from planner import api_prices
from planner.case import Assumption, Bucket, Case, Limits, ModelChoice, Objective, Workload
from planner.catalog import DEFAULT_ENGINE, ApiModel, Catalog, Offer, find, names_of
from planner.complaints import Complaint, InputError, did_you_mean
from planner.demand import DemandFile, WorkloadSpec
from planner.lengths import buckets_from, must_hold, quantile, slices
from planner.overrides import offers_called, own_catalog, repriced
from planner.profiles import Profile, read_profiles
from planner.strict_yaml import Document, parse_yaml, read_yaml
from planner.usage import by_hour, read_usage
from planner.validation import validate

DEFAULT_PROVIDERS = ("aws",)
DEFAULT_REGIONS = ("us-east-1",)
DEFAULT_PURCHASE = ("on-demand", "spot")
DEFAULT_SHAPE = "business-hours"
DEFAULT_VARIATION = 0.20
DEFAULT_BURSTINESS = 2.0
DEFAULT_TTFT_S, DEFAULT_TPOT_S, DEFAULT_PERCENTILE = 2.0, 0.05, 0.95
DEFAULT_MAX_LOSS = 0.02
DEFAULT_MIN_REPLICAS = 2
DEFAULT_INPUT = (1020.0, 2316.0)
DEFAULT_OUTPUT = (129.0, 660.0)
"""p50 and the p95 of a log-normal with that median and the mean of the trace: 1,155 and 211 tokens"""


def load_case(path: Path | str) -> Case:
    """Read a demand file; raises InputError with everything that is wrong with it."""
    return _Loader(read_yaml(path), Path(path).parent, Path(path).stem).case()


def case_from_text(text: str, file: str = "<text>") -> Case:
    """The same from YAML text."""
    return _Loader(parse_yaml(text, file), Path(), "case").case()


class _Loader:
    def __init__(self, document: Document, folder: Path, default_name: str) -> None:
        self.document = document
        self.folder = folder
        self.default_name = default_name
        self.complaints: list[Complaint] = []
        self.assumptions: list[Assumption] = []

    def case(self) -> Case:
        spec = validate(DemandFile, self.document)
        catalog = own_catalog(spec.catalog, self.document, self.folder)
        self._unique_names(spec)
        gpus = self._names(spec.menu.gpus, catalog.gpus, "GPU", ("menu", "gpus")) or tuple(catalog.gpus)
        quantizations = self._quantizations(spec, catalog)
        purchase = spec.menu.purchase or DEFAULT_PURCHASE
        offers = self._offers(spec, catalog, gpus)
        workloads = tuple(self._workload(w, k, catalog) for k, w in enumerate(spec.workloads))
        apis = self._apis(spec, catalog)
        limits = self._limits(spec, catalog, offers)
        engine = self._engine(spec, catalog)
        engineers = self._engineers(spec)
        self._menu_assumptions(spec, purchase)
        if self.complaints:
            raise InputError(self.complaints)
        gpus_used = sorted({offer.gpu for offer in offers.values()})
        baseline = next(iter(apis))
        return Case(
            name=spec.name or self.default_name,
            workloads=workloads,
            purchase=purchase,
            gpus={g: catalog.gpus[g] for g in gpus_used},
            offers=offers,
            models={c.model: catalog.models[c.model] for w in workloads for c in w.models},
            quantizations={q: catalog.quantizations[q] for q in quantizations},
            efficiency={g: catalog.efficiency_of(g) for g in gpus_used},
            engine_name=engine,
            engine=catalog.engines[engine],
            apis=apis,
            menu_apis=tuple(spec.menu.apis) if spec.menu.apis is not None else (baseline,),
            baseline=baseline,
            profiles=self._profiles(spec, catalog),
            limits=limits,
            engineers_usd_per_month=engineers,
            assumptions=tuple(self.assumptions),
        )

    # -- what the user did not say ------------------------------------------------------------------------

    def assume(self, key: str, value: str, why: str) -> None:
        self.assumptions.append(Assumption(key=key, value=value, why=why))

    def _menu_assumptions(self, spec: DemandFile, purchase: tuple[str, ...]) -> None:
        menu = spec.menu
        if menu.providers is None and menu.regions is None:
            self.assume("menu.regions", "aws us-east-1", "no provider or region was named")
        if menu.purchase is None:
            self.assume(
                "menu.purchase", ", ".join(purchase), "commitments outlive the quarter, so list them to use them"
            )
        if menu.gpus is None:
            self.assume("menu.gpus", "every GPU of the catalog", "no GPUs were named")
        self.assume(
            "horizon", "one quarter", "a representative weekday and weekend day of each month; a month is 730 h"
        )

    def complain(self, path: tuple[str | int, ...], message: str, remedy: str = "") -> None:
        self.complaints.append(self.document.complaint(path, message, remedy))

    def unknown(self, path: tuple[str | int, ...], what: str, name: str, known: Any) -> None:
        self.complain(path, f"there is no {what} '{name}' in the catalog", did_you_mean(name, known))

    # -- catalog and prices -------------------------------------------------------------------------------

    def _offers(self, spec: DemandFile, catalog: Catalog, gpus: tuple[str, ...]) -> dict[str, Offer]:
        providers, regions = spec.menu.providers, spec.menu.regions
        if providers is None and regions is None:
            providers, regions = DEFAULT_PROVIDERS, DEFAULT_REGIONS
        for name, given in (("provider", providers), ("region", regions)):
            known = sorted({getattr(o, name) for o in catalog.offers.values()})
            for k, value in enumerate(given or ()):
                if value not in known:
                    self.complain(
                        ("menu", f"{name}s", k), f"no offer has the {name} '{value}'", did_you_mean(value, known)
                    )
        offers = {key: self._with_known_gpu(key, offer, catalog) for key, offer in sorted(catalog.offers.items())}
        chosen = {
            key: offer
            for key, offer in offers.items()
            if offer.gpu in gpus
            and (providers is None or offer.provider in providers)
            and (regions is None or offer.region in regions)
        }
        matched_prices = {name: offers_called(name, chosen) for name in spec.prices}
        for name, keys in matched_prices.items():
            if not keys:
                on_menu = sorted({key.split("@")[0] for key in chosen})
                self.complain(
                    ("prices", name), f"no instance on the menu is called '{name}'", did_you_mean(name, on_menu)
                )
        for key in chosen:
            for name, keys in matched_prices.items():
                if key in keys:
                    chosen[key] = repriced(chosen[key], spec.prices[name], self.document.file)
        if not chosen and not self.complaints:
            self.complain(("menu",), "leaves no instance to rent", "Widen gpus, providers or regions")
        return chosen

    def _with_known_gpu(self, key: str, offer: Offer, catalog: Catalog) -> Offer:
        """The offer with its GPU by the catalog's name, which may have been written as an alias."""
        gpu = find(offer.gpu, catalog.gpus)
        if gpu is None:
            self.unknown(("catalog", "offers", key, "gpu"), "GPU", offer.gpu, list(names_of(catalog.gpus)))
            return offer
        return offer if gpu == offer.gpu else offer.model_copy(update={"gpu": gpu})

    # -- names --------------------------------------------------------------------------------------------

    def _unique_names(self, spec: DemandFile) -> None:
        seen: dict[str, int] = {}
        for k, w in enumerate(spec.workloads):
            if w.name in seen:
                self.complain(("workloads", k, "name"), f"'{w.name}' is the name of workload {seen[w.name] + 1} too",
                              "Give each workload its own name")  # fmt: skip
            seen.setdefault(w.name, k)

    def _names(self, given: Any, entries: Any, what: str, path: tuple[str | int, ...]) -> tuple[str, ...]:
        found = []
        for k, name in enumerate(given or ()):
            key = find(name, entries)
            if key is None:
                self.unknown((*path, k), what, name, list(names_of(entries)))
            elif key not in found:
                found.append(key)
        return tuple(found)

    def _quantizations(self, spec: DemandFile, catalog: Catalog) -> tuple[str, ...]:
        given = self._names(spec.menu.quantizations, catalog.quantizations, "quantization", ("menu", "quantizations"))
        if spec.menu.quantizations is None:
            given = tuple(catalog.quantizations)
            self.assume("menu.quantizations", ", ".join(given), "none were named; the quality limit decides")
        return given

    def _apis(self, spec: DemandFile, catalog: Catalog) -> dict[str, ApiModel]:
        apis: dict[str, ApiModel] = {}
        wanted: list[tuple[tuple[str | int, ...], str]] = [(("baseline",), spec.baseline)]
        wanted += [(("menu", "apis", k), name) for k, name in enumerate(spec.menu.apis or ())]
        for path, name in wanted:
            entry = catalog.apis.get(name) or api_prices.api_model(name)
            if entry is None:
                known = [*catalog.apis, *api_prices.known_api_models()]
                self.complain(path, f"there is no API model '{name}' with a price per token",
                              did_you_mean(name, known) or "Write provider/model: openai/gpt-4o-mini")  # fmt: skip
            else:
                apis[name] = entry
        return apis

    def _limits(self, spec: DemandFile, catalog: Catalog, offers: dict[str, Offer]) -> Limits:
        policy = spec.policy
        max_gpus: dict[str, int] = {}
        for name, most in policy.max_gpus.items():
            key = find(name, catalog.gpus)
            if key is None:
                self.unknown(("policy", "max_gpus", name), "GPU", name, list(names_of(catalog.gpus)))
            else:
                max_gpus[key] = most
        max_instances: dict[str, int] = {}
        for name, most in policy.max_instances.items():
            keys = offers_called(name, offers)
            if not keys:
                self.complain(("policy", "max_instances", name), f"no instance on the menu is called '{name}'",
                              did_you_mean(name, list(offers)))  # fmt: skip
            max_instances |= dict.fromkeys(keys, most)
        if policy.min_replicas is None:
            self.assume(
                "policy.min_replicas", str(DEFAULT_MIN_REPLICAS), "one replica alone is an outage when it fails"
            )
        return Limits(
            budget_usd_per_month=policy.budget_usd_per_month,
            max_gpus=max_gpus,
            max_instances=max_instances,
            min_replicas=policy.min_replicas or DEFAULT_MIN_REPLICAS,
            max_gpus_per_replica=spec.menu.max_gpus_per_replica,
        )

    def _profiles(self, spec: DemandFile, catalog: Catalog) -> tuple[Profile, ...]:
        return tuple(p for file in spec.profiles for p in read_profiles(self.folder / file, catalog))

    def _engine(self, spec: DemandFile, catalog: Catalog) -> str:
        key = find(spec.menu.engine, catalog.engines)
        if key is None:
            self.unknown(("menu", "engine"), "engine", spec.menu.engine, list(names_of(catalog.engines)))
        return key or DEFAULT_ENGINE

    def _engineers(self, spec: DemandFile) -> float:
        team = spec.policy.engineers
        if team is None:
            self.assume("policy.engineers", "none", "no cost of the people who run it is counted")
            return 0.0
        return team.count * team.usd_per_year / 12

    # -- workloads ----------------------------------------------------------------------------------------

    def _workload(self, w: WorkloadSpec, k: int, catalog: Catalog) -> Workload:
        path, key = ("workloads", k), f"workloads.{w.name}"
        models = []
        for m, choice in enumerate(w.models):
            name = find(choice.name, catalog.models)
            if name is None:
                self.unknown((*path, "models", m), "model", choice.name, list(names_of(catalog.models)))
            else:
                models.append(ModelChoice(model=name, quality_loss_frac=choice.quality_loss))
        weekday, weekend, measured_cv = self._hours(w, path, key, catalog)
        if w.quality is None:
            self.assume(f"{key}.quality.max_loss", f"{DEFAULT_MAX_LOSS:.0%}", "no quality limit was given")
        if w.spot is None:
            self.assume(f"{key}.spot.critical_share", "100%", "all requests are taken to be critical, so no spot")
        rate_cv = w.forecast.variation
        if rate_cv is None:
            rate_cv = measured_cv if measured_cv is not None else DEFAULT_VARIATION
            why = (
                "day to day from the hours given, 12% within the hour (ServeGen traces)"
                if measured_cv is not None
                else "public ServeGen traces vary by 20% to 35% around their hourly means"
            )
            self.assume(f"{key}.forecast.variation", f"{rate_cv:.0%}", why)
        if w.forecast.burstiness is None:
            why = "squared CV of arrival gaps; public traces show 1.1 to 6"
            self.assume(f"{key}.forecast.burstiness", f"{DEFAULT_BURSTINESS:g}", why)
        buckets = self._buckets(w, key)
        ttft = self._objective(w, "ttft", DEFAULT_TTFT_S, key)
        return Workload(
            name=w.name,
            models=tuple(models),
            weekday_rps=weekday,
            weekend_rps=weekend,
            growth_per_month_frac=w.forecast.growth_per_month,
            rate_cv=rate_cv,
            arrival_scv=w.forecast.burstiness or DEFAULT_BURSTINESS,
            buckets=buckets,
            shared_prefix_tokens=float(w.caching.shared_prefix_tokens),
            prefix_hit_frac=w.caching.prefix_hit_rate,
            ttft=ttft,
            ttft_prompt_tokens=_prompt_at(w, buckets, ttft.percentile),
            tpot=self._objective(w, "tpot", DEFAULT_TPOT_S, key),
            e2e=Objective(seconds=e2e[0], percentile=e2e[1]) if (e2e := w.slo.given("e2e")) else None,
            max_quality_loss_frac=w.quality.max_loss if w.quality else DEFAULT_MAX_LOSS,
            critical_share_frac=w.spot.critical_share if w.spot else 1.0,
            api_allowed=w.api == "allowed",
        )

    def _hours(
        self, w: WorkloadSpec, path: tuple[str | int, ...], key: str, catalog: Catalog
    ) -> tuple[tuple[float, ...], tuple[float, ...], float | None]:
        """Requests/s by hour of a weekday and of a weekend day, and the variation that the input itself shows."""
        f = w.forecast
        if f.csv is not None:
            return self._from_csv(f.csv, w.name, key)
        if f.hourly is not None:
            return _from_hourly(np.array(f.hourly) / 3600)
        name = f.shape or DEFAULT_SHAPE
        if f.shape is None:
            self.assume(f"{key}.forecast.shape", DEFAULT_SHAPE, "no hourly figures and no shape were given")
        if name not in catalog.shapes:
            self.unknown((*path, "forecast", "shape"), "shape", name, list(catalog.shapes))
            name = DEFAULT_SHAPE
        shape = catalog.shapes[name]
        weekday, weekend = np.array(shape.weekday), np.array(shape.weekend)
        per_day = (5 * weekday.sum() + 2 * weekend.sum()) / 7
        scale = (f.requests_per_day or 0.0) / per_day / 3600
        return tuple((weekday * scale).tolist()), tuple((weekend * scale).tolist()), None

    def _from_csv(self, csv: str, workload: str, key: str) -> tuple[tuple[float, ...], tuple[float, ...], float | None]:
        try:
            hours = read_usage(self.folder / csv, workload)
        except InputError as error:
            self.complaints += error.complaints
            return (1.0,) * 24, (1.0,) * 24, None
        for note in hours.notes:
            self.assume(f"{key}.forecast.csv", note, "the log has gaps; a gap is never taken for no demand")
        return hours.weekday_rps, hours.weekend_rps, hours.variation

    def _buckets(self, w: WorkloadSpec, key: str) -> tuple[Bucket, ...]:
        if w.tokens.buckets is not None:
            return tuple(
                Bucket(share_frac=b.share, input_tokens=b.input, output_tokens=b.output)
                for b in w.tokens.buckets
                if b.share > 0
            )
        trace = "median and mean of the conversation trace of Azure's 2023 LLM inference traces"
        spreads = []
        for name, given, default in (
            ("input", w.tokens.input, DEFAULT_INPUT),
            ("output", w.tokens.output, DEFAULT_OUTPUT),
        ):
            if given is None:
                mean = sum(share * tokens for share, tokens in slices(*default))
                self.assume(f"{key}.tokens.{name}", f"p50 {default[0]:.0f}, mean {mean:.0f}", trace)
            spreads.append(slices(*(default if given is None else (given.p50, given.p95))))
        return buckets_from(*spreads)

    def _objective(self, w: WorkloadSpec, kind: str, default_s: float, key: str) -> Objective:
        given = w.slo.given(kind)
        if given is None:
            self.assume(f"{key}.slo.{kind}_p95", f"{default_s * 1000:g} ms", "no objective was given")
            return Objective(seconds=default_s, percentile=DEFAULT_PERCENTILE)
        return Objective(seconds=given[0], percentile=given[1])


def _prompt_at(w: WorkloadSpec, buckets: tuple[Bucket, ...], percentile: float) -> float:
    """The prompt length at a percentile: of the distribution given, or the longest bucket that it reaches."""
    if w.tokens.buckets is None:
        p50, p95 = (w.tokens.input.p50, w.tokens.input.p95) if w.tokens.input else DEFAULT_INPUT
        return quantile(p50, p95, percentile)
    bound = must_hold(buckets, percentile)
    return max(b.input_tokens for b, binds in zip(buckets, bound, strict=True) if binds)


def _from_hourly(rps: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...], float | None]:
    days = rps.reshape(-1, 24)
    if len(days) == 7:
        weekend, hour = np.repeat(np.arange(7) >= 5, 24), np.tile(np.arange(24), 7)
        hours = by_hour(weekend, hour, rps)
        return hours.weekday_rps, hours.weekend_rps, hours.variation
    return tuple(days[0].tolist()), tuple(days[-1].tolist()), None
