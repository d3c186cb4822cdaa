"""The README of an exported folder: what it covers, what it leaves to people, and what a gateway has to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.catalog.engine_support import parser_flags
from planner.export.hosted import Hosted, HostedFleet
from planner.export.hours import blocks
from planner.export.record import Export
from planner.export.routing import SHED, routes
from planner.export.weights import RATES
from planner.io.errors import listed
from planner.io.formatting import percent, span
from planner.plan.plan import WorkloadPlan
from planner.plan.too_long import passed_on_requests, refused_requests
from planner.reports.markdown import bullets, fenced, inline, table_markdown
from planner.reports.table import Column, Row, Table

ROUTERS = {
    "least-requests": "sends each request to the replica with the fewest in flight (Envoy's LEAST_REQUEST, vLLM's "
    "router or llm-d; a Kubernetes Service alone picks one at random: plan with 'policy: {routing: random}' for that)",
    "prefix-aware": "sends each request to the replica that holds most of its prefix, among those with hardly more in "
    "flight than the fewest (llm-d's or vLLM's prefix-aware routing)",
    "round-robin": "sends requests to one replica after the other (a Kubernetes Service alone picks one at random)",
    "random": "sends a request to any replica",
}
CHECKPOINT = ("put the id", "the catalog does not know")
LATE_S = 5
"""a start that is later than planned by less is not worth a word"""
SETTLED = (*CHECKPOINT, "an instance of ", "while spot ")
"""how notes of a serve command begin that the files or other parts of the page have settled"""


def readme(fleet: HostedFleet, target: str, made: Export) -> str:
    """In Markdown; whatever users wrote is text in it."""
    plan = fleet.plan
    parts: list[list[str]] = [
        [f"# {inline(plan.name)}: {target}"],
        [_origin(fleet)],
        ["## What is here", "", *bullets(made.covers)],
        ["## In this order", "", *_steps(made)],
        ["## What is left to you", "", *bullets([*_left_to_you(fleet), *made.left_to_you])],
        ["## Deployments", "", *table_markdown(_deployments(fleet))],
        ["## Replicas by the hour", "", *table_markdown(_hours(fleet))],
        ["## Where requests go", "", *table_markdown(_routes(fleet))],
        ["## Spot, priorities and shedding", "", *bullets(_priorities(fleet))],
    ]
    if too_long := [*_long_requests(fleet)]:
        parts.append(["## Requests that are too long", "", *bullets(too_long)])
    differs = [*made.cautions, *_notes(fleet)]
    if differs:
        parts.append(["## What to know", "", *bullets(differs)])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _origin(fleet: HostedFleet) -> str:
    plan, settings = fleet.plan, fleet.settings
    month = ""
    if fleet.view.months > 1:
        last = settings.month + 1 == fleet.view.months
        then = "plan again when it is over" if last else f"then comes `--month {settings.month + 2}`"
        month = f" This is month {settings.month + 1} of {fleet.view.months}: {then}."
    return (
        f"Written by fleetplan {inline(plan.fleetplan_version)} from the plan with case `{plan.case_hash}`. Nothing "
        f"was applied: read it, then follow the steps. Hours are those of {inline(settings.time_zone)}.{month}"
    )


def _steps(made: Export) -> Iterator[str]:
    for k, step in enumerate(made.steps, start=1):
        yield f"{k}. {inline(step.what)}"
        if step.commands:
            yield from ("", *(f"   {line}" for line in fenced("\n".join(step.commands))), "")


def _left_to_you(fleet: HostedFleet) -> Iterator[str]:
    for h in fleet.hosted:
        yield from (f"{h.name}: {note}" for note in h.serve.notes if note.startswith(CHECKPOINT))
    yield _loading(fleet)
    yield (
        "secrets: a token of the Hugging Face Hub for models that ask for one, the key that clients show to the engine "
        "(VLLM_API_KEY), and in the gateway that key and those of the APIs; the files refer to them and hold none"
    )
    yield from _parsers(fleet)
    yield f"the gateway: it {ROUTERS[fleet.plan.case.limits.routing]}, routes by length and sheds as below"
    if any(h.adapters for h in fleet.hosted):
        yield "adapters: a folder or volume called adapters, with one folder for each name after --lora-modules"


def _loading(fleet: HostedFleet) -> str:
    """How long weights take from where they come, against what the plan counts on."""
    way, planned = fleet.settings.weights, fleet.plan.case.start.weights_gb_per_s
    counted_s = span([max(1, round(h.planned_weights_s)) for h in fleet.hosted])
    taken_s = span([max(1, round(h.weights_s)) for h in fleet.hosted])
    plan = f"the plan counts on loading the weights in {counted_s} s ({planned:g} GB/s)"
    if way.kind not in RATES:
        return f"loading: {plan}, and nobody has measured this way: compare it with your own start"
    late = max(h.weights_s - h.planned_weights_s for h in fleet.hosted)
    rate = f"by way of {way.kind} a fresh node has them after {taken_s} s ({way.gb_per_s(planned):g} GB/s; "
    effect = f"; probes and schedules allow for it, but what replaces a lost replica is {late:.0f} s later than planned"
    return f"loading: {plan}; {rate}{RATES[way.kind].source}){effect if late >= LATE_S else ''}"


def _parsers(fleet: HostedFleet) -> Iterator[str]:
    """Flags for clients that call tools, by model."""
    models = {h.plan.deployment.model: h for h in fleet.hosted}
    for name in models:
        flags = parser_flags(fleet.plan.case.models[name])
        if flags:
            yield f"agents: where clients of {name} call tools or read its reasoning apart, add {' '.join(flags)}"
        else:
            yield (
                f"agents: no source says which parsers {name} needs: where its clients call tools, look for "
                "--enable-auto-tool-choice, --tool-call-parser and --reasoning-parser in vLLM's documentation"
            )


def _notes(fleet: HostedFleet) -> Iterator[str]:
    """What the plan's own commands remark, but for what the files have settled."""
    by_note: dict[str, list[str]] = {}
    for h in fleet.hosted:
        for note in h.serve.notes:
            if not note.startswith(SETTLED):
                by_note.setdefault(note, []).append(h.name)
    yield from (f"{listed(names, 'and')}: {note}" for note, names in by_note.items())


