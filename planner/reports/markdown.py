"""A plan as Markdown, for a pull request or a wiki: the answer in a few lines, long tables folded away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.io.formatting import percent, tokens, usd, usd_small
from planner.plan.plan import Plan
from planner.plan.serve_commands import serve_commands
from planner.plan.why_not import menu_judged
from planner.reports import phrases
from planner.reports.tables import plan as tables
from planner.reports.tables.answers import to_sign, what_moves_it
from planner.reports.tables.markdown import bullets, fenced, markdown, table_markdown, titled_markdown
from planner.reports.tables.table import Table, paragraphs

FOLDED = (
    "deployments",
    "options",
    "rejected",
    "assumptions",
    "prices",
    "elsewhere",
    "quality",
    "waterfall",
    "volumes",
    "crossings",
    "providers",
)
MOST_ROWS = 200
"""of a table that is folded away; GitHub cuts long comments off"""


def plan_markdown(plan: Plan) -> str:
    sections = (
        _headline(plan),
        titled_markdown(to_sign(plan)),
        titled_markdown(what_moves_it(plan)),
        titled_markdown(tables.fleet(plan)),
        titled_markdown(tables.workloads(plan)),
        _section("What binds", _binds(plan)),
        _section("Why", _why(plan)),
        _section("Proof", _proof(plan)),
        _commands(plan),
        *(_folded(t) for t in tables.tables_of(plan) if t.name in FOLDED and t.rows),
    )
    return paragraphs(sections)


def _headline(plan: Plan) -> Iterator[str]:
    b = plan.baseline
    yield f"# {markdown(plan.name)}"
    yield ""
    each = f"{usd_small(plan.usd_per_1m_tokens)} / 1M tokens, {tokens(plan.tokens_per_month)} tokens / month"
    yield f"**{markdown(usd(plan.cost_usd_per_month))} / month**, {markdown(each)}; {markdown(phrases.proof(plan))}."
    yield ""
    api = (
        f"{phrases.baseline_name(plan)} would cost {usd(b.cost_usd_per_month)} / month "
        f"({usd_small(b.usd_per_1m_tokens)} / 1M)"
    )
    yield f"Against an API: {markdown(api)}; the plan {markdown(phrases.saving(plan))}."
    if held := phrases.held_sentence(plan):
        yield ""
        yield f"> {markdown(held)}"
    for note in phrases.first_notes(plan):
        yield ""
        yield f"{markdown(note[0].upper() + note[1:])}."
    if shed := phrases.shed_sentence(plan):
        yield ""
        yield f"> **{markdown(shed)}**" if phrases.sheds_much(plan) else f"> {markdown(shed)}"
    if refused := phrases.refused_sentence(plan):
        yield ""
        yield f"> **{markdown(refused)}**" if phrases.refuses_much(plan) else f"> {markdown(refused)}"
    if missing := phrases.left_out(plan):
        yield ""
        yield f"> {markdown(missing)}"


def _binds(plan: Plan) -> Iterator[str]:
    for pool in plan.pools:
        for d in pool.deployments:
            name = f"{', '.join(pool.workloads)}: {d.name}"
            yield f"- {markdown(f'{name} is bound by {d.deployment.bound_by}, {percent(d.utilization_frac)} busy')}"
    yield from (f"- {markdown(f'limit reached: {line}')}" for line in phrases.limits_reached(plan))
    r = plan.if_throughput_is_off
    if r.low_usd_per_month is not None and r.high_usd_per_month is not None:
        ends = f"{usd(r.low_usd_per_month)} to {usd(r.high_usd_per_month)} / month"
        yield f"- {markdown(f'if throughput is off by its own error: {ends}')}"


def _why(plan: Plan) -> Iterator[str]:
    """What is on the menu and not used, for workloads that see it alike once."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for w in plan.workloads:
        lines = tuple(f"{x.name}: {x.why}" for x in menu_judged(plan, w.name) if not x.used)
        alike.setdefault(lines, []).append(w.name)
    for lines, names in alike.items():
        if lines:
            yield f"- {markdown(phrases.alike(names))}, not used:"
            yield from (f"  - {markdown(line)}" for line in lines)


def _proof(plan: Plan) -> Iterator[str]:
    bound = "cost and penalties" if plan.penalty_usd_per_month else "cost"
    yield markdown(
        f"No fleet that the proof covers has {bound} below {usd(plan.bound_usd_per_month)} / month: "
        f"{phrases.proof(plan)}, against {plan.proof.covers}."
    )
    yield from bullets([*plan.proof.notes, phrases.served(plan)])
    yield ""
    yield f"Inputs {markdown(plan.case_hash[:19])}, fleetplan {markdown(plan.fleetplan_version)}."


def _commands(plan: Plan) -> Iterator[str]:
    commands = serve_commands(plan)
    if commands:
        yield "<details><summary>How to run one replica of each deployment</summary>"
        for c in commands:
            yield ""
            yield f"For {markdown(', '.join(c.workloads))}, on {markdown(c.offer)}:"
            yield ""
            yield from fenced(" ".join([*c.environment, c.command]))
            yield ""
            yield from bullets(c.notes)
        yield ""
        yield "</details>"


def _section(title: str, part: Iterator[str]) -> Iterator[str]:
    if lines := list(part):
        yield from (f"## {title}", "", *lines)


def _folded(table: Table) -> Iterator[str]:
    view = table.view("markdown")
    yield f"<details><summary>{markdown(table.title)} ({len(view.rows)})</summary>"
    yield ""
    yield from table_markdown(replace(view, rows=view.rows[:MOST_ROWS]))
    if len(view.rows) > MOST_ROWS:
        yield ""
        yield f"The first {MOST_ROWS} of {len(view.rows)}; the CSV tables have all of them."
    yield ""
    yield "</details>"
