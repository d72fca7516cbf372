"""Many networks of one shape as one, with gradients and steps by hand: a step of a run is few and small kernels.

A layer is one matrix per network: its weights, and below them its bias. All matrices of all networks lie in one tensor.
How they are multiplied is a matter of the place: see `products`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from itertools import pairwise
from typing import Any

import torch

from nesht.baselines.batched.layers import Layers
from nesht.baselines.batched.place import Place

Trail = list[torch.Tensor]
"""What went into every layer, [some, rows, inputs or more], and what came out of the last one."""


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


class Networks(Numbers):
    """Networks with ReLU between their layers.

    Args:
        sizes: of the layers, from the inputs to the outputs.
        luck: one per network; they begin as torch's own linear layers do.
        place: where.
    """

    def __init__(self, sizes: Sequence[int], luck: Sequence[torch.Generator], place: Place):
        self._sizes, self._math = tuple(sizes), place.products
        columns = [*map(self._math.columns, sizes[1:-1]), sizes[-1]]
        self._shapes = [(len(luck), inputs + 1, many) for inputs, many in zip(sizes[:-1], columns, strict=True)]
        super().__init__(torch.zeros(sum(map(math.prod, self._shapes)), device=place.device), place)
        for i, part in enumerate(self.layers()):
            numbers = torch.stack([torch.rand(part.shape[1:], generator=each) for each in luck])
            part.copy_((2 * numbers - 1) / math.sqrt(sizes[i // 2]))
        self._round_all()

    def _round_all(self) -> None:
        self.rounded = self.numbers.to(self._math.dtype)  # themselves, if nothing is rounded
        self.weights = self.matrices(self.rounded)
        """The matrices of the layers, as they are multiplied."""

    def settle(self) -> None:
        """Take over numbers that were changed by others."""
        if self.rounded is not self.numbers:
            self.rounded.copy_(self.numbers)

    def copied(self) -> Networks:
        """Return networks with the same numbers that nothing is learnt about: targets."""
        other = copy(self)
        other.numbers, other.gradient = self.numbers.clone(), self.gradient.new_empty(0)
        other._round_all()
        return other

    def layers(self, numbers: torch.Tensor | None = None) -> Layers:
        """Return views of weights and biases, or of other numbers in their place, like moments."""
        matrices = self.matrices(self.numbers if numbers is None else numbers)
        return [
            part
            for matrix, (inputs, outputs) in zip(matrices, pairwise(self._sizes), strict=True)
            for part in (matrix[:, :inputs, :outputs], matrix[:, inputs : inputs + 1, :outputs])
        ]

    def matrices(self, numbers: torch.Tensor) -> list[torch.Tensor]:
        """Return views of numbers as the matrices of the layers."""
        parts = numbers.split([math.prod(shape) for shape in self._shapes])
        return [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def forward(self, x: torch.Tensor, count: int | None = None) -> Trail:
        """Return the trail of inputs through all networks or the first ones.

        Inputs are [some, rows, inputs or more]; if there are fewer than networks or more, either is used repeatedly.
        """
        return self._math.forward(x, self._first(count))

    def answer(self, x: torch.Tensor) -> torch.Tensor:
        """Return what all networks put out; see `forward`."""
        return self._math.answer(x, self.weights)

    def pulls(self, trail: Trail, pull: torch.Tensor) -> list[torch.Tensor]:
        """Return how a pull on the outputs that a trail leads to pulls on what came out of every layer."""
        return self._math.pulls(trail, pull, self._first(len(pull)))

    def pull_on_inputs(self, trail: Trail, pull: torch.Tensor, inputs: slice) -> torch.Tensor:
        """Return how a pull on the outputs that a trail leads to pulls on some inputs, [networks, rows, inputs]."""
        return self._math.pull_on_inputs(trail, pull, self._first(len(pull)), inputs)

    def _first(self, count: int | None) -> list[torch.Tensor]:
        return [weight[:count] for weight in self.weights]


class Improver:
    """Adam on the numbers of all runs, which do not share any: it does to each what it would do to it alone.

    Args:
        what: is improved.
        settings: of the algorithm.
        target: numbers that follow.
    """

    BETAS, EPSILON = (0.9, 0.999), 1e-8

    def __init__(self, what: Numbers, settings: dict[str, Any], target: Numbers | None = None):
        self._what, self._place, self.target = what, what.place, target or what
        self.settings = (*self.BETAS, self.EPSILON, settings["learning_rate"], settings.get("weight_decay", 0.0))
        self.moments = [torch.zeros_like(what.numbers) for _ in self.BETAS]
        self._powers = torch.ones(2, dtype=torch.float64, device=what.place.device)
        self.corrections = torch.ones(2, device=what.place.device)
        """What the moments are multiplied with, as they began at zero."""
        self.mask: torch.Tensor | None = None
        """0 at those of the first numbers that do not exist, 1 elsewhere."""

    def learn(self, trail: Trail, pull: torch.Tensor, tau: float = 0.0) -> None:
        """Let networks learn from what pulls so on the outputs that a trail leads to; see `step`."""
        networks = self._what
        assert isinstance(networks, Networks)
        self._place.products.learn(networks, trail, networks.pulls(trail, pull), self, tau)

    def tick(self) -> None:
        """Count a step."""
        self._place.launch(self._place.kernels.tick, 1, self._powers, *self.BETAS, self.corrections)

    def step(self, tau: float = 0.0) -> None:
        """Step down the gradient; the target then comes nearer by a share `tau` of its distance."""
        self.tick()
        mask, what = self.mask, self._what
        masked = (what.gradient, 0) if mask is None else (mask.view(-1), mask.numel())
        given = (what.numbers, what.gradient, *self.moments, self.target.numbers, *masked, self.corrections)
        self._place.launch(self._place.kernels.adam, len(what.numbers), *given, *self.settings, tau)
