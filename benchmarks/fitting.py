"""How many releases of ten kinds fit into (3, 1e-6), in our accounts and by the bookkeeping of others; a year of nights."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from fractions import Fraction
from pathlib import Path

from benchmarks.measuring import table, verdict
from sordino import (
    COUNTING,
    BudgetExceeded,
    ExponentialMechanism,
    GaussianMechanism,
    GumbelSparseVector,
    InvalidParameter,
    LaplaceMechanism,
    Ledger,
    NoisyTopK,
    PrivacyUnit,
    Seeded,
    Session,
    cost,
)
from sordino.ledger import Budget
from sordino.ledger.amounts import Meter, exact_amounts
from sordino.ledger.renyi import NOTHING, Amounts

EPSILON, DELTA = 3, 1e-6
NIGHT = 0.02
"""Epsilon of each release, or of the release whose noise it has."""
NIGHTS = 365
TARGET = 4
"""How many times the nights of a pure account a year of top-10 should have."""

COUNT, TOP = "count of people", "top-10 of a list"
LABELS = [f"p{number:02}" for number in range(50)]

BUDGETS = {
    "pure": Budget(epsilon=EPSILON),
    "zCDP": Budget(epsilon=EPSILON, delta=DELTA, meter="zcdp"),
    "(epsilon, delta)": Budget(epsilon=EPSILON, delta=DELTA),
}

# Losses of dp_accounting are rounded up to multiples of it: a hundredth of the smallest rate or less.
INTERVAL = 1e-5


# ---- ten kinds, as users make them ---------------------------------------------------------------------------


def purchases():
    """Made-up purchases; only their columns matter, because a cost never depends on rows."""
    import polars as pl

    rows = [(f"c{n}", LABELS[n * n % 50], float(n % 97)) for n in range(2000)]
    return pl.DataFrame(rows, schema=["customer", "product", "price"], orient="row")


def top_10(session, epsilon=NIGHT):
    return session.top_k("product", k=10, epsilon=epsilon, domain=LABELS)


def count_people(session):
    return session.count_distinct_units(epsilon=NIGHT)


def kinds():
    """The mechanisms of each kind of release; those of a session are the ones that it released with."""

    def session(**rows):
        return Session(purchases(), unit=PrivacyUnit("customer", **rows), entropy=Seeded(7))

    def used(release):
        found = release.mechanism
        return found if isinstance(found, tuple) else (found,)

    above = used(
        session().above("product", threshold=100, positives=10, epsilon=NIGHT, domain=LABELS)
    )
    # A threshold with its questions costs twice what one question moves its noise by.
    rates = 2 * 10 * above[0].positive_epsilon
    measured = LaplaceMechanism(epsilon=NIGHT / 2, sensitivity=COUNTING.over(10))
    counted = LaplaceMechanism(epsilon=NIGHT, sensitivity=COUNTING.over(3))
    return {
        COUNT: used(count_people(session())),
        "histogram of 50 labels, 3 items a person": used(
            session(max_rows=3).histogram("product", epsilon=NIGHT, domain=LABELS)
        ),
        TOP: used(top_10(session())),
        "top-10, Gumbel and Gaussian noise": (
            NoisyTopK(k=10, epsilon=NIGHT / 2, sensitivity=COUNTING, noise="gumbel"),
            gaussian_like(measured, 10),
        ),
        "first 10 above a threshold": above,
        "the same, Gumbel noise": (
            GumbelSparseVector(threshold=100, positives=10, epsilon=rates, sensitivity=COUNTING),
        ),
        "median with its interval": used(median_of_an_account()),
        "mean (a sum costs the same)": used(
            session(max_rows=1).mean("price", epsilon=NIGHT, lower=0, cap=1e6)
        ),
        "exponential mechanism": (
            ExponentialMechanism(epsilon=NIGHT, sensitivity=COUNTING, gap=False),
        ),
        "the histogram with Gaussian noise": (gaussian_like(counted, 3),),
    }


def median_of_an_account():
    """Return a median as an account with a delta has it: a search, of which either side is known."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(
            Path(folder) / "budget.db",
            account="nightly",
            budget=BUDGETS["(epsilon, delta)"],
            adjacency="add-remove",
            unit="customer",
            source="name:purchases",
        )
        unit = PrivacyUnit("customer", max_rows=1)
        with Session(purchases(), unit=unit, ledger=ledger, name="purchases") as session:
            return session.quantile("price", q=0.5, epsilon=NIGHT, lower=0, cap=1e6)


