"""Do runs with different seeds choose the same inputs?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nesht.policies.convolution import ConvNet
from nesht.policies.saved import Policy
from nesht.report.features import Feature, feature_report


@dataclass(frozen=True)
class Choice:
    """One input, over several runs."""

    name: str
    index: int
    real: bool | None
    """As in `Feature`."""
    runs: int
    """How many runs chose it."""
    share: float
    """The mean of its shares of the squared effects; 0 in a run that did not choose it."""


@dataclass(frozen=True)
class Stability:
    """The inputs that runs choose, the most frequent first."""

    runs: int
    choices: list[Choice]
    agreement: float | None
    """1 if all runs choose the same inputs, 0 if they agree as much as by chance; None if there is nothing to choose.

    After Nogueira, Sechidis and Brown (2018), "On the Stability of Feature Selection Algorithms", JMLR 18(174).
    """

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def stability(policies: Sequence[Policy]) -> Stability | None:
    """Count what several policies choose; None if there are not several, or if they do not have the same inputs."""
    names = [policy.feature_names for policy in policies]
    alike = all(each == names[0] for each in names) and len({policy.n_real for policy in policies}) == 1
    if len(policies) < 2 or not alike or any(isinstance(policy.network, ConvNet) for policy in policies):
        return None
    found: dict[int, list[Feature]] = {}
    for policy in policies:
        for feature in feature_report(policy).used:
            found.setdefault(feature.index, []).append(feature)
    choices = [
        Choice(each[0].name, i, each[0].real, len(each), sum(feature.share for feature in each) / len(policies))
        for i, each in found.items()
    ]
    choices.sort(key=lambda choice: (-choice.runs, -choice.share, choice.index))
    return Stability(len(policies), choices, _agreement(np.array([policy.used for policy in policies])))


def _agreement(used: np.ndarray) -> float | None:
    """Return one minus the variance of the choice of each input over that of as many inputs drawn at random."""
    by_chance = used.mean() * (1 - used.mean())
    return float(1 - used.var(axis=0, ddof=1).mean() / by_chance) if by_chance else None
