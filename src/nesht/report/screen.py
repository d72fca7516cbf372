"""Which parts of a screen a policy's read-out reads: as a picture over a frame, and as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console

from nesht.policies.convolution import ConvNet
from nesht.policies.saved import Policy
from nesht.report.watch import last_screen

GRID = 3


def saliency(policy: Policy) -> np.ndarray:
    """Return how strongly each pixel reaches the actions, (height, width), the strongest 1.

    From every kept input of the read-out its strength (the norm of the weights that read it) goes back along the
    absolute weights of both convolutions, to all pixels that it sees. That is divided by what a pixel would get if all
    inputs were equally strong: at the edge of the screen fewer of them see it.
    """
    network = policy.network
    assert isinstance(network, ConvNet)
    w1, _, w2, _, readout, _ = (block.of(policy.parameters[None])[0] for block in network.blocks)
    first, second = network.layers
    strength = np.linalg.norm(readout, axis=0).reshape(second.filters, second.rows, second.columns)

    def pixels(strength: np.ndarray) -> np.ndarray:
        middle = _back(strength, np.abs(w2), second.stride, (first.rows, first.columns))
        return np.asarray(_back(middle, np.abs(w1), first.stride, (network.height, network.width)).sum(axis=0))

    found, even = pixels(strength), pixels(np.ones_like(strength))
    relative = np.divide(found, even, out=np.zeros_like(found), where=even > 0)
    return np.asarray(relative / (relative.max() or 1.0))


def _back(strength: np.ndarray, weights: np.ndarray, stride: int, size: tuple[int, int]) -> np.ndarray:
    """Return what (filters, rows, columns) strengths put on (channels, *size) through absolute weights."""
    _, rows, columns = strength.shape
    found = np.zeros((weights.shape[1], *size))
    for y in range(weights.shape[2]):
        for x in range(weights.shape[3]):
            part = np.einsum("frc,fk->krc", strength, weights[:, :, y, x])
            found[:, y : y + stride * rows : stride, x : x + stride * columns : stride] += part
    return found


def draw_saliency(axes: Any, policy: Policy) -> None:
    """Draw what the policy looks at over a screen of an episode of its own."""
    axes.imshow(last_screen(policy), cmap="gray")
    shade = axes.imshow(saliency(policy), cmap="inferno", alpha=0.55, vmin=0)
    axes.figure.colorbar(shade, ax=axes, shrink=0.8, label="reach into the actions")
    used = int(policy.used.sum())
    axes.set_title(f"{used} of {policy.network.inputs} read-out inputs kept", loc="left", fontsize=10)
    axes.set_axis_off()


def screen_report(policy: Policy) -> dict[str, Any]:
    """Return what the read-out keeps, in numbers: in all, by filter, and by part of the screen (top row first)."""
    network = policy.network
    assert isinstance(network, ConvNet)
    last = network.layers[1]
    used = policy.used.reshape(last.filters, last.rows, last.columns)
    map_ = saliency(policy)
    total = map_.sum() or 1.0
    parts = [
        [float(cell.sum() / total) for cell in np.array_split(row, GRID, axis=1)] for row in np.array_split(map_, GRID)
    ]
    return {
        "kept": int(used.sum()),
        "inputs": network.inputs,
        "by_filter": used.sum(axis=(1, 2)).tolist(),
        "share_by_part": parts,
    }


def print_screen(title: str, report: dict[str, Any], console: Console | None = None) -> None:
    """Print what the read-out keeps."""
    console = console or Console()
    console.print(f"{title}\n{report['kept']} of {report['inputs']} read-out inputs kept.", highlight=False)
    unused = report["by_filter"].count(0)
    if unused:
        console.print(f"{unused} of {len(report['by_filter'])} filters are not read at all.", highlight=False)
    console.print("Where on the screen their strength lies, in ninths:", highlight=False)
    for row in report["share_by_part"]:
        console.print("  " + "  ".join(f"{share:6.1%}" for share in row), highlight=False)
    console.print("A picture of it: --figure screen.png", highlight=False)
