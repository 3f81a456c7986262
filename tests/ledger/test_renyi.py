"""The arithmetic of accounts in (epsilon, delta): what fits, what never passes, and a rule that is refuted."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import mpmath
import pytest

from sordino.cost import (
    RDP,
    ZCDP,
    Approximate,
    GumbelStage,
    Pure,
    Range,
    compose,
    gumbel_stage,
    repeat,
)
from sordino.cost.conversion import write_percent
from sordino.ledger.amounts import Budget
from sordino.ledger.left import find_left, find_share
from sordino.ledger.renyi import (
    ATTO,
    LARGEST,
    NANO,
    Amounts,
    Limits,
    Sums,
    amounts_at,
    choose_order,
    order_limit,
    spent_epsilon,
)

MILLIONTH = Fraction(1, 10**6)


def limits_of(epsilon, delta, failing=0):
    """Return the order and the limits of an account, as a budget makes them."""
    epsilon, delta, failing = Fraction(epsilon), Fraction(delta), Fraction(failing)
    order = choose_order(epsilon, delta - failing)
    limit = order_limit(epsilon, delta - failing, order)
    return order, Limits(limit, math.floor(epsilon * NANO), math.floor(failing * ATTO), either=True)


def limit_by_mpmath(epsilon, delta, order):
    """Return B at 60 digits by another library."""
    with mpmath.workdps(60):
        a, e, d = (mpmath.mpf(x.numerator) / x.denominator for x in (order, epsilon, delta))
        return e - mpmath.log(1 - 1 / a) + mpmath.log(a * d) / (a - 1)


def test_many_parts_that_may_fail_take_as_many_failures():
    one = Approximate(epsilon=Fraction(1, 10), delta=MILLIONTH)
    order, seven = Fraction(22), repeat(one, 7)
    assert amounts_at(seven, order).failing == 7 * MILLIONTH
    assert amounts_at(seven, order) == sum((amounts_at(one, order) for _ in range(7)), Amounts())


# ---- values ----------------------------------------------------------------------------------------------------


def test_the_limit_at_an_order_is_the_known_one():
    """Reference value of an account (1, 1e-6) at order 22."""
    assert order_limit(Fraction(1), MILLIONTH, Fraction(22)) == 535831058  # of 0.5358310582727


@pytest.mark.parametrize(
    ("epsilon", "delta", "order"),
    [
        (1, "1e-6", "22"),
        (3, "1e-6", "8.93"),
        (8, "1e-6", "4.42"),
        (1, "1e-9", "34.86"),
        (50, "0.9", "1.04"),
    ],
)
def test_the_limit_is_rounded_down_by_less_than_a_unit(epsilon, delta, order):
    epsilon, delta, order = Fraction(epsilon), Fraction(delta), Fraction(order)
    with mpmath.workdps(60):
        exactly = limit_by_mpmath(epsilon, delta, order) * NANO
        assert 0 <= exactly - order_limit(epsilon, delta, order) < 1


@pytest.mark.parametrize(
    ("epsilon", "delta", "order"),
    [(1, "1e-6", 21.99), (3, "1e-6", 8.93), (8, "1e-6", 4.42), (1, "1e-9", 34.86)],
)
def test_the_order_is_the_one_that_allows_the_largest_rho(epsilon, delta, order):
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    found = choose_order(epsilon, delta)
    assert float(found) == pytest.approx(order, abs=0.02)
    largest = limit_by_mpmath(epsilon, delta, found) / mpmath.mpf(float(found))
    for other in (0.5, 0.9, 0.99, 1.01, 1.1, 2):
        nearby = 1 + (found - 1) * Fraction(other)
        assert limit_by_mpmath(epsilon, delta, nearby) / mpmath.mpf(float(nearby)) <= largest * (
            1 + 1e-9
        )


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (Fraction(1, NANO), Fraction(1, 1 << 1022)),
        (9 * 10**9, MILLIONTH),
        (50, Fraction(9, 10)),
        (1, 1 - Fraction(1, 10**30)),
    ],
)
def test_extreme_budgets_have_an_order_and_a_limit(epsilon, delta):
    order, limits = limits_of(epsilon, delta)
    assert order > 1
    assert 0 <= limits.main <= LARGEST
    with mpmath.workdps(60):
        exactly = limit_by_mpmath(Fraction(epsilon), Fraction(delta), order) * NANO
    assert limits.main <= max(exactly, 0) < limits.main + 1 or limits.main == 0


@pytest.mark.parametrize(
    ("epsilon", "cost", "by_order", "fitting"),
    [
        (1, Pure(epsilon=0.01), 490, 490),
        (1, Pure(epsilon=0.05), 22, 22),
        (1, Pure(epsilon=0.1), 7, 10),
        (3, Pure(epsilon=0.2), 12, 15),
        (8, Pure(epsilon=0.4), 17, 20),
        # A count moves by one step of its noise, which is randomized response; a finer grid comes near the law without one.
        (8, RDP(laplace=Fraction(1, 5), laplace_steps=1), 57, 57),
        (8, RDP(laplace=Fraction(1, 5), laplace_steps=2), 60, 60),
        (8, RDP(laplace=Fraction(1, 5), laplace_steps="continuous"), 61, 61),
    ],
)
def test_how_many_releases_fit(epsilon, cost, by_order, fitting):
    order, limits = limits_of(epsilon, MILLIONTH)
    each = amounts_at(cost, order).rounded_up()
    assert limits.main // each.main == by_order
    assert limits.count_more(Sums(), each) == fitting
    # The same by admitting one after the other.
    spent, count = Sums(), 0
    while limits.admits(spent, each):
        assert limits.count_more(spent, each) == fitting - count
        spent, count = Sums(*map(sum, zip(spent, each, strict=True))), count + 1
    assert count == fitting


def test_never_worse_than_a_pure_account_nor_a_zcdp_account():
    """Whatever a pure account of the same epsilon lets through, this one does; and what a zCDP account lets through."""
    chance = random.Random(5)
    for epsilon, delta in (
        (1, MILLIONTH),
        (3, MILLIONTH),
        (8, Fraction(1, 100)),
        (Fraction(1, 10), Fraction(1, 10**9)),
    ):
        order, limits = limits_of(epsilon, delta)
        for _ in range(20):
            parts = [
                Pure(epsilon=Fraction(chance.randrange(1, 10**6), 10**7) * epsilon)
                for _ in range(30)
            ]
            left, spent = Fraction(epsilon), Sums()
            for part in parts:
                if part.pure() > left:
                    break
                each = amounts_at(part, order).rounded_up()
                assert limits.admits(spent, each)
                spent, left = Sums(*map(sum, zip(spent, each, strict=True))), left - part.pure()
        from sordino.ledger import Budget

        rho = Budget(epsilon=epsilon, delta=delta, meter="zcdp").limit
        # All at once, and in a hundred parts of which each is rounded up by less than a unit.
        assert limits.admits(Sums(), amounts_at(ZCDP(rho=rho), order).rounded_up())
        hundredth = amounts_at(ZCDP(rho=rho / 100 - Fraction(1, NANO)), order).rounded_up()
        assert limits.count_more(Sums(), hundredth) >= 100


# ---- amounts ---------------------------------------------------------------------------------------------------


def test_amounts_of_costs():
    order = Fraction("8.93")
    assert amounts_at(ZCDP(rho=Fraction(1, 10)), order) == Amounts(
        Fraction("0.893"), None, Fraction(0)
    )
    pure = amounts_at(Pure(epsilon=0.5), order)
    assert pure.pure == Fraction(1, 2)
    assert pure.main <= Fraction(1, 2)
    assert pure.failing == 0
    with mpmath.workdps(40):
        a, e = mpmath.mpf("8.93"), mpmath.mpf("0.5")
        high = 1 / (1 + mpmath.exp(-e))
        exactly = mpmath.log(
            high * mpmath.exp((a - 1) * e) + (1 - high) * mpmath.exp(-(a - 1) * e)
        ) / (a - 1)
        assert (
            0
            <= mpmath.mpf(pure.main.numerator) / pure.main.denominator - exactly
            < mpmath.mpf("1e-11")
        )
    # A release that may fail is a pure one besides.
    assert amounts_at(Approximate(epsilon=0.5, delta=1e-7), order) == Amounts(
        pure.main, pure.pure, Fraction(1, 10**7)
    )
    mixed = compose(repeat(Pure(epsilon=0.5), 3), ZCDP(rho=Fraction(1, 10)))
    assert amounts_at(mixed, order) == Amounts(3 * pure.main + Fraction("0.893"), None, Fraction(0))
    # A table that ends below the order has nothing there, unless a pure epsilon bounds it.
    assert amounts_at(RDP(table=[(2, 0.1)]), order) is None
    assert amounts_at(compose(RDP(table=[(2, 0.1)]), Pure(epsilon=1)), order) is None
    assert amounts_at(RDP(table=[(20, 0.1)]), order).main >= Fraction(1, 10)
    interval = amounts_at(Range(low=Fraction(1, 10), high=Fraction(3, 10)), order)
    assert interval.main < interval.pure == Fraction(3, 10)


def test_a_composition_adds_what_its_parts_add():
    """So that what was reserved as one cost can be drawn in parts."""
    order = Fraction("21.9845")
    part = Pure(epsilon=Fraction(1, 30))
    total = Amounts()
    for _ in range(7):
        total += amounts_at(part, order)
    assert total == amounts_at(repeat(part, 7), order)
    assert total.is_within(amounts_at(repeat(part, 7), order))
    assert not total.is_within(amounts_at(repeat(part, 6), order))


def test_amounts_are_rounded_up():
    amounts = Amounts(Fraction(1, 3), Fraction(1, 3), Fraction(1, 3 * 10**17))
    assert amounts.rounded_up() == Sums(main=333333334, pure=333333334, failing=4, impure=0)
    assert Amounts(Fraction(1), None).rounded_up() == Sums(main=NANO, pure=0, failing=0, impure=1)
    # An epsilon that no column holds counts as none.
    assert Amounts(Fraction(1), Fraction(10**30)).rounded_up() == Sums(NANO, 0, 0, 1)
    assert Amounts(Fraction(10**30), Fraction(1)).rounded_up().is_too_large()


# ---- the rule --------------------------------------------------------------------------------------------------


def test_either_sum_is_enough_and_the_failures_always_count():
    limits = Limits(main=100, pure=100, failing=10, either=True)
    assert limits.admits(Sums(), Sums(100, 500, 10))
    assert limits.admits(Sums(), Sums(500, 100, 10))
    assert not limits.admits(Sums(), Sums(101, 101, 0))
    assert not limits.admits(Sums(), Sums(0, 0, 11))
    assert not limits.admits(Sums(failing=10), Sums(failing=1))
    # After a part without a pure epsilon only the order counts, for good.
    assert limits.admits(Sums(impure=1), Sums(100, 0))
    assert not limits.admits(Sums(impure=1), Sums(101, 0))
    assert not limits.admits(Sums(), Sums(101, 0, 0, 1))
    # No sum leaves 64 bits.
    assert not limits.admits(Sums(main=LARGEST), Sums(main=1, pure=1))
    assert limits.admits(Sums(main=LARGEST), Sums(main=0, pure=1))


def test_a_share_keeps_to_both_sums():
    limits = Limits(main=100, pure=50, failing=0, either=False)
    assert limits.admits(Sums(), Sums(100, 50))
    assert not limits.admits(Sums(), Sums(101, 50))
    assert not limits.admits(Sums(), Sums(100, 51))
    assert not limits.admits(Sums(), Sums(100, 0, 0, 1))
    order_alone = Limits(main=100, pure=-1, failing=0, either=False)
    assert order_alone.admits(Sums(), Sums(100, 0, 0, 1))
    assert not order_alone.admits(Sums(), Sums(101, 0))


def test_what_is_counted_is_what_is_admitted():
    chance = random.Random(2)
    for _ in range(400):
        limits = Limits(*(chance.randrange(60) for _ in range(3)), either=chance.random() < 0.5)
        if not limits.either and chance.random() < 0.5:
            limits = limits._replace(pure=-1)
        spent = Sums(*(chance.randrange(40) for _ in range(3)), impure=chance.randrange(2))
        each = Sums(*(chance.randrange(1, 9) for _ in range(3)), impure=chance.randrange(2))
        counted, held = limits.count_more(spent, each), 0
        while limits.admits(spent, each):
            spent, held = Sums(*(a + b for a, b in zip(spent, each, strict=True))), held + 1
            spent = spent._replace(impure=min(1, spent.impure))
        assert counted == held
    assert Limits(1, 1, 1, either=True).count_more(Sums(), Sums()) is None


def test_the_epsilon_that_was_spent():
    order, limits = limits_of(3, MILLIONTH)
    assert spent_epsilon(Sums(), MILLIONTH, order) == 0
    # Few releases: their pure sum. Many: what the order converts.
    assert spent_epsilon(Sums(main=10**6, pure=5 * 10**7), MILLIONTH, order) == 0.05
    full = spent_epsilon(Sums(main=limits.main, pure=10**11), MILLIONTH, order)
    assert 2.99999999 < full <= 3 + 1e-12
    impure = spent_epsilon(Sums(main=1, impure=1), MILLIONTH, order)
    assert impure == pytest.approx(
        float(3 - limit_by_mpmath(Fraction(3), MILLIONTH, order)), abs=1e-8
    )
    # Where no divergence is left, whatever was reserved, nothing was told: amounts are rounded up.
    assert spent_epsilon(Sums(main=0, impure=1), MILLIONTH, order) == 0


# ---- adversaries -----------------------------------------------------------------------------------------------

# A release is a list of (mass under P, mass under Q). A game is a tree of them: what comes next depends on
# what came out. Its delta is the sum of what P has beyond e^epsilon times Q.


def divergence(pairs, order):
    """Return the larger Rényi divergence of the two orders of the neighbors."""

    def one(pairs):
        total = mpmath.fsum(p**order * q ** (1 - order) for p, q in pairs if p)
        return mpmath.log(total) / (order - 1)

    return max(one(pairs), one([(q, p) for p, q in pairs]))


def two_points(ratio, mass):
    """Return the release whose ratio P/Q is `ratio` on a set of that mass under Q."""
    ratio, mass = mpmath.mpf(ratio), mpmath.mpf(mass)
    return [(ratio * mass, mass), (1 - ratio * mass, 1 - mass)]


def delta_of(transcripts, epsilon):
    """Return the delta of (P, Q) masses of whole transcripts at an epsilon."""
    return mpmath.fsum(max(mpmath.mpf(0), p - mpmath.exp(epsilon) * q) for p, q in transcripts)


def test_a_rule_with_several_orders_and_no_weights_is_refuted():
    """Go on while *some* order has room: every release was let through, and delta is twice what was promised."""
    with mpmath.workdps(40):
        epsilon, delta = Fraction(3), MILLIONTH
        limits = {order: limit_by_mpmath(epsilon, delta, Fraction(order)) for order in (7, 32)}
        first = two_points(2, "2.5119e-5")
        # Each exhausts one order, which is another one after the other outcome of the first release.
        after = [
            exhausting(limits[order] - divergence(first, order), order, ratio)
            for order, ratio in ((32, "10.366728734548474"), (7, "23.433715053480483"))
        ]
        assert float(after[0][0][1]) == pytest.approx(0.0614432565909134, rel=1e-5)
        assert float(after[1][0][1]) == pytest.approx(2.9751463318656503e-07, rel=1e-5)
        for second in after:
            room = {a: limits[a] - divergence(first, a) - divergence(second, a) for a in limits}
            # The broken rule lets it through; a rule that keeps every order does not.
            assert max(room.values()) >= 0
            assert min(room.values()) < -0.1
        transcripts = [
            (p * p2, q * q2)
            for (p, q), second in zip(first, after, strict=True)
            for p2, q2 in second
        ]
        truth = delta_of(transcripts, 3)
        assert float(truth) == pytest.approx(1.995922579649e-6, rel=1e-6)
        assert truth > 1.99 * delta
        # With one order there is no such game: the order alone is kept on every transcript.
        order, ours = limits_of(epsilon, delta)
        spent = sums_of(first, order)
        assert not all(ours.admits(spent, sums_of(second, order)) for second in after)


def exhausting(room, order, ratio):
    """Return the release of that ratio with as much mass as fits into what is left at an order."""
    low, high = mpmath.mpf(0), 1 / mpmath.mpf(ratio)
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (
            (middle, high)
            if divergence(two_points(ratio, middle), order) <= room
            else (low, middle)
        )
    return two_points(ratio, low)


def sums_of(pairs, order):
    """Return what a release with these masses adds, as a cost would state it."""
    a = mpmath.mpf(order.numerator) / order.denominator
    pure = max(abs(mpmath.log(p / q)) for p, q in pairs)
    return Sums(int(mpmath.ceil(divergence(pairs, a) * NANO)), int(mpmath.ceil(pure * NANO)))


def test_one_release_comes_near_the_delta_of_the_account():
    """The bound of the order is nearly attained, so that a larger limit would be wrong."""
    epsilon, delta = Fraction(3), MILLIONTH
    order, limits = limits_of(epsilon, delta)
    with mpmath.workdps(40):
        a = mpmath.mpf(order.numerator) / order.denominator
        # The ratio at which x - e^epsilon is largest for x^a, and as much mass as fits.
        ratio, low, high = mpmath.exp(3) * a / (a - 1), mpmath.mpf(0), mpmath.mpf("1e-3")
        for _ in range(120):
            middle = (low + high) / 2
            fits = limits.admits(Sums(impure=1), sums_of(two_points(ratio, middle), order))
            low, high = (middle, high) if fits else (low, middle)
        reached = delta_of(two_points(ratio, low), 3)
    assert 0.99 * delta < reached <= delta


class Game:
    """A player who chooses each release after the outputs so far, within what the account admits."""

    def __init__(self, chance, limits, order, epsilon):
        self.chance, self.limits, self.order, self.epsilon = chance, limits, order, epsilon

    def release(self):
        """Return a random release of two or three outputs."""
        count, spread = self.chance.choice((2, 2, 3)), self.chance.uniform(0.05, 3)
        weights = [self.chance.expovariate(1) ** 3 + 1e-9 for _ in range(count)]
        tilted = [w * math.exp(self.chance.uniform(-spread, spread)) for w in weights]
        return [
            (mpmath.mpf(p) / math.fsum(tilted), mpmath.mpf(q) / math.fsum(weights))
            for p, q in zip(tilted, weights, strict=True)
        ]

    def play(self, spent, p, q, depth):
        """Return the masses of all transcripts from here on."""
        for _ in range(6 if depth else 0):
            pairs = self.release()
            asked = sums_of(pairs, self.order)
            if self.limits.admits(spent, asked):
                after = Sums(*(a + b for a, b in zip(spent, asked, strict=True)))
                return [end for x, y in pairs for end in self.play(after, p * x, q * y, depth - 1)]
        return [(p, q)]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.sample(4)
def test_no_adversary_passes_the_delta_of_the_account(seed):
    chance = random.Random(seed)
    for _ in range(60):
        epsilon, delta = chance.choice(
            ((Fraction(1, 2), Fraction(1, 20)), (1, Fraction(1, 100)), (2, Fraction(1, 5)))
        )
        order, limits = limits_of(epsilon, delta)
        game = Game(chance, limits, order, epsilon)
        transcripts = game.play(Sums(), mpmath.mpf(1), mpmath.mpf(1), 4)
        e = mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator
        for ends in (transcripts, [(q, p) for p, q in transcripts]):
            assert delta_of(ends, e) <= delta


@pytest.mark.parametrize("monotone", [True, False])
def test_a_stage_is_charged_its_divergence_and_no_rho_is_searched_for(monkeypatch, monotone):
    """The smallest rho of a stage takes some milliseconds to find, and at no order says less than the divergence."""
    orders = [
        Fraction(text) for text in ("1.000001", "1.5", "4.42", "8.92606", "21.9845", "1000", "1e15")
    ]
    stages = [
        GumbelStage.of(Fraction(text), monotone=monotone)
        for text in ("1e-10", "1e-6", "0.001", "0.05", "0.3", "1", "4", "30", "500")
    ]
    rhos = [stage.zcdp() for stage in stages]

    def searched(*_):
        raise AssertionError

    monkeypatch.setattr(gumbel_stage, "_stage_rho", searched)
    for stage, rho in zip(stages, rhos, strict=True):
        for order in orders:
            found = amounts_at(stage, order)
            most = rho * order * (1 + Fraction(1, 10**11)) + Fraction(1, 10**15)
            assert found.main <= min(most, stage.pure()), (stage, order)
            assert found.pure == stage.pure()


# ---- what people read of it --------------------------------------------------------------------------------------


def test_shares_and_counts_of_what_is_left_agree_with_the_rule():
    """One that adds more than what is left does not fit, as many fit as are told, and none more."""
    rng = random.Random(11)
    kinds = [
        Budget(epsilon=3).limits,
        Budget(epsilon=1, delta=1e-6).limits,
        Budget(epsilon=1, delta=1e-6, failures=1e-7).limits,
        Budget(epsilon=1, delta=1e-6, meter="zcdp").limits,
        Budget(epsilon=1, delta=1e-6, meter="zcdp", failures=1e-7).limits,
        Budget(epsilon=Fraction(1, 100), delta=1e-12).limits,
        Limits(5_000, 7_000, 0, either=False),
        Limits(5_000, 0, 0, either=False),
    ]
    for _ in range(3_000):
        limits = rng.choice(kinds)
        # A meter without such a limit counts no epsilons.
        counted = limits.pure > 0
        spent, asked = (
            Sums(
                main=rng.randrange(low, max(2, limits.main + 2)) // rng.choice((1, 1, 7, 900))
                + low,
                pure=(rng.randrange(limits.pure + 2) // rng.choice((1, 7, 900))) * counted,
                impure=int(counted and limits.either and rng.random() < 0.2),
            )
            for low in (0, 1)
        )
        left = find_left(limits, spent, asked)
        assert 0 <= left.spent <= 1
        if find_share(limits, spent) <= 1:
            assert limits.admits(spent, asked) == (left.needed <= left.share), (
                limits,
                spent,
                asked,
            )
        taken, fitted = spent, 0
        while fitted < 40 and limits.admits(taken, asked):
            taken, fitted = taken.plus(asked), fitted + 1
        assert left.more is None or min(left.more, 40) == fitted
        # What is said beside each other in a refusal never says that it fits.
        if left.needed > left.share:
            down, up = write_percent(left.share, -1), write_percent(left.needed, 1)
            assert float(down[:-1]) < float(up[:-1].replace(",", ""))


SHARES = [
    (0, ("0%", "0%", "0%")),
    (Fraction(3, 20), ("15%", "15%", "15%")),
    (Fraction(1, 3), ("33%", "33%", "34%")),
    (Fraction(5_25, 100_00), ("5.2%", "5.2%", "5.3%")),
    (Fraction(1, 3_000), ("0.033%", "0.033%", "0.034%")),
    (Fraction(999, 1000), ("99%", "100%", "100%")),
    (Fraction(12345, 1000), ("1,234%", "1,234%", "1,235%")),
]


def test_shares_are_written_with_two_digits():
    for share, says in SHARES:
        assert tuple(write_percent(Fraction(share), way) for way in (-1, 0, 1)) == says
