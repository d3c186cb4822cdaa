"""The quarterly review: a plan against actual demand, and the next plan.

    REVIEW.yaml -> usage log -> cleaned hours -> actual demand, forecast -> hindsight, next plan -> Review

Everything here is a changed copy of a case, planned again, and arithmetic between plans. The room has the name of a
verb: planner.review("REVIEW.yaml") does what `fleetplan review` does.
"""

from __future__ import annotations

import sys

from planner.io.callable_room import CallableRoom
from planner.review.quarter import review_fleet
from planner.review.records import REVIEW_FORMAT, Review
from planner.review.review_file import read_review

__all__ = ["REVIEW_FORMAT", "Review", "read_review", "review_fleet"]

sys.modules[__name__].__class__ = CallableRoom