def gaussian_like(laplace, items):
    """Discrete Gaussian noise with the variance of a Laplace mechanism, on counts of which one person moves so many by 1."""
    rho = Fraction(items) / (2 * Fraction(laplace.noise.variance))
    return GaussianMechanism(rho=rho, sensitivity=COUNTING.over(items, "l2"))


# ---- our accounts ----------------------------------------------------------------------------------------------


def fitting(budget, mechanisms):
    """How many fit into a new account: the sum and the rule of a reservation, and what `ledger show` counts by."""
    meter = Meter(budget.meter, budget.order)
    try:
        asked = sum((exact_amounts(part, meter) for part in mechanisms), Amounts()).rounded_up()
    except InvalidParameter:  # what has no epsilon is never let into a pure account
        return 0
    return budget.limits.count_more(NOTHING, asked)


def charged(budget, mechanisms):
    """How many a ledger really takes on until it refuses; each is reserved, drawn and settled on disk."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(
            Path(folder) / "budget.db",
            account="nightly",
            budget=budget,
            adjacency="add-remove",
            unit="customer",
            source="name:purchases",
        )
        made = 0
        while True:
            try:
                with ledger.reserve(mechanisms) as charge:
                    for one in mechanisms:
                        charge.release(one, answers_for(one))
            except BudgetExceeded:
                return made
            made += 1


def answers_for(mechanism):
    """Some answers of the shape that a mechanism takes."""
    if isinstance(mechanism, NoisyTopK):
        return [1000 - 3 * place for place in range(len(LABELS))]
    return [1000] * mechanism.sensitivity.size if mechanism.sensitivity.size else 1000


def fixed_list(mechanisms, count):
    """Our epsilon of so many as a list that was fixed in advance, which no account may use."""
    return cost.repeat(cost.compose(*(one.cost for one in mechanisms)), count).epsilon(DELTA)


def largest(fits):
    """The largest n for which `fits(n)` holds, which holds for all smaller ones."""
    high = 1
    while fits(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


# ---- the bookkeeping of others -----------------------------------------------------------------------------------


def parts_of(mechanisms):
    """The single costs of a release, each with how often it is paid."""
    total = cost.compose(*(one.cost for one in mechanisms))
    return sorted(total.parts, key=repr) if isinstance(total, cost.Composition) else [(total, 1)]


def law_of(part):
    """The law that dp_accounting has for a cost: its name, and the noise over what one person moves."""
    if isinstance(part, cost.RDP):
        return "Laplace", 1 / float(part.laplace)
    if isinstance(part, cost.ZCDP):
        return "Gaussian", (2 * float(part.rho)) ** -0.5
    return "randomized response", float(part.pure())


def rdp_epsilon(mechanisms, count):
    """dp_accounting's RdpAccountant, with its default orders."""
    import dp_accounting as dp

    made = {
        "Laplace": dp.LaplaceDpEvent,
        "Gaussian": dp.GaussianDpEvent,
        "randomized response": lambda e: dp.dp_event.RandomizedResponseDpEvent(
            2 / (1 + math.exp(e)), 2
        ),
    }
    events = []
    for part, times in parts_of(mechanisms):
        name, parameter = law_of(part)
        events.append(dp.SelfComposedDpEvent(made[name](parameter), times))
    accountant = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    return float(accountant.compose(dp.ComposedDpEvent(events), count).get_epsilon(DELTA))


def pld_of(mechanisms):
    """dp_accounting's privacy loss distribution of one release; the Laplace law is that of the grid."""
    from dp_accounting.pld import common, privacy_loss_distribution as pld

    whole = pld.identity(INTERVAL)
    for part, times in parts_of(mechanisms):
        name, parameter = law_of(part)
        if name == "Laplace":
            steps = part.laplace_steps
            one = pld.from_discrete_laplace_mechanism(
                float(part.laplace) / steps, steps, value_discretization_interval=INTERVAL
            )
        elif name == "Gaussian":
            one = pld.from_gaussian_mechanism(parameter, value_discretization_interval=INTERVAL)
        else:
            pure = common.DifferentialPrivacyParameters(parameter, 0)
            one = pld.from_privacy_parameters(pure, value_discretization_interval=INTERVAL)
        whole = whole.compose(one if times == 1 else one.self_compose(times))
    return whole


