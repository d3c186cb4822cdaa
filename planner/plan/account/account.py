"""The account: all that follows from a case and decisions, and every dollar of it.

Money is what instances, APIs, caches, engineers and vendors cost, whose it is, and what the baseline costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.case.apis import baseline_of, baseline_usd_per_month, cache_usd_per_h, request_usd
from planner.case.prices import HELD, InstancePrice, price_of
from planner.case.quarters import held_usd_per_month
from planner.case.slots import hours_in_a_month
from planner.case.terms import beyond_months, bought_terms, months_to_pay, not_for_sale
from planner.case.vendors import Vendor, vendor_usd, vendors_bought_of
from planner.catalog.terms import TERM_MONTHS, is_bought, is_term
from planner.io.remembered import of_the_last
from planner.plan.account.covered import Covered, Usage
from planner.plan.account.flows import Flows, Served
from planner.plan.account.power import gpus_in_use
from planner.plan.decisions import Purchase, decisions_of
from planner.plan.plan import Baseline, BaselineBill, BoughtPlan, Commitment, Costs, FleetLine, LongTerm, Plan
from problems.constants import HOURS_PER_MONTH

ON_DEMAND = "on-demand"
SAME, SAME_USD = 1e-9, 1e-6
"""of prices, and of money: what is nearer to each other is the same"""


@dataclass(frozen=True, eq=False)
class Money:
    """USD; per month on average over the months unless it says otherwise."""

    account: Flows

    # -- instances ----------------------------------------------------------------------------------------

    def price(self, line: Purchase | FleetLine) -> InstancePrice:
        price = price_of(self.account.case, line.offer, line.purchase)
        assert price is not None, f"{line.offer} is not sold as {line.purchase}"
        return price

    def starts(self, purchase: str, instances: np.ndarray) -> np.ndarray:
        """Instances started in an hour of each slot; what is committed to is always there [slot]."""
        if is_term(purchase) or purchase == HELD:
            return np.zeros(len(instances))
        return np.asarray(np.maximum(0, instances - instances[self.account.before]))

    def instance_hours(self, line: Purchase | FleetLine) -> np.ndarray:
        """Paid for in an hour of each slot: those that run, and the start of those that were not there before."""
        n = np.array(line.instances_by_slot)
        return np.asarray(n + self.starts(line.purchase, n) * self.account.case.start.instance_s / 3600)

    def listed_usd_per_h(self, line: Purchase | FleetLine) -> np.ndarray:
        """What is paid for instances where no allowance covers them [slot]."""
        return self.instance_hours(line) * self.price(line).usd_per_h

    def listed_usd_per_month(self, line: Purchase | FleetLine) -> float:
        return self.account.a_month(self.instance_hours(line)) * self.price(line).usd_per_h

    def usd_per_h(self, line: Purchase | FleetLine) -> np.ndarray:
        """What is paid for instances that are bought, with their share of allowances [slot]."""
        listed = self.listed_usd_per_h(line)
        return listed + self.cover.more_usd_per_h(line.offer) if line.purchase == ON_DEMAND else listed

    def line_usd(self, line: Purchase | FleetLine) -> float:
        listed = self.listed_usd_per_month(line)
        if line.purchase != ON_DEMAND or not self.cover.covers(line.offer):
            return listed
        return listed + self.account.a_month(self.cover.more_usd_per_h(line.offer))

    @cached_property
    def cover(self) -> Covered:
        """What allowances cover."""
        account = self.account
        usage: Usage = {
            p.offer: np.array(p.instances_by_slot) for p in account.decided.purchases if p.purchase == ON_DEMAND
        }
        usage |= {s.w.name: self.api_bill_usd_per_h(s) for s in account.served if s.decided.api is not None}
        asked = {s.w.name: s.decided.api for s in account.served}
        return Covered(account, usage, asked)

    def line(self, bought: Purchase) -> FleetLine:
        offer, price = self.account.case.offers[bought.offer], self.price(bought)
        starts = self.account.a_month(self.starts(bought.purchase, np.array(bought.instances_by_slot)))
        return FleetLine(
            offer=bought.offer,
            gpu=offer.gpu,
            gpus_per_instance=offer.gpus,
            purchase=bought.purchase,
            instances_by_slot=bought.instances_by_slot,
            usd_per_h=price.usd_per_h,
            starts_per_month=starts,
            starting_usd_per_month=starts * self.account.case.start.instance_s / 3600 * price.usd_per_h,
            cost_usd_per_month=self.line_usd(bought),
            price_source=price.source,
            price_date=price.date,
            price_assumption=price.assumption,
        )

    @cached_property
    def spot_rise_usd(self) -> float:
        """What more spot instances cost at the 95th percentile of their price."""
        bought = self.account.decided.purchases
        prices = [self.price(line) for line in bought]
        return sum(
            self.account.a_month(self.instance_hours(line)) * (price.at_p95_usd_per_h - price.usd_per_h)
            for line, price in zip(bought, prices, strict=True)
        )

    @cached_property
    def commitments(self) -> tuple[Commitment, ...]:
        """What a payment up front has paid for is not owed again."""
        return tuple(self._commitment(p) for p in self.account.decided.purchases if is_term(p.purchase))

    def _commitment(self, bought: Purchase) -> Commitment:
        price, n = self.price(bought), bought.instances_by_slot[0]
        owed_usd = n * price.later_usd_per_h * HOURS_PER_MONTH * beyond_months(self.account.case, bought.purchase)
        return Commitment(
            offer=bought.offer,
            term=bought.purchase,
            instances=n,
            upfront_usd=n * price.upfront_usd,
            beyond_horizon_usd=owed_usd,
        )

    @cached_property
    def long_terms(self) -> tuple[LongTerm, ...] | None:
        """What terms that outlast the plan would save with the same instances in every hour; None: the menu has none.

        Shorter commitments that cost more are replaced, and so are as many instances on demand as it pays to hold all
        the time. Nothing is planned again, and quotas are not looked at.
        """
        case = self.account.case
        shut = not_for_sale(case)
        if not shut:
            return None
        found = []
        for offer in dict.fromkeys(line.offer for line in self.account.decided.purchases):
            prices = case.offers[offer].prices.reserved()
            if terms := [term for term in shut if term in prices]:
                term = min(terms, key=lambda t: (round(prices[t].usd_per_h, 9), t))
                n, replaced_usd = self._replaced(offer, prices[term].usd_per_h)
                if n:
                    found.append(self._long_term(offer, term, n, replaced_usd))
        return tuple(found)

    def _replaced(self, offer: str, usd_per_h: float) -> tuple[int, float]:
        """Instances of an offer that it pays to hold at this price, and what they cost as they are bought now."""
        count, usd = 0, 0.0
        covered = self.cover.covers(offer)
        for line in (p for p in self.account.decided.purchases if p.offer == offer):
            if is_term(line.purchase) and self.price(line).usd_per_h > usd_per_h * (1 + SAME):
                count, usd = count + line.instances_by_slot[0], usd + self.line_usd(line)
            elif line.purchase == ON_DEMAND and not covered:
                rest = self._usd_of_fewer(line)
                totals = [left + k * usd_per_h * HOURS_PER_MONTH for k, left in enumerate(rest)]
                k = next(k for k, total in enumerate(totals) if total <= min(totals) + SAME_USD)
                count, usd = count + k, usd + rest[0] - rest[k]
        return count, usd

    def _usd_of_fewer(self, line: Purchase) -> list[float]:
        """What the instances would cost if 0, 1, 2 ... of them were there in another way."""
        n = np.array(line.instances_by_slot)
        fewer = (np.maximum(0, n - k) for k in range(int(n.max()) + 1))
        return [self.line_usd(Purchase(line.offer, line.purchase, tuple(left.tolist()))) for left in fewer]

    def _long_term(self, offer: str, term: str, n: int, replaced_usd: float) -> LongTerm:
        case = self.account.case
        price = price_of(case, offer, term)
        assert price is not None
        monthly = n * price.usd_per_h * HOURS_PER_MONTH
        return LongTerm(
            offer=offer,
            term=term,
            instances=n,
            usd_per_month=monthly,
            replaces_usd_per_month=replaced_usd,
            saves_usd_per_month=replaced_usd - monthly,
            upfront_usd=n * price.upfront_usd,
            beyond_horizon_usd=n * price.later_usd_per_h * HOURS_PER_MONTH * beyond_months(case, term),
            months_to_pay=months_to_pay(term, monthly, replaced_usd),
        )

    # -- servers that are bought ---------------------------------------------------------------------------

    @cached_property
    def energy_usd_per_h(self) -> dict[str, np.ndarray]:
        """What GPUs in use draw besides what servers do that stand idle, by offer whose energy is paid for [slot]."""
        prices = {offer: self.account.case.offers[offer].prices.bought for offer in self._hosting}
        return {g: p.usd_per_gpu_h * gpus_in_use(self.account, g) for g, p in prices.items() if p is not None}

    @cached_property
    def energy_usd_of(self) -> dict[str, float]:
        return {offer: self.account.a_month(usd) for offer, usd in self.energy_usd_per_h.items()}

    @cached_property
    def energy_usd(self) -> float:
        return sum(self.energy_usd_of.values())

    @cached_property
    def _hosting(self) -> list[str]:
        """Offers that something runs on."""
        return list(dict.fromkeys(d.offer for _, _, d in self.account.hosted))

    @cached_property
    def bought(self) -> tuple[BoughtPlan, ...] | None:
        """Servers that are bought; None: the menu has none."""
        if not bought_terms(self.account.case):
            return None
        lines = (p for p in self.account.decided.purchases if is_bought(p.purchase))
        return tuple(self._bought(p) for p in lines)

    def _bought(self, line: Purchase) -> BoughtPlan:
        price, n = self.account.case.offers[line.offer].prices.bought, line.instances_by_slot[0]
        assert price is not None
        gpu_h = self.account.a_month(gpus_in_use(self.account, line.offer))
        energy_usd = self.energy_usd_of.get(line.offer, 0.0)
        return BoughtPlan(
            offer=line.offer,
            instances=n,
            price_usd=n * price.price_usd,
            residual_usd=n * price.residual_usd,
            life_months=price.life_months,
            depreciation_usd_per_month=n * price.depreciation_usd_per_month,
            capital_usd_per_month=n * price.capital_usd_per_month,
            maintenance_usd_per_month=n * price.maintenance_usd_per_month,
            colocation_usd_per_month=n * price.colocation_usd_per_month,
            idle_kwh_per_month=n * price.idle_kw * HOURS_PER_MONTH,
            gpu_hours_per_month=gpu_h,
            gpu_kwh_per_month=gpu_h * price.gpu_kw,
            energy_usd_per_month=n * price.idle_usd_per_month + energy_usd,
            cost_usd_per_month=n * price.usd_per_month + energy_usd,
        )

    # -- APIs, caches, engineers, vendors -------------------------------------------------------------------

    def api_usd_per_h(self, s: Served) -> np.ndarray:
        """What requests at an API cost, with their share of allowances [slot]."""
        return np.asarray(self.api_bill_usd_per_h(s) + self.cover.more_usd_per_h(s.w.name))

    def api_bill_usd_per_h(self, s: Served) -> np.ndarray:
        """What is paid by the token where no allowance covers it [slot]; providers keep prefixes whatever is cached on
        this side.
        """
        account = self.account
        if s.decided.api is None:
            return np.zeros(len(account.slots))
        return np.asarray(3600 * account.flow(s.w, s.decided.api_flows) @ request_usd(account.case, s.w, s.decided.api))

    def caching_usd_per_h(self, s: Served) -> np.ndarray:
        """[slot]; every request is looked up, those that are found too"""
        return cache_usd_per_h(self.account.case, s.w, s.decided.caching, self.account.slots)

    @cached_property
    def engineers_usd(self) -> float:
        """Nobody is needed where nothing is hosted."""
        return self.account.case.engineers_usd_per_month if self.account.hosted else 0.0

    @cached_property
    def vendors(self) -> list[Vendor]:
        """Providers and regions that instances are bought of, and providers of the APIs that answer requests."""
        offers = (p.offer for p in self.account.decided.purchases if any(p.instances_by_slot))
        flows = ((w.api, w.api_flows) for w in self.account.decided.workloads if w.api)
        asked = (api for api, mine in flows if any(any(flow.requests_per_s) for flow in mine))
        return vendors_bought_of(self.account.case, offers, asked)

    @cached_property
    def vendors_usd(self) -> float:
        """Fixed costs: each vendor once, whatever is bought there."""
        return float(sum(vendor_usd(self.account.case, vendor) for vendor in self.vendors))

    # -- what it comes to -----------------------------------------------------------------------------------

    @cached_property
    def costs(self) -> Costs:
        a_month, served = self.account.a_month, self.account.served

        def paid(*purchases: str) -> float:
            return float(sum(self.line_usd(p) for p in self.account.decided.purchases if p.purchase in purchases))

        return Costs(
            reserved_usd_per_month=paid(*TERM_MONTHS),
            on_demand_usd_per_month=paid(ON_DEMAND),
            spot_usd_per_month=paid("spot"),
            api_usd_per_month=sum(a_month(self.api_usd_per_h(s)) for s in served),
            caching_usd_per_month=sum(a_month(self.caching_usd_per_h(s)) for s in served),
            engineers_usd_per_month=self.engineers_usd,
            vendors_usd_per_month=None if self.account.case.limits.vendor_usd_per_month is None else self.vendors_usd,
            bought_usd_per_month=paid(*bought) if (bought := bought_terms(self.account.case)) else None,
            energy_usd_per_month=self.energy_usd if bought else None,
        )

    @cached_property
    def cost_usd(self) -> float:
        """Besides what is held."""
        return self.costs.total()

    @cached_property
    def held_usd(self) -> float:
        return held_usd_per_month(self.account.case)

    @cached_property
    def penalty_usd(self) -> float:
        return float(sum(self.penalty_usd_of(s) for s in self.account.served))

    @cached_property
    def objective_usd(self) -> float:
        """What is minimized."""
        return self.cost_usd + self.penalty_usd

    @cached_property
    def tokens(self) -> float:
        """Of the requests that are answered, in a month."""
        return float(sum(self.account.tokens_per_month(s) for s in self.account.served))

    def penalty_usd_of(self, s: Served) -> float:
        return self.account.sent_per_month(s, s.decided.shed_flows) * (s.w.shed_usd_per_request or 0.0)

    # -- one month ------------------------------------------------------------------------------------------

    def month_usd(self, month: int) -> float:
        """What one month costs with what is held, penalties aside."""
        account = self.account
        everybody = [
            *(self.usd_per_h(p) for p in account.decided.purchases),
            *self.energy_usd_per_h.values(),
            *(self.api_usd_per_h(s) + self.caching_usd_per_h(s) for s in account.served),
        ]
        return self._of_month(everybody, month) + self.engineers_usd + self.vendors_usd + self.held_usd

    def parts_of_month(self, month: int) -> tuple[float, float, float]:
        """What one month pays for instances, for APIs, and for all else besides what is held."""
        instances = [*(self.usd_per_h(p) for p in self.account.decided.purchases), *self.energy_usd_per_h.values()]
        apis = [self.api_usd_per_h(s) for s in self.account.served]
        caching = [self.caching_usd_per_h(s) for s in self.account.served]
        rest = self._of_month(caching, month) + self.engineers_usd + self.vendors_usd
        return self._of_month(instances, month), self._of_month(apis, month), rest

    def penalty_usd_of_month(self, month: int) -> float:
        account = self.account
        shed = ((s, account.flow(s.w, s.decided.shed_flows).sum(axis=1)) for s in account.served)
        return self._of_month([3600 * rates * (s.w.shed_usd_per_request or 0.0) for s, rates in shed], month)

    def _of_month(self, usd_per_h: Iterable[np.ndarray], month: int) -> float:
        """What hourly amounts [slot] come to in one month of average weight."""
        account = self.account
        hours = np.array([hours_in_a_month(s.day) * (s.month == month) for s in account.slots])
        return float(sum((hours @ usd for usd in usd_per_h), 0.0))

    # -- whose it is ----------------------------------------------------------------------------------------

    def gpu_usd(self, s: Served) -> float:
        """Deployments on the same offer share its cost by their GPU-hours, workloads in a pool by their load-hours."""
        return self.share_of_offers(s, self._offer_usd)

    def share_of_offers(self, s: Served, usd_of: Callable[[str], float]) -> float:
        """What a workload bears of amounts by offer."""
        pool, usd = self.account.pool_of(s.w.name), 0.0
        for d in pool.deployments:
            own = self.account.a_month(d.replicas_by_slot) * d.gpus_per_replica
            usd += usd_of(d.offer) * own / self._gpu_hours(d.offer) if own else 0.0
        return usd * self.account.share_of_load(pool, s)

    def _offer_usd(self, offer: str) -> float:
        lines = sum(self.line_usd(p) for p in self.account.decided.purchases if p.offer == offer)
        return lines + self.energy_usd_of.get(offer, 0.0)

    def _gpu_hours(self, offer: str) -> float:
        there = (d for _, _, d in self.account.hosted if d.offer == offer)
        return sum(self.account.a_month(d.replicas_by_slot) * d.gpus_per_replica for d in there)

    # -- the baseline ---------------------------------------------------------------------------------------

    @cached_property
    def baseline(self) -> Baseline:
        """All that is answered would be bought, what a cache of answers finds too; providers cache prompts.

        What is saved is beside the whole bill: what is held does not go away because others pay nothing for it.
        """
        case, cost = self.account.case, self.cost_usd + self.held_usd
        api, bills = case.apis[case.baseline], [self._baseline_bill(s) for s in self.account.served]
        usd = sum(bill.cost_usd_per_month for bill in bills)
        listed = any(w.baseline is not None or not w.api_allowed for w in case.workloads)
        return Baseline(
            provider=api.provider,
            model=api.model,
            cost_usd_per_month=usd,
            usd_per_1m_tokens=per_1m(usd, self.tokens),
            savings_usd_per_month=usd - cost,
            savings_frac=(usd - cost) / usd if usd else 0.0,
            source=api.source,
            date=api.date,
            by_workload=tuple(bills) if listed else None,
        )

    def baseline_usd_of_month(self, month: int) -> float:
        """What one month of average weight would cost at the baselines."""
        account, total = self.account, 0.0
        hours = np.array([hours_in_a_month(s.day) * (s.month == month) for s in account.slots])
        for s in account.served:
            total += baseline_usd_per_month(account.case, s.w, 3600 * hours @ account.not_shed(s))
        return total

    def _baseline_bill(self, s: Served) -> BaselineBill:
        case = self.account.case
        return BaselineBill(
            workload=s.w.name,
            api=baseline_of(case, s.w),
            cost_usd_per_month=baseline_usd_per_month(case, s.w, self.account.answered_per_month(s)),
            may_use_an_api=s.w.api_allowed,
        )


def per_1m(usd: float, tokens: float) -> float:
    return 1e6 * usd / tokens if tokens else 0.0


@dataclass(frozen=True, eq=False)
class Account(Flows):
    """The figures of a plan: where requests go, and what that costs."""

    @cached_property
    def money(self) -> Money:
        return Money(self)


@dataclass(frozen=True, eq=False)
class PlanAccount(Account):
    """The account of a plan that is there."""

    plan: Plan


@of_the_last
def account_of(plan: Plan) -> PlanAccount:
    """The account of a plan; what the plan says of its figures is not looked at."""
    return PlanAccount(plan.case, decisions_of(plan), plan)
