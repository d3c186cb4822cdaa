"""What users of the fleet get: latencies against their objectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress

from planner.case.case import Workload
from planner.io.formatting import percent
from planner.plan.plan import DeploymentPlan, Plan, PoolPlan
from planner.reports.markup import Html, bar, el, figure, join, table_html
from planner.reports.table import Column, Table

WORKLOADS_SHOWN = 100
TIGHT_FRAC = 0.95


def headroom(plan: Plan) -> Html:
    """Each workload's latencies as a share of its objectives, of its slowest deployment; tightest first."""
    asked = {w.name: w for w in plan.case.workloads}
    rows = [
        (w.name, _meters(asked[w.name], pool)) for pool in plan.pools if pool.deployments
        for w in plan.workloads if w.name in pool.workloads
    ]  # fmt: skip
    if not rows:
        return Html("")
    rows.sort(key=lambda r: -max((share for share, _ in r[1] if share is not None), default=0.0))
    asked_for = [True, True, *(any(getattr(w, of) for w in plan.case.workloads) for of in ("e2e", "e2e_per_token"))]
    titles = ("workload", *compress(("TTFT", "TPOT when full", "to the last token", "E2E per token"), asked_for))
    lines = tuple((workload, *(_meter(*m) for m in compress(meters, asked_for))) for workload, meters in rows)
    table = Table("headroom", "Headroom", tuple(Column(title, title) for title in titles), lines)
    caption = "At the objective's percentile in the busiest hour, queueing included; a full bar is the objective."
    shown = table_html(table, first=20, most=WORKLOADS_SHOWN)
    return figure("headroom", _title(rows), shown, caption=caption, wide=True)


Meter = tuple[float | None, str]


def _title(rows: list[tuple[str, list[Meter]]]) -> Html | str:
    tightest = [(share, n, k) for n, meters in rows for k, (share, _) in enumerate(meters) if share is not None]
    if not tightest:
        return "No latency objective is close to its limit"
    share, workload, k = max(tightest, key=lambda x: x[0])
    kind = ("TTFT", "TPOT", "the time to the last token", "the end-to-end time per token")[k]
    return join(["Every objective is kept; the tightest is ", kind, " of ", workload, f", {percent(share)} used"])


def _meters(w: Workload, pool: PoolPlan) -> list[Meter]:
    of = pool.deployments
    return [
        _worst(of, lambda d: d.deployment.ttft_ms, w.ttft.seconds, "may wait"),
        _worst(of, lambda d: d.deployment.tpot_ms or None, w.tpot.seconds, "as measured"),
        _worst(of, lambda d: d.deployment.e2e_ms, w.e2e.seconds, "–") if w.e2e else (None, "–"),
        _worst(of, lambda d: d.deployment.e2e_per_token_ms, w.e2e_per_token.seconds, "–")
        if w.e2e_per_token
        else (None, "–"),
    ]


def _worst(
    of: Sequence[DeploymentPlan], figure_of: Callable[[DeploymentPlan], float | None], seconds: float, without: str
) -> Meter:
    known = [x for d in of if (x := figure_of(d)) is not None]
    if not known:
        return None, without
    ms, limit = max(known), 1e3 * seconds
    text = f"{ms / 1e3:.2f} of {seconds:g} s" if limit >= 1000 else f"{ms:.0f} of {limit:.0f} ms"
    return ms / limit, text


def _meter(share: float | None, text: str) -> Html:
    if share is None:
        return el("span", text, class_="sub")
    kind = "b2" if share > TIGHT_FRAC else "b1"
    return el(
        "div", text, bar([(kind, 0.0, min(1.0, share))], f"{percent(share)} of the objective is used"), class_="meter"
    )
