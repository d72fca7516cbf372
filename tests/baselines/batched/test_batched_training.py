"""Steps of many runs at a time: what is remembered is what was seen, and no run feels another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from nesht.baselines.batched.draws import Draws, Purpose
from nesht.baselines.batched.exchange import views
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.training import Training, scaler
from nesht.baselines.changes import changed
from nesht.engines.fused.vector import FusedVectorEnv
from nesht.tasks.imperfect import Distractors, RewardMask
from nesht.tasks.task import Task

SMALL = ["learning_starts=20", "batch_size=16", "net_arch=[16,16]", "buffer_size=1000"]
TASK = Task("Hopper-v4", Distractors(2), RewardMask(0.5), 25)


@pytest.fixture(scope="module")
def place() -> Place:
    return Place("cpu")


def trained(
    place: Place, seeds: Sequence[int], steps: int, name: str = "td3", *more: str, task: Task = TASK
) -> Training:
    training = Training(name, changed(name, [*SMALL, *more]), task, seeds, place)
    for _ in range(steps):
        training.step()
    return training


def all_of(training: Training, count: int) -> Any:
    """Return the first transitions of every run, in order."""
    places = torch.arange(count).repeat(len(training.draws.seeds), 1)
    training.draws.places = lambda *_: places  # type: ignore[method-assign]
    return training.replay.sample(count)


@pytest.mark.parametrize("name", ["td3", "sac"])
def test_what_is_remembered_is_what_was_seen(place: Place, name: str) -> None:
    seeds, steps = [5, 9, 2], 120
    batch = all_of(trained(place, seeds, steps, name), steps)
    options: dict[str, Any] = {"noise_ratio": 2, "reward_keep": 0.5, "max_episode_steps": 25, "device": "cpu"}
    env = FusedVectorEnv("Hopper-v4", len(seeds), **options, threads=1)
    seen, ends, scale = env.reset(seed=seeds)[0], np.zeros(2), scaler(env, place.device)
    for step in range(steps):
        np.testing.assert_array_equal(batch.now[:, step, :33].numpy(), seen)
        seen, reward, terminated, truncated, infos = env.step(scale(batch.now[:, step, 33:]).numpy())
        np.testing.assert_array_equal(batch.next[:, step, :33].numpy(), infos["final_obs"])
        assert not batch.next[:, step, 33:].any()
        np.testing.assert_array_equal(batch.reward[:, step].numpy(), reward)
        np.testing.assert_array_equal(batch.over[:, step].numpy(), terminated)  # a time limit is no end of the world
        ends += terminated.sum(), truncated.sum()
    env.close()
    assert (ends > 0).all()
    assert 0.3 < (batch.reward != 0).float().mean() < 0.7


def test_the_oldest_are_forgotten(place: Place) -> None:
    whole, short = (trained(place, [3, 4], 50, "td3", "learning_starts=60", f"buffer_size={size}") for size in (50, 20))
    for part in ("numbers", "moments"):
        kept, lived = getattr(short.replay, part), getattr(whole.replay, part)
        assert torch.equal(kept, torch.cat([lived[:, 40:50], lived[:, 30:40]], 1))


def test_before_learning_starts_actions_are_random_and_nothing_is_learnt(place: Place) -> None:
    fresh, later = (trained(place, [3], steps, "sac", "learning_starts=300") for steps in (0, 300))
    assert all(
        torch.equal(a, b) for (_, a), (_, b) in zip(views(fresh.learner, 0), views(later.learner, 0), strict=True)
    )
    later.step()
    assert later.updates == 1
    action = all_of(later, 300).now[0, :, 33:]
    assert action.abs().max() <= 1
    assert action.mean(0).abs().max() < 5 / 300**0.5 / 3**0.5
    assert float(action.std()) == pytest.approx(3**-0.5, rel=0.1)


@pytest.mark.parametrize("name", ["td3", "ddpg", "sac", "anf-sac"])
def test_a_run_is_the_same_whatever_runs_are_beside_it(place: Place, name: str) -> None:
    more = ["topology_every=50"] if name == "anf-sac" else []
    alone, among = (trained(place, seeds, 200, name, *more) for seeds in ([7], [1, 7, 3]))
    ours, theirs = alone.replay.numbers, among.replay.numbers
    torch.testing.assert_close(ours[0], theirs[1], rtol=1e-3, atol=1e-4)
    assert not torch.equal(theirs[0], theirs[1])
    for (title, ours), (_, theirs) in zip(views(alone.learner, 0), views(among.learner, 1), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5, msg=lambda text, n=title: f"{n}: {text}")


def test_td3s_actor_learns_every_other_update(place: Place) -> None:
    training = trained(place, [0, 1], 21)
    before = training.learner.actor.numbers.clone()
    assert training.updates == 1
    training = trained(place, [0, 1], 22)
    assert not torch.equal(training.learner.actor.numbers, before)
    assert torch.equal(trained(place, [0, 1], 20).learner.actor.numbers, before)


def test_random_numbers_have_their_distributions_and_depend_on_seed_step_and_purpose(place: Place) -> None:
    draws = Draws(place, [1, 2])
    draws.step += 400
    normal, again = (draws.normal(Purpose.ACTION_NOW, 5000, 3) for _ in range(2))
    assert torch.equal(normal, again)
    assert normal.shape == (2, 5000, 3)
    assert abs(float(normal.mean())) < 0.03
    assert float(normal.std()) == pytest.approx(1, abs=0.02)
    uniform = draws.uniform(Purpose.WARM_UP, 9999)
    assert 0 < float(uniform.min()) < 0.01
    assert 0.99 < float(uniform.max()) < 1
    places = draws.places(20_000, 1000)
    counts = torch.stack([torch.bincount(row, minlength=400) for row in places])
    assert counts.shape == (2, 400)  # none beyond the steps taken
    assert ((counts - 50) ** 2 / 50).sum(1).max() < 400 + 5 * 800**0.5  # chi squared
    assert int(draws.places(20_000, 100).max()) == 99
    others = [draws.normal(Purpose.ACTION_NEXT, 5000, 3), Draws(place, [2, 1]).normal(Purpose.ACTION_NOW, 5000, 3)]
    draws.step += 1
    for other in (*others, draws.normal(Purpose.ACTION_NOW, 5000, 3)):
        assert abs(float((normal * other).mean())) < 0.03
    assert abs(float((normal[0] * normal[1]).mean())) < 0.04
