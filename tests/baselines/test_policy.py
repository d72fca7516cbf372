"""What learners have learnt is a policy like any other: the same actions as theirs, and every command takes it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import nesht
from nesht.baselines import run
from nesht.baselines.batched.run import train_batched
from nesht.baselines.changes import changed
from nesht.baselines.policy import moments_of
from nesht.baselines.run import BaselineConfig, train_baseline
from nesht.baselines.settings import SETTINGS, make_model
from nesht.cli import main
from nesht.config import RuntimeOptions, TaskOptions
from nesht.engines import make_engine
from nesht.errors import UserError
from nesht.policies.limits import Limits
from nesht.policies.network import Network
from nesht.tasks.task import make_task
from nesht.training.evaluation import evaluate_policy

SMALL = ["learning_starts=50", "buffer_size=500", "batch_size=8", "net_arch=[8,6]", "n_steps=32"]
NOISY = TaskOptions("Hopper-v4", noise_ratio=2, reward_keep=0.1)
PENDULUM = TaskOptions("Pendulum-v1", noise_ratio=2)  # its actions go from -2 to 2


def config_of(name: str, task: TaskOptions, steps: int = 96) -> BaselineConfig:
    changes = [each for each in SMALL if each.partition("=")[0] in SETTINGS[name]]
    return BaselineConfig(name, changed(name, changes), task, steps, 3, 64, 1, "cpu")


def theirs(config: BaselineConfig, folder: Path, seen: np.ndarray) -> np.ndarray:
    """Return the actions of stable-baselines3's model in a run folder."""
    env: Any = DummyVecEnv([make_task(config.task).make])
    if config.settings["normalise"]:
        env = VecNormalize(env, training=False, clip_obs=np.inf)
        moments = nesht.load_policy(folder).moments
        env.obs_rms.mean, env.obs_rms.var = moments.mean, moments.m2 / moments.count
        seen = env.normalize_obs(seen)
    model = make_model(config.algorithm, env, config.settings, 0, "cpu")
    model.set_parameters(folder / "model.zip", exact_match=False, device="cpu")
    return np.asarray(model.predict(seen.astype(np.float32), deterministic=True)[0])


