"""A policy check: each rule with value and limit, what fails first, and what is not verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.checker.policy.rules import Check, Rule
from planner.checker.proof import BoundCheck
from planner.checker.remarks import BOUND
from planner.io.formatting import counted, json_text
from planner.reports.document import Document, Fold, Lines, Part, TablePart
from planner.reports.table import PEOPLE, RICH, TEXT, Table
from planner.reports.table import Column as C


def check_document(check: Check) -> Document:
    first, *others = _headlines(check)
    return Document(
        title=f"{'Policy check' if check.rules else 'Check'} of {check.plan}",
        headline=first,
        lead=(Lines(tuple(others)),),
        parts=(*_rules(check), Lines(tuple(_notes(check)))),
        json=lambda: json_text(check.as_json()),
    )


def _rules(check: Check) -> Iterator[Part]:
    """A terminal shows the rules in order; elsewhere come those that fail, whole, and what holds folded away."""
    failing = [rule for rule in check.rules if not rule.passed]
    kept = [rule for rule in check.rules if rule.passed]
    every = _table(check.rules, "ok", "FAILS")
    alarms = frozenset(k for k, rule in enumerate(check.rules) if not rule.passed)
    yield TablePart(every, untitled=TEXT, alarms=alarms, formats=TEXT)
    yield TablePart(_table(failing, "✅", "❌"), untitled=PEOPLE, formats=RICH)
    shown = TablePart(_table(kept, "✅", "❌"), untitled=PEOPLE, key="kept", formats=RICH)
    yield Fold(f"{counted(len(kept), 'rule')} kept", (shown,), formats=RICH) if failing and kept else shown


def _headlines(check: Check) -> list[str]:
    """What the rules come to, and what planning again says of the bound."""
    failing, total = sum(not rule.passed for rule in check.rules), len(check.rules)
    rules = "1 rule" if total == 1 else f"{total} rules"
    if not total:
        first = f"{check.plan} passes the check of its figures"
    else:
        first = f"{check.plan} breaks {failing} of {rules}" if failing else f"{check.plan} keeps the policy ({rules})"
    return [first] if check.bound is None else [first, _bound(check.bound)]


def _bound(bound: BoundCheck) -> str:
    recorded = f"the recorded lower bound of {_cents(bound.recorded_usd)}"
    if bound.verdict == "refuted":
        return f"{recorded} is refuted: planned again, a plan for {_cents(bound.found_usd)} was found"
    if bound.recomputed_usd is None:
        return f"{recorded} is not confirmed: planned again, no plan was found in time"
    if bound.verdict == "confirmed":
        return f"{recorded} is confirmed: planned again, {_cents(bound.recomputed_usd)} is proved"
    return f"{recorded} is not confirmed: planned again, only {_cents(bound.recomputed_usd)} is proved"


def _cents(usd: float | None) -> str:
    return "-" if usd is None else f"${usd:,.2f}"


def _notes(check: Check) -> list[str]:
    lines = [] if check.against is None else [f"compared with the plan {check.against}"]
    if check.as_of is not None:
        given = ", which is today; set another day with 'as_of' or --as-of" if check.as_of_is_today else ""
        lines.append(f"price ages are as of {check.as_of}{given}")
    if check.unverified:
        lines.append(f"not verified (docs/reference/checks.md says why): {'; '.join(r.what for r in check.unverified)}")
    lines += [
        f"{r.rule} rests on what the file records{'; --prove recomputes it' if r.rule == BOUND.read_by else ''}"
        for r in check.rules
        if r.rests_on == "recorded"
    ]
    return lines


def _table(rules: Sequence[Rule], kept: str, broken: str) -> Table:
    columns = (
        C("passed", "", get=lambda r: kept if r.passed else broken),
        C("rule", "rule"),
        C("value", "value", "number", get=lambda r: _figures(r)[0]),
        C("limit", "limit", "number", get=lambda r: _figures(r)[1]),
        C("said", "what"),
        C("detail", "of which", get=lambda r: r.detail or None),
    )
    return Table("rules", "Rules", columns, tuple(rules))


def _figures(rule: Rule) -> tuple[str, str]:
    """Value and limit, with as many digits as it takes to tell them apart."""
    if isinstance(rule.limit, tuple) or isinstance(rule.value, tuple):
        value, limit = rule.value or (), rule.limit
        assert isinstance(value, tuple) and isinstance(limit, tuple)
        return ", ".join(value) or "none", ", ".join(limit)
    side = "at least " if rule.at_least else "at most "
    if rule.value is None:
        return "-", side + _shown(rule, rule.limit, 0)
    texts = [(_shown(rule, rule.value, k), _shown(rule, rule.limit, k)) for k in range(7)]
    value_text, limit_text = next((pair for pair in texts if pair[0] != pair[1] or rule.passed), texts[-1])
    return value_text, side + limit_text


def _shown(rule: Rule, value: float, more_digits: int) -> str:
    if rule.unit == "frac":
        return f"{100 * value:.{1 + more_digits}f}%"
    if rule.unit == "days":
        return f"{value:.{more_digits}f} d" if value % 1 else f"{value:.0f} d"
    if rule.unit in ("kw", "kg"):
        return f"{value:,.{1 + more_digits}f} {'kW' if rule.unit == 'kw' else 'kg'}"
    digits = {"usd_per_1m_tokens": 3}.get(rule.unit, 0) + more_digits
    per = {"usd_per_1m_tokens": " / 1M", "usd_per_month": " / month"}.get(rule.unit, "")
    return f"${value:,.{digits}f}{per}"
