"""The first step of the command, installed as the top-level module `fleetplan_command`.

Other packages install a `planner`, `problems` or `solvers` too. If Python would import one of those instead of ours,
this module says so: it has a name of its own, and it looks before anything is imported.
"""

from __future__ import annotations

import os
import sys

OWN_FILES = {"planner": "pipeline.py", "problems": "fleet_problem.py", "solvers": "search/fleet_solver.py"}
"""a file of each package that no other package of that name has"""


def main() -> None:
    """Run `fleetplan`, unless Python finds other packages under the names of ours."""
    for name in OWN_FILES:
        place = foreign_place(name)
        if place is not None:
            message = f"Python finds another package called '{name}' before fleetplan's: {place}. Install fleetplan in "
            remedy = "an environment of its own (pipx install, uv tool install), or take that folder off PYTHONPATH."
            print(message + remedy, file=sys.stderr)
            sys.exit(2)
    from planner.cli import main as run

    run()


def foreign_place(name: str) -> str | None:
    """Where Python finds a package that is not ours under this name; None if it finds ours, or none on the path."""
    for entry in sys.path:
        if name != "planner" and _is_the_working_folder(entry):
            continue  # `planner.cli` takes it off the path before it imports anything else
        folder = os.path.join(entry or os.curdir, name)
        if os.path.isfile(f"{folder}.py") or os.path.isfile(os.path.join(folder, "__init__.py")):
            own = os.path.isfile(os.path.join(folder, OWN_FILES[name]))
            return None if own else os.path.abspath(folder)
    return None


def _is_the_working_folder(entry: str) -> bool:
    try:
        return os.path.realpath(entry or os.curdir) == os.path.realpath(os.curdir)
    except FileNotFoundError:  # it is gone, and with it whatever lay there
        return not entry


if __name__ == "__main__":
    main()
