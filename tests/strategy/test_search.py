"""Where the search looks: which directions count, and how far what is cut is perturbed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nesht.errors import UserError
from nesht.strategy import HardThreshold, Strategy, Units
from nesht.strategy.nes import together
from nesht.strategy.shaping import elite

Maker = Callable[[Any], Any]
NOW = np.zeros(2)
UNITS = Units.weights(6)
THETA = np.array([[1.0, 0, 0, -2, 0, 3], [0, 0, 0.5, 0, 0.1, 0]])
FITNESS = np.array([[1.0, 9, 3, 2, 8, 0, 4, 5], [7, 7, 6, 1, 2, 3, 0, 9]])


def strategy(**options: Any) -> Strategy:
    return Strategy(UNITS, **{"n": 8, "k": 3, "sparsifier": HardThreshold(UNITS, 0.5), **options})


def test_the_pairs_with_the_best_member_count(array: Maker) -> None:
    factor = np.asarray(elite(array(FITNESS), np.array([0.5, 0.5]), mirrored=True))
    # best members of the pairs: 9, 3, 8, 5 and 7, 6, 3, 9
    assert factor.tolist() == [[2, 2, 0, 0, 2, 2, 0, 0], [2, 2, 0, 0, 0, 0, 2, 2]]


def test_the_best_members_count_where_there_are_no_pairs(array: Maker) -> None:
    factor = np.asarray(elite(array(FITNESS), np.array([0.25, 0.5]), mirrored=False))
    assert np.flatnonzero(factor[0]).tolist() == [1, 4]
    assert np.flatnonzero(factor[1]).tolist() == [0, 1, 2, 7]
    np.testing.assert_allclose(factor.sum(axis=1), 8)


def test_one_that_diverged_is_never_among_the_best(array: Maker) -> None:
    fitness = np.where(FITNESS == 9, np.nan, FITNESS)
    factor = np.asarray(elite(array(fitness), np.array([0.5, 0.5]), mirrored=False))
    assert not factor[np.isnan(fitness)].any()


def test_all_directions_count_by_default(array: Maker) -> None:
    states = [strategy(**options).init(array(THETA), np.array([1, 2])) for options in ({}, {"elite": 1.0})]
    after = []
    for state, options in zip(states, ({}, {"elite": 1.0}), strict=True):
        made = strategy(**options)
        after.append(made.tell(state, made.ask(state, NOW), array(FITNESS), NOW)[0])
    assert (np.asarray(after[0].theta) == np.asarray(after[1].theta)).all()


def test_a_step_with_few_directions_lies_in_their_span(array: Maker) -> None:
    made = strategy(elite=0.25, k=6, sparsifier=HardThreshold(UNITS))
    state = made.init(array(THETA), np.array([1, 2]))
    population = made.ask(state, NOW)
    after, _ = made.tell(state, population, array(FITNESS), NOW)
    step = np.asarray(after.dense)[0] - THETA[0]
    direction = np.asarray(population.directions(0, 1))[0, 0]  # of the pair with the best member
    cosine = step @ direction / np.linalg.norm(step) / np.linalg.norm(direction)
    assert abs(cosine) == pytest.approx(1)


def test_what_is_zero_is_perturbed_less(array: Maker) -> None:
    made = strategy(explore="linear:1:0.2", sigma=0.5)
    state = made.init(array(THETA), np.array([1, 2]))
    width = np.asarray(made.ask(state, np.array([0.5, 1.0])).width)
    np.testing.assert_allclose(width, np.where(THETA != 0, 0.5, 0.5 * np.array([[0.6], [0.2]])))
    members = np.asarray(made.ask(state, np.ones(2)).members())
    eps = np.asarray(made.ask(state, np.ones(2)).directions(0, 4))
    np.testing.assert_allclose(members[:, 0::2], THETA[:, None] + np.where(THETA != 0, 0.5, 0.1)[:, None] * eps)


def test_what_is_nearly_kept_is_perturbed_further(array: Maker) -> None:
    pairs = Units(7, (np.array([[0, 1], [2, 3], [4, 5]]),))  # and one parameter in no unit
    dense = np.array([[3.0, 4.0, 0.0, 4.0, 2.0, 0.0, 0.0], [0.1, 0.0, 0.6, 0.8, 0.3, 0.4, 7.0]])
    made = Strategy(pairs, n=8, k=1, explore=0.25, sigma=1.0, focus=2, sparsifier=HardThreshold(pairs, 1.0))
    state = made.init(array(dense), np.array([1, 2]))
    wanted = [[1, 1, 0.64, 0.64, 0.25, 0.25, 1], [0.25, 0.25, 1, 1, 0.25, 0.25, 1]]  # 4/5 and 2/5, 0.1 and 0.5, squared
    np.testing.assert_allclose(np.asarray(made.ask(state, NOW).width), wanted)
    spread = np.where(np.arange(7) < 4, 1.0, 2.0)[None].repeat(2, 0)
    wanted[0][4:6], wanted[1][4:6] = [0.64, 0.64], [1, 1]
    np.testing.assert_allclose(np.asarray(made.ask(state, NOW, spread).width), wanted)


def test_runs_of_a_fleet_have_a_focus_each_and_none_is_none(array: Maker) -> None:
    dense = array(np.array([[1.0, 0.9, 0.5, 0.0, 0.2, 0.0]] * 2))
    options = ({"focus": 0}, {"focus": 3})
    one, other = (
        strategy(k=1, explore=0.1, sigma=1.0, sparsifier=HardThreshold(UNITS, 1.0), **each) for each in options
    )
    both = together([one, other])
    width = np.asarray(both.ask(both.init(dense, np.array([1, 2])), NOW).width)
    for run, each in enumerate((one, other)):
        alone = np.asarray(each.ask(each.init(dense, np.array([1, 2])), NOW).width)
        assert (width[run] == alone[run]).all()
    assert (width[0, 1:] == 0.1).all()
    assert width[1, 1] == pytest.approx(0.9**3)


def test_at_the_start_no_parameter_is_preferred(array: Maker) -> None:
    made = strategy(explore=0.25)
    state = made.init(array(np.zeros((2, 6))), np.array([1, 2]))
    assert np.ptp(np.asarray(made.ask(state, NOW).width)) == 0
    focused = strategy(explore=0.25, focus=4)
    assert np.ptp(np.asarray(focused.ask(state, NOW).width)) == 0


@pytest.mark.parametrize("options", [{"elite": 0.0}, {"elite": 1.5}, {"explore": 0.0}, {"explore": "linear:1:2"}])
def test_shares_must_be_shares(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(options))):
        strategy(**options)
