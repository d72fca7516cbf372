"""Where episodes run."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from nesht.config import RuntimeOptions
from nesht.engines.episodes import Engine, Episodes, Outcomes
from nesht.errors import UserError
from nesht.policies.convolution import ConvNet
from nesht.policies.network import Network
from nesht.policies.shape import Shape
from nesht.tasks.task import Task

ENGINES = ("auto", "fused", "batch", "gym", "atari", "ray")

__all__ = [
    "ENGINES",
    "Engine",
    "Episodes",
    "Outcomes",
    "check_threads",
    "choose_device",
    "choose_engine",
    "cores",
    "make_engine",
]


def check_threads(threads: int) -> None:
    """Raise UserError if a number of threads makes no sense."""
    if threads < 0:
        raise UserError(f"threads must be 0 (one per core) or more, got {threads}.")


def choose_engine(name: str, task: Task) -> str:
    """Return the engine to use: the one asked for if it can run the task, or the fastest that can."""
    if name not in ENGINES:
        raise UserError(f"unknown engine {name!r}; use one of {', '.join(ENGINES)}.")
    if name == "ray":
        return name
    if (name == "atari") != (task.game is not None) and name != "auto":
        use = "atari" if task.game is not None else "gym"
        raise UserError(f"the {name} engine cannot run {task.name}; use --engine {use}.")
    if task.game is not None:
        return "atari"
    if name in ("fused", "batch") and task.locomotion is None:
        raise UserError(f"the {name} engine cannot run {task.name}; use --engine gym.")
    if name == "auto" and task.locomotion is not None:
        return "fused" if find_spec("warp") else "batch"
    return "gym" if name == "auto" else name


def choose_device(engine: str, device: str) -> str:
    """Return the device that an engine will use: the one asked for if it is there, or the fastest that is."""
    if engine == "fused":
        from nesht.engines.fused.library import check_device

        return check_device(device)
    if engine == "atari" and device == "cuda":
        from nesht.engines.atari.screens import check_cuda

        check_cuda()
        return device
    if engine == "ray":  # what a node has is found out there
        return "cpu" if device == "auto" else device
    if device == "cuda":
        raise UserError(f"the {engine} engine runs on the CPU; --device cuda needs --engine fused.")
    return "cpu"


def make_engine(task: Task, policy: Shape, options: RuntimeOptions) -> Engine:
    """Make the engine that the options ask for."""
    chosen, threads = choose_engine(options.engine, task), options.threads or cores()
    if chosen == "ray":
        from nesht.engines.ray.engine import RayEngine

        inner: Any = choose_engine(options.actor_engine, task)
        return RayEngine(task, policy, replace(options, actor_engine=inner), cores())
    if isinstance(policy, ConvNet):
        from nesht.engines.atari.engine import AtariEngine

        return AtariEngine(task, policy, threads, choose_device(chosen, options.device), options.slots)
    assert isinstance(policy, Network)
    if chosen == "fused" and (policy.relu or policy.limits is not None):
        if options.engine == "fused" or options.device == "cuda":
            raise UserError("the fused engine runs policies that nesht trained; use --engine batch for this one.")
        chosen = "batch"
    if chosen == "fused":
        from nesht.engines.fused.engine import FusedEngine

        device = choose_device(chosen, options.device)
        return FusedEngine(task, policy, threads, device, options.precision, options.noise)
    if chosen == "batch":
        from nesht.engines.batch import BatchEngine

        return BatchEngine(task, policy, threads, options.slots)
    from nesht.engines.gym import GymEngine

    return GymEngine(task, policy, threads)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
