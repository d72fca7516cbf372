"""What on-policy algorithms share is as in stable-baselines3: scales, advantages, the record, whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from lessons import SEEN, Nothing, lived
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from nesht.baselines.batched.onpolicy import OnPolicyTraining, advantages
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.run import train_batched
from nesht.baselines.batched.running import RunningScale
from nesht.baselines.changes import changed
from nesht.baselines.run import BaselineConfig, train_baseline
from nesht.baselines.settings import make_model
from nesht.config import TaskOptions
from nesht.engines.fused.vector import FusedVectorEnv
from nesht.policies.saved import load_policy
from nesht.tasks.imperfect import Distractors, RewardMask
from nesht.tasks.task import Task

CPU = Place("cpu")
SETTINGS = changed("trpo", ["net_arch=[16,8]", "batch_size=25"])


def test_advantages_are_those_of_stable_baselines3() -> None:
    luck = np.random.default_rng(3)
    model = make_model("trpo", DummyVecEnv([Nothing]), SETTINGS, 0, "cpu")
    buffer = lived(model, luck)
    ended = np.append(buffer.episode_starts[1:, 0], 0.0)  # an episode starts after the step that ended another
    rows = [torch.from_numpy(part.astype(np.float32))[None] for part in (buffer.rewards[:, 0], buffer.values[:, 0])]
    found = advantages(*rows, torch.from_numpy(ended.astype(np.float32))[None], torch.tensor([[0.3]]), 0.99, 0.95)
    np.testing.assert_allclose(found[0].numpy(), buffer.advantages[:, 0], rtol=1e-4, atol=1e-5)


class Stream(gymnasium.Env[np.ndarray, np.ndarray]):
    """Shows numbers that were drawn before."""

    observation_space = Box(-np.inf, np.inf, (SEEN,), np.float32)
    action_space = Box(-1, 1, (1,), np.float32)

    def __init__(self, seen: np.ndarray, rewards: np.ndarray, ends: np.ndarray):
        self._seen, self._rewards, self._ends, self._at = iter(seen), rewards, ends, -1

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        return next(self._seen), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._at += 1
        ends = bool(self._ends[self._at])
        seen = np.zeros(SEEN, np.float32) if ends else next(self._seen)
        return seen, float(self._rewards[self._at]), ends, False, {}


def test_scales_are_those_of_vec_normalize() -> None:
    luck = np.random.default_rng(5)
    seen = (3 * luck.standard_normal((61, SEEN)) + 2).astype(np.float32)
    rewards, ends = 5 * luck.standard_normal(60) + 1, luck.random(60) < 0.2
    theirs = VecNormalize(DummyVecEnv([lambda: Stream(seen, rewards, ends)]), gamma=0.9)
    ours = RunningScale(1, SEEN, 0.9, CPU)
    scaled = theirs.reset()
    for at in range(61):
        raw = torch.from_numpy(seen[at])[None]
        ours.seen.add(raw)
        np.testing.assert_allclose(ours.scale(raw[:, None])[0, 0], scaled[0], rtol=1e-5, atol=1e-6)
        if at == 60:
            break
        scaled, reward, _, _ = theirs.step(np.zeros((1, 1)))
        found = ours.reward(torch.tensor([rewards[at]], dtype=torch.float32), torch.tensor([bool(ends[at])]))
        assert found[0].item() == pytest.approx(float(reward[0]), rel=1e-5)


def test_what_a_simulation_that_blew_up_shows_counts_as_nothing() -> None:
    scale, same = (RunningScale(2, SEEN, 0.9, CPU) for _ in range(2))
    broken = torch.tensor([[[float("nan")] * SEEN], [[float("inf")] * SEEN]])
    assert torch.equal(scale.scale(broken), scale.scale(torch.zeros_like(broken)))
    ended = torch.tensor([True, False])
    for reward in (torch.ones(2), torch.tensor([float("nan"), 2.0]), torch.ones(2)):
        assert torch.equal(scale.reward(reward, ended), same.reward(reward.nan_to_num(0.0), ended))


SMALLER = {"trpo": ["batch_size=16", "n_critic_updates=2"], "a2c": []}


def config_of(name: str, **more: Any) -> BaselineConfig:
    settings = changed(name, ["n_steps=32", "net_arch=[8,8]", *SMALLER[name]])
    task = TaskOptions("Hopper-v4", noise_ratio=2.0, reward_keep=0.5, max_episode_steps=30)
    return BaselineConfig(name, settings, task, **{"steps": 150, "eval_every": 50, "eval_episodes": 2, **more})


def test_what_is_learnt_from_is_what_was_seen_and_done() -> None:
    place = Place("cpu")
    task = Task("Hopper-v4", Distractors(5), RewardMask(0.5), 10)
    settings = {**SETTINGS, "n_steps": 25}
    training = OnPolicyTraining("trpo", settings, task, [5, 9], place)
    learner = training.learner
    env = FusedVectorEnv("Hopper-v4", 2, noise_ratio=5, reward_keep=0.5, max_episode_steps=10)
    raw, scale = (
        torch.from_numpy(env.reset(seed=[5, 9])[0]),
        RunningScale(2, learner.shape.seen, settings["gamma"], CPU),
    )
    expected: dict[str, list[torch.Tensor]] = {"seen": [], "reward": [], "ended": []}
    for step in range(24):
        training.step()
        scale.seen.add(raw)
        expected["seen"].append(scale.scale(raw[:, None])[:, 0])
        raw, reward, over, timed_out, infos = (  # type: ignore[assignment]
            torch.from_numpy(np.asarray(part)) if not isinstance(part, dict) else part
            for part in env.step(training.kept["action"][:, step].clamp(-1, 1).numpy())
        )
        ended = over | timed_out
        ahead = RunningScale(2, learner.shape.seen, settings["gamma"], CPU)
        for name in ("count", "mean", "var"):
            getattr(ahead.seen, name).copy_(getattr(scale.seen, name))
        ahead.seen.add(raw)
        with torch.no_grad():
            future = learner.values(ahead.scale(torch.from_numpy(infos["final_obs"])[:, None]))[:, 0]
        expected["reward"].append(scale.reward(reward.float(), ended) + 0.99 * future * (timed_out & ~over))
        expected["ended"].append(ended.float())
    assert torch.stack(expected["ended"]).sum() >= 4
    value, earned = (each[:, :24] for each in training.worth())
    found = {**{name: training.kept[name][:, :24] for name in ("seen", "ended")}, "reward": earned}
    for name, columns in expected.items():
        torch.testing.assert_close(found[name], torch.stack(columns, 1), rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        seen, action = training.kept["seen"][:, :24], training.kept["action"][:, :24]
        torch.testing.assert_close(training.kept["density"][:, :24], learner.densities(learner.mean(seen), action))
        torch.testing.assert_close(value, learner.values(seen))
    env.close()
    training.close()


@pytest.mark.parametrize("name", SMALLER)
def test_a_run_is_the_same_beside_others_and_leaves_the_same_folder(name: str, tmp_path: Path) -> None:
    config = config_of(name, device="cpu")  # so few steps that torch rounds one product and several alike
    together = train_batched([config.change(seed=seed) for seed in (3, 4)], [tmp_path / "3", tmp_path / "4"])
    alone = train_batched([config.change(seed=4)], [tmp_path / "alone"])
    other = train_baseline(config.change(seed=3), tmp_path / "theirs")
    assert together[1]["score"] == alone[0]["score"] != together[0]["score"]
    assert (tmp_path / "4" / "model.zip").read_bytes() == (tmp_path / "alone" / "model.zip").read_bytes()
    assert [other[name] for name in ("seed", "steps", "generations")] == [3, 160, 5]
    assert [together[0][name] for name in ("seed", "steps", "generations")] == [3, 160, 5]
    assert {each.name for each in (tmp_path / "3").iterdir()} == {each.name for each in (tmp_path / "theirs").iterdir()}
    model = make_model(
        name, DummyVecEnv([lambda: gymnasium.make("nesht/NoisyHopper-v4", noise_ratio=2)]), config.settings, 0, "cpu"
    )
    model.set_parameters(tmp_path / "3" / "model.zip", exact_match=False, device="cpu")
    ours, theirs = (load_policy(tmp_path / each) for each in ("3", "theirs"))
    assert ours.network == theirs.network
    assert ours.moments.count == pytest.approx(theirs.moments.count)
