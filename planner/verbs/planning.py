"""Verbs that search: plan, explain, study and what-if."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from planner.case.case import Case
from planner.case.demand.load import check_decided
from planner.io.errors import OutOfTime, did_you_mean, input_error, shown
from planner.io.named_files import NamedFiles
from planner.io.result import Result
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import LeftOut, Part, Plan
from planner.plan.study_records import Why
from planner.verbs.opening import CaseOrFile, PlanOrFile, block, case_of
from solvers.backends.clock import Limit, Stopped, TimeIsUp, check, limited_to, stop_is_asked, stoppable
from solvers.search.fleet_solution import Options, Progress

if TYPE_CHECKING:
    from planner.explanations.records import Explanation
    from planner.pipeline import Kept, OnKept
    from planner.studies.overrides import Override, Scenario, Source
    from planner.studies.sweep import Shape, Sweep
    from planner.studies.what_if_file import WhatIfFile

PLAN_FRAC = 0.6
"""share of a time limit that comes first, where more is asked for after it"""
SAMPLE_S = 5.0
"""of a time limit that must be left for a sample of requests to be served"""
TUNED_FOR = "20%"
"""error of the forecast that a controller is tuned for where nobody says"""
SHORTEST_S = 0.001
"""the least time given to a task"""
PLAN_GAP, MANY_GAP = 0.001, 0.01
"""as near as plan itself, and for the many points of a frontier, or for the many quarters of a horizon"""
SEARCH_S = 60.0
"""of each search of a what-if"""
OnProgress = Callable[[Progress], None]
Values = str | float | int | bool | Sequence[object]


def silent(progress: Progress) -> None:
    """Say nothing of what is going on."""


# -- plan -------------------------------------------------------------------------------------------------


@stoppable()
def plan_fleet(
    case: CaseOrFile,
    options: Options | None = None,
    on_progress: OnProgress = silent,
    *,
    verify: bool = False,
    sample: bool = False,
    study: bool = False,
    root: Path | str | None = None,
    accept_guesses: bool = False,
) -> Plan | HorizonPlan:
    """The cheapest fleet for a case or a demand file, checked; for one with a horizon or scenarios, what to sign when.

    `verify` serves the plan, and plans again where it misses a promise; `sample` serves some requests of its busiest
    hours and says what they showed; `study` adds what each lever saves, break-even
    and other providers. The time limit of the options holds for all of it. Raises Infeasible where no fleet can do it,
    OutOfTime where the time limit came before the first plan, and InputError for a file whose `decide:` names guesses
    that are not accepted.
    """
    read = case_of(case, root)
    if not isinstance(case, Case) and not accept_guesses:
        check_decided(read)
    return planned(read, options, on_progress, verify=verify, sample=sample, study=study).plan


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan, and what was asked for with it."""

    plan: Plan | HorizonPlan
    """with its studies"""
    explanation: Explanation | None = None
    steps: Mapping[str, Plan] | None = None
    """the plans of the waterfall's steps; None where there is no study"""
    interrupted: bool = False
    """somebody ended the work early"""


@dataclass(frozen=True, eq=False)
class KeptWork:
    """What there is of a plan, and of what was asked for with it, in case that nothing more comes of it."""

    plan: Kept | HorizonPlan
    steps: Mapping[str, Plan] | None = None

    def ended(self, why: Why) -> Planned:
        """It with the reason why that is all."""
        from planner.optimization.horizon import as_stopped

        plan = as_stopped(self.plan, why) if isinstance(self.plan, HorizonPlan) else self.plan.ended(why)
        return Planned(plan, None, self.steps, why == "interrupted")


