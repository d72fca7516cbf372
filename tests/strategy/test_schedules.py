from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nesht.errors import UserError
from nesht.strategy import Schedule

kinds = st.sampled_from(["linear", "exponential", "cosine"])
ends = st.floats(1e-6, 1e3)
modest = settings(deadline=None, max_examples=25)


@modest
@given(kinds, ends, ends)
def test_a_schedule_goes_from_one_end_to_the_other_without_turning_back(kind: str, start: float, end: float) -> None:
    values = Schedule.parse(f"{kind}:{start!r}:{end!r}").at(np.linspace(0, 1, 101))
    assert values[0] == pytest.approx(start, rel=1e-12)
    assert values[-1] == pytest.approx(end, rel=1e-9)
    steps = np.diff(values) * np.sign(end - start)
    assert (steps >= -1e-12 * max(start, end)).all()


@modest
@given(kinds, ends, ends, st.floats(-5, 5))
def test_progress_is_clipped_to_the_run(kind: str, start: float, end: float, progress: float) -> None:
    schedule = Schedule.parse(f"{kind}:{start!r}:{end!r}")
    assert schedule.at(np.array([progress])) == schedule.at(np.array([min(max(progress, 0.0), 1.0)]))


@modest
@given(st.floats(-1e6, 1e6), st.floats(0, 1))
def test_a_number_is_constant_as_a_number_and_as_text(value: float, progress: float) -> None:
    for text in (value, repr(value)):
        schedule = Schedule.parse(text)
        assert schedule.is_constant
        assert schedule.at(np.array([progress])) == value


@pytest.mark.parametrize(
    ("text", "quarter", "half"),
    [
        ("linear:4:1", 3.25, 2.5),
        ("exponential:4:1", 4 * 4**-0.25, 2.0),
        ("cosine:4:1", 1 + 3 * (1 + math.cos(math.pi / 4)) / 2, 2.5),
    ],
)
def test_each_kind_has_its_shape(text: str, quarter: float, half: float) -> None:
    assert Schedule.parse(text).at(np.array([0.25, 0.5])).tolist() == pytest.approx([quarter, half])


def test_every_run_has_its_own_progress() -> None:
    values = Schedule.parse("linear:0:1").at(np.array([0.0, 0.5, 1.0]))
    assert values.shape == (3,)
    assert values.tolist() == [0.0, 0.5, 1.0]


def test_only_a_schedule_with_equal_ends_is_constant() -> None:
    assert Schedule.parse("linear:2:2").is_constant
    assert not Schedule.parse("linear:2:1").is_constant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fast",
        "linear",
        "linear:1",
        "linear:1:2:3",
        "linear:a:b",
        "linear::",
        ":1:2",
        "quadratic:1:2",
        "Linear:1:2",
        "exponential:0:1",
        "exponential:1:0",
        "exponential:-1:-2",
        "constant:1:2",
        None,
        [1.0, 2.0],
    ],
)
def test_what_is_no_schedule_is_refused_with_the_name_of_the_option(text: str) -> None:
    with pytest.raises(UserError, match=r"^sigma.*\.$"):
        Schedule.parse(text, "sigma")


def test_an_unknown_kind_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="linear, exponential, cosine"):
        Schedule.parse("quadratic:1:2")
