"""The table of quality: what each workload loses, and what that rests on."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case.case import Workload
from planner.case.quality import QualityBasis
from planner.catalog.apis import tier_of_api
from planner.io.formatting import percent
from planner.plan.plan import Plan
from planner.plan.quality_notes import hosted
from planner.reports.tables.table import Column as C
from planner.reports.tables.table import Row, Table


def quality(plan: Plan) -> Table:
    """What each workload loses, on which benchmark, and whether that was measured as it asks."""
    columns = (
        C("workload", "workload"), C("serves", "served by"), C("loss_frac", "quality loss", "0.2%"),
        C("limit_frac", "of", "0.2%"), C("benchmark", "benchmark"), C("measured_on", "measured on"),
        C("remark", "remark"),
    )  # fmt: skip
    rows = [*(_hosted_row(*each) for each in hosted(plan)), *_api_rows(plan)]
    return Table("quality", "Quality", columns, tuple(rows))


def _hosted_row(w: Workload, model: str, scheme: str, basis: QualityBasis) -> Row:
    loss = basis.loss_frac + min(c.quality_loss_frac for c in w.models if c.model == model)
    return (w.name, f"{model} {scheme}", loss, w.max_quality_loss_frac, basis.benchmark or "none needed",
            basis.measured_on or None, basis.remark or None)  # fmt: skip


def _api_rows(plan: Plan) -> Iterator[Row]:
    for told in plan.workloads:
        if told.api and told.api_share_frac:
            tier = tier_of_api(told.api)
            remark = f"a {tier} model" if tier else "nobody says how large it is"
            yield (
                told.name,
                told.api,
                None,
                None,
                None,
                None,
                f"{percent(told.api_share_frac)} of its requests; {remark}",
            )
