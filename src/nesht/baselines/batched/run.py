"""Runs that differ in their seeds alone, trained together; each gets the same folder as if it were trained alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import torch

from nesht.baselines.batched import OFF_POLICY, why_not
from nesht.baselines.batched.evaluation import Evaluation
from nesht.baselines.batched.exchange import is_finite, pack_policy, views
from nesht.baselines.batched.onpolicy import OnPolicyTraining
from nesht.baselines.batched.place import Place, products_for
from nesht.baselines.batched.training import Training
from nesht.baselines.policy import write_policy
from nesht.baselines.run import BaselineConfig, Diary, Report
from nesht.engines.fused.library import check_device
from nesht.errors import UserError
from nesht.storage import write_file
from nesht.tasks.task import make_task
from nesht.training.folder import MODEL

CHUNK = 20
"""Steps of a set of runs before another one gets its turn."""


def train_batched(
    configs: Sequence[BaselineConfig], outs: Sequence[Path], report: Report | None = None, graphs: bool = True
) -> list[dict[str, Any]]:
    """Train all runs and write their folders; returns the summaries. See `RunSet`."""
    runs = RunSet(configs, outs, report, graphs)
    while runs.advance():
        pass
    return runs.summaries


class RunSet:
    """Runs that are trained together, some steps at a time, so that several sets can share a GPU.

    What is written is what `train_baseline` writes, but that `model.zip` holds the networks alone: read it with
    `set_parameters(..., exact_match=False)` of a model of stable-baselines3. Interrupted runs begin again: what they
    have lived through takes gigabytes.

    Args:
        configs: of the runs; they may differ in their seeds alone.
        outs: their folders.
        report: called with (steps of every run, mean score) after every evaluation.
        graphs: on CUDA, play steps from graphs instead of launching them kernel by kernel.
    """

    def __init__(
        self,
        configs: Sequence[BaselineConfig],
        outs: Sequence[Path],
        report: Report | None = None,
        graphs: bool = True,
    ):
        _check(configs)
        device = check_device(configs[0].device)
        self._configs, self._outs, self._report = [_at(config, device) for config in configs], outs, report
        if device == "cpu":
            torch.set_num_threads(1)
        first, self._task = configs[0], make_task(configs[0].task)
        self._place = Place(device, graphs, products_for(first.algorithm, first.settings, self._task, device))
        self._life = self._live()
        self.summaries: list[dict[str, Any]] = []
        """Of the runs, once they are finished."""

    def advance(self) -> bool:
        """Train on for a while; returns whether there is more to do."""
        try:
            with self._place.work():
                for _ in self._life:
                    return True
        except torch.cuda.OutOfMemoryError:
            words = f"the GPU has no room for these {len(self._configs)} runs"
            raise UserError(f"{words}; train fewer at a time, or with a smaller buffer_size.") from None
        return False

    def _live(self) -> Iterator[None]:
        """Write down in all folders how training goes."""
        with ExitStack() as stack:
            pairs = zip(self._configs, self._outs, strict=True)
            yield from self._train([stack.enter_context(closing(Diary(config, out))) for config, out in pairs])

    def _train(self, diaries: list[Diary]) -> Iterator[None]:
        """Train, evaluate along the way, and write the folders."""
        first, seeds, task = self._configs[0], [config.seed for config in self._configs], self._task
        training: Training | OnPolicyTraining
        if first.algorithm in OFF_POLICY:
            training = Training(first.algorithm, first.settings, task, seeds, self._place)
        else:
            training = OnPolicyTraining(first.algorithm, first.settings, task, seeds, self._place)
        steps = training.whole(first.steps)
        evaluation = Evaluation(task, training.learner, training.eyes, first.eval_episodes, self._place)
        due, last = 0, 0
        for step in range(1, steps + 1):
            if step >= due:  # before the update of this step, as with stable-baselines3
                yield from self._evaluate(evaluation, diaries, step)
                due, last = due + first.evaluate_every, step
            training.step()
            if step % CHUNK == 0:
                yield
        if last < steps:
            yield from self._evaluate(evaluation, diaries, steps)
        diverged = training.diverged.tolist()
        broken = [
            run
            for run, diary in enumerate(diaries)
            if not (is_finite(training.learner, run) and math.isfinite(diary.score))
        ]
        for run, (config, out) in enumerate(zip(self._configs, self._outs, strict=True)):
            if run in broken:
                continue
            write_file(out / MODEL, pack_policy(training.learner, run))
            numbers = {name: view.cpu().numpy() for name, view in views(training.learner, run)}
            write_policy(config, task, training.env.single_action_space, numbers, training.seen(run), out)
        training.close()
        evaluation.close()
        for run, (diary, each) in enumerate(zip(diaries, diverged, strict=True)):
            if run not in broken:
                self.summaries.append(diary.finish(steps, training.updates, each))
        if broken:
            which = ", ".join(str(seeds[run]) for run in broken)
            raise UserError(
                f"{len(broken)} of {len(seeds)} runs failed: numbers of seed {which} are not finite any more; "
                "a smaller learning_rate may help."
            )

    def _evaluate(self, evaluation: Evaluation, diaries: list[Diary], step: int) -> Iterator[None]:
        scores = yield from evaluation.scores([config.evaluation_seeds(step) for config in self._configs])
        for diary, score in zip(diaries, scores, strict=True):
            diary.add(step, float(score))
        if self._report is not None:
            self._report(step, float(scores.mean()))


def _at(config: BaselineConfig, device: str) -> BaselineConfig:
    return config.change(engine="fused", device=device)


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
