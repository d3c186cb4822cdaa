"""The tables of a bill that was held against a plan; money over the hours of the bill, to the cent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from planner.reports.table import BLANK, DATA, Cell, Cells, Row, Table
from planner.reports.table import Column as C
from planner.review.bills.ledger import UNUSED
from planner.review.bills.records import BillReview, ChargeKind, NoOffer, OtherService, PaidApi, PaidInstance

KINDS: dict[ChargeKind, str] = {
    "instances": "instances on the plan's menu",
    "apis": "APIs of the plan",
    "no offer": "instances and APIs that match no offer",
    "other services": "other services",
    "commitments bought": "commitments bought, which count as they are used",
    "taxes": "taxes",
    "credits": "credits",
    "corrections": "corrections and refunds of earlier bills",
    "adjustments": "adjustments",
    "other accounts": "rows that 'where' leaves out",
    "repeated": "rows repeated in another file",
    "outside the period": "outside the period under review",
}
BILL_TABLES = (
    "charges", "paid_instances", "effective_costs", "paid_apis", "commitment_use", "spot_prices", "showback",
    "no_offer", "other_services", "other_currencies", "converted_currencies", "bill_prices",
)  # fmt: skip
NO_TAG, NOT_USED = "(no tag)", "(commitments and capacity that nobody used)"
TOTAL = "total"
ROWS_SHOWN = 12
"""to people, of lists that may be long; files have all of them"""


def bill_tables(bill: BillReview) -> Iterator[Table]:
    """Those that have rows."""
    makers: tuple[Callable[[BillReview], Table], ...] = (
        charges, paid_instances, effective_costs, paid_apis, commitment_use, spot_prices, showback,
        no_offer, other_services, other_currencies, converted_currencies, bill_prices,
    )  # fmt: skip
    yield from (table for make in makers if (table := make(bill)).records)


def charges(bill: BillReview) -> Table:
    columns = (
        C("kind", "kind", formats=DATA),
        C("what", "what", get=lambda k: KINDS[k.kind]),
        C("rows", "rows", "count"),
        C("billed_usd", "billed $", "price"),
        C("effective_usd", "effective $", "price"),
        C("counted", "compared with the plan"),
    )
    total = Cells(
        what="the whole bill, as USD" if bill.converted_currencies else "the whole bill in USD",
        rows=sum(k.rows for k in bill.kinds),
        billed_usd=bill.total_billed_usd,
        effective_usd=bill.total_effective_usd,
        counted=False,
    )
    title = f"the bill ({', '.join(bill.files)})"
    return Table("charges", title, columns, bill.kinds, people=(*bill.kinds, total))


def paid_instances(bill: BillReview) -> Table:
    columns = (
        C("offer", "instance"),
        C("purchase", "bought as", "way to buy"),
        C("planned_usd", "planned $", "price"),
        C("paid_usd", "paid $", "price"),
        C("difference_usd", "difference $", "+,.2f", get=_over),
        C("unused_usd", "of it not used $", "price"),
        C("planned_hours", "planned h", "count"),
        C("paid_hours", "used h", "count"),
        C("planned_usd_per_h", "planned $/h", "small price"),
        C("paid_usd_per_h", "paid $/h", "small price"),
    )
    planned, paid, unused = (
        _sum(getattr(x, key) for x in bill.instances) for key in ("planned_usd", "paid_usd", "unused_usd")
    )
    total = Cells(
        offer=TOTAL, purchase=BLANK, planned_usd=planned, paid_usd=paid, difference_usd=_cents(paid - planned),
        unused_usd=unused,
    )  # fmt: skip
    people = (*bill.instances, *([total] if len(bill.instances) > 1 else []))
    return Table("paid_instances", f"paid against planned, {_days(bill)}", columns, bill.instances, people=people)


def _over(x: PaidInstance | PaidApi) -> float:
    """What was paid beyond the plan."""
    return _cents(x.paid_usd - x.planned_usd)


def effective_costs(bill: BillReview) -> Table:
    """Each instance once, however it was bought."""
    sums: dict[str, list[float]] = {}
    for x in bill.instances:
        if x.paid_usd or x.paid_hours:
            each = sums.setdefault(x.offer, [0.0, 0.0, 0.0])
            each[0] += x.paid_hours
            each[1] += x.paid_usd - x.unused_usd
            each[2] += x.unused_usd
    rows: tuple[Row, ...] = tuple(
        (offer, hours, _cents(used), _cents(unused), _cents(used + unused))
        for offer, (hours, used, unused) in sorted(sums.items())
    )
    columns = (
        C("offer", "instance"), C("used_hours", "used h", "count"), C("used_usd", "used $", "price"),
        C("unused_usd", "not used $", "price"), C("effective_usd", "effective $", "price"),
    )  # fmt: skip
    return Table("effective_costs", "effective cost by instance", columns, rows)


def paid_apis(bill: BillReview) -> Table:
    columns = (
        C("api", "API"),
        C("planned_usd", "planned $", "price"),
        C("paid_usd", "paid $", "price"),
        C("difference_usd", "difference $", "+,.2f", get=_over),
        C("planned_input_tokens", "planned input tokens", "tokens"),
        C("input_tokens", "billed", "tokens"),
        C("cached_input_tokens", "of it cached", "tokens"),
        C("planned_output_tokens", "planned output tokens", "tokens"),
        C("output_tokens", "billed", "tokens"),
    )
    return Table("paid_apis", "API tokens and spend", columns, bill.apis)


def commitment_use(bill: BillReview) -> Table:
    columns = (
        C("commitment", "commitment", get=lambda c: c.name),
        C("type", "type"),
        C("used_usd", "used $", "price"),
        C("unused_usd", "not used $", "price"),
        C("utilization_frac", "utilization", "percent"),
        C("used_hours", "hours", "count"),
        C("coverage_frac", "covers", "percent"),
        C("used_for", "used for", get=lambda c: ", ".join(c.used_for)),
    )
    note = "covers: share of all hours of the plan's instances it was used for"
    return Table("commitment_use", "commitments on the bill", columns, bill.commitments, (note,))


def spot_prices(bill: BillReview) -> Table:
    columns = (
        C("offer", "instance"),
        C("hours", "hours", "count"),
        C("planned_usd_per_h", "planned $/h", "small price"),
        C("planned_p95_usd_per_h", "its P95", "small price"),
        C("paid_usd_per_h", "paid $/h", "small price"),
        C("lowest_day_usd_per_h", "lowest day", "small price"),
        C("highest_day_usd_per_h", "highest day", "small price"),
    )
    return Table("spot_prices", "spot prices paid", columns, bill.spot)


def showback(bill: BillReview) -> Table:
    named = {None: NO_TAG, UNUSED: NOT_USED}
    columns = (
        C("team", bill.team_tag, get=lambda t: named.get(t.team, t.team)),
        C("instances_usd", "instances $", "price"),
        C("apis_usd", "APIs $", "price"),
        C("usd", "sum $", "price"),
        C("share_frac", "share", "percent"),
    )
    sums = {key: _sum(getattr(t, key) for t in bill.teams) for key in ("instances_usd", "apis_usd", "usd")}
    total = Cells(team=TOTAL, share_frac=1.0, **sums)
    people = (*bill.teams, *([total] if bill.teams else []))
    return Table("showback", f"showback by the tag '{bill.team_tag}'", columns, bill.teams, people=people)


def no_offer(bill: BillReview) -> Table:
    columns = (
        C("what", "what"),
        C("why", "why"),
        C("rows", "rows", "count"),
        C("hours", "hours", "count", get=lambda x: x.hours or None),
        C("gpu_hours", "GPU-hours", "count", get=lambda x: x.gpu_hours or None),
        C("effective_usd", "effective $", "price"),
    )
    people = (*bill.no_offer[:ROWS_SHOWN], *_more("what", bill.no_offer[ROWS_SHOWN:], why=BLANK))
    return Table("no_offer", "matches no offer, not counted", columns, bill.no_offer, people=people)


def other_services(bill: BillReview) -> Table:
    columns = (C("service", "service"), C("rows", "rows", "count"), C("effective_usd", "effective $", "price"))
    every = bill.other_services
    people = (*every[:ROWS_SHOWN], *_more("service", every[ROWS_SHOWN:]))
    return Table("other_services", "other services", columns, every, people=people)


def _more(key: str, rest: Sequence[NoOffer | OtherService], **cells: Cell) -> Iterator[Cells]:
    """The sum of a long list's end."""
    if rest:
        sums = Cells(rows=sum(x.rows for x in rest), effective_usd=_sum(x.effective_usd for x in rest))
        yield Cells({key: f"and {len(rest)} more"}, **sums, **cells)


