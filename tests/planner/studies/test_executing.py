"""Sweeps here and in processes: the same results everywhere, lost workers replaced, and journals that resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import psutil
import pytest

import planner
from planner.case.case import case_from_json
from planner.io.errors import InputError
from planner.studies.executing.executors import executor_from
from planner.studies.executing.jobs import Job, Result, Work, failed
from planner.studies.executing.plan_case import FIGURES, plan_case
from planner.studies.executing.run import run_jobs
from solvers.backends.clock import Stopped
from tests.support.command_line import SMALL
from tests.support.executing_work import deadly_square, noted_square, picky_square, ran, square, squares
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.places import ROOT
from tests.support.rows import for_each

SWEEP = """\
import sys
from pathlib import Path
from tests.support.executing_work import noted_square, squares
from planner.studies.executing.executors import executor_from
from planner.studies.executing.run import run_jobs

if __name__ == "__main__":
    executor, journal, folder = sys.argv[1:]
    with executor_from(executor) as chosen:
        run_jobs(noted_square, squares(40, folder=folder), chosen, Path(journal))
"""
"""the same 40 jobs as `forty`"""


def sweep_until_interrupted(executor: str, journal: Path, folder: Path, number: int = signal.SIGINT) -> None:
    """A sweep in a process of its own that is interrupted once it has some results."""
    folder.mkdir()
    (folder / "slow").touch()
    process = subprocess.Popen(
        [sys.executable, "-c", SWEEP, executor, journal, folder], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )

    def some_are_there() -> bool:
        assert process.poll() is None
        return journal.exists() and journal.read_bytes().count(b"\n") >= 6

    wait_until(some_are_there)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in err


def forty(folder: Path) -> list[Job]:
    return squares(40, folder=str(folder))


def the_table() -> dict[str, dict[str, object]]:
    return {f"x={x}": {"status": "done", "x": x, "square": [x * x]} for x in range(40)}


def is_resumed(journal: Path, folder: Path) -> None:
    """What the journal had is not run again, and the table is whole."""
    (folder / "slow").unlink()
    had = {json.loads(line)["key"] for line in journal.read_text().splitlines()[1:] if line.endswith("}")}
    before = {x: len(ran(folder, x)) for x in range(40)}
    assert 5 <= len(had) < 40
    with executor_from("in-process") as here:
        told: list[tuple[int, int]] = []
        found = run_jobs(noted_square, forty(folder), here, journal, lambda job, result, n, of: told.append((n, of)))
    assert found == the_table()
    assert list(found) == [job.key for job in forty(folder)]
    assert [n for n, _ in told] == list(range(len(had) + 1, 41)) and {of for _, of in told} == {40}
    for x in range(40):
        assert len(ran(folder, x)) == before[x] + (f"x={x}" not in had)


def is_alive(pid: int) -> bool:
    """Orphans that nobody collects are dead as well."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("executor", ["in-process", "processes:2"])
def test_results_come_by_key_in_the_order_of_the_jobs(executor: str) -> None:
    jobs = squares(25)[::-1]
    with executor_from(executor) as chosen:
        found = run_jobs(square, jobs, chosen)
    assert list(found) == [job.key for job in jobs]
    assert all(found[job.key]["square"] == [job.payload["x"] ** 2] for job in jobs)


@pytest.mark.parametrize("executor", ["in-process", "processes:2"])
def test_a_job_that_fails_is_a_result_and_is_not_run_again(executor: str, tmp_path: Path) -> None:
    jobs = squares(6, folder=str(tmp_path))
    with executor_from(executor) as chosen:
        found = run_jobs(picky_square, jobs, chosen, tmp_path / "journal")
        again = run_jobs(picky_square, jobs, chosen, tmp_path / "journal")
    assert found == again
    assert [failed(result) for result in found.values()] == [False, True, True, True, False, False]
    assert found["x=1"]["error"] == "ValueError: no ones"
    assert found["x=2"]["error"] == "SystemExit: 3"
    assert "JSON" in found["x=3"]["error"]
    assert jobs[4].payload["x"] == 4
    assert [len(ran(tmp_path, x)) for x in range(6)] == [1] * 6


def known_here_only() -> Work:
    """A function of a module that no worker can import."""
    module = ModuleType("known_here_only")
    exec("def work(payload):\n    return payload\n", module.__dict__)
    sys.modules["known_here_only"] = module
    return module.work


def test_work_that_a_worker_cannot_import_is_an_error_and_tried_again_on_resuming(tmp_path: Path) -> None:
    with executor_from("processes:1") as there:
        found = run_jobs(known_here_only(), squares(2), there, tmp_path / "journal")
    assert [failed(result) for result in found.values()] == [True, True]
    assert "known_here_only" in found["x=0"]["error"]
    with executor_from("in-process") as here:
        assert run_jobs(known_here_only(), squares(2), here, tmp_path / "journal") == {"x=0": {"x": 0}, "x=1": {"x": 1}}


