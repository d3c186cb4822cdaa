"""A saved plan, read again: of one block or of several, in the format of this release or of the one before."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from planner.io.errors import input_error
from planner.io.input_files import read_json_text
from planner.io.validation import expect_format, saved
from planner.plan.blocks import AnyPlan
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import PLAN_FORMAT, Plan

OLDER = ("fleetplan-plan/5", "fleetplan-horizon/1")
"""formats that are still read: plans of one block, and of several"""
PLAN_AGAIN = "Plan it again with 'fleetplan plan --out'"
UPDATE = "Update fleetplan, or plan the demand file again with this version"


def plan_from_json(text: str, file: str = "<plan>") -> AnyPlan:
    """Read a saved plan; raises InputError where it is none."""
    try:
        data = json.loads(text)
        expect_format(data, PLAN_FORMAT, *OLDER)
    except (ValueError, RecursionError) as error:
        raise input_error(file, f"not a plan: {error}", UPDATE if _is_newer(text) else PLAN_AGAIN) from None
    text = text if data["format"] == PLAN_FORMAT else json.dumps(_as_today(data))
    if has_quarters(data):
        return saved(HorizonPlan, text, file, "a plan of several quarters", PLAN_AGAIN)
    return saved(Plan, text, file, "a plan", PLAN_AGAIN)


def read_plan(path: Path | str) -> AnyPlan:
    """Read a saved plan, without checking its figures; raises InputError where it is none."""
    return plan_from_json(read_json_text(path), str(path))


def has_quarters(data: Any) -> bool:
    """Whether the JSON of a plan is that of several blocks."""
    return isinstance(data, dict) and "quarters" in data


def _as_today(data: dict[str, Any]) -> dict[str, Any]:
    """A plan of the format before: plans of several blocks had a format of their own, and all keys are as they were."""
    today: dict[str, Any] = data | {"format": PLAN_FORMAT}
    if isinstance(data.get("quarters"), list):
        today["quarters"] = [_quarter_as_today(q) for q in data["quarters"]]
    return today


def _quarter_as_today(quarter: Any) -> Any:
    if not isinstance(quarter, dict) or not isinstance(quarter.get("plan"), dict):
        return quarter
    return quarter | {"plan": _as_today(quarter["plan"])}


def _is_newer(text: str) -> bool:
    """Whether a later release wrote it; a file names its format first."""
    found = re.match(r'\s*\{\s*"format"\s*:\s*"fleetplan-plan/(\d{1,9})"', text)
    return found is not None and int(found[1]) > int(PLAN_FORMAT.rpartition("/")[2])
