"""Many networks of one shape as one, with gradients and steps by hand: a step of a run is few and small kernels.

A layer is one matrix per network: its weights, below them its bias, and zeros up to a multiple of ROW. What goes into
it is followed by a 1 and by zeros, so that a product of matrices is all of the layer, and another all of its gradient.
The columns of a hidden layer are a multiple of ROW too; those beyond its outputs are zero and stay so. All matrices of
all networks lie in one tensor, so that one kernel improves them; it also rounds them to what is multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import pairwise
from typing import Any

import torch

from nesht.baselines.batched.layers import Layers
from nesht.baselines.batched.place import Place, spare

Trail = list[torch.Tensor]
"""What went into every layer, [networks, rows, wide inputs], and what came out of the last one."""


def even(outputs: int) -> int:
    """Return how many columns a hidden layer with so many outputs has."""
    return outputs + spare(outputs)


def wide(inputs: int) -> int:
    """Return how many numbers go into a layer with so many inputs: also a 1, and zeros."""
    return inputs + 1 + spare(inputs + 1)


class Numbers:
    """Numbers that are learnt, in one row, and room for the gradient of a loss.

    Args:
        numbers: at the beginning.
        place: where.
    """

    def __init__(self, numbers: torch.Tensor, place: Place):
        self.numbers, self.gradient, self.place = numbers, torch.zeros_like(numbers), place
        self.rounded = numbers
        """The same, as they are multiplied."""
        self.scale = 1.0
        """What the gradient is multiplied with."""


class Networks(Numbers):
    """Networks with ReLU between their layers.

    Args:
        sizes: of the layers, from the inputs to the outputs.
        luck: one per network; they begin as torch's own linear layers do.
        place: where.
    """

    def __init__(self, sizes: Sequence[int], luck: Sequence[torch.Generator], place: Place):
        self._sizes = tuple(sizes)
        columns = [*map(even, sizes[1:-1]), sizes[-1]]
        self._shapes = [(len(luck), wide(inputs), many) for inputs, many in zip(sizes[:-1], columns, strict=True)]
        super().__init__(torch.zeros(sum(map(math.prod, self._shapes)), device=place.device), place)
        self._gradients, self.scale = self._matrices(self.gradient), place.scale
        for i, part in enumerate(self.layers()):
            numbers = torch.stack([torch.rand(part.shape[1:], generator=each) for each in luck])
            part.copy_((2 * numbers - 1) / math.sqrt(sizes[i // 2]))
        self._round_all()

    def _round_all(self) -> None:
        self.rounded = self.numbers.to(self.place.products)  # themselves, if nothing is rounded
        self.weights = self._matrices(self.rounded)
        """The matrices of the layers, as they are multiplied."""

    def settle(self) -> None:
        """Take over numbers that were changed by others."""
        if self.rounded is not self.numbers:
            self.rounded.copy_(self.numbers)

    def copied(self) -> Networks:
        """Return networks with the same numbers that nothing is learnt about: targets."""
        other = copy(self)
        other.numbers, other.gradient, other._gradients = self.numbers.clone(), self.gradient.new_empty(0), []
        other._round_all()
        return other

    def layers(self, numbers: torch.Tensor | None = None) -> Layers:
        """Return views of weights and biases, or of other numbers in their place, like moments."""
        matrices = self._matrices(self.numbers if numbers is None else numbers)
        return [
            part
            for matrix, (inputs, outputs) in zip(matrices, pairwise(self._sizes), strict=True)
            for part in (matrix[:, :inputs, :outputs], matrix[:, inputs : inputs + 1, :outputs])
        ]

    def _matrices(self, numbers: torch.Tensor) -> list[torch.Tensor]:
        parts = numbers.split([math.prod(shape) for shape in self._shapes])
        return [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def forward(self, x: torch.Tensor) -> Trail:
        """Return the trail of wide inputs [networks, rows, wide]; they may be those of the first networks alone."""
        trail = [x]
        for weight, width in zip(self.weights[:-1], self._sizes[1:], strict=False):
            out = x.new_empty((*x.shape[:2], wide(width)))
            self.place.multiply(trail[-1], weight[: len(x)], out[..., : weight.shape[2]])
            fours = self.place.fours(out)
            self.place.launch(self.place.kernels.rectify, fours.shape, fours, width, self.place.most)
            trail.append(out)
        said = self.numbers.new_empty((*x.shape[:2], self._sizes[-1]))
        self.place.multiply(trail[-1], self.weights[-1][: len(x)], said)
        return [*trail, said]

    def find_gradient(self, trail: Trail, pull: torch.Tensor) -> None:
        """Find the gradient of what pulls so on the outputs that a trail leads to."""
        for i, each in self._pulls(trail, pull):
            self.place.multiply(trail[i].transpose(1, 2), self._rounded(each), self._gradients[i])

    def pull_on_inputs(self, trail: Trail, pull: torch.Tensor, inputs: slice) -> torch.Tensor:
        """Return how a pull on the outputs that a trail leads to pulls on some inputs, [networks, rows, inputs]."""
        *_, (_, last) = self._pulls(trail, pull)
        weight = self.weights[0][: len(pull), inputs]
        out = pull.new_empty((*pull.shape[:2], weight.shape[1]))
        self.place.multiply(self._rounded(last), weight.transpose(1, 2), out)
        return out if self.place.scale == 1 else out.div_(self.place.scale)

    def _pulls(self, trail: Trail, pull: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the pull on what comes out of every layer, from the last one to the first; all others are scaled."""
        last = len(self.weights) - 1
        yield last, pull
        for i in range(last, 0, -1):
            x, width, weight = trail[i], self._sizes[i], self.weights[i][: len(pull)]
            before = x.new_empty((*x.shape[:2], even(width)))
            fours, pulls = self.place.fours(x), self.place.fours(before)
            if i == last:  # few outputs: one kernel for all of it
                given = (weight, pull, width, self.place.scale, self.place.most)
                self.place.launch(self.place.kernels.send_back, pulls.shape, fours, *given, pulls)
            else:
                self.place.multiply(pull, weight[:, : even(width)].transpose(1, 2), before)
                self.place.launch(self.place.kernels.gate, pulls.shape, fours, width, self.place.most, pulls)
            pull = before
            yield i - 1, pull

    def _rounded(self, pull: torch.Tensor) -> torch.Tensor:
        """Return a pull as it is multiplied: scaled, if it was not yet."""
        if pull.dtype == self.place.products:
            return pull
        out = pull.new_empty(pull.shape, dtype=self.place.products)
        self.place.launch(self.place.kernels.round_off, pull.shape, pull, self.place.scale, self.place.most, out)
        return out


