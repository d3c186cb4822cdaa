"""What serving a plan showed."""

from __future__ import annotations

from typing import Literal

from planner.io.result import Result
from planner.io.validation import Strict
from planner.plan.operated import Operation

VERIFICATION_FORMAT = "fleetplan-verification/1"
HORIZON_VERIFICATION_FORMAT = "fleetplan-horizon-verification/1"


class Percentiles(Strict):
    p50_s: float
    p95_s: float
    p99_s: float


class Histogram(Strict):
    edges_s: tuple[float, ...]
    requests: tuple[int, ...]
    """between two edges"""


Reason = Literal[
    "fewer replicas than planned", "work was left over", "more requests than planned", "KV memory ran out", "bursts",
    "replicas were busy", "requests are slow by themselves",
]  # fmt: skip
"""why an hour misses: the first that is true of it"""


class MissedHour(Strict):
    """An hour in which more requests were late than promised, and what the simulation knows of it."""

    hour: int
    """of the week, from Monday 0h on"""
    requests: int
    """of the workload, that GPUs should have answered"""
    within_frac: float
    reason: Reason
    preempted_frac: float
    """share of the requests whose work was thrown away for lack of KV memory, and done again"""
    busiest_minutes_ratio: float
    """requests of a minute in the busiest quarter of the hour, over those of its mean minute"""
    pool_requests: float = 0.0
    """of all workloads that share the replicas"""
    planned_requests: float = 0.0
    replicas: float = 0.0
    """that ran, mean over the hour"""
    planned_replicas: float = 0.0
    busy_frac: float = 0.0
    """share of their time in steps"""
    waiting: float = 0.0
    """requests that no replica had begun when the hour began"""


class Promise(Strict):
    """A latency target held against what was served."""

    what: str
    """TTFT, TPOT, E2E, E2E per token or deadline"""
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
    """hours in which clearly fewer requests than promised were within the target"""
    hours_judged: int = 0
    """hours that were served with requests enough to tell"""
    hours_kept_frac: float | None = None
    """share of these in which the promise is kept, of a sample by what each stands for; None where there is none"""
    hours_low_frac: float | None = None
    hours_high_frac: float | None = None
    """95% interval of that share; the share itself where every hour was served"""
    hours_promised_frac: float = 0.0
    """share of the hours in which it must be kept"""
    missed_hours: tuple[MissedHour, ...] = ()
    """the bad hours, the worst first"""
    bad_hours_of_days: tuple[int, ...] = ()
    """hours of a weekday (0 to 23) and of a weekend day (24 to 47) in which it is missed over the week, or too often"""
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
        """Over all hours together, and in as many of them as it must be."""
        return self.within_frac >= self.percentile and self.kept_by_the_hour

    @property
    def kept_by_the_hour(self) -> bool:
        """True where no hour has requests enough to tell."""
        return self.hours_kept_frac is None or self.hours_kept_frac >= self.hours_promised_frac - 1e-9

    @property
    def is_open(self) -> bool:
        """Whether a sample leaves open if the promise is kept: an interval is on both sides of what decides."""
        if not self.estimated:
            return False
        decides = [(self.low_frac, self.percentile, self.high_frac)]
        if self.hours_low_frac is not None and self.hours_high_frac is not None:
            decides.append((self.hours_low_frac, self.hours_promised_frac, self.hours_high_frac))
        return all(high >= promised for _, promised, high in decides) and any(
            low < promised for low, promised, _ in decides
        )


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
    operation: Operation | None = None
    """None: replicas were those of the plan's hours"""

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
    spare_gpu_hours_per_month: float | None = None
    """how long they run, in hours of a GPU"""
    one_replica: bool = False
    """whether no deployment has more than one replica in any hour: none can be spared, and nothing was tried"""
    busy_frac: float | None = None
    """share of the replicas' time in steps, at the demand itself"""
    days: int
    """of the week, from Monday on, that each trial served"""


class VerificationReport(Result, Strict):
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


class ServedQuarter(Strict):
    """A quarter of a scenario, and its busiest month served."""

    scenario: str
    quarter: int
    """from 0"""
    month: str
    """the one that was served, with those that have the same rates: 2027-04 to 2027-06"""
    run: int
    """which of the runs it is, from 0; quarters that are served alike share one"""


class HorizonVerification(Result, Strict):
    """Quarters of a horizon, each served at one or several loads."""

    format: str = HORIZON_VERIFICATION_FORMAT
    plan: str
    case_hash: str
    fleetplan_version: str
    quarters: tuple[ServedQuarter, ...]
    """scenario by scenario"""
    runs: tuple[VerificationReport, ...]
    stopped: str | None = None
    """why it ended before all quarters were served"""
    not_served: tuple[str, ...] = ()
    """quarters that were asked for and not begun"""

    @property
    def kept(self) -> bool:
        return all(run.kept for run in self.runs)

    @property
    def requests(self) -> int:
        return sum(run.requests for report in self.runs for run in report.runs)
