"""Baselines as a user runs them: they learn, leave a run folder, and what is finished is not run again."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nesht.baselines import changes, many, settings
from nesht.baselines.run import BaselineConfig, episode_scores, train_baseline
from nesht.cli import main
from nesht.config import TaskOptions
from nesht.errors import UserError
from nesht.tasks.imperfect import Distractors
from nesht.tasks.task import Task

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


def test_other_options_are_not_mixed_into_a_finished_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train(tmp_path)
    with pytest.raises(SystemExit):
        train(tmp_path, "--reward-every", "0", "--max-episode-steps", "7")
    assert "other options" in capfd.readouterr().err


@pytest.mark.parametrize("change", ["learning_rate", "nothing=3", "batch_size=many", "net_arch=3"])
def test_bad_settings_get_a_sentence(change: str) -> None:
    with pytest.raises(UserError, match=r"learning_rate|must be like"):
        changes.changed("td3", [change])


def test_settings_are_changed_by_name() -> None:
    found = changes.changed("anf-sac", ["learning_rate=3e-4", "net_arch=[8, 8]"])
    assert found == {**settings.SETTINGS["anf-sac"], "learning_rate": 3e-4, "net_arch": [8, 8]}


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
