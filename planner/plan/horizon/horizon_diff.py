"""What changed between two plans of a horizon: what is signed, and what each scenario costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from planner.case.case import RiskMeasure
from planner.io.result import Result
from planner.io.validation import Strict
from planner.plan.horizon.horizon_plan import HorizonPlan, cost_as_minimized

HORIZON_DIFF_FORMAT = "fleetplan-horizon-diff/1"
Key = TypeVar("Key", bound=tuple[str, ...])
N = TypeVar("N", int, float)


class SigningChange(Strict):
    offer: str
    term: str
    first_day: str
    scenario: str | None
    """None: signed now, in every scenario"""
    instances_before: int
    instances_after: int


class AllowanceChange(Strict):
    """Of a savings plan, or of provisioned units that are signed for several quarters."""

    name: str
    first_day: str
    scenario: str | None
    """None: signed now, in every scenario"""
    units_before: float
    units_after: float


class ScenarioChange(Strict):
    """None where one of the plans has no such scenario."""

    scenario: str
    cost_before_usd: float | None
    cost_after_usd: float | None
    regret_before_usd: float | None
    regret_after_usd: float | None


class HorizonDiff(Result, Strict):
    format: str = HORIZON_DIFF_FORMAT
    before: str
    after: str
    same: bool
    expected_before_usd: float
    expected_after_usd: float
    risk_before: RiskMeasure
    risk_after: RiskMeasure
    """what each of them minimizes"""
    minimized_before_usd: float
    minimized_after_usd: float
    """cost by what the second one minimizes"""
    bound_before_usd: float
    bound_after_usd: float
    counted_before_usd: float
    counted_after_usd: float
    quarters_before: int
    quarters_after: int
    same_case: bool
    signed: tuple[SigningChange, ...]
    allowances: tuple[AllowanceChange, ...] | None = None
    """absent where neither plan signs any for several quarters"""
    scenarios: tuple[ScenarioChange, ...]
    """all of them, equal ones too"""

    def as_json(self) -> dict[str, Any]:
        data = self.model_dump(mode="json")
        if data["allowances"] is None:
            del data["allowances"]
        return data


def diff_horizons(before: HorizonPlan, after: HorizonPlan) -> HorizonDiff:
    signed = tuple(_signed(before, after))
    allowances = tuple(_allowances(before, after)) if before.allowances or after.allowances else None
    same_case = before.case_hash == after.case_hash
    costs = [{s.name: s for s in h.scenarios} for h in (before, after)]
    scenarios = tuple(
        ScenarioChange(
            scenario=name,
            cost_before_usd=costs[0][name].cost_usd if name in costs[0] else None,
            cost_after_usd=costs[1][name].cost_usd if name in costs[1] else None,
            regret_before_usd=costs[0][name].regret_usd if name in costs[0] else None,
            regret_after_usd=costs[1][name].regret_usd if name in costs[1] else None,
        )
        for name in dict.fromkeys([*costs[0], *costs[1]])
    )
    moved = any(s.cost_before_usd != s.cost_after_usd for s in scenarios)
    quarters = [h.case.future.quarters if h.case.future else 0 for h in (before, after)]
    return HorizonDiff(
        before=before.name,
        after=after.name,
        same=same_case and not signed and not allowances and not moved,
        expected_before_usd=before.expected_cost_usd,
        expected_after_usd=after.expected_cost_usd,
        risk_before=before.risk,
        risk_after=after.risk,
        minimized_before_usd=cost_as_minimized(before, after.risk),
        minimized_after_usd=cost_as_minimized(after, after.risk),
        bound_before_usd=before.bound_usd,
        bound_after_usd=after.bound_usd,
        counted_before_usd=before.counted_usd,
        counted_after_usd=after.counted_usd,
        quarters_before=quarters[0],
        quarters_after=quarters[1],
        same_case=same_case,
        signed=signed,
        allowances=allowances,
        scenarios=scenarios,
    )


def _signed(before: HorizonPlan, after: HorizonPlan) -> list[SigningChange]:
    """Commitments whose number differs, those of now first."""
    counts = [{(c.scenario or "", f"{c.first_day}", c.offer, c.term): c.instances for c in h.commitments}
              for h in (before, after)]  # fmt: skip
    return [
        SigningChange(
            offer=offer, term=term, first_day=day, scenario=scenario or None, instances_before=n, instances_after=now
        )
        for (scenario, day, offer, term), n, now in _differing(counts, 0)
    ]


def _allowances(before: HorizonPlan, after: HorizonPlan) -> list[AllowanceChange]:
    """Those whose amount differs, those of now first."""
    units = [{(a.scenario or "", f"{a.first_day}", a.name): a.units for a in h.allowances or ()}
             for h in (before, after)]  # fmt: skip
    return [
        AllowanceChange(name=name, first_day=day, scenario=scenario or None, units_before=n, units_after=now)
        for (scenario, day, name), n, now in _differing(units, 0.0)
    ]


def _differing(each: Sequence[Mapping[Key, N]], none: N) -> Iterator[tuple[Key, N, N]]:
    """What two plans do not have alike, in the order of keys, with what each was and is."""
    before, after = each
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key, none), after.get(key, none)
        if was != now:
            yield key, was, now
