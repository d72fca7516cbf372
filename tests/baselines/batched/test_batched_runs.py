"""Runs trained together, as a user meets them: folders, scores, and that they learn."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from nesht.baselines import many
from nesht.baselines.batched import onpolicy, why_not
from nesht.baselines.batched import run as batched
from nesht.baselines.batched.a2c import A2C
from nesht.baselines.changes import changed
from nesht.baselines.run import BaselineConfig, train_baseline
from nesht.baselines.settings import make_model
from nesht.cli import main
from nesht.config import TaskOptions
from nesht.errors import UserError

SMALL = ["learning_starts=50", "buffer_size=500", "batch_size=8", "net_arch=[8,8]"]
TASK = TaskOptions("Hopper-v4", noise_ratio=2, reward_keep=0.1)


def config_of(name: str = "td3", *more: str, **options: Any) -> BaselineConfig:
    given = {"steps": 120, "eval_every": 50, "eval_episodes": 2, "device": "cpu", "task": TASK, **options}
    return BaselineConfig(name, changed(name, [*SMALL, *more]), **given)


def train(config: BaselineConfig, out: Path, seeds: list[int]) -> list[dict[str, Any]]:
    return batched.train_batched([config.change(seed=seed) for seed in seeds], [out / f"seed-{s}" for s in seeds])


def rows(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "evaluations.csv").read_text().splitlines()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("anf")
    train(config_of("anf-sac", "topology_every=20"), out, [0, 3])
    return out


def test_a_folder_is_like_that_of_a_run_trained_alone(folder: Path, tmp_path: Path) -> None:
    alone = train_baseline(config_of("anf-sac", "topology_every=20", seed=3), tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(f.name for f in (folder / "seed-3").iterdir())
    asked = config_of("anf-sac", "topology_every=20", seed=3, engine="fused", device="auto")
    assert asked.made(tmp_path)
    assert asked.made(folder / "seed-3")
    assert not asked.change(steps=121).made(folder / "seed-3")
    found = [tomllib.loads((place / "config.toml").read_text()) for place in (tmp_path, folder / "seed-3")]
    assert [(each["engine"], each["device"]) for each in found] == [("gym", "cpu"), ("fused", "cpu")]
    summary = json.loads((folder / "seed-3" / "summary.json").read_text())
    assert set(summary) == set(alone)
    assert [summary[name] for name in ("seed", "steps", "generations")] == [3, 120, 70]
    assert [alone[name] for name in ("seed", "steps", "generations")] == [3, 120, 70]
    ours, theirs = rows(folder / "seed-3"), rows(tmp_path)
    assert [row["steps"] for row in ours] == [row["steps"] for row in theirs] == ["1", "50", "100", "120"]
    assert summary["score"] == pytest.approx(np.mean([float(row["score"]) for row in ours]))


def test_stable_baselines3_reads_the_networks(folder: Path) -> None:
    class Nothing(gymnasium.Env[np.ndarray, np.ndarray]):
        """Only its spaces count."""

        observation_space = Box(-np.inf, np.inf, (33,), np.float32)
        action_space = Box(-1, 1, (3,), np.float32)

    file = folder / "seed-0" / "model.zip"
    model = make_model("anf-sac", Nothing(), config_of("anf-sac").settings, 0, "cpu")
    model.set_parameters(file, exact_match=False, device="cpu")
    with zipfile.ZipFile(file) as packed:
        tensors = torch.load(io.BytesIO(packed.read("policy.pth")), weights_only=True)
    for name, tensor in model.policy.state_dict().items():
        assert torch.equal(tensor, tensors[name])


def test_a_score_is_the_whole_reward_of_episodes_of_their_own(tmp_path: Path) -> None:
    # Without updates the networks stay the same; then the score of many episodes is what Gymnasium's environment gives.
    config = config_of("td3", "learning_starts=500", steps=1, eval_episodes=40)
    ours = train(config, tmp_path / "many", [0, 1])
    theirs = []
    for seed in range(2):
        model = make_model("td3", gymnasium.make("nesht/NoisyHopper-v4", noise_ratio=2), config.settings, 0, "cpu")
        model.set_parameters(tmp_path / "many" / f"seed-{seed}" / "model.zip", exact_match=False, device="cpu")
        env = gymnasium.make("nesht/NoisyHopper-v4", noise_ratio=2, reward_keep=1.0)
        scores = []
        for episode in range(40):
            seen, total, over = env.reset(seed=episode)[0], 0.0, False
            while not over:
                seen, reward, terminated, truncated, _ = env.step(model.predict(seen, deterministic=True)[0])
                total, over = total + float(reward), terminated or truncated
            scores.append(total)
        theirs.append((np.mean(scores), np.std(scores) / 40**0.5))
    for summary, (mean, error) in zip(ours, theirs, strict=True):
        assert abs(summary["score"] - mean) < 4 * 2**0.5 * error + 0.01


def test_finished_runs_are_kept_and_seeds_of_a_setting_are_trained_together(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[str, list[int]]] = []
    monkeypatch.setattr(many, "is_batched", lambda config: config.algorithm != "td3")
    monkeypatch.setattr(many, "where", lambda config: "cuda")

    class Set:
        """Takes three turns to be trained."""

        def __init__(self, configs: list[BaselineConfig], outs: list[Path], report: Any):
            self.name, self.seeds, self.turns = configs[0].algorithm, [config.seed for config in configs], 3

        def advance(self) -> bool:
            self.turns -= 1
            if not self.turns:
                called.append((self.name, self.seeds))
            return self.turns > 0

    monkeypatch.setattr(batched, "RunSet", Set)
    monkeypatch.setattr(many, "train_baseline", lambda config, out, report: called.append(("alone", [config.seed])))
    jobs = [(config_of("anf-sac", "topology_every=20", seed=seed), folder / f"seed-{seed}") for seed in (0, 1, 3, 4)]
    jobs += [(config_of(name, seed=5), tmp_path / name) for name in ("sac", "td3")]
    many.train_baselines(jobs, progress=False)
    assert called == [("anf-sac", [1, 4]), ("sac", [5]), ("alone", [5])]


def test_a_set_that_fails_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(many, "is_batched", lambda config: True)
    monkeypatch.setattr(many, "where", lambda config: "cuda")

    class Set:
        """Is trained in two turns, or fails in the second."""

        def __init__(self, configs: list[BaselineConfig], outs: list[Path], report: Any):
            self.steps, self.turns = configs[0].steps, 2

        def advance(self) -> bool:
            self.turns -= 1
            if not self.turns and self.steps == 201:
                raise UserError("its numbers are not finite")
            ended.extend([] if self.turns else [self.steps])
            return self.turns > 0

    monkeypatch.setattr(batched, "RunSet", Set)
    jobs = [(config_of("sac", seed=0).change(steps=steps), tmp_path / str(steps)) for steps in range(200, 206)]
    with pytest.raises(UserError, match=r"1 of 6 sets or processes failed.*not finite"):
        many.train_baselines(jobs, progress=False)
    assert sorted(ended) == [200, 202, 203, 204, 205]


def test_a_run_whose_numbers_are_lost_fails_and_those_beside_it_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = BaselineConfig("a2c", changed("a2c", ["net_arch=[8,8]"]), TASK, 64, 0, 32, 1, "cpu")

    class Broken(A2C):
        """One whose first run goes wrong."""

        def improve(self, lived: Any, draws: Any) -> None:
            super().improve(lived, draws)
            with torch.no_grad():
                self.actor[0][0, 0, 0] = float("nan")

    monkeypatch.setitem(onpolicy.LEARNERS, "a2c", Broken)
    with pytest.raises(UserError, match="1 of 2 runs failed: numbers of seed 7 are not finite"):
        batched.train_batched([config.change(seed=seed) for seed in (7, 8)], [tmp_path / "7", tmp_path / "8"])
    assert not (tmp_path / "7" / "summary.json").exists()
    assert (tmp_path / "8" / "summary.json").exists()


def test_sets_that_take_turns_do_not_feel_each_other(tmp_path: Path) -> None:
    configs = [config_of(name, seed=4) for name in ("td3", "sac")]
    sets = [batched.RunSet([config], [tmp_path / config.algorithm]) for config in configs]
    turns = 0
    while sets:
        sets, turns = [each for each in sets if each.advance()], turns + 1
    assert turns > 5
    for config in configs:
        batched.train_batched([config], [tmp_path / "alone" / config.algorithm])
        ours, theirs = (rows(folder / config.algorithm) for folder in (tmp_path, tmp_path / "alone"))
        assert [row["score"] for row in ours] == [row["score"] for row in theirs]


def test_what_cannot_be_trained_together_is_said(tmp_path: Path) -> None:
    assert why_not(config_of()) is None
    ppo = BaselineConfig("ppo", changed("ppo", []), TASK)
    pendulum = config_of(task=TaskOptions("InvertedPendulum-v4"))
    for config, reason in ((ppo, "ppo"), (pendulum, "Pendulum"), (config_of("sac", "train_freq=2"), "train_freq")):
        assert reason in (why_not(config) or "")
        with pytest.raises(UserError, match=reason):
            batched.train_batched([config], [tmp_path])
    for configs in ([config_of(), config_of()], [config_of(), config_of(seed=1, steps=7)]):
        with pytest.raises(UserError, match="trained together"):
            batched.train_batched(configs, [tmp_path / "a", tmp_path / "b"])
    assert list(tmp_path.iterdir()) == []


def test_on_a_cpu_seeds_are_dealt_to_processes_where_that_is_asked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["baseline", "a2c", "--env", "Hopper-v4", "--noise-ratio", "2", "--reward-keep", "0.1", "--steps", "64"]
    words += ["--eval-every", "32", "--eval-episodes", "2", "--settings", "net_arch=[8,8]"]
    main([*words, "--engine", "fused", "--seeds", "0-2", "--processes", "2", "--out", str(tmp_path / "three")])
    main([*words, "--engine", "fused", "--seed", "1", "--out", str(tmp_path / "one")])
    for file in ("model.zip", "policy.safetensors"):
        three, one = ((tmp_path / name / "seed-1" / file).read_bytes() for name in ("three", "one"))
        assert three == one
    scores = {rows(tmp_path / "three" / f"seed-{seed}")[-1]["score"] for seed in range(3)}
    assert len(scores) == 3
    assert 'engine = "fused"' in (tmp_path / "three" / "seed-2" / "config.toml").read_text()
    before = (tmp_path / "one" / "seed-1" / "summary.json").read_text()
    main([*words, "--engine", "gym", "--seed", "1", "--out", str(tmp_path / "one")])  # finished is finished
    assert (tmp_path / "one" / "seed-1" / "summary.json").read_text() == before
    capfd.readouterr()


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (BaselineConfig("ppo", changed("ppo", []), TASK, engine="fused"), "ppo is not one of"),
        (config_of(task=TaskOptions("InvertedPendulum-v4"), engine="fused"), "does not know InvertedPendulum-v4"),
        (config_of(engine="fast"), "engine must be auto, gym or fused"),
        (BaselineConfig("a2c", {"gamma": 0.9}, TASK, engine="fused"), "its settings lack learning_rate"),
    ],
)
def test_what_cannot_be_trained_so_gets_a_sentence(config: BaselineConfig, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        many.train_baselines([(config, tmp_path / "run")])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("engine", ["auto", "gym", "fused"])
def test_a_gpu_that_is_not_there_gets_a_sentence(engine: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no CUDA device"):
        many.train_baselines([(config_of(device="cuda", engine=engine), tmp_path / "run")])
    assert list(tmp_path.iterdir()) == []


def test_runs_without_a_gpu_are_trained_alone() -> None:
    assert not many.is_batched(config_of())
    if not torch.cuda.is_available():
        assert not many.is_batched(config_of(device="auto"))
        with pytest.raises(UserError, match="no CUDA device"):
            many.is_batched(config_of(device="cuda"))


def test_training_together_needs_no_stable_baselines3() -> None:
    code = "import sys; import nesht.baselines.batched.run; print('stable_baselines3' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
    code = "import sys; import nesht.baselines.many, nesht.cli; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_hoppers_learn_to_stand(tmp_path: Path) -> None:
    # Untrained they fall after a score of 5 to 60.
    settings = ["learning_starts=300", "buffer_size=5000", "batch_size=64", "net_arch=[64,64]", "learning_rate=0.001"]
    config = config_of("sac", *settings, steps=3000, eval_every=500, eval_episodes=3, task=TaskOptions("Hopper-v4"))
    train(config, tmp_path, range(4))
    scores = np.array([[float(row["score"]) for row in rows(tmp_path / f"seed-{seed}")] for seed in range(4)])
    assert scores[:, 0].max() < 70
    assert scores[:, -3:].mean() > 110  # 32 other runs reach 172 +- 24
