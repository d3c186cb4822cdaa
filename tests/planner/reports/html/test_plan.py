"""The report as a page: every figure of the plan, nothing that a name can smuggle in, the same bytes, small."""

from __future__ import annotations

import json
import re
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

import planner
from planner.explanations.records import Explanation, LeverValue, MarginalValue
from planner.io.formatting import percent, tokens, usd, usd_small
from planner.plan.plan import LeftOut, Plan
from planner.plan.saved import plan_from_json
from planner.plan.serve_commands import serve_commands
from planner.plan.token_costs import token_costs
from planner.plan.why_not import why_not
from planner.reports.charts.hourly import Hours
from planner.reports.first_screen import CONCERNS_SHOWN
from planner.reports.html import fragment, html_report
from planner.reports.markup import CELL_LIMIT, Html, el, esc, words
from planner.reports.phrases import sheds_much
from planner.reports.tables.answers import to_sign, what_moves_it
from planner.reports.tables.prices import prices
from tests.support.command_line import SMALL, Command
from tests.support.lever_plans import DEMANDS, lever_plan
from tests.support.report_plans import HOSTILE, big_plan, hostile_plan, studied
from tests.support.rows import for_each
from tests.support.shown import plan_text

VOID = {"meta", "input", "wbr", "col"}
FIGURES = {"capacity", "demand", "fleet-by-gpu", "utilization", "costs", "ranges", "waterfall", "break-even"}
PANELS = {"headroom", "fleet-table", "workloads", "options", "assumptions", "prices", "proof", "build-or-buy"}


