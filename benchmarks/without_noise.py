"""What does noise cost a trained policy? Scores as it is, and with the weights that read distractors set to zero.

    python benchmarks/without_noise.py runs/trpo runs/a2c --out results/without-noise.json

For every fleet: mean scores over its runs, how much of what moves the first layer is noise, and how many actions lie at
their bounds on observations like those of training.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

import nesht
from machine import command, describe
from nesht.config import RuntimeOptions
from nesht.experiments.statistics import mean
from nesht.policies.network import Network
from nesht.policies.saved import Policy
from nesht.report.features import feature_report
from nesht.training.evaluation import evaluate_policy
from nesht.training.folder import find_runs

SEEN = 2000
"""Observations on which actions are looked at."""


def measure(policy: Policy, episodes: int) -> dict[str, float]:
    """Return what is told of a policy."""
    network = policy.network
    assert isinstance(network, Network)
    assert network.limits is not None
    deaf = policy.parameters.copy()
    network.input_weights(deaf[None])[:, :, policy.n_real :] = 0
    scores = [
        evaluate_policy(each, episodes, runtime=RuntimeOptions("batch")).scores.mean()
        for each in (policy, replace(policy, parameters=deaf))
    ]
    normal = np.random.default_rng(0).standard_normal((SEEN, network.inputs))
    actions = policy(policy.moments.mean + policy.moments.std * normal)
    low, high = network.limits.low, network.limits.high
    at_bounds = float(((actions <= np.array(low)) | (actions >= np.array(high))).mean())
    leak = feature_report(policy).noise_leak or 0.0
    return {"score": scores[0], "without noise": scores[1], "leak": leak, "actions at bounds": at_bounds}


def main() -> None:
    """Measure and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fleets", type=Path, nargs="+")
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    found = {}
    for fleet in given.fleets:
        runs = [measure(nesht.load_policy(run), given.episodes) for run in find_runs(fleet)]
        told = {name: mean([float(run[name]) for run in runs]) for name in runs[0]}
        found[fleet.name] = {"runs": runs, **{name: [e.value, e.low, e.high] for name, e in told.items()}}
        print(
            fleet.name, {name: f"{e.value:.2f} ({e.low:.2f} to {e.high:.2f})" for name, e in told.items()}, flush=True
        )
    given.out.write_text(json.dumps({"command": command(), **describe(), "fleets": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
