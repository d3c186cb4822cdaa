"""A comparison of two plans as text and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.io.errors import escaped
from planner.io.formatting import percent, tokens, usd, usd_small
from planner.plan.diff_records import PlanDiff, ValueChange
from planner.reports.markdown import bullets, markdown, titled_markdown
from planner.reports.table import Column as C
from planner.reports.table import Row, Table, paragraphs
from planner.reports.text import titled_text

SHARES = ("share", "shed", "growth per month", "quality max loss", "critical share")
"""keys of figures that are shares"""


def diff_text(diff: PlanDiff) -> str:
    if diff.same:
        return "no change\n"
    return paragraphs([map(escaped, _headline(diff)), *map(titled_text, _tables(diff))])


def diff_markdown(diff: PlanDiff) -> str:
    names = f"{diff.before.name} → {diff.after.name}" if diff.before.name != diff.after.name else diff.after.name
    head = f"# Changes of {markdown(names)}"
    if diff.same:
        return f"{head}\n\nNo change.\n"
    first, *others = _headline(diff)
    bulleted = bullets(line.strip() for line in others)
    return paragraphs([[head], [f"**{markdown(first)}**"], bulleted, *map(titled_markdown, _tables(diff))])


def _headline(diff: PlanDiff) -> Iterator[str]:
    a, b = diff.before, diff.after
    change = diff.attribution.total_usd_per_month
    share = f", {'+' if change > 0 else ''}{percent(change / a.cost_usd_per_month, 1)}" if a.cost_usd_per_month else ""
    moved = f"{_signed(change)}{share}" if change else "the same cost"
    yield f"{usd(a.cost_usd_per_month)} → {usd(b.cost_usd_per_month)} / month  ({moved})"
    each = f"{usd_small(a.usd_per_1m_tokens)} → {usd_small(b.usd_per_1m_tokens)} / 1M tokens"
    yield f"  {each}, {tokens(a.tokens_per_month)} → {tokens(b.tokens_per_month)} tokens / month"
    if a.penalty_usd_per_month or b.penalty_usd_per_month:
        yield f"  penalty {usd(a.penalty_usd_per_month)} → {usd(b.penalty_usd_per_month)} / month, not part of the cost"
    api = f"{a.baseline} → {b.baseline}" if a.baseline != b.baseline else b.baseline
    yield f"  {api}: {usd(a.baseline_usd_per_month)} → {usd(b.baseline_usd_per_month)} / month"
    unsure = max(a.cost_usd_per_month - a.bound_usd_per_month, b.cost_usd_per_month - b.bound_usd_per_month)
    if abs(change) < unsure and not a.penalty_usd_per_month and not b.penalty_usd_per_month:
        yield f"  the change is within the proof gap ({usd(unsure)} / month)"
    yield from (f"  {note}: its price counts as unchanged" for note in diff.attribution.notes)


def _tables(diff: PlanDiff) -> Iterator[Table]:
    workloads, limits = _values("workloads", diff.workloads, "workload"), _values("limits", diff.limits, "of")
    inputs = _values("inputs", diff.inputs, "of")
    tables = (_why(diff), _costs(diff), _fleet(diff), workloads, _prices(diff), limits, inputs)
    yield from (table for table in tables if table.rows)


def _why(diff: PlanDiff) -> Table:
    a = diff.attribution
    rows: tuple[Row, ...] = (
        ("demand", _signed(a.demand_usd_per_month, 2), "more or fewer tokens, at the earlier cost of a token"),
        ("prices", _signed(a.prices_usd_per_month, 2), "what was bought before, at the later prices"),
        ("fleet and choices", _signed(a.choices_usd_per_month, 2), "the rest: fleet, choices, other inputs"),
        ("total", _signed(a.total_usd_per_month, 2), ""),
    )  # fmt: skip
    return Table("why", "why the cost changed", (C("part", "part"), C("usd", "$/month", "money"), C("what", "")), rows)


def _costs(diff: PlanDiff) -> Table:
    rows = tuple(
        (c.part, c.before_usd_per_month, c.after_usd_per_month, _signed(c.change_usd_per_month))
        for c in diff.costs
        if c.before_usd_per_month or c.after_usd_per_month
    )
    columns = (C("part", "part"), C("before", "before $/month", "money"), C("after", "after", "money"),
               C("change", "change", "money"))  # fmt: skip
    return Table("costs", "costs", columns, rows)


def _fleet(diff: PlanDiff) -> Table:
    rows = tuple(
        (f.what, f.offer, f.gpu, f.purchase, f"{f.peak_before} → {f.peak_after}", f.instance_hours_before,
         f.instance_hours_after, _signed(f.usd_after - f.usd_before))
        for f in diff.fleet
    )  # fmt: skip
    columns = (
        C("what", "fleet"), C("offer", "instance"), C("gpu", "gpu"), C("purchase", "buy"), C("peak", "at peak"),
        C("hours_before", "instance-h before", "count"), C("hours_after", "after", "count"),
        C("change", "$/month", "money"),
    )  # fmt: skip
    return Table("fleet", "fleet", columns, rows)


def _prices(diff: PlanDiff) -> Table:
    rows = tuple(
        (p.used, p.of, p.key, _plain(p.before), _plain(p.after), p.date_before, p.date_after) for p in diff.prices
    )
    columns = (
        C("used", "in use"), C("of", "of"), C("key", "price"), C("before", "before", "number"),
        C("after", "after", "number"), C("date_before", "of"), C("date_after", "of"),
    )  # fmt: skip
    return Table("prices", "prices", columns, rows)


def _values(name: str, changes: tuple[ValueChange, ...], owner: str) -> Table:
    rows = tuple((c.of, c.key, *(_shown(c.key, value) for value in (c.before, c.after))) for c in changes)
    columns = (C("of", owner), C("key", "what"), C("before", "before"), C("after", "after"))
    return Table(name, name, columns, rows)


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