def _deployments(fleet: HostedFleet) -> Table:
    columns = (
        Column("name", "name"), Column("workloads", "serves"), Column("deployment", "as planned"),
        Column("gpus", "GPUs of a replica", "count"), Column("in_flight", "requests in flight", "count"),
        Column("starts", "ready after [s]", "count"),
    )  # fmt: skip
    rows: list[Row] = [
        (h.name, ", ".join(h.pool.workloads), h.plan.deployment.key, h.gpus, h.in_flight, round(h.start_s))
        for h in fleet.hosted
    ]
    notes = (
        "requests in flight: of a replica in the busiest hour; ready after: from the order of an instance, as planned, "
        "with the weights as they come here",
    )
    return Table("deployments", "deployments", columns, tuple(rows), notes)


def _hours(fleet: HostedFleet) -> Table:
    columns = (
        Column("name", "name"), Column("day", "day"), Column("hours", "hours"),
        Column("firm", "firm", "count"), Column("spot", "spot", "count"),
    )  # fmt: skip
    notes = ("firm: on instances that are reserved or bought on demand",)
    return Table("hours", "replicas", columns, tuple(row for h in fleet.hosted for row in _hours_of(h)), notes)


def _hours_of(h: Hosted) -> Iterator[Row]:
    """Hours in which both counts stay as they are: of pairs, written as one number."""
    many = 1 + max(n for counts in h.firm.values() for n in counts)
    both = {day: tuple(f + many * s for f, s in zip(h.firm[day], h.spot[day], strict=True)) for day in h.firm}
    for block in blocks(both):
        spot, firm = divmod(block.replicas, many)
        yield h.name, block.day, f"{block.start_h:02d}-{block.end_h:02d}", firm, spot


