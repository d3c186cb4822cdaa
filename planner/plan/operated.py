"""A plan in operation: behind a controller, in place of its own hours."""

from __future__ import annotations

from pydantic import Field

from planner.case.controller import Controller
from planner.io.validation import Strict


class Attained(Strict):
    """A promise held against what was served."""

    workload: str
    what: str
    target_s: float
    percentile: float
    within_frac: float
    hours_kept_frac: float | None = None
    kept: bool


class Differing(Strict):
    """What the same controller did where demand differed from the forecast."""

    differs: str
    usd_per_month: float
    requests: int
    attained: tuple[Attained, ...]

    @property
    def kept(self) -> bool:
        return all(a.kept for a in self.attained)


class Tuned(Strict):
    """How the settings of a controller were found."""

    forecast_error_frac: float
    """that they were tuned for, in both directions"""
    settings: int
    """that were tried, by the hour of flows and queues"""
    seeds: tuple[int, ...]
    """of these trials; the last one is that of the requests which were served one by one"""
    rounds: int
    """settings whose requests were served one by one, until every promise was kept"""
    flow_usd_per_month: float
    """what the trials said of the cost, on average over forecasts that are right and wrong"""
    differing: tuple[Differing, ...] = ()
    """where the forecast was wrong"""


class DeploymentOperated(Strict):
    """A deployment behind a controller, over the hours that were served."""

    pool: str
    deployment: str
    target: float
    """of a replica, as an amount of the signal; 0 where nothing is read"""
    fewest: int
    most: int
    start_s: float
    """from order to answer, on a new machine"""
    mean_replicas: float
    """that were ready"""
    planned_mean_replicas: float
    instance_h_per_month: float
    """billed: from the order to the last answer"""
    planned_instance_h_per_month: float
    usd_per_month: float
    """of instances that are not paid for in any case"""
    planned_usd_per_month: float
    load_frac: float
    """of a ready replica, mean"""
    in_flight: float
    """requests of a ready replica, waiting ones included, mean"""
    ups: int
    downs: int
    """decisions to add and to take away"""
    added: int
    removed: int
    """replicas that they added and took away"""
    worst_day: int
    """of the week, from 0: the one with the most late requests"""
    demand: tuple[float, ...]
    wanted: tuple[float, ...]
    ready: tuple[float, ...]
    billed: tuple[float, ...]
    """of that day, every two minutes, in replicas: kept busy by what came, asked for, ready, and paid for"""
    usd_by_hour: tuple[float, ...] = Field(default=(), exclude=True)
    """of instances that are not paid for in any case [hour of the week]; nothing where it was not served"""


class Operation(Strict):
    """A plan behind a controller, beside its own hours."""

    controller: Controller
    differs: str
    """how demand differed from the forecast; empty where it did not"""
    deployments: tuple[DeploymentOperated, ...]
    api_usd_per_month: float
    planned_api_usd_per_month: float
    usd_per_month: float
    """all that the plan costs, with instances and APIs as they were billed"""
    planned_usd_per_month: float
    bound_usd_per_month: float
    """below which no fleet of the plan's own rules costs"""
    attained: tuple[Attained, ...]
    requests: int
    """served one by one"""
    beside: tuple[Attained, ...] = ()
    """the same requests served by the plan's own hours"""
    tuned: Tuned | None = None
    """None: the controller was given"""

    @property
    def kept(self) -> bool:
        """Also where the forecast was wrong, as far as that was served."""
        wrong = self.tuned.differing if self.tuned is not None else ()
        return all(a.kept for a in self.attained) and all(run.kept for run in wrong)

    @property
    def lag_usd_per_month(self) -> float:
        return self.usd_per_month - self.planned_usd_per_month

    @property
    def lag_frac(self) -> float:
        return self.lag_usd_per_month / self.planned_usd_per_month if self.planned_usd_per_month else 0.0

    @property
    def above_bound_frac(self) -> float:
        return self.usd_per_month / self.bound_usd_per_month - 1 if self.bound_usd_per_month else 0.0
