"""One seed, one result: on any number of threads, alone or in a fleet, on either engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import nesht

SMALL: dict[str, Any] = {
    "env": "Hopper-v4",
    "noise_ratio": 2,
    "reward_keep": 0.3,
    "n": 16,
    "generations": 4,
    "eval_every": 300,
    "eval_episodes": 2,
    "progress": False,
    "threads": 1,
}


def policy_bytes(out: Path, seed: int = 3, **options: Any) -> bytes:
    nesht.train(seed=seed, out=out, **{**SMALL, **options})
    return (out / "policy.safetensors").read_bytes()


@pytest.mark.parametrize("preset", ["tuned", "paper"])
@pytest.mark.parametrize(
    "runtime",
    [
        {"engine": "batch", "threads": 2},
        {"engine": "batch", "threads": 4, "slots": 8},
        {"engine": "batch", "threads": 2, "slots": 256},
        {"engine": "gym"},
        {"engine": "gym", "threads": 2},
    ],
)
def test_policy_file_is_the_same_however_it_is_computed(tmp_path: Path, preset: str, runtime: dict[str, Any]) -> None:
    usual = policy_bytes(tmp_path / "usual", preset=preset, engine="batch")
    assert policy_bytes(tmp_path / "other", preset=preset, **runtime) == usual


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("options", [{"preset": "paper"}, {"hidden": (6,), "noise": "drawn"}])
def test_the_fused_engine_gives_the_same_bits_on_any_number_of_threads(
    tmp_path: Path, threads: int, options: dict[str, Any]
) -> None:
    usual = policy_bytes(tmp_path / "usual", engine="fused", device="cpu", **options)
    assert policy_bytes(tmp_path / "other", engine="fused", device="cpu", **options, threads=threads) == usual


@pytest.mark.parametrize("engine", ["batch", "fused"])
@pytest.mark.parametrize("options", [{}, {"hidden": (6,), "unit": "weight", "scope": "per-layer", "optimiser": "adam"}])
def test_a_run_is_the_same_alone_and_in_a_fleet(tmp_path: Path, options: dict[str, Any], engine: str) -> None:
    options = {**options, "engine": engine, "device": "cpu"}
    alone = policy_bytes(tmp_path / "alone", **options)
    nesht.train_fleet([0, 3, 1], out=tmp_path / "fleet", **{**SMALL, **options})
    assert (tmp_path / "fleet" / "seed-3" / "policy.safetensors").read_bytes() == alone


def test_runs_of_a_fleet_end_on_their_own(tmp_path: Path) -> None:
    options = {**SMALL, "generations": None, "steps": 6000, "sigma": 0.1, "lr": 0.05}
    fleet = nesht.train_fleet(range(4), **options)
    assert [run.seed for run in fleet] == [0, 1, 2, 3]
    assert len({run.generations for run in fleet}) > 1
    alone = nesht.train(seed=2, **options)
    assert alone.steps == fleet[2].steps >= 6000
    assert alone.score == fleet[2].score


def test_another_seed_gives_another_policy(tmp_path: Path) -> None:
    assert policy_bytes(tmp_path / "a", seed=0) != policy_bytes(tmp_path / "b", seed=1)


@pytest.mark.parametrize("share", ["none", "pair", "generation"])
def test_common_randomness_says_who_shares_luck(share: str) -> None:
    # With hardly any perturbation members differ by their luck alone.
    result = nesht.train(**{**SMALL, "sigma": 1e-12, "generations": 1, "common_randomness": share, "out": None})
    spread = result.history[0]["fitness_max"] - result.history[0]["fitness_mean"]
    assert (spread < 1e-6) == (share == "generation")


@pytest.mark.parametrize(
    "options", [{}, {"sparsifier": "l1", "penalty": 0.5}, {"sparsifier": "soft", "penalty": 0.5, "unit": "weight"}]
)
def test_a_run_is_the_same_beside_runs_with_other_numbers(options: dict[str, Any]) -> None:
    few = {name: value for name, value in SMALL.items() if name != "progress"}
    base = nesht.Config().change(**{**few, "engine": "batch", "generations": None, "steps": 1500}, **options)
    changes: list[dict[str, Any]] = [{"lr": 0.01}, {"sigma": 0.05}, {"lr": "linear:0.01:0.001", "seed": 4}]
    changes += [
        {"elite": 0.5},
        {"explore": 0.3, "step_cost": 0.5},
        {"explore": 0.3, "focus": 2},
        {"normalise": True},
        {"common_randomness": "generation"},
        {"normalise": True, "common_randomness": "pair"},
        {"weight_decay": 0.5},
        {"weight_decay": 2.0, "lr": 0.01},
    ]
    changes += [{"sigma": "exponential:0.5:0.01"}, {"lr": "cosine:0.02:0.001"}]
    changes += [{"penalty": 2.0}] if options else [{"memory": 0.5}, {"beta": 0.5}, {"k": 3}, {"k": "linear:2:9"}]
    configs = [base, *(base.change(**change) for change in changes)]
    mixed = nesht.train_many(configs, progress=False)
    for config, run in zip(configs, mixed, strict=True):
        alone = nesht.train(config=config, progress=False)
        assert alone.policy.parameters.tobytes() == run.policy.parameters.tobytes()
        assert alone.evaluations == run.evaluations
