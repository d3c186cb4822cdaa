"""What was paid against what was planned, in whole cents that add up to the bill."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import get_args

import numpy as np

from planner.case.case import OWNED, SAVINGS_PLAN
from planner.case.owned import owned_key
from planner.case.prices import HELD
from planner.catalog.terms import is_bought
from planner.io.formatting import counted
from planner.plan.account.account import account_of
from planner.plan.plan import Costs, FleetLine, Plan
from planner.review.bills.bill import Bill
from planner.review.bills.cells import ZERO, in_cents, rounded, usd
from planner.review.bills.ledger import UNUSED, ApiLine, Commitment, Ledger, Line
from planner.review.bills.records import (
    BillPrice,
    BillReview,
    BoughtAs,
    ChargeKind,
    CommitmentUse,
    ConvertedCurrency,
    KindOfCharge,
    NoOffer,
    OtherCurrency,
    OtherService,
    PaidApi,
    PaidInstance,
    SpotPaid,
    TeamSpend,
)
from problems.constants import HOURS_PER_MONTH

WAYS: tuple[BoughtAs, ...] = get_args(BoughtAs)
KINDS: tuple[ChargeKind, ...] = get_args(ChargeKind)
COUNTED: tuple[ChargeKind, ...] = ("instances", "apis")
DAYS_NAMED = 5


def reconcile(bill: Bill, plan: Plan, team_tag: str, period_hours: int, prices: tuple[BillPrice, ...]) -> BillReview:
    ledger, months = bill.ledger, bill.hours / HOURS_PER_MONTH
    kinds = tuple(_kinds(ledger))
    cents = {k.kind: round(100 * k.effective_usd) for k in kinds}
    instances = tuple(_instances(plan, ledger, months, cents.get("instances", 0)))
    apis = tuple(_apis(plan, ledger, months, cents.get("apis", 0)))
    paid = sum(cents.get(kind, 0) for kind in COUNTED)
    hours = [t.strftime("%Y-%m-%dT%H") for t in (bill.first, bill.stop)]
    return BillReview(
        files=tuple(file.name for file in bill.files),
        first_hour=hours[0],
        last_hour=hours[1],
        hours=bill.hours,
        rows=bill.rows,
        planned_usd=usd(round(100 * (sum(x.planned_usd for x in instances) + sum(x.planned_usd for x in apis)))),
        paid_usd=usd(paid),
        paid_usd_per_month=usd(paid) / months,
        not_on_the_bill_usd_per_month=_not_on_a_bill(plan.costs)
        + sum(f.cost_usd_per_month for f in plan.fleet if _is_owned(f)),
        total_billed_usd=usd(sum(round(100 * k.billed_usd) for k in kinds)),
        total_effective_usd=usd(sum(cents.values())),
        kinds=kinds,
        instances=instances,
        apis=apis,
        commitments=tuple(_commitments(ledger)),
        spot=tuple(_spot(plan, ledger)),
        team_tag=team_tag,
        teams=tuple(_teams(ledger, cents)),
        no_offer=tuple(_no_offer(ledger, cents.get("no offer", 0))),
        other_services=tuple(_services(ledger, cents.get("other services", 0))),
        other_currencies=tuple(
            OtherCurrency(
                currency=name, rows=a.rows, billed=usd(rounded(a.billed)), effective=usd(rounded(a.effective))
            )
            for name, a in sorted(ledger.currencies.items())
        ),
        converted_currencies=tuple(_converted(bill)),
        prices=prices,
        notes=tuple(_notes(bill, period_hours)),
    )


def _converted(bill: Bill) -> Iterator[ConvertedCurrency]:
    for currency, amount in sorted(bill.ledger.converted.items()):
        rate = bill.rates[currency]
        assert rate.day is not None
        yield ConvertedCurrency(
            currency=currency,
            rows=amount.rows,
            billed=usd(rounded(amount.billed)),
            effective=usd(rounded(amount.effective)),
            usd=float(rate.usd),
            date=rate.day,
            effective_usd=usd(rounded(amount.effective * rate.usd)),
        )


def _not_on_a_bill(costs: Costs) -> float:
    """Caches, engineers, fixed costs of vendors, servers that were bought and their energy."""
    others = (costs.vendors_usd_per_month, costs.bought_usd_per_month, costs.energy_usd_per_month)
    return costs.caching_usd_per_month + costs.engineers_usd_per_month + sum(usd or 0.0 for usd in others)


def _kinds(ledger: Ledger) -> Iterator[KindOfCharge]:
    """Those that there are; they add up to the bill."""
    kinds = [kind for kind in KINDS if kind in ledger.kinds]
    billed, effective = (
        in_cents([getattr(ledger.kinds[kind], what) for kind in kinds]) for what in ("billed", "effective")
    )
    for kind, cash, amortized in zip(kinds, billed, effective, strict=True):
        rows, counted = ledger.kinds[kind].rows, kind in COUNTED
        yield KindOfCharge(kind=kind, rows=rows, billed_usd=usd(cash), effective_usd=usd(amortized), counted=counted)


def _instances(plan: Plan, ledger: Ledger, months: float, total: int) -> Iterator[PaidInstance]:
    planned: dict[tuple[str, BoughtAs], list[float]] = {}
    for offer, way, usd_per_month, hours_per_month in _planned(plan):
        sums = planned.setdefault((offer, way), [0.0, 0.0])
        sums[0] += usd_per_month * months
        sums[1] += hours_per_month * months
    keys = sorted({*planned, *ledger.lines}, key=lambda key: (key[0], WAYS.index(key[1])))
    lines = [ledger.lines.get(key, Line()) for key in keys]
    paid = in_cents([line.used + line.unused for line in lines], total)
    wanted = in_cents([Decimal(planned.get(key, [0.0])[0]) for key in keys])
    for key, line, cents, planned_cents in zip(keys, lines, paid, wanted, strict=True):
        planned_usd, planned_hours = planned.get(key, [0.0, 0.0])
        hours = float(line.hours)
        yield PaidInstance(
            offer=key[0],
            purchase=key[1],
            planned_usd=usd(planned_cents),
            paid_usd=usd(cents),
            unused_usd=usd(rounded(line.unused)),
            planned_hours=planned_hours,
            paid_hours=hours,
            planned_usd_per_h=planned_usd / planned_hours if planned_hours else None,
            paid_usd_per_h=float(line.used) / hours if hours > 0 else None,
        )


def _planned(plan: Plan) -> Iterator[tuple[str, BoughtAs, float, float]]:
    """Dollars and hours a month that a plan has for each offer and way to buy; what it holds, at what was signed."""
    for f in plan.fleet:
        if f.purchase != HELD and not _is_owned(f) and not is_bought(f.purchase):
            way: BoughtAs = "reserved" if f.purchase.startswith("reserved") else f.purchase  # type: ignore[assignment]
            hours, usd_per_month = _under_savings_plans(plan, f)
            beside = f.cost_usd_per_month
            if hours:
                yield f.offer, "reserved", usd_per_month, hours
                beside = account_of(plan).money.listed_usd_per_month(f) - hours * f.usd_per_h
            yield f.offer, way, beside, beside / f.usd_per_h
    for h in plan.case.held or ():
        if h.purchase != OWNED:
            committed = h.purchase == SAVINGS_PLAN or h.purchase.startswith("reserved")
            bought: BoughtAs = "reserved" if committed else "on-demand"
            hours = h.instances * HOURS_PER_MONTH
            yield h.offer, bought, hours * h.usd_per_h, hours


def _under_savings_plans(plan: Plan, line: FleetLine) -> tuple[float, float]:
    """Hours a month that savings plans cover of what is bought on demand, and what is paid for these plans; held ones
    are on the bill too.
    """
    if line.purchase != "on-demand":
        return 0.0, 0.0
    account = account_of(plan)
    cover = account.money.cover
    mine = [(name, part) for (name, of), part in cover.parts.items() if of == line.offer]
    return sum(account.a_month(part) for _, part in mine), sum(cover.paid_usd_per_month(n, line.offer) for n, _ in mine)


def _is_owned(line: FleetLine) -> bool:
    """Whether no provider bills it."""
    return line.offer.endswith(owned_key(""))


def _apis(plan: Plan, ledger: Ledger, months: float, total: int) -> Iterator[PaidApi]:
    planned: dict[str, np.ndarray] = {}
    for served, asked in zip(plan.workloads, plan.case.workloads, strict=True):
        if served.api is not None and served.api_flows:
            hours = [plan.slots[flow.slot].hours_per_month for flow in served.api_flows]
            per_s = np.array([flow.requests_per_s for flow in served.api_flows])
            requests = 3600 * np.array(hours) @ per_s / (plan.slots[-1].month + 1)
            read, written = (np.array([getattr(b, key) for b in asked.buckets]) for key in
                             ("input_tokens", "output_tokens"))  # fmt: skip
            figures = np.array([served.api_cost_usd_per_month, requests @ read, requests @ written]) * months
            planned[served.api] = planned.get(served.api, np.zeros(3)) + figures
    keys = sorted({*planned, *ledger.apis})
    lines = [ledger.apis.get(key, ApiLine()) for key in keys]
    paid = in_cents([line.paid for line in lines], total)
    wanted = in_cents([Decimal(float(planned.get(key, np.zeros(3))[0])) for key in keys])
    for key, line, cents, planned_cents in zip(keys, lines, paid, wanted, strict=True):
        tokens = {kind: float(count) for kind, count in line.tokens.items()}
        cached, written_tokens = tokens.get("cached", 0.0), tokens.get("output", 0.0)
        yield PaidApi(
            api=key,
            planned_usd=usd(planned_cents),
            paid_usd=usd(cents),
            planned_input_tokens=float(planned.get(key, np.zeros(3))[1]),
            planned_output_tokens=float(planned.get(key, np.zeros(3))[2]),
            input_tokens=sum(tokens.values()) - written_tokens,
            cached_input_tokens=cached,
            output_tokens=written_tokens,
        )


def _commitments(ledger: Ledger) -> Iterator[CommitmentUse]:
    all_hours: dict[str, Decimal] = {}
    for (offer, _), line in ledger.lines.items():
        all_hours[offer] = all_hours.get(offer, ZERO) + line.hours
    for key, c in sorted(ledger.commitments.items()):
        if not _concerns_us(c):
            continue
        used, unused = in_cents([sum(c.used.values(), ZERO), c.unused])
        offers = sorted(target.name for target in c.used if target.kind == "instances")
        known = sum((all_hours.get(offer, ZERO) for offer in offers), ZERO)
        covered = sum((hours for target, hours in c.hours.items() if target.kind == "instances"), ZERO)
        yield CommitmentUse(
            id=key,
            name=c.name or key,
            type=c.type,
            used_usd=usd(used),
            unused_usd=usd(unused),
            utilization_frac=used / (used + unused) if used + unused > 0 else None,
            used_hours=float(sum(c.hours.values(), ZERO)),
            coverage_frac=float(covered / known) if known > 0 else None,
            used_for=tuple(sorted({target.name or target.kind for target in c.used})),
            by_spend=c.by_spend,
        )


def _concerns_us(c: Commitment) -> bool:
    """Whether it was used for instances or APIs, or for nothing; databases of others have commitments too."""
    if not c.used:
        return not c.elsewhere and c.unused != 0
    return any(target.kind in (*COUNTED, "no offer") for target in c.used)


def _spot(plan: Plan, ledger: Ledger) -> Iterator[SpotPaid]:
    for offer in sorted({offer for offer, _ in ledger.spot_days}):
        days = [(cost, hours) for (of, _), (cost, hours) in sorted(ledger.spot_days.items()) if of == offer]
        cost, hours = (sum((day[k] for day in days), ZERO) for k in (0, 1))
        each = [float(c / h) for c, h in days]
        known = plan.case.offers.get(offer)
        price = known.prices.spot if known is not None else None
        yield SpotPaid(
            offer=offer,
            hours=float(hours),
            planned_usd_per_h=price.p50_usd_per_h if price else None,
            planned_p95_usd_per_h=price.p95_usd_per_h if price else None,
            paid_usd_per_h=float(cost / hours),
            lowest_day_usd_per_h=min(each),
            highest_day_usd_per_h=max(each),
        )


def _teams(ledger: Ledger, cents: dict[ChargeKind, int]) -> Iterator[TeamSpend]:
    """Most first; what nobody's tag is on, then what nobody used, last."""
    spent = ledger.teams
    names = sorted(spent, key=lambda team: (team == UNUSED, team is None, -sum(spent[team].values()), str(team)))
    columns = {kind: in_cents([spent[team][kind] for team in names], cents.get(kind, 0)) for kind in COUNTED}
    total = sum(map(sum, columns.values()))
    for team, instances, apis in zip(names, columns["instances"], columns["apis"], strict=True):
        share = (instances + apis) / total if total else 0.0
        yield TeamSpend(
            team=team,
            instances_usd=usd(instances),
            apis_usd=usd(apis),
            usd=usd(instances + apis),
            share_frac=share,
        )


