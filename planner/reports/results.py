"""How each result of a public function shows itself: in a line, as tables, in a notebook, and in files.

A result without tables of its own has those of its JSON: one for each list of records, and one of
single values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.io.errors import did_you_mean, escaped, input_error, shortened, shown
from planner.io.files import write_whole
from planner.io.formatting import counted, json_text, usd
from planner.io.result import Result
from planner.reports.csv import table_csv
from planner.reports.formats import as_html, as_markdown, as_workbook
from planner.reports.markup import el, join
from planner.reports.table import Cell, Column, Table

if TYPE_CHECKING:
    import pandas as pd

    from planner.reports.document import Document

LONGEST = 150
"""characters of what a line says"""
ROWS_IN_A_NOTEBOOK = 30
"""longer tables are named there, and not shown"""
SUMMARY = "summary"
"""the table of single values"""
Content = str | bytes
Files = Mapping[str, Callable[[], Content]]


@dataclass(frozen=True)
class View:
    line: str
    """what it is, for people"""
    as_json: Callable[[], Any]
    tables: Callable[[], Iterable[Table]] | None = None
    """None: those of its JSON"""
    files: Files = field(default_factory=dict)
    """what a file holds, by the ending of its name, beside JSON"""
    fragment: Callable[[], str] | None = None
    """for notebooks; None: the line and the tables"""

    def all_tables(self) -> Iterable[Table]:
        return tables_of_json(self.as_json()) if self.tables is None else self.tables()


def line_of(result: Result) -> str:
    return shortened(escaped(view_of(result).line), LONGEST)


def tables_of(result: Result) -> list[str]:
    """Names of the tables of a result."""
    return [table.name for table in view_of(result).all_tables()]


def frame_of(result: Result, name: str) -> pd.DataFrame:
    """A table as pandas has it; raises InputError where there is none of this name."""
    import pandas as pd

    tables = {table.name: table for table in view_of(result).all_tables()}
    if name not in tables:
        remedy = did_you_mean(name, tables) or f"Its tables are {', '.join(tables)}"
        raise input_error(line_of(result), f"has no table {shown(name)}", remedy)
    cells = tables[name].view("csv")
    return pd.DataFrame(list(cells.rows), columns=[column.key for column in cells.columns])


def save(result: Result, path: Path) -> Path:
    """Write a result as the ending of the name says; raises InputError where it has no such format."""
    view, ending = view_of(result), path.suffix.lower()
    known: dict[str, Callable[[], Content]] = {
        ".json": lambda: json_text(view.as_json()),
        ".xlsx": lambda: _workbook(view),
    }
    known |= view.files
    if ending not in known:
        raise input_error(path, "unknown file extension", f"End the name with {', '.join(known)}")
    write_whole(path, known[ending]())
    return path


def _workbook(view: View) -> bytes:
    from planner.reports.document import Document

    return as_workbook(Document(view.line, tables=view.all_tables))


def fragment_of(result: Result) -> str:
    """A result in a notebook's own style."""
    view = view_of(result)
    if view.fragment is not None:
        return view.fragment()
    from planner.reports.markup import table_html

    tables = [table for table in view.all_tables() if table.rows]
    short = [table for table in tables if len(table.rows) <= ROWS_IN_A_NOTEBOOK]
    longer = ", ".join(f"{table.name} ({len(table.rows)} rows)" for table in tables if table not in short)
    parts = [el("p", el("strong", type(result).__name__), " ", line_of(result))]
    parts += [join([el("p", table.title), table_html(table)]) for table in short]
    parts += [el("p", f"frame(name) has longer tables: {longer}")] if longer else []
    return str(el("div", join(parts), class_="fleetplan"))


def view_of(result: Any) -> View:
    """How a result shows itself; the reports of its kind are imported here, and no others."""
    kind = next((name for cls in type(result).__mro__ if (name := cls.__name__) in VIEWS), None)
    if kind is None:
        raise TypeError(f"{type(result).__name__} does not say how it is shown")
    return VIEWS[kind](result)


