"""The plan as text: the answer first, then the fleet, the workloads, the options and the assumptions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from planner.io.errors import escaped
from planner.io.formatting import counted, tokens, usd, usd_small
from planner.plan.plan import Plan
from planner.plan.serve_commands import serve_commands
from planner.reports import phrases
from planner.reports.tables.options import options, options_alike, rejections_alike
from planner.reports.tables.plan import assumptions, fleet
from planner.reports.tables.pools import pool_name, pools
from planner.reports.tables.table import Column, Row, Table, paragraphs
from planner.reports.tables.text import red, sparkline, table_text

OPTIONS_SHOWN = 5
REASONS_SHOWN = 8


def render(plan: Plan, seconds: float | None = None, verbose: bool = False, color: bool = False) -> str:
    """The whole report; `seconds` is how long the planning took, where that is known."""
    return paragraphs(
        [
            chain(
                _headline(plan, seconds),
                _held(plan),
                _notes(plan),
                _left_out(plan),
                _shed(plan, color),
                _refused(plan, color),
            ),
            _fleet(plan),
            table_text(pools(plan)),
            _hours(plan),
            _options(plan, verbose),
            _not_possible(plan, verbose),
            _commands(plan, verbose),
            _assumptions(plan),
        ]
    )


def _headline(plan: Plan, seconds: float | None) -> Iterator[str]:
    took = f" in {seconds:.1f} s" if seconds is not None else ""
    yield f"{escaped(plan.name)}   {', '.join(phrases.facts(plan))}   {phrases.proof(plan)}{took}"
    b = plan.baseline
    at_api = f"{phrases.baseline_name(plan)} {usd(b.cost_usd_per_month)} / month"
    months = (f"{usd(plan.cost_usd_per_month)} / month", at_api)
    each = (f"{usd_small(plan.usd_per_1m_tokens)} / 1M tokens", f"{usd_small(b.usd_per_1m_tokens)} / 1M tokens")
    volume = f"{tokens(plan.tokens_per_month)} tokens / month"
    columns = (Column("plan", "plan"), Column("api", "API"), Column("saving", "saving"))
    rows = ((*months, phrases.saving(plan)), (*each, volume))
    yield from table_text(Table("answer", "Answer", columns, rows), head=False)


def _notes(plan: Plan) -> Iterator[str]:
    yield from (f"  {escaped(sentence)}" for sentence in phrases.first_notes(plan))


def _held(plan: Plan) -> Iterator[str]:
    if sentence := phrases.held_sentence(plan):
        yield f"  {sentence}"


def _left_out(plan: Plan) -> Iterator[str]:
    if sentence := phrases.left_out(plan):
        yield f"  {sentence}"


def _shed(plan: Plan, color: bool) -> Iterator[str]:
    if sentence := phrases.shed_sentence(plan):
        line = f"  {escaped(sentence)}"
        yield red(line) if color and phrases.sheds_much(plan) else line


def _refused(plan: Plan, color: bool) -> Iterator[str]:
    if sentence := phrases.refused_sentence(plan):
        line = f"  {escaped(sentence)}"
        yield red(line) if color and phrases.refuses_much(plan) else line


def _fleet(plan: Plan) -> Iterator[str]:
    yield from table_text(fleet(plan))
    if plan.binding:
        yield f"  limits reached: {escaped('; '.join(phrases.limits_reached(plan)))}"


def _hours(plan: Plan) -> Iterator[str]:
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
    yield from table_text(Table("hours", "Replicas by hour", tuple(columns), tuple(rows))) if rows else ()


def _options(plan: Plan, verbose: bool) -> Iterator[str]:
    """Workload by workload; those whose options are all alike are shown once."""
    for names, mine in options_alike(plan):
        first = len(mine) if verbose else OPTIONS_SHOWN
        shown = [o for k, o in enumerate(mine) if k < first or o.chosen or o.api]
        title = f"options for {phrases.alike(names)}{', each' if len(names) > 1 else ''}"
        yield from table_text(options(plan, shown, title, several=len(names) > 1))
        if len(mine) > len(shown):
            more = counted(len(mine) - len(shown), "more expensive one")
            yield f"  ... and {more} (--verbose, or 'options' in the JSON)"


def _not_possible(plan: Plan, verbose: bool) -> Iterator[str]:
    if not plan.rejected:
        return
    yield "  not used, and why"
    for names, grouped in rejections_alike(plan):
        owner = phrases.alike(names)
        for k, (reason, candidates) in enumerate(grouped.items()):
            if not verbose and k >= REASONS_SHOWN:
                yield f"    {escaped(owner)}: ... and {counted(len(grouped) - k, 'more reason')} (--verbose)"
                break
            shown = candidates if verbose else candidates[:2]
            more = f" and {len(candidates) - len(shown)} more" if len(candidates) > len(shown) else ""
            yield f"    {escaped(owner)}: {escaped(reason)}: {escaped(', '.join(shown))}{more}"


def _commands(plan: Plan, verbose: bool) -> Iterator[str]:
    """How to run one replica of each deployment; each line is whole, so that it can be pasted."""
    commands = serve_commands(plan) if verbose else ()
    if commands:
        yield "  to run one replica of each deployment"
    for c in commands:
        yield f"    {escaped(', '.join(c.workloads))}, on {escaped(c.offer)}"
        yield f"      {escaped(' '.join([*c.environment, c.command]))}"
        yield from (f"      ({escaped(note)})" for note in c.notes)


def _assumptions(plan: Plan) -> Iterator[str]:
    yield f"  {phrases.ASSUMED}"
    yield from table_text(assumptions(plan), head=False)
    yield f"  proved against {plan.proof.covers}"
    yield f"  {escaped(phrases.served(plan))}"
    yield from (f"  note: {escaped(note)}" for note in plan.proof.notes)
