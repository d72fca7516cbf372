"""Every format by name, and the file it becomes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nesht.errors import UserError
from nesht.export.c import to_c
from nesht.export.controller import Controller, controller_of
from nesht.export.npz import to_npz
from nesht.export.onnx import to_onnx
from nesht.export.torchscript import to_torchscript
from nesht.policies.saved import Policy
from nesht.storage import write_file


class Format(NamedTuple):
    """How a file of a format ends, in which precision it computes, and what makes it."""

    suffix: str
    precision: type[np.floating]
    make: Callable[[Controller, str], bytes]


FORMATS = {
    "onnx": Format(".onnx", np.float32, lambda controller, _: to_onnx(controller)),
    "npz": Format(".npz", np.float64, lambda controller, _: to_npz(controller)),
    "c": Format(".h", np.float32, to_c),
    "torchscript": Format(".pt", np.float32, lambda controller, _: to_torchscript(controller)),
}


def export_policy(policy: Policy, format: str, out: str | Path) -> Controller:
    """Write a policy into a file that needs no nesht, and return what is in it.

    Args:
        policy: a trained policy.
        format: onnx, npz, c or torchscript.
        out: the file; in C, all names begin with its name.

    Examples:
        >>> controller = export_policy(nesht.load_policy("runs/hopper"), "onnx", "hopper.onnx")
        >>> controller.names  # what to read, in order
    """
    if format not in FORMATS:
        raise UserError(f"unknown format {format!r}; use one of {', '.join(FORMATS)}.")
    controller, out = controller_of(policy), Path(out)
    if out.is_dir():
        raise UserError(f"{out} is a folder; --out is the file to write.")
    content = FORMATS[format].make(controller, out.stem)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_file(out, content)
    return controller
