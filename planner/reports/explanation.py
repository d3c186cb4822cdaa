"""An explanation as text: why each workload is served so, what the levers save, and what the limits cost."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.explanations.records import Choice, Explanation, LeverValue, MarginalValue, RunnerUp, Verdict
from planner.io.errors import escaped
from planner.io.formatting import percent, usd, usd_small
from planner.reports.phrases import alike
from planner.reports.tables.table import Column as C
from planner.reports.tables.table import Table, paragraphs
from planner.reports.tables.text import table_text

CLOSE_FRAC = 0.01
"""a range that is no wider than this is left out"""


def explanation_text(explanation: Explanation) -> str:
    choices = (_choice(explanation, choice) for choice in explanation.choices)
    return paragraphs([*choices, _levers(explanation), _limits(explanation), _left(explanation)])


def _choice(explanation: Explanation, choice: Choice) -> Iterator[str]:
    each = ", each" if len(choice.workloads) > 1 else ""
    money = f"{usd(choice.cost_usd_per_month)} / month{each}, {usd_small(choice.usd_per_1m_tokens)} / 1M tokens"
    yield f"  {escaped(alike(choice.workloads))}: {escaped(choice.served_by)}, {money}"
    only = "the only way" if choice.ways == 1 else f"chosen among {choice.ways} ways"
    yield f"    {only} to serve it by itself with one deployment or an API, all objectives kept"
    yield f"    runner-up: {escaped(_runner_up(explanation, choice.runner_up))}"
    yield from (f"    {escaped(line)}" for line in choice.binds)
    unused = tuple((x.name, x.why) for x in choice.menu if not x.used)
    if unused:
        columns = (C("name", "not used"), C("why", "why not"))
        yield from table_text(Table("menu", "Not used", columns, unused), indent="    ")


def _runner_up(explanation: Explanation, r: RunnerUp | None) -> str:
    if r is None:
        return "not tried"
    if r.served_by is None:
        return "nothing else can serve it" if r.feasible is False else "none was found in the time"
    assert r.cost_usd_per_month is not None and r.dearer_by_usd_per_month is not None
    amount = _amount(r.dearer_by_usd_per_month, r.proved_usd_per_month or (0.0, 0.0), r.verdict)
    whole = f"the whole plan then costs {usd(r.cost_usd_per_month)} / month"
    difference = r.cost_usd_per_month - explanation.cost_usd_per_month
    if abs(difference - r.dearer_by_usd_per_month) > CLOSE_FRAC * max(abs(difference), 1.0):
        amount += ", penalties counted"
    return f"{r.served_by}: {whole}, an extra cost of {amount}"


def _levers(explanation: Explanation) -> Iterator[str]:
    if not explanation.levers:
        if not explanation.not_tried:
            yield f"  {escaped(no_levers(explanation.workload))}"
        return
    yield from table_text(levers_table(explanation))


def levers_table(explanation: Explanation) -> Table:
    """Tabulate the best plan without each lever, and how much more it costs."""
    rows = tuple((_owned(x.lever, x.workload), x.cost_usd_per_month, _extra_cost(x)) for x in explanation.levers)
    columns = (C("lever", "the best plan without"), C("usd_per_month", "$/month", "money"), C("dearer", "extra cost"))
    return Table("levers", "What each lever saves", columns, rows)


def no_levers(workload: str | None) -> str:
    if workload is not None:
        return f"{workload} uses no caching, sharing, API, waiting or shedding that could be left out"
    return "the plan uses no spot, commitments, quantization, caching, sharing, API or other lever"


def _extra_cost(lever: LeverValue) -> str:
    if lever.dearer_by_usd_per_month is None or lever.proved_usd_per_month is None:
        return "no plan is possible" if lever.feasible is False else "no plan was found in the time"
    amount = _amount(lever.dearer_by_usd_per_month, lever.proved_usd_per_month, lever.verdict)
    return f"{amount}, {percent(lever.dearer_by_frac or 0.0)}" if lever.verdict == "proved" else amount


def _limits(explanation: Explanation) -> Iterator[str]:
    if not explanation.limits and not explanation.not_tried:
        yield "  there is no limit that a step could move"
    table = limits_table(explanation)
    if table.rows:
        yield from table_text(table)
    if idle := idle_limits(explanation):
        yield "  would save nothing"
        yield from (f"    {escaped(step)}" for step in idle)


def limits_table(explanation: Explanation) -> Table:
    """Steps of limits and what they save."""
    binding = (x for x in explanation.limits if x.verdict != "nothing")
    rows = tuple((x.step, _amount(x.saves_usd_per_month, x.proved_usd_per_month, x.verdict)) for x in binding)
    columns = (C("step", "one step more of a limit"), C("saves", "saves a month"))
    return Table("limits", "What one step more of each limit would save", columns, rows)


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
    return [f"{step}; so for {n} other workload{'s' * (n > 1)}" if n else step for step, n in counts]


def _left(explanation: Explanation) -> Iterator[str]:
    yield from (f"  {escaped(line)}" for line in not_tried(explanation))


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
