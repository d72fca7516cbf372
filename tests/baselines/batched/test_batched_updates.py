"""Updates of many runs at a time are those of stable-baselines3: losses, networks, moments, targets, masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from lessons import ACTIONS, ROWS, Given, batch_for, learn_something, read_policy, settings_of
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from nesht.baselines.anf import SparseLinear
from nesht.baselines.batched.draws import Purpose
from nesht.baselines.batched.exchange import actor_views, critic_views, views
from nesht.baselines.batched.learner import Learner, Shape
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.replay import Batch
from nesht.baselines.batched.sac import SAC
from nesht.baselines.batched.training import LEARNERS
from nesht.baselines.settings import make_model

SEEN, UPDATES = 9, 6
CPU = Place("cpu")
LAST_DIGITS = 3e-5
"""A weight with next to no gradient: Adam divides the rounding by it, and makes up to this of a step of 1e-3."""


class Nothing(gymnasium.Env[np.ndarray, np.ndarray]):
    """Only its spaces count."""

    observation_space = Box(-np.inf, np.inf, (SEEN,), np.float32)
    action_space = Box(-1, 1, (ACTIONS,), np.float32)


def pair(name: str, runs: int, **more: Any) -> tuple[list[Any], Learner]:
    """Return models of stable-baselines3 and a learner with the same networks."""
    settings = settings_of(name, **more)
    models = [make_model(name, Nothing(), settings, seed, "cpu") for seed in range(runs)]
    learner = LEARNERS[name](Shape(SEEN, ACTIONS), settings, range(50, 50 + runs), CPU)
    for run, model in enumerate(models):
        model._logger = type("Silent", (), {"record": lambda *_, **__: None})()
        read_policy(learner, run, model.policy.state_dict())
    return models, learner


def random_batch(luck: np.random.Generator) -> ReplayBufferSamples:
    def numbers(*shape: int) -> torch.Tensor:
        return torch.from_numpy(luck.standard_normal(shape).astype(np.float32))

    over = torch.from_numpy((luck.random((ROWS, 1)) < 0.2).astype(np.float32))
    return ReplayBufferSamples(
        numbers(ROWS, SEEN), numbers(ROWS, ACTIONS).tanh(), numbers(ROWS, SEEN), over, numbers(ROWS, 1)
    )


def stacked(learner: Learner, batches: list[ReplayBufferSamples]) -> Batch:
    seen, action, after, over, reward = (torch.stack(part) for part in list(zip(*batches, strict=True))[:5])
    return batch_for(learner, seen, action, reward[..., 0], after, over[..., 0])


def their_update(model: Any, batch: ReplayBufferSamples, seed: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let stable-baselines3 learn from a batch; returns what was drawn, and its losses."""
    model.replay_buffer.sample = lambda *_, **__: batch
    losses: dict[str, float] = {}
    model._logger.record = lambda name, value, **_: losses.__setitem__(name, value)
    torch.manual_seed(seed)
    if hasattr(model, "ent_coef"):
        drawn = [torch.normal(torch.zeros(ROWS, ACTIONS), torch.ones(ROWS, ACTIONS)) for _ in range(2)]
        numbers = {Purpose.ACTION_NOW: drawn[0], Purpose.ACTION_NEXT: drawn[1]}
    else:
        numbers = {Purpose.ACTION_NEXT: torch.empty(ROWS, ACTIONS).normal_(0, model.target_policy_noise) / 0.2}
    orders = []
    if hasattr(model, "sparse_layers"):
        for i, (layer, _) in enumerate(model.sparse_layers()):
            numbers[Purpose.GROWTH + i] = torch.rand(layer.weight.numel())
            orders.append(numbers[Purpose.GROWTH + i][layer.mask.reshape(-1) == 0].argsort())
    torch.manual_seed(seed)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "randperm", lambda *_, **__: orders.pop(0))
        model.train(1, ROWS)
    return {"numbers": numbers, "critic": losses["train/critic_loss"], "actor": losses.get("train/actor_loss")}


