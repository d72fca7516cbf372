from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nesht.strategy import SHAPINGS
from nesht.strategy.shaping import centered_rank, raw, standardize

Maker = Callable[[Any], Any]

finite = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6))
broken = st.sampled_from([math.nan, math.inf, -math.inf])
finite_rows = st.lists(finite, min_size=2, max_size=12)
rows = st.lists(st.one_of(finite, finite, broken), min_size=2, max_size=12)
shapings = pytest.mark.parametrize("shaping", SHAPINGS)
modest = settings(deadline=None, max_examples=25)


def shape(name: str, array: Maker, row: list[float]) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weights: np.ndarray = np.asarray(SHAPINGS[name](array([row])))[0]
    return weights


def naive_centered_rank(row: list[float]) -> list[float]:
    values = [value if math.isfinite(value) else -math.inf for value in row]
    below = [sum(other < value for other in values) for value in values]
    equal = [sum(other == value for other in values) for value in values]
    return [(b + (e - 1) / 2) / (len(row) - 1) - 0.5 for b, e in zip(below, equal, strict=True)]


@modest
@given(row=rows)
def test_ranks_agree_with_a_naive_count_ties_averaged(array: Maker, row: list[float]) -> None:
    assert np.allclose(shape("centered_rank", array, row), naive_centered_rank(row), rtol=0, atol=1e-14)


def test_the_ranks_of_a_small_example(array: Maker) -> None:
    weights = shape("centered_rank", array, [10.0, math.nan, 10.0, -5.0, math.inf, 3.0])
    assert weights.tolist() == pytest.approx([0.4, -0.4, 0.4, -0.1, -0.4, 0.1])


@modest
@given(row=st.lists(st.integers(-50, 50), min_size=2, max_size=12))
def test_ranks_do_not_change_under_increasing_maps(array: Maker, row: list[int]) -> None:
    before = shape("centered_rank", array, [float(x) for x in row])
    assert (before == shape("centered_rank", array, [math.exp(x / 7) for x in row])).all()
    assert (before == shape("centered_rank", array, [1e9 * x**3 + x for x in row])).all()


@modest
@given(row=finite_rows)
def test_ranks_sum_to_zero_and_stay_within_one_half(array: Maker, row: list[float]) -> None:
    weights = shape("centered_rank", array, row)
    assert abs(weights.sum()) < 1e-12
    assert np.abs(weights).max() <= 0.5
    assert weights.max() == 0.5 or row.count(max(row)) > 1


@shapings
@modest
@given(row=rows)
def test_what_is_not_finite_counts_as_the_worst(array: Maker, shaping: str, row: list[float]) -> None:
    weights = shape(shaping, array, row)
    good = np.isfinite(row)
    assert np.isfinite(weights).all()
    if good.any() and not good.all():
        assert np.ptp(weights[~good]) == 0
        assert weights[~good].max() <= weights[good].min()


@modest
@given(row=rows)
def test_in_ranks_what_is_not_finite_lies_strictly_below_the_worst_number(array: Maker, row: list[float]) -> None:
    weights, good = shape("centered_rank", array, row), np.isfinite(row)
    if good.any() and not good.all():
        assert weights[~good].max() < weights[good].min()


@modest
@given(row=finite_rows)
def test_raw_is_the_fitness_itself(array: Maker, row: list[float]) -> None:
    assert shape("raw", array, row).tolist() == row


@modest
@given(row=st.lists(st.floats(-100, 100), min_size=2, max_size=12), scale=st.floats(1e-3, 1e3))
def test_standardized_fitness_has_mean_zero_and_deviation_one(array: Maker, row: list[float], scale: float) -> None:
    row = [round(value, 3) * scale for value in row]  # differences far above rounding
    weights = shape("standardize", array, row)
    if max(row) == min(row):
        assert (weights == 0).all()
    else:
        assert abs(weights.mean()) < 1e-9
        assert abs(weights.std() - 1) < 1e-9


@modest
@given(row=st.lists(st.integers(-100, 100), min_size=2, max_size=12), offset=st.floats(-1e4, 1e4))
def test_standardizing_forgets_offset_and_scale(array: Maker, row: list[int], offset: float) -> None:
    plain = shape("standardize", array, [float(x) for x in row])
    assert np.allclose(plain, shape("standardize", array, [7 * x + offset for x in row]), atol=1e-8)
    assert np.allclose(plain, -shape("standardize", array, [-float(x) for x in row]), atol=1e-12)


@pytest.mark.parametrize("shaping", [standardize, centered_rank])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("value", [0.0, 0.1, -7.7, 1e3 / 3, 1e-300, 1e15])
def test_equal_fitness_gives_zero_weights(array: Maker, shaping: Callable[..., Any], dtype: type, value: float) -> None:
    for n in (2, 3, 7, 64, 255):
        assert (np.asarray(shaping(array(np.full((2, n), value, dtype)))) == 0).all()


@shapings
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_generation_without_one_finite_fitness_gives_zero_weights(array: Maker, shaping: str, value: float) -> None:
    assert (shape(shaping, array, [value] * 6) == 0).all()


@shapings
def test_a_single_good_member_keeps_its_weight_above_the_broken_ones(array: Maker, shaping: str) -> None:
    weights = shape(shaping, array, [math.nan, 5.0, math.inf, math.nan])
    assert np.isfinite(weights).all()
    assert weights[1] == weights.max()


@shapings
@modest
@given(table=st.lists(st.lists(st.one_of(finite, broken), min_size=9, max_size=9), min_size=2, max_size=4))
def test_runs_do_not_mix(array: Maker, shaping: str, table: list[list[float]]) -> None:
    together = np.asarray(SHAPINGS[shaping](array(table)))
    for run, row in enumerate(table):
        assert (together[run] == shape(shaping, array, row)).all()


@shapings
@modest
@given(row=st.lists(st.integers(-9, 9), min_size=2, max_size=12), seed=st.integers(0, 99))
def test_the_order_of_the_members_does_not_matter(array: Maker, shaping: str, row: list[int], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(row))
    shuffled = shape(shaping, array, [float(row[i]) for i in order])
    assert np.allclose(shuffled, shape(shaping, array, [float(x) for x in row])[order], atol=1e-12)


def test_raw_shaping_replaces_what_is_not_finite_by_the_worst_number(array: Maker) -> None:
    assert np.asarray(raw(array([[3.0, math.nan, -2.0, math.inf]]))).tolist() == [[3.0, -2.0, -2.0, -2.0]]
