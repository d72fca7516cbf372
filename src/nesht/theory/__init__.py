"""The paper's analysis that you can run: its constants and bounds, and the measurements that check them.

Start reading at `bounds`; docs/theory.md walks through all of it.
"""

from nesht.theory.bounds import Analysis, Plan
from nesht.theory.convergence import Path, distance_to_stationarity, follow, sparse
from nesht.theory.problems import Problem, Quadratic, Steps, example_1
from nesht.theory.variance import Measured, Spread, episode_spread, estimator_variance, gradients

__all__ = [
    "Analysis",
    "Measured",
    "Path",
    "Plan",
    "Problem",
    "Quadratic",
    "Spread",
    "Steps",
    "distance_to_stationarity",
    "episode_spread",
    "estimator_variance",
    "example_1",
    "follow",
    "gradients",
    "sparse",
]
