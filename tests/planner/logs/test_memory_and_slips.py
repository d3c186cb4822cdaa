"""Lines without an end, documents larger than memory, rows cut off, times years apart, and files that are no logs."""

from __future__ import annotations

import gzip
import json
import threading
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from planner.io import json_members
from planner.io.errors import InputError
from planner.logs.engine import DUCKDB, connected
from planner.logs.reading import sources, tables
from planner.logs.reading.requests import block_numbers, open_logs
from planner.logs.reading.tables import Reading
from planner.logs.reuse import reuse_curve
from planner.logs.usage import Usage, read_usage_file
from planner.verification.request_logs import read_request_log
from solvers.backends.clock import Stopped, ask_to_stop, stoppable
from tests.support.rows import for_each

START = datetime(2026, 9, 7, tzinfo=UTC)
HEADER = "time,input_tokens,output_tokens,model\n"
ROWS = "".join(f"{(START + timedelta(seconds=97 * k)).isoformat()},{100 + k},{10 + k % 7},m\n" for k in range(600))
RECORD = {"time": START.isoformat(), "input_tokens": 5, "output_tokens": 6}


def usage(path: Path, content: str | bytes) -> Usage:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_usage_file(path)


def refusal(path: Path, content: str | bytes) -> str:
    with pytest.raises(InputError) as error:
        usage(path, content)
    return str(error.value).removeprefix(str(path.parent) + "/")


