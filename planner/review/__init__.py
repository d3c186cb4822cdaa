"""The quarterly review: a plan against actual demand, and the next plan.

    REVIEW.yaml -> usage log -> cleaned hours -> actual demand, forecast -> hindsight, next plan -> Review

Everything here is a changed copy of a case, planned again, and arithmetic between plans.
"""

from __future__ import annotations

from planner.review.records import REVIEW_FORMAT, Review
from planner.review.review import review_fleet
from planner.review.review_file import read_review

__all__ = ["REVIEW_FORMAT", "Review", "read_review", "review_fleet"]
