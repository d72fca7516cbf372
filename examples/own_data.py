"""No environment at all: which of 150 columns of a table does a short scorecard need?

A scorecard adds up a few columns of a table, each with a weight, and ranks people by the sum. It is judged by the area
under the ROC curve, which has no gradient. `nesht.maximize` finds the columns and the weights together. How many
columns to use is decided on rows that the search has not seen.

    python examples/own_data.py            # makes a table to try it on, people.csv
    python examples/own_data.py mine.csv   # a table of yours: numbers, the last column 0 or 1
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import nesht

RELEVANT = {12: 1.0, 47: -0.8, 88: 0.7, 131: 0.6}
"""The columns that matter in the table that is made, and how much."""
SIZES = (1, 2, 4, 8, 16)
"""Lengths of a scorecard to try."""
SEEDS = (0, 1, 2)


def make_table(path: Path, people: int = 800, columns: int = 150) -> None:
    """Write a table whose last column depends on four of the others, and on luck."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((people, columns))
    tendency = table[:, list(RELEVANT)] @ np.array(list(RELEVANT.values()))
    outcome = tendency + 0.5 * rng.standard_normal(people) > 0
    np.savetxt(path, np.column_stack([table, outcome]), delimiter=",", fmt="%.4f")


def auc(scores: np.ndarray, outcome: np.ndarray) -> float:
    """Return how often someone with the outcome is ranked above someone without it."""
    order = np.argsort(scores)
    rank = np.empty(len(scores))
    rank[order] = np.arange(len(scores))
    ones = int(outcome.sum())
    return float((rank[outcome].sum() - ones * (ones - 1) / 2) / (ones * (len(scores) - ones)))


def scorecard(table: np.ndarray, outcome: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Return weights for the columns, at most k of them nonzero."""

    def judged(weights: np.ndarray) -> float:
        return auc(table @ weights, outcome)

    return nesht.maximize(judged, np.zeros(table.shape[1]), k=k, memory=0.9, generations=100, seed=seed).x


def main(path: Path) -> None:
    """Try scorecards of several lengths, and show the shortest that is as good as any."""
    if not path.exists():
        make_table(path)
    data = np.loadtxt(path, delimiter=",")
    table, outcome = data[:, :-1], data[:, -1] > 0.5
    table = (table - table.mean(axis=0)) / (table.std(axis=0) + 1e-12)  # so that weights can be compared
    seen = np.arange(len(table)) % 2 == 0  # every second row is for the search
    held_out: dict[int, float] = {}
    for k in SIZES:
        cards = [scorecard(table[seen], outcome[seen], k, seed) for seed in SEEDS]
        held_out[k] = float(np.mean([auc(table[~seen] @ card, outcome[~seen]) for card in cards]))
        same = set.intersection(*(set(np.flatnonzero(card).tolist()) for card in cards))
        print(f"{k:3} columns: held-out AUC {held_out[k]:.3f}; {len(same)} of them chosen by every seed")
    best = next(k for k in SIZES if held_out[k] >= max(held_out.values()) - 0.005)
    card = scorecard(table, outcome, best, seed=0)
    print(f"a scorecard of {best} columns:")
    for column in np.flatnonzero(card):
        print(f"  column {column}: {card[column]:+.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "people.csv"))
