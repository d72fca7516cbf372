"""Named stretches of a flat parameter vector, and which of them a threshold may cut."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

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


def lay_out(shapes: Iterable[tuple[str, tuple[int, ...]]]) -> tuple[Block, ...]:
    """Return blocks of these names and shapes, one after the other."""
    blocks: list[Block] = []
    at = 0
    for name, shape in shapes:
        blocks.append(Block(name, shape, at, at + math.prod(shape)))
        at = blocks[-1].stop
    return tuple(blocks)


def units_of(blocks: Sequence[Block], features: Block, unit: str, scope: str) -> Units:
    """Return what a hard threshold may cut.

    With unit "feature" the units are the columns of the block `features`: each input with all the weights that read it;
    nothing else is ever cut. With unit "weight" they are single parameters: of all blocks together, of all weights
    together, of the weights of each layer by itself, or of the blocks named in `scope`, separated by commas.
    """
    from nesht.strategy.units import Units  # here: a policy that only acts needs no strategy

    size = blocks[-1].stop
    if unit == "feature":
        if scope not in ("all", features.name):
            raise UserError(
                f"unit 'feature' always cuts the inputs of {features.name}; leave scope out, not {scope!r}."
            )
        return Units(size, (np.arange(features.start, features.stop).reshape(features.shape).T,))
    if unit != "weight":
        raise UserError(f"unit must be 'weight' or 'feature', got {unit!r}.")
    single = {block.name: np.arange(block.start, block.stop)[:, None] for block in blocks}
    if scope == "all":
        return Units.weights(size)
    if scope == "weights":
        return Units(size, (np.concatenate([where for name, where in single.items() if name.endswith("weight")]),))
    if scope == "per-layer":
        return Units(size, tuple(where for name, where in single.items() if name.endswith("weight")))
    names = scope.split(",")
    if len(set(names)) < len(names):
        raise UserError(f"scope names a block twice: {scope!r}.")
    if unknown := [name for name in names if name not in single]:
        known = ", ".join([*SCOPES, *single])
        raise UserError(f"scope: no block {unknown[0]!r}; use {known} (several blocks separated by commas).")
    return Units(size, (np.concatenate([single[name] for name in names]),))