class Reader(HTMLParser):
    """Elements in order, whether they are closed as they were opened, and their text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute twice: {tag} {attrs}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.text.append(data)

    @property
    def ids(self) -> list[str]:
        return [a["id"] for _, a in self.tags if a.get("id")]  # type: ignore[misc]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return studied(lever_plan("together"))


@for_each("name", DEMANDS)
def test_every_picture_and_table_is_there(name: str) -> None:
    plan = studied(lever_plan(name))
    page = Reader(html_report(plan))
    assert set(page.ids) >= FIGURES | PANELS
    for id_, there in (("rejected", plan.rejected), ("binding", plan.binding), ("commitments", plan.commitments)):
        assert (id_ in page.ids) == bool(there)
    assert len(page.ids) == len(set(page.ids))


def test_the_answer_is_at_the_top(plan: Plan) -> None:
    """One figure, one sentence and what to mind, then the tables beside them; what explains them is further down."""
    page = html_report(plan)
    hero = page.split('<div class="answer">')[1].split("</div><figure")[0]
    assert hero.count('class="big"') == 1
    assert 1 <= hero.count("<p") <= 2 + CONCERNS_SHOWN
    text = "".join(Reader(page).text)
    top, money = text.split("Fleet and demand", 2)[1], text.split("Fleet and demand", 2)[2]
    costs = token_costs(plan)
    answered = sum(w.requests_per_month - w.shed_requests_per_month for w in plan.workloads)
    for said in (
        usd(plan.cost_usd_per_month), percent(plan.baseline.savings_frac), "What to sign", "What could change the cost",
        "demand is 20% lower", "What the same costs elsewhere", "4,321",
    ):  # fmt: skip
        assert said in top.replace("Nothing to sign", "What to sign"), said
    for said in (
        f"{usd_small(plan.usd_per_1m_tokens)} / 1M tokens", usd_small(costs.usd_per_1m_input or 0),
        f"{usd_small(1e3 * plan.cost_usd_per_month / answered)} / 1,000 requests", usd(plan.bound_usd_per_month),
        usd_small(costs.usd_per_1m_output or 0), tokens(0.16 * plan.tokens_per_month),
        plan.pools[0].deployments[0].deployment.basis,
    ):  # fmt: skip
        assert said in money, said


def test_every_part_of_the_cost_is_signed_or_said_to_be_unsigned() -> None:
    """The rows of what to sign add up to the cost; a commitment says its term, its cash and its whole price."""
    plan = lever_plan("shedding")
    table = to_sign(plan)
    keys = [c.key for c in table.columns]
    rows = [dict(zip(keys, row, strict=True)) for row in table.rows]
    *parts, total = rows
    assert sum(r["cost_usd_per_month"] for r in parts) == pytest.approx(plan.cost_usd_per_month)
    assert total["cost_usd_per_month"] == plan.cost_usd_per_month
    signed = [r for r in parts if r["whole_term_usd"]]
    assert [r["term"] for r in signed] == ["1 year, paid up front"]
    count = plan.commitments[0].instances
    assert signed[0]["whole_term_usd"] == pytest.approx(count * (2500 + 0.05 * 730 * 12))
    assert signed[0]["at_signing_usd"] == count * 2500


def test_the_gap_of_a_proof_is_no_range_of_the_cost() -> None:
    plan = lever_plan("together").model_copy(update={"bound_usd_per_month": 1.0, "gap_frac": 0.99})
    rows = what_moves_it(plan).rows
    assert str(rows[0][0]).startswith("demand is")
    assert all(row[1] > 1.0 for row in rows)  # type: ignore[operator]
    assert "gap of the proof" not in html_report(plan)


def test_the_first_screen_says_which_risk_was_not_worked_out(plan: Plan) -> None:
    late = plan.model_copy(update={"left_out": (LeftOut(what="if_throughput_is_off", why="time-limit"),)})
    said = "Not worked out, because the time limit was reached: what the plan costs if throughput is off"
    assert said in html_report(late).split("<h2")[0]
    assert said not in html_report(plan)


def test_little_that_is_shed_is_a_remark_and_much_an_alarm() -> None:
    plan = lever_plan("shedding")
    assert sheds_much(plan)
    little = plan.workloads[0].model_copy(update={"shed_share_frac": 0.0004, "shed_requests_per_month": 9.0})
    quiet = plan.model_copy(update={"workloads": (little,), "penalty_usd_per_month": 0.01})
    assert not sheds_much(quiet)
    assert 'class="notice"' not in html_report(quiet)
    assert "shed every month: <0.1% of chat" in plan_text(quiet)
    assert "SHED every month" in plan_text(plan)


def test_months_that_hardly_differ_share_a_picture() -> None:
    growing = lever_plan("together")
    flat = Hours(growing)
    total = [sum(s.values[t] for s in flat.fates) for t in range(len(growing.slots))]
    assert [day.title for day in flat.days_unlike(total)] == [
        "Months 1 to 3, a weekday (month 3 is drawn)", "Months 1 to 3, a weekend day (month 3 is drawn)"
    ]  # fmt: skip
    last = [x * (1 + (s.month == 2)) for x, s in zip(total, growing.slots, strict=True)]
    assert [day.title for day in flat.days_unlike(last)][:2] == [
        "Months 1 and 2, a weekday (month 2 is drawn)", "Month 3, a weekday"
    ]  # fmt: skip


def test_every_report_shows_one_date_of_prices(plan: Plan) -> None:
    old = plan.fleet[0].model_copy(update={"price_date": "2026-01-02"})
    changed = plan.model_copy(update={"fleet": (old, *plan.fleet[1:])})
    assert "prices of 2026-01-02 or later" in html_report(changed)
    assert "prices of 2026-01-02 or later" in plan_text(changed)


def test_every_option_and_rejection_has_its_reason() -> None:
    plan = lever_plan("mixed")
    text = "".join(Reader(html_report(plan)).text)
    dearest = max(plan.options, key=lambda o: o.cost_usd_per_month or 0)
    chosen = next(o for o in plan.options if o.chosen)
    assert dearest.cost_usd_per_month is not None
    assert chosen.cost_usd_per_month is not None
    assert f"{usd(dearest.cost_usd_per_month - chosen.cost_usd_per_month)} / month more: " in text
    assert all(why_not(plan, o) in text for o in plan.options)
    assert text.count("✓") == 1
    for r in plan.rejected:
        assert r.reason in text
    assert sum(int(n) for n in re.findall(r"(\d+) not possible", text)) == len(plan.rejected)


def test_assumptions_prices_and_proof_are_said(plan: Plan) -> None:
    text = "".join(Reader(html_report(plan)).text)
    for a in plan.assumptions:
        assert a.why in text
    for f in plan.fleet:
        assert f.price_source in text
        assert f"${f.usd_per_h:,.2f} / h" in text
    assert plan.proof.covers in text
    assert plan.case_hash in text


def test_an_old_price_is_flagged_against_the_newest_one(plan: Plan) -> None:
    assert "stale" not in html_report(plan)
    newest = max(d for f in plan.fleet if (d := f.price_date))
    old = plan.fleet[0].model_copy(update={"price_date": "2024-01-01"})
    page = html_report(plan.model_copy(update={"fleet": (old, *plan.fleet[1:])}))
    assert newest > "2024-08"
    assert re.search(r"stale: \d+ days older than the newest price here", "".join(Reader(page).text))


def test_what_the_catalog_marks_stale_is_named(plan: Plan) -> None:
    """Even where all prices are equally old, and where the fleet is listed."""
    line = next(f for f in plan.fleet if f.purchase == "on-demand")
    offer = plan.case.offers[line.offer]
    assert offer.prices.on_demand is not None
    price = offer.prices.on_demand.model_copy(update={"stale": True})
    aged = offer.model_copy(update={"prices": offer.prices.model_copy(update={"on_demand": price})})
    case = plan.case.model_copy(update={"offers": plan.case.offers | {line.offer: aged}})
    old = plan.model_copy(update={"case": case})
    said = f"stale prices; ask for today's before you sign: {line.offer} (of {line.price_date})"
    assert said in plan_text(old) and said not in plan_text(plan)
    assert said in "".join(Reader(html_report(old)).text)
    table = prices(old)
    at = [c.key for c in table.columns].index("stale")
    assert [row[:2] for row in table.rows if row[at]] == [(line.offer, "on-demand")]


def test_what_was_not_studied_says_how_to(plan: Plan) -> None:
    page = html_report(plan.model_copy(update={"studies": None}))
    assert page.count("fleetplan study PLAN.json") == 2
    assert "fleetplan study" not in html_report(plan)
    for id_ in ("waterfall", "break-even", "explanation"):
        assert f'id="{id_}"' not in page


def test_studies_say_what_they_found(plan: Plan) -> None:
    text = "".join(Reader(html_report(plan)).text)
    assert f"The levers save {usd(8 * plan.cost_usd_per_month)} a month, 89% compared with the naive fleet" in text
    assert "no fleet can meet the demand" in text
    assert "the API is cheaper from" in text
    assert "proved to lie between 0.144 and 0.176 times" in text
    assert "With API overflow, own GPUs are cheaper from" in text
    for said in ("a note on the waterfall", "nothing was looked at above 10 times", "4,321", "sellers of their model"):
        assert said in text


def test_what_is_turned_away_and_what_was_interrupted_stand_out() -> None:
    page = html_report(lever_plan("shedding").model_copy(update={"status": "interrupted", "gap_frac": 0.031}))
    notices = re.findall(r'<p class="notice"[^>]*>(.*?)</p>', page)
    assert len(notices) == 2
    assert notices[0].endswith("this plan is checked, but proved within 3.10% only.")
    assert "proved only within 3.10%" in page and "Not proved" not in page
    assert "SHED every month" in notices[1]
    assert "proved optimal" not in page


def test_an_interrupted_plan_of_which_nothing_is_proved_says_so() -> None:
    page = html_report(lever_plan("shedding").model_copy(update={"status": "interrupted", "gap_frac": 1.0}))
    assert "this plan is checked, but not proved to be near the optimum." in page
    assert "no useful bound had been proved yet" in page and "within 100%" not in page


def test_an_explanation_is_shown(plan: Plan) -> None:
    limit = MarginalValue(limit="max_gpus", workload=None, step="<b>one more</b> l4", saves_usd_per_month=120.0,
                       proved_usd_per_month=(120.0, 120.0), verdict="proved")  # fmt: skip
    lever = LeverValue(lever="spot", workload="chat", feasible=True, cost_usd_per_month=5000.0,
                       dearer_by_usd_per_month=777.0, dearer_by_frac=0.2, proved_usd_per_month=(777.0, 777.0),
                       verdict="proved")  # fmt: skip
    told = Explanation(name="x", case_hash=plan.case_hash, cost_usd_per_month=1.0, gap_frac=0.0, workload=None,
                       limits=(limit,), levers=(lever,), not_tried=("budget",))  # fmt: skip
    page = html_report(plan, told)
    for said in ("spot of chat", "$777, 20%", "&lt;b&gt;one more&lt;/b&gt; l4", "$120", "not tried: budget"):
        assert said in page
    assert "fleetplan explain" not in page


def test_commands_are_shown_as_they_stand(plan: Plan) -> None:
    page = html_report(plan)
    commands = serve_commands(plan)
    assert commands
    for c in commands:
        assert f"{escape(c.command)}</pre>" in page


# -- names -------------------------------------------------------------------------------------------------------------


def test_hostile_names_are_text_and_nothing_else() -> None:
    plan = studied(hostile_plan())
    page = html_report(plan)
    reader = Reader(page)
    tags = [tag for tag, _ in reader.tags]
    assert tags.count("script") == tags.count("style") == tags.count("title") - page.count("<title>") + 1 == 1
    assert "img" not in tags
    for tag, attributes in reader.tags:
        assert not [a for a in attributes if a.startswith("on")], (tag, attributes)
        assert not {"href", "src"} & set(attributes) or str(attributes.get("href")).startswith("#")
    text = "".join(reader.text)
    for name in HOSTILE:
        assert name.replace("‮", "\\u202e") in text
    assert "‮" not in page


def test_markup_is_escaped_unless_it_says_that_it_is_markup() -> None:
    assert esc("<b>&\"'") == "&lt;b&gt;&amp;&quot;&#x27;"
    assert esc(Html("<b>")) == "<b>"
    assert el("i", "<", title='"') == '<i title="&quot;">&lt;</i>'
    assert len(esc("x" * 5000)) == CELL_LIMIT
    assert words("a" * 100).count("<wbr>") == 2
    assert unescape(words("<" * 100).replace("<wbr>", "")) == "<" * 100


# -- bytes -------------------------------------------------------------------------------------------------------------


def test_the_same_plan_gives_the_same_bytes(plan: Plan) -> None:
    assert html_report(plan_from_json(plan.to_json())) == html_report(plan)


@pytest.mark.parametrize(("workloads", "months"), [(100, 3), (250, 1)])
def test_a_big_plan_stays_below_a_megabyte(workloads: int, months: int) -> None:
    plan = studied(big_plan(workloads, months))
    page = html_report(plan)
    assert len(plan.slots) == 48 * months
    assert len(page.encode()) < 1_000_000
    reader = Reader(page)
    assert set(reader.ids) >= FIGURES | PANELS
    assert "in the saved plan" in page


def test_nothing_is_fetched(plan: Plan) -> None:
    page = html_report(plan)
    assert not re.findall(r"""(?:src|href|action|srcset)=["'](?!#)""", page)
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_pictures_have_words_for_those_who_do_not_see_them(plan: Plan) -> None:
    pictures = [a for tag, a in Reader(html_report(plan)).tags if tag == "svg"]
    assert len(pictures) >= 7
    assert all(a.get("role") == "img" and len(a.get("aria-label") or "") > 20 for a in pictures)


