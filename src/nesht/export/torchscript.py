"""TorchScript, in single precision: one file for libtorch, with no Python class behind it."""

from __future__ import annotations

import io
import warnings

import numpy as np

from nesht.errors import UserError
from nesht.export.controller import Controller

FACTS = "inputs.json"
"""The extra file inside the archive."""


def to_torchscript(controller: Controller) -> bytes:
    """Return a module that takes a batch of observations and returns a batch of actions."""
    try:
        import torch
        from torch import nn
    except ImportError:
        raise UserError("exporting to TorchScript needs `pip install 'nesht[torch]'`.") from None

    class Act(nn.Module):
        """The layers in order, then the choice of an action."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList()
            if (limits := controller.limits) is not None:
                self.register_buffer("low", torch.tensor(limits.low))
                self.register_buffer("high", torch.tensor(limits.high))
            for layer in controller.layers:
                shape = layer.weight.shape
                made: nn.Module = (
                    nn.Conv2d(shape[1], shape[0], shape[2], layer.stride)
                    if layer.stride
                    else nn.Linear(shape[1], shape[0])
                )
                made.weight.data = torch.from_numpy(layer.weight.astype(np.float32))
                made.bias.data = torch.from_numpy(layer.bias.astype(np.float32))
                self.layers.append(made)

        def forward(self, observation: torch.Tensor) -> torch.Tensor:
            x = observation.float()
            for number, layer in enumerate(self.layers):
                if number:
                    x = torch.relu(x) if controller.relu else torch.tanh(x)
                if controller.screen is not None and isinstance(layer, nn.Linear):
                    x = x.flatten(1)
                x = layer(x)
            if controller.limits is not None:
                low, high = self.low, self.high
                bent = low + (high - low) * (0.5 * x.tanh() + 0.5)
                x = bent if controller.limits.bend else x.clamp(low, high)
            return x.argmax(dim=1) if controller.discrete else x

    kind = torch.float32 if controller.screen is None else torch.uint8
    example = torch.zeros((2, *(controller.screen or (len(controller.names),))), dtype=kind)
    file = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        # PyTorch points its own users to torch.export; libtorch without Python still reads this format.
        warnings.simplefilter("ignore", DeprecationWarning)
        traced = torch.jit.trace(Act().eval().requires_grad_(False), example)
        torch.jit.save(traced, file, _extra_files={FACTS: controller.facts()})
    return file.getvalue()
