"""The runs of an experiment as tasks of a Ray cluster, each with its share of CPUs or a GPU.

Every task writes its run folders itself, so all nodes must see the same folders. A task that is lost with its node is
begun again by Ray on another one, and goes on from the last checkpoint.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nesht.baselines.batched import why_not
from nesht.baselines.many import train_baselines
from nesht.baselines.run import BaselineConfig
from nesht.config import Config
from nesht.engines import choose_engine, cores
from nesht.engines.ray.cluster import connect, difference, versions
from nesht.errors import UserError
from nesht.tasks.task import make_task
from nesht.training.api import resume, train_many
from nesht.training.folder import SUMMARY, is_run

Job = tuple[Config | BaselineConfig, Path]
"""A run and its folder."""

RETRIES = 5
"""How often Ray begins a task again whose node was lost."""


def train_on_cluster(jobs: Sequence[Job], address: str, progress: bool = True) -> None:
    """Train all runs, or go on with them, as tasks: on a GPU all runs of a setting together, on CPUs each by itself.

    Learners are together on the fused engine, and each by itself with stable-baselines3, wherever that is.
    """
    connected = connect(address, cores())
    import ray

    try:
        train = ray.remote(max_retries=RETRIES)(_train)
        tasks = {}
        for together in _by_task([(_decided(config), place) for config, place in jobs]):
            for _, place in together:
                place.mkdir(parents=True, exist_ok=True)
            config = together[0][0]
            needs = {"num_cpus": _threads(config), "num_gpus": int(_device(config) == "cuda")}
            given = [(each, place.resolve()) for each, place in together]
            tasks[train.options(**needs).remote(given, versions(_engine(given[0][0])), sys.path)] = together
        _wait(tasks, len(jobs), progress)
    finally:
        if connected:
            ray.shutdown()


def _by_task(jobs: Sequence[Job]) -> list[list[Job]]:
    groups: dict[Any, list[Job]] = {}
    for number, (config, place) in enumerate(jobs):
        alone = _engine(config) == "gym" if isinstance(config, BaselineConfig) else _device(config) != "cuda"
        groups.setdefault(number if alone else repr(config.identity()), []).append((config, place))
    return list(groups.values())


def _wait(tasks: dict[Any, list[Job]], total: int, progress: bool) -> None:
    """Return when all tasks are done; one that fails does not stop the others."""
    import ray

    done, failed, waiting, began = 0, [], list(tasks), time.monotonic()
    try:
        while waiting:
            ready, waiting = ray.wait(waiting)
            for task in ready:
                done += len(tasks[task])
                try:
                    ray.get(task)
                except ray.exceptions.RayError as error:
                    failed.append(getattr(error, "cause", None) or error)
            if progress:
                print(
                    f"{done} of {total} runs done after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True
                )
    except BaseException:  # also Ctrl-C: a task saves what it has
        for task in waiting:
            ray.cancel(task)
        ray.wait(waiting, num_returns=len(waiting), timeout=30)
        raise
    if failed:
        raise UserError(f"{len(failed)} of {len(tasks)} tasks failed, the first because: {failed[0]}")


def _train(jobs: list[Job], expected: dict[str, str], search: list[str]) -> None:
    """Train on a node."""
    sys.path += [place for place in search if place not in sys.path]
    if what := difference(versions(_engine(jobs[0][0])), expected):
        raise UserError(f"a node has {what}; install the same versions everywhere.")
    for _, place in jobs:
        if not place.is_dir():
            raise UserError(f"a node does not see the folder {place}; all nodes must share --work.")
    new: list[tuple[Config, Path]] = []
    begun: list[Path] = []
    rivals: list[tuple[BaselineConfig, Path]] = []
    for config, place in jobs:
        if isinstance(config, BaselineConfig):
            rivals.append((config.change(device=_device(config)), place))
        elif (place / SUMMARY).exists():
            continue
        elif is_run(place):
            begun.append(place)
        else:
            new.append((config.change(device=_device(config), threads=_threads(config)), place))
    if begun:
        resume(begun, progress=False)
    if new:
        train_many([config for config, _ in new], outs=[place for _, place in new], progress=False)
    if rivals:
        train_baselines(rivals, progress=False)


def _decided(config: Config | BaselineConfig) -> Config | BaselineConfig:
    """Return a run whose engine is chosen here: nodes, which may have other extras installed, must not differ in it."""
    if isinstance(config, BaselineConfig):
        auto = "fused" if _device(config) == "cuda" and why_not(config) is None else "gym"
        return config.change(engine=auto) if config.engine == "auto" else config
    return config.change(engine=choose_engine(config.runtime.engine, make_task(config.task)))


def _engine(config: Config | BaselineConfig) -> str:
    return config.engine if isinstance(config, BaselineConfig) else config.runtime.engine


def _device(config: Config | BaselineConfig) -> str:
    """Return "cuda" if a run asked for a GPU; auto is the CPU here, since tasks must say what they need."""
    device = config.device if isinstance(config, BaselineConfig) else config.runtime.device
    return "cuda" if device == "cuda" else "cpu"


def _threads(config: Config | BaselineConfig) -> int:
    return 1 if isinstance(config, BaselineConfig) else config.runtime.threads or 1
