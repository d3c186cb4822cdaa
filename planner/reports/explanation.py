"""An explanation: why each workload is served so, what the levers save, and what the limits cost."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.explanations.records import Choice, Explanation, LeverValue, MarginalValue, RunnerUp, Verdict
from planner.io.formatting import json_text, percent, usd, usd_small
from planner.reports.document import Document, Group, Lines, Part, Section, TablePart
from planner.reports.phrases import alike, monthly
from planner.reports.table import HTML, PEOPLE, PLAIN, TEXT, Table
from planner.reports.table import Column as C

CLOSE_FRAC = 0.01
"""a range that is no wider than this is left out"""


def explanation_document(explanation: Explanation) -> Document:
    return Document(
        title=f"Why {explanation.name} is served this way",
        about=(monthly(explanation.cost_usd_per_month, explanation.held_usd_per_month),),
        parts=(Section("Why", lambda: explanation_parts(explanation), key="why"),),
        json=lambda: json_text(explanation.as_json()),
    )


def explanation_parts(explanation: Explanation) -> Iterator[Part]:
    """Each choice, then what levers save and what limits cost."""
    yield from (Group(tuple(_choice(explanation, choice))) for choice in explanation.choices)
    yield from lever_parts(explanation)


def lever_parts(explanation: Explanation) -> Iterator[Part]:
    """What each lever saves, what one step more of each limit would, and what was not tried."""
    tried_all = not explanation.not_tried
    levers, limits = levers_table(explanation), limits_table(explanation)
    if not explanation.levers and tried_all:
        yield Lines((no_levers(explanation.workload),), tone="prose", formats=HTML)
        yield Lines((no_levers(explanation.workload),), formats=PLAIN)
    yield TablePart(levers, untitled=TEXT)
    if not explanation.limits and tried_all:
        yield Lines(("there is no limit to relax",), formats=PLAIN)
    idle = Lines(tuple(idle_limits(explanation)), "would save nothing")
    yield Group((TablePart(limits, untitled=TEXT), idle))
    yield Lines(tuple(not_tried(explanation)))


def _choice(explanation: Explanation, choice: Choice) -> Iterator[Part]:
    each = ", each" if len(choice.workloads) > 1 else ""
    money = f"{usd(choice.cost_usd_per_month)} / month{each}, {usd_small(choice.usd_per_1m_tokens)} / 1M tokens"
    only = "the only way" if choice.ways == 1 else f"chosen among {choice.ways} ways"
    lines = (
        f"{only} to serve it by itself with one deployment or an API while keeping all objectives",
        f"runner-up: {_runner_up(explanation, choice.runner_up)}",
        *choice.binds,
    )
    yield Lines(lines, f"{alike(choice.workloads)}: {choice.served_by}, {money}")
    columns = (C("name", "not used"), C("why", "why not"))
    unused = Table("menu", "Not used", columns, tuple(x for x in choice.menu if not x.used))
    yield TablePart(unused, untitled=PEOPLE, indent=4)


def _runner_up(explanation: Explanation, r: RunnerUp | None) -> str:
    if r is None:
        return "not tried"
    if r.served_by is None:
        return "nothing else can serve it" if r.feasible is False else "none was found in time"
    assert r.cost_usd_per_month is not None and r.dearer_by_usd_per_month is not None
    amount = _amount(r.dearer_by_usd_per_month, r.proved_usd_per_month or (0.0, 0.0), r.verdict)
    whole = f"the whole plan then costs {usd(r.cost_usd_per_month)} / month"
    difference = r.cost_usd_per_month - explanation.cost_usd_per_month
    if abs(difference - r.dearer_by_usd_per_month) > CLOSE_FRAC * max(abs(difference), 1.0):
        amount += ", including penalties"
    return f"{r.served_by}: {whole}, an extra cost of {amount}"


def levers_table(explanation: Explanation) -> Table:
    """Tabulate the best plan without each lever, and how much more it costs."""
    columns = (
        C("lever", "the best plan without", get=lambda x: _owned(x.lever, x.workload)),
        C("usd_per_month", "$/month", "money", get=lambda x: x.cost_usd_per_month),
        C("dearer", "extra cost", get=_extra_cost),
    )
    return Table("levers", "What each lever saves", columns, explanation.levers)


def no_levers(workload: str | None) -> str:
    if workload is not None:
        return f"{workload} uses no caching, sharing, API, waiting or shedding that could be left out"
    return "the plan uses no spot, commitments, quantization, caching, sharing, API or other lever"


def _extra_cost(lever: LeverValue) -> str:
    if lever.dearer_by_usd_per_month is None or lever.proved_usd_per_month is None:
        return "no plan is possible" if lever.feasible is False else "no plan was found in time"
    amount = _amount(lever.dearer_by_usd_per_month, lever.proved_usd_per_month, lever.verdict)
    return f"{amount}, {percent(lever.dearer_by_frac or 0.0)}" if lever.verdict == "proved" else amount


def limits_table(explanation: Explanation) -> Table:
    """Steps of limits and what they save."""
    columns = (
        C("step", "relax a limit by one step"),
        C("saves", "saves a month", get=lambda x: _amount(x.saves_usd_per_month, x.proved_usd_per_month, x.verdict)),
    )
    binding = tuple(x for x in explanation.limits if x.verdict != "nothing")
    return Table("limits", "What relaxing each limit by one step would save", columns, binding)


def idle_limits(explanation: Explanation) -> list[str]:
    """Steps of limits that save nothing."""
    return _alike_once([x for x in explanation.limits if x.verdict == "nothing"])


def _alike_once(limits: list[MarginalValue]) -> list[str]:
    """Steps that differ in the workload only are shown once, with the number of the others."""
    grouped: dict[str, list[MarginalValue]] = {}
    for x in limits:
        name = rf"(?<!\w){re.escape(x.workload)}(?!\w)" if x.workload else "^$"
        grouped.setdefault(re.sub(name, "\0", x.step, count=1), []).append(x)
    counts = ((same[0].step, len(same) - 1) for same in grouped.values())
    return [f"{step}; same for {n} other workload{'s' * (n > 1)}" if n else step for step, n in counts]


def not_tried(explanation: Explanation) -> list[str]:
    why = explanation.why_not_tried or "interrupted"
    return [f"{why}; not tried: {'; '.join(explanation.not_tried)}"] if explanation.not_tried else []


def _amount(usd_per_month: float, proved: tuple[float, float], verdict: Verdict | None) -> str:
    """The figure, with the range in which it is proved to lie where that is wide."""
    low, high = proved
    if verdict == "nothing":
        return "nothing"
    if verdict == "within the gap":
        return f"at most {usd(high)}: within the gap"
    if high - low <= CLOSE_FRAC * high:
        return usd(usd_per_month)
    return f"{usd(usd_per_month)} (proved: {usd(low)} to {usd(high)})"


def _owned(what: str, workload: str | None) -> str:
    return what if workload is None else f"{what} of {workload}"