def test_a_notebook_shows_the_plan() -> None:
    page = hostile_plan()._repr_html_()
    Reader(page)
    assert usd(hostile_plan().cost_usd_per_month) in page
    assert "<script" not in page
    assert page == fragment(hostile_plan())


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved() -> Plan:
    return planner.plan_fleet(planner.case_from_text(SMALL))


@pytest.fixture
def fleetplan(
    saved: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    monkeypatch.chdir(tmp_path)
    Path("case.yaml").write_text(SMALL, encoding="utf-8")
    Path("plan.json").write_text(saved.to_json(), encoding="utf-8")
    return Command(monkeypatch, capsys)


def test_plan_writes_the_page(fleetplan: Command) -> None:
    ran = fleetplan("plan", "case.yaml", "--out", "new.json", "--html", "one.html", "--explain", "--no-study")
    assert ran.code == 0
    assert "wrote one.html" in ran.err
    assert "the best plan without" in Path("one.html").read_text(encoding="utf-8")


def test_report_writes_the_page_of_a_saved_plan(saved: Plan, fleetplan: Command) -> None:
    ran = fleetplan("report", "plan.json")
    assert (ran.code, ran.out) == (0, "")
    assert "wrote plan.html" in ran.err
    assert Path("plan.html").read_text(encoding="utf-8") == html_report(saved)
    assert fleetplan("report", "plan.json", "--html", "two.html", "--format", "html", "-q").err == ""
    assert Path("two.html").read_bytes() == Path("plan.html").read_bytes()


def test_report_shows_a_saved_explanation_of_this_plan_only(saved: Plan, fleetplan: Command) -> None:
    lever = LeverValue(lever="spot", workload=None, feasible=False)
    told = Explanation(name="x", case_hash=saved.case_hash, cost_usd_per_month=1.0, gap_frac=0.0, workload=None,
                       limits=(), levers=(lever,), not_tried=())  # fmt: skip
    Path("why.json").write_text(json.dumps(told.as_json()), encoding="utf-8")
    assert fleetplan("report", "plan.json", "--explanation", "why.json", "--out", "two.html").code == 0
    assert "no plan is possible" in Path("two.html").read_text(encoding="utf-8")
    other = json.dumps(told.as_json() | {"case_hash": "sha256:0"})
    for text, said in ((other, "explains a different plan"), ("{", "not an explanation")):
        Path("bad.json").write_text(text, encoding="utf-8")
        ran = fleetplan("report", "plan.json", "--explanation", "bad.json")
        assert (ran.code, said in ran.err) == (2, True)
    assert "cannot be read" in fleetplan("report", "plan.json", "--explanation", "nope.json").err


@for_each(
    ("arguments", "said"),
    [
        (("report", "nope.json"), "cannot be read"),
        (("report", "case.yaml"), "not a plan"),
        (("report", "plan.json", "--out", "no/where.html"), "cannot be written"),
        (("plan", "case.yaml", "--html", "no/where.html"), "cannot be written"),
    ],
)
def test_what_cannot_be_reported_exits_with_2(arguments: tuple[str, ...], said: str, fleetplan: Command) -> None:
    ran = fleetplan(*arguments)
    assert (ran.code, said in ran.err, ran.out) == (2, True, "")


def test_a_tampered_plan_is_not_reported(saved: Plan, fleetplan: Command) -> None:
    dearer = saved.as_json() | {"cost_usd_per_month": saved.cost_usd_per_month + 1}
    Path("plan.json").write_text(json.dumps(dearer), encoding="utf-8")
    ran = fleetplan("report", "plan.json")
    assert (ran.code, "this plan fails its check" in ran.err) == (2, True)
    assert not Path("plan.html").exists()