def _no_offer(ledger: Ledger, total: int) -> Iterator[NoOffer]:
    ranked = sorted(ledger.no_offer.items(), key=lambda item: (-item[1].effective, item[0]))
    cents = in_cents([amount.effective for _, amount in ranked], total)
    for (target, amount), part in zip(ranked, cents, strict=True):
        hours, gpu_hours = (
            float(by_target.get(target, ZERO)) for by_target in (ledger.no_offer_hours, ledger.no_offer_gpu_hours)
        )
        yield NoOffer(
            what=target.name,
            why=target.why,
            rows=amount.rows,
            hours=hours,
            gpu_hours=gpu_hours,
            effective_usd=usd(part),
        )


def _services(ledger: Ledger, total: int) -> Iterator[OtherService]:
    ranked = sorted(ledger.services.items(), key=lambda item: (-item[1].effective, item[0]))
    cents = in_cents([amount.effective for _, amount in ranked], total)
    for (name, amount), part in zip(ranked, cents, strict=True):
        yield OtherService(service=name, rows=amount.rows, effective_usd=usd(part))


def _notes(bill: Bill, period_hours: int) -> Iterator[str]:
    if bill.hours < period_hours:
        yield (f"the bill has {bill.hours:,.0f} of the {period_hours:,} hours under review: the monthly cost is "
               "extrapolated from them")  # fmt: skip
    if bill.missing_days:
        named = ", ".join(map(str, bill.missing_days[:DAYS_NAMED]))
        more = f" and {len(bill.missing_days) - DAYS_NAMED} more" if len(bill.missing_days) > DAYS_NAMED else ""
        yield f"the bill has no usage on {named}{more}: charges may be missing"
    if "repeated" in bill.ledger.kinds:
        yield f"{counted(bill.ledger.kinds['repeated'].rows, 'row')} repeated in several files, counted once"
    yield from bill.ledger.notes