# -- tables of JSON ---------------------------------------------------------------------------------------


def tables_of_json(data: Any) -> Iterator[Table]:
    """A table for each list of records, or mapping to records; then one row of the single values."""
    data = data if isinstance(data, Mapping) else {"rows": data}
    if data and all(isinstance(value, Mapping) for value in data.values()):
        data = {"entries": data}
    single: dict[str, Any] = {}
    for key, value in data.items():
        records = _records(value)
        if records is None:
            single |= _flat({key: value})
        else:
            yield _table(key, records)
    if single:
        yield _table(SUMMARY, [single])


def _records(value: Any) -> list[dict[str, Cell]] | None:
    """Rows of a list of records, or of a mapping of names to records; None where it is neither."""
    if isinstance(value, list | tuple) and value and all(isinstance(item, Mapping) for item in value):
        return [_flat(item) for item in value]
    if isinstance(value, Mapping) and value and all(isinstance(item, Mapping) for item in value.values()):
        return [{"name": str(name), **_flat(item)} for name, item in value.items()]
    return None


def _flat(record: Mapping[str, Any], head: str = "") -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for key, value in record.items():
        name = f"{head}{key}"
        if isinstance(value, Mapping):
            cells |= _flat(value, f"{name}.")
        elif isinstance(value, list | tuple):
            plain = all(not isinstance(item, Mapping | list | tuple) for item in value)
            cells[name] = ", ".join(map(str, value)) if plain else json.dumps(value, ensure_ascii=False)
        else:
            cells[name] = value
    return cells


def _table(name: str, records: list[dict[str, Any]]) -> Table:
    keys = list(dict.fromkeys(key for record in records for key in record))
    figures = {key for key in keys if any(_is_figure(record.get(key)) for record in records)}
    columns = tuple(Column(key, key, "number" if key in figures else "text") for key in keys)
    rows = tuple(tuple(record.get(key) for key in keys) for record in records)
    return Table(name, name, columns, rows)


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _described(
    line: str, as_json: Callable[[], Any], document: Document, files: Files | None = None,
    fragment: Callable[[], str] | None = None,
) -> View:  # fmt: skip
    """A result by its document: its tables, its page, its Markdown and its workbook."""
    own: Files = {
        ".html": lambda: as_html(document),
        ".md": lambda: as_markdown(document),
        ".xlsx": lambda: as_workbook(document),
    }
    return View(line, as_json, document.all_tables, {**own, **(files or {})}, fragment)


def _as_data(line: str, as_json: Callable[[], Any], document: Document, files: Files | None = None) -> View:
    """The same with the tables of its JSON, where those of its document are made for people."""
    return replace(_described(line, as_json, document, files), tables=None)


# -- kinds of results -------------------------------------------------------------------------------------


def _case(case: Any) -> View:
    quarters = [counted(case.future.quarters, "quarter")] if case.future else []
    sizes = (counted(len(case.workloads), "workload"), counted(len(case.offers), "offer"))
    return View(", ".join([case.name, *sizes, *quarters]), case.as_json)


def _plan(plan: Any) -> View:
    from planner.reports.html import fragment
    from planner.reports.phrases import proof
    from planner.reports.plan import plan_document

    cost = f"{usd(plan.total_usd_per_month)} / month"
    line = ", ".join([plan.name, counted(len(plan.workloads), "workload"), cost, proof(plan)])
    return _described(line, plan.as_json, plan_document(plan), fragment=lambda: fragment(plan))


def _horizon(horizon: Any) -> View:
    from planner.reports.horizon import horizon_document
    from planner.reports.phrases import proof

    case = horizon.case
    sizes = [counted(len(case.workloads), "workload"), counted(case.future.quarters, "quarter")]
    sizes.append(counted(len(horizon.scenarios), "scenario"))
    line = ", ".join([horizon.name, *sizes, f"expected {usd(horizon.expected_cost_usd)}", proof(horizon)])
    return _described(line, horizon.as_json, horizon_document(horizon))


