"""Where episodes run."""

from __future__ import annotations

from nesht.engines.episodes import Engine, Episodes, Outcomes
from nesht.errors import UserError
from nesht.policies.network import Network
from nesht.tasks.task import Task

ENGINES = ("auto", "batch", "gym")

__all__ = ["ENGINES", "Engine", "Episodes", "Outcomes", "choose_engine", "make_engine"]


def choose_engine(name: str, task: Task) -> str:
    """Return the engine to use: the one asked for if it can run the task, or the fastest that can."""
    if name not in ENGINES:
        raise UserError(f"unknown engine {name!r}; use one of {', '.join(ENGINES)}.")
    if name == "batch" and task.locomotion is None:
        raise UserError(f"the batch engine cannot run {task.name}; use --engine gym.")
    if name == "auto":
        return "batch" if task.locomotion is not None else "gym"
    return name


def make_engine(name: str, task: Task, policy: Network, threads: int, slots: int | None = None) -> Engine:
    """Make an engine by name."""
    if choose_engine(name, task) == "batch":
        from nesht.engines.batch import BatchEngine

        return BatchEngine(task, policy, threads, slots)
    from nesht.engines.gym import GymEngine

    return GymEngine(task, policy, threads)
