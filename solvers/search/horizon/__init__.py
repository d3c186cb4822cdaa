"""The search for the cheapest commitments over a horizon."""

from solvers.search.horizon.horizon_search import HorizonSearch
from solvers.search.horizon.solution import HorizonSolution

__all__ = ["HorizonSearch", "HorizonSolution"]
