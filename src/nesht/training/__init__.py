"""Training: the loop, its state, records, checkpoints and progress."""

from nesht.training.loop import RunResult, resume, train, train_fleet

__all__ = ["RunResult", "resume", "train", "train_fleet"]
