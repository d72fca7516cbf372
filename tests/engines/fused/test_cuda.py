"""The fused engine on a GPU, where there is one: the same bits whatever the company, and after a death."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nesht
from nesht.config import Config

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

SMALL: dict[str, Any] = {
    "env": "Hopper-v4",
    "noise_ratio": 10,
    "reward_keep": 0.1,
    "n": 64,
    "lr": 0.01,
    "elite": 1.0,
    "explore": 1.0,
    "beta": 0.9,
    "generations": 6,
    "eval_every": 2000,
    "engine": "fused",
    "device": "cuda",
}


def weights(result: nesht.RunResult) -> bytes:
    return result.policy.parameters.tobytes()


@pytest.mark.parametrize(
    "options", [{}, {"optimiser": "adam", "shaping": "centered_rank", "mirrored": False}, {"hidden": (8,)}]
)
def test_a_run_is_the_same_alone_and_in_any_fleet(options: dict[str, Any]) -> None:
    options = {**SMALL, **options, "progress": False}
    alone = nesht.train(seed=3, **options)
    for seeds in ([3, 4], [7, 8, 3], list(range(40))):
        fleet = nesht.train_fleet(seeds, **options)
        assert weights(fleet[seeds.index(3)]) == weights(alone)


def test_runs_of_other_settings_beside_it_change_nothing() -> None:
    base = Config().change(**SMALL)
    mixed = [base.change(seed=seed, beta=beta, n=n) for seed in (0, 3) for beta in (0.5, 0.9) for n in (64, 128)]
    alone = nesht.train(config=mixed[-1], progress=False)
    assert weights(nesht.train_many(mixed, progress=False)[-1]) == weights(alone)


def test_stopped_and_resumed_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole = nesht.train(**SMALL, seed=1, out=tmp_path / "whole", progress=False)
    nesht.train(**{**SMALL, "generations": 3}, seed=1, out=tmp_path / "half", progress=False)
    resumed = nesht.resume(tmp_path / "half", generations=6, progress=False)[0]
    assert weights(resumed) == weights(whole)


def test_a_run_moves_to_the_batch_engine_and_back(tmp_path: Path) -> None:
    nesht.train(**{**SMALL, "generations": 2}, out=tmp_path / "run", progress=False)
    nesht.resume(tmp_path / "run", generations=3, engine="batch", progress=False)
    back = nesht.resume(tmp_path / "run", generations=4, engine="fused", device="cuda", progress=False)[0]
    assert back.generations == 4
    assert np.isfinite(back.score)
