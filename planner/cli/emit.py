"""The one way of a verb to put out its result: the files that were asked for, and stdout in a format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli import guard
from planner.cli.common import in_color, note, put, refuse
from planner.io.formatting import counted

if TYPE_CHECKING:
    from planner.reports.document import Document

SUMMARIES = (".html", ".md")
Content = Callable[[], str | bytes]
OF_ENDING = {".html": "--html", ".htm": "--html", ".md": "--markdown", ".xlsx": "--xlsx", ".csv": "--csv"}
"""options that write a format, by the ending of its files"""


@dataclass(frozen=True)
class Outputs:
    """Where a result goes."""

    format: str | None = "table"
    """of stdout: table, md, json or csv; without one nothing is printed"""
    out: Path | None = None
    """the result itself, as JSON"""
    html: Path | None = None
    markdown: Path | None = None
    csv: Path | None = None
    """a folder for all tables"""
    xlsx: Path | None = None
    summary: Path | None = None
    """one page to be signed, as a page or Markdown by the ending of its name"""
    table: str | None = None
    """the one that csv prints; by default the first"""
    quiet: bool = False

    def check(
        self,
        inputs: Iterable[Path | str] = (),
        tables: Sequence[str] = (),
        others: Mapping[str, Path | None] | None = None,
        into: Mapping[str, Iterable[Path]] | None = None,
    ) -> None:
        """Refuse what cannot be put out before long work, not after it: `tables` are those that the result may have,
        `others` and `into` the files that the verb writes besides, alone and into folders."""
        from planner.io.files import check_targets

        if self.out is not None and (option := OF_ENDING.get(self.out.suffix.lower())):
            refuse(
                str(self.out),
                f"--out writes JSON, and {self.out.suffix} is another format",
                f"Write {option} {self.out}",
            )
        if self.xlsx is not None:
            from planner.reports.xlsx import require_openpyxl

            require_openpyxl()
        if self.format == "csv" and self.table is not None and self.table not in tables:
            _refuse_table(self.table, tables)
        if self.csv is not None and self.csv.exists() and not self.csv.is_dir():
            refuse(str(self.csv), "is a file", "Name a folder for the CSV tables")
        if self.summary is not None and self.summary.suffix.lower() not in SUMMARIES:
            refuse("--summary", "is a page or Markdown", f"End its name in {' or '.join(SUMMARIES)}")
        files = {"--out": self.out, "--html": self.html, "--markdown": self.markdown, "--xlsx": self.xlsx}
        files["--summary"] = self.summary
        folder = [] if self.csv is None else [self.csv / f"{name}.csv" for name in tables]
        check_targets({**files, **(others or {})}, inputs, {"--csv": folder, **(into or {})})


def emit(
    document: Document,
    outputs: Outputs,
    seconds: float | None = None,
    also: Sequence[tuple[Path | None, Content]] = (),
) -> None:
    """Write the files and print the result; `seconds`: how long it took, `also`: files of the verb's own."""
    from planner.io.files import write_whole
    from solvers.backends.clock import undisturbed

    guard.end_by(float("inf"))  # what is begun here is not to be begun again, however long somebody takes to read it
    with undisturbed():
        for target, content in (*_files(document, outputs), *also):
            if target is not None:
                write_whole(target, content())
                note(f"wrote {target}", outputs.quiet)
        if outputs.csv is not None:
            from planner.reports.csv import write_tables

            written = write_tables(document.all_tables(), outputs.csv)
            note(f"wrote {counted(len(written), 'table')} into {outputs.csv}", outputs.quiet)
        if outputs.format is not None:
            put(shown(document, outputs.format, outputs.table, seconds))


def emit_made(text: str, document: Document, out: Path | None, format: str, wrote: str, quiet: bool) -> None:
    """Write a file that was made and say what it holds; without a name for it, it goes to stdout itself."""
    from planner.io.files import write_whole

    if out is not None:
        write_whole(out, text)
        note(wrote, quiet)
    put(text if out is None and format != "json" else shown(document, format))


def shown(document: Document, format: str, table: str | None = None, seconds: float | None = None) -> str:
    """The document as it is printed; text may be in colour and say how long it took."""
    from planner.reports.formats import as_text, rendered

    return as_text(document, in_color(), seconds) if format == "table" else rendered(document, format, table)


def _files(document: Document, outputs: Outputs) -> Iterable[tuple[Path | None, Content]]:
    from planner.reports.formats import as_html, as_markdown, as_workbook

    yield outputs.out, document.json
    yield outputs.html, lambda: as_html(document)
    yield outputs.markdown, lambda: as_markdown(document)
    yield outputs.xlsx, lambda: as_workbook(document)
    if outputs.summary is not None and document.summary is not None:
        page, made = outputs.summary.suffix.lower() == SUMMARIES[0], document.summary
        yield outputs.summary, lambda: (as_html if page else as_markdown)(made())


def _refuse_table(name: str, known: Sequence[str]) -> None:
    from planner.io.errors import did_you_mean, shown

    refuse(
        "--table", f"there is no table {shown(name)}", did_you_mean(name, known) or f"its tables are {', '.join(known)}"
    )
