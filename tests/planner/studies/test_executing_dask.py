"""Sweeps on real Dask workers, each a process of its own: one is killed, all are, the scheduler goes, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="needs distributed: pip install fleetplan[dask]")

import distributed

from planner.io.errors import InputError
from planner.studies.executing import dask as cluster
from planner.studies.executing.executors import executor_from
from planner.studies.executing.jobs import Job, failed
from planner.studies.executing.plan_case import plan_case
from planner.studies.executing.run import run_jobs
from tests.planner.studies.test_executing import (
    is_resumed,
    known_here_only,
    plans,
    plans_in_process,
    sweep_until_interrupted,
)
from tests.support.executing_work import deadly_square, noted_square, picky_square, ran, square, squares
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.places import ROOT

pytestmark = pytest.mark.process

DASK = Path(sys.executable).with_name("dask")


@pytest.fixture(scope="module")
def workers() -> Iterator[Any]:
    """Two of them, which a nanny starts again when they die."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as found:
        yield found


@pytest.fixture
def address(workers: Any) -> str:
    workers.wait_for_workers(2, timeout=PATIENCE_S)
    return workers.scheduler_address.replace("tcp://", "dask://")


def test_hundreds_of_runs_survive_a_killed_worker_and_give_the_table_of_in_process(
    address: str, tmp_path: Path
) -> None:
    jobs = squares(300, folder=str(tmp_path))
    left, killed = set(range(300)), list[int]()

    def kill_one(job: Job, result: dict[str, Any], done: int, total: int) -> None:
        """One that has a job, once there are results."""
        left.remove(job.payload["x"])
        busy = [pid for x in left for pid in ran(tmp_path, x)] if done >= 100 and not killed else []
        (tmp_path / "slow").touch() if done >= 98 and not killed else (tmp_path / "slow").unlink(missing_ok=True)
        if busy:
            killed.append(busy[0])
            os.kill(busy[0], signal.SIGKILL)

    with executor_from(address) as chosen:
        found = run_jobs(noted_square, jobs, chosen, tmp_path / "journal", kill_one)
    where = [ran(tmp_path, x)[-1] for x in range(300)]
    with executor_from("in-process") as here:
        assert found == run_jobs(square, jobs, here)
    assert list(found) == [job.key for job in jobs]
    assert os.getpid() not in where and len(set(where)) >= 2
    assert 301 <= sum(len(ran(tmp_path, x)) for x in range(300)) <= 303
    assert killed[0] in where and killed[0] not in where[-50:]
    assert (tmp_path / "journal").read_text().count("\n") == 301


def test_plans_are_the_same_on_a_cluster(address: str) -> None:
    with executor_from(address) as there:
        assert run_jobs(plan_case, plans(), there) == plans_in_process()


def test_failures_are_results(address: str, tmp_path: Path) -> None:
    with executor_from(address) as chosen:
        found = run_jobs(picky_square, squares(6, folder=str(tmp_path)), chosen)
    assert [failed(result) for result in found.values()] == [False, True, True, True, False, False]
    assert found["x=1"]["error"] == "ValueError: no ones"


def test_work_that_a_worker_cannot_import_is_an_error(address: str) -> None:
    with executor_from(address) as chosen:
        found = run_jobs(known_here_only(), squares(2), chosen)
    assert all(failed(result) and result["lost"] for result in found.values())
    assert "known_here_only" in found["x=0"]["error"]


def test_a_job_that_kills_its_workers_is_given_up_and_no_other(tmp_path: Path) -> None:
    """Not at once: a nanny does not start a worker again that dies before it knows that it runs."""
    deaths = {3: 1, 5: 9}
    jobs = [
        Job(f"x={x}", {"x": x, "folder": str(tmp_path), "deaths": deaths.get(x, 0), "seconds": 1.5}) for x in range(9)
    ]
    own = distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=":0")
    with own, executor_from(own.scheduler_address.replace("tcp://", "dask://")) as chosen:
        found = run_jobs(deadly_square, jobs, chosen)
    assert [key for key, result in found.items() if failed(result)] == ["x=5"]
    assert found["x=5"] == {"status": "error", "error": "its worker was lost 4 times", "lost": True}
    assert 2 <= len(ran(tmp_path, 3)) <= 3 and len(ran(tmp_path, 5)) == 4


