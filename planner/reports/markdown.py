"""A plan as Markdown, for a pull request or a wiki: the answer in a few lines, long tables folded away."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.formatting import percent, span, tokens, usd, usd_small
from planner.plan.plan import Plan
from planner.plan.serve_commands import serve_commands
from planner.plan.why_not import menu_judged
from planner.reports import phrases as said
from planner.reports import plan_tables as tables
from planner.reports.table import Column, Table, fenced, markdown, table_markdown

FOLDED = (
    "deployments",
    "options",
    "rejected",
    "assumptions",
    "prices",
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
        _section("Fleet", table_markdown(_fleet(plan)), _remarks(plan)),
        _section("Workloads", table_markdown(_workloads(plan))),
        _section("What binds", _binds(plan)),
        _section("Why", _why(plan)),
        _section("Proof", _proof(plan)),
        _commands(plan),
        *(_folded(t) for t in tables.tables_of(plan) if t.name in FOLDED and t.rows),
    )
    return "\n\n".join("\n".join(lines) for section in sections if (lines := list(section))) + "\n"


def _headline(plan: Plan) -> Iterator[str]:
    b = plan.baseline
    yield f"# {markdown(plan.name)}"
    yield ""
    each = f"{usd_small(plan.usd_per_1m_tokens)} / 1M tokens, {tokens(plan.tokens_per_month)} tokens / month"
    yield f"**{markdown(usd(plan.cost_usd_per_month))} / month**, {markdown(each)}; {markdown(said.proof(plan))}."
    yield ""
    api = (
        f"{b.provider} {b.model} would cost {usd(b.cost_usd_per_month)} / month ({usd_small(b.usd_per_1m_tokens)} / 1M)"
    )
    yield f"Against an API: {markdown(api)}; the plan {markdown(said.saving(plan))}."
    if shed := said.turned_away(plan):
        yield ""
        yield f"> **{markdown(shed)}**"
    if missing := said.left_out(plan):
        yield ""
        yield f"> {markdown(missing)}"


def _fleet(plan: Plan) -> Table:
    """The instances, with the number of them as a range, and what else costs money."""
    rows: list[tuple[str | float | None, ...]] = [
        (f.offer, f"{f.gpus_per_instance} x {f.gpu}", f.purchase, span(f.instances_by_slot), f.usd_per_h,
         f.cost_usd_per_month)
        for f in plan.fleet
    ]  # fmt: skip
    for w in plan.workloads:
        if w.api:
            api = f"api, {percent(w.api_share_frac)} of {w.name}"
            rows.append((w.api, None, api, None, None, w.api_cost_usd_per_month))
        if w.caching_cost_usd_per_month:
            rows.append(("caches", None, f"{w.caching} of {w.name}", None, None, w.caching_cost_usd_per_month))
    if plan.costs.engineers_usd_per_month:
        rows.append(("engineers", None, None, None, None, plan.costs.engineers_usd_per_month))
    columns = (
        Column("offer", "instance"), Column("gpus", "gpus"), Column("purchase", "buy"),
        Column("instances", "instances"), Column("price_usd_per_h", "$/h each", "price"), tables.MONEY,
    )  # fmt: skip
    return Table("fleet", "Fleet", columns, tuple(rows))


def _remarks(plan: Plan) -> Iterator[str]:
    lines = [said.owed(c) for c in plan.commitments]
    lines += [risk] if (risk := said.spot_risk(plan)) else []
    guesses = sorted({f.offer for f in plan.fleet if f.price_assumption})
    lines += [f"assumed prices, replace them with your own under 'prices:': {', '.join(guesses)}"] if guesses else []
    lines += said.cheaper_providers(plan)
    yield from (f"- {markdown(line)}" for line in lines)


def _workloads(plan: Plan) -> Table:
    keys = ("workload", "deployments", "caching", "api_share_frac", "shed_share_frac")
    shown = keys if any(w.shed_share_frac for w in plan.workloads) else keys[:-1]
    return tables.workloads(plan).only(*shown, "tokens_per_month", "cost_usd_per_month", "usd_per_1m_tokens")


def _binds(plan: Plan) -> Iterator[str]:
    for pool in plan.pools:
        for d in pool.deployments:
            name = f"{', '.join(pool.workloads)}: {tables.deployment_name(d)}"
            yield f"- {markdown(f'{name} is bound by {d.deployment.bound_by}, {percent(d.utilization_frac)} busy')}"
    yield from (f"- {markdown(f'limit reached: {line}')}" for line in said.limits_reached(plan))
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
            yield f"- {markdown(said.alike(names))}, not used:"
            yield from (f"  - {markdown(line)}" for line in lines)


def _proof(plan: Plan) -> Iterator[str]:
    bound = "cost and penalties" if plan.penalty_usd_per_month else "cost"
    yield markdown(
        f"No fleet that the proof covers has {bound} below {usd(plan.bound_usd_per_month)} / month: "
        f"{said.proof(plan)}, against {plan.proof.covers}."
    )
    yield from (f"- {markdown(note)}" for note in plan.proof.notes)
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
            yield from (f"- {markdown(note)}" for note in c.notes)
        yield ""
        yield "</details>"


def _section(title: str, *parts: Iterator[str] | list[str]) -> Iterator[str]:
    found = [lines for part in parts if (lines := list(part))]
    if found:
        yield f"## {title}"
        for lines in found:
            yield ""
            yield from lines


def _folded(table: Table) -> Iterator[str]:
    short = Table(table.name, table.title, table.columns, table.rows[:MOST_ROWS])
    yield f"<details><summary>{markdown(table.title)} ({len(table.rows)})</summary>"
    yield ""
    yield from table_markdown(short)
    if len(table.rows) > MOST_ROWS:
        yield ""
        yield f"The first {MOST_ROWS} of {len(table.rows)}; the CSV tables have all of them."
    yield ""
    yield "</details>"
