"""The first screen of a plan: what it costs and per what, what to sign, what could move it, and what the same costs
elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.formatting import counted, percent, span, tokens, usd, usd_small
from planner.judgement.concern import Concern
from planner.judgement.concerns import concerns_of
from planner.judgement.spending import sold_for_less
from planner.plan.plan import Plan
from planner.plan.quality_notes import size_beside
from planner.plan.sellers import sold_cheaper
from planner.plan.signing import allowances_to_be_signed
from planner.plan.token_costs import token_costs
from planner.reports import phrases
from planner.reports.document import (
    Document,
    Figures,
    Group,
    Hero,
    Items,
    Lines,
    Mark,
    Part,
    Sentence,
    TablePart,
    capital,
    plain,
)
from planner.reports.glance import glance, hours_without_replicas, places
from planner.reports.markup import Html, bar, el
from planner.reports.table import RICH, TEXT
from planner.reports.tables.answers import elsewhere, to_sign, what_moves_it, whole_terms_usd
from planner.reports.tables.operation import in_short
from planner.reports.tables.pools import pools
from planner.reports.text import as_text
from planner.reports.ways_to_buy import ways_to_buy

KINDS_SAID = 4
LARGE_TEAM_FRAC = 0.1
"""of the cost, from which on the answer says what engineers take of it"""
CONCERNS_SHOWN = 3
SCREEN_LINES, AROUND_LINES = 45, 12
"""of a terminal's first screen, and of these the title, what is compared, what stands around workloads, and where to
read on"""
SIGNED_SHOWN, WORKLOADS_SHOWN, LEAST_WORKLOADS, SIMPLER_SHOWN, NOTES_SHOWN = 4, 8, 3, 3, 3
"""rows and lines of it; as many workloads as there is room for"""
READ_ON = (
    "read on: --verbose (concerns, prices, options, hours, assumptions), 'fleetplan explain PLAN.json' (why, and what "
    "limits cost),",
    "         'fleetplan verify PLAN.json' (serve each request{extra}), 'fleetplan report PLAN.json' (a page)",
)


def answer(plan: Plan) -> Hero:
    """One figure, one sentence and what to mind; beside it what to sign, what may move it, and who else sells it."""
    from planner.reports.charts.money import by_workload

    return Hero(
        usd(plan.total_usd_per_month),
        " / month",
        (Lines((in_a_sentence(plan),), tone="prose"), *warnings(plan)),
        beside=(signing(plan), moving(plan), simpler(plan), _elsewhere(plan)),
        below=(Figures((lambda: by_workload(plan, brief=True),), beside=False),),
        formats=RICH,
    )


def fleet_lines(plan: Plan, whole: bool = False) -> Iterator[str]:
    """The fleet, and what somebody sees at a glance of it, for a terminal: as much as there is room for, or all."""
    notes = tuple(glance(plan))
    if whole:
        yield from _some(plan, notes, len(notes))
        return
    taken = _lines(_below(plan))
    fewer = (_some(plan, notes, n) for n in range(NOTES_SHOWN, -1, -1))
    least = min(LEAST_WORKLOADS, len(pools(plan).rows))
    yield from next((some for some in fewer if _rows_left(plan, some, taken) >= least), _some(plan, notes, 0))


def _some(plan: Plan, notes: tuple[str, ...], shown: int) -> tuple[str, ...]:
    more = len(notes) - shown
    operation = () if plan.operation is None else (in_short(plan.operation),)
    cut = (f"and {counted(more, 'more note')} (--verbose)",) if more > 0 else ()
    return plain(tuple(_to_run(plan))), *operation, *notes[:shown], *cut


def _below(plan: Plan, whole: bool = False) -> tuple[Part, ...]:
    return *warnings(plan), signing(plan, whole), moving(plan), simpler(plan)


def _lines(parts: tuple[Part, ...]) -> int:
    return as_text(Document("", bare=True, parts=parts)).count("\n")


def _rows_left(plan: Plan, fleet: tuple[str, ...], taken: int) -> int:
    """Rows of the table of workloads that there is room for."""
    notices = sum(map(bool, (phrases.held_sentence(plan), phrases.left_out(plan), phrases.shed_sentence(plan))))
    return SCREEN_LINES - AROUND_LINES - notices - taken - _lines((Lines(fleet, tone="remark", formats=TEXT),))


def screen(plan: Plan, whole: bool = False) -> Iterator[Part]:
    """The rest of a terminal's first screen, below the headline; its tables whole, or as far as there is room."""
    parts = _below(plan, whole)
    rows = None
    if not whole:
        left = _rows_left(plan, tuple(fleet_lines(plan)), _lines(parts))
        rows = min(WORKLOADS_SHOWN, max(LEAST_WORKLOADS, left))
    yield from parts
    yield TablePart(pools(plan), untitled=TEXT, most_of_text=rows)
    extra = "" if plan.verified or plan.sampled else "; needs fleetplan[verify]"
    yield Lines(tuple(line.format(extra=extra) for line in READ_ON))


