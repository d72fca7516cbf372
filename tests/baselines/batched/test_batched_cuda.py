"""Runs trained together on a GPU, where there is one: graphs do what is written, and what the CPU does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nesht.baselines import many
from nesht.baselines.batched.exchange import views
from nesht.baselines.batched.onpolicy import OnPolicyTraining
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.sac import SAC
from nesht.baselines.batched.training import Training
from nesht.baselines.changes import changed
from nesht.baselines.run import BaselineConfig
from nesht.config import TaskOptions
from nesht.engines.fused.vector import FusedVectorEnv
from nesht.tasks.imperfect import Distractors, RewardMask
from nesht.tasks.task import Task

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

NAMES = ["td3", "ddpg", "sac", "anf-sac"]
SMALL = ["learning_starts=20", "batch_size=32", "net_arch=[64,32]", "buffer_size=1000"]
TASK = Task("Hopper-v4", Distractors(5), RewardMask(0.5), 25)


def trained(place: Place, steps: int, name: str, task: Task = TASK) -> Training:
    more = ["topology_every=20"] if name == "anf-sac" else []
    with place.work():
        training = Training(name, changed(name, [*SMALL, *more]), task, [5, 9, 2], place)
        for _ in range(steps):
            training.step()
        torch.cuda.synchronize()
    return training


def state(training: Training) -> dict[str, torch.Tensor]:
    learner = training.learner
    numbers = {f"{run} {name}": view for run in range(3) for name, view in views(learner, run)}
    for name, improver in (("actor", learner.actor_improver), ("critic", learner.critic_improver)):
        numbers |= {f"{name}'s moment {i}": moment for i, moment in enumerate(improver.moments)}
    if isinstance(learner, SAC):
        numbers["weight of the entropy"] = learner.log_weight.numbers
    return {**numbers, "lived": training.replay.numbers, "moments": training.replay.moments}


@pytest.mark.parametrize("products", [torch.float32, torch.float16])
@pytest.mark.parametrize("task", [TASK, Task("Hopper-v4", max_episode_steps=25)], ids=["noisy", "clean"])
@pytest.mark.parametrize("name", NAMES)
def test_a_graph_does_what_is_written(name: str, task: Task, products: torch.dtype) -> None:
    played, written = (state(trained(Place("cuda", graphs, products), 100, name, task)) for graphs in (True, False))
    for title, numbers in written.items():
        torch.testing.assert_close(
            played[title], numbers, rtol=1e-3, atol=1e-4, msg=lambda text, t=title: f"{t}: {text}"
        )


@pytest.mark.parametrize(("name", "more"), [("trpo", ["batch_size=8", "n_critic_updates=2"]), ("a2c", [])])
def test_a_graph_of_an_on_policy_learner_does_what_is_written(name: str, more: list[str]) -> None:
    def networks(graphs: bool) -> dict[str, torch.Tensor]:
        settings = changed(name, ["n_steps=16", "net_arch=[32,16]", *more])
        place = Place("cuda", graphs)
        with place.work():
            training = OnPolicyTraining(name, settings, TASK, [5, 9, 2], place)
            for _ in range(16 * 6):
                training.step()
            torch.cuda.synchronize()
        return {f"{run} {title}": view for run in range(3) for title, view in views(training.learner, run)}

    played, written = networks(True), networks(False)
    for title, numbers in written.items():
        torch.testing.assert_close(
            played[title], numbers, rtol=1e-3, atol=1e-4, msg=lambda text, t=title: f"{t}: {text}"
        )


@pytest.fixture
def warp_on_cpu() -> None:
    try:
        Place("cpu")
    except AttributeError:  # of a compiler that was not loaded
        pytest.skip("this Warp cannot compile for the CPU")


@pytest.mark.usefixtures("warp_on_cpu")
@pytest.mark.parametrize("products", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", NAMES)
def test_the_gpu_does_what_the_cpu_does(name: str, products: torch.dtype) -> None:
    places = Place("cuda", products=products), Place("cpu")  # halved products need a GPU, or Triton's interpreter
    gpu, cpu = (state(trained(place, 26, name)) for place in places)
    for title, numbers in cpu.items():
        torch.testing.assert_close(
            gpu[title].cpu(), numbers, rtol=2e-2, atol=1e-2, msg=lambda text, t=title: f"{t}: {text}"
        )


def test_what_is_remembered_is_what_was_seen() -> None:
    place = Place("cuda")
    training = trained(place, 80, "td3")
    with place.work():
        training.draws.places = lambda *_: torch.arange(80, device="cuda").repeat(3, 1)  # type: ignore[method-assign]
        batch = training.replay.sample(80)
    torch.cuda.synchronize()
    options: dict[str, Any] = {"noise_ratio": 5, "reward_keep": 0.5, "max_episode_steps": 25, "device": "cuda"}
    env = FusedVectorEnv("Hopper-v4", 3, **options)
    seen = env.reset(seed=[5, 9, 2])[0]
    for step in range(80):
        torch.testing.assert_close(batch.now[:, step, :66], seen, rtol=1e-4, atol=1e-4)
        seen, reward, terminated, _, infos = env.step(batch.now[:, step, 66:])
        torch.testing.assert_close(batch.next[:, step, :66], infos["final_obs"], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(batch.reward[:, step], reward, rtol=1e-4, atol=1e-4)
        assert torch.equal(batch.over[:, step], terminated.float())
    env.close()


def test_sets_of_runs_share_the_gpu_and_do_not_feel_each_other(tmp_path: Path) -> None:
    def jobs(out: Path, ratios: tuple[float, ...]) -> list[tuple[BaselineConfig, Path]]:
        settings = changed("td3", SMALL)
        return [
            (
                BaselineConfig("td3", settings, TaskOptions("Hopper-v4", noise_ratio=ratio), 100, seed, 50, 2, "cuda"),
                out / f"{ratio}-{seed}",
            )
            for ratio in ratios
            for seed in (0, 1)
        ]

    assert many.is_batched(jobs(tmp_path, (1.0,))[0][0])
    many.train_baselines(jobs(tmp_path / "all", (1.0, 2.0, 3.0)), progress=False)
    many.train_baselines(jobs(tmp_path / "one", (2.0,)), progress=False)
    for seed in (0, 1):
        ours, theirs = (
            np.genfromtxt(tmp_path / part / f"2.0-{seed}" / "evaluations.csv", delimiter=",", names=True)
            for part in ("all", "one")
        )
        np.testing.assert_allclose(ours["score"], theirs["score"], rtol=1e-3)
