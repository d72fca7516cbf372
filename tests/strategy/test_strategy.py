from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nesht.errors import UserError
from nesht.strategy import SGD, SHAPINGS, Adam, HardThreshold, Schedule, State, Strategy, Told, Units

Maker = Callable[[Any], Any]
D = 6
UNITS = Units.weights(D)
HARD = HardThreshold(UNITS)


def generation(strategy: Strategy, state: State, array: Maker, fitness: Any = None) -> tuple[State, Told]:
    """Tell one generation, of a hill with its top at 1 if no fitness is given."""
    progress = np.zeros(len(state.seed))
    population = strategy.ask(state, progress)
    if fitness is None:
        fitness = -((np.asarray(population.members()) - 1) ** 2).sum(axis=2)
    return strategy.tell(state, population, array(fitness), progress)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"n": 0}, "n "),
        ({"n": 1}, "n "),
        ({"n": 7}, "even n, got 7"),
        ({"shaping": "ranks"}, "ranks"),
        ({"sigma": Schedule.parse(0)}, "sigma"),
        ({"sigma": Schedule.parse(-1)}, "sigma"),
        ({"sigma": Schedule.parse("linear:0.1:0")}, "sigma"),
        ({"sigma": Schedule.parse("nan")}, "sigma"),
        ({"sigma": Schedule.parse("linear:0.1:nan")}, "sigma"),
        ({"lr": Schedule.parse(0)}, "lr"),
        ({"lr": Schedule.parse("inf")}, "lr"),
        ({"lr": Schedule.parse("linear:-1:1")}, "lr"),
        ({"beta": Schedule.parse(1)}, "beta"),
        ({"beta": Schedule.parse(-0.1)}, "beta"),
        ({"beta": Schedule.parse("linear:0:1")}, "beta"),
        ({"beta": Schedule.parse("nan")}, "beta"),
        ({"beta": Schedule.parse("linear:0.5:nan")}, "beta"),
        ({"k": 0}, "k "),
        ({"k": -3}, "k "),
        ({"k": "linear:0:3"}, "k "),
        ({"k": "linear:3:inf"}, "k "),
    ],
)
def test_a_bad_option_is_refused_with_one_sentence_about_it(options: dict[str, Any], word: str) -> None:
    with pytest.raises(UserError, match=word) as caught:
        Strategy(**{"units": UNITS, **options})
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message


@pytest.mark.parametrize("options", [{"n": 7, "mirrored": False}, {"k": 1}, {"k": D}, {"beta": Schedule.parse(0.999)}])
def test_options_at_the_edge_are_accepted(options: dict[str, Any]) -> None:
    strategy = Strategy(UNITS, **options, sparsifier=HARD)
    state, _ = generation(strategy, strategy.init(np.zeros((1, D)), np.array([0])), np.array)
    assert 1 <= np.count_nonzero(state.theta) <= D


@pytest.mark.parametrize("shape", [(2, 2), (2, 4), (2, 16), (1, 8), (3, 8), (8,), (2, 8, 1)])
def test_fitness_of_the_wrong_shape_is_refused(array: Maker, shape: tuple[int, ...]) -> None:
    strategy = Strategy(UNITS, n=8)
    state = strategy.init(array(np.zeros((2, D))), np.array([0, 1]))
    with pytest.raises(ValueError, match="fitness"):
        generation(strategy, state, array, np.ones(shape))


