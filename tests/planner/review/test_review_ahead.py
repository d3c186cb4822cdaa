"""Reviews that look further than a quarter: P10, P50 and P90 of the forecast as scenarios of a plan of its own."""

from __future__ import annotations

import math
from datetime import date, datetime
from pathlib import Path

import pytest

import planner
from planner.checker import check_plan
from planner.io.errors import InputError, OutOfTime
from planner.reports.review import review_document
from planner.reports.text import as_text
from planner.review.quarter import Reviewed, review_fleet
from planner.review.records import CommitmentAdvice
from planner.review.review_file import read_review
from solvers.search.fleet_solution import Options
from tests.support.command_line import Command
from tests.support.horizon_plans import FLAT_DEMAND
from tests.support.review_data import as_csv, planned_rows, wobble
from tests.support.rows import for_each
from tests.support.shown import in_every_format

HELD = "committed: [{offer: aws/g6e.xlarge@us-east-1, purchase: reserved-1y, instances: 1, price: $1/h, lapses: %s}]\n"
FEW_WEEKS = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A last plan and a log of eight weeks, each of which is off by up to a tenth, until the end of November."""
    folder = tmp_path_factory.mktemp("ahead")
    (folder / "demand.yaml").write_text(FLAT_DEMAND, encoding="utf-8")
    plan = planner.plan_fleet(planner.load_case(folder / "demand.yaml"))
    (folder / "last-plan.json").write_text(plan.to_json(), encoding="utf-8")
    start = datetime(2026, 10, 6)
    rows = planned_rows(plan.case, 7 * FEW_WEEKS, start, lambda w, hour: 1 + 0.1 * wobble(hour // 168))
    (folder / "usage.csv").write_text(as_csv(rows), encoding="utf-8")
    return folder


def review_file(folder: Path, text: str) -> Path:
    file = folder / "REVIEW.yaml"
    file.write_text(f"name: Q4\nlast_plan: last-plan.json\nusage: usage.csv\n{text}", encoding="utf-8")
    return file


def reviewed(folder: Path, text: str) -> Reviewed:
    return review_fleet(read_review(review_file(folder, text)), Options(gap_frac=1e-3))


def test_the_percentiles_of_the_forecast_are_the_scenarios(folder: Path) -> None:
    found = reviewed(folder, HELD % "2027-02-28" + "next: {starts: 2026-12-01, horizon: 2 quarters}\n")
    review, horizon = found.review, found.horizon_plan
    assert horizon is not None
    assert check_plan(horizon.as_json()) == []
    future = horizon.case.future
    assert future is not None
    assert [(s.name, s.probability_frac) for s in future.scenarios] == [("P10", 0.3), ("P50", 0.4), ("P90", 0.3)]
    assert (future.starts, future.quarters) == (date(2026, 12, 1), 2)
    (forecast,) = review.forecasts
    assert forecast.p10_requests_per_month is not None
    assert forecast.p90_requests_per_month is not None
    low, middle, high = (s.month_factors["chat"] for s in future.scenarios)
    for mine, said in ((low, forecast.p10_requests_per_month), (high, forecast.p90_requests_per_month)):
        for q, days in ((0, 90), (1, 182)):
            wider = math.sqrt((days / 7 + 1) / 14)
            expected = wider * math.log(said / forecast.p50_requests_per_month)
            assert math.log(mine[3 * q] / middle[3 * q]) == pytest.approx(expected, rel=1e-6)
    assert [(h.instances, h.last_day) for h in horizon.case.held or ()] == [(1, date(2027, 2, 28))]
    ahead = review.ahead
    assert ahead is not None
    assert ahead.expected_cost_usd == pytest.approx(horizon.expected_cost_usd)
    assert [s.instances for s in ahead.sign_now] == [c.instances for c in horizon.signed_now]
    assert ahead.expected_cost_usd == pytest.approx(sum(s.probability_frac * s.cost_usd for s in ahead.scenarios))
    for text in in_every_format(review_document(review)):
        assert "the 2 quarters from 2026-12-01" in text
        assert "by the forecast" in text
    assert found.next_plan.case.future is None
    (signed, *_) = ahead.sign_now
    renewal = CommitmentAdvice(
        act="renew", offer=signed.offer, purchase="reserved-1y", instances=1, lapses="2027-01-15", usd_per_month=1.0,
        said="",
    )  # fmt: skip
    both = as_text(review_document(review.model_copy(update={"commitments": (renewal,)})))
    assert f"the replacement of 1 x {signed.offer} reserved-1y (until 2027-01-15) from the first day on" in both
    assert "the replacement of" not in as_text(review_document(review.model_copy(update={"commitments": ()})))


def test_a_review_outlives_a_time_limit_on_what_lies_ahead(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*given: object) -> None:
        raise OutOfTime(1.0, "working out ways to serve quarter 1 of 4", 10.0)

    monkeypatch.setattr("planner.review.ahead.plan_horizon", late)
    found = reviewed(folder, "next: {starts: 2026-12-01, horizon: 2 quarters}\n")
    assert "over the 2 quarters from 2026-12-01: no plan within the time limit" in as_text(
        review_document(found.review)
    )


def test_scenarios_alone_are_for_one_quarter_and_have_their_weights(folder: Path) -> None:
    weights = "next: {starts: 2026-12-01, scenarios: {from: forecast, weights: {p10: 20%, p50: 60%, p90: 20%}}}\n"
    found = reviewed(folder, weights)
    assert found.review.ahead is not None
    assert found.review.ahead.quarters == 1
    assert [s.probability_frac for s in found.review.ahead.scenarios] == [0.2, 0.6, 0.2]


def test_without_the_keys_a_review_is_as_it_was(folder: Path) -> None:
    found = reviewed(folder, "next: {starts: 2026-12-01}\n")
    assert (found.review.ahead, found.horizon_plan) == (None, None)
    assert "by the forecast" not in as_text(review_document(found.review))


@for_each(
    ("text", "message"),
    [
        (
            "next: {starts: 2026-12-02, horizon: 2}\n",
            "must begin with a month, but the next quarter begins on 2026-12-02",
        ),
        ("next: {horizon: 2, forecast: given, demand: demand.yaml}\n", "needs a forecast from the log"),
        ("next: {horizon: 20}\n", "must be 1 to 12 quarters"),
        ("next: {scenarios: {from: forecast, weights: {p10: 90%}}}\n", "add up to 160%"),
        ("next: {scenarios: [{name: a, probability: 100%}]}\n", "next.scenarios"),
        ("next: {starts: 2026-11-01, horizon: 2}\n", "goes on until 2026-11-30, after the next quarter begins"),
    ],
)
def test_mistakes_are_named(folder: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        reviewed(folder, text)
    assert message in str(error.value)
    assert all(d.line is not None for d in error.value.diagnostics)


def test_the_option_needs_the_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = review_file(folder, "next: {starts: 2026-12-01}\n")
    ran = Command(monkeypatch, capsys)("review", str(file), "--horizon-plan", str(folder / "h.json"))
    assert ran.code == 2
    assert "asks for no horizon" in ran.err
