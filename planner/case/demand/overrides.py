"""What a user's file changes in the catalog: own entries, parts of shipped ones, and negotiated prices."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.case.demand.schema import PriceSpec
from planner.catalog.entries import (
    KINDS,
    Catalog,
    HourlyPrice,
    Offer,
    OfferPrices,
    SpotPrice,
    UpfrontPrice,
    shipped_catalog,
    shipped_data,
)
from planner.io.errors import InputError, did_you_mean
from planner.io.named_files import NamedFiles
from planner.io.strict_yaml import Document, read_yaml
from planner.io.units import Price, Relative
from planner.io.validation import validate

EXPLANATIONS = ("source", "date", "assumption", "notes", "stale")


def own_catalog(own: Any, document: Document, files: NamedFiles) -> Catalog:
    """The shipped catalog with the user's entries, written in the demand file or in a file that it names."""
    path: tuple[str | int, ...] = ("catalog",)
    if isinstance(own, str):
        file = files.beside(document, path, own)
        try:
            document, path = read_yaml(file), ()
        except InputError as error:
            if any(c.line is not None for c in error.diagnostics):
                raise
            why = error.diagnostics[0]
            raise InputError([document.diagnostic(path, f"'{own}': {why.message}", why.remedy)]) from None
        own = document.data
    return _with_own(own, document, path)


def catalog_with(file: Path | None) -> Catalog:
    """The shipped catalog with the entries of a user's file."""
    if file is None:
        return shipped_catalog()
    document = read_yaml(file)
    return _with_own(document.data, document, ())


def _with_own(own: Any, document: Document, path: tuple[str | int, ...]) -> Catalog:
    if not own:
        return shipped_catalog()
    if not isinstance(own, dict):
        raise InputError([document.diagnostic((), "expected a mapping of catalog entries", "Write gpus: ...")])
    unknown = [kind for kind in own if kind not in KINDS]
    if unknown:
        raise InputError(
            document.diagnostic((*path, k), f"unknown key '{k}'", did_you_mean(k, KINDS), at_key=True) for k in unknown
        )
    merged = {kind: _merged_entries(kind, entries, document.file) for kind, entries in own.items()}
    try:
        mine = validate(Catalog, _moved(document, path, merged))
    except InputError as error:
        under = "".join(f"{part}." for part in path)
        raise InputError(replace(c, where=under + c.where) for c in error.diagnostics) from None
    base = shipped_catalog()
    catalog = base.model_copy(update={kind: getattr(base, kind) | getattr(mine, kind) for kind in KINDS})
    wrong = [problem for name in mine.models for problem in _wrong_checkpoints(catalog, name)]
    if wrong:
        raise InputError(
            document.diagnostic((*path, "models", name, "checkpoints", key), message, remedy, at_key=True)
            for name, key, message, remedy in wrong
        )
    return catalog


def _wrong_checkpoints(catalog: Catalog, name: str) -> Iterator[tuple[str, str, str, str]]:
    """Checkpoints of a model that no deployment would load: model, quantization, why, and what to do."""
    model = catalog.models[name]
    stored = [key for key, scheme in catalog.quantizations.items() if scheme.weights is None]
    for key in model.checkpoints or ():
        if key == model.native_quantization:
            yield name, key, f"{name} is published in {key}", "Name these weights as its checkpoint"
        elif key not in stored:
            yield name, key, f"no weights are stored in '{key}'", did_you_mean(key, stored)


def own_offers(document: Document) -> dict[str, Offer]:
    """Offers of a catalog file, each laid over the shipped one of the same name."""
    catalog = _with_own(document.data, document, ())
    return {key: catalog.offers[key] for key in (document.data or {}).get("offers") or {}}


def offers_called(name: str, offers: dict[str, Offer]) -> list[str]:
    """Offers by their key, or by provider/instance in every region of the menu."""
    return [key for key in offers if name in (key, key.split("@")[0])]


