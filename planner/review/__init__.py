"""The quarterly review: a plan held against what came, and the next one.

    REVIEW.yaml -> usage log -> cleaned hours -> actual demand, forecast -> hindsight, next plan -> Review

Everything here is a changed copy of a case, planned again, and arithmetic between plans.
"""

from __future__ import annotations

from planner.review.reading import read_review
from planner.review.records import REVIEW_FORMAT, Review
from planner.review.reviewing import review_fleet

__all__ = ["REVIEW_FORMAT", "Review", "read_review", "review_fleet"]
