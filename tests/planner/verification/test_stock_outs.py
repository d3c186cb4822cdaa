"""Hours without scarce instances beyond what may be there: served with what is left, and said."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import planner
from planner.plan.plan import Plan
from planner.verification.arrivals import slots_of_week
from planner.verification.stock_outs import _that_fit, stock_outs
from tests.support.shared_plans import CHAT, plan_of

pytest.importorskip("numba")
from planner.verification.serving import ServeOptions, verify_plan

THERE = 3


@cache
def planned() -> Plan:
    return plan_of(planner.case_from_text(CHAT))


@cache
def scarce() -> Plan:
    """The same plan, of whose boxes three may be taken to be there."""
    plan = planned()
    offers = {key: offer.model_copy(update={"available": THERE}) for key, offer in plan.case.offers.items()}
    return plan.model_copy(update={"case": plan.case.model_copy(update={"offers": offers})})


def test_an_hour_is_served_with_what_is_there() -> None:
    plan, week = scarce(), slots_of_week(scarce(), 0)
    (d,) = plan.pools[0].deployments
    replicas = np.array(d.replicas_by_slot)[week]
    out = stock_outs(plan, week, 2, 7, seed=3)
    (missing,) = out.missing.values()
    hours = np.flatnonzero(missing)
    assert len(hours) == len(out.notes) == 2 and (replicas[hours] > THERE).all()
    assert (replicas[hours] - missing[hours] == THERE).all(), "a box holds one replica"
    assert f"of {replicas[hours[0]]} x 1 x l40s could not be had" in out.notes[0]
    assert f"served with {THERE} of the {replicas[hours[0]]} replicas" in out.notes[0]


def test_more_hours_than_there_are_take_all_of_the_days_asked_for() -> None:
    plan, week = scarce(), slots_of_week(scarce(), 0)
    replicas = np.array(plan.pools[0].deployments[0].replicas_by_slot)[week]
    (missing,) = stock_outs(plan, week, 1000, 1, seed=3).missing.values()
    assert np.flatnonzero(missing).tolist() == np.flatnonzero(replicas[:24] > THERE).tolist()


def test_requests_wait_where_replicas_are_missing_and_the_report_says_so() -> None:
    usual = verify_plan(scarce(), ServeOptions(days=1))
    short = verify_plan(scarce(), ServeOptions(days=1, stock_outs=1))
    assert usual.requests == short.requests and usual.kept
    (note,) = short.notes
    assert note.startswith("stock-out, Mon ") and not usual.notes
    missed = [hour for p in short.workloads[0].promises for hour in p.missed_hours]
    (hour,) = {m.hour for m in missed if m.reason == "fewer replicas than planned"}
    assert f"Mon {hour:02d}h" in note
    assert all(not p.missed_hours for p in usual.workloads[0].promises)


def test_what_is_not_scarce_is_there() -> None:
    out = stock_outs(planned(), slots_of_week(planned(), 0), 1, 7, seed=1)
    assert not out.missing and out.notes == ("no stock-out: what the plan buys by the hour may be taken to be there",)
    assert stock_outs(planned(), slots_of_week(planned(), 0), 0, 7, seed=1).notes == ()


def left(box: int, boxes: int, *deployments: tuple[int, int]) -> list[int]:
    """Replicas that remain of deployments, given by the GPUs of a replica and how many there are."""
    (d,) = planned().pools[0].deployments
    on_it = {}
    for k, (size, n) in enumerate(deployments):
        record = d.deployment.model_copy(update={"gpus_per_replica": size})
        on_it["chat", k] = d.model_copy(update={"deployment": record, "replicas_by_slot": (n,)})
    return list(_that_fit(on_it, box, boxes, 0).values())


def test_what_fits_into_fewer_boxes() -> None:
    assert left(8, 2, (4, 6)) == [4]
    assert left(8, 2, (4, 3), (1, 8)) == [2, 8]
    assert left(8, 0, (4, 3), (1, 8)) == [0, 0]
    assert left(8, 3, (4, 6)) == [6]
    assert left(8, 3, (16, 2)) == [1], "a replica on two boxes"