def in_a_sentence(plan: Plan) -> Sentence:
    """What to run and to buy, and what that comes to beside the baseline."""
    return *_to_run(plan), ": ", *_verdict(plan)


def warnings(plan: Plan) -> Iterator[Part]:
    """Concerns that stop nothing, as many as there is room for beside those that do; the rest are counted."""
    found = concerns_of(plan)
    stops = sum(c.stops_signing for c in found)
    shown = max(0, CONCERNS_SHOWN - stops)
    lines = [_said(c) for c in found[stops : stops + shown]]
    if (more := len(found) - stops - shown) > 0:
        lines.append(f"and {counted(more, 'more concern')}: see 'What an expert would ask' in the full report")
    if lines:
        yield Lines(tuple(lines), "concerns", tone="warning", key="concerns")


def signing(plan: Plan, whole: bool = False) -> Group:
    """What is to be signed, below what forbids to sign it."""
    title = f"What to sign: {usd(whole_terms_usd(plan))} over the full terms"
    beside = "everything beyond what is held" if plan.held_usd_per_month else "everything"
    nothing = f"Nothing to sign: {beside} is pay-as-you-go"
    stops = tuple(_stop(c) + _said(c) for c in concerns_of(plan) if c.stops_signing)
    table = TablePart(to_sign(plan), most_of_text=None if whole else SIGNED_SHOWN)
    longer = Lines((*ways_to_buy(plan), *phrases.longer_terms(plan)), tone="small")
    return Group(
        (Lines(stops, tone="stop"), table, longer),
        title if plan.commitments or allowances_to_be_signed(plan) else nothing,
        key="to-sign",
    )


def moving(plan: Plan) -> Group:
    note = Lines((_demand_note(plan),), tone="small", formats=RICH)
    return Group((TablePart(what_moves_it(plan)), note), "What could change the cost", key="moves")


def simpler(plan: Plan) -> Group:
    """What each complication saves, and what the simplest plan near this one costs."""
    lines = tuple(phrases.simpler_plan(plan))[:SIMPLER_SHOWN]
    return Group((Lines(lines, tone="small"),), "What a simpler plan would cost", key="simpler")


def _elsewhere(plan: Plan) -> Group:
    parts = (TablePart(elsewhere(plan)), Lines(tuple(_elsewhere_notes(plan)), tone="small"))
    return Group(parts, "What the same costs elsewhere", key="elsewhere")


def all_concerns(plan: Plan) -> Items:
    """Every concern with what to do about it."""
    return Items("What an expert would ask", tuple((_stop(c) + c.sentence, c.remedy) for c in concerns_of(plan)))


def _stop(c: Concern) -> str:
    return "STOP: " if c.stops_signing else ""


