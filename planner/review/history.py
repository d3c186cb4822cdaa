"""Past reviews: a folder of JSON files, one a review, which a repository can keep."""

from __future__ import annotations

from pathlib import Path

from planner.review.records import Review, TrendPoint, read_saved_review


def point_of(review: Review) -> TrendPoint:
    both = [w for w in review.workloads if w.planned_requests_per_month and w.actual_requests_per_month is not None]
    planned = sum(w.planned_requests_per_month or 0.0 for w in both)
    actual = sum(w.actual_requests_per_month or 0.0 for w in both)
    return TrendPoint(
        name=review.name,
        last_hour=review.period.last_hour,
        planned_usd_per_month=review.planned.cost_usd_per_month,
        actual_usd_per_month=review.actual.cost_usd_per_month,
        hindsight_usd_per_month=review.hindsight.cost_usd_per_month if review.hindsight else None,
        next_usd_per_month=review.next.figures.cost_usd_per_month,
        actual_usd_per_1m_tokens=review.actual.usd_per_1m_tokens,
        actual_tokens_per_month=review.actual.tokens_per_month,
        forecast_off_frac=actual / planned - 1 if planned else 0.0,
        hours_left_out=sum(w.hours_left_out for w in review.workloads),
    )


def past_points(folder: Path | None, name: str, last_hour: str) -> list[TrendPoint]:
    """Reviews of earlier periods, oldest first. This one and later ones are left out, so that one made again is the
    same."""
    if folder is None:
        return []
    found = [read_saved_review(file) for file in sorted(folder.glob("*.json"))]
    earlier = [r for r in found if r.name != name and r.period.last_hour < last_hour]
    return sorted((point_of(r) for r in earlier), key=lambda p: (p.last_hour, p.name))
