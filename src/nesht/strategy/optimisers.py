"""Optimisers: from a gradient to the step that is added to the parameters (ascent), for all runs at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from array_api_compat import array_namespace

from nesht.strategy.perturb import Array


class Optimiser(Protocol):
    """Turns gradients into steps; keeps two moments of the gradient, each shaped like it, which may stay zero."""

    def step(self, gradient: Array, first: Array, second: Array, t: Array) -> tuple[Array, Array, Array]:
        """Return (step before the learning rate, first moment, second moment) after update number t >= 1, (runs,)."""
        ...


@dataclass(frozen=True)
class SGD:
    """Gradient ascent, with heavy-ball momentum if asked for."""

    momentum: float = 0.0

    def step(self, gradient: Array, first: Array, second: Array, t: Array) -> tuple[Array, Array, Array]:
        """See `Optimiser.step`."""
        if self.momentum == 0.0:
            return gradient, first, second
        first = self.momentum * first + gradient
        return first, first, second


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, 2015) with its usual constants."""

    b1: float = 0.9
    b2: float = 0.999
    epsilon: float = 1e-8

    def step(self, gradient: Array, first: Array, second: Array, t: Array) -> tuple[Array, Array, Array]:
        """See `Optimiser.step`."""
        xp = array_namespace(gradient)
        t = xp.astype(t, gradient.dtype)[:, None]
        first = self.b1 * first + (1 - self.b1) * gradient
        second = self.b2 * second + (1 - self.b2) * gradient * gradient
        unbiased, scale = first / (1 - self.b1**t), xp.sqrt(second / (1 - self.b2**t))
        return unbiased / (scale + self.epsilon), first, second


OPTIMISERS: dict[str, type[SGD] | type[Adam]] = {"sgd": SGD, "adam": Adam}