def _said(c: Concern) -> str:
    return f"{c.sentence}: {c.remedy}"


def money_lines(plan: Plan) -> Iterator[Sentence]:
    """What the cost comes to per token and request, and from which volume on it is worth having GPUs."""
    yield _per_what(plan)
    if break_even := _break_even(plan):
        yield break_even


def _per_what(plan: Plan) -> Sentence:
    costs = token_costs(plan)
    read, written = tokens(costs.input_tokens_per_month), tokens(costs.output_tokens_per_month)
    if costs.usd_per_1m_input is not None and costs.usd_per_1m_output is not None:
        split = f"in {usd_small(costs.usd_per_1m_input)} ({read}), out {usd_small(costs.usd_per_1m_output)} ({written})"
    else:
        split = f"{read} tokens in, {written} out a month"
    answered = sum(w.requests_per_month - w.shed_requests_per_month for w in plan.workloads)
    each = f" · {usd_small(1e3 * plan.total_usd_per_month / answered)} / 1,000 requests" if answered else ""
    return Mark(f"{usd_small(plan.total_usd_per_1m_tokens)} / 1M tokens{each}"), " ", Mark(split, "small")


def _to_run(plan: Plan) -> Iterator[str | Mark]:
    """The fleet in a sentence."""
    gpus: dict[str, list[int]] = {}
    for line in plan.fleet:
        counts = gpus.setdefault(line.gpu, [0] * len(plan.slots))
        gpus[line.gpu] = [n + k * line.gpus_per_instance for n, k in zip(counts, line.instances_by_slot, strict=True)]
    ranked = sorted(gpus, key=lambda g: (-max(gpus[g]), g))
    apis = sorted({w.api for w in plan.workloads if w.api})
    if not ranked:
        yield f"Buy everything from {', '.join(apis) or 'nobody'}"
        return
    hardware = ", ".join(f"{span(gpus[g])} x {g}" for g in ranked[:KINDS_SAID])
    more = f" and {counted(len(ranked) - KINDS_SAID, 'other kind')} of GPU" if len(ranked) > KINDS_SAID else ""
    yield from ("Run ", Mark(hardware), more, f" {places(plan)}")
    if apis:
        requests = sum(w.requests_per_month for w in plan.workloads)
        share = sum(w.api_share_frac * w.requests_per_month for w in plan.workloads) / requests
        whole = plan.total_usd_per_month
        of_cost = percent(plan.costs.api_usd_per_month / whole if whole else 0.0)
        yield f", and buy {percent(share)} of the requests ({of_cost} of the cost) from {', '.join(apis)}"
        if idle_h := hours_without_replicas(plan):
            yield f", which answers everything in {idle_h:,.0f} hours a month"
    team = plan.costs.engineers_usd_per_month
    if team and team >= LARGE_TEAM_FRAC * plan.total_usd_per_month:
        yield f"; {usd(team)} / month of it is for engineers"


def _verdict(plan: Plan) -> Sentence:
    """Beside the baseline, and never alone where somebody sells the same model for less than hosting it costs."""
    less = sold_for_less(plan)
    if less is None:
        return *_beside_baseline(plan), "."
    model = phrases.counted_models(less)
    of = "" if len(less.workloads) == len(plan.workloads) else f" for {phrases.alike(less.workloads)}"
    team = ", without engineers" if plan.costs.engineers_usd_per_month else ""
    most = "up to " if less.shares_machines else ""
    return (
        *_beside_baseline(plan),
        "; ",
        Mark(f"costs {most}{usd(less.more_usd)} / month ({percent(less.more_frac)}) more", "bad"),
        f"{of} than the {model} at {less.sellers}{team}.",
    )


