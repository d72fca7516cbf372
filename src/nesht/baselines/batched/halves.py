"""Products of halved numbers on tensor cores, with all that follows a product in the same kernel: no sum is written.

What is multiplied is rounded to float16; sums, what networks put out, what is learnt and its moments are float32.
Networks have two hidden layers, and inputs go through all of them in one kernel. What goes into a layer lies in rows of
a multiple of WIDE numbers, with zeros after them, so that whole blocks are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from triton.compiler.compiler import max_shared_mem

from nesht.baselines.batched import half_kernels
from nesht.baselines.batched.place import WIDEST

if TYPE_CHECKING:
    from nesht.baselines.batched.networks import Improver, Networks, Trail

WIDE = 64
"""Numbers of a block that is multiplied."""
ROW = 32
"""The columns of a matrix are a multiple of it, so that its rows begin where the memory's lines of 128 bytes do."""
FEW = 16
"""The smallest block that tensor cores multiply."""

MOST, SCALE = 6e4, 1024.0
"""The largest number that is multiplied, and what gradients are multiplied with on their way there, so that small ones
are not lost: 16 bits hold 6e-8 to 65504, with three digits."""

PART = WIDEST // 2
"""The largest part of a layer that a program holds; it holds two of them."""
TALL, ROOMY = 128, 320
"""Rows that a program takes through networks, and units of a second hidden layer for which it has room then."""
UNITS = ((64, 3), (64, 2), (32, 3), (32, 2))
"""Units of the first hidden layer at a time, and stages of their pipeline: the first for which there is memory."""
SHARED = 232_448
"""Bytes of memory that a program's threads share on a Hopper GPU."""
SPARE = 1024
"""Bytes of it for all else."""
LEARN = {"BI": 64, "BN": 64, "BK": 64, "num_warps": 4, "num_stages": 3, "maxnreg": 168}
"""Sizes of what is multiplied at a time, measured on an H200 (`results/blocks-later.txt`, `benchmarks/blocks.py`)."""