def repriced(offer: Offer, own: PriceSpec, file: str) -> Offer:
    """An offer at the user's prices: on-demand changes are on the price it has, the others on the on-demand price."""
    source = f"your own price in {Path(file).name}"
    listed = offer.prices.on_demand.usd_per_h if offer.prices.on_demand else None
    on_demand = _price(own.on_demand, listed)
    base = on_demand if on_demand is not None else listed
    changed: dict[str, HourlyPrice | SpotPrice | UpfrontPrice] = {}
    if on_demand is not None:
        changed["on_demand"] = HourlyPrice(usd_per_h=on_demand, source=source)
    spot = _price(own.spot, base)
    if spot is not None:
        listed_spot = offer.prices.spot
        ratio = listed_spot.p95_usd_per_h / listed_spot.p50_usd_per_h if listed_spot else 1.0
        changed["spot"] = SpotPrice(p50_usd_per_h=spot, p95_usd_per_h=spot * ratio, source=source)
    elif spot is None and offer.prices.spot is not None and on_demand is not None:
        changed["spot"] = _spot_below(offer.prices.spot, on_demand)
    for term in ("reserved_1y", "reserved_3y"):
        usd_per_h = _price(getattr(own, term), base)
        listed_term = getattr(offer.prices, term)
        if usd_per_h is not None:
            changed[term] = HourlyPrice(usd_per_h=usd_per_h, source=source)
        elif on_demand is not None and listed and listed_term is not None and listed_term.assumption:
            # An assumed discount goes with the price it is taken from.
            moved = listed_term.usd_per_h * on_demand / listed
            changed[term] = listed_term.model_copy(update={"usd_per_h": moved})
    for term in ("reserved_1y_upfront", "reserved_3y_upfront"):
        paid = getattr(own, term)
        if paid is not None:
            changed[term] = UpfrontPrice(upfront_usd=paid.upfront, usd_per_h=paid.per_hour, source=source)
    return offer.model_copy(update={"prices": OfferPrices(**(dict(offer.prices) | changed))})


def discounted(offer: Offer, frac: float, file: str) -> Offer:
    """An offer with every price of it lower by a share: what a provider grants a customer on its list prices."""
    amounts = ("usd_per_h", "p50_usd_per_h", "p95_usd_per_h", "upfront_usd")
    prices = {}
    for name, price in dict(offer.prices).items():
        if price is not None:
            lower = {key: (1 - frac) * getattr(price, key) for key in amounts if key in type(price).model_fields}
            source = f"{price.source}; less {100 * frac:g}% granted in {Path(file).name}"
            prices[name] = price.model_copy(update={**lower, "source": source})
    return offer.model_copy(update={"prices": offer.prices.model_copy(update=prices)})


def _spot_below(spot: SpotPrice, on_demand_usd_per_h: float) -> SpotPrice:
    """Nobody pays more for spot than on demand."""
    p50, p95 = (min(p, on_demand_usd_per_h) for p in (spot.p50_usd_per_h, spot.p95_usd_per_h))
    return spot.model_copy(update={"p50_usd_per_h": p50, "p95_usd_per_h": p95})


def _price(change: Price | Relative | None, base: float | None) -> float | None:
    if change is None or (isinstance(change, Relative) and base is None):
        return None
    return change.applied_to(base or 0.0)


def _merged_entries(kind: str, entries: Any, file: str) -> Any:
    """The user's entries laid over shipped ones of the same name; what they touch names their file."""
    if not isinstance(entries, dict):
        return entries
    shipped = shipped_data().get(kind, {})
    merged = {}
    for name, own in entries.items():
        if isinstance(own, dict) and name in shipped:
            base = copy.deepcopy(shipped[name])
            source = own.get("source", f"partly overridden in {Path(file).name}")
            merged[name] = _laid_over(base, own) | {"source": source}
        else:
            merged[name] = own
    return merged


def _laid_over(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    for key, value in own.items():
        old = base.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            # A figure with a source of its own is not explained by what was said of the shipped one.
            kept = {k: v for k, v in old.items() if k not in EXPLANATIONS} if "source" in value else old
            base[key] = _laid_over(kept, value)
        else:
            base[key] = value
    return base


def _moved(document: Document, path: tuple[str | int, ...], data: Any) -> Document:
    """A part of a document as a document of its own, with the same positions."""
    n = len(path)
    marks = {p[n:]: mark for p, mark in document.marks.items() if p[:n] == path}
    keys = {p[n:]: mark for p, mark in document.key_marks.items() if p[:n] == path}
    return Document(document.file, data, marks, keys)
