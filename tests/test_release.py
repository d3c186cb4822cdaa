"""What a release needs: the container gets the files it installs from, and does not run as root."""

from __future__ import annotations

import tomllib

from tests.support.places import ROOT

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
