"""What serving a plan showed."""

from __future__ import annotations

from planner.io.validation import Strict

VERIFICATION_FORMAT = "fleetplan-verification/1"


class Percentiles(Strict):
    p50_s: float
    p95_s: float
    p99_s: float


class Histogram(Strict):
    edges_s: tuple[float, ...]
    requests: tuple[int, ...]
    """between two edges"""


class Promise(Strict):
    """A latency target held against what was served."""

    what: str
    """TTFT, TPOT, E2E or deadline"""
    target_s: float
    percentile: float
    """share of the requests that must be within the target"""
    within_frac: float
    """share that was; refused, unfinished and wrongly shed ones are not"""
    low_frac: float
    high_frac: float
    """95% interval of that share, from hour to hour"""
    estimated: bool = False
    """whether the share is estimated from a sample of hours"""
    at_percentile_s: float | None = None
    """latency at the target's percentile; None where fewer requests were served"""
    bad_hours: int
    """hours in which a smaller share than promised was within the target"""
    bad_hours_of_days: tuple[int, ...] = ()
    """hours of a weekday (0 to 23) and of a weekend day (24 to 47) in which that is so over the week"""
    worst_hour: int | None = None
    """of the week, from Monday 0h on"""
    worst_frac: float | None = None
    at_percentile_by_hour_s: tuple[float | None, ...]
    """[hour of the week]"""
    worst_hour_within: tuple[float | None, ...]
    """share within the target; None where no request came [minute of the worst hour]"""
    worst_hour_requests: tuple[int, ...]
    """[minute of the worst hour]"""

    @property
    def kept(self) -> bool:
        return self.within_frac >= self.percentile

    @property
    def is_open(self) -> bool:
        """Whether a sample leaves open if the promise is kept: the interval is on both sides of it."""
        return self.estimated and self.low_frac < self.percentile <= self.high_frac


class WorkloadServed(Strict):
    name: str
    requests: int
    """that came to the fleet's gateway, behind semantic caches"""
    served: int
    api: int
    """sent to the API, as planned"""
    shed: int
    """shed, as planned or because capacity was lost"""
    refused: int
    """longer than the workload lets in, as planned, or than the engine admits"""
    unfinished: int
    preempted_frac: float
    found_frac: float
    """share of the prompt tokens on GPUs whose KV was cached"""
    planned_found_frac: float = 0.0
    """what the plan expected of it"""
    ttft: Percentiles | None = None
    tpot: Percentiles | None = None
    e2e: Percentiles | None = None
    ttft_histogram: Histogram
    promises: tuple[Promise, ...]
    all_within_frac: float | None
    """share of the requests that kept all targets at once; None where none was served"""

    @property
    def kept(self) -> bool:
        return all(p.kept for p in self.promises)


class DeploymentServed(Strict):
    pool: str
    deployment: str
    requests: int
    mean_replicas: float
    peak_replicas: int
    utilization_frac: float
    """share of the replicas' time in steps, in the hours that were served"""
    load_frac: float
    """planned load over replicas, mean over the hours"""


class HoursServed(Strict):
    """Hours of the week in which a pool was served."""

    pool: str
    hours: tuple[int, ...]
    """from Monday 0h on"""
    of: int
    """hours that were asked for"""
    sampled: bool
    """whether a sample of them was to be served, which stands for all"""
    requests: int
    """of all hours that were asked for, about"""


class Verification(Strict):
    plan: str
    case_hash: str
    fleetplan_version: str
    seed: int
    router: str
    load: float
    """times the demand of the plan"""
    month: int
    source: str
    """of the requests"""
    requests: int
    workloads: tuple[WorkloadServed, ...]
    deployments: tuple[DeploymentServed, ...]
    notes: tuple[str, ...]
    stopped: str | None = None
    """why it ended before everything was served"""
    hours: tuple[HoursServed, ...] = ()
    """what was served, where it is not every hour"""

    @property
    def kept(self) -> bool:
        """Whether no promise is missed in what was served."""
        return all(w.kept for w in self.workloads)


class Slack(Strict):
    """How far the plan is from the edge."""

    holds_to_load: float | None = None
    """the largest multiple of the demand at which every promise is kept; None where it is not even kept at 1"""
    holds_beyond: bool
    """whether that is the largest that was tried"""
    smallest_fleet_frac: float | None = None
    """the smallest share of the replicas, in every hour alike, with which every promise is kept"""
    spare_usd_per_month: float | None = None
    """what the other replicas cost"""
    days: int
    """of the week, from Monday on, that each trial served"""


class VerificationReport(Strict):
    """A plan served at one or several loads."""

    format: str = VERIFICATION_FORMAT
    runs: tuple[Verification, ...]
    slack: Slack | None = None
    stopped: str | None = None
    """why it ended before all that was asked for was served"""
    not_served: tuple[str, ...] = ()
    """what was asked for and not begun"""

    @property
    def kept(self) -> bool:
        """At the demand itself; what is asked beyond it shows where the fleet gives way."""
        return all(run.kept for run in self.runs if run.load <= max(1.0, min(r.load for r in self.runs)))
