"""How lucky an episode of noisy Hopper is: the paper's constant C for dense and sparse policies, by rollouts.

Two designs. *Grafted*: the same policies, trained without noise, get weights on noise inputs, so that nothing differs
but these weights. *Trained*: every method trains its own policies on the noisy task.

Each policy is looked at in two places: the policy itself, where the paper speaks of C, and the perturbed members around
it, which are all that the gradient estimate ever sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nesht.config import Config, RuntimeOptions, TaskOptions
from nesht.experiments.methods import METHODS
from nesht.policies.network import Network
from nesht.tasks.task import make_task
from nesht.theory import Analysis, episode_spread, estimator_variance, gradients
from nesht.theory.rollouts import TaskReturns
from nesht.training.api import train_many

Row = dict[str, Any]
SIGMA, ROLLOUTS, FIRST_SEED = 0.02, 4, 1000
TRAINER: dict[str, Any] = {"env": "Hopper-v4", "n": 128, "sigma": SIGMA, "lr": 0.0016}
NARROW = 0.25
"""How far weights that are zero are perturbed, as a share of sigma, where that is tried."""


def luck_on_hopper(
    steps: int, policies: int, trained: int, ratios: Sequence[int], members: int, runtime: RuntimeOptions
) -> Iterator[Row]:
    """Yield the mean and the variance of an episode's return around every policy."""
    cores = _train("NES", 0, steps, policies, runtime)
    for ratio in ratios:
        with _returns(ratio, runtime) as returns:
            for seed, core in enumerate(cores):
                for kind, theta in _grafted(core, ratio, seed).items():
                    labels = {"design": "grafted", "theta": kind, "noise": ratio, "seed": seed}
                    yield from _look(returns, theta, labels, members)
    for ratio in (ratio for ratio in ratios if ratio >= 5):
        for method in ("NES", "NESHT", "ours"):
            found = _train(method, ratio, steps, trained, runtime)
            with _returns(ratio, runtime) as returns:
                for seed, theta in enumerate(found):
                    labels = {"design": "trained", "theta": method, "noise": ratio, "seed": seed}
                    yield from _look(returns, theta, labels, members)


def variance_on_hopper(steps: int, repeats: int, runtime: RuntimeOptions) -> Iterator[Row]:
    """Yield the measured variance of the gradient estimate on Hopper x10 beside the bounds with measured B and C."""
    ratio, n = 10, 32
    (core,) = _train("NES", 0, steps, 1, runtime)
    theta = _grafted(core, ratio, 0)["sparse"]
    with _returns(ratio, runtime) as returns:
        spread = episode_spread(returns, theta, SIGMA, 8 * repeats, ROLLOUTS, source=returns.source)
        for rollouts in (1, 4):
            estimates = gradients(returns, theta, SIGMA, n, rollouts, repeats, source=returns.source)
            found = estimator_variance(estimates)
            paper, corrected = (
                Analysis(len(theta), spread.bound, spread.variance.value, SIGMA, corrected=each)
                for each in (False, True)
            )
            yield {
                "problem": "Hopper x10",
                "varied": "rollouts",
                **{"n": n, "rollouts": rollouts, "sigma": SIGMA, "d": len(theta)},
                "measured": round(found.value),
                "error": round(found.error),
                "corrected": round(corrected.variance_bound(n, rollouts)),
                "paper": round(paper.variance_bound(n, rollouts)),
            }


def _look(returns: TaskReturns, theta: np.ndarray, labels: Row, members: int) -> Iterator[Row]:
    """Yield what is measured at a policy, at its members, and at members whose zero weights are perturbed less."""
    seed = 10_000 + labels["seed"]
    for place, sigma, explore in (("policy", 0.0, 1.0), ("members", SIGMA, 1.0), ("narrow members", SIGMA, NARROW)):
        if explore < 1 and theta.all():
            continue  # there is no zero: the same members again
        found = episode_spread(returns, theta, sigma, members, ROLLOUTS, seed, returns.source, explore)
        numbers = {"mean": found.mean, "variance": found.variance.value, "error": found.variance.error}
        numbers |= {"signal": found.signal, "bound": found.bound}
        yield {**labels, "at": place, **{name: round(number, 2) for name, number in numbers.items()}}


def _grafted(core: np.ndarray, ratio: int, seed: int) -> dict[str, np.ndarray]:
    """Return a clean policy with weights on noise inputs: none, as large as a perturbation, as large as its own."""
    task = make_task(TaskOptions("Hopper-v4", float(ratio)))
    real, actions = task.n_real, task.outputs
    weights, bias = core[:-actions].reshape(actions, real), core[-actions:]
    extra = np.random.default_rng([ratio, seed]).standard_normal((actions, len(task.feature_names) - real))
    sizes = {"dense, strong": float(np.sqrt((weights**2).mean())), "dense, weak": SIGMA, "sparse": 0.0}
    return {
        kind: np.concatenate([np.concatenate([weights, size * extra], axis=1).ravel(), bias])
        for kind, size in sizes.items()
    }


def _train(method: str, ratio: int, steps: int, seeds: int, runtime: RuntimeOptions) -> list[np.ndarray]:
    """Return the parameters that a method ends with, for several seeds."""
    where = {"engine": runtime.engine, "device": runtime.device, "threads": runtime.threads}
    config = Config().change(**{**TRAINER, **METHODS[method], **where, "noise_ratio": float(ratio), "steps": steps})
    seeded = [config.change(seed=FIRST_SEED + seed) for seed in range(seeds)]
    return [result.policy.parameters for result in train_many(seeded, progress=False)]


def _returns(ratio: int, runtime: RuntimeOptions) -> TaskReturns:
    task = make_task(TaskOptions("Hopper-v4", float(ratio)))
    return TaskReturns(task, Network(len(task.feature_names), task.outputs), runtime)
