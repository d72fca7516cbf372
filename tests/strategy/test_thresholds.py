from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nesht.strategy import HardThreshold, Units, hard_threshold

Maker = Callable[[Any], Any]
modest = settings(deadline=None, max_examples=25)
values = st.one_of(  # small integers make ties and zeros, floats the rest; no square of these under- or overflows
    st.integers(-2, 2).map(float), st.floats(1e-60, 1e60), st.floats(-1e60, -1e60 * 1e-120)
)


@st.composite
def cases(draw: st.DrawFn, unit: int = 1) -> tuple[np.ndarray, np.ndarray, Units]:
    """Draw parameters, k per run, and one pool of units of the given size at random positions (some in no unit)."""
    runs, count, rest = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.integers(0, 2 if unit > 1 else 0))
    size = count * unit + rest
    theta = draw(arrays(np.float64, (runs, size), elements=values))
    k = np.array(draw(st.lists(st.integers(1, count), min_size=runs, max_size=runs)))
    order = np.array(draw(st.permutations(range(size)))) if unit > 1 else np.arange(size)
    return theta, k, Units(size, (order[: count * unit].reshape(count, unit),))


def cut(array: Maker, theta: np.ndarray, k: np.ndarray, units: Units) -> np.ndarray:
    return np.asarray(hard_threshold(array(theta), [k], units))


def nonzero_units(theta: np.ndarray, units: Units) -> int:
    return sum(bool(theta[unit].any()) for unit in units.pools[0])


@modest
@given(case=st.one_of(cases(), cases(unit=2), cases(unit=3)))
def test_exactly_k_units_stay_or_all_there_are(array: Maker, case: tuple[np.ndarray, np.ndarray, Units]) -> None:
    theta, k, units = case
    sparse = cut(array, theta, k, units)
    for run in range(len(theta)):
        assert nonzero_units(sparse[run], units) == min(k[run], nonzero_units(theta[run], units))


@modest
@given(case=st.one_of(cases(), cases(unit=2)))
def test_a_parameter_is_kept_as_it_is_or_becomes_zero(array: Maker, case: tuple[np.ndarray, np.ndarray, Units]) -> None:
    theta, k, units = case
    sparse = cut(array, theta, k, units)
    assert ((sparse == theta) | (sparse == 0)).all()


@modest
@given(case=st.one_of(cases(), cases(unit=2)))
def test_cutting_twice_is_cutting_once(array: Maker, case: tuple[np.ndarray, np.ndarray, Units]) -> None:
    theta, k, units = case
    once = cut(array, theta, k, units)
    assert (cut(array, once, k, units) == once).all()


@modest
@given(case=st.one_of(cases(), cases(unit=2), cases(unit=3)))
def test_the_result_is_a_nearest_point_with_k_units(array: Maker, case: tuple[np.ndarray, np.ndarray, Units]) -> None:
    theta, k, units = case
    sparse = cut(array, theta, k, units)
    pool = units.pools[0]
    for run in range(len(theta)):
        best = np.inf
        for dropped in combinations(range(len(pool)), len(pool) - k[run]):
            best = min(best, float((theta[run, pool[list(dropped)].ravel()] ** 2).sum()))
        assert ((theta[run] - sparse[run]) ** 2).sum() <= best * (1 + 1e-14)


@modest
@given(case=cases())
def test_ties_are_broken_by_index(array: Maker, case: tuple[np.ndarray, np.ndarray, Units]) -> None:
    theta, k, units = case
    sparse = cut(array, theta, k, units)
    for run in range(len(theta)):
        kept = sorted(range(theta.shape[1]), key=lambda j: (-abs(theta[run, j]), j))[: k[run]]
        assert (np.delete(sparse[run], kept) == 0).all()
        assert (sparse[run, kept] == theta[run, kept]).all()


def test_of_equal_magnitudes_the_first_are_kept(array: Maker) -> None:
    theta = np.array([[1.0, -1.0, 1.0, -1.0, 1.0]] * 3)
    kept = cut(array, theta, np.array([1, 3, 5]), Units.weights(5))
    assert kept.tolist() == [[1, 0, 0, 0, 0], [1, -1, 1, 0, 0], [1, -1, 1, -1, 1]]


def test_magnitudes_that_differ_in_the_last_bit_are_no_tie(array: Maker) -> None:
    above = np.nextafter(1.0, 2.0)
    assert cut(array, np.array([[1.0, -above]]), np.array([1]), Units.weights(2)).tolist() == [[0.0, -above]]
    tiny = 1e-300  # its square is 0
    assert cut(array, np.array([[0.0, tiny]]), np.array([1]), Units.weights(2)).tolist() == [[0.0, tiny]]