@stoppable()
def planned(
    case: Case,
    options: Options | None = None,
    on_progress: OnProgress = silent,
    *,
    verify: bool = False,
    sample: bool = False,
    study: bool = False,
    explain: bool = False,
    autoscaler: str | None = None,
    forecast_error: str | None = None,
    on_plan: Callable[[Plan], None] = lambda plan: None,
    on_kept: Callable[[KeptWork], None] = lambda kept: None,
) -> Planned:
    """A plan, with studies and an explanation where time allows; a wish to stop keeps what there is by then.

    `on_plan` gets every checked plan before it is served, `on_kept` all that there is on the way.
    """
    options = options or Options()
    if case.future is not None:
        from planner.pipeline import plan_horizon

        wanted = {"verify": verify or autoscaler is not None, "study": study, "explain": explain}
        _refuse_for_a_horizon(case, wanted)
        horizon = plan_horizon(case, options, on_progress, lambda plan: on_kept(KeptWork(plan)))
        return Planned(horizon, interrupted=horizon.interrupted)
    from planner.pipeline import Kept

    limit = Limit.of(options.time_limit_s)
    sample = sample and not verify and _can_serve()

    asked: dict[Part, bool] = {"sampled": sample, "operation": autoscaler is not None}
    to_come = [part for part, wanted in asked.items() if wanted]

    def keep(kept: Kept) -> None:
        on_kept(KeptWork(replace(kept, missing=(*kept.missing, *to_come))))

    later = study or explain or autoscaler is not None
    plan = _first_plan(case, options, on_progress, PLAN_FRAC if later else 1.0, verify, on_plan, keep)
    explanation, steps = None, None
    if sample and not plan.interrupted:
        keep(Kept(plan, ()))
        plan = _with_sample(plan, limit, on_progress)
        to_come.remove("sampled")
    if autoscaler is not None and not plan.interrupted:
        keep(Kept(plan, ()))
        plan = _operated(plan, autoscaler, forecast_error, limit, on_progress)
    if study and not plan.interrupted:
        from planner.studies.study import study as study_plan

        on_kept(KeptWork(Kept(plan, ())))
        with suppress(Stopped):
            plan, steps = study_plan(plan, within(options, limit, PLAN_FRAC if explain else 1.0), on_progress)
    stopped = plan.interrupted or stop_is_asked() or studies_interrupted(plan)
    if explain and not stopped:
        from planner.explanations.explain import explain as explain_plan

        on_kept(KeptWork(Kept(plan, ()), steps))
        with suppress(Stopped):
            explanation = explain_plan(plan.case, plan, within(options, limit), on_progress)
    return Planned(plan, explanation, steps, stopped or stop_is_asked())


def _with_sample(plan: Plan, limit: Limit, on_progress: OnProgress) -> Plan:
    from planner.verification.compiled import NotCompiled, as_compiled_before
    from planner.verification.quick_sample import can_be_sampled, with_sample

    def tell(what: str, done: float) -> None:
        on_progress(Progress(f"a sample: {what}", None, None))

    def sampled() -> Plan:
        if limit.left_s <= SAMPLE_S:
            raise TimeIsUp(limit.deadline)
        try:
            with as_compiled_before():
                return with_sample(plan, tell) if can_be_sampled(plan) else plan
        except NotCompiled:  # who asks for `verify` waits for it
            return plan

    return _with(plan, "sampled", sampled, limit)


def _operated(plan: Plan, autoscaler: str, forecast_error: str | None, limit: Limit, on_progress: OnProgress) -> Plan:
    """The plan with a controller tuned for it."""
    require_numba()
    from planner.verbs.autoscalers import controller_named, forecast_error_of
    from planner.verification.differs import differs_from
    from planner.verification.tuning import with_operation

    differs = differs_from(forecast_error_of(forecast_error) or TUNED_FOR, None)
    controller = controller_named(autoscaler, plan)

    def tell(what: str, done: float) -> None:
        on_progress(Progress(f"tuning {controller.name}: {what}", None, None))

    error_frac = 0.0 if differs is None else differs.error_frac
    return _with(plan, "operation", lambda: with_operation(plan, controller, error_frac, tell), limit)


def _with(plan: Plan, part: Part, completed: Callable[[], Plan], limit: Limit) -> Plan:
    """The plan with one more part; where time is short it says that this was left out."""
    from planner.pipeline import why

    try:
        with limited_to(limit.left_s):
            return completed()
    except Stopped as stop:
        missing = LeftOut(what=part, why=why(stop))
    return plan.model_copy(update={"left_out": (*(plan.left_out or ()), missing)})


def _first_plan(
    case: Case,
    options: Options,
    on_progress: OnProgress,
    share: float,
    verify: bool,
    on_plan: Callable[[Plan], None] = lambda plan: None,
    on_kept: OnKept = lambda kept: None,
) -> Plan:
    """The plan within a share of the time limit; a limit that was too short is named as it was given."""
    limit_s = options.time_limit_s
    limited = options if limit_s is None else replace(options, time_limit_s=share * limit_s)
    try:
        if not verify:
            from planner.pipeline import plan_fleet as plan_case

            return plan_case(case, limited, on_progress, on_kept)
        require_numba()
        from planner.studies.verified_plan import plan_and_verify
        from planner.verification.serving import AS_PLANNED

        return plan_and_verify(case, limited, AS_PLANNED, on_progress, on_plan, on_kept)
    except OutOfTime as stop:
        raise OutOfTime(limit_s or stop.limit_s, stop.doing, stop.needed_s / share) from None


def within(options: Options, limit: Limit, share: float = 1.0) -> Options:
    """Options whose time limit is a share of what is left of one that holds for more."""
    if options.time_limit_s is None:
        return options
    return replace(options, time_limit_s=max(SHORTEST_S, share * limit.left_s))


