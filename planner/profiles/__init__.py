"""A user's own measurements of a deployment, which come before anything that physics predicts."""

from __future__ import annotations

from planner.profiles.correction import Correction, correction_of, predicted
from planner.profiles.limits import Replica
from planner.profiles.making import make_profiles
from planner.profiles.schema import (
    PROFILE_FORMAT,
    MaxRate,
    MeasuredPoint,
    Profile,
    ProfileFile,
    find_profile,
    profiles_text,
)
from planner.profiles.scoring import ErrorRow, errors_before_after
from planner.profiles.tables import basis_of, max_rate
from planner.profiles.written import profiles_from_text, read_profiles

__all__ = [
    "PROFILE_FORMAT",
    "Correction",
    "ErrorRow",
    "MaxRate",
    "MeasuredPoint",
    "Profile",
    "ProfileFile",
    "Replica",
    "basis_of",
    "correction_of",
    "errors_before_after",
    "find_profile",
    "make_profiles",
    "max_rate",
    "predicted",
    "profiles_from_text",
    "profiles_text",
    "read_profiles",
]
