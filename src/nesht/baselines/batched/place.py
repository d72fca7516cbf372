"""Where all runs are trained: the CPU, or a CUDA GPU on a stream of its own, with steps played from graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from nesht.engines.fused.device import compiling, load, warp

ROW = 8
"""Halved numbers in 16 bytes: tensor cores read rows fastest that begin at multiples of them."""

FOUR = 4
"""Numbers of a row that one thread works on."""

MOST, SCALE = 6e4, 1024.0
"""The largest number that is multiplied where numbers are halved, and what gradients are multiplied with on their way
there, so that small ones are not lost: 16 bits hold 6e-8 to 65504, with three digits."""

WARM = 3
"""How often a function runs as it is written before it is recorded: what it allocates once is then there."""


class Place:
    """A device for tensors and for the kernels that work on them.

    Args:
        device: cpu or cuda.
        graphs: on CUDA, play what is recorded from graphs.
        products: how the networks of learners round what they multiply: not (float32), or halved (float16).
    """

    def __init__(self, device: str, graphs: bool = True, products: torch.dtype = torch.float32):
        self._wp, self.device, self.on_gpu = warp(), torch.device(device), device == "cuda"
        self.graphs, self.products = graphs and self.on_gpu, products
        self.most, self.scale = (MOST, SCALE) if products == torch.float16 else (math.inf, 1.0)
        one = self._wp.dtype_from_torch(products)
        self._four = self._wp.types.vector(length=FOUR, dtype=one)
        self.stream = torch.cuda.Stream() if self.on_gpu else None
        self._where = {"stream": self._wp.stream_from_torch(self.stream)} if self.on_gpu else {"device": "cpu"}
        with compiling:
            from nesht.baselines.batched import kernels, layer_kernels, onpolicy_kernels
            from nesht.engines.fused.kernel.draws import build_draws

            named = {**vars(kernels), **vars(layer_kernels), **vars(onpolicy_kernels)}
            own = {name: each for name, each in named.items() if isinstance(each, self._wp.Kernel)}
            self.kernels = SimpleNamespace(**vars(build_draws(self.on_gpu)), **own)
            for kernel in vars(self.kernels).values():
                load(kernel, device)

    @contextmanager
    def work(self) -> Iterator[None]:
        """Let tensors be made and used here."""
        if not self.on_gpu:
            yield
            return
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = False
        try:
            with torch.cuda.stream(self.stream):
                yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    def launch(self, kernel: Any, size: int | tuple[int, ...], *inputs: Any) -> None:
        """Launch a kernel with so many threads; its inputs are tensors and numbers."""
        given = [self._wp.from_torch(each) if isinstance(each, torch.Tensor) else each for each in inputs]
        self._wp.launch(kernel, size, inputs=given, record_tape=False, **self._where)

    def fours(self, tensor: torch.Tensor) -> Any:
        """Return what is multiplied, [..., n], as an array [..., n / 4] of four each, which one thread works on."""
        return self._wp.from_torch(tensor.unflatten(-1, (-1, FOUR)), dtype=self._four)

    def multiply(self, left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> None:
        """Write the products of matrices; sums of halved numbers have more digits, as many as `out` has room for."""
        if out.dtype == left.dtype:
            torch.bmm(left, right, out=out)
        elif self.on_gpu:
            torch.bmm(left, right, out_dtype=out.dtype, out=out)
        else:
            torch.bmm(left.to(out.dtype), right.to(out.dtype), out=out)

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        """Return what does the same as a function: on CUDA, after some calls, as a graph of all that it launches."""
        return _Player(self, function) if self.graphs else function


def can_halve(device: str) -> bool:
    """Whether products of halved numbers with sums of all digits are to be had there."""
    new = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)
    return new and device == "cuda" and torch.cuda.get_device_capability() >= (8, 0)


def spare(width: int) -> int:
    """Return how many numbers a row of so many wants after it, for the next to begin at such a place."""
    return -width % ROW


class _Player:
    """Runs a function, and later plays the graph of it."""

    def __init__(self, place: Place, function: Callable[[], None]):
        self._place, self._function, self._calls = place, function, 0
        self._graph: Any = None

    def __call__(self) -> None:
        if self._graph is None and self._calls < WARM:
            self._calls += 1
            self._function()
            return
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=self._place.stream):  # recorded, not run
                self._function()
        self._graph.replay()