def _refuse_for_a_horizon(case: Case, asked: dict[str, bool]) -> None:
    """Refuse what only plans of one quarter have."""
    for what in (what for what, wanted in asked.items() if wanted):
        remedy = f"Plan it first, then {what} one quarter of the plan"
        raise input_error(what, f"is for plans of one quarter, but {case.name} has a horizon or scenarios", remedy)


def studies_interrupted(plan: Plan) -> bool:
    """Whether somebody ended the studies early."""
    return plan.studies is not None and plan.studies.interrupted


def check_autoscaler(autoscaler: str | None, forecast_error: str | None) -> None:
    """Refuse what cannot be tuned before anything is planned."""
    from planner.case.controller import controllers

    if autoscaler is None:
        if forecast_error is not None:
            raise input_error("--forecast-error", "is for --autoscaler", "Add --autoscaler keda")
        return
    names = [name for name, c in controllers().items() if c.can_be_tuned]
    if autoscaler not in names:
        message = f"{shown(autoscaler)} is not a controller that can be tuned"
        raise input_error("--autoscaler", message, f"Give one of {', '.join(names)}")
    if forecast_error is not None:
        from planner.verbs.autoscalers import forecast_error_of
        from planner.verification.differs import differs_from

        differs_from(forecast_error_of(forecast_error), None)


def _can_serve() -> bool:
    from importlib.util import find_spec

    return find_spec("numba") is not None


def require_numba() -> None:
    """Raise InputError where plans cannot be served."""
    if not _can_serve():
        raise input_error("verify", "needs numba, which is not installed", "Install fleetplan[verify]")


# -- explain and study ------------------------------------------------------------------------------------


@stoppable()
def explain(
    source: Case | PlanOrFile,
    plan: Plan | None = None,
    options: Options | None = None,
    on_progress: OnProgress = silent,
    workload: str | None = None,
    *,
    quarter: int | None = None,
    scenario: str | None = None,
    root: Path | str | None = None,
) -> Explanation:
    """What each lever of a plan saves, what relaxing each limit would, and the runner-up; each a plan of its own.

    `source` is a plan or its file; or a case or demand file, which is planned first unless its `plan` is given. The
    time limit of the options holds for all of it, and Ctrl-C keeps what is known. With `workload`, only what is its
    own.
    """
    from planner.explanations import explain as explaining

    options = options or Options()
    limit = Limit.of(options.time_limit_s)
    given = plan if plan is not None else _plan_given(source, quarter, scenario)
    case = given.case if given is not None else _case_given(source, root)
    names = [w.name for w in case.workloads]
    if workload is not None and workload not in names:
        raise input_error("--workload", f"there is no workload {shown(workload)}", did_you_mean(workload, names))
    of = given or _first_plan(case, options, on_progress, PLAN_FRAC, False)
    return explaining.explain(of.case, of, within(options, limit), on_progress, workload)


def _plan_given(source: Case | PlanOrFile, quarter: int | None, scenario: str | None) -> Plan | None:
    """The plan that is given, or that of a file; None where there is only a case."""
    if isinstance(source, Case) or (isinstance(source, Path | str) and Path(source).suffix.lower() != ".json"):
        for flag, given in (("--quarter", quarter), ("--scenario", scenario)):
            if given is not None:
                raise input_error(flag, "works only with a saved plan", "Plan with --out plan.json, and give that")
        return None
    return block(source, quarter, scenario)


def _case_given(source: Case | PlanOrFile, root: Path | str | None) -> Case:
    assert not isinstance(source, Plan | HorizonPlan)
    case = case_of(source, root)
    if not isinstance(source, Case):
        check_decided(case)
    return case


@dataclass(frozen=True, repr=False)
class Studied(Result):
    """A plan with its studies, and the plans of the waterfall's steps."""

    plan: Plan
    steps: Mapping[str, Plan]

    @property
    def interrupted(self) -> bool:
        return studies_interrupted(self.plan)

    def __iter__(self) -> Iterator[Plan | Mapping[str, Plan]]:
        """As in `plan, steps = planner.study(plan)`."""
        return iter((self.plan, self.steps))


@stoppable()
def study(
    plan: PlanOrFile,
    options: Options | None = None,
    on_progress: OnProgress = silent,
    only: str | None = None,
    *,
    quarter: int | None = None,
    scenario: str | None = None,
) -> Studied:
    """What each lever saves (waterfall), from which volume hosting pays (break-even), and other providers' bills.

    `only` asks for one of them: waterfall, break-even or providers. Ctrl-C keeps what is known; so does the time limit
    of the options, which holds for all of them together.
    """
    from planner.studies.study import KINDS
    from planner.studies.study import study as study_plan

    if only is not None and only not in KINDS:
        raise input_error("--only", f"there is no study {shown(only)}", f"Give one of {', '.join(KINDS)}")
    options = options or Options()
    limit = Limit.of(options.time_limit_s)
    one = block(plan, quarter, scenario)
    return Studied(*study_plan(one, within(options, limit), on_progress, only))


