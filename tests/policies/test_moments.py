from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nesht.policies import Moments, Normaliser

FEATURES = 3
SCALES = np.array([1e-2, 1.0, 50.0])
modest = settings(deadline=None, max_examples=30)
sizes = st.lists(st.integers(0, 20), min_size=1, max_size=8)
# Around an offset c numbers are known to c * 2**-53 only. A mean is then right to a few units of that; a variance comes
# from differences of means that are off by that much, so it is right to about c * 2**-52 / (the smallest deviation).
offsets = st.sampled_from([(0.0, 1e-12), (1e3, 1e-9), (-1e6, 1e-6), (1e9, 1e-3)])


def data(sizes: list[int], offset: float, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [offset + SCALES * rng.standard_normal((size, FEATURES)) for size in sizes]


def moments_of(parts: list[np.ndarray]) -> Moments:
    """One row of moments per part, from NumPy; empty parts are all zeros."""
    rows = [(len(x), x.mean(axis=0), ((x - x.mean(axis=0)) ** 2).sum(axis=0)) for x in parts if len(x)]
    empty = (0, np.zeros(FEATURES), np.zeros(FEATURES))
    filled = iter(rows)
    count, mean, m2 = zip(*[next(filled) if len(x) else empty for x in parts], strict=True)
    return Moments(np.array(count, float), np.array(mean), np.array(m2))


def check(found: Moments, parts: list[np.ndarray], offset: float, tolerance: float) -> None:
    whole = np.concatenate(parts)
    assert found.count == len(whole)
    if not len(whole):
        assert (found.mean == 0).all()
        assert (found.std == 1).all()
        return
    small = whole - offset  # exact
    assert np.allclose(found.mean - offset, small.mean(axis=0), rtol=1e-12, atol=1e-12 + 1e-15 * abs(offset))
    assert np.allclose(found.m2, small.var(axis=0) * len(whole), rtol=tolerance, atol=tolerance * 1e-6)


def row(moments: Moments, i: int) -> Moments:
    return Moments(moments.count[i], moments.mean[i], moments.m2[i])


@modest
@given(sizes, offsets, st.integers(0, 99))
def test_the_total_is_that_of_all_data_together(sizes: list[int], offset: tuple[float, float], seed: int) -> None:
    parts = data(sizes, offset[0], seed)
    check(moments_of(parts).total(), parts, *offset)


@modest
@given(st.integers(0, 70), st.integers(0, 7), st.integers(0, 99))
def test_the_total_of_totals_of_stretches_has_the_same_bits(rows: int, power: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 5, rows).astype(float)  # some episodes count as no data
    shape = (rows, FEATURES)
    all_rows = Moments(lengths, rng.normal(size=shape) * (lengths[:, None] > 0), rng.random(shape) * lengths[:, None])

    def stretch(start: int) -> Moments:
        part = slice(start, start + 2**power)
        whole = Moments(all_rows.count[part], all_rows.mean[part], all_rows.m2[part]).total()
        return Moments(whole.count[None], whole.mean[None], whole.m2[None])

    parts = [stretch(start) for start in range(0, rows, 2**power)] or [all_rows]
    ours, theirs = Moments.joined(parts).total(), all_rows.total()
    for name in ("count", "mean", "m2"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name


@modest
@given(sizes, offsets, st.integers(0, 99))
def test_merging_one_after_another_is_all_data_together(
    sizes: list[int], offset: tuple[float, float], seed: int
) -> None:
    parts = data(sizes, offset[0], seed)
    rows = moments_of(parts)
    merged = row(Moments.none(1, FEATURES), 0)
    for i in range(len(parts)):
        merged = merged.merge(row(rows, i))
    check(merged, parts, *offset)


def test_runs_merge_row_by_row() -> None:
    first, second = data([5, 0, 7], 0.0, 1), data([4, 3, 0], 0.0, 2)
    merged = moments_of(first).merge(moments_of(second))
    for run in range(3):
        check(row(merged, run), [first[run], second[run]], 0.0, 1e-12)


def test_merging_nothing_changes_nothing() -> None:
    rows = moments_of(data([5, 9], 1e6, 0))
    nothing = Moments.none(2, FEATURES)
    for merged in (rows.merge(nothing), nothing.merge(rows)):
        assert (merged.count == rows.count).all()
        assert np.allclose(merged.mean, rows.mean, rtol=1e-15)
        assert np.allclose(merged.m2, rows.m2, rtol=1e-15)


def test_the_total_has_the_same_bits_every_time() -> None:
    rows = moments_of(data([7] * 50, 10.0, 3))
    first, again = rows.total(), rows.total()
    assert (first.mean == again.mean).all()
    assert (first.m2 == again.m2).all()


def test_a_constant_feature_has_no_variance_whatever_its_size() -> None:
    rows = moments_of([np.full((n, FEATURES), 1e9) for n in (3, 1, 20)])
    merged = row(rows, 0).merge(row(rows, 1)).merge(row(rows, 2))
    assert (merged.std <= 1e-6).all()
    assert (rows.total().std <= 1e-6).all()


def test_without_data_the_deviation_is_one() -> None:
    assert (Moments.none(2, FEATURES).std == 1).all()


def test_the_deviation_is_that_of_numpy() -> None:
    parts = data([30], 5.0, 0)
    assert np.allclose(moments_of(parts).std[0], parts[0].std(axis=0), rtol=1e-12)


def test_normalised_features_have_mean_zero_and_variance_one() -> None:
    parts = data([2000], 3.0, 0)
    normalised = Normaliser.of(row(moments_of(parts), 0))(parts[0])
    assert np.allclose(normalised.mean(axis=0), 0, atol=1e-10)
    assert np.allclose(normalised.var(axis=0), 1, rtol=1e-3)  # 1e-8 is added to a variance of 1e-4


def test_a_feature_that_never_moved_stays_finite_and_without_data_features_stay_as_they_are() -> None:
    still = Normaliser.of(Moments(np.array(9.0), np.full(FEATURES, 2.0), np.zeros(FEATURES)))
    assert (still(np.full((1, FEATURES), 2.0)) == 0).all()
    assert np.isfinite(still(np.full((1, FEATURES), 2.1))).all()
    assert np.allclose(Normaliser.of(row(Moments.none(1, FEATURES), 0))(np.ones((1, FEATURES))), 1, rtol=1e-7)


@pytest.mark.parametrize("index", [np.array([1, 0, 1, 2]), np.array([2])])
def test_every_row_is_normalised_by_its_own_run(index: np.ndarray) -> None:
    moments = moments_of(data([10, 20, 30], 1.0, 4))
    features = np.random.default_rng(5).standard_normal((len(index), FEATURES))
    together = Normaliser.of(moments).rows(index)(features)
    for i, run in enumerate(index):
        assert (together[i] == Normaliser.of(row(moments, run))(features[i])).all()
