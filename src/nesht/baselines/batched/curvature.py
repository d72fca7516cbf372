"""How a policy moves away from itself: the Hessian of its divergence from what it was, before anything changed.

There it is J'FJ: J are the derivatives of the means, F is the Hessian of what actions are drawn from. A product
with it is one push of numbers forward through the layers and one pull back, without gradients of gradients.
"""

from __future__ import annotations

import torch

from nesht.baselines.batched.layers import Layers, flat, pieces


class Curvature:
    """Multiplies with the Hessians of all runs.

    Args:
        actor: the layers of the policies, tanh between them.
        log_std: of their actions, [runs, 1, actions].
        seen: the observations [runs, rows, seen] that the divergence is a mean over, and over the actions.
    """

    def __init__(self, actor: Layers, log_std: torch.Tensor, seen: torch.Tensor):
        self._parts, self._weights = [*actor, log_std], actor[::2]
        self._into = [seen]
        for weight, bias in zip(actor[:-2:2], actor[1:-2:2], strict=True):
            self._into.append(torch.baddbmm(bias, self._into[-1], weight).tanh())
        self._bent = [1 - out.square() for out in self._into[1:]]
        """The derivatives of what goes into a layer, by what tanh was taken of."""
        self._actions = log_std.shape[2]
        self._firm = (-2 * log_std).exp() / (seen.shape[1] * self._actions)

    def times(self, vector: torch.Tensor) -> torch.Tensor:
        """Return the product with a vector of every run, both [runs, numbers]."""
        *change, spread = (part for _, part in pieces(self._parts, vector))
        push = torch.baddbmm(change[1], self._into[0], change[0])
        for layer, bent in enumerate(self._bent, 1):
            onward = torch.baddbmm(change[2 * layer + 1], push.mul_(bent), self._weights[layer])
            push = onward.baddbmm_(self._into[layer], change[2 * layer])
        pull, out = push * self._firm, [2 / self._actions * spread]
        for layer in reversed(range(len(self._weights))):
            out = [torch.bmm(self._into[layer].transpose(1, 2), pull), pull.sum(1, keepdim=True), *out]
            if layer > 0:
                pull = torch.bmm(pull, self._weights[layer].transpose(1, 2)).mul_(self._bent[layer - 1])
        return flat(out)