def their_moments(model: Any, part: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield Adam's moments under the names of what they belong to."""
    network = getattr(model, part)
    for name, parameter in network.named_parameters():
        for moment in ("exp_avg", "exp_avg_sq"):
            yield f"{part}.{name} {moment}", network.optimizer.state[parameter][moment]


def our_moments(learner: Learner, run: int, part: str) -> dict[str, torch.Tensor]:
    networks, improver, name_them = {
        "actor": (learner.actor, learner.actor_improver, actor_views),
        "critic": (learner.critic, learner.critic_improver, critic_views),
    }[part]
    kinds = zip(("exp_avg", "exp_avg_sq"), map(networks.layers, improver.moments), strict=True)
    return {f"{name} {kind}": view for kind, layers in kinds for name, view in name_them(learner, layers, run, part)}


def assert_same(learner: Learner, models: list[Any], moments_of: list[str]) -> None:
    for run, model in enumerate(models):
        theirs, ours = model.policy.state_dict(), dict(views(learner, run))
        assert set(theirs) == set(ours)
        for name, tensor in theirs.items():
            torch.testing.assert_close(
                ours[name], tensor, rtol=1e-4, atol=LAST_DIGITS, msg=lambda text, n=name: f"{n}: {text}"
            )
        for part in moments_of:
            mine = our_moments(learner, run, part)
            for name, moment in their_moments(model, part):
                torch.testing.assert_close(mine[name], moment, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("td3", {}),
        ("ddpg", {}),
        ("sac", {}),
        ("sac", {"ent_coef": 0.3}),
        ("sac", {"ent_coef": 0.0}),
        ("sac", {"ent_coef": "auto_0.1"}),
        ("anf-sac", {}),
    ],
)
def test_updates_are_those_of_stable_baselines3(
    name: str, more: dict[str, Any], runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, learner = pair(name, runs, **more)
    luck = np.random.default_rng(0)
    for update in range(1, UPDATES + 1):
        batches = [random_batch(luck) for _ in models]
        theirs = [
            their_update(model, batch, 100 * update + run, monkeypatch)
            for run, (model, batch) in enumerate(zip(models, batches, strict=True))
        ]
        given: Any = Given({key: [each["numbers"][key] for each in theirs] for key in theirs[0]["numbers"]})
        learner.update(stacked(learner, batches), given, policy=update % learner.policy_every == 0)
        critic, actor = learner.critic_losses(), learner.actor_losses()
        if learner.rewire_every and update % learner.rewire_every == 0:
            learner.rewire(given)
        np.testing.assert_allclose(critic.numpy(), [each["critic"] for each in theirs], rtol=1e-4)
        assert (actor is None) == (theirs[0]["actor"] is None)
        if actor is not None:
            np.testing.assert_allclose(actor.numpy(), [each["actor"] for each in theirs], rtol=1e-4, atol=1e-6)
        if isinstance(learner, SAC) and learner.weight_improver is not None:
            weights = [float(model.log_ent_coef.detach()) for model in models]
            np.testing.assert_allclose(learner.log_weight.numbers.numpy(), weights, rtol=1e-4, atol=1e-6)
        assert_same(learner, models, ["critic"] if update < learner.policy_every else ["actor", "critic"])


@pytest.mark.parametrize("name", ["td3", "sac"])
def test_best_actions_are_those_of_stable_baselines3(name: str) -> None:
    models, learner = pair(name, 2)
    seen = np.random.default_rng(0).standard_normal((5, SEEN)).astype(np.float32)
    for run, model in enumerate(models):
        ours = learner.best(torch.from_numpy(np.stack([seen, seen])))[run].numpy()
        np.testing.assert_allclose(ours, model.predict(seen, deterministic=True)[0], rtol=1e-5, atol=1e-6)


def test_networks_begin_like_torchs_own_and_depend_on_the_seed_alone() -> None:
    settings = settings_of("td3")
    many = LEARNERS["td3"](Shape(SEEN, ACTIONS), settings, [4, 7, 9], CPU)
    alone = LEARNERS["td3"](Shape(SEEN, ACTIONS), settings, [7], CPU)
    ours, theirs = dict(views(many, 1)), dict(views(alone, 0))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert not torch.equal(many.actor.weights[0][0], many.actor.weights[0][1])
    for layers in (many.actor.layers(), many.critic.layers()):
        for weight, bias in zip(layers[::2], layers[1::2], strict=True):
            bound = weight.shape[1] ** -0.5
            for numbers in (weight, bias):
                assert numbers.abs().max() <= bound
            assert float(weight.std()) == pytest.approx(bound / 3**0.5, rel=0.15)
    assert not torch.equal(many.critic.weights[0][:3], many.critic.weights[0][3:])


def sparse(runs: int = 2) -> Any:
    return LEARNERS["anf-sac"](Shape(30, ACTIONS), settings_of("anf-sac"), range(runs), CPU)


def inputs(learner: Any) -> list[list[torch.Tensor]]:
    """Return masks, weights and moments of the input layers, of actors and of critics."""
    return [
        [mask, *(networks.layers(numbers)[0] for numbers in (networks.numbers, *improver.moments))]
        for mask, networks, improver in (
            (learner.actor_mask, learner.actor, learner.actor_improver),
            (learner.critic_mask, learner.critic, learner.critic_improver),
        )
    ]


def test_masks_keep_their_density_and_what_is_off_them_is_zero_without_moments() -> None:
    learner = sparse()
    draws: Any = Given({Purpose.GROWTH + i: list(torch.rand(2, (30 + 3 * (i > 0)) * 24)) for i in range(3)})
    for _ in range(4):
        learn_something(learner)
        before = [learner.actor_mask.clone(), learner.critic_mask.clone()]
        weights = [networks.layers()[0].clone() for networks in (learner.actor, learner.critic)]
        learner.rewire(draws)
        for old, weight, (mask, now, *moments) in zip(before, weights, inputs(learner), strict=True):
            count = mask.flatten(1).sum(1)
            assert (count == round(0.2 * mask[0].numel())).all()
            gone, grown = (old == 1) & (mask == 0), (old == 0) & (mask == 1)
            assert (gone.flatten(1).sum(1) == round(0.2 * int(count[0]))).all()
            assert (grown.flatten(1).sum(1) == gone.flatten(1).sum(1)).all()
            for network in range(len(mask)):
                kept = (old[network] == 1) & ~gone[network]
                assert weight[network][gone[network]].abs().max() <= weight[network][kept].abs().min()
                assert torch.equal(now[network][kept], weight[network][kept])
            for numbers in (now, *moments):
                assert not numbers[(mask == 0) | grown].any()
                assert numbers[(mask == 1) & ~grown].any()
        assert not learner.critic_target.layers()[0][learner.critic_mask == 0].any()
        learn_something(learner)
        for mask, *numbers in inputs(learner):
            assert not any(each[mask == 0].any() for each in numbers)


def test_a_sparse_layer_begins_like_the_one_of_a_single_run() -> None:
    ours, theirs = sparse().actor_mask, SparseLinear(30, 24, 0.8).mask
    assert (ours.flatten(1).sum(1) == theirs.sum()).all()
    assert not torch.equal(ours[0], ours[1])
    assert not sparse().actor.layers()[0][sparse().actor_mask == 0].any()
