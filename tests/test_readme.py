"""The README keeps its word: what it prints is what one gets, and what it names exists."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import planner
from planner.cli.command import app
from tests.refresh import (
    API,
    README_BLOCK,
    REVIEW_BLOCK,
    WHAT_IF_BLOCK,
    readme_output,
    review_output,
    what_if_output,
)
from tests.support import api_reference, tutorials
from tests.support.places import ROOT
from tests.support.rows import for_each

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
ALL = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
MOST_WORDS = {"README.md": 900, "guides": 600, "start": 1000}
FOLLOWED = [page for part in ("start", "guides") for page in sorted((DOCS / part).glob("*.md"))]


def test_the_first_two_bash_blocks_are_the_two_commands() -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert "fleetplan plan examples/quickstart.yaml" in blocks[0]
    assert "pytest" in blocks[1]
    assert all(block.startswith("python3 -m venv .venv") and block.count("\n") == 1 for block in blocks[:2])


@pytest.mark.smoke
def test_the_output_shown_is_the_output() -> None:
    shown = README_BLOCK.findall(ALL)
    assert shown
    for _, example, text, _ in shown:
        assert text == readme_output(example)


@pytest.mark.smoke
def test_the_review_shown_is_the_review() -> None:
    ((_, example, text, _),) = REVIEW_BLOCK.findall(ALL)
    assert text == review_output(example)


@pytest.mark.process
def test_the_what_if_shown_is_the_output_and_its_picture(tmp_path: Path) -> None:
    ((_, arguments, text, _),) = WHAT_IF_BLOCK.findall(ALL)
    picture = re.search(r"--svg (\S+)", arguments)
    assert picture is not None
    elsewhere = arguments.replace(picture[1], str(tmp_path / "picture.svg"))
    assert what_if_output(elsewhere) == text
    assert (tmp_path / "picture.svg").read_text(encoding="utf-8") == (ROOT / picture[1]).read_text(encoding="utf-8")


def test_the_quickstart_shown_is_the_file() -> None:
    yaml_block = re.search(r"^```yaml\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert yaml_block is not None
    assert yaml_block[1] == (ROOT / "examples" / "quickstart.yaml").read_text(encoding="utf-8")


@pytest.mark.process
def test_the_python_shown_runs() -> None:
    code = re.search(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert code is not None
    done = subprocess.run([sys.executable, "-c", code[1]], cwd=ROOT, capture_output=True, text=True, check=True)
    cost, gap, saving = (float(x) for x in done.stdout.split())
    assert cost > 0
    assert 0 <= gap <= 0.001
    assert saving > 0


def test_every_command_named_exists_and_every_command_is_named() -> None:
    commands = set(typer.main.get_group(app()).commands)
    page = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `fleetplan ([\w-]+)[ `]", page, re.MULTILINE)) == commands


def test_pages_are_short_enough_to_be_read() -> None:
    def most(page: Path) -> int | None:
        return MOST_WORDS.get(page.name) if page.parent == ROOT else MOST_WORDS.get(page.parent.name)

    words = {page: len(page.read_text(encoding="utf-8").split()) for page in PAGES}
    assert {page.name: n for page, n in words.items() if (limit := most(page)) is not None and n > limit} == {}


@for_each("page", FOLLOWED)
def test_commands_in_guides_have_the_options_they_name(page: Path) -> None:
    """Whether or not their files exist: a command and every option of it are known."""
    blocks = re.findall(r"^```bash\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    unknown = []
    for line in (line for line in lines if line.startswith("fleetplan ")):
        words = shlex.split(line.split(" > ")[0])[1:]
        command: Any = typer.main.get_group(app())
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
        if command is typer.main.get_group(app()):
            unknown.append(line)
        unknown += [f"{line}: {word}" for word in words if word.startswith("--") and word.split("=")[0] not in known]
    assert unknown == []


def test_the_reference_is_that_of_the_public_names() -> None:
    assert API.read_text(encoding="utf-8") == api_reference.page()


@pytest.mark.smoke
@pytest.mark.process
@pytest.mark.parametrize("page", sorted((DOCS / "start").glob("*.md")), ids=lambda p: p.stem)
def test_tutorials_work_word_for_word(page: Path, tmp_path: Path) -> None:
    assert tutorials.missing_lines(page, tmp_path) == []


@for_each("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_index_lists_every_page() -> None:
    docs = ROOT / "docs"
    index = (docs / "README.md").read_text(encoding="utf-8")
    pages = [p.relative_to(docs).as_posix() for p in sorted(docs.rglob("*.md"))]
    assert [page for page in pages if page != "README.md" and f"({page})" not in index] == []


def test_the_architecture_names_every_room() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = [
        p.parent for name in ("planner", "problems", "solvers") for p in sorted((ROOT / name).glob("*/__init__.py"))
    ]
    rooms = [f"{p.name}/" if p.parent.name == "planner" else f"{p.parent.name}/{p.name}/" for p in folders]
    assert [room for room in rooms if f"`{room}" not in text] == []


def test_the_docs_list_every_constraint_family() -> None:
    from problems.fleet import FAMILIES

    text = (ROOT / "docs" / "evidence" / "formulation.md").read_text(encoding="utf-8")
    assert [f.__name__ for f in FAMILIES if f"`{f.__name__}`" not in text] == []


def test_ways_to_share_experts_that_are_on_by_default_are_those_the_guide_names() -> None:
    limits = planner.load_case(ROOT / "examples" / "quickstart.yaml").limits
    ways = ", ".join(limits.parallelism or ("tensor",))
    guide = (DOCS / "guides" / "levers.md").read_text(encoding="utf-8")
    by_default = guide.split("On by default:")[1].split("You must name")[0]
    assert f"`parallelism: [{ways}]`" in by_default and "whole experts" not in by_default


def test_the_longest_request_of_a_serve_command_is_described_as_what_it_is() -> None:
    rows = (ROOT / "docs" / "reference" / "outputs.md").read_text(encoding="utf-8").splitlines()
    (row,) = [row for row in rows if row.startswith("| `--max-model-len`")]
    assert "the model's context, or what of it fits" in row


def test_files_that_agents_are_taught_are_valid() -> None:
    blocks = re.findall(
        r"^```yaml\n(.*?)^```", (DOCS / "SKILL.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert [len(planner.case_from_text(block).workloads) for block in blocks] == [1, 2]