class Halves:
    """How networks multiply where numbers are halved; see `Whole`."""

    dtype, most = torch.float16, MOST

    def __init__(self) -> None:
        self._shared = SHARED
        if torch.cuda.is_available():
            self._shared = max_shared_mem(torch.cuda.current_device())

    def columns(self, outputs: int) -> int:
        """Return how many columns the matrix of a hidden layer has."""
        return outputs + -outputs % ROW

    def wide(self, numbers: int) -> int:
        """Return how long rows are that hold so many numbers."""
        return numbers + -numbers % WIDE

    def forward(self, x: torch.Tensor, weights: Sequence[torch.Tensor]) -> Trail:
        """Return the trail of inputs through networks."""
        return self._forward(x, weights, keep=True)

    def answer(self, x: torch.Tensor, weights: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return what networks put out; what comes out of their hidden layers is not written."""
        return self._forward(x, weights, keep=False)[-1]

    def _forward(self, x: torch.Tensor, weights: Sequence[torch.Tensor], keep: bool) -> Trail:
        sizes, columns, row1, row2 = self._sizes(weights)
        (x_count, rows, width), w_count = x.shape, len(weights[0])
        count, outs = max(x_count, w_count), columns[-1]
        out = x.new_empty((count, rows, outs), dtype=torch.float32)
        hidden = [x.new_empty((count, rows, row)) for row in (row1, row2)] if keep else [x, x]
        inputs, second = sum(_parts(width)), sum(_parts(row2))
        blocks, settings = self._blocks(rows, row2, inputs, inputs + second)
        strides = (x.stride(0), x.stride(1), row1, row2)
        given = (x, *weights, *hidden, out, x_count, w_count, rows, *sizes, *columns, *strides, MOST)
        parts = {**_named("K", width), **_named("N", row2)}
        half_kernels.forward[(blocks, count)](*given, KEEP=keep, FEW=_few(outs), **parts, **settings)
        return [x, *hidden, out]

    def pulls(self, trail: Trail, pull: torch.Tensor, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return how a pull on the outputs that a trail leads to pulls on what came out of every layer; scaled."""
        inner = [torch.empty_like(each) for each in trail[1:-1]]
        self._back(trail, pull, weights, inner, pull, slice(0, 0))
        return [*inner, pull]

    def pull_on_inputs(
        self, trail: Trail, pull: torch.Tensor, weights: Sequence[torch.Tensor], inputs: slice
    ) -> torch.Tensor:
        """Return how it pulls on some inputs, [networks, rows, inputs]."""
        out = pull.new_empty((*pull.shape[:2], inputs.stop - inputs.start))
        self._back(trail, pull, weights, [], out, inputs)
        return out

    def _back(
        self,
        trail: Trail,
        pull: torch.Tensor,
        weights: Sequence[torch.Tensor],
        inner: Sequence[torch.Tensor],
        out: torch.Tensor,
        inputs: slice,
    ) -> None:
        """Write either inner pulls or that on some inputs."""
        sizes, columns, row1, row2 = self._sizes(weights)
        (networks, rows, outs), count = pull.shape, inputs.stop - inputs.start
        second = sum(_parts(row2))
        blocks, settings = self._blocks(rows, row2, second, second + FEW)
        numbers = (rows, *sizes, *columns, row1, row2, inputs.start, count, SCALE, MOST)
        given = (pull, *weights, *trail[1:-1], *(inner or trail[1:-1]), out, *numbers)
        settings |= _named("N", row2)
        half_kernels.back[(blocks, networks)](*given, KEEP=bool(inner), FEW=_few(max(outs, count)), **settings)

    def _sizes(self, weights: Sequence[torch.Tensor]) -> tuple[list[int], list[int], int, int]:
        """Return how many inputs and columns every layer has, and how long rows of the hidden ones are."""
        sizes, columns = [each.shape[1] - 1 for each in weights], [each.shape[2] for each in weights]
        return sizes, columns, self.wide(columns[0]), self.wide(columns[1])

    def _blocks(self, rows: int, row2: int, held: int, streamed: int) -> tuple[int, dict[str, int]]:
        """Return how many programs take so many rows through a network, and their sizes.

        A program holds some numbers per row and more for every unit; a stage has some for every unit.
        """
        tall = min(TALL if row2 <= ROOMY else TALL // 2, max(FEW, 1 << (rows - 1).bit_length()))
        sizes = [(tall >> i, *units) for i in range((tall // FEW).bit_length()) for units in UNITS]

        def fits(tall: int, units: int, stages: int) -> bool:
            return 2 * (tall * (held + units) + stages * units * streamed) + SPARE <= self._shared

        tall, units, stages = next((each for each in sizes if fits(*each)), sizes[-1])
        warps = 8 if tall == TALL or row2 > ROOMY else 4
        return -(-rows // tall), {"BM": tall, "BC": units, "num_warps": warps, "num_stages": stages}

    def learn(
        self, networks: Networks, trail: Trail, pulls: Sequence[torch.Tensor], improver: Improver, tau: float
    ) -> None:
        """Step down the gradient of what pulls so on what came out of every layer."""
        improver.tick()
        target, mask = improver.target, improver.mask
        arrays = (networks.numbers, networks.rounded, *improver.moments, target.numbers, target.rounded)
        for layer, (x, pull, *parts) in enumerate(zip(trail, pulls, *map(networks.matrices, arrays), strict=False)):
            count, inputs, columns = parts[0].shape
            raw, masked = pull.dtype == torch.float32, mask is not None and layer == 0
            settings = LEARN | {"BN": FEW if columns < WIDE else LEARN["BN"]}
            blocks = (-(-(inputs - 1) // settings["BI"]) + 1) * -(-columns // settings["BN"])
            strides = (len(x), x.shape[1], inputs - 1, columns, x.stride(0), x.stride(1), pull.shape[2])
            given = (mask if masked else parts[0], improver.corrections, *strides, SCALE, MOST, *improver.settings, tau)
            kind = {"RAW": raw, "MASKED": masked, "FOLLOW": tau > 0}
            half_kernels.learn[(blocks, count)](x, pull, *parts, *given, **kind, **settings)


def _parts(numbers: int) -> tuple[int, int]:
    """Return the sizes of two blocks that hold so many numbers, powers of 2; the second may be empty."""
    first = min(PART, 1 << numbers.bit_length() >> 1)
    rest = numbers - first
    return first, 1 << (rest - 1).bit_length() if rest else 0


def _named(letter: str, numbers: int) -> dict[str, int]:
    """Return the sizes of such blocks under the names that kernels have for them."""
    return {f"{letter}{i}": size for i, size in enumerate(_parts(numbers))}


def _few(outputs: int) -> int:
    """Return the size of a block that holds what networks put out."""
    return max(FEW, 1 << (outputs - 1).bit_length())
