"""An explanation as text: what the levers save, and what the limits cost."""

from __future__ import annotations

from collections.abc import Iterator

from planner.complaints import escaped
from planner.reports.text import columns, percent, usd
from planner.why.explanation import Explanation, LeverWorth, Verdict

CLOSE_FRAC = 0.01
"""a range that is no wider than this is not told"""


def explanation_text(explanation: Explanation) -> str:
    sections = (_levers(explanation), _limits(explanation), _left(explanation))
    return "\n\n".join("\n".join(lines) for section in sections if (lines := list(section))) + "\n"


def _levers(explanation: Explanation) -> Iterator[str]:
    if not explanation.levers:
        if not explanation.not_tried:
            yield f"  {escaped(_no_levers(explanation.workload))}"
        return
    rows = [("the best plan without", "$/month", "dearer by")]
    rows += [
        (
            _owned(x.lever, x.workload),
            "-" if x.cost_usd_per_month is None else f"{x.cost_usd_per_month:,.0f}",
            _dearer(x),
        )
        for x in explanation.levers
    ]
    yield from columns(rows, right="b")


def _no_levers(workload: str | None) -> str:
    if workload is not None:
        return f"{workload} uses no caching, sharing, API, waiting or shedding that could be left out"
    return "the plan uses no spot, commitments, quantization, caching, sharing, API or other lever"


def _dearer(lever: LeverWorth) -> str:
    if lever.dearer_by_usd_per_month is None or lever.proved_usd_per_month is None:
        return "no plan is possible" if lever.feasible is False else "no plan was found in the time"
    told = _told(lever.dearer_by_usd_per_month, lever.proved_usd_per_month, lever.verdict)
    return f"{told}, {percent(lever.dearer_by_frac or 0.0)}" if lever.verdict == "proved" else told


def _limits(explanation: Explanation) -> Iterator[str]:
    if not explanation.limits and not explanation.not_tried:
        yield "  there is no limit that a step could move"
    binding = [x for x in explanation.limits if x.verdict != "nothing"]
    idle = [x.step for x in explanation.limits if x.verdict == "nothing"]
    if binding:
        rows = [(x.step, _told(x.saves_usd_per_month, x.proved_usd_per_month, x.verdict)) for x in binding]
        yield from columns([("one step more of a limit", "saves a month"), *rows])
    if idle:
        yield "  would save nothing"
        yield from (f"    {escaped(step)}" for step in idle)


def _left(explanation: Explanation) -> Iterator[str]:
    if explanation.not_tried:
        yield f"  interrupted; not tried: {escaped('; '.join(explanation.not_tried))}"


def _told(found: float, proved: tuple[float, float], verdict: Verdict | None) -> str:
    """The figure, with the range in which it is proved to lie where that is wide."""
    low, high = proved
    if verdict == "nothing":
        return "nothing"
    if verdict == "within the gap":
        return f"at most {usd(high)}: within the gap"
    if high - low <= CLOSE_FRAC * high:
        return usd(found)
    return f"{usd(found)} (proved: {usd(low)} to {usd(high)})"


def _owned(what: str, workload: str | None) -> str:
    return what if workload is None else f"{what} of {workload}"