def _routes(fleet: HostedFleet) -> Table:
    columns = (
        Column("workload", "workload"), Column("input", "input tokens", "count"),
        Column("output", "output tokens", "count"), Column("share", "of its requests", "percent"),
        Column("to", "goes to"),
    )  # fmt: skip
    rows: list[Row] = []
    for r in routes(fleet):
        others = "any" if r.share_frac == 1 else "others"
        rows.append((r.workload, r.input_tokens or others, r.output_tokens or others, r.share_frac, _shares(r.to)))
    notes = (
        "lengths are the means of the plan's buckets; how long an answer will be is known only where clients limit it",
        "shares are those of the whole month; a deployment takes nothing in hours in which it has no replicas",
    )
    return Table("routes", "routes", columns, tuple(rows), notes)


def _shares(to: dict[str, float]) -> str:
    if len(to) == 1:
        return next(iter(to))
    return ", ".join(f"{percent(share)} {name}" for name, share in to.items())


def _priorities(fleet: HostedFleet) -> Iterable[str]:
    lines = []
    told = {w.name: w for w in fleet.plan.workloads}
    on_spot = {name: h for h in fleet.hosted if any(part.spot for part in h.parts) for name in h.pool.workloads}
    for w in fleet.plan.case.workloads:
        if w.name in on_spot:
            lines.append(
                f"{w.name}: {percent(w.critical_share_frac)} of its requests are critical. Mark them with a higher "
                "priority; while spot replicas are reclaimed the gateway must shed the others at once, since the firm "
                "replicas carry the critical ones and no more"
            )
        if w.shed_usd_per_request is not None:
            share = _share_to(fleet, w.name, SHED)
            lines.append(
                f"{w.name}: may be shed, at ${w.shed_usd_per_request:.4g} a request: what costs least to shed goes "
                f"first; the plan sheds {percent(share) if share else 'none'} of it"
            )
        if api_share := _share_to(fleet, w.name, told[w.name].api):
            lines.append(
                f"{w.name}: {percent(api_share)} of its requests go to {told[w.name].api}"
                f"{_api_hours(fleet, told[w.name])}"
            )
        if w.deadline_h is not None:
            lines.append(f"{w.name}: may wait {w.deadline_h:g} h: queue it, and let other requests go first")
    return lines or ["nothing runs on spot, nothing is shed and nothing waits: requests need no priorities"]


def _long_requests(fleet: HostedFleet) -> Iterator[str]:
    """What a gateway does with requests that are too long; a fleet as a whole admits no others."""
    for r in refused_requests(fleet.plan):
        yield (
            f"{r.workload}: refuse requests of more than {r.tokens:,} tokens, prompt and answer together: "
            f"{percent(r.share_frac, 2)} of those that arrive, about {r.requests_per_month:,.0f} a month; nothing is "
            "planned for them"
        )
    for r in passed_on_requests(fleet.plan):
        where = f"send them to {r.to}" if r.to else "shed them"
        yield (
            f"{r.workload}: requests of more than {r.tokens:,} tokens, {percent(r.share_frac, 2)} of them, are longer "
            f"than its deployments admit: {where}"
        )


def _share_to(fleet: HostedFleet, workload: str, destination: str | None) -> float:
    """Share of a workload's requests of the month that take one way."""
    mine = (route for route in routes(fleet) if route.workload == workload)
    return sum(route.share_frac * route.to.get(destination or "", 0.0) for route in mine)


def _api_hours(fleet: HostedFleet, told: WorkloadPlan) -> str:
    """The hours in which an API takes what the replicas cannot; nothing where it takes all."""
    if told.api_share_frac + told.cache_share_frac >= 1 - 1e-9:
        return ""
    used = {flow.slot for flow in told.api_flows if any(flow.requests_per_s)}
    by_day: dict[str, tuple[int, ...]] = {}
    for t in fleet.slots:
        by_day[fleet.plan.slots[t].day] = (*by_day.get(fleet.plan.slots[t].day, ()), int(t in used))
    hours = [f"{b.day} {b.start_h:02d}-{b.end_h:02d}" for b in blocks(by_day) if b.replicas]
    return f", what the replicas of these hours cannot take: {', '.join(hours)}" if hours else ""
