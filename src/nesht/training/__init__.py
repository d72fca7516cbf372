"""Training: the loop, its state, records, checkpoints and progress."""

from nesht.training.api import resume, train, train_fleet
from nesht.training.loop import RunResult

__all__ = ["RunResult", "resume", "train", "train_fleet"]
