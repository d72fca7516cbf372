"""`nesht bench`: how fast this machine trains, and how much of that time is physics."""

from __future__ import annotations

import statistics
import time

from rich.console import Console
from rich.table import Table

from nesht.config import Config
from nesht.engines.batch import BatchEngine
from nesht.errors import UserError, near_matches
from nesht.tasks.locomotion import LOCOMOTION
from nesht.training.fleet import Fleet, advance
from nesht.training.setup import build, cores

MEMBERS, EPISODE = 128, 200


def bench(env: str, noise_ratio: float, threads: int, rounds: int) -> None:
    """Train one generation of an untrained policy again and again, on one thread and on all, and print the median."""
    if env not in LOCOMOTION:
        raise UserError(f"nesht bench knows {', '.join(LOCOMOTION)}; not {env!r}.{near_matches(env, LOCOMOTION)}")
    if rounds < 1 or threads < 0:
        raise UserError(f"rounds must be at least 1 and threads 0 or more, got {rounds} and {threads}.")
    table = Table(title=f"{env}, {noise_ratio:g} noise features per real one, {MEMBERS} members", title_justify="left")
    for name in ("threads", "training steps/s", "of that time, C MuJoCo"):
        table.add_column(name, justify="right")
    for count in sorted({1, threads or cores()}):
        measured = [_measure(env, noise_ratio, count) for _ in range(rounds)]
        rate, physics = (statistics.median(values) for values in zip(*measured, strict=True))
        table.add_row(str(count), f"{rate:,.0f}", f"{physics:.0%}")
    Console().print(table)


def _measure(env: str, noise_ratio: float, threads: int) -> tuple[float, float]:
    """Return (training steps per second, share of the threads' time inside MuJoCo) of one generation."""
    options = {"n": MEMBERS, "max_episode_steps": EPISODE, "threads": threads, "eval_episodes": 1}
    setup = build(Config().change(env=env, noise_ratio=noise_ratio, **options))
    fleet, engine = Fleet.new(setup, [0]), setup.engine()
    assert isinstance(engine, BatchEngine)
    start = time.perf_counter()
    after, _ = advance(fleet, setup, engine)
    seconds = time.perf_counter() - start
    engine.close()
    return int(after.steps[0]) / seconds, engine.physics_seconds / (threads * seconds)
