"""The page of a review in a real browser: nothing complains, nothing is fetched, everything fits its window."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.reports.page import as_page
from planner.reports.review import review_document
from planner.review.bills.records import BillReview
from planner.review.quarter import review_fleet
from planner.review.records import Review, TrendPoint
from planner.review.review_file import read_review
from tests.support.browser import (
    CHROMIUM,
    WIDTHS,
    Page,
    figures_drawn,
    fits_on_paper,
    is_whole_and_quiet,
    links_lead_to_sections,
    names_are_text,
)
from tests.support.places import ROOT
from tests.support.report_plans import HOSTILE
from tests.support.rows import for_each

EXAMPLE = ROOT / "examples" / "quarterly-review"
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="NO BROWSER: install chromium (apt-get install chromium) to test how reports look"
)


def renamed(review: Review) -> Review:
    """Hostile names wherever a user can put one, a workload that is not in the plan, and ten past reviews."""
    bad = iter(HOSTILE * 4)
    workloads = tuple(w.model_copy(update={"name": next(bad)}) for w in review.workloads)
    names = {old.name: new.name for old, new in zip(review.workloads, workloads, strict=True)}
    unknown = workloads[0].model_copy(
        update={"name": HOSTILE[4], "planned_requests_per_month": None, "off_frac": None, "planned_by_hour_rps": ()}
    )
    point = review.trend[-1]
    past: tuple[TrendPoint, ...] = tuple(point.model_copy(update={"name": HOSTILE[k % 6]}) for k in range(10))
    return review.model_copy(
        update={
            "name": HOSTILE[0],
            "verdict": f"The quarter did not go as planned: {' '.join(HOSTILE)}.",
            "workloads": (*workloads, unknown),
            "forecasts": tuple(f.model_copy(update={"name": names[f.name]}) for f in review.forecasts),
            "findings": tuple(f.model_copy(update={"workload": HOSTILE[3]}) for f in review.findings),
            "decisions": tuple(
                d.model_copy(update={"about": HOSTILE[1], "text": HOSTILE[2]}) for d in review.decisions
            ),
            "capacity": tuple(c.model_copy(update={"workloads": HOSTILE}) for c in review.capacity),
            "trend": past,
            "bill": hostile_bill(review.bill),
        }
    )


def hostile_bill(bill: BillReview | None) -> BillReview:
    """Hostile names wherever somebody else's bill can put one."""
    assert bill is not None
    bad = iter(HOSTILE * 4)
    return bill.model_copy(
        update={
            "files": (next(bad),),
            "team_tag": next(bad),
            "teams": tuple(t.model_copy(update={"team": next(bad)}) for t in bill.teams),
            "commitments": tuple(
                c.model_copy(update={"name": next(bad), "type": next(bad), "used_for": HOSTILE})
                for c in bill.commitments
            ),
            "no_offer": tuple(x.model_copy(update={"what": next(bad)}) for x in bill.no_offer),
            "other_services": tuple(x.model_copy(update={"service": next(bad)}) for x in bill.other_services),
            "other_currencies": tuple(x.model_copy(update={"currency": next(bad)}) for x in bill.other_currencies),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    review = review_fleet(read_review(EXAMPLE / "REVIEW.yaml")).review
    folder, found = tmp_path_factory.mktemp("pages"), {}
    for name, shown in (("example", review), ("hostile", renamed(review))):
        found[name] = folder / f"{name}.html"
        found[name].write_text(as_page(review_document(shown)), encoding="utf-8")
    return found


@for_each("dark", [False, True])
@for_each("width", WIDTHS)
@for_each("name", ["example", "hostile"])
def test_it_is_whole_and_quiet(name: str, width: int, dark: bool, page: Page, files: dict[str, Path]) -> None:
    is_whole_and_quiet(page, files[name], width, dark)
    assert figures_drawn(page) == {"by-hour", "bridge", "next-demand", "trend", "paid", "showback"}


def test_it_fits_on_paper(page: Page, files: dict[str, Path]) -> None:
    fits_on_paper(page, files["example"])


def test_names_do_nothing(page: Page, files: dict[str, Path]) -> None:
    page.open(files["hostile"], 1280)
    names_are_text(page, HOSTILE)


def test_links_lead_to_sections(page: Page, files: dict[str, Path]) -> None:
    links_lead_to_sections(page, files["example"], 5)
