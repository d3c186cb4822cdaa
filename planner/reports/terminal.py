"""The plan as text: the answer first, then the fleet, the workloads, the options and the assumptions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from planner.io.errors import escaped
from planner.io.formatting import percent, span, tokens, usd, usd_small
from planner.plan.plan import OptionRecord, Plan, RejectionRecord
from planner.plan.serve_commands import serve_commands
from planner.reports import phrases as sayings
from planner.reports.terminal_workloads import pool_name, workload_lines
from planner.reports.text import columns, red, sparkline

OPTIONS_SHOWN = 5
REASONS_SHOWN = 8


def render(plan: Plan, seconds: float | None = None, verbose: bool = False, color: bool = False) -> str:
    """The whole report; `seconds` is how long the planning took, where that is known."""
    sections = [
        chain(_headline(plan, seconds), _left_out(plan), _turned_away(plan, color)),
        _fleet(plan),
        workload_lines(plan),
        _hours(plan),
        _options(plan, verbose),
        _not_possible(plan, verbose),
        _commands(plan, verbose),
        _assumptions(plan, verbose),
    ]
    return "\n\n".join("\n".join(lines) for section in sections if (lines := list(section))) + "\n"


def _headline(plan: Plan, seconds: float | None) -> Iterator[str]:
    dates = sorted({line.price_date for line in plan.fleet if line.price_date})
    said = [f"{len(plan.workloads)} workload{'s' * (len(plan.workloads) != 1)}", f"{len(plan.slots)} slots"]
    said += [f"prices of {dates[0]}"] if dates else []
    took = f" in {seconds:.1f} s" if seconds is not None else ""
    yield f"{escaped(plan.name)}   {', '.join(said)}   {sayings.proof(plan)}{took}"
    b = plan.baseline
    yield from columns(
        [
            (
                f"{usd(plan.cost_usd_per_month)} / month",
                f"{b.provider} {b.model} {usd(b.cost_usd_per_month)} / month",
                sayings.saving(plan),
            ),
            (
                f"{usd_small(plan.usd_per_1m_tokens)} / 1M tokens",
                f"{usd_small(b.usd_per_1m_tokens)} / 1M tokens",
                f"{tokens(plan.tokens_per_month)} tokens / month",
            ),
        ]
    )


def _left_out(plan: Plan) -> Iterator[str]:
    if said := sayings.left_out(plan):
        yield f"  {said}"


def _turned_away(plan: Plan, color: bool) -> Iterator[str]:
    said = sayings.turned_away(plan)
    if said:
        line = f"  {escaped(said)}"
        yield red(line) if color else line


def _fleet(plan: Plan) -> Iterator[str]:
    yield from columns(fleet_rows(plan), right="defg")
    yield from (f"  {escaped(line)}" for line in fleet_remarks(plan))
    if plan.binding:
        yield f"  limits reached: {escaped('; '.join(sayings.limits_reached(plan)))}"


def fleet_rows(plan: Plan) -> list[tuple[str, ...]]:
    """What is paid for, a head first."""
    rows: list[tuple[str, ...]] = [("fleet", "gpu", "buy", "instances", "$/h each", "$/month", "% of cost")]
    for line in plan.fleet:
        rows.append(
            (line.offer, f"{line.gpus_per_instance} x {line.gpu}", line.purchase, span(line.instances_by_slot),
             f"{line.usd_per_h:.2f}", f"{line.cost_usd_per_month:,.0f}",
             _share(line.cost_usd_per_month, plan))
        )  # fmt: skip
    for w in plan.workloads:
        if w.api:
            share = f"api, {percent(w.api_share_frac)} of {w.name}"
            rows.append(_other_row(plan, w.api, share, w.api_cost_usd_per_month))
        if w.caching_cost_usd_per_month:
            rows.append(_other_row(plan, "caches", f"{w.caching} of {w.name}", w.caching_cost_usd_per_month))
    if plan.costs.engineers_usd_per_month:
        rows.append(_other_row(plan, "engineers", "-", plan.costs.engineers_usd_per_month))
    return rows


def fleet_remarks(plan: Plan) -> Iterator[str]:
    """What a reader of the fleet should know besides."""
    yield from _starting(plan)
    yield from (sayings.owed(c) for c in plan.commitments)
    if risk := sayings.spot_risk(plan):
        yield risk
    guesses = sorted({f.offer for f in plan.fleet if f.price_assumption})
    if guesses:
        yield f"assumed prices, replace them with your own under 'prices:': {', '.join(guesses)}"
    yield from sayings.cheaper_providers(plan)


def _other_row(plan: Plan, what: str, why: str, usd_per_month: float) -> tuple[str, ...]:
    return (what, "-", why, "-", "-", f"{usd_per_month:,.0f}", _share(usd_per_month, plan))


def _starting(plan: Plan) -> Iterator[str]:
    spent = sum(line.starting_usd_per_month for line in plan.fleet)
    if spent:
        starts = sum(line.starts_per_month for line in plan.fleet)
        minutes, times = f"{plan.case.start.instance_s / 60:g} min", f"{starts:,.0f} times a month"
        yield f"{usd(spent)} / month of it is for the {minutes} that an instance takes to start, {times}"


def _share(usd_per_month: float, plan: Plan) -> str:
    return percent(usd_per_month / plan.cost_usd_per_month) if plan.cost_usd_per_month else "-"


def _hours(plan: Plan) -> Iterator[str]:
    """Replicas by hour, for the first month."""
    if not any(pool.deployments for pool in plan.pools):
        return
    rows: list[tuple[str, ...]] = [("replicas by hour", "weekday 0h-23h", "", "weekend 0h-23h", "")]
    for pool in plan.pools:
        for d in pool.deployments:
            several = f" on {d.deployment.gpus_per_replica} x {d.deployment.gpu}" if len(pool.deployments) > 1 else ""
            cells = [pool_name(pool) + several]
            for day in ("weekday", "weekend"):
                at = [k for k, s in enumerate(plan.slots) if s.day == day and s.month == 0]
                counts = [d.replicas_by_slot[k] for k in at]
                cells += [sparkline([*counts], top=max(d.replicas_by_slot)), f"peak {max(counts)}"]
            rows.append(tuple(cells))
    yield from columns(rows)


def _options(plan: Plan, verbose: bool) -> Iterator[str]:
    """Workload by workload; those whose options are all alike are told once."""
    cached = any(o.caching != "none" for o in plan.options)
    for names, mine in _alike(plan):
        first = len(mine) if verbose else OPTIONS_SHOWN
        shown = [o for k, o in enumerate(mine) if k < first or o.chosen or o.option.startswith("api ")]
        each = ", each" if len(names) > 1 else ""
        head = (
            f"options for {sayings.alike(names)}{each}", *(("caching",) * cached), "gpu", "peak replicas", "api",
            "$/month", "",
        )  # fmt: skip
        rows = [_option_row(o, cached, len(names) > 1) for o in shown]
        yield from columns([head, *rows], right="def" if cached else "cde")
        if len(mine) > len(shown):
            yield f"  ... and {len(mine) - len(shown)} dearer ones (--verbose, or 'options' in the JSON)"


def _alike(plan: Plan) -> Iterator[tuple[list[str], list[OptionRecord]]]:
    """Workloads with the same options at the same costs, and these options."""
    grouped: dict[tuple[object, ...], list[str]] = {}
    for w in plan.workloads:
        mine = (o for o in plan.options if o.workload == w.name)
        key = tuple((*_option_row(o, True, True), len(o.shared_with)) for o in mine)
        grouped.setdefault(key, []).append(w.name)
    for names in grouped.values():
        yield names, [o for o in plan.options if o.workload == names[0]]


def _option_row(o: OptionRecord, cached: bool, of_several: bool) -> tuple[str, ...]:
    money = f"{o.cost_usd_per_month:,.0f}" if o.cost_usd_per_month is not None else "not possible"
    tick = "✓" if o.chosen else " "
    api = percent(o.api_share_frac) if o.api_share_frac else "-"
    caching = (o.caching,) * cached
    if o.offer is None:
        several = o.peak_replicas > 0
        name = o.option if not several else f"{o.option.count(' + ') + 1} deployments"
        where = o.option if several else ""
        return (f"{tick} {name}", *caching, "-", str(o.peak_replicas) if several else "-", api, money, where)
    others = f"{len(o.shared_with)} others" if of_several and len(o.shared_with) > 1 else ", ".join(o.shared_with)
    others = "another one" if of_several and len(o.shared_with) == 1 else others
    where = o.offer + (f", shared with {others}" if others else "")
    hardware = f"{o.gpus_per_replica} x {o.gpu}"
    return (f"{tick} {o.model} {o.quantization}", *caching, hardware, str(o.peak_replicas), api, money, where)


def _not_possible(plan: Plan, verbose: bool) -> Iterator[str]:
    if not plan.rejected:
        return
    yield "  not used, and why"
    for names, grouped in _reasons(plan):
        owner = sayings.alike(names)
        for k, (reason, candidates) in enumerate(grouped.items()):
            if not verbose and k >= REASONS_SHOWN:
                yield f"    {escaped(owner)}: ... and {len(grouped) - k} more reasons (--verbose)"
                break
            shown = candidates if verbose else candidates[:2]
            more = f" and {len(candidates) - len(shown)} more" if len(candidates) > len(shown) else ""
            yield f"    {escaped(owner)}: {escaped(reason)}: {escaped(', '.join(shown))}{more}"


def _reasons(plan: Plan) -> Iterator[tuple[list[str], dict[str, list[str]]]]:
    """Candidates by the reason against them, for workloads that have all of them alike."""
    alike: list[tuple[list[str], dict[str, list[str]]]] = []
    for w in plan.workloads:
        grouped: dict[str, list[str]] = {}
        for r in plan.rejected:
            if r.workload == w.name:
                reason, name = why_not(r)
                grouped.setdefault(reason, []).append(name)
        same = next((names for names, reasons in alike if reasons == grouped), None)
        if same is not None:
            same.append(w.name)
        elif grouped:
            alike.append(([w.name], grouped))
    yield from alike


def _commands(plan: Plan, verbose: bool) -> Iterator[str]:
    """How to run one replica of each deployment; each line is whole, so that it can be pasted."""
    commands = serve_commands(plan) if verbose else ()
    if commands:
        yield "  to run one replica of each deployment"
    for c in commands:
        yield f"    {escaped(', '.join(c.workloads))}, on {escaped(c.offer)}"
        yield f"      {escaped(' '.join([*c.environment, c.command]))}"
        yield from (f"      ({escaped(note)})" for note in c.notes)


def why_not(r: RejectionRecord) -> tuple[str, str]:
    """The reason and the candidate with its figure; beaten ones name their better."""
    if r.value == "beaten":
        return r.reason, f"{r.candidate} (than {r.limit})"
    return f"{r.reason} (limit {r.limit})", f"{r.candidate} ({r.value})"


def _assumptions(plan: Plan, verbose: bool) -> Iterator[str]:
    rows = [("assumed, since the demand file does not say", "", "")]
    rows += [(key, value, why) for (key, value, why) in grouped_assumptions(plan)]
    yield from columns(rows)
    yield f"  proved against {plan.proof.covers}"
    yield from (f"  note: {escaped(note)}" for note in plan.proof.notes)


def grouped_assumptions(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """What is assumed alike for several workloads is said once."""
    names = [w.name for w in plan.workloads]
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for a in plan.assumptions:
        owner = next((n for n in names if a.key.startswith(f"workloads.{n}.")), None)
        key = a.key.removeprefix(f"workloads.{owner}.") if owner else a.key
        grouped.setdefault((key, a.value, a.why), []).extend([owner] if owner else [])
    for (key, value, why), owners in grouped.items():
        if not owners:
            yield key, value, why
        elif len(owners) == len(names) > 1:
            yield f"{key} (all workloads)", value, why
        else:
            yield f"{key} ({', '.join(owners)})", value, why