def test_processes_are_several(tmp_path: Path) -> None:
    (tmp_path / "slow").touch()
    with executor_from("processes:2") as chosen:
        run_jobs(noted_square, squares(8, folder=str(tmp_path)), chosen)
    pids = {pid for x in range(8) for pid in ran(tmp_path, x)}
    assert len(pids) == 2 and os.getpid() not in pids


def test_a_worker_that_dies_is_replaced_and_its_job_retried(tmp_path: Path) -> None:
    jobs = [Job(f"x={x}", {"x": x, "folder": str(tmp_path), "deaths": {3: 1, 7: 3}.get(x, 0)}) for x in range(12)]
    with executor_from("processes:2") as chosen:
        found = run_jobs(deadly_square, jobs, chosen)
    assert found == {job.key: {"status": "done", "x": x, "square": [x * x]} for x, job in enumerate(jobs)}
    assert [len(ran(tmp_path, x)) for x in range(12)] == [{3: 2, 7: 4}.get(x, 1) for x in range(12)]


def test_a_job_that_kills_every_worker_is_given_up_and_tried_again_on_resuming(tmp_path: Path) -> None:
    jobs = [Job(f"x={x}", {"x": x, "folder": str(tmp_path), "deaths": 4 if x == 2 else 0}) for x in range(5)]
    with executor_from("processes:2") as chosen:
        found = run_jobs(deadly_square, jobs, chosen, tmp_path / "journal")
        assert [failed(result) for result in found.values()] == [False, False, True, False, False]
        assert found["x=2"]["error"] == "its worker was lost 4 times"
        resumed = run_jobs(deadly_square, jobs, chosen, tmp_path / "journal")
        assert resumed["x=2"]["square"] == [4]
        assert run_jobs(deadly_square, jobs, chosen, tmp_path / "journal") == resumed
    assert [len(ran(tmp_path, x)) for x in range(5)] == [1, 1, 5, 1, 1]


