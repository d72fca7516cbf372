"""The ask/tell loop: you evaluate the members, in whatever way suits you.

Here a linear classifier is chosen by its accuracy, which has no gradient, and may read only 4 of 100 columns. All
members of all runs are scored in one array operation; two runs with different seeds train side by side.

    python examples/ask_tell.py
"""

from __future__ import annotations

import numpy as np

import nesht
from nesht.strategy import HardThreshold, Schedule, Units

ROWS, COLUMNS = 300, 100
RELEVANT = [3, 14, 15, 92]
GENERATIONS = 100


def make_data() -> tuple[np.ndarray, np.ndarray]:
    """Return a table and labels that depend on four of its columns."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((ROWS, COLUMNS))
    return table, np.sign(table[:, RELEVANT] @ np.array([1.0, -1.0, 1.0, -1.0]))


def main() -> None:
    """Ask, evaluate, tell; then say which columns were kept."""
    table, labels = make_data()
    units = Units.weights(COLUMNS)  # every weight may be cut by itself
    strategy = nesht.Strategy(
        units=units,
        n=64,
        sigma=Schedule.parse(0.1),
        lr=Schedule.parse("linear:0.05:0.01"),
        k=len(RELEVANT),
        sparsifier=HardThreshold(units, memory=0.9),
    )
    seeds = np.array([0, 1])
    state = strategy.init(np.zeros((len(seeds), COLUMNS)), seeds)  # every array has one row per run
    for generation in range(GENERATIONS):
        progress = np.full(len(seeds), generation / GENERATIONS)  # where the schedules are
        population = strategy.ask(state, progress)
        members = population.members()  # (runs, n, COLUMNS)
        fitness = (np.sign(members @ table.T) == labels).mean(axis=2)  # (runs, n), higher is better
        state, _ = strategy.tell(state, population, fitness, progress)
    for seed, weights in zip(seeds, state.theta, strict=True):
        accuracy = (np.sign(table @ weights) == labels).mean()
        print(f"seed {seed}: accuracy {accuracy:.2f}, columns kept {np.flatnonzero(weights).tolist()}")


if __name__ == "__main__":
    main()
