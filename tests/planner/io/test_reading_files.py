"""Files that others wrote: bounded, never quoted where they are something else, and kept within --root."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from planner.case.demand.load import load_case
from planner.case.demand.usage import Hours, usage_hours
from planner.catalog.entries import shipped_catalog
from planner.checker.policy.schema import load_policy
from planner.io import input_files
from planner.io.errors import InputError
from planner.io.strict_yaml import parse_yaml
from planner.logs.usage import read_usage_file
from planner.performance.calibration.profiles import read_profiles
from planner.performance.calibration.read_results import read_results
from planner.performance.estimate import predict_points
from planner.performance.measurements import read_rows
from planner.plan.saved import read_plan
from planner.review.bills.bill import BillSpec, read_bill
from planner.review.records import read_saved_review
from planner.review.review_file import read_review
from planner.review.usage_log import read_log
from planner.studies.what_if_file import read_what_if
from tests.support.command_line import SMALL, Command
from tests.support.places import ROOT
from tests.support.rows import for_each

EXAMPLE = ROOT / "examples" / "quarterly-review"
SECRET = "s3cr3t"
SHADOW = f"root:$6${SECRET}$abc/def:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n"
PASSWORDS = f"root:x:0:0:{SECRET}:/root:/bin/bash\nyou:x:1:1:You,,,:/home/you:/bin/sh\n"
NOT_WHAT_IT_SHOULD_BE = {
    "shadow": SHADOW,
    "passwd": PASSWORDS,
    "environ": f"TOKEN={SECRET}\0HOME=/root\0",
    "token": f"{SECRET}\n",
    "number": "12345678901234567890123456789012345678901234567890\n",
    "dotenv": f"TOKEN={SECRET}\nOTHER={SECRET},{SECRET}\n",
    "key": f"-----BEGIN KEY-----\n{SECRET}\n-----END KEY-----\n",
    "list": f"- {SECRET}\n- *{SECRET}\n",
    "tag": f"!{SECRET} 1\n",
    "text": f"'{SECRET}'\n",
    "quoted": f'"user:{SECRET}": 1\n',
    "json": json.dumps([SECRET]),
}


def read_usage(path: Path, workload: str) -> Hours:
    return usage_hours(read_usage_file(path), path, workload)


READERS: dict[str, Callable[[Path], Any]] = {
    "demand": load_case,
    "policy": load_policy,
    "profiles": lambda path: read_profiles(path, shipped_catalog()),
    "what-if": read_what_if,
    "review": read_review,
    "usage": lambda path: read_usage(path, "chat"),
    "log": lambda path: read_log(path, None),
    "plan": read_plan,
    "saved review": read_saved_review,
    "results": lambda path: read_results([path]),
    "measurements": read_rows,
    "points": predict_points,
    "bill": lambda path: read_bill([path], BillSpec(focus=("bill",)), {}, (), (datetime.min, datetime.max)),
}


@for_each("reader", READERS)
@for_each("kind", NOT_WHAT_IT_SHOULD_BE)
def test_nothing_is_quoted_of_a_file_that_is_something_else(tmp_path: Path, kind: str, reader: str) -> None:
    path = tmp_path / "file"
    path.write_text(NOT_WHAT_IT_SHOULD_BE[kind])
    with pytest.raises(InputError) as caught:
        READERS[reader](path)
    for diagnostic in caught.value.diagnostics:
        said = f"{diagnostic.where} {diagnostic.message} {diagnostic.remedy}"
        assert SECRET not in said
        assert "1234567890" not in said
        assert "BEGIN" not in said


def test_the_format_of_another_file_is_not_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a long path would leave no room for the rest of the message
    path = Path("plan.json")
    path.write_text(json.dumps({"format": SECRET}))
    with pytest.raises(InputError, match="got another file, expected 'fleetplan-plan/6'"):
        read_plan(path)


def test_column_names_are_named(tmp_path: Path) -> None:
    path = tmp_path / "u.csv"
    path.write_text("when,requests\n2026-01-01,1\n")
    with pytest.raises(InputError, match="has no column for time, only 'when' and 'requests'"):
        read_usage(path, "w")


@for_each("reader", READERS)
def test_a_device_has_no_end_and_is_not_read(reader: str) -> None:
    with pytest.raises(InputError, match="is not a regular file"):
        READERS[reader](Path("/dev/zero"))


@for_each("reader", ["plan", "saved review", "results", "measurements"])
def test_every_read_has_a_bound(tmp_path: Path, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "MOST_JSON_BYTES", 2_000_000)
    monkeypatch.setattr("planner.performance.calibration.read_results.MAX_BYTES", 2_000_000)
    monkeypatch.setattr("planner.performance.measurements.MOST_BYTES", 2_000_000)
    path = tmp_path / "file"
    path.write_bytes(b"[" * 2_000_001)
    with pytest.raises(InputError, match="is larger than 2 MB"):
        READERS[reader](path)
    if reader in ("results", "measurements"):
        path.write_bytes(gzip.compress(b"[" * 2_000_001))
        with pytest.raises(InputError, match="is larger than 2 MB"):
            READERS[reader](path)


def test_an_endless_line_of_a_log_is_one_broken_row(tmp_path: Path) -> None:
    path = tmp_path / "u.csv.gz"
    path.write_bytes(gzip.compress(b"time,requests\n" + HOURS.encode() + b"\0" * 3_000_000))
    assert any("row 50" in note for note in read_usage(path, "w").notes)


def test_a_pipe_is_read(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, SMALL.encode())
    os.close(write)
    try:
        assert load_case(f"/dev/fd/{read}").workloads[0].name == "chat"
    finally:
        os.close(read)


# -- line ends ------------------------------------------------------------------------------------------------------

HOURS = "".join(f"{(datetime(2026, 1, 5) + timedelta(hours=k)).isoformat()},{100 + k}\n" for k in range(48))
BENCH = "model,gpu,input_tokens,output_tokens,concurrency,tpot_ms\nllama-3.1-8b,h100,1024,256,8,9.5\n"
BENCH += "llama-3.1-8b,h100,1024,256,16,12.5\n"
MEASURED = (
    "source,model,gpu,tp,dtype_weights,input_len,output_len,batch_or_concurrency,metric,value\n"
    "ours,llama-3.1-8b,h100,1,fp16,1024,256,8,tpot_ms,9.5\n"
)
POINTS = "model,gpu,input,output,concurrency\nllama-3.1-8b,h100,1024,256,8\n"


@for_each("end", ["\r\n", "\r"])
@for_each(
    ("text", "read"),
    [
        ("# a comment\n" * 3 + SMALL, lambda path: load_case(path).hash()),
        ("time,requests\n" + HOURS, lambda path: read_usage(path, "w")),
        ("\n\ntime,requests\n\n" + HOURS, lambda path: read_usage(path, "w")),
        ("time,requests\n" + HOURS, lambda path: read_log(path, "w").requests.tolist()),
        (BENCH, lambda path: read_results([path])),
        (MEASURED, read_rows),
        (POINTS, predict_points),
    ],
)
def test_line_ends_of_other_systems(tmp_path: Path, end: str, text: str, read: Callable[[Path], Any]) -> None:
    path = tmp_path / "file"
    path.write_text(text, newline="")
    as_it_is = read(path)
    path.write_text(text.replace("\n", end), newline="")
    assert read(path) == as_it_is


@for_each("end", ["\r\n", "\r", "\n", "\n\r", "\r\r\n"])
def test_comments_before_the_first_key_take_no_time(end: str) -> None:
    """It was twice the time for each line: a hundred of them would never end."""
    text = "".join(f"  # line {k}{end}{end}" for k in range(100))
    assert parse_yaml(text + f"a: 1{end}").data == {"a": 1}
    with pytest.raises(InputError, match="directives"):
        parse_yaml(text + f"%YAML 1.1{end}---{end}a: 1{end}")


def test_json_lines_may_hold_separators_of_paragraphs(tmp_path: Path) -> None:
    runs = [json.dumps({"note": "one\u2028two", "k": k}, ensure_ascii=False) for k in range(2)]
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(runs), encoding="utf-8")
    with pytest.raises(InputError, match="is in no known format; its keys are"):
        read_results([path])


# -- figures beyond belief ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["gpus", "spot_zones"])
def test_a_catalog_with_more_than_there_is_in_the_world(field: str, tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(SMALL + f"catalog: {{offers: {{aws/g6e.xlarge@us-east-1: {{{field}: {'9' * 29}}}}}}}\n")
    with pytest.raises(InputError, match=rf"catalog\.offers.*{field}"):
        load_case(path)


def test_numbers_of_thousands_of_digits(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"num_prompts": ' + "9" * 5000 + "}")
    with pytest.raises(InputError, match="a number of thousands of digits"):
        read_results([path])
    path.write_text("time,requests\n" + HOURS.replace(",120\n", "," + "9" * 400 + "\n").replace(",121\n", ",1e30\n"))
    assert (
        "2 rows left out: requests above 10 billion (run.json row 22, run.json row 23)" in read_usage(path, "w").notes
    )
    path.write_text("time,requests\n" + HOURS.replace(",121\n", ",9e9\n"))
    with pytest.raises(InputError, match="more than 10 billion requests a day"):
        read_usage(path, "w")


def test_a_csv_with_a_cell_that_never_ends(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(BENCH + 'llama-3.1-8b,"' + "x" * 200_000 + "\n")
    with pytest.raises(InputError, match="is not a row of a CSV file"):
        read_results([path])


# -- --root ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def fleetplan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    (tmp_path / "pull-request").mkdir()
    monkeypatch.chdir(tmp_path / "pull-request")
    monkeypatch.delenv("FLEETPLAN_ROOT", raising=False)
    Path("../usage.csv").write_text("time,requests\n" + HOURS)
    Path("../own.yaml").write_text("gpus: {}\n")
    shutil.copy("../usage.csv", "usage.csv")
    shutil.copy("../own.yaml", "own.yaml")
    Path("link.csv").symlink_to("../usage.csv")
    Path("inner.csv").symlink_to("usage.csv")
    monkeypatch.setattr("planner.pipeline.plan_fleet", lambda *_: pytest.fail("it was planned all the same"))
    return Command(monkeypatch, capsys)


def demand(csv: str = "usage.csv", more: str = "") -> None:
    Path("demand.yaml").write_text(SMALL.replace("{requests_per_day: 400k}", f"{{csv: {csv}}}") + more)


@for_each("verb", [("plan",), ("validate",), ("explain",), ("what-if", "--scale", "demand=2")])
@for_each("csv", ["../usage.csv", "{above}/usage.csv", "link.csv", "./x/../../usage.csv", '"a\\0b"'])
def test_a_log_outside_of_the_root(csv: str, verb: tuple[str, ...], fleetplan: Command) -> None:
    demand(csv.format(above=Path("..").resolve()))
    ran = fleetplan(verb[0], "demand.yaml", *verb[1:], "--root", ".")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("demand.yaml:4:21: workloads[0].forecast.csv: '")
    assert "lies outside of '.'. Keep it in that folder, or change --root." in ran.err


@pytest.mark.parametrize("more", ["catalog: ../own.yaml\n", "profiles: [../own.yaml]\n"])
def test_catalogs_and_profiles_outside_of_the_root(more: str, fleetplan: Command) -> None:
    demand(more=more)
    ran = fleetplan("validate", "demand.yaml", "--root", ".")
    assert ran.code == 2
    assert "demand.yaml:9:" in ran.err and "'../own.yaml' lies outside of '.'" in ran.err


def test_what_lies_inside_is_read(fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    demand("inner.csv", "catalog: own.yaml\n")
    assert fleetplan("validate", "demand.yaml", "--root", ".").code == 0
    demand("../usage.csv")
    assert fleetplan("validate", "demand.yaml").code == 0
    assert fleetplan("validate", "demand.yaml", "--root", "..").code == 0
    monkeypatch.setenv("FLEETPLAN_ROOT", str(Path.cwd()))
    assert "lies outside of" in fleetplan("validate", "demand.yaml").err
    assert fleetplan("validate", "demand.yaml", "--root", "nowhere").code == 2


def test_a_changed_input_is_confined_too(fleetplan: Command) -> None:
    demand()
    change = "workloads.chat.forecast.csv=../usage.csv"
    ran = fleetplan("what-if", "demand.yaml", "--set", change, "--root", ".")
    assert ran.code == 2
    assert f"--set {change}: workloads[0].forecast.csv: '../usage.csv' lies outside of '.'" in ran.err


def test_a_demand_file_that_is_a_link_out_of_the_root(fleetplan: Command) -> None:
    Path("../outside.yaml").write_text(SMALL)
    Path("demand.yaml").symlink_to("../outside.yaml")
    ran = fleetplan("validate", "demand.yaml", "--root", ".")
    assert ran.code == 2
    assert "demand.yaml: is a link that leads out of '.'. Copy the file, or change --root." in ran.err
    assert fleetplan("validate", "../outside.yaml", "--root", ".").code == 0


@for_each(
    ("key", "value"),
    [
        ("last_plan", "../last-plan.json"),
        ("usage", "../usage.csv"),
        ("bill", "../usage.csv"),
        ("history", ".."),
        ("demand", "../demand.yaml"),
    ],
)
def test_a_review_names_nothing_outside_of_the_root(key: str, value: str, fleetplan: Command) -> None:
    for name in ("last-plan.json", "usage.csv", "demand.yaml"):
        shutil.copy(EXAMPLE / name, name)
        shutil.copy(EXAMPLE / name, f"../{name}")
    named = {"last_plan": "last-plan.json", "usage": "usage.csv"} | ({key: value} if key != "demand" else {})
    text = "name: q\n" + "".join(f"{k}: {v}\n" for k, v in named.items())
    Path("REVIEW.yaml").write_text(text + (f"next: {{demand: {value}}}\n" if key == "demand" else ""))
    ran = fleetplan("review", "REVIEW.yaml", "--root", ".")
    assert ran.code == 2
    assert ran.err.startswith("REVIEW.yaml:")
    assert f"'{value}' lies outside of '.'" in ran.err


def test_a_past_review_that_is_a_link_out_of_the_root(fleetplan: Command) -> None:
    for name in ("last-plan.json", "usage.csv"):
        shutil.copy(EXAMPLE / name, name)
    Path("reviews").mkdir()
    Path("reviews/old.json").symlink_to("../../usage.csv")
    Path("REVIEW.yaml").write_text("name: q\nlast_plan: last-plan.json\nusage: usage.csv\nhistory: reviews\n")
    ran = fleetplan("review", "REVIEW.yaml", "--root", ".")
    assert ran.code == 2
    assert "REVIEW.yaml:4:10: history: 'reviews/old.json' lies outside of '.'" in ran.err


def test_outputs_of_a_review_do_not_overwrite_what_it_reads(fleetplan: Command) -> None:
    for name in ("last-plan.json", "usage.csv"):
        shutil.copy(EXAMPLE / name, name)
    Path("REVIEW.yaml").write_text("name: q\nlast_plan: last-plan.json\nusage: usage.csv\n")
    ran = fleetplan("review", "REVIEW.yaml", "--plan", "last-plan.json")
    assert ran.code == 2
    assert "last-plan.json: --plan would overwrite the input last-plan.json." in ran.err
