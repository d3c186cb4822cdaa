"""What a bill says in words: what may be wrong with it, and what has to be decided."""

from __future__ import annotations

from collections.abc import Iterator

from planner.review.bills.ledger import NO_MACHINE
from planner.review.bills.records import BillReview
from planner.review.records import ReviewItem

WORTH_FRAC = 0.05
"""of what was paid: below it, what is not tagged is not worth a line"""
SPOT_FRAC = 0.1
LITTLE_USED_FRAC = 0.9
NAMED = 3


def risks_of(bill: BillReview | None) -> Iterator[ReviewItem]:
    if bill is None:
        return
    for note in bill.notes:
        yield _item("bill", note)
    for s in bill.spot:
        planned, paid = s.planned_usd_per_h, s.paid_usd_per_h
        if planned is not None and paid > planned * (1 + SPOT_FRAC):
            prices = f"${paid:,.3f} an hour, {paid / planned - 1:+.0%} against ${planned:,.3f} planned"
            yield _item("spot", f"{s.offer} cost {prices}; on its highest day ${s.highest_day_usd_per_h:,.3f}")
    for p in bill.prices:
        if not p.taken:
            prices = f"${p.usd_per_h:,.3f} an hour, ${p.before_usd_per_h or 0:,.3f} before"
            remedy = "the next plan keeps the earlier price; if the new one is right, give it under next: prices"
            yield _item("prices", f"the bill prices {p.offer} {p.purchase} at {prices}: {remedy}")
    for c in filter(lambda c: c.would_count, bill.other_currencies):
        charged = f"{c.effective:,.2f} {c.currency} ({c.rows:,} row{'s' * (c.rows != 1)})"
        remedy = "give its rate under 'rates'"
        yield _item("bill", f"{charged} are in another currency and not included in any sum: {remedy}")


def decisions_of(bill: BillReview | None) -> Iterator[ReviewItem]:
    if bill is None:
        return
    if bill.no_offer:
        unknown = sum(round(100 * x.effective_usd) for x in bill.no_offer) / 100
        names = ", ".join(x.what for x in bill.no_offer[:NAMED])
        more = f" and {len(bill.no_offer) - NAMED} more" if len(bill.no_offer) > NAMED else ""
        remedy = "add them to the menu, name them under bill: skus, or leave them out with bill: where"
        yield _item("bill", f"${unknown:,.2f} match no offer of the plan and are not counted ({names}{more}): {remedy}")
    for x in bill.no_offer:
        if x.why == NO_MACHINE and x.gpu_hours:
            hours = f"${x.effective_usd:,.2f} are for {x.gpu_hours:,.0f} GPU-hours of {x.what}"
            yield _item("bill", f"{hours}: name their machine type under bill: skus, by ResourceId or SkuId")
    for c in bill.commitments:
        used = c.utilization_frac
        if used is not None and used < LITTLE_USED_FRAC:
            remedy = "move load to it, or buy less of it"
            yield _item(
                "commitments", f"{c.name} was used to {used:.0%}, ${c.unused_usd:,.2f} of it not at all: {remedy}"
            )
    untagged = next((t for t in bill.teams if t.team is None), None)
    if untagged is not None and untagged.share_frac > WORTH_FRAC:
        remedy = "tag them, or name the right tag under bill: team_tag"
        spent = f"${untagged.usd:,.2f} ({untagged.share_frac:.0%})"
        yield _item("showback", f"{spent} carry no tag '{bill.team_tag}': {remedy}")


def _item(about: str, text: str) -> ReviewItem:
    return ReviewItem(about=about, text=text)
