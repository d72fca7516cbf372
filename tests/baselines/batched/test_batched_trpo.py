"""TRPO of many runs at a time is that of sb3-contrib: steps of actors and of critics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sb3_contrib.common.utils
import torch
from lessons import ACTIONS, SEEN, STEPS, Nothing, as_lived, lived, read_policy
from stable_baselines3.common.vec_env import DummyVecEnv
from torch.distributions import Normal, kl_divergence

from nesht.baselines.batched.actor_critic import Lived
from nesht.baselines.batched.curvature import Curvature
from nesht.baselines.batched.draws import Purpose
from nesht.baselines.batched.exchange import views
from nesht.baselines.batched.layers import flat, forward, orthogonal_layers, pieces
from nesht.baselines.batched.learner import Shape
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.trpo import TRPO, solve
from nesht.baselines.changes import changed
from nesht.baselines.settings import make_model

RUNS = 3
CPU = Place("cpu")
SETTINGS = changed(
    "trpo", [f"n_steps={STEPS}", "batch_size=24", "net_arch=[16,8]", "n_critic_updates=2", "cg_max_steps=8"]
)


class Given:
    """Numbers that were drawn before."""

    def __init__(self, starts: list[torch.Tensor], orders: list[list[np.ndarray]]):
        self._numbers = {
            Purpose.CONJUGATE: torch.stack(starts),
            Purpose.ORDER: torch.from_numpy(np.argsort(np.array(orders), axis=2)).float(),
        }

    def normal(self, purpose: Purpose, *shape: int) -> torch.Tensor:
        assert self._numbers[purpose].shape[1:] == shape
        return self._numbers[purpose]

    uniform = normal


def test_an_update_is_that_of_sb3_contrib(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = TRPO(Shape(SEEN, ACTIONS), SETTINGS, range(50, 50 + RUNS), CPU)
    models = [make_model("trpo", DummyVecEnv([Nothing]), SETTINGS, seed, "cpu") for seed in range(RUNS)]
    luck = np.random.default_rng(0)
    for run, model in enumerate(models):
        with torch.no_grad():
            model.policy.log_std += 0.1 * run
        read_policy(learner, run, model.policy.state_dict())
    before = [model.policy.state_dict()["action_net.weight"].clone() for model in models]
    buffers = [lived(model, luck) for model in models]
    steps = as_lived(buffers)

    starts, orders = [], []
    size = sum(part[0].numel() for part in learner.policy)
    own_order = permutation_of(learner)
    for model, buffer in zip(models, buffers, strict=True):
        starts.append(torch.from_numpy(luck.standard_normal(size).astype(np.float32)))
        orders.append([luck.permutation(STEPS) for _ in range(SETTINGS["n_critic_updates"])])
        drawn = iter([np.arange(STEPS), *orders[-1]])
        monkeypatch.setattr(np.random, "permutation", lambda _, drawn=drawn: next(drawn))
        monkeypatch.setattr(
            sb3_contrib.common.utils.th, "randn_like", lambda _, start=starts[-1]: start[own_order].clone()
        )
        model.rollout_buffer = buffer
        model._logger = type("Silent", (), {"record": lambda *_, **__: None})()
        model.train()
    given: Any = Given(starts, orders)
    found = learner.improve_actors(steps, given)
    learner.improve_critics(steps.seen, steps.worth, given)
    assert found.any()
    for run, model in enumerate(models):
        state = model.policy.state_dict()
        assert found[run] == (not torch.equal(state["action_net.weight"], before[run]))
        for name, view in views(learner, run):
            torch.testing.assert_close(view, state[name], rtol=2e-3, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}")


def permutation_of(learner: TRPO) -> torch.Tensor:
    """Return which of our numbers is which of theirs: they have log_std first, and weights turned round."""
    numbers = torch.arange(sum(part[0].numel() for part in learner.policy))
    pieces = list(numbers.split([part[0].numel() for part in learner.policy]))
    turned = [
        piece.view(part[0].shape).T.flatten() if i % 2 == 0 else piece
        for i, (piece, part) in enumerate(zip(pieces[:-1], learner.actor, strict=True))
    ]
    return torch.cat([pieces[-1], *turned])


def test_a_policy_that_cannot_get_better_stays() -> None:
    learner = TRPO(Shape(SEEN, ACTIONS), SETTINGS, range(2), CPU)
    luck = np.random.default_rng(1)
    seen = torch.from_numpy(luck.standard_normal((2, STEPS, SEEN)).astype(np.float32))
    action = torch.from_numpy(luck.standard_normal((2, STEPS, ACTIONS)).astype(np.float32))
    with torch.no_grad():
        density = learner.densities(learner.mean(seen), action)
    advantage = torch.from_numpy(luck.standard_normal((2, STEPS)).astype(np.float32))
    advantage[1] = 0.0
    before = [part.detach().clone() for part in learner.policy]
    size = sum(part[0].numel() for part in learner.policy)
    given: Any = Given([torch.zeros(size)] * 2, [[np.arange(STEPS)]] * 2)
    found = learner.improve_actors(Lived(seen, action, density, advantage, advantage), given)
    assert found.tolist() == [True, False]
    for old, new in zip(before, learner.policy, strict=True):
        assert torch.equal(old[1], new[1])
        assert torch.isfinite(new).all()


def test_the_curvature_is_the_hessian_of_the_divergence() -> None:
    luck = [torch.Generator().manual_seed(seed) for seed in range(2)]
    layers = orthogonal_layers([SEEN, 7, 5, ACTIONS], 1.0, luck, torch.device("cpu"))
    policy = [part.detach().double() for part in (*layers, 0.3 * torch.randn(2, 1, ACTIONS))]
    seen = torch.randn(2, 11, SEEN, dtype=torch.float64)
    start = flat(policy)

    def divergence(moved: torch.Tensor, run: int) -> torch.Tensor:
        *before, log_std = (part[run : run + 1] for part in policy)
        after = [part for _, part in pieces([*before, log_std], moved[None])]
        here, there = (forward(each, seen[run : run + 1]) for each in (before, after[:-1]))
        old, new = (Normal(mean, std.exp()) for mean, std in ((here, log_std), (there, after[-1])))
        return kl_divergence(new, old).mean()

    curvature = Curvature(policy[:-1], policy[-1], seen)
    columns = [curvature.times(unit.expand(2, -1)) for unit in torch.eye(start.shape[1], dtype=torch.float64)]
    for run in range(2):
        hessian = torch.autograd.functional.hessian(lambda moved, run=run: divergence(moved, run), start[run])
        torch.testing.assert_close(torch.stack([column[run] for column in columns]), hessian)


def test_conjugate_gradients_solve_each_run_on_its_own() -> None:
    luck = torch.Generator().manual_seed(0)
    root = torch.randn(3, 6, 6, generator=luck, dtype=torch.float64)
    matrix = root @ root.transpose(1, 2) + 0.1 * torch.eye(6, dtype=torch.float64)
    goal = torch.randn(3, 6, generator=luck, dtype=torch.float64)
    goal[2] = 0  # is there at once, and must not spoil the others
    found = solve(lambda x: (matrix @ x[..., None])[..., 0], goal, torch.zeros_like(goal), 30)
    torch.testing.assert_close(found, torch.linalg.solve(matrix, goal), rtol=1e-4, atol=1e-4)


def test_every_run_searches_until_it_has_found() -> None:
    learner = TRPO(Shape(SEEN, ACTIONS), SETTINGS, range(RUNS), CPU)
    origin = flat(learner.policy).detach().clone()
    first = [0, 2, 99]  # the attempt of every run that is fine; the last run finds none
    attempts = iter(range(100))

    def judged() -> tuple[torch.Tensor, torch.Tensor]:
        attempt = next(attempts)
        return torch.tensor([1.0 if attempt >= fine else -1.0 for fine in first]), torch.zeros(RUNS)

    with torch.no_grad():
        found = learner._search(torch.ones_like(origin), judged, torch.zeros(RUNS))
    assert found.tolist() == [True, True, False]
    gone = (flat(learner.policy).detach() - origin).mean(1)
    np.testing.assert_allclose(gone, [1.0, 0.8**2, 0.0], atol=1e-5)
