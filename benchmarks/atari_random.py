"""What random play scores, on the screens and with the rules of our games: what learning has to beat.

    python benchmarks/atari_random.py --out results/atari-random.json

Every game begins as a training episode may: after up to 30 frames of doing nothing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from machine import command, describe
from nesht.config import TaskOptions
from nesht.experiments.statistics import mean
from nesht.tasks.task import make_task


def play(name: str, episodes: int) -> list[float]:
    """Return the scores of some episodes."""
    task = make_task(TaskOptions(f"ALE/{name}-v5"))
    assert task.game is not None
    env, rng, scores = task.game.make(1, 1, None), np.random.default_rng(0), []
    for _ in range(episodes):
        env.reset()
        waits, score, over, step = int(rng.integers(task.game.waits + 1)), 0.0, False, 0
        while not over:
            action = 0 if step < waits else int(rng.integers(task.outputs))
            _, reward, ended, cut, _ = env.step(np.array([action]))
            score, over, step = score + float(reward[0]), bool(ended[0] or cut[0]), step + 1
        scores.append(score)
    env.close()
    return scores


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", default="Freeway,Qbert,Atlantis,BattleZone,NameThisGame")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    result: dict[str, Any] = {"command": command(), **describe(), "episodes": options.episodes}
    for name in options.games.split(","):
        found = mean(play(name, options.episodes))
        result[name] = {"mean": found.value, "low": found.low, "high": found.high}
        print(name, json.dumps(result[name]), flush=True)
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
