"""The plan as text: the answer first, then the fleet, the workloads, the options and the assumptions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from planner.complaints import escaped
from planner.plan import Binding, Commitment, OptionRecord, Plan, RejectionRecord
from planner.reports.text import columns, percent, red, span, sparkline, tokens, usd, usd_small
from planner.reports.workloads import pool_name, workload_lines

OPTIONS_SHOWN = 5
REASONS_SHOWN = 8
NAMES_SHOWN = 3
PROVED = {
    "optimal": "proved optimal",
    "within-gap": "proved within {gap}",
    "feasible": "a verified plan, proved only within {gap}",
    "interrupted": "INTERRUPTED: a verified plan, not proved; the optimum may be {gap} lower",
}


def render(plan: Plan, seconds: float | None = None, verbose: bool = False, color: bool = False) -> str:
    """The whole report; `seconds` is how long the planning took, where that is known."""
    sections = [
        chain(_headline(plan, seconds), _turned_away(plan, color)),
        _fleet(plan),
        workload_lines(plan),
        _hours(plan),
        _options(plan, verbose),
        _not_possible(plan, verbose),
        _assumptions(plan, verbose),
    ]
    return "\n\n".join("\n".join(lines) for section in sections if (lines := list(section))) + "\n"


def _headline(plan: Plan, seconds: float | None) -> Iterator[str]:
    dates = sorted({line.price_date for line in plan.fleet if line.price_date})
    said = [f"{len(plan.workloads)} workload{'s' * (len(plan.workloads) != 1)}", f"{len(plan.slots)} slots"]
    said += [f"prices of {dates[0]}"] if dates else []
    proof = PROVED[plan.status].format(gap=percent(plan.gap_frac, 2))
    took = f" in {seconds:.1f} s" if seconds is not None else ""
    yield f"{escaped(plan.name)}   {', '.join(said)}   {proof}{took}"
    b = plan.baseline
    saves = b.savings_usd_per_month
    verdict = f"saves {percent(b.savings_frac)}" if saves >= 0 else f"costs {percent(-b.savings_frac)} more"
    told = "nothing is cheaper than this API" if abs(saves) < 0.005 else f"{verdict} ({usd(abs(saves))} / month)"
    yield from columns(
        [
            (
                f"{usd(plan.cost_usd_per_month)} / month",
                f"{b.provider} {b.model} {usd(b.cost_usd_per_month)} / month",
                told,
            ),
            (
                f"{usd_small(plan.usd_per_1m_tokens)} / 1M tokens",
                f"{usd_small(b.usd_per_1m_tokens)} / 1M tokens",
                f"{tokens(plan.tokens_per_month)} tokens / month",
            ),
        ]
    )


def _turned_away(plan: Plan, color: bool) -> Iterator[str]:
    shed = [w for w in plan.workloads if w.shed_requests_per_month]
    if shed:
        each = ((w.name, percent(w.shed_share_frac), tokens(w.shed_requests_per_month)) for w in shed)
        parts = (f"{share} of {name} ({count} requests)" for name, share, count in each)
        penalty = f"a penalty of {usd(plan.penalty_usd_per_month)} / month, which is no part of the cost"
        line = f"  TURNED AWAY every month: {escaped(', '.join(parts))}; {penalty}; figures are for the rest"
        yield red(line) if color else line


def _fleet(plan: Plan) -> Iterator[str]:
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
    yield from columns(rows, right="defg")
    yield from _starting(plan)
    yield from (_owed(c) for c in plan.commitments)
    if plan.costs.spot_usd_per_month:
        more = plan.spot_at_p95_usd_per_month - plan.cost_usd_per_month
        yield f"  if spot stays at the 95th percentile of its price, the plan costs {usd(more)} / month more"
    guesses = sorted({f.offer for f in plan.fleet if f.price_assumption})
    if guesses:
        yield f"  assumed prices, replace them with your own under 'prices:': {escaped(', '.join(guesses))}"
    if plan.binding:
        yield f"  limits reached: {escaped('; '.join(_reached(plan)))}"


def _other_row(plan: Plan, what: str, why: str, usd_per_month: float) -> tuple[str, ...]:
    return (what, "-", why, "-", "-", f"{usd_per_month:,.0f}", _share(usd_per_month, plan))


def _starting(plan: Plan) -> Iterator[str]:
    spent = sum(line.starting_usd_per_month for line in plan.fleet)
    if spent:
        starts = sum(line.starts_per_month for line in plan.fleet)
        minutes, times = f"{plan.case.start.instance_s / 60:g} min", f"{starts:,.0f} times a month"
        yield f"  {usd(spent)} / month of it is for the {minutes} that an instance takes to start, {times}"


def _owed(c: Commitment) -> str:
    said = [f"{usd(c.upfront_usd)} in cash when it is signed"] if c.upfront_usd else []
    if c.beyond_horizon_usd or not said:
        said.append(f"{usd(c.beyond_horizon_usd)} more is owed after this quarter")
    return f"  {c.instances} x {escaped(c.offer)} {c.term}: {', '.join(said)}"


def _reached(plan: Plan) -> Iterator[str]:
    """Each limit once, with what it limits and for how long."""
    grouped: dict[tuple[str, float], list[Binding]] = {}
    for b in plan.binding:
        grouped.setdefault((b.limit, b.value), []).append(b)
    for (limit, value), of in grouped.items():
        if limit == "budget_usd_per_month":
            yield f"the budget of {usd(value)} a month"
            continue
        names = [b.name for b in of[:NAMES_SHOWN] if b.name]
        more = f" and {len(of) - len(names)} more" if len(of) > NAMES_SHOWN else ""
        hours = ("up to " if len(of) > 1 else "") + f"{max(b.hours_per_month for b in of):,.0f} h a month"
        yield f"{limit} {value:,.0f}" + (f" ({', '.join(names)}{more}, {hours})" if names else "")


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
    cached = any(o.caching != "none" for o in plan.options)
    for w in plan.workloads:
        mine = [o for o in plan.options if o.workload == w.name]
        first = len(mine) if verbose else OPTIONS_SHOWN
        shown = [o for k, o in enumerate(mine) if k < first or o.chosen or o.option.startswith("api ")]
        head = (f"options for {w.name}", *(("caching",) * cached), "gpu", "peak replicas", "api", "$/month", "")
        yield from columns([head, *(_option_row(o, cached) for o in shown)], right="def" if cached else "cde")
        if len(mine) > len(shown):
            yield f"  ... and {len(mine) - len(shown)} dearer ones (--verbose, or 'options' in the JSON)"


def _option_row(o: OptionRecord, cached: bool) -> tuple[str, ...]:
    money = f"{o.cost_usd_per_month:,.0f}" if o.cost_usd_per_month is not None else "not possible"
    tick = "✓" if o.chosen else " "
    api = percent(o.api_share_frac) if o.api_share_frac else "-"
    caching = (o.caching,) * cached
    if o.offer is None:
        several = o.peak_replicas > 0
        name = o.option if not several else f"{o.option.count(' + ') + 1} deployments"
        where = o.option if several else ""
        return (f"{tick} {name}", *caching, "-", str(o.peak_replicas) if several else "-", api, money, where)
    where = o.offer + (f", shared with {', '.join(o.shared_with)}" if o.shared_with else "")
    hardware = f"{o.gpus_per_replica} x {o.gpu}"
    return (f"{tick} {o.model} {o.quantization}", *caching, hardware, str(o.peak_replicas), api, money, where)


def _not_possible(plan: Plan, verbose: bool) -> Iterator[str]:
    if not plan.rejected:
        return
    yield "  not used, and why"
    for w in plan.workloads:
        grouped: dict[str, list[str]] = {}
        for r in plan.rejected:
            if r.workload == w.name:
                reason, name = _told(r)
                grouped.setdefault(reason, []).append(name)
        for k, (reason, names) in enumerate(grouped.items()):
            if not verbose and k >= REASONS_SHOWN:
                yield f"    {escaped(w.name)}: ... and {len(grouped) - k} more reasons (--verbose)"
                break
            shown = names if verbose else names[:2]
            more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
            yield f"    {escaped(w.name)}: {escaped(reason)}: {escaped(', '.join(shown))}{more}"


def _told(r: RejectionRecord) -> tuple[str, str]:
    """The reason and the candidate with its figure; beaten ones name their better."""
    if r.value == "beaten":
        return r.reason, f"{r.candidate} (than {r.limit})"
    return f"{r.reason} (limit {r.limit})", f"{r.candidate} ({r.value})"


def _assumptions(plan: Plan, verbose: bool) -> Iterator[str]:
    rows = [("assumed, since the demand file does not say", "", "")]
    rows += [(key, value, why) for (key, value, why) in _grouped_assumptions(plan)]
    yield from columns(rows)
    yield f"  proved against {plan.proof.covers}"
    yield from (f"  note: {escaped(note)}" for note in plan.proof.notes)


def _grouped_assumptions(plan: Plan) -> Iterator[tuple[str, str, str]]:
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
