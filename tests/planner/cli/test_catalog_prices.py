"""`fleetplan catalog import` and `diff`: from price files to a plan and a review."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support import price_files as files
from tests.support.command_line import SMALL, Command
from tests.support.rows import for_each

QUARTER = Path(__file__).parents[3] / "examples" / "quarterly-review"
L40S = "aws/g6e.xlarge@us-east-1"


@pytest.fixture
def fleetplan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(monkeypatch, capsys)


def sky(price: str, *more: str) -> None:
    files.skypilot(Path("sky"), "aws", f"g6e.xlarge,L40S,1,{price},0.9,us-east-1,a", *more)


IMPORT = ("catalog", "import", "sky", "--from", "skypilot", "--date", "2026-11-01")


def test_imported_prices_are_planned_with_and_compared(fleetplan: Command) -> None:
    sky("1.5", "g6e.4xlarge,L40S,1,1.2,0.8,eu-north-1,a", "p3.2xlarge,V100,1,3,1,us-east-1,a")
    ran = fleetplan(*IMPORT, "--out", "prices.yaml")
    assert ran.code == 0, ran.err
    assert "2 offers of 1 provider in 2 regions, from 1 file; prices of 2026-11-01" in ran.out
    assert "against the shipped catalog: 1 new, 1 with changed prices, 0 unchanged" in ran.out
    assert "GPU not in the catalog (2 rows): V100" in ran.out
    assert "wrote prices.yaml" in ran.err

    Path("demand.yaml").write_text(
        "catalog: prices.yaml\n" + SMALL.replace("menu: {", "menu: {regions: [us-east-1, eu-north-1], "),
        encoding="utf-8",
    )
    planned = fleetplan("plan", "demand.yaml", "--format", "json")
    assert planned.code == 0, planned.err
    offers = json.loads(planned.out)["case"]["offers"]
    assert offers["aws/g6e.4xlarge@eu-north-1"]["prices"]["on_demand"]["usd_per_h"] == 1.2
    on_demand = offers[L40S]["prices"]["on_demand"]
    assert (on_demand["usd_per_h"], on_demand["date"]) == (1.5, "2026-11-01")

    compared = json.loads(fleetplan("catalog", "diff", "shipped", "prices.yaml", "--format", "json").out)
    assert compared["new"] == ["aws/g6e.4xlarge@eu-north-1"] and compared["gone"] == []
    changed = {(c["offer"], c["way"]): c for c in compared["changed"]}
    assert changed[L40S, "on-demand"]["after_usd_per_h"] == 1.5
    back = fleetplan("catalog", "diff", "prices.yaml", "prices.yaml")
    assert back.out == "against prices.yaml: 0 new, 0 with changed prices, 2 unchanged\n"


def test_prices_are_dated_by_what_says_their_day_and_never_by_the_age_of_the_file(fleetplan: Command) -> None:
    """A clone or a copy is always of today, whatever its prices are of."""
    without = IMPORT[:-2]
    sky("1.5")
    ran = fleetplan(*without, "--out", "prices.yaml")
    assert "prices of unknown date" in ran.out and "count as stale: give the day with --as-of" in ran.err
    written = yaml.safe_load(Path("prices.yaml").read_text())["offers"][L40S]
    assert {p["date"] for p in (written, *written["prices"].values())} == {"unknown"}
    as_of = fleetplan(*without, "--as-of", "2026-11-01")
    assert as_of.out == fleetplan(*IMPORT).out and "prices of 2026-11-01" in as_of.out and "stale" not in as_of.err

    Path("demand.yaml").write_text(f"catalog: prices.yaml\n{SMALL}", encoding="utf-8")
    assert fleetplan("plan", "demand.yaml", "--out", "plan.json", "--html", "plan.html").code == 0
    report = fleetplan("report", "plan.json", "--format", "table", "--verbose").out
    assert f"stale prices; ask for today's before you sign: {L40S} (of unknown date)" in report
    assert ", some of unknown date" in report
    assert "stale: </span>of unknown date</td>" in Path("plan.html").read_text()
    Path("policy.yaml").write_text("max_price_age: 10000d\n", encoding="utf-8")
    checked = fleetplan("check", "plan.json", "--policy", "policy.yaml")
    assert checked.code == 5 and f"of unknown date: {L40S}" in checked.out


def test_a_jump_is_written_only_when_it_is_accepted(fleetplan: Command) -> None:
    sky("6")
    Path("prices.yaml").write_text("as it was\n", encoding="utf-8")
    ran = fleetplan(*IMPORT, "--no-spot", "--out", "prices.yaml")
    assert ran.code == 2
    assert f"{L40S}: on-demand goes from 1.861 to 6 $/h (+222%); nothing was written" in ran.err
    assert "JUMP" in ran.out and Path("prices.yaml").read_text() == "as it was\n"
    assert fleetplan(*IMPORT, "--no-spot", "--accept", "--out", "prices.yaml").code == 0
    written = yaml.safe_load(Path("prices.yaml").read_text())["offers"][L40S]["prices"]
    assert written["on_demand"]["usd_per_h"] == 6 and "spot" not in written
    # Against what was accepted, the same price is no jump.
    sky("6.1")
    again = fleetplan(*IMPORT, "--no-spot", "--against", "prices.yaml", "--out", "newer.yaml")
    assert again.code == 0 and "against prices.yaml: 0 new, 1 with changed prices" in again.out


def test_without_out_nothing_is_written(fleetplan: Command) -> None:
    sky("6")
    ran = fleetplan(*IMPORT, "--format", "json")
    assert ran.code == 0 and "nothing was written" in ran.err
    assert {c["way"] for c in json.loads(ran.out)["changed"] if c["jump"]} >= {"on-demand"}
    assert [p.name for p in Path.cwd().iterdir()] == ["sky"]


def test_regions_and_gpus_narrow_an_import(fleetplan: Command) -> None:
    sky("1.8", "g6e.xlarge,L40S,1,2,,eu-north-1,a", "p5.48xlarge,H100,8,55.04,,us-east-1,a")
    ran = fleetplan(*IMPORT, "--regions", "us-east-1", "--gpus", "L40S", "--out", "prices.yaml")
    assert ran.code == 0 and list(yaml.safe_load(Path("prices.yaml").read_text())["offers"]) == [L40S]


@for_each(
    ("arguments", "message"),
    [
        (("catalog", "import"), "PATH"),
        (("catalog", "import", "sky"), "--from"),
        ((*IMPORT, "--gpus", "l40z"), "--gpus: there is no GPU 'l40z'. Did you mean"),
        ((*IMPORT[:-1], "yesterday"), "--as-of: expected a date, got 'yesterday'"),
        ((*IMPORT, "--out", "sky/aws/vms.csv"), "would overwrite the input"),
        ((*IMPORT, "--against", "none.yaml"), "none.yaml: there is no such file"),
        (("catalog", "diff", "shipped"), "B"),
        (("catalog", "diff", "shipped", "none.yaml"), "none.yaml: there is no such file"),
    ],
)
def test_mistakes_of_the_command_line(fleetplan: Command, arguments: tuple[str, ...], message: str) -> None:
    sky("1.8")
    ran = fleetplan(*arguments)
    assert ran.code == 2 and message in ran.err


RATED = ("catalog", "import", "page.json", "--from", "azure-retail")


def test_a_rate_converts_prices_and_says_so(fleetplan: Command) -> None:
    files.azure_page(Path("page.json"), files.azure_item("Standard_ND96isr_H100_v5", 90.0, currencyCode="EUR"))
    assert "or give a --rate" in fleetplan(*RATED).err
    ran = fleetplan(*RATED, "--rate", "EUR=1.1@2026-10-31", "--accept", "--out", "prices.yaml")
    assert ran.code == 0, ran.err
    (offer,) = yaml.safe_load(Path("prices.yaml").read_text())["offers"].values()
    assert offer["prices"]["on_demand"]["usd_per_h"] == pytest.approx(99.0)
    assert "EUR at 1.1 USD on 2026-10-31" in offer["prices"]["on_demand"]["source"]


@for_each(
    ("rates", "message"),
    [
        (
            ("EUR=1.1",),
            "--rate: expected a currency, its rate in USD and the day, got 'EUR=1.1'. Write one such as EUR",
        ),
        (("EURO=1.1@2026-10-31",), "--rate: no currency has the code 'EURO'. Did you mean 'EUR'?"),
        (("EUR=0@2026-10-31",), "--rate: must be more than 0, got '0'"),
        (("EUR=-1@2026-10-31",), "--rate: cannot be negative, got '-1'"),
        (("EUR=nan@2026-10-31",), "--rate: expected a number, got 'nan'"),
        (("EUR=1.1@soon",), "--rate: expected a date, got 'soon'"),
        (("EUR=1.1@2026-10-31", "EUR=1.2@2026-10-31"), "--rate: EUR has two rates. Keep one of them"),
    ],
)
def test_rates_that_cannot_be_are_refused(fleetplan: Command, rates: tuple[str, ...], message: str) -> None:
    files.azure_page(Path("page.json"), files.azure_item("Standard_ND96isr_H100_v5", 90.0))
    ran = fleetplan(*RATED, *(word for rate in rates for word in ("--rate", rate)))
    assert ran.code == 2 and message in ran.err


def test_the_next_plan_of_a_review_takes_imported_prices(fleetplan: Command, tmp_path: Path) -> None:
    from planner.review.review_file import read_review

    sky("1.6")
    assert fleetplan(*IMPORT, "--out", "prices.yaml").code == 0
    review = yaml.safe_load((QUARTER / "REVIEW.yaml").read_text())
    review["next"] = {"catalog": str(tmp_path / "prices.yaml")}
    for key in ("last_plan", "usage", "bill", "history"):
        review[key] = str(QUARTER / review[key])
    Path("REVIEW.yaml").write_text(yaml.safe_dump(review), encoding="utf-8")
    inputs = read_review("REVIEW.yaml")
    on_demand = inputs.next_case.offers[L40S].prices.on_demand
    assert on_demand is not None and on_demand.usd_per_h == 1.6
    others = {key: o for key, o in inputs.next_case.offers.items() if key != L40S}
    assert others == {key: o for key, o in inputs.last.case.offers.items() if key != L40S}
