"""NumPy's own format, in double precision: for Python programs that have nothing but NumPy."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from nesht.errors import UserError
from nesht.export.controller import Controller


def to_npz(controller: Controller) -> bytes:
    """Return a file with `weight0`, `bias0`, `weight1`, ..., `names`, `indices`, limits of actions and the facts.

    Nothing is pickled.
    """
    if controller.screen is not None:
        raise UserError("a policy for screens is not written as npz; use --format onnx or torchscript.")
    arrays: dict[str, Any] = {
        "names": np.array(controller.names),
        "indices": controller.indices,
        "layers": np.array(len(controller.layers)),
        "discrete": np.array(controller.discrete),
        "relu": np.array(controller.relu),
        "facts": np.array(controller.facts()),
    }
    for number, layer in enumerate(controller.layers):
        arrays |= {f"weight{number}": layer.weight, f"bias{number}": layer.bias}
    if (limits := controller.limits) is not None:
        arrays |= {"low": np.array(limits.low), "high": np.array(limits.high), "bend": np.array(limits.bend)}
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()
