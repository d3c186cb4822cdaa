"""Studies of a plan as text: the savings waterfall, the break-even volume, and bills of several providers."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.errors import escaped
from planner.io.formatting import percent, tokens, usd, usd_small
from planner.plan.plan import Plan
from planner.plan.study_records import BreakEven, Crossing, ProviderBill, StepRecord, VolumePoint, Waterfall
from planner.reports.text import columns

APART = 1.5
"""volumes that are closer to each other than this factor are not all shown"""
BILLS_SHOWN = 12


def studies_text(plan: Plan) -> str:
    """Nothing where nothing was studied."""
    if plan.studies is None:
        return ""
    found = plan.studies
    sections = [
        list(_waterfall(found.waterfall)) if found.waterfall else [],
        list(_break_even(found.break_even)) if found.break_even else [],
        list(_providers(found.providers, plan.cost_usd_per_month)) if found.providers else [],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _waterfall(study: Waterfall) -> Iterator[str]:
    yield "savings, lever by lever"
    rows: list[tuple[str, ...]] = [("step", "$/month", "$/1M", "saves", "", "may also")]
    rows += [_step_row(step) for step in study.steps]
    yield from columns(rows, right="bcde")
    if study.saves_usd_per_month is not None and study.saves_frac is not None:
        yield f"  in all {usd(study.saves_usd_per_month)} / month, {percent(study.saves_frac, 1)}"
    yield from _notes(study.notes)


def _step_row(step: StepRecord) -> tuple[str, ...]:
    if step.cost_usd_per_month is None:
        why = "no plan is possible" if step.status == "infeasible" else "no plan was found in the time"
        return (step.title, "-", "-", "-", "", f"{step.said}: {why}")
    saved = "" if step.saves_usd_per_month is None else f"{round(step.saves_usd_per_month):,}"
    share = "" if step.saves_frac is None else percent(step.saves_frac) if abs(step.saves_frac) > 5e-4 else "0%"
    per_1m = "" if step.usd_per_1m_tokens is None else f"{step.usd_per_1m_tokens:.3f}"
    return (step.title, f"{step.cost_usd_per_month:,.0f}", per_1m, saved, share, step.said)


def _break_even(study: BreakEven) -> Iterator[str]:
    yield escaped(f"break-even with {study.provider} {study.model}{_with_team(study)}")
    yield from _crossings("the best plan without an API", study.crossings)
    if any(p.mixed_usd_per_month is not None for p in study.points):
        yield from _crossings("the best plan with APIs as well", study.mixed_crossings)
    rows: list[tuple[str, ...]] = [
        ("volume", "tokens/month", "API $/month", "without an API", "with APIs", "$/1M API", "without", "with")
    ]
    rows += [_point_row(p) for p in shown_points(study)]
    yield from columns(rows, right="abcdefgh")
    yield from _notes(study.notes)


def _with_team(study: BreakEven) -> str:
    team = study.engineers_usd_per_month
    return f", engineers at {usd(team)} / month included" if team else ", no engineers counted"


def _crossings(way: str, crossings: tuple[Crossing, ...]) -> Iterator[str]:
    if not crossings:
        yield f"  {way}: no crossing in the volumes looked at"
    for c in crossings:
        low, high = c.between_multiples
        what = "is cheaper" if c.cheaper_from_here == "self-hosted" else "costs more"
        yield (
            f"  {way} {what} from {tokens(c.tokens_per_month)} tokens / month on ({c.multiple:.3g} times this demand, "
            f"{usd(c.usd_per_month)} / month; proved between {low:.4g} and {high:.4g})"
        )


def shown_points(study: BreakEven) -> list[VolumePoint]:
    """Those with both curves, thinned where there are many; the case itself always."""
    either = [p for p in study.points if p.self_hosted_usd_per_month is not None or p.mixed_usd_per_month is not None]
    both = [p for p in either if p.self_hosted_usd_per_month is not None and p.mixed_usd_per_month is not None]
    shown: list[VolumePoint] = []
    for p in both or either:
        if p.multiple == 1 or not shown or p.multiple >= APART * shown[-1].multiple:
            shown.append(p)
    return shown


def _point_row(p: VolumePoint) -> tuple[str, ...]:
    costs = (p.api_usd_per_month, p.self_hosted_usd_per_month, p.mixed_usd_per_month)
    each = ("-" if c is None else f"{1e6 * c / p.tokens_per_month:.3f}" for c in costs)
    totals = ("-" if c is None else f"{c:,.0f}" for c in costs)
    return (f"{p.multiple:.3g} x", tokens(p.tokens_per_month), *totals, *each)


def _providers(bills: tuple[ProviderBill, ...], plan_usd: float) -> Iterator[str]:
    yield f"the same requests at API providers (the plan: {usd(plan_usd)} / month)"
    rows: list[tuple[str, ...]] = [("provider", "model", "", "$/month", "without discounts", "$/1M", "in / out per 1M")]
    rows += [_bill_row(b) for b in bills[:BILLS_SHOWN]]
    yield from columns(rows, right="def")
    if len(bills) > BILLS_SHOWN:
        yield f"  and {len(bills) - BILLS_SHOWN} more, all in the plan's JSON"


def _bill_row(b: ProviderBill) -> tuple[str, ...]:
    tier = min(b.prices.tiers, key=lambda t: t.above_input_tokens)
    served = b.role if b.role != "same model" else f"same model: {', '.join(b.workloads)}"
    prices = f"{usd_small(tier.input_usd_per_1m)} / {usd_small(tier.output_usd_per_1m)}"
    costs = (f"{b.cost_usd_per_month:,.0f}", f"{b.without_discounts_usd_per_month:,.0f}", f"{b.usd_per_1m_tokens:.3f}")
    return (b.provider, b.model, served, *costs, prices)


def _notes(notes: tuple[str, ...]) -> Iterator[str]:
    yield from (f"  {escaped(note)}" for note in notes)
