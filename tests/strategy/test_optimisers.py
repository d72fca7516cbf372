from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nesht.strategy import OPTIMISERS, SGD, Adam
from nesht.strategy.optimisers import Optimiser

Maker = Callable[[Any], Any]
STEPS, D, LR = 30, 4, 0.05
GRADIENTS = np.random.default_rng(0).standard_normal((STEPS, 2, D)) * np.array([1e-3, 1.0, 30.0, 0.0])


def ascend(array: Maker, optimiser: Optimiser, gradients: np.ndarray, first_step: int = 1) -> np.ndarray:
    """Return the parameters after every step from zero, (steps, runs, d)."""
    theta, first, second = (array(np.zeros(gradients.shape[1:])) for _ in range(3))
    path = []
    for number, gradient in enumerate(gradients, first_step):
        t = array(np.full(gradients.shape[1], number))
        step, first, second = optimiser.step(array(gradient), first, second, t)
        theta = theta + LR * step
        path.append(np.asarray(theta))
    return np.array(path)


def torch_path(make: Callable[[list[Any]], Any]) -> np.ndarray:
    torch = pytest.importorskip("torch")
    theta = torch.zeros((2, D), dtype=torch.float64, requires_grad=True)
    theirs = make([theta])
    path = []
    for gradient in GRADIENTS:
        theta.grad = torch.as_tensor(gradient)
        theirs.step()
        path.append(theta.detach().numpy().copy())
    return np.array(path)


def test_sgd_follows_the_gradient_itself(array: Maker) -> None:
    assert np.allclose(ascend(array, SGD(), GRADIENTS), LR * np.cumsum(GRADIENTS, axis=0), rtol=1e-12)


@pytest.mark.parametrize("momentum", [0.5, 0.9])
def test_momentum_is_a_sum_of_past_gradients_that_fade(array: Maker, momentum: float) -> None:
    path = ascend(array, SGD(momentum), GRADIENTS)
    for step in (0, 1, STEPS - 1):
        expected = sum(momentum ** (step - past) * GRADIENTS[past] for past in range(step + 1))
        moved = path[step] - (path[step - 1] if step else 0)
        assert np.allclose(moved, LR * expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_agrees_with_torch(array: Maker, momentum: float) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch_path(lambda theta: torch.optim.SGD(theta, lr=LR, momentum=momentum, maximize=True))
    assert np.allclose(ascend(array, SGD(momentum), GRADIENTS), theirs, rtol=1e-12, atol=1e-14)


def test_adam_agrees_with_torch(array: Maker) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch_path(lambda theta: torch.optim.Adam(theta, lr=LR, maximize=True))
    assert np.allclose(ascend(array, Adam(), GRADIENTS), theirs, rtol=1e-10, atol=1e-14)


def test_adam_agrees_with_its_definition_number_by_number(array: Maker) -> None:
    b1, b2, epsilon = 0.8, 0.95, 1e-6
    path = ascend(array, Adam(b1, b2, epsilon), GRADIENTS)
    for run in range(2):
        for j in range(D):
            x = m = v = 0.0
            for t in range(1, STEPS + 1):
                g = float(GRADIENTS[t - 1, run, j])
                m = b1 * m + (1 - b1) * g
                v = b2 * v + (1 - b2) * g**2
                x += LR * (m / (1 - b1**t)) / (math.sqrt(v / (1 - b2**t)) + epsilon)
                assert path[t - 1, run, j] == pytest.approx(x, rel=1e-10, abs=1e-14)


def test_the_first_step_of_adam_is_the_sign_of_the_gradient(array: Maker) -> None:
    first = ascend(array, Adam(), GRADIENTS[:1])[0]
    assert np.allclose(first, LR * np.sign(GRADIENTS[0]), rtol=0.01)


@pytest.mark.parametrize("optimiser", [SGD(), SGD(0.9), Adam()])
def test_without_a_gradient_nothing_moves(array: Maker, optimiser: Optimiser) -> None:
    assert (ascend(array, optimiser, np.zeros((3, 2, D))) == 0).all()


def test_every_run_of_a_fleet_counts_its_own_updates(array: Maker) -> None:
    zeros, gradient = np.zeros((2, D)), GRADIENTS[0]
    together, _, _ = Adam().step(array(gradient), array(zeros), array(zeros), array([1, 50]))
    for run, t in enumerate([1, 50]):
        rows = slice(run, run + 1)
        alone, _, _ = Adam().step(array(gradient[rows]), array(zeros[rows]), array(zeros[rows]), array([t]))
        assert (np.asarray(alone)[0] == np.asarray(together)[run]).all()
    assert not np.allclose(np.abs(np.asarray(together)[0, :3]), np.abs(np.asarray(together)[1, :3]), rtol=0.1)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_named_optimiser_climbs_a_hill(array: Maker, name: str) -> None:
    optimiser = OPTIMISERS[name]()
    theta, first, second = array([[5.0, -3.0]]), array([[0.0, 0.0]]), array([[0.0, 0.0]])
    for t in range(1, 400):
        step, first, second = optimiser.step(-theta, first, second, array([t]))
        theta = theta + LR * step
    assert np.abs(np.asarray(theta)).max() < 0.1