def opendp_rho(part):
    """What OpenDP measures one part at in zCDP, by its own constructor where it has one."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    number = dp.atom_domain(T="i32")
    if isinstance(part, cost.ZCDP):
        return dp.m.make_gaussian(number, dp.absolute_distance(T="i32"), scale=law_of(part)[1]).map(
            1
        )
    epsilon = float(part.pure())
    if isinstance(part, cost.BoundedRange):
        space = dp.vector_domain(number), dp.linf_distance(T="i32", monotonic=True)
        return dp.m.make_noisy_max(
            *space, dp.zero_concentrated_divergence(), scale=1 / epsilon
        ).map(1)
    pure = dp.m.make_laplace(number, dp.absolute_distance(T="i32"), scale=1 / epsilon)
    return dp.c.make_pureDP_to_zCDP(pure).map(1)


def opendp_epsilon(mechanisms, count):
    """OpenDP's composition of so many releases, converted by OpenDP."""
    import opendp.prelude as dp

    rho = sum(times * opendp_rho(part) for part, times in parts_of(mechanisms))
    # Measurements over different spaces cannot be composed, so a release goes in as a Gaussian one of its rho.
    space = dp.atom_domain(T="i32"), dp.absolute_distance(T="i32")
    one = dp.m.make_gaussian(*space, scale=(2 * rho) ** -0.5)
    many = dp.c.make_composition([one] * count)
    return dp.c.make_zCDP_to_approxDP(many).map(1).epsilon(DELTA)


def tumult_count(mechanisms):
    """Tumult's published rules; computed here, because the package is not installed.

    epsilon^2/2 for what is pure, epsilon^2/8 for an exponential mechanism, and the largest rho with
    rho + 2 sqrt(rho ln(1/delta)) at most epsilon.
    """
    rho = sum(times * tumult_rho(part) for part, times in parts_of(mechanisms))
    return math.floor(tumult_limit() / rho)


def tumult_rho(part):
    if isinstance(part, cost.ZCDP):
        return part.rho
    return Fraction(part.pure()) ** 2 / (8 if isinstance(part, cost.BoundedRange) else 2)


def tumult_limit():
    log = -math.log(DELTA)
    return Fraction((math.sqrt(log + EPSILON) - math.sqrt(log)) ** 2)


# ---- tables --------------------------------------------------------------------------------------------------------


def fittings():
    rows = []
    for name, mechanisms in kinds().items():
        pure, zcdp, both = (fitting(budget, mechanisms) for budget in BUDGETS.values())
        night = pld_of(mechanisms)
        laws = Counter()
        for part, times in parts_of(mechanisms):
            laws[law_of(part)[0]] += times
        rows.append(
            (
                name,
                *(f"{number:,}" if number else "none" for number in (pure, zcdp, both)),
                f"{both / pure:.1f}" if pure else "",
                f"{largest(lambda n: rdp_epsilon(mechanisms, n) <= EPSILON):,}",
                f"{largest(lambda n: opendp_epsilon(mechanisms, n) <= EPSILON):,}",
                f"{tumult_count(mechanisms):,}",
                f"{largest(lambda n: fixed_list(mechanisms, n) <= EPSILON):,}",
                f"{largest(lambda n: night.self_compose(n).get_epsilon_for_delta(DELTA) <= EPSILON):,}",
                ", ".join(f"{times} x {law}" if times > 1 else law for law, times in laws.items()),
            )
        )
    return rows


def charges():
    ten = kinds()
    return [
        (
            name,
            account,
            f"{fitting(BUDGETS[account], ten[name]):,}",
            f"{charged(BUDGETS[account], ten[name]):,}",
        )
        for name in (COUNT, TOP)
        for account in ("pure", "(epsilon, delta)")
    ]


def top_10_at(epsilon):
    return top_10(
        Session(purchases(), unit=PrivacyUnit("customer"), entropy=Seeded(7)), epsilon
    ).mechanism


def smallest_budget(mechanisms, count):
    """The smallest epsilon, in hundredths, of an (epsilon, 1e-6) account that holds so many."""
    return next(
        hundredths / 100
        for hundredths in range(1, 10**6)
        if fitting(Budget(epsilon=Fraction(hundredths, 100), delta=DELTA), mechanisms) >= count
    )


def year():
    night = top_10_at(NIGHT)
    pure, _, both = (fitting(budget, night) for budget in BUDGETS.values())
    needs, sums = smallest_budget(night, NIGHTS), NIGHTS * NIGHT
    fixed = fixed_list(night, NIGHTS)
    return [
        (f"nights that fit into {EPSILON}", f"{pure:,}", f"{both:,}", f"{both / pure:.1f}", TARGET, verdict(both >= TARGET * pure)),
        (f"epsilon that {NIGHTS} nights need", f"{sums:.2f}", f"{needs:.2f}", f"{sums / needs:.1f}", TARGET, verdict(sums >= TARGET * needs)),
        (f"{NIGHTS} nights as a list fixed in advance", f"{sums:.2f}", f"{fixed:.2f}", f"{sums / fixed:.1f}", "", ""),
    ]  # fmt: skip


