"""The mathematics of the method: pure functions of arrays, no environment, no files. Start reading at `nes`."""

from nesht.strategy.blackbox import MaximizeResult, maximize
from nesht.strategy.nes import State, Strategy, Told
from nesht.strategy.optimisers import OPTIMISERS, SGD, Adam
from nesht.strategy.perturb import Population
from nesht.strategy.schedules import Schedule
from nesht.strategy.shaping import SHAPINGS
from nesht.strategy.sparsify import (
    HardThreshold,
    L1Penalty,
    NoSparsity,
    Once,
    SoftThreshold,
    hard_threshold,
)
from nesht.strategy.units import Units

__all__ = [
    "OPTIMISERS",
    "SGD",
    "SHAPINGS",
    "Adam",
    "HardThreshold",
    "L1Penalty",
    "MaximizeResult",
    "NoSparsity",
    "Once",
    "Population",
    "Schedule",
    "SoftThreshold",
    "State",
    "Strategy",
    "Told",
    "Units",
    "hard_threshold",
    "maximize",
]
