"""What a case costs at other volumes, found by planning again, and what is proved about it.

Without an API and without shedding, more demand is never cheaper: a fleet for more of it serves less as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from planner.case.apis import allowed_apis, answered_per_month, baseline_of, baseline_usd_per_month, tokens_of
from planner.case.case import Case, kinds_of
from planner.case.changes import has_quotas, may_use_an_api, multiplied, never_shedding, without_apis, without_quotas
from planner.case.slots import slots_of
from planner.case.vendors import apis_usd
from planner.optimization.replan import Replanner
from planner.plan.plan import Plan
from solvers.search.fleet_solution import FleetSolution, Outcome

Way = Literal["self-hosted", "mixed"]
Cheaper = Literal["self-hosted", "api"]
FIRST = {"gap_frac": 0.02, "node_limit": 200, "round_limit": 15}
CLOSE = {"gap_frac": 0.001, "node_limit": 1_000, "round_limit": 25}
"""a first search, and a closer one where the API bill lies between what the first found and what it proved"""
EQUAL = 1e-9
"""a tie, but for rounding, goes to the API"""
WORTH_FRAC = {"self-hosted": 0.0, "mixed": 0.001}
"""a mixed plan may be the API and nothing else: it must save so much of the bill before hosting counts as cheaper"""


@dataclass(frozen=True)
class Found:
    """The best plan at a volume."""

    usd: float | None
    bound_usd: float | None
    """None: proved that there is no plan"""


class Volumes:
    """Costs by volume, each looked for once."""

    def __init__(self, plan: Plan, replanner: Replanner) -> None:
        self.replanner = replanner
        whole = never_shedding(without_quotas(plan.case))
        self.cases: dict[Way, Case] = {"self-hosted": without_apis(whole)}
        if may_use_an_api(plan.case):
            self.cases["mixed"] = whole
        self.found: dict[Way, dict[float, Found]] = {"self-hosted": {}, "mixed": {}}
        slots = slots_of(whole)
        answered = [(w, answered_per_month(w, slots, 0.0)) for w in whole.workloads]
        self.api_usd_at_1 = sum(baseline_usd_per_month(whole, w, n) for w, n in answered)
        self.api_fixed_usd = apis_usd(whole, (baseline_of(whole, w) for w in whole.workloads))
        """what having the providers of the baselines costs a month at any volume"""
        self.tokens_at_1 = sum(tokens_of(w, n) for w, n in answered)
        if not has_quotas(plan.case) and all(w.shed_usd_per_request is None for w in plan.case.workloads):
            own: Way = "mixed" if may_use_an_api(plan.case) else "self-hosted"
            self.found[own][1.0] = Found(plan.cost_usd_per_month, plan.bound_usd_per_month)
        self.saving_grows = not self.api_fixed_usd and all(
            baseline_of(whole, w) in allowed_apis(whole, w)
            and not any("semantic" in kinds_of(option) for option in w.caching)
            for w in whole.workloads
        )
        """what comes on top can be bought from the baseline, so a plan that saves something still does so; looking up
        every request in a cache of answers would cost more, though, and so would a provider that it does without"""

    def api_usd(self, multiple: float) -> float:
        return self.api_usd_at_1 * multiple + self.api_fixed_usd

    def at(self, way: Way, multiple: float) -> Found:
        known = self.found[way]
        if multiple not in known:
            found = self._search(way, multiple, FIRST)
            if self._cheaper(way, multiple, found) is None:
                closer = self._search(way, multiple, CLOSE)
                found = Found(_least(found.usd, closer.usd), max(found.bound_usd or 0.0, closer.bound_usd or 0.0))
            hosted = self.found["self-hosted"].get(multiple)
            if hosted is not None and way == "mixed":
                found = replace(found, usd=_least(found.usd, hosted.usd))
            known[multiple] = found
        return known[multiple]

    def cheaper(self, way: Way, multiple: float) -> Cheaper | None:
        """Which way is proved to be cheaper; None where the proofs cannot tell."""
        return self._cheaper(way, multiple, self.at(way, multiple))

    def _cheaper(self, way: Way, multiple: float, found: Found) -> Cheaper | None:
        limit = self.api_usd(multiple) * (1 - WORTH_FRAC[way])
        if found.usd is not None and found.usd < limit * (1 - EQUAL):
            return "self-hosted"
        return "api" if found.bound_usd is None or found.bound_usd >= limit * (1 - EQUAL) else None

    def same_between(self, way: Way, low: float, high: float) -> bool:
        """Whether it is proved that nothing changes between two volumes."""
        ends = {self.cheaper(way, low), self.cheaper(way, high)}
        if len(ends) > 1 or None in ends:
            return False
        if way == "mixed" and self.saving_grows:
            return True
        worth = 1 - WORTH_FRAC[way]
        if "api" in ends:
            bound = self.at(way, low).bound_usd
            return bound is None or bound >= self.api_usd(high) * worth
        usd = self.at(way, high).usd
        return usd is not None and usd < self.api_usd(low) * worth

    def proved_as_far_as(self, way: Way, low: float, high: float, least_step: float) -> float | None:
        """The volume between two as far as which one of them proves that the same way is cheaper.

        A fleet for the higher volume beats the API bill from where the bill is as large; below the cost proved for the
        lower volume, no fleet beats the bill. Where that leads nowhere, a least step on; None where they are as close.
        """
        ends = {self.cheaper(way, low), self.cheaper(way, high)}
        if len(ends) > 1 or None in ends or high / low <= least_step:
            return None
        hosted = "self-hosted" in ends
        usd = self.at(way, high).usd if hosted else self.at(way, low).bound_usd
        limit = ((usd or 0.0) / (1 - WORTH_FRAC[way]) - self.api_fixed_usd) / self.api_usd_at_1
        further = min(max(limit, low), high / least_step) if hosted else max(limit, low * least_step)
        inside = _in_few_digits(further, up=hosted)
        return inside if low < inside < high else None

    def _search(self, way: Way, multiple: float, work: dict[str, Any]) -> Found:
        solution = self.solved(self.cases[way], multiple, way, work)
        if solution.outcome is Outcome.INFEASIBLE:
            return Found(None, None)
        return Found(solution.best.objective if solution.best else None, solution.bound_usd_per_month)

    def solved(self, case: Case, multiple: float, what: str, work: dict[str, Any]) -> FleetSolution:
        """A search with so much work for a case at another volume."""
        options = replace(self.replanner.options, **work)
        return self.replanner.solve(multiplied(multiple)(case), f"{what} at {multiple:g} x", options)


def _least(a: float | None, b: float | None) -> float | None:
    return min((x for x in (a, b) if x is not None), default=None)


def _in_few_digits(multiple: float, up: bool) -> float:
    digit = 10.0 ** (math.floor(math.log10(multiple)) - 4)
    return float(f"{(math.floor(multiple / digit) + (1 if up else 0)) * digit:.5g}")