@pytest.mark.parametrize("beta", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_beta_is_the_fraction_that_is_cut(beta: float) -> None:
    units = Units(110, (np.arange(100)[:, None], np.arange(100, 110)[:, None]))
    strategy = Strategy(units, beta=Schedule.parse(beta), sparsifier=HardThreshold(units))
    theta = strategy.init(np.random.default_rng(0).standard_normal((1, 110)), np.array([0])).theta[0]
    assert np.count_nonzero(theta[:100]) == max(1, round((1 - beta) * 100))
    assert np.count_nonzero(theta[100:]) == max(1, round((1 - beta) * 10))


def test_beta_can_move_and_each_run_has_its_own() -> None:
    strategy = Strategy(Units.weights(100), beta=Schedule.parse("linear:0:0.8"))
    assert strategy.kept(np.array([0.0, 0.5, 1.0]))[0].tolist() == [100, 60, 20]
    assert replace(strategy, k=7).kept(np.array([0.0, 1.0]))[0].tolist() == [7, 7]
    assert replace(strategy, k="linear:2:6").kept(np.array([0.0, 0.5, 1.0]))[0].tolist() == [2, 4, 6]
    pools = Units(D, (np.arange(4)[:, None], np.arange(4, 6)[:, None]))
    assert [kept.tolist() for kept in replace(strategy, k=3, units=pools).kept(np.zeros(1))] == [[3], [2]]
    most = strategy.units.counts[0]
    assert replace(strategy, k=most + 5).kept(np.zeros(1))[0].tolist() == [most]


def test_the_start_is_cut_to_k_as_well(array: Maker) -> None:
    strategy = Strategy(UNITS, k=2, sparsifier=HARD)
    state = strategy.init(array([[1.0, -5.0, 2.0, 4.0, 0.0, 3.0]]), np.array([0]))
    assert np.asarray(state.theta).tolist() == [[0, -5, 0, 4, 0, 0]]


def test_members_that_broke_are_counted_and_cost_only_themselves(array: Maker) -> None:
    strategy = Strategy(UNITS, n=8)
    state = strategy.init(array(np.zeros((3, D))), np.array([0, 1, 2]))
    fitness = np.random.default_rng(0).standard_normal((3, 8))
    whole, told = generation(strategy, state, array, fitness)
    assert told.not_finite.tolist() == [0, 0, 0]
    fitness[1, :3] = np.nan, np.inf, -np.inf
    broken, told = generation(strategy, state, array, fitness)
    assert told.not_finite.tolist() == [0, 3, 0]
    assert np.isfinite(np.asarray(broken.theta)).all()
    assert (np.asarray(broken.theta)[[0, 2]] == np.asarray(whole.theta)[[0, 2]]).all()
    assert (np.asarray(broken.theta)[1] != np.asarray(whole.theta)[1]).any()


@pytest.mark.parametrize("shaping", SHAPINGS)
def test_a_generation_that_broke_whole_takes_no_step(array: Maker, shaping: str) -> None:
    strategy = Strategy(UNITS, n=8, shaping=shaping, optimiser=Adam())
    start = np.random.default_rng(0).standard_normal((1, D))
    state, told = generation(strategy, strategy.init(array(start), np.array([0])), array, np.full((1, 8), np.nan))
    assert (np.asarray(state.theta) == start).all()
    assert told.not_finite.tolist() == [8]
    assert np.asarray(told.gradient_norm).tolist() == [0.0]


@pytest.mark.parametrize("shaping", SHAPINGS)
@pytest.mark.parametrize("mirrored", [True, False])
def test_a_run_has_the_same_bits_alone_and_in_a_fleet(array: Maker, shaping: str, mirrored: bool) -> None:
    units = Units(D, (np.arange(D).reshape(3, 2),))
    strategy = Strategy(
        units, n=38, mirrored=mirrored, shaping=shaping, optimiser=Adam(), k=1, sparsifier=HardThreshold(units, 0.9)
    )
    start, seeds = np.random.default_rng(0).standard_normal((4, D)), np.array([5, 0, 9, 5])
    fleet = strategy.init(array(start), seeds)
    alone = [strategy.init(array(start[i : i + 1]), seeds[i : i + 1]) for i in range(4)]
    for _ in range(5):
        fleet, _ = generation(strategy, fleet, array)
        alone = [generation(strategy, state, array)[0] for state in alone]
    for name in ("theta", "dense", "first", "second"):
        together = np.asarray(getattr(fleet, name))
        assert (together == np.concatenate([np.asarray(getattr(state, name)) for state in alone])).all()


def test_a_state_can_be_stored_and_continued_to_the_same_bits(array: Maker) -> None:
    strategy = Strategy(UNITS, n=8, k=3, optimiser=SGD(0.9), sparsifier=HardThreshold(UNITS, 0.9))
    state, _ = generation(strategy, strategy.init(array(np.zeros((1, D))), np.array([4])), array)
    names = ("theta", "dense", "first", "second")
    stored = {name: np.asarray(getattr(state, name)).copy() for name in names}
    again = State(**{name: array(stored[name]) for name in names}, seed=np.array([4]), generation=np.array([1]))
    state, _ = generation(strategy, state, array)
    again, _ = generation(strategy, again, array)
    assert all((np.asarray(getattr(state, name)) == np.asarray(getattr(again, name))).all() for name in names)
    assert state.generation.tolist() == again.generation.tolist() == [2]


def test_asking_changes_nothing_and_every_generation_has_new_directions() -> None:
    strategy = Strategy(UNITS, n=4)
    state = strategy.init(np.zeros((1, D)), np.array([0]))
    first = strategy.ask(state, np.zeros(1)).members()
    assert (strategy.ask(state, np.zeros(1)).members() == first).all()
    later, _ = generation(strategy, state, np.array, np.ones((1, 4)))  # no step, theta stays
    assert not np.isin(strategy.ask(later, np.zeros(1)).members(), first).any()


def test_sigma_and_learning_rate_follow_their_schedules_run_by_run() -> None:
    sigma, lr = Schedule.parse("linear:0.2:0.1"), Schedule.parse("linear:1:3")
    strategy = Strategy(UNITS, n=4, sigma=sigma, lr=lr)
    state = strategy.init(np.zeros((2, D)), np.array([0, 0]))
    progress = np.array([0.0, 1.0])
    population = strategy.ask(state, progress)
    assert population.sigma.tolist() == [0.2, 0.1]
    after, told = strategy.tell(state, population, np.array([[1.0, 0, 0, 0]] * 2), progress)
    assert (told.sigma.tolist(), told.lr.tolist()) == ([0.2, 0.1], [1.0, 3.0])
    # The same weights on the same directions: the gradient goes with 1/sigma, the step with lr.
    assert np.allclose(after.theta[1], after.theta[0] * 6)
    assert np.allclose(told.gradient_norm, np.linalg.norm(after.theta, axis=1) / told.lr)


def test_weight_decay_shrinks_by_lr_times_decay_per_generation(array: Maker) -> None:
    strategy = Strategy(UNITS, n=4, lr=Schedule.parse(0.1), weight_decay=0.5, optimiser=Adam())
    state = strategy.init(array(np.full((1, D), 2.0)), np.array([0]))
    for count in range(1, 6):
        state, _ = generation(strategy, state, array, np.zeros((1, 4)))
        assert np.allclose(np.asarray(state.theta), 2 * 0.95**count, rtol=1e-14)


def test_weight_decay_shrinks_what_is_remembered_too(array: Maker) -> None:
    hard = HardThreshold(UNITS, memory=1.0)
    strategy = Strategy(UNITS, n=4, k=1, lr=Schedule.parse(0.1), weight_decay=0.5, sparsifier=hard)
    start = np.arange(1.0, D + 1)[None]
    state, _ = generation(strategy, strategy.init(array(start), np.array([0])), array, np.zeros((1, 4)))
    assert np.allclose(np.asarray(state.dense), 0.95 * start, rtol=1e-14)


def test_the_path_is_that_of_the_optimiser_along_the_gradients(array: Maker) -> None:
    b1, b2, epsilon, lr = 0.9, 0.999, 1e-8, 0.05
    strategy = Strategy(UNITS, n=8, lr=Schedule.parse(lr), shaping="centered_rank", optimiser=Adam(b1, b2, epsilon))
    state = strategy.init(array(np.zeros((1, D))), np.array([3]))
    x, m, v = np.zeros(D), np.zeros(D), np.zeros(D)
    for t in range(1, 11):
        population = strategy.ask(state, np.zeros(1))
        members = np.asarray(population.members())
        ranks = (-((members - 1) ** 2).sum(axis=2))[0].argsort().argsort() / 7 - 0.5
        g = ((members[0] - x) * ranks[:, None]).sum(axis=0) / (8 * 0.02**2)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        x = x + lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + epsilon)
        state, _ = generation(strategy, state, array)
        assert np.allclose(np.asarray(state.theta)[0], x, rtol=1e-9, atol=1e-12)


def test_options_can_be_numbers_text_or_schedules() -> None:
    path = []
    options: list[dict[str, Any]] = [
        {"sigma": 0.1, "lr": "linear:1:2", "beta": "0.5"},
        {"sigma": Schedule.parse("0.1"), "lr": Schedule.parse("linear:1:2"), "beta": 0.5},
    ]
    for written in options:
        strategy = Strategy(UNITS, n=4, **written, sparsifier=HARD)
        path.append(generation(strategy, strategy.init(np.zeros((1, D)), np.array([0])), np.array)[0].theta)
    assert (path[0] == path[1]).all()
    assert np.count_nonzero(path[0]) == 3


@pytest.mark.parametrize("shaping", SHAPINGS)
def test_fitness_rises(array: Maker, shaping: str) -> None:
    strategy = Strategy(UNITS, n=20, sigma=Schedule.parse(0.1), lr=Schedule.parse(0.1), shaping=shaping)
    state = strategy.init(array(np.zeros((2, D))), np.array([0, 1]))
    for _ in range(40):
        state, _ = generation(strategy, state, array)
    assert (np.linalg.norm(np.asarray(state.theta) - 1, axis=1) < 0.5 * np.sqrt(D)).all()
