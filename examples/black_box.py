"""Maximise a black-box function over sparse vectors: find the 5 knobs that matter among 505.

Five knobs have a best position. The other 500 only do harm: wherever they stand away from zero they shake the
measurement, so a search that turns all of them drowns in noise of its own making. `nesht.maximize` keeps all but five
at exactly zero.

    python examples/black_box.py
"""

from __future__ import annotations

import numpy as np

import nesht

RELEVANT = {40: 1.0, 123: -1.0, 200: 0.8, 311: -0.8, 499: 1.2}
"""The knobs that matter, and their best positions."""
IRRELEVANT = 500
SHAKE = 0.1
"""How much each of the others disturbs a measurement."""


class Machine:
    """Something that can only be tried out, never looked into."""

    def __init__(self, seed: int = 0):
        self._rng = np.random.default_rng(seed)
        self._where, self._best = list(RELEVANT), np.array(list(RELEVANT.values()))

    def measure(self, x: np.ndarray) -> float:
        """Try one setting; 0 is the best there is, on average."""
        loss = np.sum((x[self._where] - self._best) ** 2)
        others = np.delete(x, self._where)
        return float(-loss + SHAKE * self._rng.standard_normal(others.size) @ others)


def main() -> None:
    """Search with five knobs, and say which ones were found."""
    start = np.zeros(len(RELEVANT) + IRRELEVANT)
    # Small steps and a long memory: with 505 knobs and noise, evidence needs time to add up.
    result = nesht.maximize(
        Machine().measure, start, k=len(RELEVANT), memory=0.98, lr="cosine:0.03:0.003", generations=300
    )
    print(f"{result.nfev} measurements, f(x) = {result.fun:.3f}")
    print(f"knobs found:    {[int(i) for i in result.support]}")
    print(f"knobs relevant: {sorted(RELEVANT)}")
    for i, best in RELEVANT.items():
        print(f"  x[{i}] = {result.x[i]:+.2f} (best {best:+.2f})")


if __name__ == "__main__":
    main()
