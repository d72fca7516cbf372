"""`rank_by effect`: a threshold keeps the inputs that move the actions most, whatever units they come in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import nesht
from nesht.config import Config
from nesht.errors import UserError
from nesht.report.features import feature_report
from nesht.training.fleet import Fleet, advance
from nesht.training.setup import build

SMALL: dict[str, Any] = {
    **{"env": "Hopper-v4", "noise_ratio": 2, "reward_keep": 0.3, "n": 16, "generations": 4, "k": 5},
    **{"eval_every": 300, "eval_episodes": 2, "threads": 1, "normalise": False},
}


class TwoDials(gymnasium.Env[np.ndarray, np.ndarray]):
    """Reward is the action times the sign of both inputs, one of which swings by 20 and the other by 0.2."""

    observation_space = gymnasium.spaces.Box(-20, 20, (2,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, **options: Any) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=options.get("seed"))
        self.left = 20
        return self._draw(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float(np.clip(action[0], -1, 1) * np.sign(self.seen).sum())
        self.left -= 1
        return self._draw(), reward, False, self.left == 0, {}

    def _draw(self) -> np.ndarray:
        self.seen = self.np_random.choice([-1.0, 1.0], 2)
        return self.seen * [0.2, 20.0]


def policy_bytes(out: Path, **options: Any) -> bytes:
    nesht.train(out=out, progress=False, **{**SMALL, **options})
    return (out / "policy.safetensors").read_bytes()


@pytest.mark.parametrize("unit", ["feature", "weight"])
def test_what_is_kept_has_more_effect_than_what_is_cut(unit: str) -> None:
    setup = build(Config().change(**SMALL, engine="batch", rank_by="effect", unit=unit, lr=0.1, bias=False))
    engine, fleet = setup.engine(), Fleet.new(setup, [0, 1])
    for _ in range(3):
        fleet, _ = advance(fleet, setup, engine)
        dense, policy = (setup.policy.input_weights(each) for each in (fleet.state.dense, fleet.state.theta))
        effect, kept = np.abs(dense) * fleet.moments.std[:, None, :], policy != 0
        if unit == "feature":
            effect, kept = np.linalg.norm(effect, axis=1), kept.any(axis=1)
        for run in range(2):
            assert kept[run].sum() == 5
            assert effect[run][kept[run]].min() >= effect[run][~kept[run]].max()


def test_it_keeps_the_input_that_swings_where_weights_alone_keep_either() -> None:
    options: dict[str, Any] = {"env": TwoDials, "n": 16, "generations": 20, "sigma": 0.1, "lr": 0.1, "k": 1}
    kept = {}
    for rank_by in ("weight", "effect"):
        runs = nesht.train_fleet(
            range(4), progress=False, engine="gym", rank_by=rank_by, normalise=False, bias=False, **options
        )
        kept[rank_by] = [feature_report(run.policy).used[0].index for run in runs]
    assert kept["effect"] == [1, 1, 1, 1]
    assert kept["weight"] != kept["effect"]


def test_normalised_features_all_vary_alike(tmp_path: Path) -> None:
    by_weight = policy_bytes(tmp_path / "weight", normalise=True)
    assert policy_bytes(tmp_path / "effect", normalise=True, rank_by="effect") == by_weight


@pytest.mark.parametrize("runtime", [{"engine": "gym"}, {"engine": "batch", "threads": 2}])
def test_it_gives_the_same_bits_however_it_is_computed(tmp_path: Path, runtime: dict[str, Any]) -> None:
    usual = policy_bytes(tmp_path / "usual", engine="batch", rank_by="effect")
    assert policy_bytes(tmp_path / "other", rank_by="effect", **runtime) == usual
    assert policy_bytes(tmp_path / "weight", engine="batch") != usual


def test_runs_with_and_without_normaliser_advance_together(tmp_path: Path) -> None:
    configs = [
        Config().change(**SMALL, engine="batch", rank_by="effect").change(normalise=each) for each in (False, True)
    ]
    nesht.train_many(configs, outs=[tmp_path / "plain", tmp_path / "normalised"], progress=False)
    for name, config in zip(("plain", "normalised"), configs, strict=True):
        nesht.train_many([config], outs=[tmp_path / "alone" / name], progress=False)
        alone = (tmp_path / "alone" / name / "policy.safetensors").read_bytes()
        assert (tmp_path / name / "policy.safetensors").read_bytes() == alone


def test_pruning_once_goes_by_effect_too(tmp_path: Path) -> None:
    run = nesht.train(progress=False, engine="batch", sparsifier="once", rank_by="effect", **SMALL)
    dense = nesht.train(progress=False, engine="batch", sparsifier="none", **SMALL).policy
    order = [feature.index for feature in feature_report(dense).used]
    assert {feature.index for feature in feature_report(run.policy).used} == set(order[:5])


def test_a_game_has_no_features_to_rank_by_effect() -> None:
    pytest.importorskip("ale_py")
    with pytest.raises(UserError, match="rank_by effect"):
        build(Config().change(env="ALE/Freeway-v5", rank_by="effect"))
