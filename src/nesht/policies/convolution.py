"""The policy for screens: two convolutions and a linear read-out, for many members, each with its own weights.

A convolution whose stride is half its kernel is a sum of four matrix products. The image is cut into tiles as large as
the stride; every place of the output sees a square of 2 x 2 tiles; so all tiles are multiplied once with the four
quarters of the kernel side by side, and the results are added, each moved by its tile. That takes as few
multiplications as there are and copies no pixel twice. A member's numbers depend on that member alone, to the bit: each
has matrix products of its own, of a shape that is always the same, on one thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nesht import keys
from nesht.errors import UserError
from nesht.policies.blocks import Block, lay_out, units_of

if TYPE_CHECKING:
    from nesht.strategy.units import Units

STRIDES = (4, 2)
FILTERS = (16, 32)
LEAST = 20
"""The smallest height and width that leave the read-out anything to read."""


class Layer(NamedTuple):
    """The sizes of one convolution."""

    stride: int
    channels: int
    filters: int
    rows: int
    columns: int

    @property
    def kernel(self) -> tuple[int, int, int, int]:
        """The shape of the weights, as in torch."""
        return self.filters, self.channels, 2 * self.stride, 2 * self.stride

    @property
    def tile(self) -> int:
        """Numbers in a tile."""
        return self.channels * self.stride**2


class Weights(NamedTuple):
    """The parameters of some members, float32, in the order in which they are used."""

    tiles: tuple[np.ndarray, np.ndarray]
    """By layer: (members, numbers in a tile, 4 quarters * filters)."""
    shifts: tuple[np.ndarray, np.ndarray]
    """By layer: (members, 1, 1, filters)."""
    readout: np.ndarray
    """(members, actions, read-out inputs by row, column and filter)."""
    bias: np.ndarray
    """(members, actions)."""

    def one(self, member: int) -> Weights:
        """Return those of one member, without a copy."""
        here = slice(member, member + 1)
        tiles, shifts = ((pair[0][here], pair[1][here]) for pair in (self.tiles, self.shifts))
        return Weights(tiles, shifts, self.readout[here], self.bias[here])


@dataclass(frozen=True)
class ConvNet:
    """16 filters of 8 x 8, 32 of 4 x 4, and a linear read-out; the action is the index of the largest output.

    What `Network` calls inputs are here the inputs of the read-out: they are what a threshold keeps or drops.
    """

    height: int
    width: int
    frames: int
    outputs: int
    batch_norm: bool = False
    """Whether parameters stand for what `normalised` makes of them."""

    discrete = True

    def __post_init__(self) -> None:
        if min(self.height, self.width) < LEAST:
            raise UserError(f"a screen must be at least {LEAST} x {LEAST} pixels, got {self.height} x {self.width}.")

    @cached_property
    def layers(self) -> tuple[Layer, Layer]:
        """Both convolutions."""
        rows, columns, channels = self.height, self.width, self.frames
        found = []
        for stride, filters in zip(STRIDES, FILTERS, strict=True):
            rows, columns = ((size - 2 * stride) // stride + 1 for size in (rows, columns))
            found.append(Layer(stride, channels, filters, rows, columns))
            channels = filters
        return found[0], found[1]

    @property
    def inputs(self) -> int:
        """How many numbers the read-out reads."""
        last = self.layers[1]
        return last.filters * last.rows * last.columns

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks in order, all shaped as in torch."""
        shapes: list[tuple[str, tuple[int, ...]]] = []
        for number, layer in enumerate(self.layers, 1):
            shapes += [(f"conv{number}.weight", layer.kernel), (f"conv{number}.bias", (layer.filters,))]
        return lay_out([*shapes, ("readout.weight", (self.outputs, self.inputs)), ("readout.bias", (self.outputs,))])

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return self.blocks[-1].stop

    @property
    def names(self) -> list[str]:
        """The read-out's inputs: filter, row and column of the second convolution."""
        last = self.layers[1]
        places = np.ndindex(last.filters, last.rows, last.columns)
        return [f"filter {f} at {row},{column}" for f, row, column in places]

    def initial(self, seed: int) -> np.ndarray:
        """Return the initial parameters: random weights that keep the size of what they read, zero biases."""
        parameters = np.zeros(self.size)
        rng = keys.generator(keys.pack(seed), keys.Stream.PARAMETERS)
        for block in self.blocks:
            if block.name.endswith("weight"):
                scale = np.prod(block.shape[1:]) ** -0.5
                parameters[block.start : block.stop] = scale * rng.standard_normal(block.stop - block.start)
        return parameters

    def input_weights(self, parameters: np.ndarray) -> np.ndarray:
        """Return the weights of the read-out, (members, actions, inputs)."""
        return self.blocks[4].of(parameters)

    def units(self, unit: str, scope: str) -> Units:
        """Return what a hard threshold may cut; the features are the inputs of the read-out (see `units_of`)."""
        return units_of(self.blocks, self.blocks[4], unit, scope)

    def weights(self, parameters: np.ndarray) -> Weights:
        """Return (members, d) parameters as `act` wants them; pixels from 0 to 255 count as 0 to 1."""
        w1, b1, w2, b2, readout, bias = (block.of(parameters) for block in self.blocks)
        last, members = self.layers[1], len(parameters)
        by_place = readout.reshape(members, self.outputs, last.filters, last.rows, last.columns)
        by_place = np.moveaxis(by_place, 2, -1).reshape(members, self.outputs, self.inputs)
        tiles = _quartered(w1 / 255, self.layers[0], 0), _quartered(w2, self.layers[1], 2)
        single = (np.ascontiguousarray(each, np.float32) for each in (*tiles, b1, b2, by_place, bias))
        t1, t2, s1, s2, read, last_bias = single
        return Weights((t1, t2), (s1[:, None, None], s2[:, None, None]), read, last_bias)

    def forward(self, weights: Weights, screens: np.ndarray) -> np.ndarray:
        """Return the outputs, (members, actions), for (members, frames, height, width) screens of bytes."""
        x = _byte_tiles(screens, self.layers[0])
        for number, layer in enumerate(self.layers):
            x = _add_quarters(np.matmul(x, weights.tiles[number]), layer)
            x += weights.shifts[number]
            np.maximum(x, 0, out=x)
            if number == 0:
                x = _tiles(x, self.layers[1])
        flat = x.reshape(len(x), self.inputs, 1)
        return np.asarray(np.matmul(weights.readout, flat)[:, :, 0] + weights.bias)

    def normalised(self, parameters: np.ndarray, screens: np.ndarray) -> np.ndarray:
        """Return (d,) parameters whose convolutions have mean 0 and variance 1 on some screens, before their biases.

        This is virtual batch normalisation (Salimans et al., 2017): a normalised network is a network.
        """
        found = parameters.copy()
        x = _byte_tiles(screens, self.layers[0])
        for number, layer in enumerate(self.layers):
            weight, bias = self.blocks[2 * number], self.blocks[2 * number + 1]
            raw = self.weights(found[None]).tiles[number]
            products = _add_quarters(np.matmul(x, raw), layer).reshape(-1, layer.filters).astype(np.float64)
            mean, std = products.mean(axis=0), products.std(axis=0) + 1e-8
            found[weight.start : weight.stop] /= np.repeat(std, (weight.stop - weight.start) // layer.filters)
            found[bias.start : bias.stop] -= mean / std
            if number == 0:
                made = self.weights(found[None])
                x = _add_quarters(np.matmul(x, made.tiles[0]), layer) + made.shifts[0]
                x = _tiles(np.maximum(x, 0), self.layers[1])
        return found

    def act(self, weights: Weights, screens: np.ndarray) -> np.ndarray:
        """Return the actions, (members,)."""
        return np.argmax(self.forward(weights, screens), axis=1)


def _quartered(kernel: np.ndarray, layer: Layer, channel_last: int) -> np.ndarray:
    """Return kernels as (members, numbers in a tile, 4 * filters): the four quarters side by side.

    A tile's numbers are ordered by channel, row and column in the first layer, and with the channel last in the second.
    """
    members, stride = len(kernel), layer.stride
    split = kernel.reshape(members, layer.filters, layer.channels, 2, stride, 2, stride)
    order = (0, 4, 6, 2, 3, 5, 1) if channel_last else (0, 2, 4, 6, 3, 5, 1)
    return split.transpose(order).reshape(members, layer.tile, 4 * layer.filters)


def _byte_tiles(screens: np.ndarray, layer: Layer) -> np.ndarray:
    """Return screens of bytes as (members, tiles, numbers in a tile) in single precision; four bytes move as one."""
    rows, columns = layer.rows + 1, layer.columns + 1
    cut = np.ascontiguousarray(screens[:, :, : 4 * rows, : 4 * columns])
    words = cut.view(np.uint32).reshape(len(cut), layer.channels, rows, 4, columns).transpose(0, 2, 4, 1, 3)
    tiles = np.ascontiguousarray(words).view(np.uint8)
    return tiles.reshape(len(cut), rows * columns, layer.tile).astype(np.float32)


def _tiles(x: np.ndarray, layer: Layer) -> np.ndarray:
    """Return (members, rows, columns, channels) as (members, tiles, numbers in a tile)."""
    rows, columns, stride = layer.rows + 1, layer.columns + 1, layer.stride
    cut = x[:, : stride * rows, : stride * columns]
    split = cut.reshape(len(x), rows, stride, columns, stride, layer.channels)
    return split.transpose(0, 1, 3, 2, 4, 5).reshape(len(x), rows * columns, layer.tile)


def _add_quarters(products: np.ndarray, layer: Layer) -> np.ndarray:
    """Return the convolution, (members, rows, columns, filters), from the products of all tiles with all quarters."""
    rows, columns = layer.rows, layer.columns
    split = products.reshape(len(products), rows + 1, columns + 1, 4, layer.filters)
    result = split[:, :rows, :columns, 0] + split[:, :rows, 1:, 1]
    result += split[:, 1:, :columns, 2]
    result += split[:, 1:, 1:, 3]
    return np.asarray(result)