def bomb(head: bytes, again: bytes, megabytes: int) -> bytes:
    return gzip.compress(head + again * (megabytes * 1_000_000 // len(again)), compresslevel=1)


@for_each(
    ("head", "again", "words"),
    [
        (b"time,requests\n2026-09-07T00:00:00,", b"0", "x: has a line of more than 0.2 MB, from byte 14 on. Export it"),
        (b"time,requests\n2026-09-07T00:00:00,1\n", b"\0", "x: has a line of more than 0.2 MB, from byte 36 on"),
        (b'{"time": 0}\n{"a": "', b"0", "x: has a line of more than 0.2 MB, from byte 12 on"),
        (b'[{"time": "', b"0", "x:1: holds a member of more than 0.2 MB"),
        (b'[\n{"time": [', b"[],", "x:2: holds a member of more than 0.2 MB"),
        (b'{"data": {"result": [{"values": [', b'[1788739200,"1"],', "x:1: holds a member of more than 0.2 MB"),
        (b'{"a": 1', b',"%s": 2' % (b"b" * 90_000), "x: holds a record of more than 0.2 MB"),
    ],
)
def test_what_has_no_end_is_refused_before_it_fills_the_memory(
    head: bytes, again: bytes, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources.short_lines, "__defaults__", (200_000,))
    monkeypatch.setattr(tables, "LONGEST_LINE_BYTES", 200_000)
    monkeypatch.setattr(tables, "BLOCK_BYTES", 100_000)
    monkeypatch.setattr(json_members, "MOST_CHARACTERS", 200_000)
    packed = bomb(head, again, megabytes=30)
    tracemalloc.start()
    try:
        assert words in refusal(tmp_path / "x", packed)
        assert tracemalloc.get_traced_memory()[1] < 25e6
    finally:
        tracemalloc.stop()


def test_a_line_is_as_long_as_it_is_however_it_is_cut() -> None:
    def pieces(text: bytes, size: int) -> Iterator[bytes]:
        return (text[k : k + size] for k in range(0, len(text), size))

    text = b"ab\ncdefgh\n\nijkl"
    for size in range(1, 20):
        assert b"".join(sources.short_lines(pieces(text, size), Path("x"), 6)) == text
        if size < 6:  # a piece holds no line that is too long: it is smaller
            with pytest.raises(InputError, match="from byte 3 on"):
                list(sources.short_lines(pieces(text, size), Path("x"), 5))


def test_json_documents_are_read_in_parts_and_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{**RECORD, "time": (START + timedelta(seconds=97 * k)).isoformat()} for k in range(600)]
    page = {"meta": {"page": 1}, "data": [*records, "broken"], "more": False}
    for block_bytes in (tables.BLOCK_BYTES, 1000):
        monkeypatch.setattr(tables, "BLOCK_BYTES", block_bytes)
        for document in (records, page):
            found = usage(tmp_path / "x.json", json.dumps(document, indent=1))
            assert found.traffic[""].total == 600
            assert dict(found.ledger.left_out) == ({} if document is records else {"a broken row": 1})
    assert "holds no request" in refusal(tmp_path / "x.json", '{"data": [], "meta": {}}')


def test_a_first_line_of_json_may_be_longer_than_a_piece(tmp_path: Path) -> None:
    lines = [json.dumps({**RECORD, "prompt": "x" * 3_000_000})] * 2 + [json.dumps(RECORD)]
    assert usage(tmp_path / "x.jsonl", "\n".join(lines)).traffic[""].total == 3


COUNTS = "time,requests,input_tokens,output_tokens\n" + "".join(
    f"{(START + timedelta(hours=k)):%FT%T},{105 + k},84000,15750\n" for k in range(72)
)


@for_each("kept", range(1, 40))
def test_a_row_that_is_cut_off_at_the_end_is_named_and_left_out(kept: int, tmp_path: Path) -> None:
    last = "2026-09-10T00:00:00,177,84000,15750\n"
    found = usage(tmp_path / "x.csv", COUNTS + last[:kept])
    whole = kept > last.rindex(",")
    traffic = found.traffic[""]
    assert traffic.span_s == (73 if whole else 72) * 3600
    assert traffic.prompt_tokens == 84000 * (73 if whole else 72)
    assert dict(found.ledger.left_out) == ({} if whole else {"cut off where the file ends": 1})
    assert whole or found.ledger.which("cut off where the file ends") == "x.csv row 74"


def test_a_row_that_is_cut_off_further_up_is_broken(tmp_path: Path) -> None:
    found = usage(tmp_path / "x.csv", COUNTS + "2026\n" + COUNTS.partition("\n")[2].replace("2026-09", "2026-10"))
    assert dict(found.ledger.left_out) == {"a broken row": 1}
    assert found.ledger.which("a broken row") == "x.csv row 74"
    assert found.traffic[""].start_s == START.timestamp()


def test_a_last_row_of_several_lines_is_whole_without_a_line_break(tmp_path: Path) -> None:
    found = usage(tmp_path / "x.csv", HEADER + ROWS + f'{START.isoformat()},5,6,"two\nlines"')
    assert (found.traffic[""].total, dict(found.ledger.left_out)) == (601, {})


@for_each(
    ("content", "words"),
    [
        (
            HEADER + "2011-01-01,5,5,m\n" + ROWS,
            "x.csv:2: has 1 row of 2011-01-01, 5,728 days before the other 600 rows",
        ),
        (HEADER + ROWS + "2099-01-01,5,5,m\n", "x.csv:602: has 1 row of 2099-01-01, 26,414 days after the other 600 "),
        (
            "time,requests\n2011-01-01,5\n2026-09-07,6\n",
            "x.csv:2: has 1 row of 2011-01-01, 5,728 days before the other",
        ),
        ("time,requests\n" + "".join(f"{y}-01-01,6\n" for y in range(2011, 2040)), "begins on 2011-01-01 and ends on"),
        (
            '{"data": {"result": [{"metric": {}, "values": [[1293840000, "1"], [1788739200, "2"]]}]}}',
            "has 1 row of 2011",
        ),
        ("time,requests\n0,5\n90000000,6\n", "has 1 row of day 1, 1,041 days before the other 1 row of day 1042"),
    ],
)
def test_times_that_are_years_apart_are_refused_with_their_row(content: str, words: str, tmp_path: Path) -> None:
    refusal(tmp_path / "x.csv", content)  # imports what it needs, which is no memory of a log
    tracemalloc.start()
    try:
        said = refusal(tmp_path / "x.csv", content)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert words in said


def test_a_number_beside_dates_is_no_time(tmp_path: Path) -> None:
    found = usage(tmp_path / "x.csv", "time,requests\n2026-08-01T00:00:00,105\n0,")
    assert found.traffic[""].total == 105
    assert found.ledger.left_out["time without a date, beside dates"] == 1


@for_each("spelled", [hex, str, lambda n: n, lambda n: n + 2**63, lambda n: n + 2**200])
def test_block_hashes_may_be_text_or_numbers_of_any_size(spelled: object, tmp_path: Path) -> None:
    blocks = [[1, 2], [1, 3], [1, 2], [4, 5]]
    lines = [
        {"timestamp": 3000 * k, "input_length": 1024, "output_length": 9, "hash_ids": [spelled(n) for n in some]}  # type: ignore[operator]
        for k, some in enumerate(blocks)
    ]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    (part,) = open_logs([str(path)], Reading({})).parts()
    assert reuse_curve(part.blocks) == reuse_curve(blocks)  # type: ignore[union-attr,arg-type]
    read = read_request_log(path).blocks
    assert read is not None and [len(some) for some in read] == [2, 2, 2, 2]


def test_blocks_that_are_no_hashes_are_none() -> None:
    found = block_numbers([[1.5], None, [True], [[1]], [7, "\ud800"], np.array([7])])
    assert [len(blocks) for blocks in found] == [0, 0, 0, 0, 2, 1]
    assert found[4][0] == found[5][0] == 7
    assert block_numbers([]) == []


def test_damaged_parquet_is_refused_in_words(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    times = np.array([START.timestamp() * 1e6] * 3 + [2**61], dtype="int64").astype("datetime64[us]")
    table = pd.DataFrame({"time": times, "input_tokens": 5, "output_tokens": 6, "model": "m"})
    table.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(
        InputError, match=r"x.parquet: is damaged: 'time' of row 4 is of the year 75039. Export it again"
    ):
        read_usage_file(tmp_path / "x.parquet")
    table = table.assign(time=START.isoformat())
    table.to_parquet(tmp_path / "y.parquet")
    whole = (tmp_path / "y.parquet").read_bytes()
    (tmp_path / "y.parquet").write_bytes(whole.replace(b'"numpy_type": "int64"', b'"numpy_type": "stz64"'))
    assert read_usage_file(tmp_path / "y.parquet").traffic[""].total == 4  # what pandas noted down says nothing
    (tmp_path / "y.parquet").write_bytes(whole.replace(b"2026-", b"\xff026-"))
    with pytest.raises(InputError, match=r"cannot be read as Parquet: .*Invalid UTF8"):
        read_usage_file(tmp_path / "y.parquet")


def test_times_that_are_the_index_of_a_table_are_times(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"time": pd.to_datetime([START] * 3), "input_tokens": 5, "output_tokens": 6})
    table.set_index("time").to_parquet(tmp_path / "x.parquet")
    assert read_usage_file(tmp_path / "x.parquet").traffic[""].total == 3


def test_links_that_lead_nowhere_and_names_that_cannot_be_are_refused(tmp_path: Path) -> None:
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    for path in (tmp_path / "loop.csv", tmp_path / ("x" * 5000)):
        with pytest.raises(InputError, match="cannot be read: "):
            list(open_logs([str(path)], Reading({})).parts())
        with pytest.raises(InputError, match="cannot be read: "):
            read_usage_file(path)


def test_a_file_of_a_folder_that_is_no_log_is_named_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEADER + ROWS)
    (tmp_path / "b.csv").write_text("name,price\nx,1\n")
    (tmp_path / "c.json").write_text('{\n"a": {"b": 1}}')
    (tmp_path / "d.csv").write_text("")
    for source in (tmp_path, tmp_path / "*"):
        log = open_logs([str(source)], Reading({}))
        assert sum(len(part.time_us) for part in log.parts()) == 600  # type: ignore[union-attr]
        assert log.ledger.rows == 600
        notes = "\n".join(log.ledger.notes)
        assert "'b.csv' is not a log and is left out: it has no column for time, only 'name' and 'price'" in notes
        assert "'c.json' is not a log" in notes and "'d.csv' is not a log and is left out: it is empty" in notes
    assert read_request_log(tmp_path).no_logs == ("'b.csv'", "'c.json'", "'d.csv'")
    with pytest.raises(InputError, match=r"b\.csv:1: has no column for time"):  # a file that was named
        list(open_logs([str(tmp_path), str(tmp_path / "b.csv")], Reading({})).parts())
    (tmp_path / "a.csv").unlink()
    with pytest.raises(InputError, match="holds no log") as error:
        list(open_logs([str(tmp_path)], Reading({})).parts())
    assert "b.csv:1: has no column for time, only 'name' and 'price'" in str(error.value)


def test_a_damaged_log_of_a_folder_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEADER + ROWS)
    (tmp_path / "b.json").write_text('[{"time": 1')
    with pytest.raises(InputError, match=r"b\.json:1: is cut off here"):
        list(open_logs([str(tmp_path)], Reading({})).parts())


def test_rows_after_a_broken_block_keep_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK_BYTES", 2000)
    monkeypatch.setattr("planner.io.input_files.PIECE_BYTES", 1000)
    found = usage(tmp_path / "x.csv", HEADER + "a,b,c\n" + ROWS + "2026-09-07,-4,5,m\n")
    assert found.ledger.which("negative prompt tokens") == "x.csv row 603"


def test_a_query_that_cannot_look_at_the_clock_is_ended(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="logs need duckdb: pip install fleetplan[logs]")
    with stoppable(), pytest.raises(Stopped), connected(DUCKDB, tmp_path) as connection:
        timer = threading.Timer(0.05, ask_to_stop)
        timer.start()
        try:
            while True:
                connection.raw_sql(
                    "select count(*) from range(3000000) a, range(40) b where hash(a.range + b.range) = 3"
                )
        finally:
            timer.cancel()
