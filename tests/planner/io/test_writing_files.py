"""Files that commands write: links followed, modes kept, devices written to, nothing overwritten that is in use."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from planner.io.errors import InputError
from planner.io.files import check_targets, check_writable, write_whole
from tests.support.command_line import SMALL, Command
from tests.support.rows import for_each


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refusal(path: Path) -> str:
    """Said by the check before the work, and by the write itself."""
    said = set()
    for attempt in (check_writable, lambda target: write_whole(target, "new")):
        with pytest.raises(InputError) as caught:
            attempt(path)
        said.add(str(caught.value))
    (only,) = said
    return only


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "plan.json", tmp_path / "latest.json"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert os.listdir(tmp_path / "folder") == ["plan.json"]


def test_a_link_to_a_file_that_is_not_there_yet_makes_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("plan.json")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "plan.json").read_text() == "new"


@pytest.mark.parametrize("bits", [0o600, 0o640, 0o666])
def test_an_existing_file_keeps_its_mode(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")
    path.chmod(bits)
    write_whole(path, "new")
    assert (mode(path), path.read_text()) == (bits, "new")


def test_a_new_file_has_the_mode_that_the_user_wants(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "plan.json", "new")
    finally:
        os.umask(before)
    assert mode(tmp_path / "plan.json") == 0o640


def test_a_read_only_file_is_refused_whoever_asks(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")
    path.chmod(0o444)
    assert refusal(path).endswith("it is read-only. Choose another name, or allow writing with chmod u+w.")
    assert path.read_text() == "old"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    write_whole(pipe, "new")
    reader.join(10)
    assert received == ["new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_is_written_to_and_takes_anything(tmp_path: Path) -> None:
    device = tmp_path / "nothing"
    device.symlink_to(os.devnull)
    check_targets({"--out": device, "--html": device}, [device])
    write_whole(device, "new")
    assert device.is_symlink()
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    write_whole(tmp_path / "table.parquet", b"\0\r\n")
    assert (tmp_path / "table.parquet").read_bytes() == b"\0\r\n"


# -- commands -------------------------------------------------------------------------------------------------------


@pytest.fixture
def fleetplan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)
    Path("in.yaml").write_text(SMALL)
    Path("own.yaml").write_text("gpus: {}\n")
    Path("with-catalog.yaml").write_text(SMALL + "catalog: own.yaml\n")
    Path("runs.yaml").write_text("budgets: [40k]\n")
    Path("link.yaml").symlink_to("in.yaml")
    Path("results.csv").write_text("model,gpu\n")
    monkeypatch.setattr("planner.pipeline.plan_fleet", lambda *_: pytest.fail("it was planned all the same"))
    monkeypatch.setattr("planner.studies.sweep.run_jobs", lambda *_: pytest.fail("it was planned all the same"))
    return Command(monkeypatch, capsys)


@for_each(
    ("command", "said"),
    [
        ("plan in.yaml --out in.yaml", "in.yaml: --out would overwrite the input in.yaml."),
        ("plan in.yaml --out ./link.yaml", "link.yaml: --out would overwrite the input in.yaml."),
        ("plan in.yaml --html in.yaml", "--html would overwrite the input"),
        ("plan in.yaml --markdown in.yaml", "--markdown would overwrite the input"),
        ("plan in.yaml --out p --html p", "p: --html would overwrite what --out writes."),
        ("plan in.yaml --out p --markdown ../{here}/p", "--markdown would overwrite what --out writes."),
        ("plan in.yaml --out fleet.csv --csv .", "fleet.csv: --out writes JSON, and .csv is another format."),
        ("plan in.yaml --out ./naive.json --study --keep-plans .", "--keep-plans would overwrite what --out writes."),
        ("plan with-catalog.yaml --out own.yaml", "own.yaml: --out would overwrite the input own.yaml."),
        ("what-if in.yaml --file runs.yaml --html runs.yaml", "--html would overwrite the input runs.yaml."),
        ("what-if in.yaml --budget 40k --out w.csv --svg w.csv", "--svg would overwrite what --out writes."),
        ("what-if in.yaml --budget 40k --out w.json --journal w.json", "--journal would overwrite what --out writes."),
        ("what-if in.yaml --budget 40k --journal in.yaml", "--journal would overwrite the input in.yaml."),
        ("accuracy results.csv --out results.csv", "--out would overwrite the input results.csv."),
        ("calibrate results.csv --out results.csv", "--out would overwrite the input results.csv."),
        ("init fleetplan.schema.json", "the schema would overwrite what the demand file writes."),
    ],
)
def test_no_input_and_no_other_output_is_overwritten(command: str, said: str, fleetplan: Command) -> None:
    before = {path: path.read_bytes() for path in Path().iterdir()}
    ran = fleetplan(*command.format(here=Path.cwd().name).split())
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_init_keeps_a_schema_that_is_not_its_own(fleetplan: Command) -> None:
    assert fleetplan("init", "a.yaml").code == 0
    again = fleetplan("init", "b.yaml")
    assert again.code == 0
    assert "fleetplan.schema.json" not in again.err
    Path("fleetplan.schema.json").write_text("mine")
    refused = fleetplan("init", "c.yaml")
    assert refused.code == 2
    assert "fleetplan.schema.json: exists already. Move it away, or add --force." in refused.err
    assert not Path("c.yaml").exists()
    assert Path("fleetplan.schema.json").read_text() == "mine"
    assert fleetplan("init", "c.yaml", "--force").code == 0
    assert Path("fleetplan.schema.json").read_text() != "mine"
