"""A running fleet against its plan, hour by hour: replicas, load, promises and cost, and why an hour left the plan.

What ran is read from saved answers of Prometheus, as `demand` reads them. A series belongs to the deployment whose name
its pod, deployment, service or job begins with; where the plan hosts one deployment alone, to that one.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from planner.case.case import LatencyTarget, Workload
from planner.case.dates import month_index
from planner.export.hosted import Hosted, HostedFleet, Settings, hosted_fleet
from planner.export.promises import E2E, PER_TOKEN, RUNNING, TPOT, TTFT, WAITING
from planner.io.errors import InputError, input_error, listed
from planner.io.formatting import counted, json_text
from planner.io.units import UTC
from planner.logs.reading.ledger import Ledger
from planner.logs.reading.prometheus import REQUESTS, increases, steps
from planner.logs.reading.tables import Document as Answer
from planner.logs.reading.tables import Reading, pieces_of
from planner.plan.plan import Plan
from planner.reports.document import Document, Lines, TablePart
from planner.reports.table import Column as C
from planner.reports.table import Table

LIVE_FORMAT = "fleetplan-live-check/1"
HOUR_S = 3600
OWNERS = ("pod", "deployment", "service", "job")
"""labels that may name a deployment"""
READY = "kube_deployment_status_replicas_available"
ENDINGS = (".json", ".json.gz")
REPLICAS_OFF, REPLICAS_OFF_FRAC = 0.25, 0.02
"""replicas that may differ on average over an hour, or share of those planned: starts and stops take a while"""
DEMAND_OFF_FRAC = 0.1
LEAST_COVERED_FRAC = 0.9
"""of an hour, by samples; of others nothing is said"""
ALONE_S = 60.0
"""a sample stands for, where no series has two"""
SCRAPED_BY = ("prometheus", "prometheus_replica", "__replica__")
"""labels that tell which of several like ones scraped a series"""
MADE_OF = r"-kserve|-deployment-vllm|-serve-svc|-kserve-workload-svc|-(.*-)?(firm|spot)"
"""what operators put behind the name of a deployment"""
LEAST_REQUESTS = 20
"""of an hour: fewer say nothing about a promise"""


@dataclass(frozen=True)
class Promise:
    """Share of the answers of an hour that came in time."""

    what: str
    seconds: float
    promised_frac: float
    kept_frac: float

    @property
    def kept(self) -> bool:
        return self.kept_frac >= self.promised_frac


@dataclass(frozen=True)
class LiveHour:
    """One deployment in one hour."""

    begins: str
    deployment: str
    planned_replicas: int
    replicas: float
    planned_requests_per_s: float
    requests_per_s: float | None
    planned_in_flight: int
    in_flight: float | None
    """requests running and waiting, of a replica"""
    promises: tuple[Promise, ...]
    planned_usd: float
    """of the instances that its replicas stand on, by their GPUs"""
    usd: float
    not_measured: tuple[str, ...]
    """what the metrics do not say of it"""
    left: tuple[str, ...]
    """what is not as planned, the worst first"""

    @property
    def broke(self) -> bool:
        return any(not p.kept for p in self.promises)


@dataclass(frozen=True)
class Live:
    """What ran, against the plan."""

    plan: str
    time_zone: str
    hours: tuple[LiveHour, ...]
    not_seen: tuple[str, ...]
    """deployments of the plan without a sample"""
    unknown: int
    """series that belong to no deployment of the plan"""
    notes: tuple[str, ...]

    @property
    def left(self) -> list[LiveHour]:
        return [h for h in self.hours if h.left]

    @property
    def not_measured(self) -> dict[str, int]:
        """In how many hours of a deployment nobody knows."""
        return dict(Counter(what for hour in self.hours for what in hour.not_measured))

    def as_json(self) -> dict[str, Any]:
        return {"format": LIVE_FORMAT, **asdict(self)}


@dataclass
class Samples:
    """Of one deployment, by the hour of the plan's clock."""

    up: dict[Hashable, dict[float, float]] = field(default_factory=lambda: defaultdict(dict))
    """when each replica answered, and for how long that stands"""
    ready: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """replica-hours, by Kubernetes"""
    busy: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """requests running and waiting, on average"""
    finished: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    within: dict[tuple[str, float], list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """answers by metric and bound"""
    namespaces: set[str] = field(default_factory=set)

    def seen(self) -> dict[int, float]:
        """Replica-hours by the replicas that answered, each counted once however many engines are in it."""
        hours: dict[int, float] = defaultdict(float)
        for answered in self.up.values():
            for time, lasts_s in answered.items():
                hours[int(time // HOUR_S)] += lasts_s / HOUR_S
        return hours


@dataclass(frozen=True)
class Metrics:
    """What the files hold of the deployments of a plan."""

    of: dict[str, Samples]
    covered: dict[int, float]
    """share of each hour that has samples, where that is nearly all of it"""
    shift_s: int
    """by which times were moved, so that whole hours are those of the plan's clock"""
    unknown: int
    notes: list[str]


def live_check(plan: Plan, folder: Path, time_zone: str | None = None) -> Live:
    """Raises InputError where the folder holds no metrics of the plan's deployments."""
    zone = time_zone or plan.case.time_zone or UTC
    fleets = {m: hosted_fleet(plan, Settings(month=m, time_zone=zone)) for m in {s.month for s in plan.slots}}
    hosted = {h.name: h for fleet in fleets.values() for h in fleet.hosted}
    if not hosted:
        raise input_error("--live", "the plan hosts nothing", "There are no replicas to watch")
    found = _read(folder, list(hosted.values()), ZoneInfo(zone))
    first = plan.case.starts
    notes = found.notes
    at = {hour: datetime.fromtimestamp(hour * HOUR_S - found.shift_s, ZoneInfo(zone)) for hour in found.covered}
    months = {hour: _month(when.date(), first, len(fleets)) for hour, when in at.items()}
    if first is None and len(fleets) > 1:
        notes.append("the plan does not say when it begins: every hour is compared with its first month")
    if beyond := [hour for hour, month in months.items() if month is None]:
        span = f"{at[min(beyond)]:%Y-%m-%d} to {at[max(beyond)]:%Y-%m-%d}"
        notes.append(
            f"{counted(len(beyond), 'hour')} ({span}) in months that the plan, which begins on {first}, does not have: "
            "not judged"
        )
    seen = {name: samples.seen() for name, samples in found.of.items()}
    lines = []
    for hour, name in sorted((hour, name) for hour in found.covered for name in found.of):
        month = months[hour]
        fleet = None if month is None else fleets[month]
        mine = next((h for h in fleet.hosted if h.name == name), None) if fleet is not None else None
        if fleet is not None and mine is not None:
            samples, covered = found.of[name], found.covered[hour]
            lines.append(_hour(fleet, mine, at[hour], hour, samples, seen[name].get(hour, 0.0), covered))
    return Live(
        plan=plan.name,
        time_zone=zone,
        hours=tuple(lines),
        not_seen=tuple(name for name in hosted if name not in found.of),
        unknown=found.unknown,
        notes=tuple(notes),
    )


def _month(day: date, first: date | None, months: int) -> int | None:
    """None: the plan has no such month. A month of a plan in which nothing grows stands for all."""
    if first is None or (months == 1 and day >= first):
        return 0
    month = month_index(first, day)
    return month if 0 <= month < months else None


# -- reading ----------------------------------------------------------------------------------------------


def _read(folder: Path, hosted: list[Hosted], zone: ZoneInfo) -> Metrics:
    ledger = Ledger()
    series, broken = _series(folder, ledger)
    used = [found for found in series.values() if found[1].size]
    if not used:
        if broken:
            remedy = "Save those of query_range, which have values and not one value"
            raise input_error(folder, "holds no samples over time", remedy)
        raise input_error(folder, f"holds no series of {RUNNING}, {REQUESTS} or {TTFT}", "Save these")
    step_s = _step_s([values for _, values in used])
    first = min(float(values[0, 0]) for _, values in used)
    offset = datetime.fromtimestamp(first, zone).utcoffset()
    shift_s = int(offset.total_seconds()) % HOUR_S if offset is not None else 0
    of: dict[str, Samples] = {}
    unknown = 0
    for labels, values in used:
        values[:, 0] += shift_s
        name = _owner(labels, hosted)
        if name is None:
            unknown += 1
            continue
        try:
            _take(of.setdefault(name, Samples()), labels, values, step_s)
        except (KeyError, TypeError, ValueError):
            broken += 1
    if not of:
        remedy = f"Their label 'pod' or 'job' must begin with {hosted[0].name}"
        raise input_error(folder, f"holds {unknown} series of other deployments", remedy)
    share = _share_of_hours([values[:, 0] for _, values in used], step_s)
    covered = {hour: frac for hour, frac in share.items() if frac >= LEAST_COVERED_FRAC}
    notes = list(ledger.notes)
    if broken:
        notes.append(f"{broken:,} broken series left out")
    if len(covered) < len(share):
        notes.append(f"{counted(len(share) - len(covered), 'hour')} with too few samples: not judged")
    for name, samples in of.items():
        if len(samples.namespaces) > 1:
            places = listed(sorted(samples.namespaces), "and")
            notes.append(f"{name}: replicas in {places} are counted together; save the metrics of one namespace")
    return Metrics(of, covered, shift_s, unknown, notes)


def _series(folder: Path, ledger: Ledger) -> tuple[dict[Hashable, tuple[dict[str, str], np.ndarray]], int]:
    """By their labels, each with its samples in order and each time once, however often it was saved."""
    if not folder.is_dir():
        raise input_error("--live", f"{folder} is not a folder", "Save the answers of query_range into one, as JSON")
    files = sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS))
    if not files:
        raise input_error(folder, "holds no JSON", "Save the answers of query_range there")
    parts: dict[Hashable, tuple[dict[str, str], list[np.ndarray]]] = {}
    broken = 0
    for path in files:
        for answer in _answers(path, ledger):
            for found in answer.series:
                labels = found.get("metric")
                if not isinstance(labels, dict):
                    broken += 1
                elif _is_of_use(str(labels.get("__name__", ""))) and len(found["values"]):
                    names = {str(k): str(v) for k, v in labels.items()}
                    parts.setdefault(_key(names), (names, []))[1].append(found["values"])
    merged: dict[Hashable, tuple[dict[str, str], np.ndarray]] = {}
    twice = 0
    for key, (labels, several) in parts.items():
        whole = np.concatenate(several)
        _, first = np.unique(whole[:, 0], return_index=True)
        merged[key] = labels, whole[first]
        twice += len(whole) - len(first)
    if twice:
        ledger.note(f"{counted(twice, 'sample')} of a time and series that had one already: counted once")
    return merged, broken


def _key(labels: dict[str, str]) -> Hashable:
    """What makes a series another one: neither who scraped it nor, of Kubernetes' own counts, who reported it."""
    if labels["__name__"] == READY:
        return READY, labels.get("cluster"), labels.get("namespace"), labels.get("deployment")
    known = {k for k in labels if k in SCRAPED_BY} | ({"replica"} if labels.keys() & {"pod", "instance"} else set())
    return frozenset((k, v) for k, v in labels.items() if k not in known)


def _step_s(series: list[np.ndarray], otherwise: float = ALONE_S) -> float:
    """Between samples, as most of them have it."""
    gaps = [np.diff(values[:, 0]) for values in series if len(values) > 1]
    return float(np.median(np.concatenate(gaps))) if gaps else otherwise


def _share_of_hours(times: list[np.ndarray], step_s: float) -> dict[int, float]:
    """The share of each hour in which there are samples."""
    spans = np.unique(np.floor(np.unique(np.concatenate(times)) / step_s))
    hours: dict[int, float] = defaultdict(float)
    for hour in (spans * step_s // HOUR_S).astype(int).tolist():
        hours[hour] += step_s / HOUR_S
    return {hour: min(1.0, share) for hour, share in sorted(hours.items())}


def _answers(path: Path, ledger: Ledger) -> Iterator[Answer]:
    remedy = "Leave it out, or save query_range's answer"
    try:
        for piece in pieces_of(path, Reading({}), ledger):
            if not isinstance(piece, Answer):
                raise input_error(path, "holds rows of a log", remedy)
            yield piece
    except InputError:
        raise input_error(path, "is not an answer from Prometheus", remedy) from None


def _is_of_use(metric: str) -> bool:
    return metric in (RUNNING, WAITING, READY, REQUESTS, *(f"{of}_bucket" for of in (TTFT, TPOT, E2E)))


def _owner(labels: dict[str, str], hosted: list[Hosted]) -> str | None:
    """The longest name that fits one of its labels; Kubernetes tells of a Deployment what else runs beside, too."""
    is_whole = labels["__name__"] == READY
    owners = [labels[label] for label in (("deployment",) if is_whole else OWNERS) if label in labels]
    fits = [h.name for h in hosted if any(_belongs(text, h.name, is_whole) for text in owners)]
    if fits:
        return max(fits, key=len)
    by_model = [h.name for h in hosted if labels.get("model_name") == h.checkpoint]
    if len(by_model) == 1 and not any(label in labels for label in ("pod", "deployment")):
        return by_model[0]
    return hosted[0].name if len(hosted) == 1 and not owners else None


def _belongs(text: str, name: str, is_whole: bool) -> bool:
    """Names of pods, jobs and services, as each target and its operator make them; whole ones end with the name."""
    ending = "" if is_whole else "(-[a-z0-9]+){0,2}"
    return re.fullmatch(rf"(fleet-)?{re.escape(name)}(-spot)?({MADE_OF})?{ending}", text) is not None


def _take(samples: Samples, labels: dict[str, str], values: np.ndarray, step_s: float) -> None:
    metric, lasts_s = labels["__name__"], _step_s([values], step_s)
    if metric in (RUNNING, WAITING, READY):
        values = values[values[:, 1] >= 0]
        if metric == RUNNING:
            replica = labels.get("pod") or labels.get("instance") or _key(labels)
            samples.up[labels.get("namespace"), replica] |= dict.fromkeys(values[:, 0].tolist(), lasts_s)
        counts = samples.ready if metric == READY else samples.busy
        for hour, value in zip((values[:, 0] // HOUR_S).astype(int).tolist(), values[:, 1].tolist(), strict=True):
            counts[hour] += value * lasts_s / HOUR_S
    elif metric == REQUESTS:
        samples.finished.append(increases(values)[:3])
    else:
        samples.within[metric, float(labels["le"])].append(increases(values)[:3])
    if "namespace" in labels:
        samples.namespaces.add(labels["namespace"])


# -- judging ----------------------------------------------------------------------------------------------


def _hour(
    fleet: HostedFleet, h: Hosted, at: datetime, hour: int, samples: Samples, seen: float, covered: float
) -> LiveHour:
    day = "weekend" if at.weekday() >= 5 and "weekend" in h.replicas else "weekday"
    planned = h.replicas[day][at.hour]
    replicas = (samples.ready[hour] if samples.ready else seen) / covered
    finished = _in_hour(samples.finished, hour)
    rps = finished / HOUR_S if finished is not None else None
    served = [w for w in fleet.plan.case.workloads if w.name in h.pool.workloads and w.deadline_h is None]
    made = [(what, metric, min(of, key=lambda target: target.seconds)) for what, metric, of in _targets(served) if of]
    promises = [p for what, metric, target in made for p in _promise(what, metric, target, hour, samples)]
    measured = {p.what for p in promises}
    not_measured = [*(["requests"] if rps is None else []), *(what for what, _, _ in made if what not in measured)]
    planned_rps = _planned_rps(h, day, at.hour)
    in_flight = samples.busy[hour] / covered / replicas if replicas and samples.busy else None
    usd = _usd_of_a_replica(fleet, h, day, at.hour)
    left = _left(planned, replicas, planned_rps, rps, h.in_flight, in_flight, promises)
    return LiveHour(
        begins=at.strftime("%Y-%m-%d %H:%M"),
        deployment=h.name,
        planned_replicas=planned,
        replicas=round(replicas, 3),
        planned_requests_per_s=round(planned_rps, 4),
        requests_per_s=None if rps is None else round(rps, 4),
        planned_in_flight=h.in_flight,
        in_flight=None if in_flight is None else round(in_flight, 2),
        promises=tuple(promises),
        planned_usd=round(planned * usd, 4),
        usd=round(replicas * usd, 4),
        not_measured=tuple(not_measured),
        left=tuple(left),
    )


def _targets(served: list[Workload]) -> list[tuple[str, str, list[LatencyTarget]]]:
    """What workloads are promised, by the metric that shows it."""
    return [
        ("TTFT", TTFT, [w.ttft for w in served]),
        ("TPOT", TPOT, [w.tpot for w in served]),
        ("whole answers", E2E, [w.e2e for w in served if w.e2e is not None]),
        (PER_TOKEN, "", [w.e2e_per_token for w in served if w.e2e_per_token is not None]),
    ]


def _planned_rps(h: Hosted, day: str, hour: int) -> float:
    loads = [load for counts in h.load.values() for load in counts]
    return h.requests_per_s * len(loads) * h.load[day][hour] / sum(loads) if any(loads) else 0.0


def _usd_of_a_replica(fleet: HostedFleet, h: Hosted, day: str, hour: int) -> float:
    """Its share of the instances of its offer in that hour, in dollars an hour; of what is bought on demand if none."""
    t = next(t for t in fleet.slots if (fleet.plan.slots[t].day, fleet.plan.slots[t].hour) == (day, hour))
    lines = [line for line in fleet.plan.fleet if line.offer == h.plan.deployment.offer]
    instances = sum(line.instances_by_slot[t] for line in lines)
    paid = sum(line.instances_by_slot[t] * line.usd_per_h for line in lines)
    per_instance = paid / instances if instances else max((line.usd_per_h for line in lines), default=0.0)
    return per_instance * h.gpus / h.offer.gpus


def _in_hour(series: list[tuple[np.ndarray, np.ndarray, np.ndarray]], hour: int) -> float | None:
    """Increase of counters within an hour; None where nothing covers it."""
    some = [spans for spans in series if len(spans[0])]
    if not some:
        return None
    low, total, shown_in = steps(some, HOUR_S)
    k = hour - low
    return float(total[k]) if 0 <= k < len(total) and (shown_in[k] or total[k]) else None


def _promise(what: str, metric: str, target: LatencyTarget, hour: int, samples: Samples) -> Iterator[Promise]:
    """Straight between the bounds of the histogram on either side of the target."""
    name = f"{metric}_bucket"
    bounds = sorted(le for of, le in samples.within if of == name)
    counts = [_in_hour(samples.within[name, le], hour) or 0.0 for le in bounds]
    if not counts or counts[-1] < LEAST_REQUESTS:
        return
    pairs = [(le, n) for le, n in zip(bounds, counts, strict=True) if math.isfinite(le)]
    edges, below = [0.0, *(le for le, _ in pairs)], [0.0, *(n for _, n in pairs)]
    within = float(np.interp(target.seconds, edges, below)) / counts[-1]
    yield Promise(what, target.seconds, target.percentile, round(min(1.0, within), 4))


def _left(
    planned: int, replicas: float, planned_rps: float, rps: float | None, planned_busy: int, busy: float | None,
    promises: list[Promise],
) -> list[str]:  # fmt: skip
    """What is not as planned, and why a promise was missed: by demand, replicas, lengths or speed."""
    off = max(REPLICAS_OFF, REPLICAS_OFF_FRAC * planned)
    fewer, more = replicas < planned - off, replicas > planned + off
    above = rps is not None and planned_rps > 0 and rps > (1 + DEMAND_OFF_FRAC) * planned_rps
    departures = []
    missed = [p for p in promises if not p.kept]
    for p in missed:
        why = (
            f"{rps / planned_rps - 1:.0%} more requests than planned"
            if above and rps is not None
            else f"{planned - replicas:.1f} replicas of {planned} were missing"
            if fewer
            else "more in flight than planned: longer requests, or unevenly loaded replicas"
            if busy is not None and busy > (1 + DEMAND_OFF_FRAC) * planned_busy
            else "demand and replicas were as planned: the engine is slower than the plan assumes; calibrate it"
        )
        departures.append(
            f"{p.what} within {p.seconds:g} s for {p.kept_frac:.1%}, promised {p.promised_frac:.0%}: {why}"
        )
    if fewer:
        departures.append(f"{replicas:.1f} replicas, planned {planned}")
    if above and rps is not None:
        departures.append(f"{rps:.3g} requests a second, planned {planned_rps:.3g}")
    if more:
        departures.append(f"{replicas:.1f} replicas, planned {planned}: paid for, but not planned")
    return departures


# -- showing ----------------------------------------------------------------------------------------------


def live_document(live: Live) -> Document:
    """Hours that left the plan, each with its reason, and what the whole came to."""
    hours = len({h.begins for h in live.hours})
    off, broke = len({h.begins for h in live.left}), len({h.begins for h in live.hours if h.broke})
    if not live.hours:
        first = f"{live.plan}: no hour of the plan is covered by samples, so nothing is judged"
    elif not off:
        shown = ", as far as these metrics show" if live.not_measured else ""
        first = f"{live.plan} ran as planned in all of {counted(hours, 'hour')}{shown}"
    else:
        first = (
            f"{live.plan} departed from its plan in {off} of {counted(hours, 'hour')}, and missed a promise in {broke}"
        )
    notes = [
        f"hours are those of {live.time_zone}",
        "costs are those of the instances on which replicas ran; commitments are paid in any case",
        *live.notes,
    ]
    for what, count in live.not_measured.items():
        notes.append(
            f"{what}: not measured in {counted(count, 'hour')} of a deployment, for lack of its metric or of "
            f"{LEAST_REQUESTS} answers"
        )
    if live.not_seen:
        notes.append(f"no samples of {listed(list(live.not_seen), 'and')}: they could not be checked")
    if live.unknown:
        notes.append(f"{live.unknown:,} series that belong to no deployment of the plan were ignored")
    planned, usd = sum(h.planned_usd for h in live.hours), sum(h.usd for h in live.hours)
    cost = f"replicas cost ${usd:,.2f} in these hours; the plan was ${planned:,.2f}"
    alarms = frozenset(k for k, h in enumerate(live.left) if h.broke)
    return Document(
        title=f"Live check of {live.plan}",
        headline=first,
        lead=(Lines((cost,)),) if live.hours else (),
        parts=(TablePart(_left_table(live), alarms=alarms), Lines(tuple(notes))),
        json=lambda: json_text(live.as_json()),
        tables=lambda: (_every_hour(live),),
    )


COLUMNS = (
    C("begins", "hour"), C("deployment", "deployment"), C("planned_replicas", "replicas planned", "count"),
    C("replicas", "replicas", ",.1f"), C("planned_requests_per_s", "requests/s planned", "number"),
    C("requests_per_s", "requests/s", "number"), C("in_flight", "in flight per replica", ",.1f"),
    C("planned_usd", "planned [$]", "price"), C("usd", "[$]", "price"),
    C("left", "why", get=lambda h: "; ".join(h.left) or None),
)  # fmt: skip


def _left_table(live: Live) -> Table:
    return Table("left", "hours that departed from the plan", COLUMNS, tuple(live.left))


def _every_hour(live: Live) -> Table:
    return Table("hours", "hours", COLUMNS, live.hours)
