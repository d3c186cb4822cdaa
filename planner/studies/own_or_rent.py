"""From which volume on servers are bought: the best plan where they may be, and where they may not, planned again.

From the demand of the case the volume is halved or doubled until it is proved at one end that servers make the best
plan cheaper, and at the other that they save next to nothing; then what lies between is halved until it is narrow. One
change is looked for: there may be others further away.
"""

from __future__ import annotations

import math

from planner.case.case import Case
from planner.case.changes import without_purchase
from planner.case.terms import bought_terms
from planner.catalog.terms import is_bought
from planner.plan.study_records import OwnPoint, change_of, pays
from planner.studies.volumes import CLOSE, Volumes
from solvers.search.fleet_solution import FleetSolution, Outcome

LOWEST, HIGHEST = 1 / 32, 32.0
NARROW, MOST_HALVINGS = 1.05, 6


class OwnOrRent:
    """What is known of each volume that was tried; a wish to stop keeps it."""

    def __init__(self, volumes: Volumes) -> None:
        self.volumes, self.found = volumes, dict[float, OwnPoint]()
        self.owning: Case = volumes.cases.get("mixed", volumes.cases["self-hosted"])
        self.renting = without_purchase(is_bought)(self.owning)

    @property
    def points(self) -> tuple[OwnPoint, ...] | None:
        return self._known if bought_terms(self.owning) else None

    @property
    def _known(self) -> tuple[OwnPoint, ...]:
        return tuple(self.found[m] for m in sorted(self.found))

    def settle(self) -> None:
        """Find a volume at which servers pay beside one at which they do not, and narrow what lies between."""
        if not bought_terms(self.owning):
            return
        multiple = 1.0
        paid = pays(self._at(multiple)) is True
        changed = not paid
        while LOWEST < multiple < HIGHEST and pays(self._at(multiple)) is not changed:
            multiple = multiple / 2 if paid else multiple * 2
        if pays(self._at(multiple)) is not changed:
            return
        for _ in range(MOST_HALVINGS):
            change = change_of(self._known)
            if change is None or change[1].multiple <= NARROW * change[0].multiple:
                return
            middle = float(f"{math.sqrt(change[0].multiple * change[1].multiple):.4g}")
            if middle in self.found or pays(self._at(middle)) is None:
                return

    def _at(self, multiple: float) -> OwnPoint:
        if multiple not in self.found:
            with self.volumes.replanner.part(f"own or rent, volume {len(self.found) + 1}: "):
                own = self.volumes.solved(self.owning, multiple, "with servers", CLOSE)
                rented = self.volumes.solved(self.renting, multiple, "without servers", CLOSE)
            self.found[multiple] = _point(multiple, self.volumes.tokens_at_1 * multiple, own, rented)
        return self.found[multiple]


def _point(multiple: float, tokens: float, own: FleetSolution, rented: FleetSolution) -> OwnPoint:
    """The best plan with servers may be one without."""
    none = rented.outcome is Outcome.INFEASIBLE
    rented_usd = rented.best.objective if rented.best else None
    costs = [usd for usd in (own.best.objective if own.best else None, rented_usd) if usd is not None]
    return OwnPoint(
        multiple=multiple,
        tokens_per_month=tokens,
        with_servers_usd_per_month=min(costs, default=None),
        with_servers_bound_usd_per_month=own.bound_usd_per_month,
        rented_usd_per_month=rented_usd,
        rented_bound_usd_per_month=None if none else rented.bound_usd_per_month,
    )
