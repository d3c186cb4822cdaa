"""The restricted master of a search as a file in the LP format, for those who look into a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from planner.io.files import write_whole
from planner.pipeline import PUTTING_TOGETHER
from problems.fleet import master
from problems.fleet_problem import FleetProblem
from problems.lp_file import lp_text
from solvers.search.fleet_solution import Progress

WHAT_IT_IS = (
    "restricted master of the search: the ways to serve that it held at its end, and cuts about whole boxes",
    "USD per month; its optimum is a plan, and no bound on plans that serve in other ways",
)


@contextmanager
def program_written(path: Path | None, show: Callable[[Progress], None]) -> Iterator[Callable[[Progress], None]]:
    """Write the restricted master of the search to a file where one is named: that of the plan, not of what follows."""
    if path is None:
        yield show
        return
    settled = False

    def also(p: Progress) -> None:
        nonlocal settled
        show(p)
        settled = settled or p.phase == PUTTING_TOGETHER
        if p.master is not None and not settled:
            write_whole(path, program_text(p.master))

    yield also


def program_text(fleet: FleetProblem) -> str:
    """The program of a fleet in the LP format; remarks say what `pick.3` and `serve.3.7` stand for."""
    model, v = master(fleet)
    remarks = list(WHAT_IT_IS)
    for r, recipe in enumerate(fleet.recipes):
        by = [*recipe.key[1], *filter(None, [recipe.api])]
        remarks.append(f"pick.{r}: {recipe.pool} by {' and '.join(by) or 'nobody'}")
        for i in (i for i in range(recipe.servings) if (r, i) in v.serve):
            replicas = [f"{use.replicas[i]} replicas ({use.firm_replicas[i]} not spot)" for use in recipe.uses]
            remarks.append(f"serve.{r}.{i}: slot {recipe.slot[i]}, {' and '.join(replicas) or 'no replicas'}")
    return lp_text(model, remarks)