def known(model: Any) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the number, mean and variance of the observations that a model knows."""
    if (normaliser := model.get_vec_normalize_env()) is not None:
        return normaliser.obs_rms.count, normaliser.obs_rms.mean, normaliser.obs_rms.var
    rows = model.replay_buffer.observations[: model.num_timesteps, 0].astype(float)
    return len(rows), rows.mean(0), rows.var(0)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("task", [NOISY, PENDULUM], ids=lambda task: task.env)
def test_the_policy_does_what_the_model_does(
    name: str, task: TaskOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(run, "make_model", lambda *given: made.append(make_model(*given)) or made[-1])
    config = config_of(name, task)
    train_baseline(config, tmp_path)
    policy = nesht.load_policy(tmp_path)
    count, mean, variance = known(made[0])
    assert policy.moments.count == pytest.approx(count)
    np.testing.assert_allclose(policy.moments.mean, mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(policy.moments.std, np.sqrt(variance), rtol=1e-3)
    seen = policy.moments.mean + 2 * np.random.default_rng(0).standard_normal((50, policy.network.inputs))
    expected = theirs(config, tmp_path, seen)
    np.testing.assert_allclose(policy(seen), expected, rtol=1e-4, atol=1e-5)
    assert np.ptp(expected, axis=0).all()
    assert policy.feature_names == make_task(task).feature_names


@pytest.mark.parametrize("name", ["ppo", "a2c", "trpo"])
def test_discrete_actions_are_chosen_alike(name: str, tmp_path: Path) -> None:
    config = config_of(name, TaskOptions("CartPole-v1"))
    train_baseline(config, tmp_path)
    policy = nesht.load_policy(tmp_path)
    seen = np.random.default_rng(0).standard_normal((200, 4))
    assert (policy(seen) == theirs(config, tmp_path, seen)).mean() > 0.99  # two may be equally good but for rounding
    assert len(set(policy(seen).tolist())) == 2


@pytest.mark.parametrize("name", ["td3", "anf-sac", "trpo", "a2c"])
def test_runs_that_are_trained_together_leave_the_same_kind_of_policy(name: str, tmp_path: Path) -> None:
    config = config_of(name, NOISY)
    train_batched([config, config.change(seed=5)], [tmp_path / "3", tmp_path / "5"])
    for folder in (tmp_path / "3", tmp_path / "5"):
        policy = nesht.load_policy(folder)
        seen = policy.moments.mean + np.random.default_rng(0).standard_normal((50, 33))
        np.testing.assert_allclose(policy(seen), theirs(config, folder, seen), rtol=1e-4, atol=1e-5)
        assert policy.moments.count == pytest.approx(97 if config.settings["normalise"] else 96, abs=0.01)
        assert np.all(np.abs(policy.moments.mean[:11]) < 10)
        assert policy.moments.mean[0] == pytest.approx(1.2, abs=0.2)  # how high a hopper stands


def test_moments_are_those_of_all_observations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nesht.baselines.policy.ROWS", 7)
    rows = np.random.default_rng(0).normal(100, 3, (40, 2)).astype(np.float32)
    found = moments_of(rows)
    assert found.count == 40
    np.testing.assert_allclose(found.mean, rows.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.std, rows.std(axis=0), rtol=1e-5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "anf"
    for seed in (0, 1):
        train_baseline(config_of("anf-sac", NOISY).change(seed=seed), out / f"seed-{seed}")
    return out


def test_it_is_scored_on_the_task_with_every_reward(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["eval", str(folder), "--episodes", "3", "--json"])
    scores = [row["mean"] for row in json.loads(capsys.readouterr().out)]
    assert len(scores) == 2
    policy = nesht.load_policy(folder / "seed-1")
    found = [evaluate_policy(policy, 3, runtime=RuntimeOptions(engine)) for engine in ("auto", "batch", "gym")]
    assert all((each.scores == found[0].scores).all() for each in found)
    assert found[0].scores.mean() == pytest.approx(scores[1])
    bounded = Network(33, 3, limits=Limits((-1.0,) * 3, (1.0,) * 3, bend=False))
    for network in (policy.network, bounded):
        for options in (RuntimeOptions("fused"), RuntimeOptions(device="cuda")):
            with pytest.raises(UserError, match="--engine batch"):
                make_engine(make_task(NOISY), network, options)


def test_every_command_takes_it(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(folder / "seed-0")
    main(["export", path, "--format", "torchscript", "--out", str(tmp_path / "policy.pt")])
    policy, module = nesht.load_policy(path), torch.jit.load(tmp_path / "policy.pt")
    seen = np.random.default_rng(0).standard_normal((5, 33)).astype(np.float32)
    np.testing.assert_allclose(module(torch.from_numpy(seen[:, policy.used])), policy(seen), atol=1e-5)
    capsys.readouterr()
    main(["watch", path, "--steps", "3", "--out", str(tmp_path / "episode.png")])
    assert "in 3 steps" in capsys.readouterr().out
    assert (tmp_path / "episode.png").exists()


def test_inspect_shows_what_anf_sac_is_connected_to(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["inspect", str(folder), "--json"])
    found = json.loads(capsys.readouterr().out)["policies"]
    assert len(found) == 2
    for each in found.values():
        assert sum(one["connections"] for one in each["used"]) <= round(0.2 * 33 * 8)
        real = sum(one["connections"] for one in each["used"] if one["real"])
        assert each["real_connections"] == pytest.approx(real / sum(one["connections"] for one in each["used"]))
    main(["inspect", str(folder / "seed-0")])
    assert "of the connections read real inputs (by chance 33%)" in " ".join(capsys.readouterr().out.split())


def test_resuming_says_that_it_begins_again(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["resume", str(folder)])
    assert "nesht baseline anf-sac" in capfd.readouterr().err


def test_runs_without_a_policy_are_named_and_the_others_scored(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder, tmp_path / "fleet")
    for seed, file in ((0, "policy.safetensors"), (2, "policy.safetensors"), (2, "summary.json")):
        if seed == 2 and not (tmp_path / "fleet/seed-2").exists():
            shutil.copytree(folder / "seed-0", tmp_path / "fleet/seed-2")
        (tmp_path / "fleet" / f"seed-{seed}" / file).unlink()
    main(["eval", str(tmp_path / "fleet"), "--episodes", "1"])
    out, err = capfd.readouterr()
    assert "seed-1: score" in out
    assert "seed-0 has no policy for nesht: it was trained by an older version" in err
    assert "seed-2 has no policy yet: it is not finished" in err
    with pytest.raises(SystemExit):
        main(["eval", str(tmp_path / "fleet" / "seed-2")])
    assert "not finished" in capfd.readouterr().err


def test_nothing_is_lost_if_no_more_environments_can_be_made_after_training(tmp_path: Path) -> None:
    training = []

    def make() -> gymnasium.Env[Any, Any]:
        assert not training
        return gymnasium.make("Pendulum-v1", max_episode_steps=20)

    config = config_of("td3", TaskOptions(make, noise_ratio=1))
    train_baseline(config, tmp_path, lambda steps, _: training.append(steps))
    assert len(training) == 3
    assert nesht.load_policy(tmp_path).network.limits is not None
    assert (tmp_path / "summary.json").exists()
