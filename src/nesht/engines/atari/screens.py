"""The networks of the games in flight: one set of weights per game, on the CPU or on a GPU."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from nesht.errors import UserError
from nesht.policies.convolution import ConvNet, Layer, Weights


class Networks(Protocol):
    """As many networks as there are games."""

    def put(self, game: int, parameters: np.ndarray) -> None:
        """Give a game another network."""
        ...

    def act(self, screens: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Return the action of every game; those of games that are not active mean nothing."""
        ...


def make_networks(policy: ConvNet, games: int, device: str) -> Networks:
    """Make networks for some games."""
    return OnGpu(policy, games) if device == "cuda" else OnCpu(policy, games)


class OnCpu:
    """NumPy on one thread."""

    def __init__(self, policy: ConvNet, games: int):
        self._policy = policy
        self._weights = policy.weights(np.zeros((games, policy.size)))

    def put(self, game: int, parameters: np.ndarray) -> None:
        """See `Networks.put`."""
        _copy(self._weights, game, self._policy.weights(parameters[None]))

    def act(self, screens: np.ndarray, active: np.ndarray) -> np.ndarray:
        """See `Networks.act`."""
        if len(active) == len(screens):
            return self._policy.act(self._weights, screens)
        actions = np.zeros(len(screens), np.int64)
        for i in active:
            actions[i] = self._policy.act(self._weights.one(i), screens[i : i + 1])[0]
        return actions


def _copy(ours: Weights, game: int, theirs: Weights) -> None:
    for mine, new in zip(_arrays(ours), _arrays(theirs), strict=True):
        mine[game] = new[0]


def _arrays(weights: Weights) -> list[Any]:
    return [*weights.tiles, *weights.shifts, weights.readout, weights.bias]


def check_cuda() -> None:
    """Raise UserError unless there is a GPU that torch can use."""
    try:
        import torch
    except ImportError as error:
        raise UserError("--device cuda needs `pip install 'nesht[torch]'`.") from error
    if not torch.cuda.is_available():
        raise UserError("torch sees no GPU here; use --device cpu.")


class OnGpu:
    """The same products in torch, all games at a time, on a stream of their own.

    The number of games is part of the order of the sums: on a GPU a run's bits belong to its number of slots.
    """

    def __init__(self, policy: ConvNet, games: int, device: str = "cuda"):
        import torch

        self._torch, self._policy, self._device = torch, policy, torch.device(device)
        self._stream = torch.cuda.Stream() if device == "cuda" else None
        empty = policy.weights(np.zeros((games, policy.size)))
        moved = [torch.as_tensor(array).to(self._device) for array in _arrays(empty)]
        self._weights = Weights((moved[0], moved[1]), (moved[2], moved[3]), moved[4], moved[5])

    def put(self, game: int, parameters: np.ndarray) -> None:
        """See `Networks.put`."""
        new = self._policy.weights(parameters[None])
        with self._torch.cuda.stream(self._stream):
            for mine, array in zip(_arrays(self._weights), _arrays(new), strict=True):
                mine[game] = self._torch.as_tensor(array[0]).to(self._device)

    def act(self, screens: np.ndarray, active: np.ndarray) -> np.ndarray:
        """See `Networks.act`; all look, whether active or not."""
        with self._torch.cuda.stream(self._stream), self._torch.no_grad():
            return np.asarray(self._forward(screens).argmax(dim=1).cpu().numpy())

    def _forward(self, screens: np.ndarray) -> Any:
        first, second = self._policy.layers
        x = self._torch.as_tensor(np.ascontiguousarray(screens)).to(self._device).float()
        cut = x[:, :, : 4 * (first.rows + 1), : 4 * (first.columns + 1)]
        split = cut.reshape(len(x), first.channels, first.rows + 1, 4, first.columns + 1, 4)
        x = split.permute(0, 2, 4, 1, 3, 5).reshape(len(x), -1, first.tile)
        x = self._layer(x, 0, first)
        cut = x[:, : 2 * (second.rows + 1), : 2 * (second.columns + 1)]
        split = cut.reshape(len(x), second.rows + 1, 2, second.columns + 1, 2, second.channels)
        x = self._layer(split.permute(0, 1, 3, 2, 4, 5).reshape(len(x), -1, second.tile), 1, second)
        return self._torch.bmm(self._weights.readout, x.reshape(len(x), -1, 1))[:, :, 0] + self._weights.bias

    def _layer(self, tiles: Any, number: int, layer: Layer) -> Any:
        rows, columns = layer.rows, layer.columns
        products = self._torch.bmm(tiles, self._weights.tiles[number])
        split = products.reshape(len(tiles), rows + 1, columns + 1, 4, layer.filters)
        total = split[:, :rows, :columns, 0] + split[:, :rows, 1:, 1]
        total = total + split[:, 1:, :columns, 2] + split[:, 1:, 1:, 3]
        return self._torch.relu(total + self._weights.shifts[number])
