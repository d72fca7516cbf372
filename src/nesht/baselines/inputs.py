"""Which inputs a trained ANF-SAC is connected to."""

from __future__ import annotations

import tomllib
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from nesht.baselines.run import CONFIG, MODEL
from nesht.config import TaskOptions
from nesht.errors import UserError
from nesht.tasks.task import make_task


@dataclass(frozen=True)
class Connections:
    """The input layer of an actor: how many weights read each input, and how large they are together."""

    names: list[str]
    n_real: int
    count: list[int]
    strength: list[float]

    @property
    def real_share(self) -> float:
        """The share of the connections that read real inputs."""
        return sum(self.count[: self.n_real]) / max(1, sum(self.count))

    def as_dict(self) -> dict[str, object]:
        """Return all of it as plain values."""
        inputs = [
            {"name": name, "real": i < self.n_real, "connections": self.count[i], "strength": self.strength[i]}
            for i, name in enumerate(self.names)
        ]
        return {"real_share": self.real_share, "chance": self.n_real / len(self.names), "inputs": inputs}


def find_models(path: Path) -> list[Path]:
    """Return the folders of baselines' finished runs in a folder, or that it is one."""
    return sorted(file.parent for file in [path / MODEL, *path.glob(f"*/{MODEL}")] if file.exists())


def read_connections(folder: Path) -> Connections:
    """Read the trained model of a run."""
    options = tomllib.loads((folder / CONFIG).read_text())
    if options["algorithm"] != "anf-sac":
        raise UserError(f"{options['algorithm']} reads all its inputs; only anf-sac chooses among them.")
    if find_spec("torch") is None:
        raise UserError("reading this model needs `pip install 'nesht[torch]'`.")
    import torch

    with zipfile.ZipFile(folder / MODEL) as packed, packed.open("policy.pth") as weights:  # tensors alone: no code runs
        tensors = torch.load(weights, map_location="cpu", weights_only=True)
    mask, weight = (tensors[f"actor.latent_pi.0.{name}"] for name in ("mask", "weight"))
    task = make_task(TaskOptions(**options["task"]))
    counts = [int(number) for number in mask.sum(dim=0).tolist()]
    return Connections(task.feature_names, task.n_real, counts, weight.abs().sum(dim=0).tolist())


def print_connections(folder: Path, found: Connections, most: int = 25) -> None:
    """Print the inputs with the most connections."""
    from rich.console import Console
    from rich.table import Table

    chance = found.n_real / len(found.names)
    table = Table(
        title=f"{folder}: {found.real_share:.0%} of the connections read real inputs (by chance {chance:.0%})"
    )
    for column in ("input", "connections", "sum of |weights|"):
        table.add_column(column, justify="left" if column == "input" else "right")
    order = sorted(range(len(found.names)), key=lambda i: (-found.count[i], i))
    for i in order[:most]:
        name = found.names[i] if i < found.n_real else f"[dim]{found.names[i]}[/dim]"
        table.add_row(name, str(found.count[i]), f"{found.strength[i]:.2f}")
    Console().print(table)
    if len(order) > most:
        print(f"and {len(order) - most} more inputs with {found.count[order[most]]} connections or fewer")
