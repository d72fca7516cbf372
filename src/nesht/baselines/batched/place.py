"""Where all runs are trained: the CPU, or a CUDA GPU on a stream of its own, with steps played from graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from nesht.baselines.batched import OFF_POLICY
from nesht.baselines.batched.products import Whole
from nesht.engines.fused.library import compiling, load, warp

if TYPE_CHECKING:
    from nesht.baselines.batched.halves import Halves
    from nesht.tasks.task import Task

WARM = 3
"""How often a function runs as it is written before it is recorded: what it allocates once is then there."""
WIDEST = 512
"""Inputs of networks, and units of their second hidden layer, that kernels for halved numbers have room for."""


class Place:
    """A device for tensors and for the kernels that work on them.

    Args:
        device: cpu or cuda.
        graphs: on CUDA, play what is recorded from graphs.
        products: how the networks of learners round what they multiply: not (float32), or halved (float16, which needs
            Triton).
    """

    def __init__(self, device: str, graphs: bool = True, products: torch.dtype = torch.float32):
        self._wp, self.device, self.on_gpu = warp(), torch.device(device), device == "cuda"
        self.graphs, self.products = graphs and self.on_gpu, _how(products)
        self.stream = torch.cuda.Stream() if self.on_gpu else None
        self._checked: set[Any] = set()
        self._where = {"stream": self._wp.stream_from_torch(self.stream)} if self.on_gpu else {"device": "cpu"}
        with compiling:
            from nesht.baselines.batched import kernels, onpolicy_kernels
            from nesht.engines.fused.kernel.draws import build_draws

            named = {**vars(kernels), **vars(onpolicy_kernels)}
            own = {name: each for name, each in named.items() if isinstance(each, self._wp.Kernel)}
            draws = build_draws(self.on_gpu, self._wp.dtype_from_torch(products))
            self.kernels = SimpleNamespace(**vars(draws), **own)
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
        """Launch a kernel with so many threads; its inputs are tensors and numbers.

        The kinds of tensors are checked at its first launch; later ones are handed over as they are, which is faster.
        """
        how = {"return_ctype": kernel in self._checked}
        self._checked.add(kernel)
        given = [self._wp.from_torch(each, **how) if isinstance(each, torch.Tensor) else each for each in inputs]
        self._wp.launch(kernel, size, inputs=given, record_tape=False, **self._where)

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        """Return what does the same as a function: on CUDA, after some calls, as a graph of all that it launches."""
        return _Player(self, function) if self.graphs else function


def products_for(algorithm: str, settings: dict[str, Any], task: Task, device: str) -> torch.dtype:
    """Return how the networks of an algorithm's learners round what they multiply: halved where that can be had.

    On-policy learners multiply little; networks of other than two hidden layers, or wider ones, do not fit kernels.
    """
    hidden = settings["net_arch"]
    fits = len(hidden) == 2 and max(len(task.feature_names) + task.outputs, hidden[1]) <= WIDEST
    can = device == "cuda" and torch.cuda.get_device_capability() >= (8, 0) and find_spec("triton") is not None
    return torch.float16 if algorithm in OFF_POLICY and fits and can else torch.float32


def _how(products: torch.dtype) -> Whole | Halves:
    if products == torch.float32:
        return Whole()
    from nesht.baselines.batched.halves import Halves

    return Halves()


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
