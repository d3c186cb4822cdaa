"""Reviews of whole quarters: as planned says so, the bridge adds up, commitments are counted, names do nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import openpyxl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.case.demand.usage import Hours
from planner.io.errors import InputError
from planner.plan.plan import Plan
from planner.reports.csv import table_csv
from planner.reports.markdown import as_markdown
from planner.reports.page import as_page
from planner.reports.review import review_document
from planner.reports.tables.review import NAMES, review_tables
from planner.reports.text import as_text
from planner.reports.xlsx import as_workbook
from planner.review.actuals import Actuals, with_actual_demand
from planner.review.bridge import bridge
from planner.review.quarter import Reviewed, review_fleet
from planner.review.records import Review
from planner.review.review_file import read_review
from solvers.search.fleet_solution import Options
from tests.support.bill_data import as_focus, example_bill
from tests.support.command_line import SCRIPT, Command, no_control_characters
from tests.support.lever_plans import lever_plan
from tests.support.markdown_pages import only_our_tags
from tests.support.patience import PATIENCE_S
from tests.support.places import ROOT
from tests.support.report_plans import hostile_plan
from tests.support.review_data import MONDAY, Row, as_csv, earlier_review, example_log, planned_rows
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan
from tests.support.shown import in_every_format

EXAMPLE = ROOT / "examples" / "quarterly-review"
GPU = "aws/g6e.xlarge@us-east-1"
GROWING = """\
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 900k, growth_per_month: 8%}
    tokens: {input: 900, output: 150}
    quality: {max_loss: 2%}
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand, reserved-1y]}
baseline: openai/gpt-4o-mini
"""
TWENTY = (
    "workloads:\n"
    + "".join(
        f"""\
  - name: w{k:02d}
    models: [llama-3.1-8b]
    forecast: {{requests_per_day: {60 + 35 * k}k, shape: {"consumer" if k % 2 else "business-hours"}}}
    tokens: {{input: {400 + 100 * k}, output: 100}}
