"""Many networks of one shape as one, with gradients and steps by hand: a step of a run is few and small kernels.

A layer is one matrix per network: its weights, below them its bias, and zeros up to a multiple of ROW. What goes into
it is followed by a 1 and by zeros, so that a product of matrices is all of the layer, and another all of its gradient.
The columns of a hidden layer are as many as the rows of the next; those beyond its outputs are zero and stay so. All
matrices of all networks lie in one tensor, so that one kernel improves them.
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


class Networks(Numbers):
    """Networks with ReLU between their layers.

    Args:
        sizes: of the layers, from the inputs to the outputs.
        luck: one per network; they begin as torch's own linear layers do.
        place: where.
    """

    def __init__(self, sizes: Sequence[int], luck: Sequence[torch.Generator], place: Place):
        self._sizes = tuple(sizes)
        columns = [*map(wide, sizes[:-1]), sizes[-1]]
        self._shapes = [(len(luck), *shape) for shape in pairwise(columns)]
        super().__init__(torch.zeros(sum(map(math.prod, self._shapes)), device=place.device), place)
        self.weights, self._gradients = self._matrices(self.numbers), self._matrices(self.gradient)
        for i, part in enumerate(self.layers()):
            numbers = torch.stack([torch.rand(part.shape[1:], generator=each) for each in luck])
            part.copy_((2 * numbers - 1) / math.sqrt(sizes[i // 2]))

    def copied(self) -> Networks:
        """Return networks with the same numbers that nothing is learnt about: targets."""
        other = copy(self)
        other.numbers, other.gradient, other._gradients = self.numbers.clone(), self.gradient.new_empty(0), []
        other.weights = other._matrices(other.numbers)
        return other

    def layers(self, numbers: torch.Tensor | None = None) -> Layers:
        """Return views of weights and biases, or of other numbers in their place, like moments."""
        matrices = self.weights if numbers is None else self._matrices(numbers)
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
        for weight, width in zip(self.weights, self._sizes[1:], strict=True):
            trail.append(torch.bmm(trail[-1], weight[: len(x)]))
            if weight is not self.weights[-1]:
                fours = self.place.fours(trail[-1])
                self.place.launch(self.place.kernels.rectify, fours.shape, fours, width)
        return trail

    def find_gradient(self, trail: Trail, pull: torch.Tensor) -> None:
        """Find the gradient of what pulls so on the outputs that a trail leads to."""
        for i, each in self._pulls(trail, pull):
            torch.bmm(trail[i].transpose(1, 2), each, out=self._gradients[i])

    def pull_on_inputs(self, trail: Trail, pull: torch.Tensor, inputs: slice) -> torch.Tensor:
        """Return how a pull on the outputs that a trail leads to pulls on some inputs, [networks, rows, inputs]."""
        *_, (_, last) = self._pulls(trail, pull)
        return torch.bmm(last, self.weights[0][: len(pull), inputs].transpose(1, 2))

    def _pulls(self, trail: Trail, pull: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the pull on what comes out of every layer, from the last one to the first."""
        for i in reversed(range(len(self.weights))):
            yield i, pull
            if i:
                pull = torch.bmm(pull, self.weights[i][: len(pull)].transpose(1, 2))
                fours, pulls = (self.place.fours(each) for each in (trail[i], pull))
                self.place.launch(self.place.kernels.gate, pulls.shape, fours, pulls, self._sizes[i])


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
        arrays = (what.numbers, what.gradient, *self.moments, self._target.numbers, *masked, self._corrections)
        settings = (*self.BETAS, self.EPSILON, self._rate, self._decay, tau)
        self._place.launch(self._place.kernels.adam, len(what.numbers), *arrays, *settings)
