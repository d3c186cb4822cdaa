"""What is held, as a case has it: known instances, terms that touch the horizon, and within the quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from planner.case.case import OWNED, Holding, Limits
from planner.case.dates import last_day_after, quarter_days
from planner.case.demand.future_schema import HoldingSpec
from planner.case.demand.notes import Notes
from planner.case.demand.overrides import offers_called
from planner.case.demand.schema import DemandFile
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.catalog.entries import Catalog, Offer
from planner.io.errors import did_you_mean, shown


def holdings_of(
    spec: DemandFile, catalog: Catalog, offers: dict[str, Offer], limits: Limits, notes: Notes
) -> tuple[Holding, ...]:
    assert spec.starts is not None
    holdings = []
    for k, entry in enumerate(spec.have):
        key = _offer(entry, k, catalog, offers, notes)
        if _touches_horizon(entry, k, spec, notes) and key is not None:
            _assume_parts_of_quarters(entry, spec, notes)
            holdings.append(holding_of(entry, key))
            if entry.purchase == OWNED:
                _check_owned(entry, k, spec, holdings, notes)
    if not notes.mistakes:
        _check_quotas(spec, holdings, offers, limits, notes)
    return tuple(holdings)


def holding_of(entry: HoldingSpec, offer: str) -> Holding:
    """A holding as it is written, of an offer by its key."""
    return Holding(
        offer=offer,
        purchase=entry.purchase,
        instances=entry.instances,
        usd_per_h=entry.price,
        first_day=entry.from_day,
        last_day=entry.until,
    )


def _check_owned(entry: HoldingSpec, k: int, spec: DemandFile, holdings: list[Holding], notes: Notes) -> None:
    """Complain where owned boxes could not be used: they run by the hour, all of a kind at one price."""
    if spec.menu.purchase is not None and "on-demand" not in spec.menu.purchase:
        message = "owned boxes run by the hour, but menu.purchase has no on-demand"
        notes.complain(("have", k, "purchase"), message, "Add on-demand to menu.purchase")
    prices = {h.usd_per_h for h in holdings if h.purchase == OWNED and h.offer == holdings[-1].offer}
    if len(prices) > 1:
        notes.complain(("have", k, "price"), "boxes of this kind are also owned at another price", "Give their mean")


def _offer(entry: HoldingSpec, k: int, catalog: Catalog, offers: dict[str, Offer], notes: Notes) -> str | None:
    keys = offers_called(entry.offer, offers)
    path = ("have", k, "offer")
    known = offers_called(entry.offer, catalog.offers)
    if not keys and known:
        offer = catalog.offers[known[0]]
        remedy = f"Add GPU {offer.gpu}, provider {offer.provider} or region {offer.region} to the menu"
        notes.complain(path, f"{shown(entry.offer)} is not on the menu", remedy)
    elif not keys:
        message = f"no instance is called {shown(entry.offer)}"
        notes.complain(path, message, did_you_mean(entry.offer, offers) or "Write provider/instance@region")
    elif len(keys) > 1:
        message = f"{shown(entry.offer)} is on the menu in {len(keys)} regions"
        notes.complain(path, message, f"Write the one that you hold, such as {keys[0]}")
    return keys[0] if len(keys) == 1 else None


def _touches_horizon(entry: HoldingSpec, k: int, spec: DemandFile, notes: Notes) -> bool:
    assert spec.starts is not None
    ends = last_day_after(spec.starts, MONTHS_OF_A_QUARTER * (spec.horizon or 1))
    if entry.until and entry.until < spec.starts:
        notes.complain(("have", k, "until"), f"it has lapsed when the plan starts, {spec.starts}", "Remove it")
        return False
    if entry.from_day and entry.from_day > ends:
        notes.complain(("have", k, "from"), f"it begins after the horizon, which ends {ends}", "Remove it")
        return False
    return True


def _assume_parts_of_quarters(entry: HoldingSpec, spec: DemandFile, notes: Notes) -> None:
    """Say what a holding does in a quarter within which it begins or ends."""
    assert spec.starts is not None
    first, last = entry.from_day, entry.until
    on_demand = spec.menu.purchase is None or "on-demand" in spec.menu.purchase
    for quarter in range(spec.horizon or 1):
        begins, ends = quarter_days(spec.starts, quarter)
        apart = (first is not None and begins < first <= ends) or (last is not None and begins <= last < ends)
        if not apart:
            continue
        day = f"last day {last}" if last and last < ends else f"first day {first}"
        value, why = f"not used from {begins} to {ends}", f"its {day} lies within the quarter"
        if entry.purchase == OWNED:
            why += ", but boxes of your own serve only whole quarters; it costs nothing while it is not used"
        elif not on_demand or not entry.price:
            why += ", where it covers what runs on demand at a price, and there is none; it is paid for its days"
        else:
            value = f"used and paid on its days from {begins} to {ends}"
            why += ": on its days it covers instances that run on demand"
        notes.assume(f"have.{entry.offer}", value, why)


def _check_quotas(
    spec: DemandFile, holdings: list[Holding], offers: dict[str, Offer], limits: Limits, notes: Notes
) -> None:
    """Complain where more is held than a quota allows; owned instances need not run."""
    assert spec.starts is not None
    for quarter in range(spec.horizon or 1):
        begins, ends = quarter_days(spec.starts, quarter)
        inside = [
            h
            for h in holdings
            if (h.first_day is None or h.first_day <= ends) and (h.last_day is None or h.last_day >= begins)
        ]
        over = [*beyond_quotas(inside, offers, limits)]
        for key, message in over:
            notes.complain(("have",), message, f"Raise {key}, or correct what is held")
        if over:
            return


def beyond_quotas(holdings: Iterable[Holding], offers: dict[str, Offer], limits: Limits) -> Iterator[tuple[str, str]]:
    """Quotas below what is held, and how far; owned instances need not run."""
    instances: Counter[str] = Counter()
    gpus: Counter[str] = Counter()
    for h in holdings:
        if h.purchase != OWNED:
            instances[h.offer] += h.instances
            gpus[offers[h.offer].gpu] += h.instances * offers[h.offer].gpus
    for key, counts, quotas, what in (
        ("policy.max_instances", instances, limits.max_instances, "instances"),
        ("policy.max_gpus", gpus, limits.max_gpus, "GPUs"),
    ):
        for name, count in counts.items():
            if count > quotas.get(name, count):
                yield key, f"{count} {what} of {name} are held, more than {key} allows ({quotas[name]})"