def _studied(studied: Any) -> View:
    from planner.reports.plan import plan_document

    studies = studied.plan.studies
    made = [name for name in ("waterfall", "break_even", "providers") if getattr(studies, name, None) is not None]
    line = f"{studied.plan.name}, {', '.join(made).replace('_', '-') or 'no study'}"
    return _described(line, studied.plan.as_json, plan_document(studied.plan))


def _explanation(explanation: Any) -> View:
    from planner.reports.explanation import explanation_document

    counts = [counted(len(explanation.levers), "lever"), counted(len(explanation.limits), "limit")]
    line = ", ".join([explanation.name, *counts])
    return _as_data(line, explanation.as_json, explanation_document(explanation))


def _sweep(sweep: Any) -> View:
    from planner.reports import what_if

    planned = sum(row["cost_usd_per_month"] is not None for row in sweep.rows)
    document = what_if.what_if_document(sweep)
    return _described(
        f"{sweep.name}, {counted(len(sweep.rows), 'row')}, {counted(planned, 'plan')}",
        lambda: json.loads(document.json()),
        document,
        {".csv": lambda: table_csv(what_if.runs(sweep)), ".parquet": lambda: what_if.what_if_parquet(sweep)},
    )


def _exploration(explored: Any) -> View:
    from planner.reports import explore

    document = explore.explore_document(explored)
    page: Files = {".html": lambda: explore.explore_page(explored)}
    return _described(explore.explore_line(explored), lambda: explore.explore_json(explored), document, page)


def _verification(report: Any) -> View:
    from planner.reports.verification import verification_document

    run = report.runs[0]
    line = f"{run.plan}, {counted(sum(r.requests for r in report.runs), 'request')}, {_kept(report)}"
    view = _described(line, lambda: report.model_dump(mode="json"), verification_document(report))
    return replace(view, tables=lambda: _tables_of_runs([({"load": r.load}, r) for r in report.runs]))


def _horizon_verification(served: Any) -> View:
    from planner.reports.tables.verification import quarters
    from planner.reports.verification import verification_document

    document = verification_document(served)

    def tables() -> Iterator[Table]:
        yield quarters(served)
        yield from _tables_of_runs(
            [({"run": n, "load": run.load}, run) for n, report in enumerate(served.runs) for run in report.runs]
        )

    line = f"{served.plan}, {counted(len(served.quarters), 'quarter')} served, {_kept(served)}"
    return replace(_described(line, lambda: served.model_dump(mode="json"), document), tables=tables)


def _kept(served: Any) -> str:
    if served.stopped and served.kept:
        return f"not verified, {served.stopped}"
    return "every promise is kept" if served.kept else "a promise is missed"


def _tables_of_runs(runs: list[tuple[dict[str, Cell], Any]]) -> Iterator[Table]:
    """What became of promises, workloads and deployments, run by run."""
    served = [(which | {"workload": w.name}, w) for which, run in runs for w in run.workloads]
    promises = [
        which | _flat(p.model_dump(mode="json", exclude={"missed_hours"})) | {"kept": p.kept}
        for which, w in served
        for p in w.promises
    ]
    missed = [
        which | {"what": p.what} | _flat(hour.model_dump(mode="json"))
        for which, w in served
        for p in w.promises
        for hour in p.missed_hours
    ]
    workloads = [which | _flat(w.model_dump(mode="json", exclude={"name", "promises"})) for which, w in served]
    deployments = [which | _flat(d.model_dump(mode="json")) for which, run in runs for d in run.deployments]
    made = {"promises": promises, "missed_hours": missed, "workloads": workloads, "deployments": deployments}
    yield from (_table(name, records) for name, records in made.items() if records)


def _reviewed(reviewed: Any) -> View:
    return _review(reviewed.review)


