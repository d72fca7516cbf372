"""A policy on its own: weights, normaliser, task and feature names in one file; needs no training code."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nesht.errors import UserError
from nesht.policies.convolution import ConvNet
from nesht.policies.limits import Limits
from nesht.policies.moments import Moments, Normaliser
from nesht.policies.network import Network
from nesht.policies.shape import Shape
from nesht.storage import DamagedFileError, pack_arrays, read_arrays, write_file

FILE = "policy.safetensors"


@dataclass(frozen=True)
class Policy:
    """A trained policy: call it with an observation (or a batch of them) to get an action (or a batch)."""

    network: Shape
    """The shape of the policy."""
    parameters: np.ndarray
    """Its flat parameter vector, (d,)."""
    moments: Moments
    """Count, mean and variance of every feature seen in training."""
    normalise: bool
    """Whether features are normalised by these moments before the network sees them."""
    feature_names: list[str]
    """The name of every input."""
    task: dict[str, Any]
    """The task it was trained on, as in the config, and `n_real`, how many of the first features are no distractors."""

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """Return the action for an observation, or the actions for a batch of them.

        An observation is (features,), or (frames, height, width) bytes of a screen.
        """
        if isinstance(self.network, ConvNet):
            return self._on_screens(self.network, np.asarray(observation))
        features = np.asarray(observation, dtype=np.float64, order="C")  # the order of a sum is part of its bits
        if features.ndim not in (1, 2) or features.shape[-1] != self.network.inputs:
            raise ValueError(f"this policy takes {self.network.inputs} features, got the shape {features.shape}")
        rows = np.atleast_2d(features)
        if self.normalise:
            rows = Normaliser.of(self.moments)(rows)
        actions = self.network.act(np.broadcast_to(self.parameters, (len(rows), self.network.size)), rows)
        return actions if features.ndim == 2 else np.asarray(actions[0])

    def _on_screens(self, network: ConvNet, screens: np.ndarray) -> np.ndarray:
        shape = (network.frames, network.height, network.width)
        if screens.ndim not in (3, 4) or screens.shape[-3:] != shape or screens.dtype != np.uint8:
            raise ValueError(f"this policy takes screens of bytes, {shape}, got {screens.dtype} {screens.shape}")
        weights = network.weights(self.parameters[None])
        batch = screens if screens.ndim == 4 else screens[None]
        actions = np.concatenate([network.act(weights, screen[None]) for screen in batch])
        return actions if screens.ndim == 4 else np.asarray(actions[0])

    @property
    def n_real(self) -> int:
        """How many of the first features come from the environment itself."""
        return int(self.task["n_real"])

    @property
    def input_weights(self) -> np.ndarray:
        """The weights that read the features, (units of the first layer, features)."""
        return self.network.input_weights(self.parameters[None])[0]

    @property
    def used(self) -> np.ndarray:
        """Which features the policy uses at all: those with a nonzero weight, (features,)."""
        return np.asarray((self.input_weights != 0).any(axis=0))

    def save(self, path: Path) -> None:
        """Write the policy to a file, all or nothing."""
        arrays = {
            "parameters": self.parameters,
            "feature_count": self.moments.count,
            "feature_mean": self.moments.mean,
            "feature_m2": self.moments.m2,
        }
        facts = {
            **_shape_facts(self.network),
            "normalise": self.normalise,
            "feature_names": self.feature_names,
            "task": self.task,
        }
        write_file(path, pack_arrays("policy", arrays, facts))


def _shape_facts(network: Shape) -> dict[str, Any]:
    if isinstance(network, ConvNet):
        return {"screen": [network.height, network.width], "frames": network.frames, "outputs": network.outputs}
    facts = {
        "inputs": network.inputs,
        "outputs": network.outputs,
        "hidden": list(network.hidden),
        "bias": network.bias,
        "discrete": network.discrete,
    }
    if network.relu:
        facts["relu"] = True
    return facts if network.limits is None else {**facts, "limits": asdict(network.limits)}


def _shape(facts: dict[str, Any]) -> Shape:
    if "screen" in facts:
        height, width = facts["screen"]
        return ConvNet(height, width, facts["frames"], facts["outputs"])
    limits = None
    if "limits" in facts:
        low, high = (tuple(float(bound) for bound in facts["limits"][side]) for side in ("low", "high"))
        if not len(low) == len(high) == facts["outputs"]:
            raise ValueError(f"it has {facts['outputs']} outputs, and limits for {len(low)} and {len(high)}")
        limits = Limits(low, high, facts["limits"]["bend"])
    plain = facts["inputs"], facts["outputs"], tuple(facts["hidden"]), facts["bias"], facts["discrete"]
    return Network(*plain, facts.get("relu", False), limits)


def load_policy(path: str | Path) -> Policy:
    """Load a policy from its file or from the run folder that holds it.

    Examples:
        >>> policy = nesht.load_policy("runs/hopper")
        >>> action = policy(observation)
    """
    path = Path(path)
    file = path / FILE if path.is_dir() else path
    if not file.exists():
        runs = sorted(each.parent.name for each in path.glob(f"*/{FILE}"))
        hint = f" There is one in each of {', '.join(runs)} there." if runs else ""
        raise UserError(f"there is no policy at {file}.{hint}")
    arrays, facts = read_arrays("policy", file)
    try:
        policy = _policy(arrays, facts)
    except (KeyError, TypeError, ValueError) as error:
        lacks = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise DamagedFileError(f"{file} is not a whole nesht policy: {lacks}.") from error
    return policy


def _policy(arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> Policy:
    """Put a policy together from what its file holds; raises if a part is missing or does not fit the others."""
    network = _shape(facts)
    moments = Moments(arrays["feature_count"], arrays["feature_mean"], arrays["feature_m2"])
    names, parameters = facts["feature_names"], arrays["parameters"]
    if parameters.shape != (network.size,):
        blocks = ", ".join(f"{block.name} {' x '.join(map(str, block.shape))}" for block in network.blocks)
        raise ValueError(f"its parameters have the shape {parameters.shape}, but {blocks} need {network.size} numbers")
    if len(names) != network.inputs:
        raise ValueError(f"it names {len(names)} inputs but has {network.inputs}")
    for name, expected in (("feature_count", ()), ("feature_mean", (len(names),)), ("feature_m2", (len(names),))):
        if arrays[name].shape != expected:
            raise ValueError(f"its {name} has the shape {arrays[name].shape}, not {expected}")
    if not 0 <= facts["task"]["n_real"] <= len(names):
        raise ValueError(f"it has {len(names)} inputs and calls {facts['task']['n_real']} of them real")
    return Policy(network, parameters, moments, facts["normalise"], names, facts["task"])