def by_epsilon():
    rows = []
    for epsilon in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1):
        counts = [fitting(budget, top_10_at(epsilon)) for budget in BUDGETS.values()]
        rows.append(
            (epsilon, *(f"{number:,}" for number in counts), f"{counts[2] / counts[0]:.1f}")
        )
    return rows


GROUPS = [f"g{number}" for number in range(8)]
LIMITS = (1, 3, 8)
ROWS_OF_ALL = ("rows in all of them", {"max_rows": 3}, {})
ONE_GROUP = ("one group a person", {"max_rows": 1}, {"groups_per_unit": 1})
BEFORE = {0.1: (10, 41, 215), 0.2: (5, 15, 57), 0.5: (2, 6, 16)}
"""What fitted into accounts with a delta when figures of groups were charged as pure ones."""


def by_group(adjacency, how, kind, epsilon, budget):
    """The cost of figures of eight groups, as a session with such an account plans them."""
    import polars as pl

    _, bounds, more = how
    rows = [(f"c{n}", GROUPS[n % 8], float(n % 97)) for n in range(2000)]
    table = pl.DataFrame(rows, schema=["customer", "country", "price"], orient="row")
    unit = PrivacyUnit("customer", adjacency=adjacency, **bounds)
    asked = {"epsilon": epsilon, "lower": 0, "cap": 1000, "by": "country", "domain": GROUPS, **more}
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(
            Path(folder) / "budget.db",
            account="nightly",
            budget=budget,
            adjacency=adjacency,
            unit="customer",
            source="name:purchases",
        )
        plans = Session(table, unit=unit, ledger=ledger, name="purchases").plan
        if kind == "median":
            return plans.quantile("price", q=0.5, **asked).cost
        return getattr(plans, kind)("price", **asked).cost


def groups():
    rows = []
    for adjacency in ("add-remove", "replace-one"):
        for kind in ("sum", "mean", "median"):
            for how in (ROWS_OF_ALL, ONE_GROUP):
                rows += [groups_at(adjacency, kind, how, epsilon) for epsilon in (0.1, 0.2, 0.5)]
    return rows


def groups_at(adjacency, kind, how, epsilon):
    # One group a person paid once for each group under add-remove, which is what it costs now.
    paid_once = how is ONE_GROUP and adjacency == "add-remove"
    cells = []
    for place, limit in enumerate(LIMITS):
        both = Budget(epsilon=limit, delta=DELTA)
        now = fitting_cost(both, by_group(adjacency, how, kind, epsilon, both))
        before = now if paid_once else BEFORE[epsilon][place]
        pure = Budget(epsilon=limit)
        alone = fitting_cost(pure, by_group(adjacency, how, kind, epsilon, pure))
        cells.append(f"{alone}, {before:,} -> {now:,}")
    return (f"{kind}s, {how[0]}", adjacency, epsilon, *cells)


MIXED = (0.3, 0.4, 0.6, 0.7)
"""A histogram, a top, and two means by group."""
BOUNDS = (
    ("one group a person", {"max_rows": 3}, {"groups_per_unit": 1}),
    ("three groups a person", {"max_rows": 3}, {"groups_per_unit": 3}),
    ("one clip of all groups, all rows", {}, {}),
    ("3 rows in all groups together", {"max_rows": 3}, {}),
)


def afternoon(adjacency, bound, budget):
    """How many of a histogram, a top and two means by group an account takes."""
    import polars as pl

    _, rows, more = bound
    listed = [(f"c{n % 700}", GROUPS[n % 8], float(n % 97)) for n in range(2000)]
    table = pl.DataFrame(listed, schema=["customer", "country", "price"], orient="row")
    unit = PrivacyUnit("customer", adjacency=adjacency, **rows)
    by = {"lower": 0, "cap": 1000, "by": "country", "domain": GROUPS, **more}
    histogram, top, first, second = MIXED
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(
            Path(folder) / "budget.db",
            account="nightly",
            budget=budget,
            adjacency=adjacency,
            unit="customer",
            source="name:purchases",
        )
        asked = Session(table, unit=unit, ledger=ledger, name="purchases")
        taken = 0
        for ask in (
            lambda: asked.histogram("country", epsilon=histogram, domain=GROUPS),
            lambda: asked.top_k("country", k=3, epsilon=top, domain=GROUPS),
            lambda: asked.mean("price", epsilon=first, **by),
            lambda: asked.mean("price", epsilon=second, **by),
        ):
            try:
                ask()
            except BudgetExceeded:
                break
            taken += 1
    return taken


