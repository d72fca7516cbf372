"""Which inputs a policy uses, how strongly, and what can be unplugged."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nesht.policies.saved import Policy


@dataclass(frozen=True)
class Feature:
    """One input of a policy."""

    name: str
    index: int
    real: bool | None
    """Whether the environment itself gives it; None if nobody knows (no distractors were added)."""
    weight: float
    """Euclidean norm of the weights that read it."""
    effect: float
    """Weight times the feature's standard deviation in training: how much it moves the first layer, typically."""
    share: float
    """Its part in the sum of the squared effects of all features."""
    connections: int
    """How many weights read it."""


@dataclass(frozen=True)
class FeatureReport:
    """The inputs of a policy, strongest first."""

    used: list[Feature]
    unplug: list[str]
    """Names of the real inputs (or of all, if there are no distractors) that the policy does not read."""
    n_features: int
    n_real: int
    n_distractors: int
    precision: float | None
    """Of the features used, how many are real; None where there are no distractors, or none is used."""
    recall: float | None
    """Of the real features, how many are used."""
    real_connections: float | None
    """Of the weights that read features, the share that reads real ones."""
    noise_leak: float | None
    """The distractors' part in the squared effects: about how much of the first layer's variance is noise."""

    @property
    def sparse_within(self) -> bool:
        """Whether some features that are used are read by fewer weights than others."""
        return len({feature.connections for feature in self.used}) > 1

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def feature_report(policy: Policy) -> FeatureReport:
    """Describe the inputs of a policy."""
    weights, n_real = policy.input_weights, policy.n_real
    norm, connections = np.linalg.norm(weights, axis=0), np.count_nonzero(weights, axis=0)
    # With a normaliser the network sees features of unit variance, so their weights already are their effects.
    effect = norm if policy.normalise else norm * policy.moments.std
    total = float((effect**2).sum())
    noisy = len(policy.feature_names) > n_real
    order = [int(i) for i in np.argsort(-effect, kind="stable") if policy.used[i]]
    used = [
        Feature(
            name=policy.feature_names[i],
            index=i,
            real=i < n_real if noisy else None,
            weight=float(norm[i]),
            effect=float(effect[i]),
            share=float(effect[i] ** 2 / total) if total else 0.0,
            connections=int(connections[i]),
        )
        for i in order
    ]
    hits = sum(bool(feature.real) for feature in used)
    return FeatureReport(
        used=used,
        unplug=[name for i, name in enumerate(policy.feature_names[:n_real]) if not policy.used[i]],
        n_features=len(policy.feature_names),
        n_real=n_real,
        n_distractors=len(policy.feature_names) - n_real,
        precision=hits / len(used) if noisy and used else None,
        recall=hits / n_real if noisy else None,
        real_connections=float(connections[:n_real].sum() / connections.sum()) if noisy and used else None,
        noise_leak=float((effect[n_real:] ** 2).sum() / total) if noisy and total else None,
    )
