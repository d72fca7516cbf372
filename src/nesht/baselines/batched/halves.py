"""Products of halved numbers on tensor cores, with all that follows a product in the same kernel: no sum is written.

What is multiplied is rounded to float16; sums, what networks put out, what is learnt and its moments are float32. What
came out of a layer lies in rows of a multiple of WIDE numbers, with zeros after them, so that whole blocks are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from nesht.baselines.batched import half_kernels

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

BLOCKS: dict[str, dict[str, int]] = {
    "forward": {"BM": 128, "BN": 128, "num_warps": 4, "num_stages": 3},
    "back": {"BM": 128, "BN": 128, "num_warps": 8, "num_stages": 3},
}
LEARN = {"BI": 64, "BN": 64, "BK": 64, "num_warps": 4, "num_stages": 3, "maxnreg": 168}
"""Sizes of what is multiplied at a time, measured on an H200 (`results/blocks-later.txt`, `benchmarks/blocks.py`)."""


class Halves:
    """How networks multiply where numbers are halved; see `Whole`."""

    dtype, most = torch.float16, MOST

    def columns(self, outputs: int) -> int:
        """Return how many columns the matrix of a hidden layer has."""
        return outputs + -outputs % ROW

    def wide(self, numbers: int) -> int:
        """Return how long rows are that hold so many numbers."""
        return numbers + -numbers % WIDE

    def layer(self, x: torch.Tensor, weight: torch.Tensor, outputs: int, last: bool) -> torch.Tensor:
        """Return what layers put out, [networks, rows, outputs or more]."""
        (x_count, rows, _), (w_count, inputs, columns) = x.shape, weight.shape
        count, width = max(x_count, w_count), outputs if last else self.wide(outputs)
        out = x.new_empty((count, rows, width), dtype=torch.float32 if last else torch.float16)
        blocks, settings = _blocks("forward", rows, width)
        given = (x, weight, out, x_count, w_count, rows, inputs - 1, columns, x.stride(0), x.stride(1), width, MOST)
        half_kernels.forward[(blocks, count)](*given, RECTIFY=not last, BK=WIDE, **settings)
        return out

    def back(self, pull: torch.Tensor, weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Return the pull on what went into layers, [networks, rows, wide]; scaled."""
        out = torch.empty_like(x)
        self._back(pull, weight, 0, weight.shape[1] - 1, x, out)
        return out

    def back_to(self, pull: torch.Tensor, weight: torch.Tensor, inputs: slice) -> torch.Tensor:
        """Return the pull on some of the inputs, [networks, rows, inputs]."""
        count = inputs.stop - inputs.start
        out = pull.new_empty((*pull.shape[:2], count), dtype=torch.float32)
        self._back(pull, weight, inputs.start, count, None, out)
        return out

    def _back(
        self,
        pull: torch.Tensor,
        weight: torch.Tensor,
        first: int,
        count: int,
        x: torch.Tensor | None,
        out: torch.Tensor,
    ) -> None:
        networks, rows, p_row = pull.shape
        raw, came = pull.dtype == torch.float32, pull if x is None else x
        blocks, settings = _blocks("back", rows, out.shape[2])
        sizes = (rows, first, count, weight.shape[1] - 1, weight.shape[2], p_row)
        given = (pull, weight, came, out, len(came), *sizes, came.stride(0), came.stride(1), out.shape[2], SCALE, MOST)
        kind: dict[str, Any] = {"RAW": raw, "GATE": x is not None, "BK": FEW if raw else WIDE}
        half_kernels.back[(blocks, networks)](*given, **kind, **settings)

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


def _blocks(name: str, rows: int, width: int) -> tuple[int, dict[str, int]]:
    """Return how many blocks results of so many rows and columns take, and their sizes."""
    settings = dict(BLOCKS[name])
    settings["BM"] = min(settings["BM"], max(FEW, 1 << (rows - 1).bit_length()))
    if width < WIDE:
        settings |= {"BM": min(settings["BM"], WIDE), "BN": FEW}
    return -(-rows // settings["BM"]) * -(-width // settings["BN"]), settings
