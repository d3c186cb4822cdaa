"""What a plan says: the answer first, then the fleet, money, service, why this plan, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from planner.explanations.records import Explanation
from planner.io.formatting import counted, percent, tokens, usd, usd_small
from planner.plan.blocks import AnyPlan
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import Plan
from planner.plan.serve_commands import ServeCommand, serve_commands
from planner.plan.why_not import menu_judged
from planner.reports import phrases
from planner.reports.document import Code, Document, Figures, Fold, Group, Lines, Mark, Part, Section, TablePart
from planner.reports.explanation import explanation_parts, lever_parts
from planner.reports.first_screen import all_concerns, answer, fleet_lines, money_lines, screen, trust
from planner.reports.operation import operation_parts
from planner.reports.options import option_parts, rejection_parts
from planner.reports.studies import study_parts
from planner.reports.summary import plan_summary
from planner.reports.table import BLANK, HTML, MARKDOWN, PEOPLE, PLAIN, RICH, TEXT, Column, Row, Table, two_columns
from planner.reports.tables import plan as tables
from planner.reports.tables.answers import with_other_demand
from planner.reports.tables.bought import bought
from planner.reports.tables.operation import scale_order
from planner.reports.tables.pools import pool_name, pools
from planner.reports.tables.prices import prices
from planner.reports.tables.quality import quality
from planner.reports.tables.start_up import shorter_starts, start_up
from planner.reports.tables.studies import providers, study_tables
from planner.reports.text import sparkline

FLEET_ROWS, COMMANDS_SHOWN, SELLERS_SHOWN, OFFERS_SHOWN, ASSUMPTIONS_SHOWN = 120, 60, 60, 80, 120
"""of a page"""


def plan_document(plan: AnyPlan, explanation: Explanation | None = None, verbose: bool = False) -> Document:
    """The whole report; text is its first screen, and with `verbose` all of it."""
    if isinstance(plan, HorizonPlan):
        from planner.reports.horizon import horizon_document

        return horizon_document(plan)
    return _block_document(plan, explanation, verbose)


def _block_document(plan: Plan, explanation: Explanation | None, verbose: bool) -> Document:

    @cache
    def whole() -> Plan:
        return with_other_demand(plan)

    shown = PEOPLE if verbose else RICH
    return Document(
        title=plan.name,
        about=tuple(
            x for x in (", ".join(phrases.facts(plan)), phrases.served_in_short(plan), phrases.proof(plan)) if x
        ),
        lead=lambda: (*_headline(plan, verbose), *notices(plan), Group(lambda: (answer(whole()),), formats=RICH)),
        parts=(
            Section("", lambda: screen(whole(), verbose), formats=TEXT),
            Section("Fleet and demand", lambda: _fleet(plan), key="fleet", formats=shown),
            Section("Money", lambda: _money(whole()), key="money", formats=RICH),
            Section("Service", lambda: _service(plan), key="service", formats=shown),
            *(
                [Section("In operation", lambda: _operation(plan), key="operation", formats=shown)]
                if plan.operation
                else []
            ),
            Section("Why this plan", lambda: _why(plan, explanation), key="why", formats=shown),
            Section("What it rests on", lambda: _basis(plan, explanation is not None), key="basis", formats=shown),
            Section("Studies", lambda: study_parts(plan), formats=TEXT),
            *([Section("", lambda: explanation_parts(explanation), formats=TEXT)] if explanation else []),
        ),
        foot=f"fleetplan {plan.fleetplan_version}. A month is 730 hours. Every figure belongs to the plan "
        f"{plan.case_hash[:19]}.",
        tab=f"{plan.name}: {usd(plan.total_usd_per_month)} / month",
        json=plan.to_json,
        summary=lambda: plan_summary(plan),
        tables=lambda: tables.tables_of(plan),
        facts=lambda: (
            ("plan", plan.name),
            ("status", plan.status),
            ("cost_usd_per_month", plan.cost_usd_per_month),
            *([("held_usd_per_month", plan.held_usd_per_month)] if plan.held_usd_per_month else []),
            ("bound_usd_per_month", plan.bound_usd_per_month),
            ("baseline_usd_per_month", plan.baseline.cost_usd_per_month),
            ("tokens_per_month", plan.tokens_per_month),
            ("case", plan.case_hash),
            ("fleetplan", plan.fleetplan_version),
        ),
    )


def notebook_parts(plan: Plan) -> Iterator[Part]:
    """The answer, the fleet and the workloads, for notebooks."""
    b = plan.baseline
    against = f"{phrases.baseline_name(plan)}: {usd(b.cost_usd_per_month)} / month; {phrases.proof(plan)}"
    yield Lines(((Mark(f"{plan.name}: {usd(plan.total_usd_per_month)} / month"),), (against,)), tone="prose")
    yield from notices(plan)
    yield from (TablePart(tables.fleet(plan)), TablePart(pools(plan)))


def _headline(plan: Plan, whole: bool) -> Iterator[Part]:
    b = plan.baseline
    at_api = f"{phrases.baseline_name(plan)} {usd(b.cost_usd_per_month)} / month"
    rows = (
        (f"{usd(plan.total_usd_per_month)} / month", at_api, phrases.saving(plan)),
        *((BLANK, *sellers) for sellers in (phrases.beside_sellers(plan),) if sellers),
        (
            f"{usd_small(plan.total_usd_per_1m_tokens)} / 1M tokens",
            f"{usd_small(b.usd_per_1m_tokens)} / 1M tokens",
            f"{tokens(plan.tokens_per_month)} tokens / month",
        ),
    )
    columns = (Column("plan", "plan"), Column("api", "API"), Column("saving", "saving"))
    yield TablePart(Table("answer", "Answer", columns, rows), head=False, untitled=TEXT, formats=TEXT)
    yield Group(lambda: (Lines(tuple(fleet_lines(plan, whole)), tone="remark"),), formats=TEXT)


def notices(plan: Plan) -> Iterator[Part]:
    """What nobody may overlook, and what belongs beside the headline."""
    if plan.status == "interrupted":
        bounded = phrases.bounded(plan)
        near = f"proved within {percent(plan.gap_frac, 2)} only" if bounded else "not proved to be near the optimum"
        said = f"The search was interrupted: this plan is checked, but {near}"
        yield Lines((said,), tone="notice", formats=HTML)
    if held := phrases.held_sentence(plan):
        yield Lines((held,), tone="notice")
    if missing := phrases.left_out(plan):
        yield Lines((missing,), tone="notice", formats=PLAIN)
    if shed := phrases.shed_sentence(plan):
        much = phrases.sheds_much(plan)
        yield Lines((shed,), tone="alarm" if much else "notice", formats=PEOPLE if much else PLAIN)


def _fleet(plan: Plan) -> Iterator[Part]:
    from planner.reports.charts import heat, hours, money

    pictures = (hours.capacity, hours.demand, money.fleet_by_gpu, heat.heat_map)
    yield Figures(tuple(lambda draw=draw: draw(plan) for draw in pictures))  # type: ignore[misc]
    reached = "; ".join(phrases.limits_reached(plan))
    fleet = TablePart(tables.fleet(plan), key="fleet-table", most=FLEET_ROWS)
    lines = [f"limits reached: {reached}"] if reached else []
    lines += [line for line in (phrases.within_budget(plan), phrases.power(plan)) if line]
    yield Group((fleet, Lines(tuple(lines), formats=TEXT)))
    yield TablePart(tables.showback(plan), formats=TEXT)
    if plan.power is not None:
        yield TablePart(tables.power(plan), folded=True, formats=RICH)
    yield TablePart(tables.commitments(plan), formats=HTML)
    if plan.allowances:
        yield TablePart(tables.allowances(plan))
    if plan.bought:
        yield TablePart(bought(plan))


def _money(plan: Plan) -> Iterator[Part]:
    from planner.reports.charts import money
    from planner.reports.charts.break_even import break_even
    from planner.reports.charts.waterfall import waterfall

    pictures = (money.costs, money.ranges, money.by_workload, waterfall, break_even)
    yield Lines(tuple(money_lines(plan)), tone="prose")
    yield Figures(tuple(lambda draw=draw: draw(plan) for draw in pictures))  # type: ignore[misc]
    for table in study_tables(plan):
        yield TablePart(table, folded=True, formats=MARKDOWN)
    yield TablePart(tables.showback(plan))
    bills = plan.studies.providers if plan.studies else ()
    whole = providers(plan, [b for b in bills if b.role != "same model"], "Everything bought from one API")
    some = providers(plan, [b for b in bills if b.role == "same model"], "Some workloads at sellers of their model")
    yield TablePart(whole, formats=HTML)
    yield TablePart(some, key="sellers", most=SELLERS_SHOWN, formats=HTML)
    yield TablePart(_build_or_buy(plan))


def _service(plan: Plan) -> Iterator[Part]:
    from planner.reports.charts.headroom import headroom

    yield Figures((lambda: headroom(plan),))
    yield TablePart(pools(plan), key="workloads", untitled=TEXT, formats=HTML)
    yield Figures((lambda: trust(plan),), beside=False)
    yield TablePart(tables.workloads(plan), formats=MARKDOWN)
    yield TablePart(_hours(plan), untitled=TEXT, formats=TEXT)
    yield TablePart(quality(plan), folded=True, formats=RICH)
    yield TablePart(tables.deployments(plan), folded=True, formats=MARKDOWN)
    yield TablePart(start_up(plan), folded=True)
    yield TablePart(shorter_starts(plan), folded=True)
    if commands := serve_commands(plan):
        summary = f"Commands that run one replica of each deployment ({len(commands)})"
        parts = (part for k, c in enumerate(commands) for part in _command(c, k < COMMANDS_SHOWN))
        more = len(commands) - COMMANDS_SHOWN
        cut = [Lines((f"and {more} more, in the saved plan",), formats=HTML)] if more > 0 else []
        yield Fold(summary, (*parts, *cut), len(commands) <= 3, key="commands")


def _operation(plan: Plan) -> Iterator[Part]:
    assert plan.operation is not None
    yield from operation_parts(plan.operation)
    yield TablePart(scale_order(plan))


def _command(c: ServeCommand, on_page: bool) -> Iterator[Part]:
    shown = PEOPLE if on_page else PLAIN
    yield Lines((("For ", Mark(", ".join(c.workloads), "name"), f", {c.deployment}:"),), tone="prose", formats=shown)
    yield Code(" ".join([*c.environment, c.command]), c.notes, formats=shown)


def _hours(plan: Plan) -> Table:
    """Replicas by hour, for the first month."""
    rows: list[Row] = []
    for pool in plan.pools:
        for d in pool.deployments:
            several = f" on {d.deployment.variant.gpus}" if len(pool.deployments) > 1 else ""
            cells = [pool_name(pool) + several]
            for day in ("weekday", "weekend"):
                at = [k for k, s in enumerate(plan.slots) if s.day == day and s.month == 0]
                counts = [d.replicas_by_slot[k] for k in at]
                cells += [sparkline([*counts], top=max(d.replicas_by_slot)), f"peak {max(counts)}"]
            rows.append(tuple(cells))
    columns = [Column("pool", "replicas by hour")]
    for day in ("weekday", "weekend"):
        columns += [Column(day, f"{day} 0h-23h"), Column(f"{day}_peak", "")]
    return Table("hours", "Replicas by hour", tuple(columns), tuple(rows))


def _why(plan: Plan, explanation: Explanation | None) -> Iterator[Part]:
    yield all_concerns(plan)
    if explanation is not None:
        title = "What each lever saves, and what relaxing each limit would save"
        yield Group(lever_parts(explanation), title, key="explanation", formats=RICH)
    yield TablePart(tables.binding(plan), title="Limits that are reached", formats=HTML)
    yield Group(lambda: (Lines(tuple(_binds(plan)), "What binds"), *_menu(plan)), formats=MARKDOWN)
    yield from option_parts(plan)
    yield from rejection_parts(plan)


def _binds(plan: Plan) -> Iterator[str]:
    for pool in plan.pools:
        for d in pool.deployments:
            name = f"{', '.join(pool.workloads)}: {d.name}"
            yield f"{name} is bound by {d.deployment.bound_by}, {percent(d.utilization_frac)} busy"
    yield from (f"limit reached: {line}" for line in phrases.limits_reached(plan))
    r = plan.if_throughput_is_off
    if r.low_usd_per_month is not None and r.high_usd_per_month is not None:
        ends = f"{usd(r.low_usd_per_month)} to {usd(r.high_usd_per_month)} / month"
        yield f"if throughput is off by its mean error: {ends}"


def _menu(plan: Plan) -> Iterator[Part]:
    """What is on the menu and not used, for workloads that see it alike once."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for w in plan.workloads:
        lines = tuple(f"{x.name}: {x.why}" for x in menu_judged(plan, w.name) if not x.used)
        alike.setdefault(lines, []).append(w.name)
    for lines, names in alike.items():
        yield Lines(lines, f"Not used for {phrases.alike(names)}, and why")


