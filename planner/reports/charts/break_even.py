"""The volume from which hosting pays: what the API, own GPUs and both together cost as demand grows."""

from __future__ import annotations

from collections.abc import Callable

from planner.io.formatting import tokens, usd, usd_small
from planner.plan.plan import Plan
from planner.plan.study_records import BreakEven, Crossing
from planner.reports.charts.svg import Axis, Frame, Line, curves, picture, titled
from planner.reports.markup import Html, details, el, figure, legend, notes, table_html
from planner.reports.tables.studies import volumes

WIDTH, HEIGHT = 440, 290
API, OWN, MIXED = "the API", "own GPUs", "GPUs and API mixed"
COLOUR = {API: 4, OWN: 1, MIXED: 3}
Series = dict[str, list[float | None]]
Unit = Callable[[float, float], float]
"""what is drawn of (tokens a month, USD a month)"""


def break_even(plan: Plan) -> Html:
    study = plan.studies.break_even if plan.studies else None
    if study is None or not study.points:
        return Html("")
    series: Series = {
        API: [p.api_usd_per_month for p in study.points],
        OWN: [p.self_hosted_usd_per_month for p in study.points],
        MIXED: [p.mixed_usd_per_month for p in study.points],
    }
    names = {API: f"{study.provider} {study.model}"}
    keys = [(f"b{COLOUR[name]}", names.get(name, name)) for name, costs in series.items() if any(costs)]
    monthly = _picture(study, series, "$ / month", lambda volume, cost: cost, usd)
    per_1m = _picture(study, series, "$ / 1M tokens", lambda volume, cost: 1e6 * cost / volume, usd_small)
    team = f"including engineers ({usd(study.engineers_usd_per_month)} a month) wherever anything is hosted"
    return figure(
        "break-even",
        break_even_title(study),
        legend(keys),
        el("div", el("div", Html(monthly)), el("div", Html(per_1m)), class_="days"),
        notes(_crossings(study)),
        details("Table: cost by volume", table_html(volumes(study))),
        caption=(
            f"Each point is a plan for a multiple of the demand, {team}. The vertical line is the demand of this plan."
        ),
        wide=True,
    )


def break_even_title(study: BreakEven) -> str:
    if study.crossings:
        first = study.crossings[0]
        again = " (and not only there)" if len(study.crossings) > 1 else ""
        return f"{_cheaper(first)} from {tokens(first.tokens_per_month)} tokens a month{again}"
    always = "cheaper" if always_cheaper(study) else "not cheaper"
    volumes = "every" if always == "cheaper" else "any"
    return f"Own GPUs are {always} than {study.model} at {volumes} volume tried"


def always_cheaper(study: BreakEven) -> bool:
    """Wherever there is a plan without an API."""
    costs = [(p.self_hosted_usd_per_month, p.api_usd_per_month) for p in study.points]
    known = [(own, api) for own, api in costs if own is not None]
    return bool(known) and all(own <= api for own, api in known)


def _cheaper(c: Crossing) -> str:
    return "Own GPUs are cheaper" if c.cheaper_from_here == "self-hosted" else "The API is cheaper"


def _crossings(study: BreakEven) -> list[str]:
    sentences = []
    for where, crossings in (("Without any API", study.crossings), ("With API overflow", study.mixed_crossings)):
        for c in crossings:
            cheaper = _cheaper(c)[0].lower() + _cheaper(c)[1:]
            low, high = c.between_multiples
            sentences.append(
                f"{where}, {cheaper} from {tokens(c.tokens_per_month)} tokens a month: {c.multiple:.3g} times this "
                f"demand, {usd(c.usd_per_month)} a month; proved to lie between {low:.3g} and {high:.3g} times."
            )
    return sentences


def _picture(study: BreakEven, series: Series, unit: str, drawn: Unit, written: Callable[[float], str]) -> str:
    lines = [_line(study, name, costs, unit, drawn, written) for name, costs in series.items() if any(costs)]
    across, up = Axis("tokens a month", log=True, written=tokens), Axis(unit, log=True, written=_short_usd)
    frame = Frame(
        across,
        up,
        across.ticks([v for line in lines for v in line.x], 5),
        up.ticks([v for line in lines for v in line.y], 6),
        WIDTH,
        HEIGHT,
        left=58,
        right=20,
        top=28,
        bottom=42,
    )
    here = min(study.points, key=lambda p: abs(p.multiple - 1))
    upright = f"M{frame.px(here.tokens_per_month):.1f} {frame.top:g}V{HEIGHT - frame.bottom:g}"
    parts = [*frame.grid(), f'<path class="staffed" d="{upright}"/>']
    parts += curves(frame, lines, [COLOUR[line.name] for line in lines])
    for c in study.crossings:
        x, y = frame.px(c.tokens_per_month), frame.py(drawn(c.tokens_per_month, c.usd_per_month))
        ring = f'<circle class="load" cx="{x:.1f}" cy="{y:.1f}" r="7"/>'
        parts.append(titled(ring, f"equal at {tokens(c.tokens_per_month)} tokens a month"))
    return picture(f"{unit} by tokens a month. {break_even_title(study)}", WIDTH, HEIGHT, parts)


def _line(
    study: BreakEven, name: str, costs: list[float | None], unit: str, drawn: Unit, written: Callable[[float], str]
) -> Line:
    known = [(p.tokens_per_month, cost) for p, cost in zip(study.points, costs, strict=True) if cost]
    heights = [drawn(volume, cost) for volume, cost in known]
    labels = [
        f"{name} at {tokens(volume)} tokens a month\n{written(height)} {unit.removeprefix('$ ')}"
        for (volume, _), height in zip(known, heights, strict=True)
    ]
    return Line(name, [volume for volume, _ in known], heights, labels)


def _short_usd(value: float) -> str:
    return f"${tokens(value)}" if value >= 1e3 else f"${value:.2g}" if value < 10 else f"${value:.0f}"