class Improver:
    """Adam on the numbers of all runs, which do not share any: it does to each what it would do to it alone.

    Args:
        what: is improved.
        settings: of the algorithm.
        target: numbers that follow.
    """

    BETAS, EPSILON = (0.9, 0.999), 1e-8

    def __init__(self, what: Numbers, settings: dict[str, Any], target: Numbers | None = None):
        self._what, self._place, self._target = what, what.place, target or what
        self._rate, self._decay = settings["learning_rate"], settings.get("weight_decay", 0.0)
        self.moments = [torch.zeros_like(what.numbers) for _ in self.BETAS]
        self._powers = torch.ones(2, dtype=torch.float64, device=what.place.device)
        self._corrections = torch.ones(2, device=what.place.device)
        self.mask: torch.Tensor | None = None
        """0 at those of the first numbers that do not exist, 1 elsewhere."""

    def step(self, tau: float = 0.0) -> None:
        """Step down the gradient; the target then comes nearer by a share `tau` of its distance."""
        self._place.launch(self._place.kernels.tick, 1, self._powers, *self.BETAS, self._corrections)
        mask, what = self.mask, self._what
        masked = (what.gradient, 0) if mask is None else (mask.view(-1), mask.numel())
        arrays = (what.numbers, what.rounded, what.gradient, *self.moments, self._target.numbers, self._target.rounded)
        settings = (1 / what.scale, *self.BETAS, self.EPSILON, self._rate, self._decay, tau)
        given = (*arrays, *masked, self._corrections, *settings)
        self._place.launch(self._place.kernels.adam, len(what.numbers), *given)