def _basis(plan: Plan, explained: bool) -> Iterator[Part]:
    yield Lines(tuple(phrases.demand_notes(plan)), "what demand and comparison rest on")
    yield Lines((*phrases.baseline_notes(plan), *phrases.cheaper_providers(plan)), formats=TEXT)
    assumed = TablePart(tables.assumptions(plan), head=False, folded=True, most=ASSUMPTIONS_SHOWN)
    yield Group((assumed, Lines(tuple(_proved(plan)), formats=TEXT)))
    menu = prices(plan)
    paid = menu.where(lambda row: bool(row["used"]) or row["of"] == plan.case.baseline)
    rest = Fold(f"Prices of everything on the menu ({len(menu.records)})", (TablePart(menu, most=OFFERS_SHOWN),))
    yield Group((TablePart(paid), rest), menu.title, key="prices", formats=HTML)
    yield TablePart(menu, folded=True, formats=MARKDOWN)
    yield TablePart(_proof(plan), formats=RICH)
    yield TablePart(_more(plan, explained), key="more", formats=HTML)


def _proved(plan: Plan) -> Iterator[str]:
    yield f"proved against {plan.proof.covers}"
    yield phrases.served(plan)
    yield from (f"note: {note}" for note in plan.proof.notes)


def _proof(plan: Plan) -> Table:
    p = plan.proof
    covered = plan.cost_usd_per_month + plan.penalty_usd_per_month
    what = "Cost and penalty" if plan.penalty_usd_per_month else "Cost"
    left_out = counted(p.servings_left_out, "serving")
    sizes = f"{counted(p.rounds, 'round')}, {counted(p.columns, 'column')}, {left_out} left out"
    rows = (
        ("Proof", phrases.proof(plan)),
        (f"{what} of the plan", f"{usd(covered)} / month"),
        (
            "No fleet covered by the proof costs less than",
            f"{usd(plan.bound_usd_per_month)} / month (gap {percent(plan.gap_frac, 2)})",
        ),
        ("What the proof covers", p.covers),
        ("Solver", f"{p.solver}; {sizes}"),
        ("Checked", "the plan passed a checker that reads nothing but its JSON"),
        ("Served", phrases.served(plan)),
        ("Case", plan.case_hash),
    )
    return two_columns("proof", "Proof", rows, p.notes)


