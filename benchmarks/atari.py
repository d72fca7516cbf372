"""Steps per second of the atari engine beside emulation alone and the published code's way of working, in one run.

    python benchmarks/atari.py --out results/atari-speed.json
    python benchmarks/atari.py --device cuda --members 512 --no-published --out results/atari-speed-cuda.json

Emulation alone is ALE's vector environment with random actions on as many threads: one limit; the networks alone, on
screens that do not change, are the other. The published code gives
every episode a new environment and a copy of a torch module, and spreads episodes over processes with joblib; here that
is written anew, on the same screens and frame skip, and once more with its own (84 x 84, no skip), counted in frames of
the game. All are measured in turns; the ratios are of their medians.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import nn

from machine import command, describe
from nesht.config import TaskOptions
from nesht.engines import Episodes, cores
from nesht.engines.atari.engine import GAMES, ON_GPU, AtariEngine
from nesht.engines.atari.screens import make_networks
from nesht.strategy import Population
from nesht.tasks.task import Task, make_task


def emulation(task: Task, threads: int, seconds: float) -> float:
    """Return the steps per second of random play, with as many games as the engine plays."""
    assert task.game is not None
    games = 8 * threads
    env = task.game.make(games, threads, None)
    env.reset()
    rng, steps, began = np.random.default_rng(0), 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        env.step(rng.integers(task.outputs, size=games))
        steps += games
    rate = steps / (time.perf_counter() - began)
    env.close()
    return rate


def networks(task: Task, threads: int, device: str, seconds: float) -> float:
    """Return the steps per second of the networks of as many games, on as many threads as the engine has for them."""
    policy, games = task.screen_policy(), GAMES if device == "cpu" else ON_GPU
    screens = np.zeros((games, policy.frames, policy.height, policy.width), np.uint8)
    active, workers = np.arange(games), threads if device == "cpu" else 2

    def look(_: int) -> float:
        nets = make_networks(policy, games, device)
        nets.act(screens, active)
        steps, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            nets.act(screens, active)
            steps += games
        return steps / (time.perf_counter() - began)

    with threadpool_limits(1, "blas"), ThreadPoolExecutor(workers) as pool:
        return sum(pool.map(look, range(workers)))


def population(task: Task, members: int) -> Episodes:
    """Return one generation."""
    net, number = task.screen_policy(), np.arange(members)
    one = np.zeros(1, np.int64)
    people = Population(net.initial(0)[None], np.array([0.02]), one, one, members, True)
    return Episodes(people, None, 0 * number, number, number, 0 * number)


def ours(engine: AtariEngine, episodes: Episodes) -> float:
    """Return the steps per second of a generation."""
    began = time.perf_counter()
    return float(engine.run(episodes).steps.sum() / (time.perf_counter() - began))


def module(task: Task) -> nn.Module:
    """Return the network as people write it in torch."""
    net = task.screen_policy()
    return nn.Sequential(
        nn.Conv2d(net.frames, 16, 8, 4),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(net.inputs, net.outputs),
    )


def rollout(task: Task, policy: nn.Module) -> int:
    """Play one episode in an environment of its own; returns its steps."""
    torch.set_num_threads(1)
    member = copy.deepcopy(policy)
    with torch.no_grad():
        for weights in member.parameters():
            weights.add_(0.02 * torch.randn_like(weights))
        env = task.make()
        screen, _ = env.reset()
        steps, done = 0, False
        while not done:
            action = int(member(torch.as_tensor(np.array(screen), dtype=torch.float32)[None] / 255).argmax())
            screen, _, terminated, truncated, _ = env.step(action)
            steps, done = steps + 1, terminated or truncated
    env.close()
    return steps


def published(task: Task, policy: nn.Module, threads: int, members: int) -> float:
    """Return the steps per second of a generation the published way."""
    from joblib import Parallel, delayed

    began = time.perf_counter()
    steps = Parallel(threads)(delayed(rollout)(task, policy) for _ in range(members))
    return float(sum(steps) / (time.perf_counter() - began))


def measure(game: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one game."""
    threads, device, members, limit = options.threads, options.device, options.members, options.limit
    task = make_task(TaskOptions(f"ALE/{game}-v5", max_episode_steps=limit))
    engine, episodes = AtariEngine(task, task.screen_policy(), threads, device), population(task, members)
    theirs = make_task(TaskOptions(f"ALE/{game}-v5", max_episode_steps=limit, screen=(84, 84), frame_skip=1))
    policy, small = module(task), module(theirs)
    engine.run(episodes)
    ways: dict[str, Callable[[], float]] = {
        "emulation alone": lambda: emulation(task, threads, 4.0),
        "networks alone": lambda: networks(task, threads, device, 4.0),
        "engine": lambda: ours(engine, episodes),
    }
    if options.published:
        published(task, policy, threads, threads)  # the processes are up and warm
        ways["published way"] = lambda: published(task, policy, threads, members // 4)
        ways["published settings"] = lambda: published(theirs, small, threads, members // 4)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            found[name].append(way())
    engine.close()
    rates = {name: median(rates) for name, rates in found.items()}
    ratios = {"engine / emulation alone": round(rates["engine"] / rates["emulation alone"], 3)}
    if options.published:
        ratios["engine / published way"] = round(rates["engine"] / rates["published way"], 2)
        in_frames = 4 * rates["engine"] / rates["published settings"]
        ratios["the same in frames, with its settings"] = round(in_frames, 2)
    return {"steps/s": {name: round(rate) for name, rate in rates.items()}, **ratios}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", default="Qbert,BattleZone")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--members", type=int, default=64)
    parser.add_argument("--limit", type=int, default=300, help="steps after which an episode ends")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--published", action=argparse.BooleanOptionalAction, default=True, help="measure it too")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = {game: measure(game, options) for game in options.games.split(",")}
    result = {"command": command(), **describe(), "threads": options.threads, "device": options.device, **found}
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
