"""What studies of a plan found. They travel inside the plan, so that a report of it never has to plan again.

Every cost is of a plan that was made anew and checked; with it comes what is proved: no plan of that changed case
costs less than its bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from planner.catalog.entries import ApiModel
from planner.io.validation import Strict

Why = Literal["time-limit", "interrupted"]
"""why something was left out"""
EQUAL = 1e-9
NOTHING_FRAC = 0.002
"""of the cost: what saves less is as good as nothing, and proofs are hardly closer"""


class StepRecord(Strict):
    """A re-plan with one lever more than the step before."""

    key: str
    """one of STEP_KEYS of planner/levers.py"""
    title: str
    said: str
    """what this step may do that the one before may not, in a sentence"""
    status: str
    """of its plan, or infeasible where there is none, not-found where none was found in the time"""
    cost_usd_per_month: float | None
    """penalty of what is shed included"""
    bound_usd_per_month: float | None
    usd_per_1m_tokens: float | None
    saves_usd_per_month: float | None
    """less than the last step before it that has a plan"""
    saves_frac: float | None
    """of the cost of that step"""
    fleet: tuple[str, ...]
    """at its busiest, such as: 3 x aws/p5.48xlarge (h100), reserved-1y"""


class Waterfall(Strict):
    """From one GPU type on demand to the plan, lever by lever; the savings add up to the whole."""

    steps: tuple[StepRecord, ...]
    saves_usd_per_month: float | None
    """the last step against the first that has a plan"""
    saves_frac: float | None
    naive: StepRecord | None = None
    """a footnote: the fleet of the first step if it worked on one request at a time"""
    notes: tuple[str, ...]
    stopped: Why | None = None
    """None where every step was planned"""

    @property
    def compares(self) -> bool:
        """Whether any step beside the plan itself has a plan."""
        return sum(step.cost_usd_per_month is not None for step in self.steps) > 1


class VolumePoint(Strict):
    """The case with its demand multiplied."""

    multiple: float
    tokens_per_month: float
    api_usd_per_month: float
    """all of it bought at the baseline, with the fixed cost of its provider"""
    self_hosted_usd_per_month: float | None
    """the best plan found without any API, engineers included; None where there is none, or this was not looked at"""
    self_hosted_bound_usd_per_month: float | None
    mixed_usd_per_month: float | None
    """the best plan found that may use the APIs of the menu as well; None likewise"""
    mixed_bound_usd_per_month: float | None


class Crossing(Strict):
    """A volume at which the cheaper of two ways changes."""

    multiple: float
    tokens_per_month: float
    usd_per_month: float
    """of both"""
    between_multiples: tuple[float, float]
    """proved to lie in here: at each end it is proved which way is cheaper"""
    cheaper_from_here: Literal["self-hosted", "api"]


class OwnPoint(Strict):
    """The best plans found where servers may be bought, and where they may not, at a volume."""

    multiple: float
    tokens_per_month: float
    with_servers_usd_per_month: float | None
    with_servers_bound_usd_per_month: float
    rented_usd_per_month: float | None
    rented_bound_usd_per_month: float | None
    """None: proved that there is no plan without servers"""


class BreakEven(Strict):
    provider: str
    model: str
    engineers_usd_per_month: float
    points: tuple[VolumePoint, ...]
    """by rising volume; the demand of the case itself is one of them"""
    crossings: tuple[Crossing, ...]
    """of the best self-hosted plan and the API bill"""
    mixed_crossings: tuple[Crossing, ...]
    """of the best plan with APIs as well and the API bill; where the API is the whole plan, it is no crossing yet"""
    own: tuple[OwnPoint, ...] | None = None
    """by rising volume: whether servers that may be bought pay; None: the menu has none"""
    notes: tuple[str, ...]
    """what was not settled, and outside which volumes nothing was looked at"""
    stopped: Why | None = None
    """None where every volume was looked at"""


class ProviderBill(Strict):
    """The requests that the plan answers, bought from one API model."""

    provider: str
    model: str
    role: Literal["baseline", "compared", "same model"]
    """same model: a provider that sells the open model which serves a workload, or may serve one that hosts nothing"""
    workloads: tuple[str, ...]
    """that it could serve"""
    cost_usd_per_month: float
    """with cached input and batch prices where they apply"""
    without_discounts_usd_per_month: float
    """at plain input and output prices"""
    usd_per_1m_tokens: float
    prices: ApiModel
    """that the bill is made from"""
    source: str
    date: str | None = None


class DemandPoint(Strict):
    """The same plan, with its commitments signed, where demand differs from the forecast."""

    multiple: float
    """of the forecast of every workload in every hour"""
    cost_usd_per_month: float
    usd_per_1m_tokens: float
    beyond: tuple[str, ...] = ()
    """quotas that it would exceed"""


class Studies(Strict):
    """Each may be missing: it was not asked for."""

    demand: tuple[DemandPoint, ...] = ()
    """by rising demand; arithmetic on the plan, without a search"""

    waterfall: Waterfall | None = None
    break_even: BreakEven | None = None
    providers: tuple[ProviderBill, ...] = ()

    @property
    def stopped(self) -> set[Why]:
        """Why studies were not finished; empty where all were."""
        studies = (self.waterfall, self.break_even)
        return {study.stopped for study in studies if study is not None and study.stopped is not None}

    @property
    def interrupted(self) -> bool:
        return "interrupted" in self.stopped


def pays(p: OwnPoint) -> bool | None:
    """Whether it is proved that servers make the best plan cheaper, or that they save next to nothing; None: neither"""
    own, rented, bound = p.with_servers_usd_per_month, p.rented_usd_per_month, p.rented_bound_usd_per_month
    if own is not None and (bound is None or own < bound * (1 - EQUAL)):
        return True
    return False if rented is not None and rented * (1 - NOTHING_FRAC) <= p.with_servers_bound_usd_per_month else None


def change_of(points: Sequence[OwnPoint]) -> tuple[OwnPoint, OwnPoint] | None:
    """The first two neighbours, of those for which it is proved, between which servers begin to pay."""
    known = [p for p in points if pays(p) is not None]
    return next(((a, b) for a, b in pairwise(known) if not pays(a) and pays(b)), None)
