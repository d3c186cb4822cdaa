"""A running fleet against its plan: which hours left it, and why."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planner.case.case import LatencyTarget
from planner.export.hosted import Hosted, HostedFleet, Settings, hosted_fleet
from planner.export.live import Live, live_check, live_document
from planner.export.promises import E2E, RUNNING, TPOT, TTFT, WAITING
from planner.io.errors import InputError
from planner.reports.text import as_text
from tests.support.command_line import Command
from tests.support.rows import for_each
from tests.support.shared_plans import example_plan

START = datetime(2026, 11, 16, tzinfo=UTC)  # a Monday
STEP_S, HOURS = 60, 6
NAME = "examples/ten-tenants.yaml"


@cache
def fleet() -> HostedFleet:
    return hosted_fleet(example_plan(NAME), Settings())


def planned(h: Hosted, hour: int) -> tuple[int, float]:
    loads = [x for counts in h.load.values() for x in counts]
    return h.replicas["weekday"][hour], h.requests_per_s * len(loads) * h.load["weekday"][hour] / sum(loads)


def series(metric: str, labels: dict[str, str], values: list[tuple[float, float]]) -> dict[str, Any]:
    return {"metric": {"__name__": metric, **labels}, "values": [[t, str(v)] for t, v in values]}


def ran(
    folder: Path,
    replicas: Callable[[int, int], int] = lambda hour, n: n,
    demand: Callable[[int], float] = lambda hour: 1.0,
    in_time: Callable[[int], float] = lambda hour: 1.0,
    busy: float = 0.5,
) -> Path:
    """Metrics of a fleet that does what the plan says, but for what is asked."""
    (h,) = fleet().hosted
    ttft = min(w.ttft.seconds for w in fleet().plan.case.workloads)
    tpot = min(w.tpot.seconds for w in fleet().plan.case.workloads)
    most = max(replicas(hour, planned(h, hour)[0]) for hour in range(HOURS))
    found = []
    for pod in range(most):
        labels = {"pod": f"{h.name}-7d4b9c-x{pod}", "model_name": h.checkpoint}
        done, gauge, total, late = [], [], 0.0, 0.0
        kept = []
        for minute in range(HOURS * 60 + 1):
            hour, at = min(minute // 60, HOURS - 1), START.timestamp() + minute * STEP_S
            here = replicas(hour, planned(h, hour)[0])
            if pod < here:
                more = planned(h, hour)[1] * demand(hour) * STEP_S / here
                total, late = total + more, late + more * (1 - in_time(hour))
                gauge.append((at, busy * h.in_flight))
                done.append((at, total))
                kept.append((at, total - late))
        found += [
            series(RUNNING, labels, gauge),
            series(WAITING, labels, [(t, 0.0) for t, _ in gauge]),
            series("vllm:request_success_total", labels, done),
        ]
        for metric, target in ((TTFT, ttft), (TPOT, tpot)):
            found.append(series(f"{metric}_bucket", {**labels, "le": str(target)}, kept))
            found.append(series(f"{metric}_bucket", {**labels, "le": "+Inf"}, done))
    folder.mkdir(exist_ok=True)
    answer = {"status": "success", "data": {"resultType": "matrix", "result": found}}
    (folder / "all.json").write_text(json.dumps(answer), encoding="utf-8")
    return folder


def checked(folder: Path) -> Live:
    return live_check(example_plan(NAME), folder)


def why(live: Live) -> dict[str, list[str]]:
    return {hour.begins[11:13]: list(hour.left) for hour in live.left}


def test_a_fleet_that_ran_as_planned_left_no_hour(tmp_path: Path) -> None:
    live = checked(ran(tmp_path / "m"))
    (h,) = fleet().hosted
    assert why(live) == {}
    assert len(live.hours) == HOURS
    for k, hour in enumerate(live.hours):
        replicas, rps = planned(h, k)
        assert hour.replicas == pytest.approx(replicas, abs=0.1)
        assert hour.requests_per_s == pytest.approx(rps, rel=0.06)
        assert hour.usd == pytest.approx(hour.planned_usd, rel=0.02)
    assert "ran as planned in all of 6 hours" in as_text(live_document(live))


def test_missing_replicas_are_the_reason_where_demand_is_as_planned(tmp_path: Path) -> None:
    live = checked(
        ran(tmp_path / "m", lambda hour, n: n - 2 if hour == 2 else n, in_time=lambda h: 0.8 if h == 2 else 1)
    )
    assert set(why(live)) == {"02"}
    first, *_ = why(live)["02"]
    assert first.startswith("TTFT within") and "80.3%, promised 95%: 2.0 replicas of 5 were missing" in first
    assert "promise in 1" in as_text(live_document(live))


def test_more_demand_than_planned_is_the_reason_even_if_replicas_are_there(tmp_path: Path) -> None:
    live = checked(ran(tmp_path / "m", demand=lambda h: 1.5 if h == 3 else 1, in_time=lambda h: 0.9 if h == 3 else 1))
    assert set(why(live)) == {"03"}
    assert "49% more requests than planned" in why(live)["03"][0], "a minute of the hour falls into the one before"


def test_a_slow_engine_is_the_reason_where_all_else_is_as_planned(tmp_path: Path) -> None:
    live = checked(ran(tmp_path / "m", in_time=lambda h: 0.9 if h == 1 else 1))
    assert "slower than the plan assumes; calibrate it" in why(live)["01"][0]
    live = checked(ran(tmp_path / "m", in_time=lambda h: 0.9 if h == 1 else 1, busy=1.5))
    assert "more in flight than planned" in why(live)["01"][0]


def test_replicas_that_nobody_planned_cost_more(tmp_path: Path) -> None:
    live = checked(ran(tmp_path / "m", lambda hour, n: n + 2 if hour == 4 else n))
    (hour,) = live.left
    assert hour.usd == pytest.approx(hour.planned_usd * hour.replicas / hour.planned_replicas, rel=1e-3)
    assert "paid for, but not planned" in hour.left[0]
    assert not hour.broke


def test_a_pool_without_replicas_is_an_hour_that_left(tmp_path: Path) -> None:
    """Nothing is scraped then; Kubernetes' own metrics say so."""
    folder = ran(tmp_path / "m", lambda hour, n: 0 if hour == 4 else n)
    (h,) = fleet().hosted
    ready = []
    for minute in range(HOURS * 60):
        ready.append((START.timestamp() + minute * 60, float(0 if minute // 60 == 4 else planned(h, minute // 60)[0])))
    found = series("kube_deployment_status_replicas_available", {"deployment": h.name}, ready)
    (folder / "ready.json").write_text(json.dumps({"data": {"result": [found]}}), encoding="utf-8")
    (hour,) = checked(folder).left
    assert (hour.begins[11:13], hour.replicas, hour.usd) == ("04", 0.0, 0.0)
    assert hour.left[0] == f"0.0 replicas, planned {hour.planned_replicas}"


@for_each(
    ("text", "words"),
    [
        (None, "is not a folder"),
        ("", "is not an answer from Prometheus"),
        ('{"data": {"result": [{"metric": {}, "values": [[1, 2]]}]}}', "holds no series"),
        ("time,input\n1,2\n", "is not an answer from Prometheus"),
    ],
)
def test_what_is_no_export_is_refused(text: str | None, words: str, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    if text is not None:
        folder.mkdir()
        (folder / "a.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        checked(folder)


def test_metrics_of_others_are_named_and_left_out(tmp_path: Path) -> None:
    folder = ran(tmp_path / "m")
    other = series(RUNNING, {"pod": "elsewhere-1-2"}, [(START.timestamp() + 60 * k, 1.0) for k in range(120)])
    answer = {"status": "success", "data": {"result": [other]}}
    (folder / "b.json").write_text(json.dumps(answer), encoding="utf-8")
    assert checked(folder).unknown == 1
    (folder / "all.json").unlink()
    with pytest.raises(InputError, match="of other deployments"):
        checked(folder)


def test_the_command_says_what_left_the_plan_and_exits_with_5_where_a_promise_was_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleetplan, plan = Command(monkeypatch, capsys), tmp_path / "plan.json"
    example_plan(NAME).save(plan)
    kept = fleetplan("check", str(plan), "--live", str(ran(tmp_path / "m")))
    assert (kept.code, "ran as planned" in kept.out) == (0, True)
    late = ran(tmp_path / "late", in_time=lambda h: 0.5 if h == 1 else 1)
    missed = fleetplan("check", str(plan), "--live", str(late), "--format", "json")
    assert missed.code == 5
    assert json.loads(missed.out)["format"] == "fleetplan-live-check/1"
    both = fleetplan("check", str(plan), "--live", str(late), "--prove")
    assert both.code == 2 and "--prove" in both.err


# -- what folders of metrics have ------------------------------------------------------------------------


def answer(folder: Path, file: str, *found: dict[str, Any]) -> None:
    (folder / file).write_text(json.dumps({"data": {"resultType": "matrix", "result": found}}), encoding="utf-8")


def saved(folder: Path) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = json.loads((folder / "all.json").read_text(encoding="utf-8"))["data"]["result"]
    return result


def as_ran(live: Live) -> list[tuple[float, float | None, float]]:
    return [(h.replicas, h.requests_per_s, h.usd) for h in live.hours]


def test_samples_that_were_saved_or_scraped_twice_count_once(tmp_path: Path) -> None:
    folder = ran(tmp_path / "m")
    once = checked(folder)
    again = [f | {"metric": f["metric"] | {"prometheus_replica": "b"}} for f in saved(folder)]
    answer(folder, "b.json", *again)
    twice = checked(folder)
    assert as_ran(twice) == as_ran(once)
    assert [n for n in twice.notes if "counted once" in n]


def test_an_engine_with_copies_of_attention_is_one_replica(tmp_path: Path) -> None:
    folder = ran(tmp_path / "m")
    once = checked(folder)
    copies = [
        f | {"metric": f["metric"] | {"engine": str(k)}}
        for f in saved(folder)
        if f["metric"]["__name__"] == RUNNING
        for k in range(8)
    ]
    answer(folder, "all.json", *(f for f in saved(folder) if f["metric"]["__name__"] != RUNNING), *copies)
    assert [h.replicas for h in checked(folder).hours] == [h.replicas for h in once.hours]


def test_files_of_different_steps_are_read_each_by_its_own(tmp_path: Path) -> None:
    folder = ran(tmp_path / "m")
    once = checked(folder)
    fine = [
        f | {"values": [[t + 15 * k, v] for t, v in f["values"] for k in range(4)]}
        if f["metric"]["__name__"] in (RUNNING, WAITING) and f["metric"]["pod"].endswith("0")
        else f
        for f in saved(folder)
    ]
    answer(folder, "all.json", *fine)
    assert [h.replicas for h in checked(folder).hours] == pytest.approx([h.replicas for h in once.hours], abs=0.05)


def test_hours_that_begin_at_half_past_elsewhere_are_those_of_the_plan(tmp_path: Path) -> None:
    """India is five hours and a half ahead: its midnight is 18:30 in UTC."""
    folder = ran(tmp_path / "m")
    moved = [f | {"values": [[t - 5.5 * 3600, v] for t, v in f["values"]]} for f in saved(folder)]
    answer(folder, "all.json", *moved)
    live = live_check(example_plan(NAME), folder, "Asia/Kolkata")
    assert [h.begins[11:] for h in live.hours] == [f"{k:02d}:00" for k in range(HOURS)]
    assert why(live) == {}


def test_months_that_the_plan_does_not_have_are_not_judged(tmp_path: Path) -> None:
    growing = example_plan("examples/two-models.yaml")
    name = hosted_fleet(growing, Settings()).hosted[0].name
    folder = tmp_path / "m"
    folder.mkdir()
    pod = {"pod": f"{name}-7d4b9c-x0"}
    answer(folder, "a.json", series(RUNNING, pod, [(START.timestamp() + 60 * k, 1.0) for k in range(180)]))
    for begins, judged in ((date(2026, 9, 1), True), (date(2026, 8, 1), False), (date(2026, 12, 1), False)):
        plan = growing.model_copy(update={"case": growing.case.model_copy(update={"starts": begins})})
        live = live_check(plan, folder)
        assert bool(live.hours) == judged, begins
        assert any("does not have: not judged" in note for note in live.notes) != judged
    assert "so nothing is judged" in as_text(live_document(live))


def test_deployments_of_others_with_a_like_name_are_none_of_ours(tmp_path: Path) -> None:
    folder = ran(tmp_path / "m")
    (h,) = fleet().hosted
    once = checked(folder)
    at = [(START.timestamp() + 60 * k, 3.0) for k in range(60 * HOURS)]
    answer(
        folder, "b.json",
        series("kube_deployment_status_replicas_available", {"deployment": f"{h.name}-user-interface"}, at),
        series("kube_deployment_status_replicas_available", {"deployment": "web", "pod": f"{h.name}-1-2"}, at),
        series(RUNNING, {"pod": f"{h.name}-for-europe-7d4b9c-x0"}, at),
    )  # fmt: skip
    live = checked(folder)
    assert (as_ran(live), live.unknown) == (as_ran(once), 3)
    assert "3 series that belong to no deployment" in as_text(live_document(live))


def test_broken_and_impossible_values_are_left_out(tmp_path: Path) -> None:
    folder = ran(tmp_path / "m")
    (h,) = fleet().hosted
    once = checked(folder)
    t = START.timestamp()
    pod = {"pod": f"{h.name}-7d4b9c-x0"}
    answer(
        folder, "b.json",
        series(f"{TTFT}_bucket", {**pod, "le": "soon"}, [(t, 1.0), (t + 60, 2.0)]),
        series(f"{TTFT}_bucket", pod, [(t, 1.0), (t + 60, 2.0)]),
        {"metric": ["no", "labels"], "values": [[t, "1"]]},
        {"metric": {"__name__": RUNNING, **pod}, "value": [t, "1"]},
        series(RUNNING, pod | {"engine": "1"}, [(t, math.nan), (t + 60, math.inf), (t + 120, -5.0), (9e17, 1.0)]),
    )  # fmt: skip
    live = checked(folder)
    assert as_ran(live) == as_ran(once)
    assert [n for n in live.notes if "4 broken series left out" in n]


def test_gaps_are_not_judged_and_one_namespace_is_asked_for(tmp_path: Path) -> None:
    folder = ran(tmp_path / "m")
    hole = (START.timestamp() + 2.2 * 3600, START.timestamp() + 3.4 * 3600)
    kept = [
        f | {"metric": f["metric"] | {"namespace": "staging" if f["metric"]["pod"].endswith("0") else "llm"},
             "values": [[t, v] for t, v in f["values"] if not hole[0] < t < hole[1]]}
        for f in saved(folder)
    ]  # fmt: skip
    answer(folder, "all.json", *kept)
    live = checked(folder)
    assert {h.begins[11:13] for h in live.hours} == {"00", "01", "04", "05"}
    assert any("too few samples" in n for n in live.notes)
    assert any("llm and staging are counted together" in n for n in live.notes)


@for_each(
    ("text", "words"),
    [
        ('{"status": "error", "errorType": "bad_data", "error": "invalid"}', "is not an answer from Prometheus"),
        ('{"data": {"resultType": "vector", "result": [{"metric": {"__name__": "vllm:num_requests_running"}, '
         '"value": [1, "2"]}]}}', "no samples over time"),
        ('{"data": {"resultType": "matrix", "result": []}}', "holds no series"),
        ('{"data": {"result": [{"metric": {"__name__": "vllm_num_requests_running"}, "values": [[1794787200, "2"]]}]}}',
         "holds no series of vllm:num_requests_running"),
        ('{"data": {"result": [{"met', "is not an answer from Prometheus"),
    ],
)  # fmt: skip
def test_answers_of_another_kind_are_refused_with_a_remedy(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        checked(tmp_path)


def test_what_was_not_measured_is_not_said_to_be_kept(tmp_path: Path) -> None:
    folder = ran(tmp_path / "m")
    answer(folder, "all.json", *(f for f in saved(folder) if f["metric"]["__name__"] in (RUNNING, WAITING)))
    live = checked(folder)
    assert live.not_measured == {"requests": HOURS, "TTFT": HOURS, "TPOT": HOURS}
    text = " ".join(as_text(live_document(live)).split())
    assert "ran as planned in all of 6 hours, as far as these metrics show" in text
    assert "TTFT: not measured in 6 hours of a deployment" in text
    whole = checked(ran(tmp_path / "whole"))
    assert whole.not_measured == {} and "as far as" not in as_text(live_document(whole))


def test_a_check_that_judged_nothing_is_never_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleetplan, plan = Command(monkeypatch, capsys), tmp_path / "plan.json"
    example_plan(NAME).save(plan)
    folder = ran(tmp_path / "m")
    quiet = fleetplan("check", str(plan), "--live", str(folder), "--quiet-when-ok")
    assert (quiet.code, quiet.out) == (0, "")
    answer(folder, "all.json", *(f | {"values": f["values"][:30]} for f in saved(folder)))
    nothing = fleetplan("check", str(plan), "--live", str(folder), "--quiet-when-ok")
    assert "nothing is judged" in " ".join(nothing.out.split())


def test_whole_answers_are_judged_where_they_are_promised(tmp_path: Path) -> None:
    plan = example_plan(NAME)
    promise = LatencyTarget(seconds=10.0, percentile=0.95)
    workloads = tuple(w.model_copy(update={"e2e": promise}) for w in plan.case.workloads)
    promised = plan.model_copy(update={"case": plan.case.model_copy(update={"workloads": workloads})})
    folder = ran(tmp_path / "m")
    ends = []
    for f in saved(folder):
        if f["metric"]["__name__"] == f"{TTFT}_bucket":
            inside = f["metric"]["le"] != "+Inf"
            labels = {**f["metric"], "__name__": f"{E2E}_bucket", "le": "10.0" if inside else "+Inf"}
            ends.append(
                {"metric": labels, "values": [[t, str(float(v) * (0.5 if inside else 1))] for t, v in f["values"]]}
            )
    answer(folder, "b.json", *ends)
    live = live_check(promised, folder)
    assert {(p.what, p.kept) for h in live.hours for p in h.promises} == {
        ("TTFT", True), ("TPOT", True), ("whole answers", False),
    }  # fmt: skip
