"""`nesht export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from nesht.errors import UserError

if TYPE_CHECKING:
    from nesht.export.controller import Controller


@dataclass(frozen=True)
class Export:
    """Write a policy for programs without nesht: only the inputs it reads, normaliser folded in."""

    path: tyro.conf.Positional[Path]
    """A run folder or a policy file."""
    format: Literal["onnx", "npz", "c", "torchscript"]
    """onnx, npz (NumPy), c (one header), or torchscript."""
    out: Path | None = None
    """The file (default: beside the policy, for example runs/x/policy.onnx)."""

    def execute(self) -> None:
        """Write the file and say what a controller has to read."""
        from nesht.commands.policies import find_policy
        from nesht.export import FORMATS, export_policy
        from nesht.export.check import ROWS, largest_difference
        from nesht.policies.saved import FILE, load_policy
        from nesht.training.folder import check_target

        found = find_policy(self.path, "export")
        policy, form = load_policy(found), FORMATS[self.format]
        source = found / FILE if found.is_dir() else found
        out = self.out or source.with_suffix(form.suffix)
        if out.resolve() == source.resolve():
            raise UserError(f"{out} is the policy itself; choose another --out.")
        check_target(out)
        controller = export_policy(policy, self.format, out)
        if controller.screen is not None:
            print("{} frames of {} x {} bytes to read".format(*controller.screen))
        else:
            _print_inputs(controller)
            if noise := int(policy.used[policy.n_real :].sum()):
                print(f"{noise} of them are noise that training added; a constant 0 will do for each.")
            difference = largest_difference(policy, controller, form.precision)
            print(
                f"On {ROWS:,} random observations, rounding to {form.precision.__name__} moves no output by more than "
                f"{difference:.1e}."
            )
        print(f"written to {out}")


def _print_inputs(controller: Controller) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    title = f"{len(controller.names)} of {controller.features} inputs to read"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in ("place", "input", "index in training"):
        table.add_column(column, justify="left" if column == "input" else "right")
    for place, (name, index) in enumerate(zip(controller.names, controller.indices, strict=True)):
        table.add_row(str(place), escape(name), str(index))
    Console().print(table)
