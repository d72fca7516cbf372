"""The ray engine on this machine: the same bits as one process, and mistakes found at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from strange_environments import Strange

import nesht
from nesht.config import RuntimeOptions
from nesht.engines import make_engine
from nesht.engines.ray import engine as ray_engine
from nesht.engines.ray.engine import RayEngine, stretches
from nesht.errors import UserError
from nesht.keys import EVALUATION

SMALL: dict[str, Any] = {
    "env": "Hopper-v4",
    "noise_ratio": 2,
    "reward_keep": 0.3,
    "n": 24,
    "generations": 3,
    "eval_every": 300,
    "eval_episodes": 3,
    "progress": False,
    "normalise": True,
    "device": "cpu",
}


def policy_bytes(out: Path, **options: Any) -> bytes:
    nesht.train(out=out, **{**SMALL, **options})
    return (out / "policy.safetensors").read_bytes()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("batch", {"rollouts": 2}),
        ("gym", {"env": "Pendulum-v1", "max_episode_steps": 20}),
        ("fused", {"explore": 0.5}),
    ],
)
def test_every_engine_gives_the_same_bits_in_actors(tmp_path: Path, engine: str, options: dict[str, Any]) -> None:
    alone = policy_bytes(tmp_path / "alone", engine=engine, threads=1, **options)
    assert policy_bytes(tmp_path / "ray", engine="ray", actor_engine=engine, actors=3, **options) == alone


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("engine", ["batch", "fused"])
def test_a_gradient_summed_by_actors_has_the_same_bits(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"n": 90, "max_episode_steps": 5, "sparsifier": "l1", "penalty": 0.1}
    alone = policy_bytes(tmp_path / "alone", engine=engine, threads=1, **options)
    monkeypatch.setattr(ray_engine, "BIG", 0)
    monkeypatch.setattr(ray_engine, "PARTS", 2)
    assert policy_bytes(tmp_path / "ray", engine="ray", actor_engine=engine, actors=2, **options) == alone


@pytest.mark.usefixtures("here")
def test_a_fleet_gives_the_same_bits_in_actors(tmp_path: Path) -> None:
    policy_bytes(tmp_path / "alone", seed=1, engine="batch", threads=1)
    nesht.train_fleet([0, 1], out=tmp_path / "fleet", engine="ray", actor_engine="batch", actors=2, **SMALL)
    ours = (tmp_path / "fleet" / "seed-1" / "policy.safetensors").read_bytes()
    assert ours == (tmp_path / "alone" / "policy.safetensors").read_bytes()


@pytest.mark.usefixtures("here")
def test_the_driver_gets_a_row_of_moments_per_chunk_and_not_per_episode(episodes: Callable) -> None:
    task, policy, asked = episodes("Hopper-v4", n=256, limit=3)
    engine = make_engine(task, policy, RuntimeOptions("ray", actor_engine="batch", actors=2))
    assert isinstance(engine, RayEngine)
    try:
        outcomes = engine.run(asked)
    finally:
        engine.close()
    assert len(outcomes.moments.count) * outcomes.grain == len(asked)
    assert outcomes.grain >= 8
    assert outcomes.moments.total().count == outcomes.steps.sum()


@pytest.mark.parametrize("grain", [1, 4, 16])
def test_chunks_never_mix_runs_or_members_with_evaluations(episodes: Callable, grain: int) -> None:
    _, _, asked = episodes(n=10, runs=3)
    asked = replace(asked, member=np.where(np.arange(30) < 24, asked.member, EVALUATION))
    cuts = list(stretches(asked, grain))
    assert [a for a, _ in cuts] == [0, *(b for _, b in cuts[:-1])]
    assert cuts[-1][1] == 30
    for a, b in cuts:
        assert b - a <= grain
        assert (
            len({(run, member == EVALUATION) for run, member in zip(asked.run[a:b], asked.member[a:b], strict=True)})
            == 1
        )


# What goes wrong


@pytest.mark.usefixtures("here")
def test_an_environment_that_a_node_does_not_know_is_one_sentence() -> None:
    gymnasium.register("OnlyHere-v0", "gymnasium.envs.classic_control:PendulumEnv", max_episode_steps=5)
    try:
        with pytest.raises(UserError, match=r"node \S+ cannot take part: unknown environment 'OnlyHere-v0'"):
            nesht.train(**{**SMALL, "env": "OnlyHere-v0", "engine": "ray"})
    finally:
        gymnasium.registry.pop("OnlyHere-v0")


@pytest.mark.usefixtures("here")
def test_an_actor_that_fits_nowhere_is_one_sentence() -> None:
    with pytest.raises(UserError, match="no node of the Ray cluster has room for an actor with 64 CPUs"):
        nesht.train(**SMALL, engine="ray", threads=64)


@pytest.mark.usefixtures("here")
def test_an_environment_that_crashes_once_costs_nothing(tmp_path: Path) -> None:
    options: dict[str, Any] = {**SMALL, "env": Strange(tmp_path, "crashes once"), "max_episode_steps": 5}
    ours = nesht.train(**options, engine="ray", actors=2)
    assert (tmp_path / "crashes once").exists()  # from here on it does not crash
    alone = nesht.train(**options, engine="gym", threads=1)
    assert ours.policy.parameters.tobytes() == alone.policy.parameters.tobytes()
    assert ours.steps == alone.steps
