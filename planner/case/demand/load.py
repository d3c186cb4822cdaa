"""From a demand file to a Case: names resolved, defaults filled in and said, everything wrong at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from planner.case.boxes import boxes_by_model, with_interconnect
from planner.case.case import Case, KvDisk, Limits, Origin, Workload
from planner.case.demand.future.amendments import AmendmentReader, CaseOn, check_price_steps, offers_at
from planner.case.demand.future.load_future import as_planned, future_fields
from planner.case.demand.future.scenarios import ScenarioReader
from planner.case.demand.load_allowances import allowances_of
from planner.case.demand.load_api_limits import with_api_limits
from planner.case.demand.load_own import NAMED, OWN, own_offers, terms_of
from planner.case.demand.load_policy import cache_costs_of, engineers_usd_per_month, limits_of, start_of, tenancy_of
from planner.case.demand.load_power import of_known_power, power_of
from planner.case.demand.load_service_tiers import complain_of_tiers
from planner.case.demand.load_speculation import drafters
from planner.case.demand.load_workloads import Surroundings, WorkloadReader
from planner.case.demand.notes import Notes
from planner.case.demand.overrides import discounted, offers_called, own_catalog, repriced
from planner.case.demand.schema import DemandFile
from planner.case.demand.workload_schema import WorkloadSpec
from planner.case.kv_tiers import USABLE_HOST_FRAC, with_host_memory
from planner.case.owned import with_owned_offers
from planner.catalog import apis as api_prices
from planner.catalog.entries import DEFAULT_ENGINE, ApiModel, Catalog, Engine, Offer, find, names_of
from planner.catalog.names import unknown_model
from planner.catalog.profile import Profile
from planner.catalog.scarcity import by_the_hour
from planner.catalog.sellers import SAME_MODEL, counted_sellers_of
from planner.io.errors import InputError, close_match, did_you_mean, listed, shown
from planner.io.errors import Path as Keys
from planner.io.named_files import NamedFiles
from planner.io.strict_yaml import Document, parse_yaml, read_yaml
from planner.io.units import is_time_zone
from planner.io.validation import validate
from planner.performance.calibration.profiles import read_profiles
from planner.performance.kv_tiers import DISK, HOST

DEFAULT_PROVIDERS = ("aws",)
HOME_REGIONS = {"aws": "us-east-1", "azure": "eastus", "gcp": "us-central1", "oci": "us-ashburn-1"}
"""where clouds of many regions are rented unless regions are named, since a cheap region may be far from the users"""
DEFAULT_PURCHASE = ("on-demand", "spot")


def load_case(path: Path | str, files: NamedFiles | None = None) -> Case:
    """Read a demand file; raises InputError with everything that is wrong with it.

    `files` says where the files that it names may be, and remembers them.
    """
    files = files or NamedFiles()
    files.check_given(path)
    return case_of_document(read_yaml(path), Path(path).stem, files)


def case_from_text(text: str, file: str = "<text>") -> Case:
    """Load a case from YAML text."""
    return _Loader(parse_yaml(text, file), "case", NamedFiles()).case()


def case_of_document(document: Document, default_name: str, files: NamedFiles) -> Case:
    """Load a case from a document that was read already, and may have been changed since."""
    return _Loader(document, default_name, files).case()


def check_decided(case: Case) -> None:
    """Refuse to plan on what was guessed from a log and not looked at since."""
    document = case.origin.document
    guessed = _mapping(document.data).get("decide")
    if guessed:
        message = f"{' and '.join(guessed)} were guessed from a log"
        remedy = "Check these lines (they are marked DECIDE), then remove this key; or plan with --accept-guesses"
        raise InputError([document.diagnostic(("decide",), message, remedy, at_key=True)])


class _Loader:
    def __init__(self, document: Document, default_name: str, files: NamedFiles) -> None:
        self.document = document
        self.files = files
        self.default_name = default_name
        self.notes = Notes(document)

    def case(self) -> Case:
        try:
            spec = validate(DemandFile, self.document)
        except InputError as error:
            self._unknown_names()
            raise InputError([*error.diagnostics, *self.notes.mistakes]) from None
        case, reader = self._read(spec, with_future=True)
        if case.future is not None and reader is not None:

            def changed(data: Any) -> CaseOn:
                other = _Loader(replace(self.document, data=data), self.default_name, self.files)
                other_spec = validate(DemandFile, other.document)
                return other._on_days(other._read(other_spec, with_future=False)[0], other_spec)

            scenarios = AmendmentReader(reader, self._on_days(case, spec), changed).amended(case.future.scenarios)
            if self.notes.mistakes:
                raise InputError(self.notes.mistakes)
            assumptions = tuple(self.notes.assumptions)
            future = case.future.model_copy(update={"scenarios": scenarios})
            case = case.model_copy(update={"future": future, "assumptions": assumptions})
        origin = Origin(self.document, self.default_name, self.files)
        return as_planned(with_owned_offers(case), spec).with_origin(origin)

    def _on_days(self, case: Case, spec: DemandFile) -> CaseOn:
        """The case at the prices of a day."""

        def on_day(day: date) -> Case:
            offers = offers_at(case.offers, spec, day, self.document.file)
            return with_owned_offers(case.model_copy(update={"offers": offers}))

        return on_day

    def _read(self, spec: DemandFile, with_future: bool) -> tuple[Case, ScenarioReader | None]:
        """The case without boxes that are owned; where it is one of a scenario, without quarters and scenarios."""
        catalog = own_catalog(spec.catalog, self.document, self.files)
        self._unique_names(spec)
        gpus = self._names(spec.menu.gpus, catalog.gpus, "GPU", ("menu", "gpus")) or tuple(catalog.gpus)
        quantizations = self._quantizations(spec, catalog)
        purchase = spec.menu.purchase or DEFAULT_PURCHASE
        offers = self._offers(spec, catalog, gpus)
        offers = of_known_power(spec, catalog.gpus, offers, self.notes)
        self._upfront_prices(purchase, offers)
        own = own_offers(spec, catalog, self.notes)
        offers |= own
        apis = self._apis(spec, catalog)
        baseline = spec.baseline
        around = Surroundings(catalog, spec.menu, offers, baseline, apis.get(baseline))
        zone = spec.time_zone if spec.time_zone is None or is_time_zone(spec.time_zone) else None
        names = frozenset(w.name for w in spec.workloads)
        reader = WorkloadReader(around, self.files, self.notes, names, zone)
        workloads = tuple(reader.workload(w, k) for k, w in enumerate(spec.workloads))
        named = tuple(name for name in spec.menu.apis or () if name != SAME_MODEL)
        same_model = self._sellers(spec, workloads, catalog, apis)
        menu_apis = (*named, *same_model) if spec.menu.apis is not None else (baseline,)
        complain_of_tiers(spec, workloads, menu_apis, apis, self.notes)
        limits = limits_of(spec, catalog, workloads, offers, apis, self.notes)
        limits = with_api_limits(limits, spec, workloads, menu_apis, apis, self.notes)
        limits = self._with_boxes(limits, spec, workloads, offers, catalog, quantizations)
        engine = self._engine(spec, catalog)
        engineers = engineers_usd_per_month(spec.policy, self.notes)
        start = start_of(spec.policy, purchase, self.notes)
        tenancy = tenancy_of(spec.policy, workloads, self.notes)
        cache_costs = cache_costs_of(spec.policy, workloads, self.notes)
        self._menu_assumptions(spec, purchase, offers)
        allowances = allowances_of(spec, purchase, offers, menu_apis, self.notes)

        def read(w: WorkloadSpec, k: int, notes: Notes) -> Workload:
            return WorkloadReader(around, self.files, notes, names, zone).workload(w, k)

        check_price_steps(spec, offers, self.notes)
        offers, kv_disk = self._with_host_memory(spec, offers), self._disk(spec)
        if limits.max_boxes_per_replica is not None:
            offers = {key: with_interconnect(offer) for key, offer in offers.items()}
        gpus_used = sorted({offer.gpu for offer in offers.values()})
        on_menu = {g: catalog.gpus[g] for g in gpus_used}
        menu = (on_menu, offers, catalog.offers)
        scenarios = ScenarioReader(spec, workloads, reader.logged, menu, read, self.notes) if with_future else None
        future = future_fields(spec, catalog, offers, limits, scenarios, self.notes)
        power = power_of(spec, on_menu, offers, self.notes)
        if spec.time_zone != zone:
            message = f"there is no time zone {shown(spec.time_zone)}"
            self.notes.complain(("time_zone",), message, "Write one such as Europe/Berlin or UTC")
        if self.notes.mistakes:
            raise InputError(self.notes.mistakes)
        case = Case(
            name=spec.name or self.default_name,
            workloads=workloads,
            purchase=(*purchase, *terms_of(own)),
            gpus=on_menu,
            offers=offers,
            models={c.model: catalog.models[c.model] for w in workloads for c in w.models},
            quantizations={q: catalog.quantizations[q] for q in quantizations},
            efficiency={g: catalog.efficiency_of(g) for g in gpus_used},
            engine_name=engine,
            engine=_admitting(catalog.engines[engine], spec.menu.max_requests_in_flight),
            apis=api_prices.with_cache_writes(apis) if any(w.sessions for w in workloads) else apis,
            menu_apis=menu_apis,
            same_model_apis=same_model or None,
            baseline=baseline,
            compare_with=tuple(dict.fromkeys(spec.compare_with)) or None,
            drafters=drafters(limits.speculation, workloads, catalog),
            profiles=self._profiles(spec, catalog),
            limits=limits,
            cache_costs=cache_costs,
            kv_disk=kv_disk,
            tenancy=tenancy,
            start=start,
            autoscaler=None if spec.policy.autoscaler is None else spec.policy.autoscaler.controller(),
            power=power,
            engineers_usd_per_month=engineers,
            assumptions=tuple(self.notes.assumptions),
            time_zone=spec.time_zone,
            allowances=allowances,
            **future,
        )
        return case, scenarios

    def _with_boxes(
        self,
        limits: Limits,
        spec: DemandFile,
        workloads: tuple[Workload, ...],
        offers: dict[str, Offer],
        catalog: Catalog,
        quantizations: tuple[str, ...],
    ) -> Limits:
        """With the boxes that replicas of each model may span; one where nobody asks for more and models fit."""
        if self.notes.mistakes:
            return limits
        given, most_gpus = spec.menu.max_boxes_per_replica, limits.max_gpus_per_replica
        most = boxes_by_model(given, workloads, offers, catalog, quantizations, most_gpus)
        if most is not None and given is None:
            why = f"no single box on the menu holds {listed(list(most), 'or')}"
            self.notes.assume("menu.max_boxes_per_replica", str(max(most.values())), why)
        return limits if most is None else limits.model_copy(update={"max_boxes_per_replica": most})

    def _with_host_memory(self, spec: DemandFile, offers: dict[str, Offer]) -> dict[str, Offer]:
        """Boxes with their memory, where some workload may keep KV cache in it."""
        if not any(HOST in w.caching.kv_tiers for w in spec.workloads):
            return offers
        known = {key: with_host_memory(offer) for key, offer in offers.items()}
        missing = sorted(key for key, offer in known.items() if offer.host_memory_gib is None)
        if missing:
            why = "no source has the memory of these boxes, so that they keep no KV cache in it: give host_memory_gib"
            self.notes.assume("host memory", listed(missing, "and"), why)
        share = f"{USABLE_HOST_FRAC:.0%} of the memory of a box"
        self.notes.assume("host memory for KV cache", share, "the rest is for engines, page cache and the system")
        return known

    def _disk(self, spec: DemandFile) -> KvDisk | None:
        disk = spec.policy.kv_disk
        if disk is None:
            for k, w in enumerate(spec.workloads):
                if DISK in w.caching.kv_tiers:
                    message, remedy = (
                        "needs the size and speed of the disk",
                        "Write policy: {kv_disk: {size: 3TB, read_gb_per_s: 10}}",
                    )
                    self.notes.complain(("workloads", k, "caching", "kv_tiers"), message, remedy)
            return None
        return KvDisk(gb=disk.size, read_gb_per_s=disk.read_gb_per_s)

    # -- what the user did not say ------------------------------------------------------------------------

    def _menu_assumptions(self, spec: DemandFile, purchase: tuple[str, ...], offers: dict[str, Offer]) -> None:
        menu = spec.menu
        if spec.decide:
            self.notes.assume("decide", " and ".join(spec.decide), "guessed by 'fleetplan demand', and accepted")
        if menu.regions is None:
            places = sorted({(o.provider, o.region) for o in offers.values()})
            several = [p for p, n in Counter(p for p, _ in places).items() if n > 1]
            open_to = [f"{p} {region}" for p, region in places if p in HOME_REGIONS or p in several]
            why = "no region was named" if menu.providers else "no provider or region was named"
            if open_to:
                self.notes.assume("menu.regions", ", ".join(open_to), why)
        if menu.purchase is None:
            self.notes.assume(
                "menu.purchase",
                ", ".join(purchase),
                "commitments outlast the quarter, so they are used only if you list them",
            )
        if menu.gpus is None:
            self.notes.assume("menu.gpus", "every GPU of the catalog", "no GPUs were named")

    # -- catalog and prices -------------------------------------------------------------------------------

    def _offers(self, spec: DemandFile, catalog: Catalog, gpus: tuple[str, ...]) -> dict[str, Offer]:
        providers, regions = spec.menu.providers, spec.menu.regions
        if providers is None and regions is None:
            providers = DEFAULT_PROVIDERS
        for name, given in (("provider", providers), ("region", regions)):
            known = sorted({getattr(o, name) for o in catalog.offers.values()})
            for k, value in enumerate(given or ()):
                if value not in known:
                    remedy = NAMED if (name, value) == ("provider", OWN) else did_you_mean(value, known)
                    self.notes.complain(("menu", f"{name}s", k), f"no offer has the {name} '{value}'", remedy)
        offers = {key: self._with_known_gpu(key, offer, catalog) for key, offer in sorted(catalog.offers.items())}
        chosen = {
            key: offer
            for key, offer in offers.items()
            if offer.gpu in gpus
            and (providers is None or offer.provider in providers)
            and offer.region in (regions or (HOME_REGIONS.get(offer.provider, offer.region),))
        }
        self._discounts(spec, chosen)
        matched_prices = {name: offers_called(name, chosen) for name in spec.prices}
        for name, keys in matched_prices.items():
            if not keys:
                on_menu = sorted({key.split("@")[0] for key in chosen})
                message = f"no instance on the menu is called {shown(name, 60)}"
                self.notes.complain(("prices", name), message, did_you_mean(name, on_menu))
        for key in chosen:
            for name, keys in matched_prices.items():
                if key in keys:
                    chosen[key] = repriced(chosen[key], spec.prices[name], self.document.file)
        chosen = self._available(spec, chosen)
        if not chosen and not self.notes.mistakes:
            self.notes.complain(("menu",), "leaves no instance to rent", "Widen gpus, providers or regions")
        return chosen

    def _discounts(self, spec: DemandFile, offers: dict[str, Offer]) -> None:
        """List prices less what their providers grant."""
        known = sorted({offer.provider for offer in offers.values()})
        for provider, frac in spec.discounts.items():
            if provider not in known:
                message = f"no instance on the menu is of the provider {shown(provider, 60)}"
                self.notes.complain(("discounts", provider), message, did_you_mean(provider, known))
            elif frac == 1:
                self.notes.complain(("discounts", provider), "leaves nothing to pay", "Write a share below 100%")
        for key, offer in offers.items():
            if 0 < (frac := spec.discounts.get(offer.provider, 0.0)) < 1:
                offers[key] = discounted(offer, frac, self.document.file)

    def _available(self, spec: DemandFile, offers: dict[str, Offer]) -> dict[str, Offer]:
        """Offers with how many of them can be had, where the file says so."""
        available: dict[str, int] = {}
        if isinstance(spec.availability, str):
            available = {key: most for key, offer in offers.items() if (most := by_the_hour(offer)) is not None}
            boxes = sorted({f"{most} x {offers[key].gpus} {offers[key].gpu}" for key, most in available.items()})
            if boxes:
                self.notes.assume(
                    "availability",
                    ", ".join(boxes),
                    "of each instance; a judgement, since clouds do not publish their stock",
                )
        else:
            for name, most in spec.availability.items():
                keys = offers_called(name, offers)
                if not keys:
                    message = f"no instance on the menu is called {shown(name, 60)}"
                    self.notes.complain(("availability", name), message, did_you_mean(name, offers))
                available |= dict.fromkeys(keys, most)
        return {
            key: offer.model_copy(update={"available": available[key]}) if key in available else offer
            for key, offer in offers.items()
        }

    def _upfront_prices(self, purchase: tuple[str, ...], offers: dict[str, Offer]) -> None:
        """Complain where the menu lists a payment up front that no instance on it has a price for."""
        for k, term in enumerate(purchase):
            if term.endswith("-upfront") and offers and not any(term in o.prices.upfront() for o in offers.values()):
                remedy = f"Give one under 'prices', as {term.replace('-', '_')}: {{upfront: $200k, per_hour: $10/h}}"
                self.notes.complain(("menu", "purchase", k), f"no instance has a price for '{term}'", remedy)

    def _with_known_gpu(self, key: str, offer: Offer, catalog: Catalog) -> Offer:
        """The offer with its GPU by the catalog's name, which may have been written as an alias."""
        gpu = find(offer.gpu, catalog.gpus)
        if gpu is None:
            self.notes.unknown(("catalog", "offers", key, "gpu"), "GPU", offer.gpu, names_of(catalog.gpus))
            return offer
        return offer if gpu == offer.gpu else offer.model_copy(update={"gpu": gpu})

    # -- names --------------------------------------------------------------------------------------------

    def _unknown_names(self) -> None:
        """Complain about names that the catalog does not have, whatever else is wrong with the file."""
        data = _mapping(self.document.data)
        if "catalog" not in data and close_match("catalog", map(str, data)):
            return  # they may be in a catalog whose key is misspelt
        try:
            catalog = own_catalog(data.get("catalog"), self.document, self.files)
        except InputError:
            return
        menu = _mapping(data.get("menu"))
        self._names(_list(menu.get("gpus")), catalog.gpus, "GPU", ("menu", "gpus"))
        self._names(_list(menu.get("quantizations")), catalog.quantizations, "quantization", ("menu", "quantizations"))
        wanted: list[tuple[Keys, Any]] = [(("baseline",), data.get("baseline"))]
        listed = enumerate(_list(menu.get("apis")))
        wanted += [(("menu", "apis", k), name) for k, name in listed if name != SAME_MODEL]
        for path, name in wanted:
            if isinstance(name, str):
                self._api(path, name, catalog)
        for k, workload in enumerate(_list(data.get("workloads"))):
            for m, choice in enumerate(_list(_mapping(workload).get("models"))):
                name = choice.get("name") if isinstance(choice, dict) else choice
                if isinstance(name, str) and find(name, catalog.models) is None:
                    remedy = unknown_model(name, catalog.models)
                    self.notes.unknown(("workloads", k, "models", m), "model", name, (), remedy)

    def _unique_names(self, spec: DemandFile) -> None:
        seen: dict[str, int] = {}
        for k, w in enumerate(spec.workloads):
            if w.name in seen:
                message = f"'{w.name}' is the name of workload {seen[w.name] + 1} too"
                self.notes.complain(("workloads", k, "name"), message, "Give each workload its own name")
            seen.setdefault(w.name, k)

    def _names(self, given: Any, entries: Any, what: str, path: tuple[str | int, ...]) -> tuple[str, ...]:
        keys = []
        for k, name in enumerate(given or ()):
            key = find(name, entries) if isinstance(name, str) else None
            if key is None and isinstance(name, str):
                self.notes.unknown((*path, k), what, name, names_of(entries))
            elif key is not None and key not in keys:
                keys.append(key)
        return tuple(keys)

    def _quantizations(self, spec: DemandFile, catalog: Catalog) -> tuple[str, ...]:
        given = self._names(spec.menu.quantizations, catalog.quantizations, "quantization", ("menu", "quantizations"))
        if spec.menu.quantizations is None:
            given = tuple(name for name, scheme in catalog.quantizations.items() if scheme.by_default)
            self.notes.assume("menu.quantizations", ", ".join(given), "none was named, so the quality limit decides")
        return given

    def _apis(self, spec: DemandFile, catalog: Catalog) -> dict[str, ApiModel]:
        apis: dict[str, ApiModel] = {}
        wanted: list[tuple[Keys, str]] = [(("baseline",), spec.baseline)]
        named = ((k, name) for k, name in enumerate(spec.menu.apis or ()) if name != SAME_MODEL)
        wanted += [(("menu", "apis", k), name) for k, name in named]
        wanted += [(("compare_with", k), name) for k, name in enumerate(spec.compare_with)]
        wanted += [(("workloads", k, "baseline"), w.baseline) for k, w in enumerate(spec.workloads) if w.baseline]
        for path, name in wanted:
            entry = self._api(path, name, catalog)
            if entry is not None:
                apis[name] = entry
        return apis

    def _sellers(
        self, spec: DemandFile, workloads: tuple[Workload, ...], catalog: Catalog, apis: dict[str, ApiModel]
    ) -> tuple[str, ...]:
        """Known sellers of the workloads' models, where the menu asks for them; their prices are added to `apis`."""
        if spec.menu.apis is None or SAME_MODEL not in spec.menu.apis:
            return ()
        models = dict.fromkeys(c.model for w in workloads for c in w.models)
        found = [
            name for name in counted_sellers_of((m, catalog.models[m]) for m in models) if name not in spec.menu.apis
        ]
        for name in found:
            prices = api_prices.api_model(name)
            assert prices is not None, name
            apis.setdefault(name, prices)
        who = ", ".join(found) or "no known seller offers a model of these workloads"
        self.notes.assume(
            "menu.apis", who, "known sellers of the same models; workloads that list other models are not sent to them"
        )
        return tuple(found)

    def _api(self, path: Keys, name: str, catalog: Catalog) -> ApiModel | None:
        entry = catalog.apis.get(name) or api_prices.api_model(name)
        if entry is None:
            known = [*catalog.apis, *api_prices.known_api_models()]
            remedy = did_you_mean(name, known) or "Write provider/model: openai/gpt-4o-mini"
            self.notes.complain(path, f"there is no API model {shown(name, 60)} with a price per token", remedy)
        return entry

    def _profiles(self, spec: DemandFile, catalog: Catalog) -> tuple[Profile, ...]:
        named = [self.files.beside(self.document, ("profiles", k), name) for k, name in enumerate(spec.profiles)]
        return tuple(p for file in named for p in read_profiles(file, catalog))

    def _engine(self, spec: DemandFile, catalog: Catalog) -> str:
        key = find(spec.menu.engine, catalog.engines)
        if key is None:
            self.notes.unknown(("menu", "engine"), "engine", spec.menu.engine, names_of(catalog.engines))
        return key or DEFAULT_ENGINE


def _mapping(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _list(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []


def _admitting(engine: Engine, most: int | None) -> Engine:
    """The engine with so many requests in flight at most."""
    return engine if most is None or most >= engine.max_in_flight else engine.model_copy(update={"max_in_flight": most})