def _beside_baseline(plan: Plan) -> tuple[str | Mark, ...]:
    b = plan.baseline
    size = size_beside(plan, f"{b.provider}/{b.model}", tuple(w.name for w in plan.workloads))
    smaller = f" (a smaller model: {size})" if "asked" in size else ""
    saves, api = b.savings_usd_per_month, f"{phrases.baseline_name(plan)}{smaller}"
    if part := phrases.beside_what_apis_may_serve(plan):
        return Mark(part.said, "good" if part.saves_usd >= 0 else "bad"), f" against {api}, for what an API may serve"
    if abs(saves) < phrases.NOTHING_USD:
        return "costs the same as ", Mark(api)
    if saves > 0 and phrases.no_api_is_allowed(plan):
        less = f"costs {usd(saves)} / month ({percent(b.savings_frac)}) less"
        return Mark(less), f" than {api}, which no workload may use"
    if saves > 0:
        return Mark(f"saves {usd(saves)} / month ({percent(b.savings_frac)})", "good"), f" against {api}"
    return Mark(f"costs {usd(-saves)} / month ({percent(-b.savings_frac)}) more", "bad"), f" than {api}"


def _break_even(plan: Plan) -> str:
    study = plan.studies.break_even if plan.studies else None
    if study is None or not study.points:
        return ""
    from planner.reports.charts.break_even import always_cheaper

    if not study.crossings:
        detail = "cheaper at every" if always_cheaper(study) else "not cheaper at any"
        return f"Break-even: none; own GPUs are {detail} volume tried."
    volumes = [tokens(c.tokens_per_month) for c in study.crossings]
    team = f"engineers {usd(study.engineers_usd_per_month)}" if study.engineers_usd_per_month else "without engineers"
    more = f", again at {', '.join(volumes[1:])}" if len(volumes) > 1 else ""
    return f"Break-even: {volumes[0]} tokens a month{more}; {team}."


def _demand_note(plan: Plan) -> str:
    kept = "commitments stay as signed; " if plan.commitments or plan.allowances else ""
    missing = phrases.left_out(plan)
    more = f". {capital(missing)}" if missing else ""
    return f"If demand differs, {kept}replicas, hours and API bills follow it{more}"


def _elsewhere_notes(plan: Plan) -> Iterator[str]:
    """What the bills leave out, what they may be compared with, and how a plan may use a cheaper one."""
    yield from phrases.baseline_notes(plan)
    bills = plan.studies.providers if plan.studies else ()
    if plan.costs.engineers_usd_per_month and any(b.role == "same model" for b in bills):
        yield "Bills for some workloads only are compared with the cost of these workloads, without engineers"
    if sold_cheaper(plan):
        yield "To let a plan buy from an API, name it under menu.apis"
    barred = [w.name for w in plan.case.workloads if not w.api_allowed]
    if barred and any(set(b.workloads) & set(barred) for b in bills):
        yield f"No API may serve {phrases.alike(barred)} (api: forbidden): their bills are for comparison only"


def trust(plan: Plan) -> Html:
    """How far the throughput behind the plan is backed, by the GPU-hours kept busy."""
    from planner.reports.charts.colours import BASES

    hours: dict[str, float] = {}
    for d in (d for p in plan.pools for d in p.deployments):
        busy = sum(s.hours_per_month * x for s, x in zip(plan.slots, d.load_by_slot, strict=True))
        hours[d.deployment.basis] = hours.get(d.deployment.basis, 0.0) + busy * d.deployment.gpus_per_replica
    total = sum(hours.values())
    if not total:
        return Html("")
    pieces, shares, start = [], [], 0.0
    for basis in [*(b for b in BASES if b in hours), *sorted(set(hours) - set(BASES))]:
        share = hours[basis] / total
        pieces.append((f"b{BASES.get(basis, 7)}", start, share))
        shares.append(f"{percent(share)} {basis}")
        start += share
    text = f"Basis of the throughput: {', '.join(shares)}; mean error {phrases.throughput_error(plan)}"
    return el("div", el("p", text), bar(pieces, text + ", weighted by busy GPU-hours"), class_="trust", id="trust")