def test_workers_that_cannot_start_are_a_complaint(tmp_path: Path) -> None:
    """A script without the guard starts itself again in each worker."""
    script = tmp_path / "unguarded.py"
    guarded = SWEEP.replace('if __name__ == "__main__":', "if True:")
    script.write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{guarded}")
    command = [sys.executable, script, "processes:1", tmp_path / "journal", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert "if __name__ == '__main__'" in done.stderr.splitlines()[-1]


@for_each("number", [signal.SIGINT, signal.SIGKILL])
@for_each("executor", ["in-process", "processes:2"])
def test_an_interrupted_sweep_resumes(executor: str, number: int, tmp_path: Path) -> None:
    journal, folder = tmp_path / "sweep.jsonl", tmp_path / "ran"
    sweep_until_interrupted(executor, journal, folder, number)
    pids = {pid for x in range(40) for pid in ran(folder, x)}
    wait_until(lambda: not any(is_alive(pid) for pid in pids))
    is_resumed(journal, folder)


def test_a_journal_cut_anywhere_resumes(tmp_path: Path) -> None:
    journal, jobs = tmp_path / "journal", squares(2)
    done: list[str] = []
    with executor_from("in-process") as here:
        found = run_jobs(square, jobs, here, journal)
        whole = journal.read_bytes()
        for length in range(len(whole)):
            journal.write_bytes(whole[:length])
            done.clear()
            assert run_jobs(square, jobs, here, journal, lambda job, *_: done.append(job.key)) == found
            kept = max(whole[:length].count(b"\n") - 1, 0)
            assert done == [job.key for job in jobs][kept:]
            assert journal.read_bytes() == whole


def refused(journal: Path, jobs: list[Job]) -> str:
    before = journal.read_bytes() if journal.is_file() else None
    with executor_from("in-process") as here, pytest.raises(InputError) as diagnostic:
        run_jobs(square, jobs, here, journal)
    assert (journal.read_bytes() if journal.is_file() else None) == before
    (told,) = diagnostic.value.diagnostics
    assert told.file == str(journal)
    return str(diagnostic.value).partition(f"/{journal.name}")[2]


def test_a_journal_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    journal, jobs = tmp_path / "journal", squares(3)
    with executor_from("in-process") as here:
        run_jobs(square, jobs, here, journal)
        assert run_jobs(square, jobs[::-1], here, journal)["x=2"]["square"] == [4]
        with pytest.raises(InputError, match="sweep with other inputs"):
            run_jobs(noted_square, jobs, here, journal)
    other = [*jobs[:2], Job("x=2", {"x": 3})]
    for changed in (squares(2), squares(4), other, squares(3, more=1)):
        assert "sweep with other inputs" in refused(journal, changed)
    whole = journal.read_text()
    for content, message in (
        (whole.replace("journal/1", "journal/2"), ": is a journal of another format"),
        ("workloads:\n  - name: chat\n", ": is not a journal. Name another file"),
        ("workloads", ": is not a journal"),
        ("[1]\n", ": is not a journal"),
        ("\n" + whole, ": is not a journal"),
        (whole.replace('{"key":"x=1"', '{"key":"x=9"'), ":3: this line is not one of this sweep's results. Delete"),
        (whole.replace('{"key":"x=1"', '"key":"x=1"'), ":3: this line is not one"),
        (whole.replace('"result":{', '"other":{'), ":2: this line is not one"),
        (whole + "[1]\n", ":5: this line is not one"),
    ):
        journal.write_text(content)
        assert refused(journal, jobs).startswith(message)
    assert "cannot be written: " in refused(tmp_path / "nowhere" / "journal", jobs)
    assert "cannot be written: " in refused(tmp_path, jobs)


def test_two_runs_do_not_write_one_journal(tmp_path: Path) -> None:
    journal, jobs = tmp_path / "journal", squares(2)
    with executor_from("in-process") as here:
        told: list[str] = []
        run_jobs(square, jobs, here, journal, lambda *_: told.append(refused(journal, jobs)))
    assert len(told) == 2
    assert all("another run is writing" in text for text in told)


def test_keys_must_differ() -> None:
    with executor_from("in-process") as here, pytest.raises(ValueError, match="same key"):
        run_jobs(square, [*squares(2), *squares(1)], here)


@for_each(
    ("text", "remedy"),
    [
        ("in process", "Did you mean 'in-process'?"),
        ("procesess", "Did you mean 'processes'?"),
        ("processes:", "Write processes:4"),
        ("processes:0", "Write processes:4"),
        ("processes:-1", "Write processes:4"),
        ("processes:9999", "Write processes:4"),
        ("processes:²", "Write processes:4"),
        ("dask", "Write dask://127.0.0.1:8786"),
        ("dask://host", "Write dask://127.0.0.1:8786"),
        ("dask://host:99999", "Write dask://127.0.0.1:8786"),
        ("dask://a b:1\x1b[31m", "Write dask://127.0.0.1:8786"),
        ("", "Known names: in-process, processes"),
        ("spark://host:1", "Known names: in-process, processes"),
    ],
)
def test_an_executor_that_is_none_is_refused_at_once(text: str, remedy: str) -> None:
    with pytest.raises(InputError) as diagnostic:
        executor_from(text)
    assert str(diagnostic.value).startswith("--executor: ") and remedy in str(diagnostic.value)
    assert "\x1b" not in str(diagnostic.value)


def plans() -> list[Job]:
    small = SMALL.replace("fp8, fp16", "fp8").replace("on-demand, spot, reserved-1y", "on-demand")
    texts = {f"{v}k": small.replace("400k", f"{v}k") for v in (100, 250)}
    texts["none"] = small.replace("models:", "api: forbidden\n    models:") + "policy: {budget_usd_per_month: 5}\n"
    cases = {key: planner.case_from_text(text).as_json() for key, text in texts.items()}
    return [Job(key, {"case": case, "options": {"gap_frac": 0.01}}) for key, case in cases.items()]


@cache
def plans_in_process() -> dict[str, Result]:
    with executor_from("in-process") as here:
        return run_jobs(plan_case, plans(), here)


def test_plans_say_what_a_single_plan_says() -> None:
    found = plans_in_process()
    job = plans()[1]
    single = planner.plan_fleet(case_from_json(job.payload["case"]), planner.Options(gap_frac=0.01))
    assert all(found["250k"][figure] == getattr(single, figure) for figure in FIGURES)
    assert 0 < found["100k"]["cost_usd_per_month"] < found["250k"]["cost_usd_per_month"]
    assert found["none"] == dict.fromkeys(FIGURES) | {"status": "infeasible"}


def test_plans_are_the_same_in_processes() -> None:
    with executor_from("processes:1") as there:
        assert run_jobs(plan_case, plans(), there) == plans_in_process()


def test_half_a_plan_is_no_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The solver answers Ctrl-C with the best plan so far; a journal must not take that for the plan."""
    import solvers.search.search as solver

    def interrupt(*_: object, **__: object) -> None:
        raise Stopped

    monkeypatch.setattr(solver, "ColumnGeneration", interrupt)
    with executor_from("in-process") as here, pytest.raises(Stopped):
        run_jobs(plan_case, plans(), here, tmp_path / "journal")
    assert (tmp_path / "journal").read_text().count("\n") == 1
