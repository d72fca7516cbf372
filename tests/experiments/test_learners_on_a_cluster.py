"""Reinforcement learners as tasks of a cluster: what a task is, and what it leaves. `make cluster` has real nodes."""

from __future__ import annotations

import tomllib
from pathlib import Path

from nesht.engines.ray.cluster import versions
from nesht.experiments.cluster import Job, _by_task, _decided, _train
from nesht.experiments.design import Cell, Options, rival


def jobs_of(device: str, out: Path, engine: str = "auto") -> list[Job]:
    made = [
        rival(Options(steps=900, runtime={"device": device, "engine": engine}), "Hopper-v4", 2, method)
        for method in ("TD3", "A2C")
    ]
    return [(each.config.change(seed=seed), out / f"{each.name}-{seed}") for each in made for seed in (0, 1)]


def sizes(jobs: list[Job]) -> list[int]:
    return [len(task) for task in _by_task([(_decided(config), out) for config, out in jobs])]


def test_seeds_of_a_setting_are_one_task_where_they_are_trained_together(tmp_path: Path) -> None:
    assert sizes(jobs_of("cuda", tmp_path)) == [2, 2]
    assert sizes(jobs_of("cuda", tmp_path, "batch")) == [1, 1, 1, 1]  # stable-baselines3 trains one at a time
    assert sizes(jobs_of("auto", tmp_path)) == [1, 1, 1, 1]
    assert sizes(jobs_of("cpu", tmp_path, "fused")) == [2, 2]


def test_a_task_leaves_finished_folders(tmp_path: Path) -> None:
    made = rival(Options(steps=1600, runtime={"device": "auto"}), "Hopper-v4", 2, "A2C")
    small = made.config.change(eval_episodes=1, eval_every=80)
    for engine in ("auto", "fused"):
        cell = Cell(made.labels, small.change(engine=engine))
        jobs: list[Job] = [(_decided(cell.config.change(seed=seed)), tmp_path / f"{engine}-{seed}") for seed in (0, 1)]
        for _, out in jobs:
            out.mkdir()
        _train(jobs, versions("fused" if engine == "fused" else "gym"), [])
        told = [tomllib.loads((out / "config.toml").read_text()) for _, out in jobs]
        assert [each["engine"] for each in told] == ["fused" if engine == "fused" else "gym"] * 2
        assert all((out / "summary.json").exists() for _, out in jobs)
