"""`fleetplan catalog import` and `fleetplan catalog diff`: price files become a catalog file, and two are compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli.common import Format, PriceSource, note, put, put_json, refuse

if TYPE_CHECKING:
    from planner.catalog.entries import Offer
    from planner.catalog.importing.changes import Changes

SHIPPED = "shipped"
"""stands for the shipped catalog where a catalog file is asked for"""


@dataclass(frozen=True)
class Asked:
    """The options of an import."""

    source: PriceSource | None
    regions: str | None
    gpus: str | None
    out: Path | None
    against: Path | None
    accept: bool
    spot: bool
    day: str | None


def import_prices(path: str | None, extra: str | None, asked: Asked, format: Format) -> None:
    """Read price files, say what they change, and write a catalog file if no price jumps, or jumps are accepted."""
    from planner.case.demand.overrides import own_offers
    from planner.catalog.entries import shipped_catalog
    from planner.catalog.importing.changes import changes_between
    from planner.catalog.importing.importing import catalog_text, price_files
    from planner.catalog.importing.importing import import_prices as read_prices
    from planner.io.files import check_targets, write_whole
    from planner.io.strict_yaml import parse_yaml
    from planner.reports.tables.catalog_changes import import_report

    if path is None or extra is not None:
        refuse("catalog import", "takes one file or folder", "fleetplan catalog import PATH --from skypilot")
    if asked.source is None:
        refuse("--from", "say what format the files have", "One of " + ", ".join(PriceSource))
    files = price_files(Path(path), asked.source)
    check_targets({"--out": asked.out}, [*files, *([asked.against] if asked.against else [])])
    regions, gpus, day = _names(asked.regions), _gpus(asked.gpus), _day(asked.day)
    imported = read_prices(Path(path), asked.source, regions, gpus, day, asked.spot)
    text = catalog_text(imported, asked.source)
    after = own_offers(parse_yaml(text, str(asked.out or "prices.yaml")))
    before = _offers(str(asked.against)) if asked.against else _of(shipped_catalog().offers, after)
    changes = changes_between(before, after)
    report = import_report(imported, changes, str(asked.against) if asked.against else "the shipped catalog")
    put(report.text) if format is Format.table else put_json(report.data)
    if asked.day is None and asked.source in (PriceSource.skypilot, PriceSource.gpuhunt):
        note("these files have no date, so the day they were last changed is taken; --date gives another")
    if asked.out is None:
        note("nothing is written: add --out prices.yaml")
        return
    if changes.jumps and not asked.accept:
        _refuse_jumps(asked.out, changes)
    write_whole(asked.out, text)
    note(f"wrote {asked.out}; name it in a demand file:  catalog: {asked.out.name}")


def diff(before: str | None, after: str | None, format: Format) -> None:
    """Compare the offers of two catalog files; the word shipped stands for the shipped catalog."""
    from planner.catalog.importing.changes import changes_between
    from planner.reports.tables.catalog_changes import diff_report

    if before is None or after is None:
        refuse("catalog diff", "takes two catalog files", "fleetplan catalog diff shipped prices.yaml")
    old, new = _offers(before), _offers(after)
    if before == SHIPPED:
        old = _of(old, new)
    elif after == SHIPPED:
        new = _of(new, old)
    report = diff_report(changes_between(old, new), "the shipped catalog" if before == SHIPPED else before)
    put(report.text) if format is Format.table else put_json(report.data)


def refuse_other(argument: str | None, *options: object) -> None:
    """Refuse what only import and diff take."""
    from planner.io.errors import shown

    if argument is not None:
        refuse("catalog", f"unexpected extra argument {shown(argument)}")
    names = ("--from", "--regions", "--gpus", "--out", "--against")
    for name, value in zip(names, options, strict=True):
        if value is not None:
            refuse(name, "goes with catalog import", "fleetplan catalog import PATH --from skypilot")


def _refuse_jumps(out: Path, changes: Changes) -> None:
    from planner.io.errors import Diagnostic, InputError

    raise InputError(
        Diagnostic(
            str(out), None, None, jump.offer,
            f"{jump.way} goes from {jump.before_usd_per_h:.4g} to {jump.after_usd_per_h:.4g} $/h "
            f"({jump.change_frac:+.0%}); nothing was written",
            "Check it, then add --accept (for spot alone, --no-spot)",
        )
        for jump in changes.jumps
    )  # fmt: skip


def _of(offers: dict[str, Offer], others: dict[str, Offer]) -> dict[str, Offer]:
    """Offers that are among the others: a catalog file leaves the rest of the shipped ones as they are."""
    return {key: offer for key, offer in offers.items() if key in others}


def _offers(file: str) -> dict[str, Offer]:
    from planner.case.demand.overrides import own_offers
    from planner.catalog.entries import shipped_catalog
    from planner.io.strict_yaml import read_yaml

    return shipped_catalog().offers if file == SHIPPED else own_offers(read_yaml(file))


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name for part in text.split(",") if (name := part.strip())]


def _gpus(text: str | None) -> list[str] | None:
    from planner.catalog.entries import names_of, shipped_catalog
    from planner.catalog.names import find_gpu
    from planner.io.errors import did_you_mean, shown

    known, keys = shipped_catalog().gpus, list[str]()
    for name in _names(text) or ():
        key = find_gpu(name, known)
        if key is None:
            refuse("--gpus", f"there is no GPU {shown(name)}", did_you_mean(name, names_of(known)))
        keys.append(key)
    return keys or None


def _day(text: str | None) -> str | None:
    from datetime import date

    from planner.io.errors import shown

    try:
        return None if text is None else date.fromisoformat(text).isoformat()
    except ValueError:
        refuse("--date", f"expected a date, got {shown(text)}", "Write one such as 2027-01-31")
