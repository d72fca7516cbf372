"""`nesht tune`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nesht.commands.runs import parse_seeds, slug
from nesht.config import Config
from nesht.errors import UserError

SHOWN = 8
"""How many settings to print."""


@dataclass(frozen=True)
class Tune:
    """Search for the sparsity, sigma and learning rate that suit an environment: nesht tune --env CartPole-v1."""

    budget: int = 20_000_000
    """Environment steps of the whole search."""
    out: Path | None = None
    """The folder of the search (default: runs/tune-ENV-xNOISE); a search that is there goes on."""
    trials: int = 16
    """How many settings to try; the first is the one that the options name."""
    seeds: str = "1000-1001"
    """Seeds to try every setting with: 1000-1003, or 1000,1005; others than those you report results on."""
    search: tuple[Literal["sparsity", "sigma", "lr"], ...] = ("sparsity", "sigma", "lr")
    """What to search, around the options: sparsity (beta or k), sigma, lr."""
    overwrite: bool = False
    """Begin anew where there is another search."""
    preset: Literal["tuned", "paper", "reference"] = "tuned"
    """Options to start from."""
    config: Path | None = None
    """A TOML file with options; it overrides the preset, flags override it."""
    options: Config = field(default_factory=Config)

    def execute(self) -> None:
        """Search and say what came out."""
        from nesht.tuning.search import tune

        if not self.search:
            raise UserError("what to search? For example: --search sparsity sigma lr")
        result = tune(
            config=self.options,
            budget=self.budget,
            out=self.out or Path("runs") / f"tune-{slug(self.options)}",
            trials=self.trials,
            seeds=parse_seeds(self.seeds),
            search=self.search,
            overwrite=self.overwrite,
        )
        _print(result, self.search)
        print(f"{result.steps:,} steps spent; all trials are in {result.folder / 'trials.csv'}")
        print(f"Train with the best: nesht train --config {result.folder / 'best.toml'}")


def _print(result: Any, search: tuple[str, ...]) -> None:
    from rich.console import Console
    from rich.table import Table

    from nesht.tuning.draws import searched

    names = searched(result.config, search)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("trial", "score", "inputs", "steps", *names):
        table.add_column(name, justify="right")
    for trial in result.trials[:SHOWN]:
        facts = (str(trial.number), f"{trial.score:.1f}", f"{trial.inputs:g}", f"{trial.steps:,}")
        table.add_row(*facts, *(str(getattr(trial.config.strategy, name)) for name in names))
    Console().print(table)