CURRENCY = (
    C("currency", "currency"),
    C("rows", "rows", "count"),
    C("billed", "billed", "price"),
    C("effective", "effective", "price"),
)


def other_currencies(bill: BillReview) -> Table:
    title = "other currencies without a rate, not included in any sum"
    return Table("other_currencies", title, CURRENCY, bill.other_currencies)


def converted_currencies(bill: BillReview) -> Table:
    columns = (
        *CURRENCY,
        C("usd", "USD for one", "small price"),
        C("date", "rate of", get=lambda x: str(x.date)),
        C("effective_usd", "effective $", "price"),
    )
    title = "other currencies, counted as USD"
    return Table("converted_currencies", title, columns, bill.converted_currencies)


def bill_prices(bill: BillReview) -> Table:
    columns = (
        C("offer", "instance"),
        C("purchase", "bought as", "way to buy"),
        C("before_usd_per_h", "before $/h", "small price"),
        C("usd_per_h", "of the bill $/h", "small price"),
        C("date", "date"),
        C("source", "source"),
    )
    taken = tuple(p for p in bill.prices if p.taken)
    return Table("bill_prices", "prices of the bill, for the next plan", columns, taken)


def bill_sentences(bill: BillReview) -> Iterator[str]:
    """What was paid, and what of the bill is no part of that."""
    over = _cents(bill.paid_usd - bill.planned_usd)
    more = "as planned" if not over else f"${abs(over):,.2f} {'more' if over > 0 else 'less'} than planned"
    yield f"bill: ${bill.paid_usd:,.2f} for instances and APIs, {_days(bill)}: {more}"
    if lacking := lacking_currencies(bill):
        yield f"the bill's sums lack {lacking}: give the exchange rate under 'rates'"
    for x in bill.converted_currencies:
        yield (f"{x.effective:,.2f} {x.currency} of the bill counts as ${x.effective_usd:,.2f}, at {x.usd:g} USD on "
               f"{x.date}")  # fmt: skip
    for c in bill.commitments:
        if c.by_spend:
            yield f"savings plan {c.name}: {_money(c.used_usd)} used, {_money(c.unused_usd)} not used"
    besides = [(k.kind, k.effective_usd) for k in bill.kinds if not k.counted and k.effective_usd]
    if besides:
        named = {"no offer": "what matches no offer"}
        amounts = ", ".join(f"{named.get(kind, kind)} {_money(usd)}" for kind, usd in besides)
        yield f"also on the bill, but not counted: {amounts}"
    if bill.not_on_the_bill_usd_per_month:
        planned = _money(bill.not_on_the_bill_usd_per_month)
        yield f"engineers, caches and fixed costs of vendors are on no bill and count as planned: {planned} / month"


def lacking_currencies(bill: BillReview) -> str:
    """What is in no sum, for want of a rate; empty where nothing is."""
    return ", ".join(
        f"{x.effective:,.2f} {x.currency} ({x.rows:,} row{'s' * (x.rows != 1)})"
        for x in bill.other_currencies
        if x.would_count
    )


def _money(usd: float) -> str:
    return f"{'-' if usd < 0 else ''}${abs(usd):,.2f}"


def _days(bill: BillReview) -> str:
    return f"{bill.first_hour}h to {bill.last_hour}h UTC ({days_of(bill)})"


def days_of(bill: BillReview) -> str:
    days = f"{bill.hours / 24:g}"
    return f"{days} day{'s' * (days != '1')}"


def _sum(amounts: Iterable[float]) -> float:
    return _cents(sum(amounts))


def _cents(usd: float) -> float:
    """A sum of whole cents, which floats miss by a hair."""
    return round(usd, 2)
