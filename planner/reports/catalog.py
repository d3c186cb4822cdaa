"""The catalog: what is known, from where, and which prices are stale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any, NoReturn

import yaml

from planner.catalog import apis as api_prices
from planner.catalog.engine_support import own_checkpoint, quantized_checkpoints
from planner.catalog.entries import KINDS, Catalog, find, shipped_catalog
from planner.catalog.model_config.entry import ModelEntry
from planner.catalog.names import later_releases, unknown_model
from planner.io.errors import Diagnostic, InputError, did_you_mean, shown
from planner.io.formatting import json_text
from planner.io.units import parse_duration
from planner.performance.memory import kv_growth, parameters, weight_bytes
from planner.reports.document import Code, Document, Lines, TablePart
from planner.reports.table import PLAIN, Cells, Table
from planner.reports.table import Column as C

HOURLY = ".2f"


def _term(term: str) -> Callable[[Any], float | None]:
    """The hourly price of a commitment."""

    def price(entry: Any) -> float | None:
        known = entry.prices.reserved().get(term)
        return known and known.usd_per_h

    return price


def _losses(entry: Any) -> list[float]:
    """Of a quantization, by size of model, on its own benchmark where it has figures for it."""
    own = [q for q in entry.quality_loss if entry.benchmark_of(q) == entry.benchmark] or entry.quality_loss
    cache = entry.kv_loss.loss_frac if entry.kv_loss else 0.0
    return [q.loss_frac + cache for q in sorted(own, key=lambda q: q.min_parameters_b)]


SUMMARIES: dict[str, tuple[C, ...]] = {
    "gpus": (
        C("vram_gb", "vram GB", "plain"),
        C("gb_per_s", "GB/s", "plain", get=lambda e: e.bandwidth_gb_per_s),
        C("fp16", "fp16 TFLOPS", "plain", get=lambda e: e.dense_tflops.get("fp16", 0)),
        C("link", "link GB/s", "plain", get=lambda e: e.interconnect.gb_per_s),
    ),
    "offers": (
        C("gpus", "gpus", "plain", get=lambda e: f"{e.gpus} x {e.gpu}"),
        C("on_demand", "on-demand $/h", HOURLY, get=lambda e: e.prices.on_demand and e.prices.on_demand.usd_per_h),
        C("spot", "spot p50", HOURLY, get=lambda e: e.prices.spot and e.prices.spot.p50_usd_per_h),
        C("reserved_1y", "1y", HOURLY, get=_term("reserved-1y")),
        C("reserved_3y", "3y", HOURLY, get=_term("reserved-3y")),
        C("reserved_3y_upfront", "3y upfront", HOURLY, get=_term("reserved-3y-upfront")),
    ),
    "models": (
        C("parameters_b", "params B", "plain"),
        C("active_b", "active B", "plain", get=lambda e: e.active_parameters_b),
        C("layers", "layers", "d"),
        C("context", "context", "d", get=lambda e: e.max_context_tokens),
    ),
    "quantizations": (
        C("bits", "bits", "plain", get=lambda e: e.weight_bits),
        C("needs", "needs", "plain", get=lambda e: ", ".join(e.needed) or "none"),
        C("loss_8b", "loss 8B", ".1%", get=lambda e: _losses(e)[0]),
        C("loss_70b", "loss 70B", ".1%", get=lambda e: _losses(e)[-1]),
    ),
    "apis": (
        C("input", "$/1M in", "plain", get=lambda e: e.tiers[0].input_usd_per_1m),
        C("cached", "cached", "plain", get=lambda e: e.tiers[0].cached_input_usd_per_1m),
        C("output", "$/1M out", "plain", get=lambda e: e.tiers[0].output_usd_per_1m),
    ),
}


def catalog_document(kind: str | None, name: str | None, stale_after: str, as_of: str | None) -> Document:
    """An overview, a list of one kind, or one entry whole."""
    judge = _Staleness(stale_after, as_of)
    catalog = shipped_catalog()
    if kind is None:
        return _overview(catalog, judge)
    if kind not in KINDS:
        _refuse(f"there is no kind '{kind}'", did_you_mean(kind, KINDS))
    entries = _entries(catalog, kind)
    key = find(name, entries) if name else None
    if key is not None:
        return _one(kind, key, _whole(kind, key, entries), judge)
    chosen = {k: e for k, e in entries.items() if name is None or name.lower() in k.lower() or _gpu(e) == name.lower()}
    if not chosen:
        remedy = unknown_model(name or "", entries) if kind == "models" else did_you_mean(name or "", list(entries))
        _refuse(f"no entry of {kind} is called or contains '{name}'", remedy)
    return _listing(kind, chosen, judge)


class _Staleness:
    def __init__(self, stale_after: str, as_of: str | None) -> None:
        try:
            self.days = parse_duration(stale_after) / 86400
        except ValueError as error:
            _refuse(str(error).rstrip("."), "", "--stale-after")
        try:
            self.today = date.fromisoformat(as_of) if as_of else date.today()
        except ValueError:
            _refuse(f"expected a date, got {shown(as_of)}", "Write one such as 2027-01-31", "--as-of")

    def stale(self, entry: Any) -> bool:
        """Whether one of its prices is too old, or was already when the catalog was last reviewed."""
        prices = getattr(entry, "prices", None)
        listed = prices.by_way().values() if prices is not None else ()
        return self.old(_price_dates(entry)) or any(price.is_stale for price in listed)

    def old(self, dates: list[str]) -> bool:
        return any((self.today - date.fromisoformat(d)).days > self.days for d in dates)


def _refuse(message: str, remedy: str, place: str = "catalog") -> NoReturn:
    raise InputError([Diagnostic(place, None, None, "", message, remedy)])


def _entries(catalog: Catalog, kind: str) -> dict[str, Any]:
    if kind == "apis":
        return dict.fromkeys(api_prices.known_api_models())
    entries: dict[str, Any] = getattr(catalog, kind)
    return entries


def _whole(kind: str, key: str, entries: dict[str, Any]) -> Any:
    return api_prices.api_model(key) if kind == "apis" else entries[key]


def _gpu(entry: Any) -> str | None:
    return getattr(entry, "gpu", None)


def _price_dates(entry: Any) -> list[str]:
    """Dates of what goes stale: prices. Specifications do not."""
    prices = getattr(entry, "prices", None)
    if prices is None:
        return [entry.date] if hasattr(entry, "tiers") and entry.date else []
    return [p.date for p in prices.by_way().values() if p.date]


def _overview(catalog: Catalog, judge: _Staleness) -> Document:
    columns = (
        C("kind", "kind"),
        C("entries", "entries", "d"),
        C("stale", "stale prices", "d"),
        C("oldest_price", "oldest price"),
    )
    rows, data = list[Cells](), dict[str, Any]()
    for kind in KINDS:
        entries = _entries(catalog, kind)
        dates = [d for e in entries.values() for d in _price_dates(e)] if kind == "offers" else []
        stale = sum(judge.stale(e) for e in entries.values()) if kind == "offers" else 0
        if kind == "apis":
            dates = [api_prices.AS_OF.date().isoformat()]
            stale = len(entries) if judge.old(dates) else 0
        data[kind] = {"entries": len(entries), "stale": stale, "oldest_price": min(dates, default=None)}
        rows.append(Cells(data[kind], kind=kind, stale=stale if dates else None))
    return Document(
        title="Catalog",
        bare=True,
        parts=(
            TablePart(Table("catalog", "Catalog", columns, tuple(rows)), untitled=PLAIN, indent=0),
            Lines(("'fleetplan catalog KIND' lists entries, 'fleetplan catalog KIND NAME' shows one",)),
        ),
        json=lambda: json_text(data),
    )


def _listing(kind: str, entries: dict[str, Any], judge: _Staleness) -> Document:
    """Entries that are for sale or known, by name."""
    whole = {key: entry for key in sorted(entries) if (entry := _whole(kind, key, entries)) is not None}

    def column(c: C) -> C:
        """Of the entry by this name."""
        return replace(c, get=lambda key: c.of(whole[key]))

    columns = (
        C("name", kind, get=str),
        *map(column, SUMMARIES.get(kind, ())),
        C("date", "date", get=lambda key: max(_price_dates(whole[key]), default=whole[key].date)),
        C("note", "", missing="", get=lambda key: _note(kind, key, whole[key], judge)),
    )
    data = {k: e.model_dump(mode="json", exclude_none=True) | {"stale": judge.stale(e)} for k, e in whole.items()}
    return Document(
        title=f"Catalog: {kind}",
        bare=True,
        parts=(TablePart(Table(kind, kind, columns, tuple(whole)), untitled=PLAIN, indent=0),),
        json=lambda: json_text(data),
    )


def _note(kind: str, key: str, entry: Any, judge: _Staleness) -> str:
    if kind == "models":
        return f"later release: {later_releases()[key]}" if key in later_releases() else ""
    assumed = kind == "offers" and any(p.assumption for p in entry.prices.reserved().values())
    return " ".join(["STALE"] * judge.stale(entry) + ["(assumed reserved)"] * assumed)


def _one(kind: str, key: str, entry: Any, judge: _Staleness) -> Document:
    if entry is None:
        _refuse(f"'{key}' has no price per token", "")
    data = entry.model_dump(mode="json", exclude_none=True)
    advice = ""
    if kind == "models":
        data |= {"checkpoints": quantized_checkpoints(entry)}
        advice = f"# to add quantized weights, write in the demand file: {own_checkpoint(key, 'fp8')}\n"
    stale = judge.stale(entry)
    why = f"older than {judge.days:g} days" if judge.old(_price_dates(entry)) else "over a year old when it was entered"
    flag = f"  # STALE: {why}" if stale else ""
    text = yaml.safe_dump({key: data}, sort_keys=False, allow_unicode=True, width=100)
    return Document(
        title=key,
        headline=f"# {kind}{flag}",
        lead=(Code((text + advice).rstrip("\n"), indent=0),),
        json=lambda: json_text({key: data | {"stale": stale}}),
    )


def added_model_document(entry: ModelEntry, published_b: float | None) -> Document:
    """What a new entry comes to: weights, KV cache and arithmetic."""
    model, stored = entry.model, shipped_catalog().quantizations[entry.model.native_quantization]
    kv, by_use = kv_growth(model, stored), parameters(model)
    multiplied = by_use.dense + by_use.head + by_use.routed * by_use.chosen_frac
    published = (
        "" if published_b is None else f"{model.parameters_b / published_b - 1:+.1%} from {published_b:g}B published"
    )
    per_request = kv.per_window_token * kv.window
    held = f"and {per_request / 1e6:,.1f} MB a request" if per_request else ""
    if model.sliding is not None:
        held += f" once its windows of {model.sliding.window_tokens:,} tokens are full"
    rows = (
        ("parameters", f"{model.parameters_b:,g} B", published),
        ("active", f"{model.active_parameters_b:,g} B", "what one token passes through, embeddings included"),
        ("weights", f"{weight_bytes(model, stored) / 1e9:,.1f} GB", f"in {model.native_quantization}, as published"),
        ("KV cache", f"{kv.per_token / 1e3:,.1f} kB a token", held),
        ("arithmetic", f"{2 * multiplied / 1e9:,.1f} GFLOP a token", "without attention over the context"),
        ("context", f"{model.max_context_tokens:,} tokens", ""),
    )
    columns = (C("figure", entry.key), C("value", ""), C("note", "", missing=""))
    table = Table("model", entry.key, columns, rows)
    data = {
        "key": entry.key, "entry": model.model_dump(mode="json", exclude_none=True), "published_b": published_b,
        "weight_bytes": weight_bytes(model, stored), "kv_bytes_per_token": kv.per_token,
        "kv_bytes_per_request": per_request, "flop_per_token": 2 * multiplied,
        "warnings": list(entry.warnings),
    }  # fmt: skip
    return Document(
        title=entry.key,
        bare=True,
        parts=(TablePart(table, untitled=PLAIN, indent=0), Lines((model.notes,) if model.notes else ())),
        json=lambda: json_text(data),
    )