def _review(review: Any) -> View:
    from planner.reports.review import review_document

    line = f"{review.name}, {'as planned' if review.as_planned else 'not as planned'}"
    return _described(f"{line}, {counted(len(review.decisions), 'decision')}", review.as_json, review_document(review))


def _diff(diff: Any) -> View:
    from planner.reports.diff import diff_document

    line = f"{diff.before.name} → {diff.after.name}, {usd(diff.before.cost_usd_per_month)}"
    line += f" → {usd(diff.after.cost_usd_per_month)} / month"
    return _as_data(line, diff.as_json, diff_document(diff))


def _horizon_diff(diff: Any) -> View:
    from planner.reports.diff import diff_document

    line = f"{diff.before} → {diff.after}{', no change' if diff.same else ''}"
    return _as_data(line, diff.as_json, diff_document(diff))


def _check(check: Any) -> View:
    from planner.reports.policy import check_document

    broken = sum(not rule.passed for rule in check.rules)
    parts = [check.plan, *([f"{counted(len(check.rules), 'rule')}, {broken} broken"] if check.rules else ["passed"])]
    parts += [f"bound {check.bound.verdict}"] if check.bound is not None else []
    return _as_data(", ".join(parts), check.as_json, check_document(check))


def _estimate(estimate: Any) -> View:
    from planner.reports.performance import estimate_document, estimate_svg

    line = f"{estimate.variant}, {estimate.engine}, {estimate.basis}"
    files: Files = {".svg": lambda: estimate_svg(estimate)}
    return _as_data(line, estimate.as_json, estimate_document(estimate), files)


def _accuracy(accuracy: Any) -> View:
    from planner.reports.performance import accuracy_document, accuracy_rows, accuracy_rows_csv

    line = f"{counted(accuracy.rows, 'row')}, {len(accuracy.scored)} scored"
    files: Files = {".csv": lambda: accuracy_rows_csv(accuracy)}
    view = _as_data(line, accuracy.as_json, accuracy_document(accuracy), files)
    return replace(view, tables=lambda: (accuracy_rows(accuracy), *tables_of_json(accuracy.as_json())))


def _calibration(done: Any) -> View:
    from planner.reports.performance import calibration_document

    line = f"{counted(done.points, 'run')}, {counted(len(done.deployments), 'deployment')}"
    return _as_data(line, done.as_json, calibration_document(done), {".yaml": lambda: str(done.profile_text)})


def _suggestions(found: Any) -> View:
    return View(counted(len(found.suggestions), "benchmark") + " to run", found.as_json)


def _exported(exported: Any) -> View:
    line = f"{exported.plan}, {exported.target}, {counted(len(exported.files), 'file')}"
    return View(line, lambda: exported.files, lambda: [_table("files", _files(exported.files))])


def _files(files: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"path": path, "text": text} for path, text in files.items()]


def _answer(answer: Any) -> View:
    return _as_data(answer.name, answer.as_json, answer.document)


def _made(made: Any) -> View:
    files: Files = {".yaml": lambda: str(made.text), ".yml": lambda: str(made.text)}
    return _as_data(made.name, made.as_json, made.document, files)


VIEWS: dict[str, Callable[[Any], View]] = {
    "Case": _case,
    "Plan": _plan,
    "HorizonPlan": _horizon,
    "Studied": _studied,
    "Explanation": _explanation,
    "Sweep": _sweep,
    "Exploration": _exploration,
    "VerificationReport": _verification,
    "HorizonVerification": _horizon_verification,
    "Reviewed": _reviewed,
    "Review": _review,
    "PlanDiff": _diff,
    "HorizonDiff": _horizon_diff,
    "Check": _check,
    "Estimate": _estimate,
    "Accuracy": _accuracy,
    "Calibration": _calibration,
    "Suggestions": _suggestions,
    "Exported": _exported,
    "Answer": _answer,
    "Made": _made,
}
"""by the name of the class, so that no room is imported whose results nobody has"""
