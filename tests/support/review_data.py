"""Usage logs for reviews: made from rates, with everything in them that real logs have, the same bytes every time."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import planner
from planner.case.case import Case, Workload
from planner.review.quarter import review_fleet
from planner.review.review_file import read_review

MONDAY = datetime(2026, 8, 31)
Row = tuple[str, str, int, int, int]


def wobble(k: int) -> float:
    """Between -1 and 1, without a pattern, the same on every machine."""
    return math.sin(12.9898 * k + 78.233 * (k % 7)) * math.cos(4.1414 * k)


def planned_rows(
    case: Case, days: int, start: datetime = MONDAY, factor: Callable[[Workload, int], float] = lambda w, hour: 1.0
) -> list[Row]:
    """A log of what a case without growth plans for, times a factor of the workload and the hour."""
    rows = []
    for hour in range(24 * days):
        time = start + timedelta(hours=hour)
        for w in case.workloads:
            rates = w.weekend_rps if time.weekday() >= 5 else w.weekday_rps
            requests = round(3600 * rates[time.hour] * factor(w, hour))
            lengths = [
                sum(b.share_frac * getattr(b, key) for b in w.buckets) for key in ("input_tokens", "output_tokens")
            ]
            rows.append((w.name, time.isoformat(timespec="minutes"), requests, *(round(requests * n) for n in lengths)))
    return rows


def as_csv(rows: list[Row]) -> str:
    head = "workload,time,requests,input_tokens,output_tokens"
    return "\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n"


def example_log(case: Case) -> str:
    """Four weeks: the chat outgrows its plan, the summaries are fewer and longer; with a gap, an outage, a spike."""

    def factor(w: Workload, hour: int) -> float:
        noise = 1 + 0.04 * wobble(hour + 1000 * (w.name == "summaries"))
        return noise * (1.06 + 0.04 * hour / 168 if w.name == "support-chat" else 0.9)

    rows = []
    for name, time, requests, read, written in planned_rows(case, 28, factor=factor):
        day, hour = int(time[8:10]) - 31 if time.startswith("2026-08") else int(time[8:10]), int(time[11:13])
        if name == "summaries":
            read = round(1.12 * read)
        if name == "support-chat" and day == 9 and 9 <= hour < 14:
            requests = read = written = 0
        if name == "support-chat" and day == 22 and hour == 15:
            requests, read, written = 8 * requests, 8 * read, 8 * written
        if name == "summaries" and day == 16 and 3 <= hour < 10:
            continue
        rows += [(name, time, requests, read, written)] * (2 if day == 24 and hour < 2 else 1)
    return as_csv(rows)


def write_example(folder: Path) -> None:
    """All of examples/quarterly-review that is not written by hand."""
    plan = planner.plan_fleet(planner.load_case(folder / "demand.yaml"))
    (folder / "last-plan.json").write_text(plan.to_json(), encoding="utf-8")
    (folder / "usage.csv").write_text(example_log(plan.case), encoding="utf-8")
    (folder / "reviews" / "2026-Q2.json").write_text(earlier_review(folder), encoding="utf-8")


def earlier_review(folder: Path) -> str:
    """The quarter before, which went a little below its plan."""
    plan = planner.read_plan(folder / "last-plan.json")
    rows = planned_rows(plan.case, 28, datetime(2026, 6, 1), lambda w, hour: 0.97 + 0.03 * wobble(hour))
    with TemporaryDirectory() as made:
        (Path(made) / "usage.csv").write_text(as_csv(rows), encoding="utf-8")
        (Path(made) / "REVIEW.yaml").write_text(
            f"name: 2026-Q2\nlast_plan: {folder.resolve() / 'last-plan.json'}\nusage: usage.csv\n"
            "bill_usd_per_month: 5150\n",
            encoding="utf-8",
        )
        return review_fleet(read_review(Path(made) / "REVIEW.yaml")).review.to_json()
