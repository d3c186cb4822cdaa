"""Figures of concerns where there is more than one line, cut or quarter: worked out by hand beside the rules."""

from __future__ import annotations

import numpy as np
import pytest

from planner.judgement.service import smaller_model
from planner.judgement.spending import guessed_signature, scarce_instances
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.simpler import Reduction, Simpler, reductions_of
from planner.reports.horizon import horizon_document
from planner.reports.text import as_text
from tests.planner.judgement.test_capacity import plan_with as boxes
from tests.planner.judgement.test_tiers import plan_with as tiers
from tests.support.horizon_plans import OFFER, horizon_plan


def test_boxes_bought_in_two_ways_are_worth_what_each_costs() -> None:
    plan = boxes()
    (line,) = plan.fleet
    n = np.array(line.instances_by_slot)
    spot = line.model_copy(
        update={"purchase": "spot", "usd_per_h": line.usd_per_h / 4, "instances_by_slot": (1,) * len(n)}
    )
    rest = line.model_copy(update={"instances_by_slot": tuple((n - 1).tolist())})
    (scarce,) = scarce_instances(plan.model_copy(update={"fleet": (rest, spot)}))
    hours = np.array([slot.hours_per_month for slot in plan.slots])
    each = ((n - 1) * line.usd_per_h + line.usd_per_h / 4) / n
    beyond = scarce.stock.peak - scarce.stock.counted_on
    assert scarce.replaced_usd == pytest.approx(float(hours @ (np.minimum(n, beyond) * each)))
    assert scarce.replaced_usd < float(hours @ np.minimum(n, beyond)) * line.usd_per_h


def test_an_option_that_overflows_to_the_smaller_api_is_not_the_larger_model_alone() -> None:
    plan = tiers("baseline:", "policy: {smaller_apis: allowed}\nbaseline:")
    (before,) = smaller_model(plan)
    mixed = next(o for o in plan.options if o.model == "llama-3.3-70b")
    cheap = mixed.model_copy(update={"cost_usd_per_month": 1.0, "api_share_frac": 0.3})
    (after,) = smaller_model(plan.model_copy(update={"options": (*plan.options, cheap)}))
    assert after == before


def test_what_was_cut_before_counts() -> None:
    cuts = ((100.0, True), (50.0, True), (None, False), (30.0, False))
    found = Simpler(
        within_frac=0.02,
        cost_usd_per_month=1150.0,
        bound_usd_per_month=1150.0,
        reductions=tuple(
            Reduction(without=(f"part {k}",), saves_usd_per_month=usd, done=done) for k, (usd, done) in enumerate(cuts)
        ),
        chosen=False,
    )
    assert [(t.more_usd, t.after) for t in reductions_of(found)] == [
        (100.0, False),
        (150.0, True),
        (None, True),
        (180.0, True),
    ]
    assert not list(reductions_of(None))


def with_a_quote(horizon: HorizonPlan) -> HorizonPlan:
    offer = horizon.case.offers[OFFER]
    assert offer.prices.reserved_1y is not None
    quoted = offer.prices.reserved_1y.model_copy(update={"assumption": None, "date": "2026-11-01", "stale": None})
    prices = offer.prices.model_copy(update={"reserved_1y": quoted})
    offers = {**horizon.case.offers, OFFER: offer.model_copy(update={"prices": prices})}
    return horizon.model_copy(update={"case": horizon.case.model_copy(update={"offers": offers})})


def test_a_guessed_price_stops_signing_for_several_quarters_and_a_quote_lets_it_through() -> None:
    horizon = horizon_plan()
    (concern,) = guessed_signature(horizon)
    (signed,) = horizon.signed_now
    whole = signed.instances * signed.usd_per_h * 730 * 12
    assert concern.stops_signing and f"${whole:,.0f} (all of what is to be signed)" in concern.sentence
    assert f"ask for {signed.instances} x {OFFER} reserved-1y" in concern.remedy
    assert "STOP: " in as_text(horizon_document(horizon))
    quoted = with_a_quote(horizon)
    assert not list(guessed_signature(quoted)) and "STOP" not in as_text(horizon_document(quoted))
