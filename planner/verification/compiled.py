"""How functions are compiled by numba.

Python calls what takes long for a part of its work at a time, and looks at the clock in between.
"""

from __future__ import annotations

from numba import njit

compiled = njit(cache=True)
inlined = njit(cache=True, inline="always")
"""for those that compiled ones call in every step"""
