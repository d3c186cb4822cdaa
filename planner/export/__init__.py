"""A saved plan as files for what runs fleets: manifests and services, to be reviewed and applied by people.

The room has the name of a verb: planner.export(plan, to="kubernetes") does what `fleetplan export` does.
"""

from __future__ import annotations

import sys

from planner.io.callable_room import CallableRoom

sys.modules[__name__].__class__ = CallableRoom