def test_ctrl_c_keeps_the_journal_and_frees_the_cluster(address: str, workers: Any, tmp_path: Path) -> None:
    journal, folder = tmp_path / "sweep.jsonl", tmp_path / "ran"
    sweep_until_interrupted(address, journal, folder)
    with distributed.Client(workers.scheduler_address, set_as_default=False) as client:
        wait_until(lambda: not any(client.processing().values()))
    is_resumed(journal, folder)


def test_workers_of_another_version_are_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = cluster._ours
    newer = {"fleetplan": "9.9.9", "no-such-package": "1.0"}
    monkeypatch.setattr(cluster, "_ours", lambda name: newer.get(name) or ours(name))
    monkeypatch.setattr(cluster, "SAME_VERSIONS", (*cluster.SAME_VERSIONS, "no-such-package"))
    others = iter(range(9))
    monkeypatch.setattr(cluster, "_minor", lambda python: next(others))
    with pytest.raises(InputError) as diagnostic, executor_from(address):
        pass
    text = str(diagnostic.value)
    assert len(text.splitlines()) == 3 and text.count("--executor: 2 workers, tcp://127.0.0.1:") == 3
    assert f"have fleetplan {ours('fleetplan')}, but 9.9.9 here" in text
    assert "have no no-such-package, but 1.0 here" in text
    assert "have Python 3." in text
    assert "pip install 'fleetplan[dask]==9.9.9'" in text


def refused(executor: str) -> str:
    with pytest.raises(InputError) as diagnostic, executor_from(executor):
        pass
    return str(diagnostic.value)


def test_no_scheduler_is_a_complaint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)
    assert "Start one there with: dask scheduler --port 9" in refused("dask://127.0.0.1:9")
    assert "no Dask scheduler answers at tcp://no.such.host.invalid:8786" in refused("dask://no.such.host.invalid:8786")


def test_dask_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "pip install 'fleetplan[dask]'" in refused("dask://127.0.0.1:8786")


def test_workers_and_schedulers_that_go_for_good_are_complaints_and_the_sweep_resumes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster, "WITHOUT_WORKERS_S", 1.0)
    monkeypatch.setattr(cluster, "LOOK_EVERY_S", 0.2)
    monkeypatch.setattr(cluster, "CONNECT_S", 2.0)
    jobs, journal = squares(30, folder=str(tmp_path)), tmp_path / "journal"
    alone = distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=":0")
    try:
        tcp, dask = alone.scheduler_address, alone.scheduler_address.replace("tcp://", "dask://")
        assert f"has no workers. Start one with: dask worker {tcp}" in refused(dask)
        for step, message in ((0, "all workers of the scheduler"), (1, "no longer answers")):
            worker = subprocess.Popen(
                [DASK, "worker", tcp, "--no-nanny", "--nthreads", "1", "--no-dashboard"],
                env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, cwd=tmp_path,
            )  # fmt: skip
            try:
                with distributed.Client(tcp, set_as_default=False) as client:
                    client.wait_for_workers(1, timeout=PATIENCE_S)

                def stop(job: Job, result: dict[str, Any], done: int, total: int, step: int = step) -> None:
                    if done == 10 * (step + 1):
                        worker.kill() if step == 0 else alone.close()  # noqa: B023

                with pytest.raises(InputError, match=message), executor_from(dask) as chosen:
                    run_jobs(noted_square, jobs, chosen, journal, stop)
                assert "distributed.client" not in caplog.text
            finally:
                worker.kill()
                worker.wait()
    finally:
        alone.close()
    assert 21 <= journal.read_text().count("\n") < 31
    with executor_from("in-process") as here:
        assert [r["x"] for r in run_jobs(noted_square, jobs, here, journal).values()] == list(range(30))
