"""Products of halved numbers, on a GPU or as Triton interprets them, teach what whole ones do but for a few digits."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from lessons import ACTIONS, Given, learn_something, settings_of

from nesht.baselines.batched.draws import Purpose
from nesht.baselines.batched.learner import Shape
from nesht.baselines.batched.networks import Networks
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.training import LEARNERS

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are defined
pytest.importorskip("triton", reason="Triton is for Linux")

SEEN, HIDDEN, ROWS = 70, [90, 66], 140
"""Larger than a block of what is multiplied, and no multiple of one."""


def learner_of(name: str, products: torch.dtype, hidden: list[int] = HIDDEN) -> Any:
    place = Place(DEVICE, products=products)
    settings = settings_of(name, net_arch=hidden, batch_size=ROWS)
    with place.work():
        return LEARNERS[name](Shape(SEEN, ACTIONS), settings, range(2), place)


def halved_and_whole(name: str) -> list[Any]:
    return [learner_of(name, products) for products in (torch.float16, torch.float32)]


def best(learner: Any, seen: torch.Tensor) -> torch.Tensor:
    with learner.place.work():
        return learner.best(seen.to(DEVICE)).cpu()


@pytest.mark.parametrize("name", LEARNERS)
def test_what_is_multiplied_is_what_is_learnt_but_for_its_last_digits(name: str) -> None:
    learner = learner_of(name, torch.float16)
    learn_something(learner, updates=1, rows=ROWS)
    with learner.place.work():
        if name == "anf-sac":
            sizes = [(SEEN + ACTIONS * (i > 0)) * HIDDEN[0] for i in range(3)]
            luck = {Purpose.GROWTH + i: list(torch.rand(2, size, device=DEVICE)) for i, size in enumerate(sizes)}
            learner.rewire(Given(luck))
        networks = [each for each in vars(learner).values() if isinstance(each, Networks)]
        assert len(networks) == (4 if name in ("td3", "ddpg") else 3)
        for each in networks:
            assert each.rounded.dtype == torch.float16
            assert torch.equal(each.rounded, each.numbers.to(torch.float16))


@pytest.mark.parametrize("name", LEARNERS)
def test_halved_products_teach_nearly_the_same(name: str) -> None:
    halved, whole = halved_and_whole(name)
    for learner in (halved, whole):
        learn_something(learner, updates=3, rows=ROWS)
    torch.testing.assert_close(halved.critic_losses(), whole.critic_losses(), rtol=5e-3, atol=0)
    seen = torch.randn(2, 50, SEEN, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(best(halved, seen), best(whole, seen), rtol=0, atol=5e-3)


@pytest.mark.parametrize("rewards", [1e-5, 1e7])
@pytest.mark.parametrize("name", LEARNERS)
def test_halved_products_lose_no_small_gradient_and_survive_a_huge_one(name: str, rewards: float) -> None:
    gradients = []
    for learner in halved_and_whole(name):
        with learner.place.work():
            for networks in (learner.critic, learner.critic_target):  # say nothing: an error is a reward
                for part in networks.layers()[-2:]:
                    part.mul_(1e-3 * min(rewards, 1))
            learner.settle()
        learn_something(learner, updates=1, rewards=rewards, rows=ROWS)
        with learner.place.work():
            assert all(
                torch.isfinite(numbers).all()
                for networks in (learner.actor, learner.critic, learner.critic_target)
                for numbers in (networks.numbers, networks.rounded)
            )
            moments = learner.critic.layers(learner.critic_improver.moments[0])  # after one update, of the gradient
            gradients.append(torch.cat([moment.flatten() for moment in moments]).cpu())
        assert torch.isfinite(gradients[-1]).all()
    if rewards < 1:
        halved, whole = gradients
        assert float((halved - whole).norm() / whole.norm()) < 5e-3


@pytest.mark.parametrize("name", LEARNERS)
def test_halved_networks_need_no_hidden_layer(name: str) -> None:
    learner = learner_of(name, torch.float16, hidden=[])
    before = learner.actor.numbers.clone()
    learn_something(learner, updates=1, rows=ROWS)
    with learner.place.work():
        assert not torch.equal(learner.actor.numbers, before)
