"""What a controller needs of a policy: the inputs it reads, and layers that take them as the sensors give them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nesht import __version__
from nesht.errors import UserError
from nesht.policies.convolution import STRIDES, ConvNet
from nesht.policies.limits import Limits
from nesht.policies.moments import Normaliser
from nesht.policies.network import Network
from nesht.policies.saved import Policy

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Layer:
    """Weights and bias, shaped as in torch; with a stride it is a convolution."""

    weight: np.ndarray
    bias: np.ndarray
    stride: int = 0


@dataclass(frozen=True)
class Controller:
    """A policy without the inputs that it does not read, its normaliser folded into the first layer.

    Between two layers stands tanh, or the larger of 0 and the number. The action is what the last layer gives, kept
    between limits if there are some, or with discrete actions the index of its largest output.
    """

    env: str
    """What it was trained on."""
    names: list[str]
    """The inputs to read, in order; none if the input is a screen."""
    indices: np.ndarray
    """Where each of them is among all features of the task."""
    features: int
    """How many features the task has."""
    screen: tuple[int, int, int] | None
    """(frames, height, width) of the bytes to read, if the input is a screen."""
    layers: list[Layer]
    discrete: bool
    relu: bool
    """Whether the larger of 0 and the number stands between layers, instead of tanh."""
    limits: Limits | None

    @property
    def outputs(self) -> int:
        """How many numbers the last layer gives."""
        return len(self.layers[-1].bias)

    def facts(self) -> str:
        """Return as JSON what cannot be seen in the weights; every format carries it."""
        inputs = [{"name": name, "index": int(i)} for name, i in zip(self.names, self.indices, strict=True)]
        about: dict[str, Any] = {"env": self.env, "features": self.features, "inputs": inputs}
        if self.screen is not None:
            about["screen"] = list(self.screen)
        about["between_layers"] = "relu" if self.relu else "tanh"
        if self.limits is not None:
            about["limits"] = asdict(self.limits)
        return json.dumps({**about, "outputs": self.outputs, "discrete": self.discrete, "nesht": __version__})

    def forward(self, inputs: np.ndarray) -> np.ndarray:
        """Return the outputs for (rows, inputs), in their precision: what a program with these numbers computes."""
        x = inputs
        for number, layer in enumerate(self.layers):
            if number:
                x = np.maximum(x, 0) if self.relu else np.tanh(x)
            x = x @ layer.weight.astype(x.dtype).T + layer.bias.astype(x.dtype)
        return x if self.limits is None else self.limits(x)


def controller_of(policy: Policy) -> Controller:
    """Return what a controller needs of a policy."""
    if not np.isfinite(policy.parameters).all():
        raise UserError("this policy has weights that are not finite; it cannot be exported.")
    network = policy.network
    made = _on_screens(policy, network) if isinstance(network, ConvNet) else _on_features(policy, network)
    if max(np.abs(part).max() for layer in made.layers for part in (layer.weight, layer.bias)) > LARGEST:
        raise UserError("this policy has weights that are too large for single precision; it cannot be exported.")
    return made


def _on_features(policy: Policy, network: Network) -> Controller:
    read = np.flatnonzero(policy.used)
    if not len(read):
        raise UserError("this policy reads no input at all: its action never changes, and there is nothing to export.")
    layers = []
    for block in network.blocks:
        values = block.of(policy.parameters[None])[0]
        if len(block.shape) == 2:
            layers.append(Layer(values, np.zeros(len(values))))
        else:
            layers[-1] = Layer(layers[-1].weight, values)
    first = Layer(layers[0].weight[:, read], layers[0].bias)
    if policy.normalise:
        normaliser = Normaliser.of(policy.moments)
        weight = first.weight * normaliser.scale[read]
        first = Layer(weight, first.bias - weight @ normaliser.mean[read])
    names = [policy.feature_names[i] for i in read]
    env = str(policy.task["env"])
    layers[0] = first
    rest = network.discrete, network.relu, network.limits
    return Controller(env, names, read, network.inputs, None, layers, *rest)


def _on_screens(policy: Policy, network: ConvNet) -> Controller:
    """Return the whole network: a screen is seen as a whole, also by a sparse read-out."""
    values = [block.of(policy.parameters[None])[0] for block in network.blocks]
    pairs = zip(values[::2], values[1::2], (*STRIDES, 0), strict=True)
    layers = [Layer(weight, bias, stride) for weight, bias, stride in pairs]
    layers[0] = Layer(layers[0].weight / 255, layers[0].bias, layers[0].stride)  # bytes from 0 to 255 count as 0 to 1
    screen = network.frames, network.height, network.width
    env, none = str(policy.task["env"]), np.array([], int)
    return Controller(env, [], none, network.inputs, screen, layers, network.discrete, relu=True, limits=None)