def _more(plan: Plan, explained: bool) -> Table:
    """What this page does not hold, with the commands that would add it."""
    studied = plan.studies
    missing = [
        ("savings, lever by lever", "fleetplan study PLAN.json --only waterfall --out PLAN.json",
         studied is None or studied.waterfall is None or not studied.waterfall.compares),
        ("the volume above which hosting pays off", "fleetplan study PLAN.json --only break-even --out PLAN.json",
         studied is None or studied.break_even is None),
        ("what each lever saves and each limit costs", "fleetplan explain PLAN.json --format json > WHY.json; "
         "fleetplan report PLAN.json --explanation WHY.json", not explained),
        (phrases.PARTS["verified"], "fleetplan verify PLAN.json", plan.verified is None),
    ]  # fmt: skip
    again = "plan again with a longer --time-limit"
    missing += [(phrases.PARTS[part.what], again, True) for part in plan.left_out or () if part.what != "verified"]
    rows = tuple((what, command) for what, command, is_missing in missing if is_missing)
    return Table("more", "What else can be worked out", (Column("what", "what"), Column("how", "how", "code")), rows)


def _build_or_buy(plan: Plan) -> Table:
    """What else differs, where money is not all."""
    requests = sum(w.requests_per_month for w in plan.workloads)
    outside = sum(w.api_share_frac * w.requests_per_month for w in plan.workloads) / requests if requests else 0.0
    owed = {
        "up front": sum(c.upfront_usd for c in plan.commitments),
        "owed after the quarter": sum(c.beyond_horizon_usd for c in plan.commitments)
        + sum(a.beyond_horizon_usd for a in plan.allowances or ()),
    }
    commitments = ", ".join(f"{usd(amount)} {what}" for what, amount in owed.items() if amount)
    team = plan.costs.engineers_usd_per_month
    latency = "planned for: TTFT and TPOT of each workload are kept at its percentile"
    falls = "reserved instances are still paid" if plan.commitments else "instances are given back"
    falls = "what is signed is still paid" if plan.allowances else falls
    falls = "servers stay, at the value in the books" if plan.bought else falls
    rows = (
        ("a month", usd(plan.total_usd_per_month), usd(plan.baseline.cost_usd_per_month)),
        ("latency", latency, "whatever the provider gives"),
        ("requests sent to an API provider", percent(outside), "100%"),
        ("engineers", f"{usd(team)} a month" if team else "none counted", "none counted"),
        ("commitments", commitments or "none", "none"),
        ("if demand falls", falls, "the bill falls with it"),
    )
    columns = (Column("what", ""), Column("plan", "this plan"), Column("api", phrases.baseline_name(plan)))
    return Table("build_or_buy", "Build or buy: what else differs", columns, rows)
