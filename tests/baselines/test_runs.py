"""Baselines as a user runs them: they learn, leave a run folder, and what is finished is not run again."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from stable_baselines3.common.vec_env import DummyVecEnv

from nesht.baselines import changes, many, settings
from nesht.baselines.batched import why_not
from nesht.baselines.run import BaselineConfig, episode_scores, train_baseline
from nesht.cli import main
from nesht.config import TaskOptions
from nesht.errors import UserError
from nesht.tasks.imperfect import Distractors
from nesht.tasks.task import Task
from nesht.training.folder import RunFolder

SMALL = ["learning_starts=200", "learning_rate=0.001", "batch_size=64", "net_arch=[64,64]", "buffer_size=5000"]
QUICK = {
    "td3": (3000, SMALL),
    "ddpg": (3000, SMALL),
    "sac": (3000, SMALL),
    "anf-sac": (3000, [*SMALL, "topology_every=100"]),
    "ppo": (9000, ["n_steps=512"]),
    "a2c": (9000, []),
    "trpo": (9000, ["n_steps=512"]),
}


def rows(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "evaluations.csv").read_text().splitlines()))


@pytest.mark.parametrize("name", QUICK)
def test_every_algorithm_learns_to_balance_a_pole(name: str, tmp_path: Path) -> None:
    # Untrained, the pole falls after 3 to 35 steps; a policy that knows the task keeps it up for 1000. After so few
    # steps the off-policy ones are on their way, and how far depends on how a processor rounds: 55 to 120.
    steps, more = QUICK[name]
    config = BaselineConfig(
        name, changes.changed(name, more), TaskOptions("InvertedPendulum-v4"), steps, 0, steps // 10, 5, "cpu"
    )
    train_baseline(config, tmp_path)
    scores = [float(row["score"]) for row in rows(tmp_path)]
    assert scores[0] < 36
    assert np.mean(scores[-3:]) > (40 if steps == 3000 else 400)


def train(out: Path, *more: str, name: str = "td3") -> None:
    off = ["learning_starts=50", "buffer_size=500", "batch_size=8", "net_arch=[8,8]"]
    words = ["baseline", name, "--env", "Hopper-v4", "--noise-ratio", "2", "--reward-keep", "0.1", "--out", str(out)]
    main([*words, "--steps", "120", "--eval-every", "60", "--eval-episodes", "2", *more, "--settings", *off])


def test_seeds_are_runs_of_their_own_and_finished_ones_are_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path, "--seeds", "0-1", "--processes", "2")
    first = (tmp_path / "seed-0" / "summary.json").read_text()
    assert {int(row["steps"]) for row in rows(tmp_path / "seed-1")} == {1, 60, 120}
    assert json.loads(first)["steps"] == 120
    capfd.readouterr()
    train(tmp_path, "--seeds", "0-2")
    assert (tmp_path / "seed-0" / "summary.json").read_text() == first
    assert "seed 2: score" in capfd.readouterr().out


def test_the_same_seed_gives_the_same_scores(tmp_path: Path) -> None:
    for name, option in (("a", "--seeds"), ("b", "--seed")):
        train(tmp_path / name, option, "5", name="anf-sac")
    scores = [[row["score"] for row in rows(tmp_path / name / "seed-5")] for name in ("a", "b")]
    assert scores[0] == scores[1]


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(capfd: pytest.CaptureFixture[str], out: Path, *more: str, name: str = "td3") -> str:
    """Return what is said about options that are refused, and see that nothing there has changed."""
    before = files(out)
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        train(out, *more, name=name)
    said = capfd.readouterr().err
    assert ended.value.code == 2
    assert said.startswith("nesht: ")
    assert "Traceback" not in said
    assert files(out) == before
    return said


def test_other_options_are_not_mixed_into_a_run_finished_or_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path)
    other = ("--reward-every", "0", "--max-episode-steps", "7")
    assert "other options" in refused(capfd, tmp_path, *other)
    (tmp_path / "seed-0" / "summary.json").unlink()
    assert "other options" in refused(capfd, tmp_path, *other)
    assert "holds runs of td3" in refused(capfd, tmp_path, "--seed", "5", name="ddpg")


def test_a_run_of_an_evolution_strategy_is_not_taken_over(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    few = ["--env", "Hopper-v4", "--n", "4", "--generations", "1", "--eval-episodes", "1", "--max-episode-steps", "20"]
    main(["train", *few, "--seeds", "0-1", "--out", str(tmp_path / "fleet")])
    for more in ([], ["--overwrite"]):
        assert "holds runs of nesht train" in refused(capfd, tmp_path / "fleet", *more)
    assert "a single run" in refused(capfd, tmp_path / "fleet" / "seed-0", "--overwrite")
    train(tmp_path / "td3")
    with pytest.raises(SystemExit):
        main(["train", *few, "--out", str(tmp_path / "td3" / "seed-0")])
    said = capfd.readouterr().err
    assert "a run of td3" in said
    assert "resume" not in said


def test_overwriting_replaces_a_run_once_nothing_is_wrong_and_nothing_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path)
    (tmp_path / "seed-0" / "notes.txt").write_text("mine")
    for more in (["--env", "Hoper-v4"], ["--steps", "0"], ["--device", "cuda"], ["--seeds", "3-1"], ["--seeds", "0,0"]):
        if more != ["--device", "cuda"] or not torch.cuda.is_available():
            refused(capfd, tmp_path, "--overwrite", *more)
    assert "processes must be" in refused(capfd, tmp_path, "--overwrite", "--processes", "-1")
    refused(capfd, tmp_path / "new", "--env", "Hoper-v4")
    if not torch.cuda.is_available():
        refused(capfd, tmp_path / "new", "--device", "cuda")
    assert not (tmp_path / "new").exists()
    train(tmp_path, "--overwrite", "--steps", "60")
    assert json.loads((tmp_path / "seed-0" / "summary.json").read_text())["steps"] == 60
    assert (tmp_path / "seed-0" / "notes.txt").read_text() == "mine"


def test_a_folder_has_one_process_at_a_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train(tmp_path)
    with closing(RunFolder(tmp_path / "seed-0")):
        assert "another process" in refused(capfd, tmp_path, "--overwrite")
    train(tmp_path, "--overwrite")


def begun(out: Path, steps: int) -> subprocess.Popen[str]:
    """Return a command with two processes, both of which have begun a run."""
    words = ["baseline", "ppo", "--env", "InvertedPendulum-v4", "--seeds", "0-1", "--processes", "2"]
    command = [sys.executable, "-m", "nesht", *words, "--steps", str(steps), "--out", str(out)]
    parent = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: all((out / f"seed-{seed}" / "config.toml").exists() for seed in (0, 1)))
    return parent


def wait_until(fine: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not fine():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def is_locked(folder: Path) -> bool:
    try:
        RunFolder(folder).close()
    except UserError:
        return True
    return False


def test_processes_end_with_the_one_that_began_them(tmp_path: Path) -> None:
    parent = begun(tmp_path, 10_000_000)
    folders = [tmp_path, tmp_path / "seed-0", tmp_path / "seed-1"]
    try:
        assert all(map(is_locked, folders))
    finally:
        parent.kill()
        parent.communicate()
    wait_until(lambda: not any(map(is_locked, folders)))


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_a_process_that_is_killed_fails_its_run_and_the_other_ends(tmp_path: Path) -> None:
    parent = begun(tmp_path, 20_000)
    found = [int(each.parent.name) for each in Path("/proc").glob("[0-9]*/cmdline") if is_worker_of(parent.pid, each)]
    assert len(found) == 2
    os.kill(found[0], signal.SIGKILL)
    said = parent.communicate(timeout=300)[1]
    assert parent.returncode == 2
    assert "nesht: 1 of 2 sets or processes failed, the first because: it was ended from outside (-9)" in said
    assert len(list(tmp_path.glob("*/summary.json"))) == 1


def is_worker_of(parent: int, command: Path) -> bool:
    try:
        of = int(command.with_name("stat").read_text().rpartition(")")[2].split()[1])
        return of == parent and b"spawn_main" in command.read_bytes()
    except OSError:  # it has ended
        return False


class Counting(gymnasium.Env[np.ndarray, Any]):
    """Pays what is done, up to four times; after that nothing is a number, if that is asked for."""

    observation_space = Box(-1.0, 1.0, (2,))

    def __init__(self, action_space: Any, broken: bool = False):
        self.action_space, self._broken, self._time = action_space, broken, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._time = 0
        return np.zeros(2), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._time += 1
        assert self.action_space.contains(action)
        paid = float("nan") if self._broken else float(np.sum(action))
        return np.zeros(2), paid, False, self._time == 4, {}


def config_of(name: str, env: Any, *more: str) -> BaselineConfig:
    return BaselineConfig(name, changes.changed(name, list(more)), TaskOptions(env), 64, 0, 32, 2, "cpu")


def test_discrete_actions_are_counted_from_where_the_environment_does(tmp_path: Path) -> None:
    config = config_of("ppo", lambda: Counting(Discrete(3, start=5)), "n_steps=32", "batch_size=32")
    summary = train_baseline(config, tmp_path)
    assert 20 <= summary["score"] <= 28


@pytest.mark.parametrize(
    ("name", "env", "sentence"),
    [
        ("td3", lambda: Counting(Discrete(3)), "needs continuous actions"),
        ("ppo", lambda: Counting(Box(-np.inf, np.inf, (1,))), "no bounds"),
        ("a2c", lambda: Counting(Box(-1, 1, (1,)), broken=True), "no number"),
    ],
)
def test_environments_that_cannot_be_learnt_get_a_sentence(name: str, env: Any, sentence: str, tmp_path: Path) -> None:
    few = ["learning_starts=50"] if name == "td3" else []
    with pytest.raises(UserError, match=sentence):
        many.train_baselines([(config_of(name, env, *few), tmp_path / "run")], progress=False)
    assert not (tmp_path / "run" / "summary.json").exists()


def test_actions_without_bounds_replace_no_finished_run(tmp_path: Path) -> None:
    config = config_of("ppo", lambda: Counting(Box(-1, 1, (1,))), "n_steps=32", "batch_size=32")
    many.train_baselines([(config, tmp_path / "run")], progress=False)
    unbounded = config.change(task=TaskOptions(lambda: Counting(Box(-np.inf, np.inf, (1,)))))
    with pytest.raises(UserError, match="no bounds"):
        many.train_baselines([(unbounded, tmp_path / "run")], progress=False, overwrite=True)
    assert (tmp_path / "run" / "summary.json").exists()


def test_a_run_that_would_learn_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="would learn nothing in 64 steps"):
        many.train_baselines([(config_of("sac", "Hopper-v4"), tmp_path / "run")])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("learning_rate", "name=value"),
        ("nothing=3", "learning_rate=0.001"),
        ("leaning_rate=3", r"Did you mean learning_rate"),
        ("batch_size=many", "must be like 256"),
        ("batch_size=1.5", "must be like 256"),
        ("batch_size=0", "a whole number of at least 1"),
        ("net_arch=3", "must be like"),
        ("net_arch=[-3]", "numbers of units"),
        ("learning_rate=-1", "more than 0"),
        ("gamma=2", "from 0 to 1"),
        ("normalise=1", "must be like False"),
        ("use_sde=True", "got 'use_sde=True'"),
        ("learning_rate=1e999", "must be like 0.001"),
        ("policy_delay=0", "a whole number of at least 1"),
        ("policy_delay=often", "must be like 2"),
        ("target_noise_clip={1}", "must be like 0.5"),
    ],
)
def test_bad_settings_get_a_sentence(change: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        changes.changed("td3", [change])


def test_the_weight_of_the_entropy_is_learnt_by_those_that_can() -> None:
    assert changes.changed("sac", ["ent_coef=auto_0.1"])["ent_coef"] == "auto_0.1"
    assert changes.changed("sac", ["ent_coef=0.1"])["ent_coef"] == 0.1
    with pytest.raises(UserError, match="ent_coef must be like"):
        changes.changed("ppo", ["ent_coef=auto"])


def test_settings_are_changed_by_name() -> None:
    found = changes.changed("anf-sac", ["learning_rate=3e-4", "net_arch=[8, 8]", "buffer_size=1e5", "ent_coef=auto"])
    known = settings.SETTINGS["anf-sac"]
    assert found == {**known, "learning_rate": 3e-4, "net_arch": [8, 8], "buffer_size": 100_000, "ent_coef": "auto"}
    assert isinstance(found["buffer_size"], int)
    with pytest.raises(UserError, match="the first one is sparse"):
        changes.changed("anf-sac", ["net_arch=[]"])


def test_other_arguments_of_an_algorithm_can_be_set() -> None:
    found = changes.changed("td3", ["policy_delay=3", *SMALL])
    model = settings.make_model("td3", DummyVecEnv([lambda: Counting(Box(-1, 1, (1,)))]), found, 0, "cpu")
    assert model.policy_delay == 3
    assert "no policy_delay" in (why_not(BaselineConfig("td3", found, TaskOptions("Hopper-v4"))) or "")


def test_without_the_extra_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"nesht\[baselines\]"):
        many.train_baselines([(BaselineConfig("td3", {}, TaskOptions("Hopper-v4")), Path("nowhere"))])


def test_evaluation_counts_every_reward_of_the_noisy_task() -> None:
    class Still:
        """A model that never moves."""

        def get_vec_normalize_env(self) -> None:
            return None

        def predict(self, seen: np.ndarray, deterministic: bool) -> tuple[np.ndarray, None]:
            assert deterministic
            assert seen.shape == (3, 33)
            return np.zeros((3, 3)), None

    def alone(seed: int) -> float:
        env, total, over = Task("Hopper-v4", Distractors(2.0)).make(), 0.0, False
        env.reset(seed=seed)
        while not over:
            _, reward, terminated, truncated, _ = env.step(np.zeros(3))
            total, over = total + float(reward), terminated or truncated
        return total

    envs: list[Any] = [Task("Hopper-v4", Distractors(2.0)).make() for _ in range(3)]
    scores = episode_scores(Still(), envs, [4, 5, 6])
    np.testing.assert_allclose(scores, [alone(seed) for seed in (4, 5, 6)])


@pytest.mark.parametrize(
    "words", [["--noise-ratio", "-1"], ["--reward-keep", "7"], ["--env", ""], ["--env", "Hoper-v4"]]
)
def test_a_task_that_makes_no_sense_gets_a_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["baseline", "td3", "--env", "Hopper-v4", *words, "--out", str(tmp_path)])
    said = capfd.readouterr().err
    assert said.startswith("nesht: ")
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []
