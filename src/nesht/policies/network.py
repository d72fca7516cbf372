"""Linear and MLP policies over one flat parameter vector with named blocks, evaluated for many members at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from nesht import keys
from nesht.policies.blocks import Block, lay_out, units_of
from nesht.policies.limits import Limits

if TYPE_CHECKING:
    from nesht.strategy.units import Units


@dataclass(frozen=True)
class Network:
    """A feed-forward policy: linear without hidden layers, else an MLP with tanh units.

    Actions are the outputs as they are (not squashed, not clipped); with discrete actions, the index of the largest.
    Reinforcement learners may have other units, and limits of their actions.
    """

    inputs: int
    outputs: int
    hidden: tuple[int, ...] = ()
    bias: bool = True
    discrete: bool = False
    relu: bool = False
    """Whether hidden units are rectified instead of bent by tanh."""
    limits: Limits | None = None
    """What outputs are kept between."""

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks in order: weights then bias, layer by layer; `layer0.weight` is (outputs, inputs) as in torch."""
        widths = (self.inputs, *self.hidden, self.outputs)
        shapes = [
            (f"layer{layer}.{name}", shape)
            for layer, (fan_in, fan_out) in enumerate(pairwise(widths))
            for name, shape in (("weight", (fan_out, fan_in)), ("bias", (fan_out,)))[: 1 + self.bias]
        ]
        return lay_out(shapes)

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return self.blocks[-1].stop

    def initial(self, seed: int) -> np.ndarray:
        """Return the initial parameters: zeros if linear (already sparse), else random weights and zero biases."""
        parameters = np.zeros(self.size)
        if self.hidden:
            rng = keys.generator(keys.pack(seed), keys.Stream.PARAMETERS)
            for block in self.blocks:
                if len(block.shape) == 2:
                    scale = block.shape[1] ** -0.5
                    parameters[block.start : block.stop] = scale * rng.standard_normal(block.stop - block.start)
        return parameters

    def forward(self, parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return the outputs, (members, outputs), of member i with parameters[i] on features[i].

        Each member's numbers depend on that member alone, to the bit: `einsum` sums every row by itself, where a BLAS
        would choose its order by the size of the batch and the number of threads.
        """
        x = features
        for block in self.blocks:
            if len(block.shape) == 2:
                if block.start > 0:
                    x = np.maximum(x, 0) if self.relu else np.tanh(x)
                x = np.einsum("moi,mi->mo", block.of(parameters), x)
            else:
                x += block.of(parameters)
        return x if self.limits is None else self.limits(x)

    def act(self, parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return the actions: (members, outputs), or (members,) indices if they are discrete."""
        outputs = self.forward(parameters, features)
        return np.argmax(outputs, axis=1) if self.discrete else outputs

    def input_weights(self, parameters: np.ndarray) -> np.ndarray:
        """Return the weights that read the features, (members, units of the first layer, inputs)."""
        return self.blocks[0].of(parameters)

    def spread(self, features: np.ndarray) -> np.ndarray:
        """Return how much what each parameter reads varies, (members, d), from how much features do, (members, inputs).

        What is not an input counts as 1.
        """
        first = self.blocks[0]
        spread = np.ones((len(features), self.size))
        spread[:, first.start : first.stop] = np.tile(features, first.shape[0])
        return spread

    def units(self, unit: str, scope: str) -> Units:
        """Return what a hard threshold may cut; the features are the inputs (see `units_of`)."""
        return units_of(self.blocks, self.blocks[0], unit, scope)
