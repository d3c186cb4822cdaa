"""The answer first: what to run, what it costs, against what, and how far that can be trusted."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.errors import shortened
from planner.io.formatting import percent, span, tokens, usd, usd_small
from planner.plan.plan import Plan
from planner.plan.token_costs import token_costs
from planner.reports.charts.break_even import always_cheaper
from planner.reports.charts.colours import BASES
from planner.reports.html.page import card, hero
from planner.reports.markup import STUDY, Html, bar, el, join, name
from planner.reports.phrases import (
    baseline_name,
    first_notes,
    held_sentence,
    left_out,
    limits_reached,
    throughput_error,
)

KINDS_SAID = 4
NOTHING_USD = 0.005
BINDS_LIMIT = 80
"""characters on a card; the table of limits has all"""


def notices(plan: Plan) -> Iterator[Html]:
    """What nobody may overlook."""
    if plan.status == "interrupted":
        lower = percent(plan.gap_frac, 2)
        yield _notice(f"The search was interrupted: this plan is verified, but the optimum may be {lower} lower.")
    if held := held_sentence(plan):
        yield _notice(f"{held[0].upper()}{held[1:]}.")
    if missing := left_out(plan):
        yield _notice(f"{missing[0].upper()}{missing[1:]}.")
    shed = [w for w in plan.workloads if w.shed_requests_per_month]
    if shed:
        parts = [
            join(
                [f"{percent(w.shed_share_frac)} of ", name(w.name), f" ({tokens(w.shed_requests_per_month)} requests)"]
            )
            for w in shed
        ]
        listed = join(p if k == 0 else join([", ", p]) for k, p in enumerate(parts))
        penalty = f"; a penalty of {usd(plan.penalty_usd_per_month)} / month, not part of the cost."
        yield _notice(el("b", "Shed every month: "), listed, penalty, " Figures are for the rest.")


def _notice(*words: str) -> Html:
    return el("p", *words, class_="notice", role="note")


def answer(plan: Plan) -> Html:
    b = plan.baseline
    saves = b.savings_usd_per_month
    api = baseline_name(plan)
    if abs(saves) < NOTHING_USD:
        verdict = join(["Nothing is cheaper than ", el("b", api), "."])
    elif saves > 0:
        saving = f"Saves {usd(saves)} / month ({percent(b.savings_frac)})"
        verdict = join([el("b", saving, class_="good"), f" against {api}."])
    else:
        more = f"Costs {usd(-saves)} / month ({percent(-b.savings_frac)}) more"
        verdict = join([el("b", more, class_="bad"), f" than {api}."])
    notes = (el("p", f"{note[0].upper()}{note[1:]}.") for note in first_notes(plan))
    lines = (el("p", verdict), *notes, el("p", *_to_run(plan)), _trust(plan))
    return hero(usd(plan.cost_usd_per_month), " / month", lines, _cards(plan))


def _to_run(plan: Plan) -> Iterator[str]:
    """The fleet in a sentence."""
    gpus: dict[str, list[int]] = {}
    for line in plan.fleet:
        counts = gpus.setdefault(line.gpu, [0] * len(plan.slots))
        gpus[line.gpu] = [n + k * line.gpus_per_instance for n, k in zip(counts, line.instances_by_slot, strict=True)]
    ranked = sorted(gpus, key=lambda g: (-max(gpus[g]), g))
    apis = sorted({w.api for w in plan.workloads if w.api})
    if not ranked:
        yield join(["Buy all of it from ", ", ".join(apis) or "nobody", "."])
        return
    hardware = ", ".join(f"{span(gpus[g])} x {g}" for g in ranked[:KINDS_SAID])
    more = f" and {len(ranked) - KINDS_SAID} other kinds of GPU" if len(ranked) > KINDS_SAID else ""
    yield join(["Run ", el("b", hardware), more])
    if apis:
        requests = sum(w.requests_per_month for w in plan.workloads)
        share = sum(w.api_share_frac * w.requests_per_month for w in plan.workloads) / requests
        yield f", and buy {percent(share)} of the requests from {', '.join(apis)}"
    yield "."


def _cards(plan: Plan) -> Iterator[Html]:
    costs = token_costs(plan)
    read, written = tokens(costs.input_tokens_per_month), tokens(costs.output_tokens_per_month)
    if costs.usd_per_1m_input is not None and costs.usd_per_1m_output is not None:
        split = f"in {usd_small(costs.usd_per_1m_input)} ({read}), out {usd_small(costs.usd_per_1m_output)} ({written})"
    else:
        split = f"{read} tokens in, {written} out a month"
    yield card("Per 1M tokens", usd_small(plan.usd_per_1m_tokens), split)
    b = plan.baseline
    yield card(
        f"API baseline, {baseline_name(plan)}",
        f"{usd(b.cost_usd_per_month)}",
        f"a month, {usd_small(b.usd_per_1m_tokens)} / 1M tokens",
    )
    saved = b.savings_usd_per_month
    if abs(saved) < NOTHING_USD:
        yield card("Saving", "none", "nothing is cheaper than this API")
    else:
        yield card("Saving", percent(b.savings_frac), f"{usd(saved)} a month", "good" if saved > 0 else "bad")
    yield _break_even(plan)
    yield _proof(plan)
    yield _binds(plan)


def _proof(plan: Plan) -> Html:
    costs = "has cost and penalty below" if plan.penalty_usd_per_month else "costs less than"
    detail = f"no fleet that the proof covers {costs} {usd(plan.bound_usd_per_month)}"
    if plan.status == "interrupted":
        return card("Not proved", f"within {percent(plan.gap_frac, 2)}", detail, "bad")
    return card("Proved", "optimal" if plan.status == "optimal" else f"within {percent(plan.gap_frac, 2)}", detail)


def _break_even(plan: Plan) -> Html:
    study = plan.studies.break_even if plan.studies else None
    if study is None:
        return card("Break-even", "–", join(["not studied: ", el("code", STUDY)]))
    if not study.crossings:
        detail = "cheaper at every" if always_cheaper(study) else "not cheaper at any"
        return card("Break-even", "none", f"own GPUs are {detail} volume looked at")
    volumes = [f"{tokens(c.tokens_per_month)}" for c in study.crossings]
    team = f"engineers {usd(study.engineers_usd_per_month)}" if study.engineers_usd_per_month else "without engineers"
    more = f", again at {', '.join(volumes[1:])}" if len(volumes) > 1 else ""
    return card("Break-even", f"{volumes[0]} tokens", f"a month{more}; {team}")


def _binds(plan: Plan) -> Html:
    reached = list(limits_reached(plan))
    if not reached:
        return card("What binds", "nothing", "no limit of the policy is reached")
    first = reached[0].split(" (")[0]
    rest = reached[0].removeprefix(first).strip(" ()")
    more = f"; and {len(reached) - 1} more" if len(reached) > 1 else ""
    return card("What binds", first.replace("_", " "), shortened(rest or "reached", BINDS_LIMIT) + more)


def _trust(plan: Plan) -> Html:
    """How far the throughput behind the plan is backed, by the GPU-hours kept busy."""
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
    text = f"Throughput behind it: {', '.join(shares)}; mean error {throughput_error(plan)}"
    return el("div", el("p", text), bar(pieces, text + ", by GPU-hours kept busy"), class_="trust", id="trust")
