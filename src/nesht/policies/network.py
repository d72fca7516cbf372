"""Linear and MLP policies over one flat parameter vector with named blocks, evaluated for many members at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from nesht import keys
from nesht.errors import UserError

if TYPE_CHECKING:
    from nesht.strategy.units import Units

SCOPES = ("all", "weights", "per-layer")


@dataclass(frozen=True)
class Block:
    """A named stretch of the flat parameter vector."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int

    def of(self, parameters: np.ndarray) -> np.ndarray:
        """Return a view of this block of (members, d) parameters, (members, *shape)."""
        return parameters[:, self.start : self.stop].reshape(len(parameters), *self.shape)


@dataclass(frozen=True)
class Network:
    """A feed-forward policy: linear without hidden layers, else an MLP with tanh units.

    Actions are the outputs as they are (not squashed, not clipped); with discrete actions, the index of the largest.
    """

    inputs: int
    outputs: int
    hidden: tuple[int, ...] = ()
    bias: bool = True
    discrete: bool = False

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks in order: weights then bias, layer by layer; `layer0.weight` is (outputs, inputs) as in torch."""
        widths = (self.inputs, *self.hidden, self.outputs)
        blocks: list[Block] = []
        at = 0
        for layer, (fan_in, fan_out) in enumerate(pairwise(widths)):
            for name, shape in (("weight", (fan_out, fan_in)), ("bias", (fan_out,)))[: 1 + self.bias]:
                blocks.append(Block(f"layer{layer}.{name}", shape, at, at + math.prod(shape)))
                at = blocks[-1].stop
        return tuple(blocks)

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
                    x = np.tanh(x)
                x = np.einsum("moi,mi->mo", block.of(parameters), x)
            else:
                x += block.of(parameters)
        return x

    def act(self, parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return the actions: (members, outputs), or (members,) indices if they are discrete."""
        outputs = self.forward(parameters, features)
        return np.argmax(outputs, axis=1) if self.discrete else outputs

    def input_weights(self, parameters: np.ndarray) -> np.ndarray:
        """Return the weights that read the features, (members, units of the first layer, inputs)."""
        return self.blocks[0].of(parameters)

    def units(self, unit: str, scope: str) -> Units:
        """Return what a hard threshold may cut.

        With unit "feature" the units are the input features, each with all the weights that read it; biases and later
        layers are never cut. With unit "weight" they are single parameters: of all blocks together, of all weight
        matrices together, of each weight matrix by itself, or of the blocks named in `scope`, separated by commas.
        """
        from nesht.strategy.units import Units  # here: a policy that only acts needs no strategy

        if unit == "feature":
            block = self.blocks[0]
            if scope not in ("all", block.name):
                raise UserError(f"unit 'feature' always cuts the inputs, so scope must be 'all', got {scope!r}.")
            return Units(self.size, (np.arange(block.start, block.stop).reshape(block.shape).T,))
        if unit != "weight":
            raise UserError(f"unit must be 'weight' or 'feature', got {unit!r}.")
        single = {block.name: np.arange(block.start, block.stop)[:, None] for block in self.blocks}
        if scope == "all":
            return Units.weights(self.size)
        if scope == "weights":
            matrices = [positions for name, positions in single.items() if name.endswith("weight")]
            return Units(self.size, (np.concatenate(matrices),))
        if scope == "per-layer":
            return Units(self.size, tuple(positions for name, positions in single.items() if name.endswith("weight")))
        names = scope.split(",")
        if len(set(names)) < len(names):
            raise UserError(f"scope names a block twice: {scope!r}.")
        if unknown := [name for name in names if name not in single]:
            known = ", ".join([*SCOPES, *single])
            raise UserError(f"scope: no block {unknown[0]!r}; use {known} (several blocks separated by commas).")
        return Units(self.size, (np.concatenate([single[name] for name in names]),))
