"""The catalog as text and data: what is known, from where, and which prices are stale."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any, NoReturn

import yaml

from planner.catalog import api_prices
from planner.catalog.entries import KINDS, Catalog, find, shipped_catalog
from planner.io.errors import Diagnostic, InputError, did_you_mean, shown
from planner.io.units import parse_duration
from planner.reports.text import Report, columns

SUMMARIES = {
    "gpus": ("vram GB", "GB/s", "fp16 TFLOPS", "link GB/s"),
    "offers": ("gpus", "on-demand $/h", "spot p50", "1y", "3y"),
    "models": ("params B", "active B", "layers", "context"),
    "quantizations": ("bits", "needs", "loss 8B", "loss 70B"),
    "apis": ("$/1M in", "cached", "$/1M out"),
}


def catalog_report(kind: str | None, name: str | None, stale_after: str, as_of: str | None) -> Report:
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
        _refuse(f"no entry of {kind} is called or contains '{name}'", did_you_mean(name or "", list(entries)))
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

    def stale(self, dates: list[str]) -> bool:
        return any((self.today - date.fromisoformat(d)).days > self.days for d in dates)


def _refuse(message: str, remedy: str, place: str = "catalog") -> NoReturn:
    raise InputError([Diagnostic(place, None, None, "", message, remedy)])


def _entries(catalog: Catalog, kind: str) -> dict[str, Any]:
    if kind == "apis":
        return dict.fromkeys(api_prices.known_api_models())
    return getattr(catalog, kind)


def _whole(kind: str, key: str, entries: dict[str, Any]) -> Any:
    return api_prices.api_model(key) if kind == "apis" else entries[key]


def _gpu(entry: Any) -> str | None:
    return getattr(entry, "gpu", None)


def _price_dates(entry: Any) -> list[str]:
    """Dates of what goes stale: prices. Specifications do not."""
    prices = getattr(entry, "prices", None)
    if prices is None:
        return [entry.date] if hasattr(entry, "tiers") and entry.date else []
    return [p.date for p in (prices.on_demand, prices.spot, prices.reserved_1y, prices.reserved_3y) if p and p.date]


def _overview(catalog: Catalog, judge: _Staleness) -> Report:
    rows = [("kind", "entries", "stale prices", "oldest price")]
    data = {}
    for kind in KINDS:
        entries = _entries(catalog, kind)
        dates = [d for e in entries.values() for d in _price_dates(e)] if kind == "offers" else []
        stale = sum(judge.stale(_price_dates(e)) for e in entries.values()) if kind == "offers" else 0
        if kind == "apis":
            dates = [api_prices.AS_OF.date().isoformat()]
            stale = len(entries) if judge.stale(dates) else 0
        rows.append((kind, str(len(entries)), str(stale) if dates else "-", min(dates, default="-")))
        data[kind] = {"entries": len(entries), "stale": stale, "oldest_price": min(dates, default=None)}
    lines = [
        *columns(rows, right="bc", indent=""),
        "",
        "fleetplan catalog KIND lists, fleetplan catalog KIND NAME shows one.",
    ]
    return Report("\n".join(lines) + "\n", data)


def _listing(kind: str, entries: dict[str, Any], judge: _Staleness) -> Report:
    rows = [(kind, *SUMMARIES.get(kind, ()), "date", "")]
    data = {}
    for key in sorted(entries):
        entry = _whole(kind, key, entries)
        if entry is None:
            continue
        dates = _price_dates(entry)
        flag = "STALE" if judge.stale(dates) else ""
        assumed = "assumed" if kind == "offers" and any(p.assumption for p in entry.prices.reserved().values()) else ""
        note = " ".join(x for x in (flag, f"({assumed} reserved)" if assumed else "") if x)
        rows.append((key, *_summary(kind, entry), max(dates, default=entry.date or "-"), note))
        data[key] = entry.model_dump(mode="json", exclude_none=True) | {"stale": bool(flag)}
    right = "".join(chr(ord("b") + k) for k in range(len(SUMMARIES.get(kind, ()))))
    return Report("\n".join(columns(rows, right=right, indent="")) + "\n", data)


def _summary(kind: str, e: Any) -> Iterator[str]:
    def price(p: Any, field: str = "usd_per_h") -> str:
        return f"{getattr(p, field):.2f}" if p else "-"

    if kind == "gpus":
        yield from (f"{e.vram_gb:g}", f"{e.bandwidth_gb_per_s:g}", f"{e.dense_tflops.get('fp16', 0):g}",
                    f"{e.interconnect.gb_per_s:g}")  # fmt: skip
    elif kind == "offers":
        yield f"{e.gpus} x {e.gpu}"
        yield price(e.prices.on_demand)
        yield price(e.prices.spot, "p50_usd_per_h")
        yield price(e.prices.reserved_1y)
        yield price(e.prices.reserved_3y)
    elif kind == "models":
        yield from (f"{e.parameters_b:g}", f"{e.active_parameters_b:g}", str(e.layers), str(e.max_context_tokens))
    elif kind == "quantizations":
        small, large = e.quality_loss[0], e.quality_loss[-1]
        yield from (f"{e.weight_bits:g}", e.needs, f"{small.loss_frac:.1%}", f"{large.loss_frac:.1%}")
    elif kind == "apis":
        t = e.tiers[0]
        cached = f"{t.cached_input_usd_per_1m:g}" if t.cached_input_usd_per_1m is not None else "-"
        yield from (f"{t.input_usd_per_1m:g}", cached, f"{t.output_usd_per_1m:g}")


def _one(kind: str, key: str, entry: Any, judge: _Staleness) -> Report:
    if entry is None:
        _refuse(f"'{key}' has no price per token", "")
    data = entry.model_dump(mode="json", exclude_none=True)
    stale = judge.stale(_price_dates(entry))
    flag = f"  # STALE: older than {judge.days:g} days" if stale else ""
    text = yaml.safe_dump({key: data}, sort_keys=False, allow_unicode=True, width=100)
    return Report(f"# {kind}{flag}\n{text}", {key: data | {"stale": stale}})
