"""The table of quality: what each workload loses, and what that rests on."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case.case import Workload
from planner.case.quality import QualityBasis
from planner.catalog.apis import tier_of_api
from planner.io.formatting import percent
from planner.plan.plan import Plan
from planner.plan.quality_notes import hosted
from planner.reports.table import Cells, Table
from planner.reports.table import Column as C


def quality(plan: Plan) -> Table:
    """What each workload loses, on which benchmark, and whether that was measured as it asks."""
    columns = (
        C("workload", "workload"),
        C("serves", "served by"),
        C("loss_frac", "quality loss", "0.2%"),
        C("limit_frac", "of", "0.2%"),
        C("benchmark", "benchmark"),
        C("measured_on", "measured on"),
        C("remark", "remark"),
    )
    return Table("quality", "Quality", columns, (*(_hosted_row(*each) for each in hosted(plan)), *_api_rows(plan)))


def _hosted_row(w: Workload, model: str, scheme: str, basis: QualityBasis) -> Cells:
    return Cells(
        workload=w.name,
        serves=f"{model} {scheme}",
        loss_frac=basis.loss_frac + min(c.quality_loss_frac for c in w.models if c.model == model),
        limit_frac=w.max_quality_loss_frac,
        benchmark=basis.benchmark or "none needed",
        measured_on=basis.measured_on or None,
        remark=basis.remark or None,
    )


def _api_rows(plan: Plan) -> Iterator[Cells]:
    for w in plan.workloads:
        if w.api and w.api_share_frac:
            tier = tier_of_api(w.api)
            size = f"a {tier} model" if tier else "its size is not published"
            remark = f"{percent(w.api_share_frac)} of its requests; {size}"
            yield Cells(workload=w.name, serves=w.api, remark=remark)