def afternoons():
    return [
        (
            bound[0],
            adjacency,
            *(
                f"{afternoon(adjacency, bound, budget)} of 4"
                for budget in (Budget(epsilon=2), Budget(epsilon=2, delta=DELTA))
            ),
        )
        for bound in BOUNDS
        for adjacency in ("add-remove", "replace-one")
    ]


def fitting_cost(budget, price):
    asked = exact_amounts(price, Meter(budget.meter, budget.order)).rounded_up()
    return budget.limits.count_more(NOTHING, asked)


def report():
    return [
        f"## How many releases fit into ({EPSILON}, 1e-6)",
        "",
        f"Ten kinds at epsilon {NIGHT} each, made by a session or with its mechanisms. Where noise is exchanged it is for noise of the same size, whatever that costs: Gumbel noise has the scale of the exponential noise of "
        "the items or questions that it stands for (a threshold has 2.2 times as much), Gaussian noise the variance of the Laplace noise. Neighbors: one person more or less.",
        "",
        "- **pure**, **zCDP**, **(epsilon, delta)**: our accounts, each release charged with its `.cost`, by the rule of a reservation. They are limits: what is released may be chosen as one goes. "
        "**times pure** divides the third by the first.",
        "- **RDP**: dp_accounting's `RdpAccountant` with its own orders, fed with the laws in the last column: randomized response for what is pure (it has none for bounded ranges and thresholds), the "
        "continuous Laplace law, whose curve lies a little below that of noise on a grid, and the Gaussian one. It takes the best order for a finished list. What rho somebody else proved could be handed in as a `ZCDpEvent`, which is no law of its own.",
        "- **OpenDP**: its `make_composition` and `make_zCDP_to_approxDP`; pure parts enter by its `make_pureDP_to_zCDP`, exponential mechanisms as its `make_noisy_max` with Gumbel noise. A release is composed as one with the sum of these rhos.",
        "- **Tumult**: its published rules, computed by us because the package is not installed here: rho is epsilon^2/2 for what is pure and epsilon^2/8 for an exponential mechanism, and rho + 2 sqrt(rho ln(1/delta)) "
        "at most 3.",
        "- **our list**, **PLD**: both only for a list that was fixed in advance, and no limit of an account. Ours is `cost.repeat(...).epsilon(1e-6)`; PLD is dp_accounting's privacy loss distribution of the laws in the "
        f"last column, Laplace noise on its grid, with losses rounded up to multiples of {INTERVAL:g}.",
        "",
        *table(
            ("release", "pure", "zCDP", "(epsilon, delta)", "times pure", "RDP", "OpenDP", "Tumult", "our list", "PLD", "laws in dp_accounting"),
            fittings(),
        ),
        "",
        "Really charged: reserved, drawn and settled in a file until the ledger refused.",
        "",
        *table(("release", "account", "counted", "charged"), charges()),
        "",
        f"A year of a {TOP} at epsilon {NIGHT} a night and delta 1e-6; the target is {TARGET} times.",
        "",
        *table(("", "pure", "(epsilon, delta)", "times", "target", ""), year()),
        "",
        f"How many nights of a {TOP} fit into ({EPSILON}, 1e-6), by the epsilon of a night: the larger it is, the less there is to gain, and a zCDP account may hold fewer than a pure one.",
        "",
        *table(("epsilon of a night", "pure", "zCDP", "(epsilon, delta)", "times pure"), by_epsilon()),
        "",
        "Figures of eight groups, as a session with the account plans them: into a pure account of 1, 3 and 8, and into one of the same epsilon with delta 1e-6, "
        "before all totals shared one grid of steps and after. Under replace-one a figure of groups has noise for half the epsilon a side, so it loses less by divergence than a sum without groups.",
        "",
        *table(("figure", "neighbors", "epsilon", *(f"pure, ({limit}, 1e-6)" for limit in LIMITS)), groups()),
        "",
        "A mixed afternoon: a histogram of .3, a top 3 of .4, means of eight groups of .6 and .7, charged by a session. Without a bound on rows one clip is for all groups, with weights.",
        "",
        *table(("means by group", "neighbors", "2", "(2, 1e-6)"), afternoons()),
    ]  # fmt: skip
