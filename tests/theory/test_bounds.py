"""The constants and bounds, each against a derivation of its own or the function that attains it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from nesht.errors import UserError
from nesht.theory import Analysis, Quadratic

HOPPER = Analysis(366, 1000.0, 50.0, 0.1)
SMALL = Analysis(7, 3.0, 20.0, 0.5, c=0.3)
Z = np.linspace(-12, 12, 2_400_001)
NORMAL = np.exp(-0.5 * Z * Z) / math.sqrt(2 * math.pi) * (Z[1] - Z[0])


def expectation(values: np.ndarray) -> float:
    """The expectation of a function of a standard normal, by a sum over a fine grid."""
    return float((values * NORMAL).sum())


@pytest.mark.parametrize("c", [0.01, 0.1, 0.25, 0.4, 0.49])
@pytest.mark.parametrize("smoothness", [0.3, 7.0])
def test_c1_and_c2_are_what_the_last_lines_of_the_proof_add_up_to(c: float, smoothness: float) -> None:
    # 2 V + 4 B / (alpha T) + 2 / (alpha^2 T) * (4 B / (1/alpha - 2 L) + sum V / (L/alpha - 2 L^2))
    alpha = c / smoothness
    of_variance = 2 + 2 / alpha**2 / (smoothness / alpha - 2 * smoothness**2)
    of_bound = alpha * (4 / alpha + 2 / alpha**2 * 4 / (1 / alpha - 2 * smoothness))
    analysis = replace(HOPPER, c=c)
    assert analysis.c1 == pytest.approx(of_variance)
    assert analysis.c2 == pytest.approx(of_bound)
    # and the step before them, 2 L^2 + 3 L / alpha <= 2 / alpha^2, needs c < 1/2 and no less
    assert 2 * smoothness**2 + 3 * smoothness / alpha <= 2 / alpha**2
    wider = 0.51 / smoothness
    assert 2 * smoothness**2 + 3 * smoothness / wider > 2 / wider**2


def test_a_quarter_makes_c1_smallest() -> None:
    others = [replace(HOPPER, c=c).c1 for c in np.linspace(0.01, 0.49, 97)]
    assert HOPPER.c1 == pytest.approx(18)
    assert min(others) >= HOPPER.c1


def test_the_printed_smoothness_is_the_papers() -> None:
    assert HOPPER.smoothness == pytest.approx(367 * 1000 / 0.01)
    assert HOPPER.step * HOPPER.smoothness == pytest.approx(0.25)


def test_the_corrected_smoothness_is_attained_and_never_exceeded() -> None:
    # Along a unit vector u, the second derivative of F_sigma is E[F (z^2 - 1)] / sigma^2 with z = u.eps. It is largest
    # for F = B sign(z^2 - 1): a return with two jumps. No other bounded return has more; here 40 random ones.
    analysis = replace(SMALL, corrected=True)
    worst = analysis.bound * np.sign(Z * Z - 1)
    assert expectation(worst * (Z * Z - 1)) / analysis.sigma**2 == pytest.approx(analysis.smoothness, rel=1e-5)
    rng = np.random.default_rng(0)
    for _ in range(40):
        jumps = np.sort(rng.normal(size=6))
        levels = rng.uniform(-analysis.bound, analysis.bound, 7)
        second = expectation(levels[np.searchsorted(jumps, Z)] * (Z * Z - 1)) / analysis.sigma**2
        assert abs(second) <= analysis.smoothness
    assert analysis.smoothness < SMALL.smoothness


def test_the_steepest_gradient_is_that_of_a_single_jump() -> None:
    assert expectation(SMALL.bound * np.sign(Z) * Z) / SMALL.sigma == pytest.approx(SMALL.steepest, rel=1e-5)


def test_the_corrected_variance_bound_is_attained_by_a_constant_return() -> None:
    # F = B everywhere has no gradient; its estimates scatter by exactly d (B^2 + C / N) / (n sigma^2).
    constant = Quadratic(np.zeros(7), curve=0.0, level=3.0, noise=math.sqrt(20.0))
    for n, rollouts in ((1, 1), (5, 1), (5, 8)):
        exact = constant.estimator_variance(np.ones(7), 0.5, n, rollouts)
        assert replace(SMALL, corrected=True).variance_bound(n, rollouts) == pytest.approx(float(exact))
        assert SMALL.variance_bound(n, rollouts) >= exact * (1 - 1e-12)


def test_the_printed_variance_bound_is_the_papers_and_meets_the_corrected_one_at_one_member() -> None:
    assert SMALL.variance_bound(10, 4) == pytest.approx(20 * 7 / (4 * 0.25) + 7 * 9 / (10 * 0.25))
    assert SMALL.variance_bound(1, 4) == pytest.approx(replace(SMALL, corrected=True).variance_bound(1, 4))


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0])
def test_a_plan_keeps_its_promise_and_wastes_nothing(corrected: bool, epsilon: float) -> None:
    analysis = replace(SMALL, corrected=corrected)
    plan = analysis.plan(epsilon)
    assert analysis.distance_bound(plan.generations, plan.n, plan.rollouts) <= epsilon * (1 + 1e-9)
    less = analysis.distance_bound(plan.generations, int(0.9 * plan.n), plan.rollouts)
    assert less > epsilon
    assert analysis.distance_bound(int(0.9 * plan.generations), plan.n, plan.rollouts) > epsilon


def test_a_plan_is_the_theorem_to_the_letter() -> None:
    plan = HOPPER.plan(1.0)
    alpha = 0.25 / (367 * 1000 / 0.01)
    assert plan.step == pytest.approx(alpha)
    assert plan.generations == pytest.approx(2 * 20 * 1000 / alpha)
    assert plan.rollouts == pytest.approx(4 * 18 * 366 * 50 / 0.01)
    assert plan.n == pytest.approx(4 * 18 * 366 * 1000**2 / 0.01)
    assert plan.episodes == plan.generations * plan.n * plan.rollouts


@pytest.mark.parametrize(
    ("change", "printed", "corrected"),
    [
        ({"d": 732}, 8, 2),
        ({"bound": 2000.0}, 16, 16),
        ({"variance": 100.0}, 2, 1),
        ({"sigma": 0.2}, 2**-6, 2**-4),
    ],
)
def test_the_episodes_grow_as_the_overall_complexity_says(
    change: dict[str, float], printed: float, corrected: float
) -> None:
    # Doubling one number: d^3 B^4 C / (sigma^6 eps^6) as printed, d B^2 (B^2 + C) / (sigma^4 eps^4) corrected.
    for fixed, factor in ((False, printed), (True, corrected)):
        before, after = (replace(HOPPER, corrected=fixed, **more).plan(1.0).episodes for more in ({}, change))  # type: ignore[arg-type]
        assert after / before == pytest.approx(factor, rel=5e-3)
        halved = replace(HOPPER, corrected=fixed).plan(0.5).episodes
        assert halved / before == pytest.approx(2**4 if fixed else 2**6, rel=1e-6)


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("budget", [1, 1000, 10**6, 10**40])
def test_the_guarantee_of_a_budget_is_the_smallest_epsilon_it_pays_for(corrected: bool, budget: int) -> None:
    analysis = replace(SMALL, corrected=corrected)
    epsilon = analysis.guaranteed(budget)
    assert analysis.plan(epsilon).episodes <= budget
    assert analysis.plan(epsilon * (1 - 1e-6)).episodes > budget


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("variance", [0.0, 1.0, 500.0])
@pytest.mark.parametrize("episodes", [1, 10, 97, 256])
def test_the_best_split_is_the_best_of_all(corrected: bool, variance: float, episodes: int) -> None:
    analysis = replace(SMALL, corrected=corrected, variance=variance)
    n, rollouts = analysis.split(episodes)
    every = [analysis.variance_bound(a, b) for a in range(1, episodes + 1) for b in range(1, episodes // a + 1)]
    assert n * rollouts <= episodes
    assert analysis.variance_bound(n, rollouts) == pytest.approx(min(every))
    assert rollouts == 1 or not corrected


def test_the_split_of_the_printed_bound_balances_its_two_terms() -> None:
    n, rollouts = replace(SMALL, variance=900.0).split(10**6)
    assert rollouts == pytest.approx(math.sqrt(900 * 10**6) / 3, rel=0.02)
    assert n == pytest.approx(10**6 / rollouts, rel=0.02)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sigma": 0.0}, "sigma .* must be a positive number, got 0"),
        ({"sigma": float("nan")}, "sigma .* must be a positive number"),
        ({"c": 0.5}, "strictly between 0 and 1/2, got 0.5"),
        ({"c": 0.0}, "strictly between 0 and 1/2"),
        ({"d": 0}, "d .* at least 1, got 0"),
        ({"d": 2.5}, "d .* whole number"),
        ({"d": float("nan")}, "d .* whole number"),
        ({"d": float("inf")}, "d .* whole number"),
        ({"bound": 0.0}, "bound .* must be a positive number"),
        ({"bound": float("inf")}, "bound .* must be a positive number"),
        ({"variance": -1.0}, "variance .* must be 0 or more"),
    ],
)
def test_nonsense_gets_a_sentence(change: dict[str, float], words: str) -> None:
    with pytest.raises(UserError, match=words):
        replace(HOPPER, **change)  # type: ignore[arg-type]


def test_questions_about_nothing_get_a_sentence() -> None:
    for ask, words in (
        (lambda: HOPPER.plan(0.0), "epsilon .* positive"),
        (lambda: HOPPER.plan(1e-200), "too far apart"),
        (lambda: HOPPER.guaranteed(0), "budget.* at least 1"),
        (lambda: HOPPER.variance_bound(0), "members per generation"),
        (lambda: HOPPER.variance_bound(1, 0), "episodes per member"),
        (lambda: HOPPER.distance_bound(0, 1), "generations"),
        (lambda: HOPPER.split(0), "at least 1"),
    ):
        with pytest.raises(UserError, match=words):
            ask()
