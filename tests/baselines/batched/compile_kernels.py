"""Compiles what a learner launches for GPUs that are not here; says how much shared memory each kernel takes, as JSON.

python compile_kernels.py ALGORITHM FEATURES CAPABILITY SHARED
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import triton
from lessons import ACTIONS, learn_something
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from nesht.baselines.batched import half_kernels
from nesht.baselines.batched.learner import Shape
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.training import LEARNERS
from nesht.baselines.changes import changed

TYPES = {torch.float16: "*fp16", torch.float32: "*fp32"}


class Recorder:
    """Takes the place of a kernel, and remembers how it is launched."""

    def __init__(self, kernel: Any):
        self.kernel, self.launches = kernel, dict[str, ASTSource]()
        self.options: dict[str, dict[str, int]] = {}

    def __getitem__(self, grid: Any) -> Any:
        return self._launch

    def _launch(self, *given: Any, **named: Any) -> None:
        names = self.kernel.arg_names
        values = dict(zip(names, given, strict=False)) | {name: named[name] for name in names if name in named}
        options = {name: value for name, value in named.items() if name not in names}
        signature, constants, attributes = {}, {}, {}
        for i, (name, value) in enumerate(values.items()):
            if name in named or (isinstance(value, int) and value == 1):
                signature[name], constants[(i,)] = "constexpr", value
            elif isinstance(value, torch.Tensor):
                signature[name], attributes[(i,)] = TYPES[value.dtype], [["tt.divisibility", 16]]
            else:
                signature[name] = "fp32" if isinstance(value, float) else "i32"
                if isinstance(value, int) and value % 16 == 0:
                    attributes[(i,)] = [["tt.divisibility", 16]]
        key = str((signature, constants, attributes, options))
        self.launches[key] = ASTSource(self.kernel, signature, constexprs=constants, attrs=attributes)
        self.options[key] = options


def main(algorithm: str, features: int, capability: int, shared: int) -> None:
    settings = changed(algorithm, ["buffer_size=10"])
    place = Place("cpu", products=torch.float16)
    place.products._shared = shared  # type: ignore[union-attr]
    recorders = {name: Recorder(getattr(half_kernels, name)) for name in ("forward", "back", "learn")}
    for name, recorder in recorders.items():
        setattr(half_kernels, name, recorder)
    learner = LEARNERS[algorithm](Shape(features, ACTIONS), settings, range(2), place)
    learn_something(learner, updates=1, rows=settings["batch_size"])
    for rows in (1, 10):
        learner.best(torch.zeros(2, rows, features))
    found = []
    for name, recorder in recorders.items():
        for key, source in recorder.launches.items():
            options = recorder.options[key]
            compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
            found.append({"kernel": name, "shared": compiled.metadata.shared, **options})
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
