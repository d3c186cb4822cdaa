"""REVIEW.yaml: what a review is made from, read strictly, every mistake at its line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from planner.case.case import Case, Holding
from planner.case.demand.future.holdings import holding_of
from planner.case.demand.future_schema import ForecastScenarios, Quarters
from planner.case.demand.load import load_case
from planner.case.demand.overrides import offers_called, own_offers, repriced
from planner.case.demand.schema import DemandFile, PriceSpec
from planner.case.demand.workload_schema import check_columns
from planner.case.prices import usd_per_h
from planner.catalog.entries import Offer
from planner.catalog.importing.quotes import Rate, check_code, check_day
from planner.checker import check_plan
from planner.io.errors import Diagnostic, InputError, Problem, did_you_mean
from planner.io.named_files import NamedFiles
from planner.io.rates import UsdPerMonth
from planner.io.strict_yaml import Document, read_yaml
from planner.io.validation import FieldProblem, FieldProblems, Strict, validate
from planner.plan.blocks import block_of
from planner.plan.plan import Plan
from planner.plan.saved import read_plan
from planner.review.bills.bill import Bill, BillSpec, RateSpec, at_prices_of_bill, bill_spec, read_bill
from planner.review.bills.ledger import NOT_OURS
from planner.review.bills.records import BillPrice
from planner.review.holdings import CommittedSpec, HeldNext, held_next, planned_around
from planner.review.period import PeriodSpec, Span, span_of
from planner.review.savings_plans import with_savings_plans
from planner.review.usage_log import HOUR, UsageLog, read_log

T = TypeVar("T")
FROM_FORECAST = ForecastScenarios.model_validate({"from": "forecast"})


class NextSpec(Strict):
    """What the next plan is made from; what is not said stays as it was in the last plan."""

    demand: str | None = Field(default=None, min_length=1)
    """A demand file: workloads, menu, prices, limits."""
    forecast: Literal["actuals", "given"] = "actuals"
    """Whether rates come from the usage log, or stand as the demand file gives them."""
    catalog: str | None = Field(default=None, min_length=1)
    """A catalog file, such as `fleetplan catalog import` writes: its prices replace those of instances on the menu."""
    prices: dict[str, PriceSpec] = {}
    """New prices of instances, as under `prices:` of a demand file."""
    prices_of_bill: bool = True
    """Whether contracted prices of a FOCUS bill are those of the next plan; `catalog` and `prices` override them."""
    starts: date | None = None
    """The first day of the next quarter; by default that of the demand file, or the day after the period under
    review."""
    horizon: Quarters | None = None
    """Also plan so many quarters, with the P10, P50 and P90 of the forecast as scenarios, and say what to sign now."""
    scenarios: ForecastScenarios | None = Field(default=None, examples=[{"from": "forecast"}])
    """The same for one quarter, or with other weights: {from: forecast, weights: {p10: 25%, p50: 50%, p90: 25%}}."""

    @model_validator(mode="after")
    def _has_a_forecast(self) -> NextSpec:
        if self.forecast == "given" and self.demand is None:
            raise FieldProblem(("forecast",), "is 'given', but there is no demand file", "Write demand: demand.yaml")
        if self.forecast == "given" and self.looks_ahead:
            message = "needs a forecast from the log, but 'forecast' is 'given'"
            raise FieldProblem(self.where_ahead[1:], message, "Plan a demand file with scenarios instead", at_key=True)
        return self

    @property
    def looks_ahead(self) -> bool:
        """whether several quarters or scenarios are planned too"""
        return self.horizon is not None or self.scenarios is not None

    @property
    def where_ahead(self) -> tuple[str, str]:
        """the key that asks for it"""
        return ("next", "horizon" if self.horizon is not None else "scenarios")

    @property
    def scenarios_ahead(self) -> ForecastScenarios:
        return self.scenarios or FROM_FORECAST


class ReviewFile(Strict):
    """A review file."""

    name: str = Field(min_length=1, max_length=80, pattern=r"^\S(.*\S)?$")
    last_plan: str = Field(min_length=1)
    """The plan under review, as `fleetplan plan --out` wrote it."""
    usage: str = Field(min_length=1)
    """The usage log: any log that `fleetplan demand` reads, such as a CSV with the columns time and requests, workload
    where it holds several, and input_tokens and output_tokens (sums over the row's requests) where they are known."""
    columns: dict[str, str] = {}
    """Columns of the log that have names of their own: time, requests, prompt, output, workload and others."""
    period: PeriodSpec | None = None
    """By default all of the log, or its last 13 weeks where it is longer; what is older serves the forecast alone."""
    bill_usd_per_month: UsdPerMonth | None = None
    """What was paid, on average over the months of the period."""
    bill: Annotated[BillSpec, BeforeValidator(bill_spec)] | None = None
    """The bill itself: a FOCUS export, or {focus: FILE, team_tag: ..., where: ..., skus: ...}."""
    rates: dict[str, RateSpec] = Field(default={}, examples=[{"EUR": {"usd": 1.08, "date": "2026-10-31"}}])
    """What other currencies of the bill are worth: {EUR: {usd: 1.08, date: 2026-10-31}}."""
    next: NextSpec = NextSpec()
    committed: tuple[CommittedSpec, ...] | None = None
    """What is held and until when, which the next quarter is planned around; [] for nothing. By default what `have` of
    the next demand file lists; without one, what the last plan held and what it reserved, signed when its quarter
    began."""
    history: str | None = Field(default=None, min_length=1)
    """A folder of past reviews as JSON."""

    @model_validator(mode="after")
    def _has_known_columns(self) -> ReviewFile:
        check_columns(self.columns)
        return self

    @model_validator(mode="after")
    def _has_known_currencies(self) -> ReviewFile:
        problems = []
        for code in self.rates:
            try:
                check_code(code)
            except Problem as problem:
                problems.append(FieldProblem(("rates", code), problem.message, problem.remedy, at_key=True))
        if self.rates and self.bill is None:
            problems.append(FieldProblem(("rates",), "is given, but there is no bill to convert", "Add bill: bill.csv"))
        if problems:
            raise FieldProblems(problems)
        return self

    @model_validator(mode="after")
    def _one_bill(self) -> ReviewFile:
        if self.bill is not None and self.bill_usd_per_month is not None:
            raise FieldProblem(("bill_usd_per_month",), "is given in addition to 'bill'", "Keep one of the two")
        return self


@dataclass(frozen=True, eq=False)
class ReviewInputs:
    """Everything of a review file, read."""

    spec: ReviewFile
    last: Plan
    log: UsageLog
    span: Span
    """the hours under review"""
    next_case: Case
    """before any rates of the log, planned around what is held"""
    held: HeldNext
    document: Document
    history: Path | None
    bill: Bill | None = None
    prices: tuple[BillPrice, ...] = ()
    """of the bill, at which the next plan is made"""


def read_review(path: Path | str, files: NamedFiles | None = None) -> ReviewInputs:
    """Read a review file and what it names; raises InputError with what is wrong.

    `files` says where the files that it names may be, and remembers them.
    """
    files = files or NamedFiles()
    files.check_given(path)
    document = read_yaml(path)
    spec = validate(ReviewFile, document)
    last_plan = files.beside(document, ("last_plan",), spec.last_plan)
    last = _named(document, ("last_plan",), last_plan, _checked_plan)
    usage = files.beside(document, ("usage",), spec.usage)
    whose, zone = only(last), last.case.time_zone
    log = _named(document, ("usage",), usage, lambda file: read_log(file, whose, zone, spec.columns))
    span = span_of(log, spec.period, spec.usage)
    case, starts = last.case, None
    have: tuple[Holding, ...] = ()
    if spec.next.demand is not None:
        demand = files.beside(document, ("next", "demand"), spec.next.demand)
        case = _named(document, ("next", "demand"), demand, lambda file: load_case(file, files))
        _check_quarter(case, spec, document)
        starts, have = case.starts, _have(demand, case)
    if any(w.month_factors is not None for w in last.case.workloads):
        message = "it has workloads with dates (from, until or steps), which a review cannot compare with a log yet"
        raise InputError([document.diagnostic(("last_plan",), message, "Plan the quarter without dates")])
    bill = _bill(document, spec, files, {**last.case.offers, **case.offers}, {**last.case.apis, **case.apis},
                 span.times(log))  # fmt: skip
    prices: tuple[BillPrice, ...] = ()
    if bill is not None and spec.next.prices_of_bill:
        case, prices = at_prices_of_bill(case, bill)
    if spec.next.catalog is not None:
        catalog = files.beside(document, ("next", "catalog"), spec.next.catalog)
        case = _at_prices_of(_named(document, ("next", "catalog"), catalog, read_yaml), case)
    case = _at_new_prices(case, spec, document)
    said = starts or spec.next.starts
    held = held_next(document, spec.committed, have, last, case, said or _day_after(log, span))
    held = with_savings_plans(held, bill, case)
    if spec.next.looks_ahead and held.first.day != 1:
        message = f"must begin with a month, but the next quarter begins on {held.first}"
        remedy = "Write the first day of a month as next: {starts: ...}"
        raise InputError([document.diagnostic(spec.next.where_ahead, message, remedy, at_key=True)])
    return ReviewInputs(
        spec=spec,
        last=last,
        log=log,
        span=span,
        next_case=planned_around(case, held, said is not None),
        held=held,
        document=document,
        history=_history(document, spec.history, files.root),
        bill=bill,
        prices=_still(prices, case),
    )


def _check_quarter(case: Case, spec: ReviewFile, document: Document) -> None:
    """Raise InputError where the next demand file is not one quarter as it is forecast."""
    path, starts = ("next", "demand"), spec.next.starts
    if case.future is not None:
        message = "it has 'horizon', 'scenarios', 'unused_after_horizon' or 'max_liability'"
        remedy = "Leave them out: a review plans one quarter"
        raise InputError([document.diagnostic(path, message, remedy)])
    if starts is not None and case.starts is not None and starts != case.starts:
        message = f"is {starts}, but the demand file starts on {case.starts}"
        raise InputError([document.diagnostic(("next", "starts"), message, "Keep one of the two")])
    if any(w.month_factors is not None for w in case.workloads) and spec.next.forecast == "actuals":
        message = "it has workloads with dates (from, until or steps), but their rates come from the log"
        raise InputError([document.diagnostic(path, message, "Write forecast: given, or leave the dates out")])


def _have(demand: Path, case: Case) -> tuple[Holding, ...]:
    """What a demand file that was loaded lists under `have`, those too that lapse within the quarter."""
    spec = validate(DemandFile, read_yaml(demand))
    return tuple(holding_of(entry, offers_called(entry.offer, case.offers)[0]) for entry in spec.have)


def _day_after(log: UsageLog, span: Span) -> date:
    last: date = (log.first + (span.stop - 1) * HOUR).astype("datetime64[D]").astype(date)
    return last + timedelta(days=1)


def _bill(
    document: Document,
    spec: ReviewFile,
    files: NamedFiles,
    offers: Mapping[str, Offer],
    apis: Collection[str],
    period: tuple[datetime, datetime],
) -> Bill | None:
    if spec.bill is None:
        return None
    for sku, name in spec.bill.skus.items():
        if name not in offers and name not in apis and name != NOT_OURS:
            message = f"no instance on the menu and no API is called '{name}'"
            remedy = did_you_mean(name, [*offers, *apis]) or f"Write {NOT_OURS} if it is not part of the plan"
            raise InputError([document.diagnostic(("bill", "skus", sku), message, remedy)])
    exports = [files.beside(document, ("bill",), name) for name in spec.bill.focus]
    for k, file in enumerate(exports):
        if file in exports[:k]:
            message = f"'{spec.bill.focus[k]}' is named twice"
            raise InputError([document.diagnostic(("bill",), message, "Name each file once")])
    bill, rates = spec.bill, _rates(document, spec, period)
    return _named(document, ("bill",), exports[0], lambda _: read_bill(exports, bill, offers, apis, period, rates))


def _rates(document: Document, spec: ReviewFile, period: tuple[datetime, datetime]) -> dict[str, Rate]:
    """Rates by currency; raises InputError where one is of no month under review."""
    first, last = period[0].date(), (period[1] - timedelta(hours=1)).date()
    diagnostics = []
    for code, given in spec.rates.items():
        try:
            check_day(given.rate, first, last)
        except Problem as problem:
            diagnostics.append(document.diagnostic(("rates", code, "date"), problem.message, problem.remedy))
    if diagnostics:
        raise InputError(diagnostics)
    return {code: given.rate for code, given in spec.rates.items()}


def _still(prices: tuple[BillPrice, ...], case: Case) -> tuple[BillPrice, ...]:
    """Prices of the bill, taken or not, that no other file replaced."""
    return tuple(
        p
        for p in prices
        if usd_per_h(case.offers[p.offer].prices, p.purchase) == (p.usd_per_h if p.taken else p.before_usd_per_h)
    )


def _history(document: Document, name: str | None, root: Path | None) -> Path | None:
    """The folder of past reviews; they are read, and one that is made again may be written over."""
    if name is None:
        return None
    files = NamedFiles(root)
    folder = files.beside(document, ("history",), name)
    if not folder.is_dir():
        diagnostic = document.diagnostic(("history",), f"'{name}' is not a folder", "Create it, or leave this key out")
        raise InputError([diagnostic])
    for file in folder.glob("*.json"):
        files.beside(document, ("history",), str(Path(name) / file.name))
    return folder


def only(plan: Plan) -> str | None:
    """The workload that a log without a column of them is about."""
    return plan.workloads[0].name if len(plan.workloads) == 1 else None


def _checked_plan(file: Path) -> Plan:
    plan = read_plan(file)
    broken = check_plan(plan.as_json(), screened=True)
    if broken:
        raise InputError(
            [Diagnostic(str(file), None, None, "", f"this plan fails its check: {broken[0]}", "Plan it again")]
        )
    return block_of(plan)


def _named(document: Document, path: tuple[str | int, ...], file: Path, read: Callable[[Path], T]) -> T:
    """A file that a key names; where it cannot be read at all, the key is what is wrong."""
    try:
        return read(file)
    except InputError as error:
        if len(error.diagnostics) > 1 or error.diagnostics[0].line is not None or file.exists():
            raise
        why = error.diagnostics[0]
        raise InputError([document.diagnostic(path, f"'{file.name}': {why.message}", why.remedy)]) from None


def _at_prices_of(catalog: Document, case: Case) -> Case:
    """The case at the prices that a catalog file gives; others stay as they are."""
    given = own_offers(catalog)
    offers = dict(case.offers)
    for key in given.keys() & offers.keys():
        new = {way: getattr(given[key].prices, way) for way in catalog.data["offers"][key].get("prices", {})}
        prices = offers[key].prices.model_copy(update=new)
        offers[key] = offers[key].model_copy(update={"prices": prices})
    if not given.keys() & offers.keys():
        message = "prices none of the instances on the menu"
        raise InputError([catalog.diagnostic((), message, f"They are called like {min(offers)}")])
    return case.model_copy(update={"offers": offers})


def _at_new_prices(case: Case, spec: ReviewFile, document: Document) -> Case:
    offers, diagnostics = dict(case.offers), []
    for name, own in spec.next.prices.items():
        keys = offers_called(name, offers)
        if not keys:
            known = sorted({key.split("@")[0] for key in offers})
            message = f"no instance on the menu is called '{name}'"
            diagnostics.append(document.diagnostic(("next", "prices", name), message, did_you_mean(name, known)))
        for key in keys:
            offers[key] = repriced(offers[key], own, document.file)
    if diagnostics:
        raise InputError(diagnostics)
    return case.model_copy(update={"offers": offers}) if spec.next.prices else case
