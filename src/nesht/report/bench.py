"""`nesht bench`: how fast this machine trains, on every engine that can run here."""

from __future__ import annotations

import statistics
import time

from rich.console import Console
from rich.table import Table

from nesht.config import Config
from nesht.engines import cores
from nesht.engines.batch import BatchEngine
from nesht.errors import UserError, near_matches
from nesht.tasks.locomotion import LOCOMOTION
from nesht.training.fleet import Fleet, advance
from nesht.training.setup import build

MEMBERS, EPISODE = 128, 200


def bench(env: str, noise_ratio: float, threads: int, rounds: int) -> None:
    """Train one generation of an untrained policy again and again, on one thread and on all, and print the median."""
    if env not in LOCOMOTION:
        raise UserError(f"nesht bench knows {', '.join(LOCOMOTION)}; not {env!r}.{near_matches(env, LOCOMOTION)}")
    if rounds < 1 or threads < 0:
        raise UserError(f"rounds must be at least 1 and threads 0 or more, got {rounds} and {threads}.")
    table = Table(title=f"{env}, {noise_ratio:g} noise features per real one, {MEMBERS} members", title_justify="left")
    for name in ("engine", "device", "threads", "training steps/s", "of that time, C MuJoCo"):
        table.add_column(name, justify="right")
    for engine, device, count in _places(env, threads or cores()):
        measured = [_measure(env, noise_ratio, engine, device, count) for _ in range(rounds)]
        rate = statistics.median(each[0] for each in measured)
        physics = f"{statistics.median(each[1] for each in measured):.0%}" if engine == "batch" else ""
        table.add_row(engine, device, str(count), f"{rate:,.0f}", physics)
    Console().print(table)


def _places(env: str, threads: int) -> list[tuple[str, str, int]]:
    """Return all (engine, device, threads) that can run here."""
    counts, places = sorted({1, threads}), []
    for device in ("cuda", "cpu"):
        try:
            build(Config().change(env=env, engine="fused", device=device))
        except UserError:
            continue
        places += [("fused", device, count) for count in (counts if device == "cpu" else [1])]
    return places + [("batch", "cpu", count) for count in counts]


def _measure(env: str, noise_ratio: float, engine: str, device: str, threads: int) -> tuple[float, float]:
    """Return (training steps per second, share of the threads' time inside MuJoCo) of one generation."""
    options = {"n": MEMBERS, "max_episode_steps": EPISODE, "threads": threads, "eval_episodes": 1}
    setup = build(Config().change(env=env, noise_ratio=noise_ratio, engine=engine, device=device, **options))
    fleet, made = Fleet.new(setup, [0]), setup.engine()
    if engine == "fused":
        advance(fleet, setup, made)  # loads what is compiled for the first time
    start = time.perf_counter()
    after, _ = advance(fleet, setup, made)
    seconds = time.perf_counter() - start
    made.close()
    physics = made.physics_seconds / (threads * seconds) if isinstance(made, BatchEngine) else 0.0
    return int(after.steps[0]) / seconds, physics
