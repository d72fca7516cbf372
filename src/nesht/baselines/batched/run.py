"""Runs that differ in their seeds alone, trained together; each gets the same folder as if it were trained alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nesht.baselines.batched import why_not
from nesht.baselines.batched.evaluation import Evaluation
from nesht.baselines.batched.exchange import pack_policy
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.training import Training
from nesht.baselines.run import MODEL, BaselineConfig, Diary, Report
from nesht.engines.fused.device import check_device
from nesht.errors import UserError
from nesht.storage import write_file
from nesht.tasks.task import make_task


def train_batched(
    configs: Sequence[BaselineConfig], outs: Sequence[Path], report: Report | None = None, graphs: bool = True
) -> list[dict[str, Any]]:
    """Train all runs and write their folders; returns the summaries.

    What is written is what `train_baseline` writes, but that `model.zip` holds the networks alone: read it with
    `set_parameters(..., exact_match=False)` of a model of stable-baselines3. Interrupted runs begin again: what they
    have lived through takes gigabytes.

    Args:
        configs: of the runs; they may differ in their seeds alone.
        outs: their folders.
        report: called with (steps of every run, mean score) after every evaluation.
        graphs: on CUDA, play steps from graphs, which is much faster.
    """
    first = configs[0]
    _check(configs)
    task, place = make_task(first.task), Place(check_device(first.device), graphs)
    diaries = [Diary(config, out) for config, out in zip(configs, outs, strict=True)]
    with place.work():
        training = Training(first.algorithm, first.settings, task, [config.seed for config in configs], place)
        evaluation = Evaluation(task, training.learner, training.eyes, first.eval_episodes, place)

        def evaluate(step: int) -> None:
            scores = evaluation.scores([config.evaluation_seeds(step) for config in configs])
            for diary, score in zip(diaries, scores, strict=True):
                diary.add(step, float(score))
            if report is not None:
                report(step, float(scores.mean()))

        due = 0
        for step in range(1, first.steps + 1):
            if step >= due:  # before the update of this step, as with stable-baselines3
                evaluate(step)
                due += first.evaluate_every
            training.step()
        if due - first.evaluate_every != first.steps:
            evaluate(first.steps)
        diverged = training.diverged.tolist()
        for run, out in enumerate(outs):
            write_file(out / MODEL, pack_policy(training.learner, run))
        training.close()
        evaluation.close()
    return [diary.finish(first.steps, training.updates, each) for diary, each in zip(diaries, diverged, strict=True)]


def _check(configs: Sequence[BaselineConfig]) -> None:
    """Raise UserError unless the runs can be trained together."""
    for config in configs:
        config.check()
        if (reason := why_not(config)) is not None:
            raise UserError(f"runs cannot be trained together: {reason}.")
        if config.identity() != configs[0].identity():
            raise UserError("runs that are trained together may differ in their seeds alone.")
    if len({config.seed for config in configs}) < len(configs):
        raise UserError("runs that are trained together must have different seeds.")
