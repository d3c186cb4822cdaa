"""The verb that plans many settings beforehand, for a page that answers at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from planner.case.case import Case
from planner.case.demand.load import check_decided
from planner.io.errors import did_you_mean, input_error, shown
from planner.io.named_files import NamedFiles
from planner.verbs.opening import CaseOrFile
from planner.verbs.planning import MANY_GAP, SEARCH_S, OnProgress, silent
from solvers.backends.clock import check, stoppable
from solvers.search.fleet_solution import Options

if TYPE_CHECKING:
    from planner.studies.explore import Detail, Exploration
    from planner.studies.overrides import Source


@stoppable()
def explore(
    case: CaseOrFile | Source,
    *,
    detail: Detail = "normal",
    options: Options | None = None,
    executor: str = "in-process",
    journal: Path | None = None,
    on_done: Callable[[int, int], None] = lambda done, total: None,
    on_progress: OnProgress = silent,
    root: Path | str | None = None,
) -> Exploration:
    """Plan a case at many settings of demand, prices, targets, commitments and budgets, two moved at a time.

    `save("explore.html")` writes a page with sliders: between the settings it shows a proved range. `detail` (few,
    normal or many) says how many are planned. The options hold for each search; without them it ends after 60 s, or
    within 1%. Raises Infeasible where the case as it is has no plan.
    """
    from planner.studies.executing.executors import executor_from
    from planner.studies.explore import DENSITIES
    from planner.studies.explore import explore as explore_settings
    from planner.studies.overrides import Source

    if detail not in DENSITIES:
        remedy = did_you_mean(detail, DENSITIES) or f"Give one of {', '.join(DENSITIES)}"
        raise input_error("--detail", f"there is no detail {shown(detail)}", remedy)
    file = "demand.yaml" if isinstance(case, Case | Source) else str(case)
    source = case if isinstance(case, Source) else Source(case, NamedFiles(None if root is None else Path(root)))
    if not isinstance(case, Case):
        check_decided(source.case)
    options = options or Options(gap_frac=MANY_GAP, time_limit_s=SEARCH_S)
    with executor_from(executor) as workers:
        explored = explore_settings(
            source,
            options,
            workers,
            detail=detail,
            file=file,
            journal=journal,
            on_done=on_done,
            on_progress=on_progress,
        )
    check()
    return explored
