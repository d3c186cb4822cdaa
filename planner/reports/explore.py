"""An exploration: a table of what was planned, and a page with sliders that answers from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from planner.case.case import Case
from planner.case.quarters import held_usd_per_month
from planner.io.errors import escaped
from planner.io.formatting import counted, json_text, percent, usd
from planner.reports.document import Document, Lines, Part, Section, TablePart
from planner.reports.markup import Html, details, el, notes, table_html
from planner.reports.page import page_of, resource
from planner.reports.table import Column as C
from planner.reports.table import Table
from planner.studies.explore import HIGH, LOW, Exploration, Key, Point, dearest_month, ladder, plans, unlimited

TITLES: dict[Key, str] = {
    "demand": "Demand",
    "gpu-prices": "GPU prices",
    "api-prices": "API prices",
    "ttft": "TTFT target",
    "tpot": "TPOT target",
    "commitments": "Commitments",
    "budget": "Budget",
}
HINTS: dict[Key, str] = {
    "demand": "times the file's, in every hour",
    "gpu-prices": "times the prices of all instances, however they are bought",
    "api-prices": "times what APIs charge, the baseline too",
    "ttft": "times the file's targets; these were planned, nothing is claimed between them",
    "tpot": "times the file's targets; these were planned, nothing is claimed between them",
    "commitments": "what may be signed",
    "budget": "of the dearest month",
}
COLUMNS = (
    *(
        C(key, title.lower(), {"commitments": "text", "budget": "money"}.get(key, "times"))
        for key, title in TITLES.items()
    ),
    C("cost", "cost $/month", "money"), C("penalty", "penalty $/month", "money"), C("bound", "bound $/month", "money"),
    C("served", "served", "percent"), C("status", "plan"), C("fleet", "fleet at its busiest", "way to buy"),
)  # fmt: skip


def explore_document(explored: Exploration) -> Document:
    return Document(
        title=f"Explore: {explored.case.name}",
        about=_about(explored),
        parts=(
            Section("What can be moved", lambda: (TablePart(_sliders(explored)),), key="sliders"),
            Section("What does not hold here", lambda: _remarks(explored), key="remarks"),
        ),
        json=lambda: json_text(explore_json(explored)),
        tables=lambda: (_sliders(explored), points_table(explored)),
    )


def _about(explored: Exploration) -> tuple[str, ...]:
    settings = unlimited(explored.points)
    planned = plans(settings)
    within = plans(p for p in explored.points if p.setting.budget_usd_per_month is not None)
    said = f"{counted(len(planned), 'plan')} of {counted(len(settings), 'setting')}"
    lines = [f"{said}, each proved within {percent(_widest(planned), 2)} of its cost or less"]
    if within:
        widest = percent(_widest(within), 2)
        lines.append(f"{counted(len(within), 'plan')} within budgets, each proved within {widest} of cost and penalty")
    return tuple(lines)


def _widest(points: Sequence[Point]) -> float:
    return max((_gap_frac(p.result) for p in points), default=0.0)


def _remarks(explored: Exploration) -> tuple[Part, ...]:
    lines = (*explored.grid.why_not, *(f"a setting could not be planned: {e}" for e in explored.failures))
    return (Lines(lines),) if lines else ()


def _gap_frac(result: dict[str, Any]) -> float:
    total = result["cost"] + result["penalty"]
    return max(0.0, 1 - result["bound"] / total) if total else 0.0


def _value(explored: Exploration, point: Point, key: Key) -> Any:
    setting = point.setting
    if key == "commitments":
        return explored.grid.own_level if setting.commitments is None else setting.commitments
    return setting.budget_usd_per_month if key == "budget" else setting.of(key)


def _sliders(explored: Exploration) -> Table:
    """What is planned of each slider by itself, and what that costs."""
    rows = []
    for key in explored.grid.sliders:
        own = [p for p in explored.points if _moved(explored, p) <= {key}]
        costs = [p.result["cost"] + p.result["penalty"] for p in plans(own)]
        between = _between(explored, key)
        rows.append((TITLES[key].lower(), len(own), min(costs), max(costs), between))
    columns = (
        C("slider", "slider"), C("settings", "settings by itself", "count"), C("least", "from $/month", "money"),
        C("most", "to $/month", "money"), C("between", "between them"),
    )  # fmt: skip
    return Table("sliders", "Sliders", columns, tuple(rows))


def _between(explored: Exploration, key: Key) -> str:
    grid = explored.grid
    if key == "demand":
        return "proved range: costs never fall with demand" if grid.demand_is_monotone else "nothing is claimed"
    if key in ("gpu-prices", "api-prices"):
        return "proved range: costs are concave in prices" if grid.costs_are_linear else "nothing is claimed"
    if key == "budget":
        return "proved range: a larger budget never costs more"
    return "each is planned" if key == "commitments" else "nothing is claimed"


def _moved(explored: Exploration, point: Point) -> set[Key]:
    """Sliders that are not where the file has them; those of dear prices, which only bound budgets, count as two."""
    setting = point.setting
    moved: set[Key] = {key for key, _ in setting.scales}
    if setting.commitments is not None and setting.commitments != explored.grid.own_level:
        moved.add("commitments")
    return moved | ({"budget"} if setting.budget_usd_per_month is not None else set())


def points_table(explored: Exploration) -> Table:
    """Every setting, as it was planned."""
    rows = []
    for point in explored.points:
        values = [_value(explored, point, key) for key in TITLES]
        values[5] = explored.grid.levels[values[5]].name if explored.grid.levels else ""
        result = point.result
        fleet = "; ".join(result["fleet"] or ())
        figures = (result["cost"], result["penalty"], result["bound"], result["served"], result["status"], fleet)
        rows.append((*values, *figures))
    return Table("settings", "Settings that were planned", COLUMNS, tuple(rows))


def explore_json(explored: Exploration) -> dict[str, Any]:
    return {
        "name": explored.case.name,
        "gap_frac": explored.gap_frac,
        "demand_is_monotone": explored.grid.demand_is_monotone,
        "costs_are_linear_in_prices": explored.grid.costs_are_linear,
        "levels": [{"name": level.name, "purchase": list(level.purchase)} for level in explored.grid.levels],
        "settings": [
            {key: _value(explored, p, key) for key in TITLES} | dict(p.result.items()) for p in explored.points
        ],
    }


# -- the page ---------------------------------------------------------------------------------------------


def explore_page(explored: Exploration) -> str:
    """One file with its data, for any browser and no network."""
    planned = plans(explored.points)
    widest = percent(_widest(plans(unlimited(explored.points))), 2)
    about = (
        f"{counted(len(planned), 'checked plan')}; those without a budget are proved within {widest} of their cost or "
        "less. Move two sliders at a time; between plans, the page shows the range in which the least cost is proved "
        "to lie."
    )
    head = el(
        "header", el("h1", "Explore: ", el("bdi", explored.case.name)), el("p", about, class_="sub"), class_="top"
    )
    buttons = el(
        "div",
        el("button", "Pin to compare", id="pin", type="button"),
        el("button", "Back to the file", id="reset", type="button"),
        el("button", "CSV", id="csv", type="button"),
        class_="buttons",
    )
    asked = el(
        "div",
        el("h3", "Settings"),
        Html('<div id="sliders"></div>'),
        el("p", "", id="moved-back", role="status"),
        buttons,
        class_="panel asked",
    )
    both = Html(
        '<div id="both" aria-live="polite"><div id="here" class="answer"></div>'
        '<div id="there" class="answer" hidden></div></div>'
    )
    command = el(
        "div",
        el("h3", "Plan this very setting"),
        el(
            "div",
            Html('<pre id="command" tabindex="0"></pre>'),
            el("button", "Copy", id="copy", type="button"),
            class_="line",
        ),
        class_="panel",
    )
    shown = el("div", both, Html('<div id="charts"></div>'), command)
    board = el("div", asked, shown, id="board")
    without = Html(
        "<noscript><p class='notice'>The sliders need JavaScript; every plan is in the table.</p></noscript>"
    )
    table = details("Every setting that was planned", table_html(points_table(explored), most=1000))
    main = el("main", without, board, _why(explored), el("div", table, class_="panel"))
    data = json.dumps(page_data(explored), separators=(",", ":")).replace("<", "\\u003c")
    script = f"window.STUDY={data};\n{resource('explore.js')}"
    return page_of(f"Explore: {explored.case.name}", (head, main), script, resource("explore.css"))


def _why(explored: Exploration) -> Html:
    grid = explored.grid
    lines = []
    if grid.costs_are_linear:
        lines.append(
            "Prices: what a plan costs is linear in them, and what it can do does not depend on them. So every plan "
            "is an upper side at any price, at a cost known exactly; the least cost is concave, so means of lower "
            "bounds are lower bounds."
        )
    if grid.demand_is_monotone:
        lines.append(
            "Demand: a fleet that carries some demand carries less of it, and buys or sheds less. So the least cost "
            "never falls with demand: the plan for more is an upper side, the bound for less a lower one."
        )
    lines.append("Commitments and budget: whatever is allowed with less is allowed with more.")
    if grid.sheds:
        lines.append(
            "Budgets: a search proves, for many w, that (1 + w) times the cost, and the penalty, come to so much or "
            "more in every plan. That less w times the budget is a lower bound within it. And each plan is one for "
            "every budget from its dearest month on."
        )
    if "ttft" in grid.sliders:
        lines.append(
            "TTFT and TPOT: the size of a replica's steps is chosen for its targets, and a looser target may choose "
            "one that carries less. So nothing is claimed between those that were planned."
        )
    lines += [f"Here: {reason}." for reason in grid.why_not]
    return el("section", el("h2", "Why the ranges hold"), el("div", notes(lines), class_="panel"), class_="part")


def page_data(explored: Exploration) -> dict[str, Any]:
    """What the script reads. Prices are taken out of what plans pay: dollars at the file's prices, besides what is
    held, which no price and no budget moves."""
    grid, case, base = explored.grid, explored.case, explored.base.result
    api = case.apis[case.baseline]
    fleets: dict[str, int] = {}
    held = held_usd_per_month(case)
    points = [_point(explored, p, fleets, held) for p in explored.points]
    dearest = dearest_month(base)
    return {
        "name": escaped(case.name),
        "file": explored.file,
        "sliders": [_slider(explored, key, dearest) for key in grid.sliders],
        "levels": [{"name": level.name, "purchase": ",".join(level.purchase)} for level in grid.levels],
        "ownLevel": grid.own_level,
        "ownBudget": explored.budget_usd_per_month,
        "monotone": grid.demand_is_monotone,
        "linear": grid.costs_are_linear,
        "sheds": grid.sheds,
        "months": len(base["months"]),
        "apis": "api-prices" in grid.sliders,
        "mostElse": most_else_usd(case),
        "held": held,
        "tokens": base["tokens"],
        "baseline": escaped(f"{api.provider} {api.model}"),
        "baselineUsd": base["baseline"],
        "points": points,
        "fleets": list(fleets),
    }


def most_else_usd(case: Case) -> float | None:
    """The most that a plan pays a month besides instances and APIs; None where that depends on more than engineers."""
    caches = any(option != "none" for w in case.workloads for option in w.caching)
    vendors = case.limits.vendor_usd_per_month or case.limits.new_api_usd_per_month
    return None if caches or vendors else case.engineers_usd_per_month


def _slider(explored: Exploration, key: Key, dearest: float) -> dict[str, Any]:
    grid = explored.grid
    stops: list[float] | None = None
    places: list[float] | None = None
    low, high = LOW, HIGH
    if key in ("ttft", "tpot"):
        stops = list(grid.density.targets)
    elif key == "commitments":
        stops = list(range(len(grid.levels)))
        low, high = 0, len(grid.levels) - 1
    elif key == "budget":
        low, high = 0.3 * dearest, (1.2 if grid.sheds else 2.2) * dearest
    elif (key == "demand" and not grid.demand_is_monotone) or (key.endswith("prices") and not grid.costs_are_linear):
        stops = sorted({p.setting.of(key) for p in explored.points})
    elif key == "demand" and grid.sheds:
        places = list(ladder(grid.density.places))
    said = {"key": key, "title": TITLES[key], "hint": HINTS[key]}
    return {**said, "low": low, "high": high, "stops": stops, "places": places}


def _point(explored: Exploration, point: Point, fleets: dict[str, int], held: float) -> list[Any]:
    setting, result = point.setting, point.result
    gpu, api = setting.of("gpu-prices"), setting.of("api-prices")
    values = [_value(explored, point, key) for key in TITLES]
    if result["cost"] is None:
        return [*values, (result["bound"] or held) - held, None, 0.0, 0.0, 0, result["status"], []]
    months = [[_short(m[0] / gpu), _short(m[1] / api), _short(m[2] - held)] for m in result["months"]]
    said = escaped(
        "; ".join([*result["runs"], *([f"{percent(result['api'])} bought from an API"] if result["api"] else [])])
    )
    fleet = fleets.setdefault(said, len(fleets))
    return [
        *values, _short(result["bound"] - held), months, _short(result["penalty"]), _short(result["served"]), fleet,
        result["status"], [[_short(worth), _short(usd)] for worth, usd in point.lines],
    ]  # fmt: skip


def _short(x: float) -> float:
    return float(f"{x:.10g}")


def explore_line(explored: Exploration) -> str:
    """In one line."""
    base = explored.base.result
    cost = f"{usd(base['cost'])} / month as it is"
    return f"{explored.case.name}, {counted(len(unlimited(explored.points)), 'setting')}, {cost}"