def test_many_ties_are_broken_by_index_too(array: Maker) -> None:
    # Sorting networks that are stable by luck on short rows are not on long ones.
    theta = np.random.default_rng(0).integers(-3, 4, (2, 5000)).astype(float)
    kept = cut(array, theta, np.array([1000, 2500]), Units.weights(5000))
    for run, k in enumerate([1000, 2500]):
        order = np.argsort(-np.abs(theta[run]), kind="stable")
        assert (kept[run, order[:k]] == theta[run, order[:k]]).all()
        assert (kept[run, order[k:]] == 0).all()


@modest
@given(case=cases(unit=2))
def test_units_are_kept_or_dropped_whole(array: Maker, case: tuple[np.ndarray, np.ndarray, Units]) -> None:
    theta, k, units = case
    sparse = cut(array, theta, k, units)
    for run in range(len(theta)):
        for unit in units.pools[0]:
            assert (sparse[run, unit] == theta[run, unit]).all() or (sparse[run, unit] == 0).all()


def test_a_unit_is_scored_by_the_norm_of_all_its_weights(array: Maker) -> None:
    units = Units(6, (np.array([[0, 3], [1, 4], [2, 5]]),))
    theta = np.array([[5.0, 4.0, 0.0, 0.0, -4.0, 1.0]])  # norms 5, sqrt(32), 1: not the largest weight, not the sum
    assert cut(array, theta, np.array([1]), units).tolist() == [[0, 4, 0, 0, -4, 0]]


@modest
@given(case=cases(unit=3))
def test_parameters_in_no_pool_are_never_cut(array: Maker, case: tuple[np.ndarray, np.ndarray, Units]) -> None:
    theta, _, units = case
    free = np.setdiff1d(np.arange(units.size), units.pools[0])
    sparse = cut(array, theta, np.ones(len(theta), int), units)
    assert (sparse[:, free] == theta[:, free]).all()


@modest
@given(
    first=arrays(np.float64, (2, 4), elements=values),
    other=arrays(np.float64, (2, 4), elements=values),
    second=arrays(np.float64, (2, 6), elements=values),
    k=st.tuples(st.integers(1, 4), st.integers(1, 3)),
)
def test_pools_do_not_compete_with_each_other(
    array: Maker, first: np.ndarray, other: np.ndarray, second: np.ndarray, k: tuple[int, int]
) -> None:
    units = Units(10, (np.arange(4)[:, None], np.arange(4, 10).reshape(3, 2)))
    counts = [np.full(2, wanted) for wanted in k]
    sparse = np.asarray(hard_threshold(array(np.hstack([first, second])), counts, units))
    changed = np.asarray(hard_threshold(array(np.hstack([other, second])), counts, units))
    assert (sparse[:, 4:] == changed[:, 4:]).all()
    assert (sparse[:, :4] == cut(array, first, counts[0], Units.weights(4))).all()


def test_without_a_pool_nothing_is_cut(array: Maker) -> None:
    theta = np.array([[1.0, -2.0]])
    assert np.asarray(hard_threshold(array(theta), [], Units(2, ()))).tolist() == theta.tolist()


@pytest.mark.parametrize("memory", [0.0, 0.9, 1.0])
def test_the_policy_of_a_hard_threshold_is_the_nearest_point_whatever_its_memory(array: Maker, memory: float) -> None:
    theta = np.random.default_rng(2).standard_normal((3, 8))
    k, units = np.array([1, 4, 8]), Units.weights(8)
    policy, _ = HardThreshold(units, memory).split(array(theta), [k], array(np.ones(3)))
    assert (np.asarray(policy) == cut(array, theta, k, units)).all()


def test_a_parameter_cannot_lie_in_two_units() -> None:
    with pytest.raises(ValueError, match="two units"):
        hard_threshold(np.ones((1, 3)), [np.array([1])], Units(3, (np.array([[0, 1], [1, 2]]),)))


@modest
@given(case=st.one_of(cases(), cases(unit=2)), data=st.data())
def test_with_a_spread_the_strongest_are_those_of_parameters_times_spread(
    array: Maker, case: tuple[np.ndarray, np.ndarray, Units], data: st.DataObject
) -> None:
    theta, k, units = case
    spread = data.draw(arrays(np.float64, theta.shape, elements=st.sampled_from([0.25, 1.0, 8.0])))
    sparse = np.asarray(hard_threshold(array(theta), [k], units, array(spread)))
    assert (sparse == np.where(cut(array, theta * spread, k, units) != 0, theta, 0)).all()
    same = np.asarray(hard_threshold(array(theta), [k], units, array(np.ones_like(theta))))
    assert (same == cut(array, theta, k, units)).all()