# -- what-if ----------------------------------------------------------------------------------------------


@stoppable()
def what_if(
    case: CaseOrFile | Source,
    *,
    budgets: Iterable[float | str] = (),
    changes: Mapping[str, Values] | Iterable[str] = (),
    scale: Mapping[str, Values] | Iterable[str] = (),
    without: Iterable[str] = (),
    only: Mapping[str, Values] | Iterable[str] = (),
    file: Path | str | WhatIfFile | None = None,
    each: bool = False,
    shed: str | None = None,
    options: Options | None = None,
    executor: str = "in-process",
    journal: Path | None = None,
    on_shape: Callable[[Shape], None] | None = None,
    on_done: Callable[[int, int], None] = lambda done, total: None,
    on_progress: OnProgress = silent,
    root: Path | str | None = None,
) -> Sweep:
    """Plan a case again with other budgets, prices, objectives or demand; a row for each run and budget.

    `budgets` are USD a month, or ranges such as "20k:120k:12". `changes` has values by path, a list of them for several
    runs, as in {"policy.min_replicas": [2, 3]}; `scale` multiples of demand, as in {"demand": [0.5, 2]}; `without` what
    is left out, as in ["spot"]; `only` what a list of the menu keeps, as in {"gpus": ["l4", "h100"]}. Texts as the
    command takes them (PATH=VALUE,...) do as well. All combinations are planned; with `each`, one change at a time.
    `file` is a what-if file, and `shed` (low, normal or high) lets requests be shed where the file does not say. The
    options hold for each search; without them it ends after 60 s, or within 0.1%, of budgets and horizons within 1%.
    """
    from planner.studies.executing.executors import executor_from
    from planner.studies.overrides import Source
    from planner.studies.sweep import sweep

    of_file = _read_what_if(file, root)
    asked = {"set": changes, "scale": scale, "without": without, "only": only}
    runs, amounts = _runs_asked(budgets, asked, of_file, each)
    if shed is not None:
        runs = [_shedding(run, shed) for run in runs]
    source = case if isinstance(case, Source) else Source(case, NamedFiles(None if root is None else Path(root)))
    if not isinstance(case, Case):
        check_decided(source.case)
    options = options or Options(gap_frac=what_if_gap(source.case, bool(amounts)), time_limit_s=SEARCH_S)
    with executor_from(executor) as workers:
        swept = sweep(source, runs, amounts, options, workers, journal, on_shape, on_done, on_progress)
    check()
    return swept


def what_if_gap(case: Case, has_budgets: bool) -> float:
    """How near searches come where nobody says."""
    return MANY_GAP if has_budgets or case.future is not None else PLAN_GAP


def _read_what_if(file: Path | str | WhatIfFile | None, root: Path | str | None) -> WhatIfFile:
    from planner.studies.what_if_file import WhatIfFile, read_what_if

    if file is None or isinstance(file, WhatIfFile):
        return file or WhatIfFile()
    NamedFiles(None if root is None else Path(root)).check_given(file)
    return read_what_if(file)


def _runs_asked(
    budgets: Iterable[float | str],
    changes: Mapping[str, Mapping[str, Values] | Iterable[str]],
    of_file: WhatIfFile,
    each: bool,
) -> tuple[list[Scenario], list[float]]:
    from planner.studies.overrides import grid, options_of, steps

    inputs: list[tuple[Override, ...]] = [*of_file.grid]
    inputs += [tuple(options_of(kind, text)) for kind, given in changes.items() for text in _texts(kind, given)]
    texts = [*of_file.budgets, *(b if isinstance(b, str) else f"{b:.15g}" for b in budgets)]
    amounts = [usd for text in texts for usd in steps(text, f"--budget {text}", log=False)]
    runs = grid(inputs, each, of_file.runs)
    if len(runs) == 1 and not amounts:
        remedy = "Add --budget 40k, --set PATH=VALUE, --scale demand=2 or --without spot"
        raise input_error("what-if", "nothing would change", remedy)
    return runs, amounts


def _texts(kind: str, given: Mapping[str, Values] | Iterable[str]) -> Iterator[str]:
    """Changes as the command takes them."""
    from planner.studies.overrides import flow

    if isinstance(given, str):
        raise input_error(f"--{kind}", f"expected a list, got the text {shown(given)}", f"Write [{given!r}]")
    if not isinstance(given, Mapping):
        yield from given
        return
    for path, values in given.items():
        several = values if isinstance(values, list | tuple) else [values]
        yield f"{path}={','.join(map(flow, several))}"


def _shedding(run: Scenario, priority: str) -> Scenario:
    from planner.studies.overrides import Override

    return replace(run, changes=(*run.changes, Override("shed", "shed", priority)), name=run.label)
