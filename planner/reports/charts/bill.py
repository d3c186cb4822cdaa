"""The pictures of a bill: paid against planned, and whose it was."""

from __future__ import annotations

from planner.catalog.terms import in_words
from planner.io.formatting import percent
from planner.reports.markup import Html, bar, bar_table, el, figure, legend, notes, words
from planner.reports.tables.bill import NO_TAG, NOT_USED, days_of
from planner.review.bills.ledger import UNUSED
from planner.review.bills.records import BillReview

PLANNED, USED, NOT = "b2", "b1", "b4"
ROWS_SHOWN = 12


def paid(bill: BillReview) -> Html:
    """Two bars for each way to buy an instance and for each API."""
    lines = [(f"{x.offer} {in_words(x.purchase)}", x.planned_usd, x.paid_usd, x.unused_usd) for x in bill.instances]
    lines += [(x.api, x.planned_usd, x.paid_usd, 0.0) for x in bill.apis]
    lines.sort(key=lambda line: (-max(line[1:3]), line[0]))
    most = max((max(line[1:3]) for line in lines), default=0.0)
    if most <= 0:
        return Html("")
    rows = []
    for name, planned, spent, unused in lines[:ROWS_SHOWN]:
        used = max(0.0, spent - unused)
        pieces = [(USED, 0.0, used / most), (NOT, used / most, max(0.0, unused) / most)]
        rows.append((words(name), bar([(PLANNED, 0.0, planned / most)], f"planned ${planned:,.2f}"), f"{planned:,.2f}"))
        label = el("span", "paid", class_="said")
        rows.append((label, bar(pieces, f"paid ${spent:,.2f}, not used ${unused:,.2f}"), f"{spent:,.2f}"))
    over = round(bill.paid_usd - bill.planned_usd, 2)
    title = "What was paid is what was planned"
    if over:
        title = f"${abs(over):,.2f} {'more' if over > 0 else 'less'} was paid than planned"
    more = [f"and {len(lines) - ROWS_SHOWN} more, in the table below"] if len(lines) > ROWS_SHOWN else []
    keys = [(PLANNED, "planned"), (USED, "paid and used")]
    keys += [(NOT, "paid and not used")] if any(line[3] > 0 for line in lines) else []
    caption = f"USD over the {days_of(bill)} of the bill: ${bill.paid_usd:,.2f} paid, amortized."
    body = bar_table(("instance or API", "", "$"), rows)
    return figure("paid", title, legend(tuple(keys)), body, notes(more), caption=caption, wide=True)


def teams(bill: BillReview) -> Html:
    if len(bill.teams) < 2 or bill.paid_usd <= 0:
        return Html("")
    most = max(t.usd for t in bill.teams)
    named = {None: NO_TAG, UNUSED: NOT_USED}
    colours = {None: "b7", UNUSED: NOT}
    rows = [
        (
            words(str(named.get(t.team, t.team))),
            bar([(colours.get(t.team, USED), 0.0, max(0.0, t.usd) / most)]),
            f"{t.usd:,.2f}",
            percent(t.share_frac),
        )
        for t in bill.teams[:ROWS_SHOWN]
    ]
    owned = sum(t.usd for t in bill.teams if t.team not in (None, UNUSED)) / bill.paid_usd
    title = f"{percent(owned)} of what was paid has an owner"
    more = [f"and {len(bill.teams) - ROWS_SHOWN} more, in the table below"] if len(bill.teams) > ROWS_SHOWN else []
    body = bar_table((bill.team_tag, "", "$", "share"), rows)
    return figure("showback", title, body, notes(more), caption="Instances and APIs, amortized, by tag.")