"""
        for k in range(20)
    )
    + """\
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand], max_deployments: 1}
policy: {max_gpus: {l40s: 0}}
baseline: openai/gpt-4o-mini
"""
)
"""all of it bought from an API, which is quickly planned"""


@pytest.fixture
def fleetplan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


@pytest.fixture(scope="module")
def last() -> Plan:
    return planner.read_plan(EXAMPLE / "last-plan.json")


@pytest.fixture(scope="module")
def example() -> Reviewed:
    return review_fleet(read_review(EXAMPLE / "REVIEW.yaml"))


def reviewed(folder: Path, plan: Plan, log: str, more: str = "", options: Options | None = None) -> Reviewed:
    (folder / "plan.json").write_text(plan.to_json())
    (folder / "usage.csv").write_text(log)
    text = f"name: q\nlast_plan: plan.json\nusage: usage.csv\n{more}"
    (folder / "REVIEW.yaml").write_text(text)
    return review_fleet(read_review(folder / "REVIEW.yaml"), options)


# -- as planned -----------------------------------------------------------------------------------------------


def test_a_quarter_as_planned_says_so(tmp_path: Path, last: Plan) -> None:
    more = f"bill_usd_per_month: {last.cost_usd_per_month:.2f}\n"
    more += "committed: []\n"
    found = reviewed(tmp_path, last, as_csv(planned_rows(last.case, 91)), more)
    review = found.review
    assert review.as_planned
    assert review.verdict == "The quarter went as planned."
    assert review.findings == ()
    assert review.hindsight is not None
    assert review.hindsight.cost_usd_per_month == last.cost_usd_per_month
    assert not review.hindsight.told_apart
    assert found.next_plan.case_hash == last.case_hash
    b = review.bridge
    assert (b.volume_usd_per_month, b.mix_usd_per_month, b.price_usd_per_month, b.efficiency_usd_per_month) == (0,) * 4
    assert review.decisions[0].text == "keep the last plan: none of its inputs has changed"
    assert all(c.hours_over_per_month == 0 and c.used_frac == pytest.approx(c.planned_frac) for c in review.capacity)
    for text in in_every_format(review_document(review)):
        assert "The quarter went as planned." in text


def test_growth_as_planned_is_as_planned(tmp_path: Path) -> None:
    plan = fleet_plan(planner.case_from_text(GROWING))
    log = as_csv(planned_rows(plan.case, 91, factor=lambda w, hour: 1.08 ** (hour // 730)))
    found = reviewed(tmp_path, plan, log)
    assert found.review.as_planned
    assert found.review.workloads[0].off_frac == pytest.approx(0, abs=1e-3)
    assert found.review.actual.cost_usd_per_month == pytest.approx(plan.cost_usd_per_month, rel=1e-3)
    # It goes on from where it is now, not from where it was.
    assert found.next_plan.tokens_per_month > 1.05 * plan.tokens_per_month


@pytest.mark.parametrize("name", ["together", "waiting"])
def test_every_lever_as_planned_is_as_planned(tmp_path: Path, name: str) -> None:
    plan = lever_plan(name)
    review = reviewed(tmp_path, plan, as_csv(planned_rows(plan.case, 28))).review
    assert review.as_planned
    assert review.findings == ()
    assert review.actual.tokens_per_month == pytest.approx(plan.tokens_per_month, rel=2e-3)
    assert review.actual.cost_usd_per_month == pytest.approx(plan.cost_usd_per_month, rel=2e-3)
    assert all(c.used_frac == pytest.approx(c.planned_frac, rel=2e-3) for c in review.capacity)


@pytest.mark.parametrize("hours", [24, 200])
def test_a_short_log_is_enough(tmp_path: Path, last: Plan, hours: int) -> None:
    review = reviewed(tmp_path, last, as_csv(planned_rows(last.case, 9)[: 2 * hours])).review
    assert all(f.tried_weeks == 0 and f.p90_requests_per_month is None for f in review.forecasts)
    assert all(f.p50_requests_per_month > 0 for f in review.forecasts)
    assert sum("too short" in r.text for r in review.risks) == 2


@pytest.mark.parametrize(("factor", "off"), [(1.3, 0.3), (0.6, -0.4)])
def test_what_is_off_is_said(tmp_path: Path, last: Plan, factor: float, off: float) -> None:
    log = as_csv(planned_rows(last.case, 28, factor=lambda w, hour: factor))
    found = reviewed(tmp_path, last, log, "", Options(gap_frac=0.01))
    review = found.review
    assert not review.as_planned
    assert all(w.off_frac == pytest.approx(off, abs=0.01) for w in review.workloads)
    assert review.hindsight is not None
    dearer = review.hindsight.cost_usd_per_month - last.cost_usd_per_month
    assert dearer * off > 0
    assert review.actual.tokens_per_month == pytest.approx(factor * last.tokens_per_month, rel=1e-3)
    assert "no bill was given" in as_text(review_document(review))
    assert [c.used_frac / c.planned_frac for c in review.capacity] == pytest.approx([factor] * 2, rel=1e-3)


def test_longer_requests_make_every_bucket_longer(last: Plan) -> None:
    chat = last.case.workloads[0]
    hours = Hours(chat.weekday_rps, chat.weekend_rps, None, ())
    read, written = (
        sum(b.share_frac * getattr(b, key) for b in chat.buckets) for key in ("input_tokens", "output_tokens")
    )
    longer = with_actual_demand(chat, Actuals(hours, 2 * read, 0.5 * written))
    assert [b.input_tokens for b in longer.buckets] == pytest.approx([2 * b.input_tokens for b in chat.buckets])
    assert [b.output_tokens for b in longer.buckets] == pytest.approx([b.output_tokens / 2 for b in chat.buckets])
    assert longer.ttft_prompt_tokens == pytest.approx(2 * chat.ttft_prompt_tokens)
    assert with_actual_demand(chat, Actuals(hours, 1.009 * read, None)) is chat


def test_hours_beyond_the_planned_capacity_are_counted(tmp_path: Path, last: Plan) -> None:
    log = as_csv(planned_rows(last.case, 28, factor=lambda w, hour: 2.6))
    review = reviewed(tmp_path, last, log, "", Options(gap_frac=0.02)).review
    assert all(c.hours_over_per_month > 0 and c.worst_hour_frac > 1 for c in review.capacity)
    assert sum("exceeded the SLO safety margin" in r.text for r in review.risks) == len(review.capacity)


# -- odd logs are never planned as no demand ------------------------------------------------------------------


def test_a_year_of_twenty_workloads_with_gaps_a_launch_and_an_outage_needs_no_cleaning(tmp_path: Path) -> None:
    """What is left of a year as planned is as planned, and so is the next quarter: no gap was taken for no demand."""
    plan = fleet_plan(planner.case_from_text(TWENTY), Options(gap_frac=0.01))
    launch = 5000
    rows: list[Row] = []
    for k, row in enumerate(planned_rows(plan.case, 365)):
        hour, zeros = k // 20, (*row[:2], 0, 0, 0)
        if row[0] == "w03" and hour < launch:
            continue
        if 3000 <= hour < 3006 or (row[0] == "w05" and 8000 <= hour < 8050):
            continue
        if row[0] == "w07" and 8300 <= hour < 8320:
            row = zeros
        if row[0] == "w09" and hour in (6000, 8500):
            row = (*row[:2], *(12 * n for n in row[2:]))  # type: ignore[assignment]
        rows += [row] * (2 if row[0] == "w11" and hour == 8100 else 1)
    found = reviewed(tmp_path, plan, as_csv(rows))
    kinds = {(f.workload, f.kind, f.count) for f in found.review.findings}
    everywhere = {(f"w{k:02d}", "gap", 6) for k in range(20) if k not in (3, 5)}
    assert kinds - everywhere == {
        ("w03", "launch", launch),
        ("w05", "gap", 56),
        ("w07", "outage", 20),
        ("w09", "outlier", 2),
        ("(all)", "repeated", 1),
    }
    assert everywhere <= kinds
    assert found.review.period.hours == 13 * 168
    assert found.review.as_planned
    assert found.next_plan.case_hash == plan.case_hash
    assert all(f.p50_requests_per_month > 0 for f in found.review.forecasts)
    text = as_text(review_document(found.review))
    assert "w00, w01, w02 and 15 more" in text


def test_a_workload_that_stopped_is_planned_as_it_was_and_asked_about(tmp_path: Path, last: Plan) -> None:
    rows = [r for k, r in enumerate(planned_rows(last.case, 42)) if r[0] != "summaries" or k // 2 < 28 * 24]
    found = reviewed(tmp_path, last, as_csv(rows))
    forecast = next(f for f in found.review.forecasts if f.name == "summaries")
    assert forecast.p50_requests_per_month == pytest.approx(4.56e6, rel=0.01)
    assert any(d.about == "summaries" and "no requests at the end of the log" in d.text for d in found.review.decisions)


def test_workloads_that_only_one_side_knows_are_named(tmp_path: Path, last: Plan) -> None:
    rows = [(name if name != "summaries" else "new-thing", *rest) for name, *rest in planned_rows(last.case, 28)]
    review = reviewed(tmp_path, last, as_csv(rows)).review  # type: ignore[arg-type]
    assert {w.name: w.off_frac is None for w in review.workloads} == {
        "support-chat": False, "summaries": True, "new-thing": True
    }  # fmt: skip
    asked = {d.about: d.text for d in review.decisions}
    assert "not in the demand file" in asked["new-thing"]
    assert "not in the log" in asked["summaries"]
    # It is still planned: that nothing was written down does not mean that nothing comes.
    forecast = next(f for f in review.forecasts if f.name == "summaries")
    assert (forecast.source, forecast.p50_requests_per_month) == (
        "given in the demand, not in the log", pytest.approx(4.56e6, rel=0.01)
    )  # fmt: skip


# -- the next plan --------------------------------------------------------------------------------------------


def test_a_demand_file_gives_the_next_forecast(tmp_path: Path, last: Plan) -> None:
    text = (EXAMPLE / "demand.yaml").read_text().replace("1.5M", "2M")
    (tmp_path / "next.yaml").write_text(text)
    log = as_csv(planned_rows(last.case, 28))
    given = reviewed(tmp_path, last, log, "committed: []\nnext: {demand: next.yaml, forecast: given}\n")
    assert given.next_plan.case_hash == planner.load_case(tmp_path / "next.yaml").hash()
    from_log = reviewed(tmp_path, last, log, "next: {demand: next.yaml}\n")
    assert from_log.next_plan.tokens_per_month == pytest.approx(last.tokens_per_month, rel=2e-3)


def test_p90_is_above_p50_and_costs_as_much_or_more(example: Reviewed) -> None:
    review = example.review
    for f in review.forecasts:
        assert f.p10_requests_per_month is not None
        assert f.p90_requests_per_month is not None
        assert f.p10_requests_per_month <= f.p50_requests_per_month <= f.p90_requests_per_month
    assert review.next.p90_cost_usd_per_month is not None
    assert review.next.p90_cost_usd_per_month >= 0.999 * review.next.figures.cost_usd_per_month


# -- the bridge -----------------------------------------------------------------------------------------------


def cents(usd: float) -> int:
    assert abs(100 * usd - round(100 * usd)) < 1e-6 * max(1.0, abs(usd))
    return round(100 * usd)


def adds_up(before: Plan, after: Plan) -> bool:
    b = bridge(before, after)
    parts = (b.volume_usd_per_month, b.mix_usd_per_month, b.price_usd_per_month, b.efficiency_usd_per_month)
    assert cents(b.from_usd_per_month) == round(100 * before.total_usd_per_month)
    assert cents(b.to_usd_per_month) == round(100 * after.total_usd_per_month)
    return cents(b.from_usd_per_month) + sum(map(cents, parts)) == cents(b.to_usd_per_month)


amounts = st.floats(0.01, 1e7)


@settings(max_examples=60, deadline=None)
@given(costs=st.lists(amounts, min_size=2, max_size=2), tokens=st.lists(amounts, min_size=2, max_size=2),
       price=st.floats(0.2, 5), renamed=st.booleans())  # fmt: skip
def test_the_bridge_adds_up(costs: list[float], tokens: list[float], price: float, renamed: bool) -> None:
    before = lever_plan("together")
    workloads = tuple(
        w.model_copy(
            update={
                "name": f"new {w.name}" if renamed else w.name,
                "cost_usd_per_month": c,
                "tokens_per_month": 1e3 * t,
            }
        )
        for w, c, t in zip(before.workloads, costs, tokens, strict=True)
    )
    offers = {
        key: o.model_copy(
            update={"prices": o.prices.model_copy(
                update={"on_demand": o.prices.on_demand.model_copy(
                    update={"usd_per_h": price * o.prices.on_demand.usd_per_h})})}  # type: ignore[union-attr]
        )
        for key, o in before.case.offers.items()
    }  # fmt: skip
    after = before.model_copy(
        update={
            "cost_usd_per_month": sum(costs),
            "tokens_per_month": 1e3 * sum(tokens),
            "workloads": workloads,
            "case": before.case.model_copy(update={"offers": offers}),
        }
    )
    assert adds_up(before, after)
    assert adds_up(before, before)


def test_the_parts_of_the_bridge_are_what_they_say(last: Plan) -> None:
    def changed(tokens: tuple[float, float]) -> Plan:
        told = tuple(
            w.model_copy(
                update={"tokens_per_month": n * w.tokens_per_month, "cost_usd_per_month": n * w.cost_usd_per_month}
            )
            for w, n in zip(last.workloads, tokens, strict=True)
        )
        cost, count = sum(w.cost_usd_per_month for w in told), sum(w.tokens_per_month for w in told)
        return last.model_copy(update={"workloads": told, "cost_usd_per_month": cost, "tokens_per_month": count})

    more = bridge(last, changed((1.5, 1.5)))
    assert more.volume_usd_per_month == pytest.approx(0.5 * last.cost_usd_per_month, abs=0.01)
    assert more.mix_usd_per_month == pytest.approx(0, abs=0.02)
    shifted = bridge(last, changed((0.5, 2.0)))
    total = shifted.to_usd_per_month - shifted.from_usd_per_month
    assert shifted.volume_usd_per_month + shifted.mix_usd_per_month == pytest.approx(total, abs=0.02)
    assert shifted.mix_usd_per_month > 0  # a token of the summaries is the dearer one
    assert (shifted.price_usd_per_month, abs(shifted.efficiency_usd_per_month)) == (0, pytest.approx(0, abs=0.02))


def test_the_bridge_of_real_plans_adds_up(example: Reviewed, last: Plan) -> None:
    assert adds_up(last, example.next_plan)
    assert example.review.bridge.price_usd_per_month < 0


# -- the file, the command, and what it writes ----------------------------------------------------------------


def test_the_example_is_what_refresh_writes(last: Plan) -> None:
    assert (EXAMPLE / "usage.csv").read_text() == example_log(last.case)
    assert (EXAMPLE / "last-plan.json").read_text() == planner.plan_fleet(
        planner.load_case(EXAMPLE / "demand.yaml")
    ).to_json()
    assert (EXAMPLE / "reviews" / "2026-Q2.json").read_text() == earlier_review(EXAMPLE)
    assert (EXAMPLE / "bill.csv").read_text() == as_focus(example_bill(last))


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path, example: Reviewed, fleetplan: Command) -> None:
    written = [tmp_path / name for name in ("r.json", "r.html", "r.md", "p.json")]
    done = fleetplan("review", EXAMPLE / "REVIEW.yaml", "--out", written[0], "--html", written[1],
                     "--markdown", written[2], "--plan", written[3], "--xlsx", tmp_path / "r.xlsx", "-q")  # fmt: skip
    assert (done.code, done.err) == (0, "")
    review = example.review
    assert (tmp_path / "r.xlsx").read_bytes() == as_workbook(review_document(review))
    sheets = openpyxl.load_workbook(tmp_path / "r.xlsx").sheetnames
    assert sheets == ["about", *(table.name for table in review_tables(review))]
    assert done.out == as_text(review_document(review))
    expected = (
        review.to_json(),
        as_page(review_document(review)),
        as_markdown(review_document(review)),
        example.next_plan.to_json(),
    )
    assert tuple(file.read_text() for file in written) == expected
    assert Review.model_validate_json(review.to_json()) == review
    assert planner.read_plan(written[3]) == example.next_plan


@pytest.mark.process
def test_the_command_of_its_readme_runs_and_changes_nothing_when_run_again(tmp_path: Path, example: Reviewed) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(EXAMPLE, folder)
    (block,) = re.findall(r"^```sh\n(.*?)^```", (EXAMPLE / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    path = f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}"
    written = []
    for _ in range(2):
        subprocess.run(
            ["sh", "-ec", block], cwd=folder, env=os.environ | {"PATH": path}, check=True, timeout=PATIENCE_S
        )
        written.append({file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()})
    assert written[0] == written[1]
    made = {str(file) for file in written[0]} - {str(f.relative_to(EXAMPLE)) for f in EXAMPLE.rglob("*")}
    assert made == {"review.html", "review.md", "reviews/2026-Q3.json", "next-plan.json"}
    assert (folder / "reviews" / "2026-Q3.json").read_text() == example.review.to_json()


def test_the_folders_that_a_review_is_written_to_are_made(
    tmp_path: Path, example: Reviewed, fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.review.quarter.review_fleet", lambda *_: example)
    out, page = tmp_path / "new" / "2026" / "q3.json", tmp_path / "pages" / "q3.html"
    assert fleetplan("review", EXAMPLE / "REVIEW.yaml", "--quiet", "--out", out, "--html", page).code == 0
    assert out.read_text(encoding="utf-8") == example.review.to_json()
    assert page.exists()
    ran = fleetplan("review", EXAMPLE / "REVIEW.yaml", "--out", out / "x.json")
    assert ran.code == 2 and "cannot be created" in ran.err


def test_the_workflow_installs_what_there_is() -> None:
    """No package index has fleetplan: a workflow installs a checkout."""
    workflow = yaml.safe_load((EXAMPLE / "quarterly-review.yml").read_text())
    steps = workflow["jobs"]["review"]["steps"]
    (install,) = (step["run"] for step in steps if "pip install" in step.get("run", ""))
    checkouts = [step["with"]["path"] for step in steps if step.get("with", {}).get("repository")]
    assert install == f'pip install "$GITHUB_WORKSPACE/{checkouts[0]}"'


def test_the_workflow_and_the_cron_line_use_options_that_exist(fleetplan: Command) -> None:
    workflow = yaml.safe_load((EXAMPLE / "quarterly-review.yml").read_text())
    assert workflow["jobs"]["review"]["steps"]
    commands = [step.get("run", "") for step in workflow["jobs"]["review"]["steps"]]
    commands.append((EXAMPLE / "README.md").read_text())
    used = {
        o
        for text in commands
        for line in re.findall(r"fleetplan review [^>#]*", text)
        for o in re.findall(r"--\w+", line)
    }
    assert used >= {"--quiet", "--html", "--out"}
    shown = fleetplan("review", "--help").out
    assert [option for option in sorted(used) if option not in shown] == []


def test_the_formats_on_stdout(example: Reviewed, fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.review.quarter.review_fleet", lambda *_: example)
    assert fleetplan("review", EXAMPLE / "REVIEW.yaml", "--format", "json").out == example.review.to_json()
    assert fleetplan("review", EXAMPLE / "REVIEW.yaml", "--format", "md").out == as_markdown(
        review_document(example.review)
    )


def test_its_tables_as_csv(
    tmp_path: Path, example: Reviewed, fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.review.quarter.review_fleet", lambda *_: example)
    ran = fleetplan("review", EXAMPLE / "REVIEW.yaml", "--csv", tmp_path / "tables")
    written = {file.stem: file.read_text() for file in (tmp_path / "tables").iterdir()}
    assert ran.code == 0 and f"wrote {len(written)} tables into" in ran.err
    assert written.keys() <= set(NAMES)
    assert written == {table.name: table_csv(table) for table in review_tables(example.review)}
    assert written["charges"].splitlines()[0] == "kind,what,rows,billed_usd,effective_usd,counted"


def test_past_reviews_make_a_trend_that_stays_the_same(tmp_path: Path, last: Plan, example: Reviewed) -> None:
    folder = tmp_path / "reviews"
    folder.mkdir()
    earlier = (EXAMPLE / "reviews" / "2026-Q2.json").read_text()
    (folder / "a.json").write_text(earlier)
    (folder / "this.json").write_text(earlier.replace('"2026-Q2"', '"q"', 1))
    (folder / "later.json").write_text(example.review.to_json().replace('"last_hour": "2026', '"last_hour": "2036'))
    review = reviewed(tmp_path, last, as_csv(planned_rows(last.case, 28)), "history: reviews\n").review
    assert [p.name for p in review.trend] == ["2026-Q2", "q"]
    (folder / "b.json").write_text("{}")
    with pytest.raises(InputError, match=r"b\.json: name: not a review"):
        reviewed(tmp_path, last, as_csv(planned_rows(last.case, 28)), "history: reviews\n")


@for_each(
    ("more", "said"),
    [
        ("last_plam: x\n", "REVIEW.yaml:4:1: unknown key 'last_plam'. Did you mean 'last_plan'?"),
        ("period: {first_day: 2026-09-10, last_day: 2026-09-01}\n", "REVIEW.yaml:4.*is before 'first_day'"),
        ("period: {first_day: 2020-01-01, last_day: 2020-02-01}\n", "has 0 hours of the period"),
        ("next: {forecast: given}\n", "there is no demand file. Write demand: demand.yaml"),
        ("next: {demand: nowhere.yaml}\n", "REVIEW.yaml:4:.*next.demand: 'nowhere.yaml': .*no such file"),
        ("next: {prices: {aws/g6e.xlarg: {on_demand: $1/h}}}\n", "REVIEW.yaml:4.*Did you mean 'aws/g6e.xlarge'"),
        (
            "committed: [{offer: aws/p5, purchase: reserved-1y, instances: 1, lapses: 2027-01-01}]\n",
            "no instance on the",
        ),
        (f"committed: [{{offer: {GPU}, purchase: spot, instances: 1, lapses: 2027-01-01}}]\n", "is not a commitment"),
        (f"committed: [{{offer: {GPU}, purchase: reserved-1y, instances: 1, lapses: soon}}]\n", "a date such as"),
        ("history: nowhere\n", "REVIEW.yaml:4.*'nowhere' is not a folder"),
        ("bill_usd_per_month: lots\n", "REVIEW.yaml:4.*expected an amount in dollars"),
    ],
)
def test_mistakes_are_named_with_line_and_remedy(tmp_path: Path, last: Plan, more: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        reviewed(tmp_path, last, as_csv(planned_rows(last.case, 2, MONDAY)), more)


def test_a_plan_that_does_not_hold_is_refused(tmp_path: Path, last: Plan, fleetplan: Command) -> None:
    broken = json.loads(last.to_json()) | {"cost_usd_per_month": 1.0}
    (tmp_path / "plan.json").write_text(json.dumps(broken))
    (tmp_path / "u.csv").write_text("workload,time,requests\n")
    (tmp_path / "REVIEW.yaml").write_text("name: q\nlast_plan: plan.json\nusage: u.csv\n")
    done = fleetplan("review", tmp_path / "REVIEW.yaml")
    assert done.code == 2
    assert "this plan fails its check" in done.err


# -- names that would do something ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Review:
    plan = hostile_plan()
    rows = planned_rows(plan.case, 15, factor=lambda w, hour: 0.0 if 50 < hour < 60 else 1.1)
    rows = [('"' + row[0].replace('"', '""') + '"', *row[1:]) for row in rows]
    folder = tmp_path_factory.mktemp("hostile")
    options = Options(gap_frac=0.3, node_limit=50, time_limit_s=5)
    return reviewed(folder, plan, as_csv(rows), "", options).review


def test_names_do_nothing(hostile: Review) -> None:
    text = as_text(review_document(hostile))
    assert no_control_characters(text)
    page = as_page(review_document(hostile))
    assert page.count("<script") == 1
    assert "<img" not in page
    assert "onload=alert" not in page.replace("&lt;svg onload=alert", "")
    assert only_our_tags(as_markdown(review_document(hostile)))


def test_every_number_of_the_json_is_finite(hostile: Review, example: Reviewed) -> None:
    def numbers(value: object) -> list[float]:
        if isinstance(value, dict | list):
            inner = value.values() if isinstance(value, dict) else value
            return [x for v in inner for x in numbers(v)]
        return [value] if isinstance(value, int | float) else []

    for review in (hostile, example.review):
        assert np.isfinite(numbers(review.as_json())).all()
