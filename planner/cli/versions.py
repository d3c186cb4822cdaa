"""What `fleetplan --version` prints; with --verbose, what a bug report needs."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version


def version_text(verbose: bool) -> str:
    lines = [f"fleetplan {version('fleetplan')}"]
    if verbose:
        lines += [f"{name:<9} {value}" for name, value in _surroundings().items()]
    return "\n".join(lines) + "\n"


def _surroundings() -> dict[str, str]:
    import platform

    from solvers.backends.cbc import cbc_version
    from solvers.backends.highs import highs_version

    return {
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "CBC": _or_why_not(cbc_version),
        "HiGHS": _or_why_not(highs_version),
        "catalog": f"prices up to {_newest_price()}, genai-prices {version('genai-prices')}",
    }


def _or_why_not(solver_version: Callable[[], str]) -> str:
    from solvers.backends.trouble import SolverMissing

    try:
        return solver_version()
    except SolverMissing as missing:
        return f"cannot run: {missing}"


def _newest_price() -> str:
    from planner.catalog.entries import shipped_catalog

    offers = shipped_catalog().offers.values()
    prices = [price for offer in offers for price in (offer.prices.on_demand, offer.prices.spot) if price is not None]
    return max((price.date for price in prices if price.date), default="unknown")
