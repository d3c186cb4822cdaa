"""What a release needs: a container that is not root, a version with a date, formats that are written down."""

from __future__ import annotations

import re
import tomllib
from datetime import date

from tests.support.places import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()


def test_the_container_gets_every_file_that_the_package_is_built_from() -> None:
    copied = {
        word for line in DOCKERFILE if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    }
    let_through = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert copied >= {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"], *packages}
    for name in copied:
        assert (ROOT / name).exists() and f"!{name}" in let_through


def test_the_container_is_slim_and_not_root() -> None:
    stages = [line for line in DOCKERFILE if line.startswith("FROM ")]
    assert all("-slim" in stage for stage in stages)
    (user,) = (line.split()[1] for line in DOCKERFILE if line.startswith("USER "))
    assert int(user) > 0
    assert DOCKERFILE.index(f"USER {user}") > DOCKERFILE.index(stages[-1])


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    """A version that is not released yet is a development version; one that is has the day."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (first, when), *others = re.findall(r"^## (\S+) \((.*)\)$", CHANGELOG, re.MULTILINE)
    assert project["project"]["version"] == (f"{first}.dev0" if when == "unreleased" else first)
    days = [date.fromisoformat(day) for _, day in others]
    assert days and days == sorted(days, reverse=True)
    assert len(re.findall(r"^## ", CHANGELOG, re.MULTILINE)) == 1 + len(others), "a version without a date"


def test_the_page_about_formats_has_every_format() -> None:
    page = (ROOT / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")
    sources = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "planner").rglob("*.py"))]
    formats = {found for source in sources for found in re.findall(r'"(fleetplan-[a-z-]+/\d+)"', source)}
    assert len(formats) >= 10
    assert sorted(name for name in formats if f"`{name}`" not in page) == []
