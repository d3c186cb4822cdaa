"""Two plans, or two plans of a horizon, compared: what changed, and why the cost did."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.io.formatting import json_text, percent, tokens, usd, usd_small
from planner.plan.diff_changes import HELD
from planner.plan.diff_records import PlanDiff, ValueChange
from planner.plan.horizon.horizon_diff import HorizonDiff, ScenarioChange
from planner.reports.document import Document, Lines, Section, TablePart
from planner.reports.table import Column as C
from planner.reports.table import Table

SHARES = ("share", "shed", "growth per month", "quality max loss", "critical share")
"""keys of figures that are shares"""
MINIMIZED = {"expected": "the expected cost", "worst-case": "the worst case"}


def diff_document(diff: PlanDiff | HorizonDiff) -> Document:
    if isinstance(diff, PlanDiff):
        before, after, (headline, tables) = diff.before.name, diff.after.name, (_headline(diff), _tables(diff))
    else:
        before, after, (headline, tables) = diff.before, diff.after, (_horizon_headline(diff), _horizon_tables(diff))
    title = f"Changes of {f'{before} → {after}' if before != after else after}"
    if diff.same:
        return Document(title, headline="no change", json=lambda: json_text(diff.as_json()))
    first, *others = headline
    return Document(
        title,
        headline=first,
        lead=(Lines(tuple(others)),),
        parts=(Section("Changes", tuple(TablePart(table) for table in tables), key="changes"),),
        json=lambda: json_text(diff.as_json()),
    )


def _headline(diff: PlanDiff) -> Iterator[str]:
    a, b = diff.before, diff.after
    change = diff.attribution.total_usd_per_month
    share = f", {'+' if change > 0 else ''}{percent(change / a.cost_usd_per_month, 1)}" if a.cost_usd_per_month else ""
    moved = f"{_signed(change)}{share}" if change else "the same cost"
    yield f"{usd(a.cost_usd_per_month)} → {usd(b.cost_usd_per_month)} / month  ({moved})"
    for held in (x for x in diff.inputs if x.of == HELD):
        then, now = float(held.before or 0.0), float(held.after or 0.0)
        total = _signed(change + now - then)
        yield f"besides, what is held: {usd(then)} → {usd(now)} / month; with it {total}"
    each = f"{usd_small(a.usd_per_1m_tokens)} → {usd_small(b.usd_per_1m_tokens)} / 1M tokens"
    yield f"{each}, {tokens(a.tokens_per_month)} → {tokens(b.tokens_per_month)} tokens / month"
    if a.penalty_usd_per_month or b.penalty_usd_per_month:
        yield f"penalty {usd(a.penalty_usd_per_month)} → {usd(b.penalty_usd_per_month)} / month, not part of the cost"
    api = f"{a.baseline} → {b.baseline}" if a.baseline != b.baseline else b.baseline
    yield f"{api}: {usd(a.baseline_usd_per_month)} → {usd(b.baseline_usd_per_month)} / month"
    unsure = max(a.cost_usd_per_month - a.bound_usd_per_month, b.cost_usd_per_month - b.bound_usd_per_month)
    if abs(change) < unsure and not a.penalty_usd_per_month and not b.penalty_usd_per_month:
        yield f"the change is within the proof gap ({usd(unsure)} / month)"
    yield from (f"{note}: its price counts as unchanged" for note in diff.attribution.notes)


def _tables(diff: PlanDiff) -> Iterator[Table]:
    yield from (_why(diff), _costs(diff), _fleet(diff), _values("workloads", diff.workloads, "workload"), _prices(diff))
    yield from (_values("limits", diff.limits, "of"), _values("inputs", diff.inputs, "of"))


def _why(diff: PlanDiff) -> Table:
    a = diff.attribution
    rows = (
        ("demand", a.demand_usd_per_month, "more or fewer tokens, at the earlier cost per token"),
        ("prices", a.prices_usd_per_month, "the earlier purchases, at the later prices"),
        ("fleet and choices", a.choices_usd_per_month, "the rest: fleet, choices, other inputs"),
        ("total", a.total_usd_per_month, ""),
    )
    columns = (C("part", "part"), C("usd", "$/month", "money"), C("what", ""))
    return Table("why", "why the cost changed", columns, tuple((part, _signed(x, 2), why) for part, x, why in rows))


def _costs(diff: PlanDiff) -> Table:
    columns = (
        C("part", "part"),
        C("before", "before $/month", "money", get=lambda c: c.before_usd_per_month),
        C("after", "after", "money", get=lambda c: c.after_usd_per_month),
        C("change", "change", "money", get=lambda c: _signed(c.change_usd_per_month)),
    )
    paid = tuple(c for c in diff.costs if c.before_usd_per_month or c.after_usd_per_month)
    return Table("costs", "costs", columns, paid)


def _fleet(diff: PlanDiff) -> Table:
    columns = (
        C("what", "fleet"),
        C("offer", "instance"),
        C("gpu", "gpu"),
        C("purchase", "buy", "way to buy"),
        C("peak", "at peak", get=lambda f: f"{f.peak_before} → {f.peak_after}"),
        C("hours_before", "instance-h before", "count", get=lambda f: f.instance_hours_before),
        C("hours_after", "after", "count", get=lambda f: f.instance_hours_after),
        C("change", "$/month", "money", get=lambda f: _signed(f.usd_after - f.usd_before)),
    )
    return Table("fleet", "fleet", columns, diff.fleet)


def _prices(diff: PlanDiff) -> Table:
    columns = (
        C("used", "in use"),
        C("of", "of"),
        C("key", "price"),
        C("before", "before", "number", get=lambda p: _plain(p.before)),
        C("after", "after", "number", get=lambda p: _plain(p.after)),
        C("date_before", "of"),
        C("date_after", "of"),
    )
    return Table("prices", "prices", columns, diff.prices)


def _values(name: str, changes: tuple[ValueChange, ...], owner: str) -> Table:
    columns = (
        C("of", owner),
        C("key", "what"),
        C("before", "before", get=lambda c: _shown(c.key, c.before)),
        C("after", "after", get=lambda c: _shown(c.key, c.after)),
    )
    return Table(name, name, columns, changes)


def _shown(key: str, value: str | float | None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if any(key.endswith(share) for share in SHARES):
        return percent(value)
    if key.endswith("per month") and "$" not in key:
        return tokens(value)
    return _plain(value)


def _plain(value: float | None) -> str | None:
    return None if value is None else f"{value:,.2f}" if abs(value) >= 1000 else f"{value:.4g}"


def _signed(amount: float, digits: int | None = None) -> str:
    """+$12, -$3.50, or 0."""
    show: Callable[[float], str] = usd if digits is None else lambda x: f"${x:,.{digits}f}"
    if abs(amount) < 0.005:
        return "0"
    return ("+" if amount > 0 else "-") + show(abs(amount))


def _horizon_headline(diff: HorizonDiff) -> Iterator[str]:
    a, b = diff.minimized_before_usd, diff.minimized_after_usd
    worst_case = diff.risk_after == "worst-case"
    share = f", {'+' if b > a else ''}{percent((b - a) / a, 1)}" if a else ""
    moved = f"{'+' if b > a else ''}{usd(b - a)}{share}" if a != b else "the same cost"
    yield f"{'worst case' if worst_case else 'expected'} {usd(a)} → {usd(b)} over the horizon  ({moved})"
    if worst_case:
        yield f"expected {usd(diff.expected_before_usd)} → {usd(diff.expected_after_usd)}"
    if diff.risk_before != diff.risk_after:
        yield f"the plans minimize different measures: {MINIMIZED[diff.risk_before]} → {MINIMIZED[diff.risk_after]}"
    if diff.quarters_before != diff.quarters_after:
        yield f"{diff.quarters_before} → {diff.quarters_after} quarters: the costs cover different months"
    unsure = max(diff.counted_before_usd - diff.bound_before_usd, diff.counted_after_usd - diff.bound_after_usd)
    if 0 < abs(b - a) < unsure and diff.risk_before == diff.risk_after:
        yield f"the change is within the proof gap ({usd(unsure)})"
    if diff.same_case:
        yield "both are made from the same demand file"
    if not diff.signed and not diff.allowances:
        yield "the commitments are the same"


def _horizon_tables(diff: HorizonDiff) -> Iterator[Table]:
    columns = (
        C("scenario", "signed", missing="now"),
        C("first_day", "from"),
        C("offer", "offer"),
        C("term", "term", "way to buy"),
        C("before", "before", "count", get=lambda c: c.instances_before),
        C("after", "after", "count", get=lambda c: c.instances_after),
        C("change", "change", "+,.0f", get=lambda c: c.instances_after - c.instances_before),
    )
    yield Table("signed", "what is signed", columns, diff.signed)
    of_allowances = (
        C("scenario", "signed", missing="now"),
        C("first_day", "from"),
        C("name", "savings plan or units"),
        C("before", "before", "number", get=lambda a: a.units_before),
        C("after", "after", "number", get=lambda a: a.units_after),
        C("change", "change", "+,.2f", get=lambda a: a.units_after - a.units_before),
    )
    if diff.allowances is not None:
        yield Table("allowances", "savings plans and provisioned units", of_allowances, diff.allowances)
    costs = (
        C("scenario", "scenario"),
        C("before_usd", "before $", "money", get=lambda s: s.cost_before_usd),
        C("after_usd", "after $", "money", get=lambda s: s.cost_after_usd),
        C("change_usd", "change $", "+,.0f", get=_scenario_change),
        C("regret_before_usd", "regret before $", "money"),
        C("regret_after_usd", "regret after $", "money"),
    )
    yield Table("scenarios", "cost by scenario", costs, diff.scenarios)


def _scenario_change(s: ScenarioChange) -> float | None:
    if s.cost_before_usd is None or s.cost_after_usd is None:
        return None
    return s.cost_after_usd - s.cost_before_usd
