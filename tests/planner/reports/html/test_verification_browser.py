"""The page of a plan that was served, in a real browser: nothing complains, nothing overlaps, everything fits."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from planner.reports.page import as_page
from planner.reports.verification import verification_document
from planner.verification.records import (
    DeploymentServed,
    Histogram,
    Percentiles,
    Promise,
    Slack,
    Verification,
    VerificationReport,
    WorkloadServed,
)
from tests.support.browser import (
    CHROMIUM,
    TWICE,
    WIDTHS,
    Page,
    figures_drawn,
    fits_on_paper,
    is_whole_and_quiet,
    links_lead_to_sections,
    names_are_text,
)
from tests.support.report_plans import HOSTILE
from tests.support.rows import for_each

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="NO BROWSER: install chromium (apt-get install chromium) to test how reports look"
)
HOURS = 24 * 7
Targets = tuple[tuple[str, float], ...]
FIRST_TOKEN: Targets = (("TTFT", 1.0),)
ALL_TARGETS: Targets = (*FIRST_TOKEN, ("TPOT", 0.05), ("E2E", 30.0))


def promise(what: str, target_s: float, within_frac: float) -> Promise:
    """Some hours above the target where it is missed, one without requests."""
    late = 1.0 if within_frac >= 0.95 else 1.6
    by_hour = [target_s * (0.3 + 0.6 * (hour % 24) / 24) * (late if hour % 24 > 18 else 1) for hour in range(HOURS)]
    return Promise(
        what=what,
        target_s=target_s,
        percentile=0.95,
        within_frac=within_frac,
        low_frac=within_frac - 0.01,
        high_frac=within_frac + 0.005,
        at_percentile_s=target_s * (1.9 - within_frac),
        bad_hours=sum(x > target_s for x in by_hour),
        worst_hour=23,
        worst_frac=within_frac - 0.05,
        at_percentile_by_hour_s=(None, *by_hour[1:]),
        worst_hour_within=tuple(None if m % 7 == 0 else within_frac - 0.1 * (m % 3 == 0) for m in range(60)),
        worst_hour_requests=tuple(0 if m % 7 == 0 else 120 + m for m in range(60)),
    )


def workload(name: str, within_frac: float, targets: Targets) -> WorkloadServed:
    return WorkloadServed(
        name=name, requests=1_750_000, served=1_600_000, api=149_000, shed=900, refused=60, unfinished=40,
        preempted_frac=0.012, found_frac=0.41, planned_found_frac=0.45,
        ttft=Percentiles(p50_s=0.21, p95_s=0.8, p99_s=1.9),
        tpot=Percentiles(p50_s=0.021, p95_s=0.04, p99_s=0.05), e2e=Percentiles(p50_s=4.0, p95_s=19.0, p99_s=44.0),
        ttft_histogram=Histogram(edges_s=(0.05, 0.1, 0.2, 0.4, 1.6), requests=(9_000, 700_000, 800_000, 91_000)),
        promises=tuple(promise(what, target_s, within_frac) for what, target_s in targets),
        all_within_frac=within_frac - 0.02,
    )  # fmt: skip


def run(load: float, within_frac: float, names: tuple[str, ...], targets: Targets = FIRST_TOKEN) -> Verification:
    deployment = "llama-3.3-70b/fp8/aws/p5.48xlarge@us-east-1/2"
    return Verification(
        plan=names[0], case_hash="sha256:0123456789abcdef", fleetplan_version="0.1.0", seed=1, router="least-requests",
        load=load, month=2, source="drawn from the plan's demand", requests=1_750_000 * len(names),
        workloads=tuple(workload(name, within_frac - 0.001 * k, targets) for k, name in enumerate(names)),
        deployments=tuple(
            DeploymentServed(
                pool=name, deployment=deployment, requests=1_600_000, mean_replicas=11.4, peak_replicas=28,
                utilization_frac=0.71, load_frac=0.66,
            )
            for name in names
        ),
        notes=("the KV cache was full in 3 hours", f"a note about {names[-1]}"),
    )  # fmt: skip


def reports() -> dict[str, VerificationReport]:
    slack = Slack(
        holds_to_load=1.12, holds_beyond=False, smallest_fleet_frac=0.91, spare_usd_per_month=12_345.6, days=2
    )
    kept = run(1.0, 0.981, ("chat",), ALL_TARGETS)
    loads = tuple(run(load, frac, ("chat-pro",)) for load, frac in ((1.0, 0.94), (1.1, 0.9), (1.3, 0.62)))
    return {
        "kept": VerificationReport(runs=(kept,), slack=slack),
        "missed": VerificationReport(runs=loads, slack=Slack(holds_beyond=False, days=2)),
        "hostile": VerificationReport(runs=(run(1.0, 0.93, HOSTILE),)),
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, found = tmp_path_factory.mktemp("pages"), {}
    for name, report in reports().items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(as_page(verification_document(report)), encoding="utf-8")
    return found


@for_each(
    ("name", "width", "dark"),
    [*product(("kept", "missed"), WIDTHS, (False, True)), *product(("hostile",), WIDTHS, (False,))],
)
def test_it_is_whole_and_quiet(name: str, width: int, dark: bool, page: Page, files: dict[str, Path]) -> None:
    is_whole_and_quiet(page, files[name], width, dark)
    assert page.js(TWICE) == 0
    kinds = {"week", "ttft", "worst"} | ({"attainment"} if name == "missed" else set())
    assert {id_.partition("-")[0] for id_ in figures_drawn(page)} == kinds


def test_the_answer_is_the_first_thing_on_it(page: Page, files: dict[str, Path]) -> None:
    for name, answer in (("kept", "Promises kept"), ("missed", "Promise missed")):
        page.open(files[name], 1400)
        assert page.js("document.querySelector('.big').textContent") == answer
        assert page.js("document.querySelector('.big').getBoundingClientRect().bottom") < 900


def test_it_fits_on_paper(page: Page, files: dict[str, Path]) -> None:
    fits_on_paper(page, files["missed"])


def test_names_do_nothing(page: Page, files: dict[str, Path]) -> None:
    page.open(files["hostile"], 1280)
    names_are_text(page, HOSTILE)


def test_links_lead_to_sections(page: Page, files: dict[str, Path]) -> None:
    links_lead_to_sections(page, files["missed"], 4)
