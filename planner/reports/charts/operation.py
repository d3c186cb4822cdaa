"""The worst day of a plan in operation: demand, and replicas that were wanted, ready and billed."""

from __future__ import annotations

from planner.io.formatting import DAYS
from planner.plan.operated import DeploymentOperated
from planner.reports.charts.svg import Axis, Frame, Line, curves, picture, whole_ticks
from planner.reports.markup import Html, figure, legend

WIDTH, HEIGHT = 720.0, 260.0
EVERY_H = 3


def worst_day(d: DeploymentOperated) -> Html:
    """Four curves over a day, in replicas."""
    series = (("demand", d.demand), ("wanted", d.wanted), ("ready", d.ready), ("billed", d.billed))
    points = len(d.ready)
    if not points:
        return Html("")
    hours = [24 * k / points for k in range(points)]
    lines = [Line(name, hours, list(values)) for name, values in series]
    top = max(max(values) for _, values in series)
    frame = Frame(
        Axis("hour", written=lambda v: f"{v:02.0f}"), Axis("replicas", written=lambda v: f"{v:g}"),
        [float(h) for h in range(0, 25, EVERY_H)], whole_ticks(top), width=WIDTH, height=HEIGHT,
    )  # fmt: skip
    title = f"{DAYS[d.worst_day]} of {d.pool}, {d.deployment}: replicas that were ready against those that were busy"
    keys = legend([(f"b{k + 1}", name) for k, (name, _) in enumerate(series)])
    return figure(
        "worst-day", title, keys, Html(picture(title, WIDTH, HEIGHT, [*frame.grid(), *curves(frame, lines)])),
        caption="The day with the most late requests: replicas kept busy by what came, asked for, ready and paid for.",
        wide=True,
    )  # fmt: skip
