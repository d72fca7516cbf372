"""ANF-SAC: what its input layers are connected to, always as many weights, and never a trace of those that are gone."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from nesht.baselines import ANFSAC
from nesht.baselines.anf import SparseLinear
from nesht.tasks.wrappers import NoiseFeatures


def model(**options: object) -> ANFSAC:
    env = NoiseFeatures(gymnasium.make("Pendulum-v1"), ratio=10)
    settings = {"learning_starts": 50, "batch_size": 16, "buffer_size": 1000, "device": "cpu", "seed": 3}
    nets = {"net_arch": [32, 32], "optimizer_kwargs": {"weight_decay": 2e-4}}
    return ANFSAC("MlpPolicy", env, topology_every=10, policy_kwargs=nets, **{**settings, **options})


@pytest.fixture(scope="module")
def trained() -> ANFSAC:
    made = model()
    made.learn(200)
    return made


def moments(layer: SparseLinear, optimiser: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [optimiser.state[layer.weight][name] for name in ("exp_avg", "exp_avg_sq")]


def test_a_fifth_of_the_input_weights_exists_from_the_start_to_the_end(trained: ANFSAC) -> None:
    for made in (model(), trained):
        for layer, _ in made.sparse_layers():
            assert layer.mask.sum() == round(0.2 * layer.weight.numel())
        assert [layer.weight.shape[1] for layer, _ in made.sparse_layers()] == [33, 34, 34]  # critics see the action


def test_what_is_off_the_mask_is_exactly_zero_and_has_no_moments(trained: ANFSAC) -> None:
    for layer, optimiser in trained.sparse_layers():
        off = layer.mask == 0
        assert not layer.weight[off].any()
        assert layer.weight[~off].any()
        for moment in moments(layer, optimiser):
            assert not moment[off].any()
            assert moment[~off].any()


def test_targets_have_the_sparsity_of_their_networks(trained: ANFSAC) -> None:
    for online, target in zip(trained.critic.q_networks, trained.critic_target.q_networks, strict=True):
        assert torch.equal(online[0].mask, target[0].mask)
        assert not target[0].weight[target[0].mask == 0].any()


def test_a_change_drops_the_smallest_and_grows_at_zero_where_it_was_empty(trained: ANFSAC) -> None:
    for layer, optimiser in trained.sparse_layers():
        before, weight = layer.mask.clone(), layer.weight.detach().clone()
        layer.rewire(0.05, optimiser)
        gone, grown = (before == 1) & (layer.mask == 0), (before == 0) & (layer.mask == 1)
        count = round(0.05 * int(before.sum()))
        assert gone.sum() == grown.sum() == count > 0
        assert weight[gone].abs().max() <= weight[(before == 1) & ~gone].abs().min()
        assert not layer.weight[gone | grown].any()
        assert torch.equal(layer.weight[layer.mask * before == 1], weight[layer.mask * before == 1])
        for moment in moments(layer, optimiser):
            assert not moment[gone | grown].any()


def test_saving_and_loading_keep_the_mask_and_the_policy(trained: ANFSAC, tmp_path: Path) -> None:
    trained.save(tmp_path / "model.zip")
    again = ANFSAC.load(tmp_path / "model.zip", device="cpu")
    for (one, _), (two, _) in zip(trained.sparse_layers(), again.sparse_layers(), strict=True):
        assert torch.equal(one.mask, two.mask)
        assert torch.equal(one.weight, two.weight)
    seen = np.random.default_rng(0).standard_normal((5, 33)).astype(np.float32)
    assert np.array_equal(trained.predict(seen, deterministic=True)[0], again.predict(seen, deterministic=True)[0])
    again.set_env(trained.get_env())
    again.learn(60, reset_num_timesteps=False)
    for layer, _ in again.sparse_layers():
        assert layer.mask.sum() == round(0.2 * layer.weight.numel())
        assert not layer.weight[layer.mask == 0].any()


def test_a_seed_gives_the_same_masks_and_weights() -> None:
    first, second, third = (next(model(seed=seed).learn(100).sparse_layers())[0] for seed in (1, 1, 2))
    assert torch.equal(first.weight, second.weight)
    assert not torch.equal(first.mask, third.mask)
