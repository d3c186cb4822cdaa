"""Logs as they are: cut short, in other units, zones and encodings, with broken rows, and hostile."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import reduce
from operator import or_
from pathlib import Path

import numpy as np
import pytest

from planner.case.demand.load import load_case
from planner.io.errors import InputError
from planner.logs.measure import Measured, MeasureOptions, measure_logs
from tests.support.command_line import Command
from tests.support.rows import for_each

pytest.importorskip("ibis", reason="demand needs ibis and duckdb: pip install fleetplan[logs]")

START = datetime(2026, 9, 7, tzinfo=UTC)
TOKYO = timezone(timedelta(hours=9))
HEADER = "time,input_tokens,output_tokens,model\n"
TIMES = [START + timedelta(seconds=97 * k) for k in range(600)]


def rows(time: Callable[[int], str] = lambda k: TIMES[k].isoformat(), model: str = "m") -> str:
    return "".join(f"{time(k)},{100 + k},{10 + k % 7},{model}\n" for k in range(len(TIMES)))


def read(path: Path, content: str | bytes, **options: object) -> Measured:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return measure_logs(MeasureOptions((str(path),), **options))  # type: ignore[arg-type]


def total(found: Measured) -> float:
    return sum(w.traffic.total for w in found.workloads)


UNCHANGED = {
    "byte-order mark": b"\xef\xbb\xbf" + (HEADER + rows()).encode(),
    "semicolons": (HEADER + rows()).replace(",", ";"),
    "carriage returns": (HEADER + rows()).replace("\n", "\r\n"),
    "other encoding": (HEADER + rows()).encode().replace(b",m\n", b",caf\xe9\n"),
    "milliseconds since 1970": HEADER + rows(lambda k: f"{TIMES[k].timestamp() * 1000:.0f}"),
    "microseconds since 1970": HEADER + rows(lambda k: f"{TIMES[k].timestamp() * 1e6:.0f}"),
    "seconds and milliseconds": HEADER + rows(lambda k: f"{TIMES[k].timestamp() * (1000 if k % 2 else 1):.0f}"),
    "zones mixed": HEADER + rows(lambda k: TIMES[k].astimezone(TOKYO).isoformat() if k % 2 else f"{TIMES[k]:%F %T}"),
    "shouted columns": HEADER.upper() + rows(),
    "blank lines": "\n\n" + HEADER + rows().replace("\n", "\n\n"),
    "gzip in two members": gzip.compress((HEADER + rows()[:9000]).encode()) + gzip.compress(rows()[9000:].encode()),
}  # fmt: skip


@for_each("name", UNCHANGED)
def test_another_spelling_of_a_log_says_the_same(name: str, tmp_path: Path) -> None:
    found = read(tmp_path / "log.csv", UNCHANGED[name])
    (w,) = found.workloads
    assert not found.ledger.left_out
    assert (w.traffic.total, w.traffic.prompt_tokens) == (600, sum(range(100, 700)))
    assert w.traffic.span_s == pytest.approx(97 * 599, rel=0.1)


BAD = {
    "no prompt tokens": ["2026-09-07,,5,m", "2026-09-07,NaN,5,m"],
    "unreadable prompt tokens": ["2026-09-07,many,5,m"],
    "negative prompt tokens": ["2026-09-07,-4,5,m"],
    "prompt tokens above 100 million": ["2026-09-07,1e12,5,m"],
    "no time": [",4,5,m"],
    "unreadable time": ["yesterday,4,5,m"],
    "time before 2010 or after 2100": ["1970-01-01,4,5,m", "2999-01-01,4,5,m"],
    "no output tokens": ["2026-09-07,4,0,m"],
}


def test_bad_cells_are_counted_named_and_left_out(tmp_path: Path) -> None:
    lines = [line for some in BAD.values() for line in some]
    found = read(tmp_path / "log.csv", HEADER + rows() + "\n".join(lines) + "\n")
    assert total(found) == 600
    assert dict(found.ledger.left_out) == {reason: len(some) for reason, some in BAD.items()}
    said = "\n".join(found.ledger.left_out_lines())
    assert "2 rows left out: no prompt tokens (log.csv row 602, log.csv row 603)" in said
    assert "1 row left out: unreadable time (log.csv row 608)" in said


@for_each("line", ["2026-09-07,4,5,m,shifted", '2026-09-07,"4,5,m', "2026-09-07,4", "2026-09-07,4,5,m,a,b,c"])
def test_a_broken_row_costs_no_other_row(line: str, tmp_path: Path) -> None:
    whole = rows() if '"' in line else rows().replace(",m\n", ',"two\nlines, and ""quotes"""\n')
    half = whole.index("\n2026", len(whole) // 2) + 1
    found = read(tmp_path / "log.csv", HEADER + whole[:half] + line + "\n" + whole[half:])
    assert total(found) == 600
    assert sum(found.ledger.left_out.values()) == 1


def test_a_file_that_is_cut_short_gives_what_it_has(tmp_path: Path) -> None:
    packed = gzip.compress((HEADER + rows()).encode())
    found = read(tmp_path / "log.csv.gz", packed[: len(packed) // 2])
    assert 100 < total(found) < 599
    assert any("ends in the middle" in note for note in found.ledger.notes)
    assert not found.ledger.left_out  # half of a row at the end is no row
    lines = [json.dumps({"time": t.isoformat(), "prompt_tokens": 5, "completion_tokens": 6}) for t in TIMES]
    found = read(tmp_path / "log.jsonl", "\n".join(lines)[:-9])
    assert (total(found), dict(found.ledger.left_out)) == (599, {"a broken row": 1})


def test_columns_there_twice_and_columns_not_used_are_named(tmp_path: Path) -> None:
    header = "time,input_tokens,output_tokens,input_tokens,colour\n"
    found = read(tmp_path / "log.csv", header + rows().replace(",m\n", ",7,red\n"))
    assert total(found) == 600
    notes = "\n".join(found.ledger.notes)
    assert "column 'input_tokens' occurs 2 times" in notes
    assert "columns not used: 'colour'" in notes


@for_each(
    ("content", "words"),
    [
        ("", "is empty"),
        (HEADER, "holds no request"),
        ("a,b\n1,2\n", "has no column for time, only 'a' and 'b'"),
        (HEADER + "09/07/2026 3 PM,4,5,m\n", "2: has no request that can be used: unreadable time"),
        ((HEADER + rows()).encode("utf-16"), "is text in UTF-16"),
        (b"PAR1 and nothing else", "cannot be read as Parquet"),
        ('{"data": [{"traceId":', ":1: is cut off here"),
        (HEADER + "2026-09-07,4,5,m\n", "covers no time"),
        ('{"status": "success", "data": {"resultType": "matrix", "result": []}}', "holds no count of requests"),
    ],
)
def test_what_is_no_log_is_refused(content: str | bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path / "x.csv", content)
    assert words in str(error.value.diagnostics[0].message + str(error.value))


def test_hostile_names_stay_names(tmp_path: Path, fleetplan: Command) -> None:
    names = ["=cmd()|x", "<script>", "a\nb: [", "\x1b[31mred", "# x", "'; DROP TABLE requests; --", "x" * 500, "{a: b}"]
    lines = []
    for k, t in enumerate(TIMES):
        row = {"time": t.isoformat(), "prompt_tokens": 5, "completion_tokens": 6, "team": names[k % len(names)]}
        lines.append(json.dumps(row))
    lines[0] = lines[0].replace("=cmd", "\\ud800=cmd")
    path, target = tmp_path / "log.jsonl", tmp_path / "demand.yaml"
    path.write_text("\n".join(lines))
    assert fleetplan("demand", str(path), "--by", "team", "--out", str(target)).code == 0
    text = target.read_text()
    assert "\x1b" not in text
    found = {w.name for w in load_case(target).workloads}
    assert {"=cmd()|x", "<script>", "a\\nb: [", "# x", "{a: b}", "'; DROP TABLE requests; --"} <= found


@for_each(
    ("flags", "words"),
    [
        (("--columns", "when=time"), "To the left of = write one of"),
        (("--columns", "time=nowhere"), "has no column 'nowhere' for time"),
        (("--time-zone", "Mars/Olympus"), "there is no time zone"),
        (("--holidays", "Christmas"), "--holidays"),
        (("--engine", "abacus"), "there is no engine"),
        (("--out", "log.csv"), "log.csv"),
    ],
)
def test_bad_flags_are_refused(
    flags: tuple[str, ...], words: str, tmp_path: Path, fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(HEADER + rows())
    ran = fleetplan("demand", "log.csv", *flags)
    assert ran.code == 2
    assert words in ran.err


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    path = tmp_path / "log.csv"
    path.write_text(HEADER + rows())
    monkeypatch.setitem(sys.modules, "duckdb", None)
    ran = fleetplan("demand", str(path))
    assert ran.code == 2
    assert "pip install 'fleetplan[logs]'" in ran.err


@pytest.mark.parametrize("options", [("--name", "two\nlines"), ("--name", "x" * 81), ("--by", "team")])
def test_names_and_splits_that_cannot_be_are_refused(
    options: tuple[str, str], fleetplan: Command, tmp_path: Path
) -> None:
    source = tmp_path / "log.csv"
    source.write_text("time,input_tokens,output_tokens\n" + "".join(f"{1.78e9 + k},10,5\n" for k in range(100)))
    ran = fleetplan("demand", str(source), *options)
    assert ran.code == 2
    assert "Traceback" not in ran.err and options[1][:3] in ran.err


def test_a_copy_of_a_file_is_read_once_and_so_is_what_files_have_in_common(tmp_path: Path) -> None:
    lines = rows().splitlines(keepends=True)
    for name, part in (("a.csv", lines[:400]), ("b.csv", lines[:400]), ("c.csv", lines[300:])):
        (tmp_path / name).write_text(HEADER + "".join(part))
    found = measure_logs(MeasureOptions((str(tmp_path),)))
    assert "'b.csv' is a copy of 'a.csv': read once" in "\n".join(found.ledger.notes)
    assert total(found) == 600
    (line,) = found.ledger.left_out_lines()
    assert line.startswith("100 rows left out: the same request in files that overlap: the last one counts (by time")
    (tmp_path / "c.csv").write_text(HEADER + "".join(lines[400:]))
    found = measure_logs(MeasureOptions((str(tmp_path),)))
    assert total(found) == 600 and not found.ledger.left_out


@pytest.mark.parametrize(("tick_s", "same"), [(0.001, False), (0.001, True), (1.0, True)])
def test_exports_that_overlap_count_each_request_once(tick_s: float, same: bool, tmp_path: Path) -> None:
    """Three exports of one service, against a count by hand: of each request, as many as the file that has most."""
    rng = np.random.default_rng(7)
    times = np.sort(rng.random(3_000)) * 3_600
    lengths = np.full((3_000, 2), 50) if same else rng.integers(1, 400, (3_000, 2))
    lines = [
        f"{1.7888e9 + round(t / tick_s) * tick_s:.3f},{i},{o},m\n" for t, (i, o) in zip(times, lengths, strict=True)
    ]
    parts = [lines[:1200], lines[1000:2100], lines[1900:]]
    for k, part in enumerate(parts):
        (tmp_path / f"{k}.csv").write_text(HEADER + "".join(part))
    by_hand = reduce(or_, (Counter(part) for part in parts))
    found = measure_logs(MeasureOptions((str(tmp_path),)))
    if tick_s == 1.0:  # one second holds several requests of the same length: nobody can tell
        assert total(found) == 3_400 and "perhaps by chance" in "\n".join(found.ledger.notes)
    else:
        assert total(found) == by_hand.total() == 3_000


def test_bursts_of_one_length_that_two_exports_hold_count_once(tmp_path: Path) -> None:
    """Up to 22 requests at a time, all alike: as many coincide within a file as between files."""
    lines = [f"{1.7888e9 + 60 * k:.3f},50,10,m\n" for k in range(100) for _ in range(3 + 7 * k % 20)]
    cut = [sum(3 + 7 * k % 20 for k in range(n)) for n in (40, 60)]
    for name, part in (("a.csv", lines[: cut[1]]), ("b.csv", lines[cut[0] :])):
        (tmp_path / name).write_text(HEADER + "".join(part))
    found = measure_logs(MeasureOptions((str(tmp_path),)))
    assert total(found) == len(lines)
    (line,) = found.ledger.left_out_lines()
    assert line.startswith(f"{cut[1] - cut[0]:,} rows left out: the same request in files that overlap")


def test_logs_of_servers_side_by_side_all_count(tmp_path: Path) -> None:
    """Eight servers that answer in the same hour, times in whole seconds, two lengths: many requests look alike."""
    rng = np.random.default_rng(8)
    for server in range(8):
        seconds = np.sort(rng.integers(0, 3_600, 500)).tolist()
        text = "".join(f"{1_788_800_000 + t},{50 + t % 2},10,m\n" for t in seconds)
        (tmp_path / f"{server}.csv").write_text(HEADER + text)
    found = measure_logs(MeasureOptions((str(tmp_path),)))
    assert total(found) == 4_000 and not found.ledger.left_out
    assert "perhaps by chance" in "\n".join(found.ledger.notes)


def test_a_row_of_totals_does_not_make_times_look_as_if_they_had_no_zone(tmp_path: Path) -> None:
    rows = [f"2026-05-{4 + h // 24:02}T{h % 24:02}:00:00Z,1000" for h in range(72)]
    path = tmp_path / "counts.csv"
    path.write_text("\n".join(["time,requests", *rows, "Total,72000"]) + "\n")
    ledger = measure_logs(MeasureOptions((str(path),))).ledger
    assert ledger.left_out == {"unreadable time": 1}
    assert not [note for note in ledger.notes if "time zone" in note]
