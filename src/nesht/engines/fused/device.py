"""Where the kernels run: the CPU, on several threads, or a CUDA GPU, on a stream of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from nesht.engines.fused.library import warp
from nesht.errors import UserError

CHUNKS = 8
"""Pieces of work per thread on a CPU: enough that threads end together, few enough that starting one costs nothing."""

FEW = 16
"""Rows of a small kernel that are not dealt out: starting a piece takes as long."""

BLOCK = 256
"""Threads in a block on a GPU where nothing else is said."""

OTHERS_LEFT = 0.75
"""Share of a GPU's places that episodes of several engines take together: the rest is for the small kernels of their
strategies, which would otherwise wait for episodes to end."""

_counting = threading.Lock()

Inputs = Callable[[int], Sequence[Any]]
"""The inputs of a kernel for the piece of work that begins at a row."""

Take = Callable[[Any, int, Any], Sequence[Any]]
"""The inputs of a kernel whose threads take rows from a counter up to a last one and write down their work."""


class Device(Protocol):
    """Arrays in, kernels, arrays out."""

    name: str

    def put(self, array: Any, dtype: Any) -> Any:
        """Return a Warp array on the device with the values of an array, converted."""
        ...

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return a Warp array of zeros on the device."""
        ...

    def copy(self, source: Any, target: Any) -> None:
        """Write the values of a Warp array into another one."""
        ...

    def get(self, array: Any) -> np.ndarray:
        """Return the values of a Warp array once all that was launched is done."""
        ...

    def native(self, array: Any) -> Any:
        """Return a Warp array as what people use on the device, NumPy's or torch's, without a copy."""
        ...

    def spread(self, kernel: Any, rows: int, inputs: Inputs, block: int = BLOCK) -> None:
        """Launch a kernel over rows, on CUDA in blocks of as many threads."""
        ...

    def consume(self, kernel: Any, rows: int, block: int, inputs: Take) -> Any:
        """Launch a kernel whose threads take rows, one after the other, from a counter; returns the work of each."""
        ...

    def wait(self) -> None:
        """Return when all that was launched is done."""
        ...

    def meet(self) -> None:
        """Let what the caller launches next see what was launched here, and the other way round."""
        ...

    def close(self) -> None:
        """Free what is held."""
        ...


def _converted(array: Any, dtype: Any) -> np.ndarray:
    """Return a contiguous array of a type; what is too large for it becomes infinite, and its episode diverges."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=dtype)


class Cpu:
    """Threads of this process; a launch leaves the interpreter, so that they really run side by side."""

    name = "cpu"

    def __init__(self, threads: int):
        self._wp, self._threads = warp(), threads
        self._pool = ThreadPoolExecutor(threads, "nesht-fused")

    def put(self, array: Any, dtype: Any) -> Any:
        """See `Device.put`."""
        plain = _converted(array, self._wp.dtype_to_numpy(dtype))
        return self._wp.array(plain, dtype=dtype, device="cpu", copy=False)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """See `Device.zeros`."""
        return self._wp.zeros(shape, dtype=dtype, device="cpu")

    def copy(self, source: Any, target: Any) -> None:
        """See `Device.copy`."""
        self._wp.copy(target, source)

    def get(self, array: Any) -> np.ndarray:
        """See `Device.get`."""
        return np.asarray(array.numpy())

    def native(self, array: Any) -> Any:
        """See `Device.native`."""
        return array.numpy()

    def spread(self, kernel: Any, rows: int, inputs: Inputs, block: int = BLOCK) -> None:
        """See `Device.spread`."""

        def piece(start: int, stop: int) -> None:
            self._wp.launch(kernel, stop - start, inputs=inputs(start), device="cpu", record_tape=False)

        self._share(rows, piece, least=FEW)

    def consume(self, kernel: Any, rows: int, block: int, inputs: Take) -> Any:
        """See `Device.consume`; every piece counts as a thread."""
        work = self.zeros((rows,), self._wp.int32)

        def piece(start: int, stop: int) -> None:
            counter = self._wp.array([start], dtype=int, device="cpu")
            taken = inputs(counter, stop, work[start:stop])
            self._wp.launch(kernel, 1, inputs=taken, device="cpu", record_tape=False)

        self._share(rows, piece)
        return work

    def wait(self) -> None:
        """See `Device.wait`."""

    def meet(self) -> None:
        """See `Device.meet`."""

    def _share(self, rows: int, piece: Callable[[int, int], None], least: int = 1) -> None:
        """Let threads do pieces of so many rows at least, if that leaves one for each thread."""
        size = max(1, -(-rows // (self._threads * CHUNKS)), min(least, -(-rows // self._threads)))
        if 0 < rows <= size:  # another thread would only take its time
            piece(0, rows)
            return
        futures = [self._pool.submit(piece, start, min(start + size, rows)) for start in range(0, rows, size)]
        try:
            for future in futures:
                future.result()
        except BaseException:  # also Ctrl-C: nothing may go on behind our back
            for future in futures:
                future.cancel()
            for future in futures:
                if not future.cancelled():
                    future.exception()
            raise

    def close(self) -> None:
        """See `Device.close`."""
        self._pool.shutdown()


class Cuda:
    """A GPU through a stream of its own: several engines keep one GPU busy at a time.

    Engines that are open side by side share its threads. A thread takes one episode after the other, so that all have
    work until the end; if every episode had a thread of its own, those whose episode was short would hold their place
    and do nothing.
    """

    name = "cuda"
    _open = 0
    """How many there are now."""

    def __init__(self) -> None:
        import torch

        self._wp, self._torch = warp(), torch
        self._stream = torch.cuda.Stream()
        self._warp_stream = self._wp.stream_from_torch(self._stream)
        self._device = self._warp_stream.device
        with _counting:
            Cuda._open += 1

    def put(self, array: Any, dtype: Any) -> Any:
        """See `Device.put`."""
        with self._torch.cuda.stream(self._stream):
            if not isinstance(array, self._torch.Tensor):
                array = _converted(array, self._wp.dtype_to_numpy(dtype))
                if array.dtype == np.uint32:  # torch knows its bits by another name
                    array = array.view(np.int32)
                tensor = self._torch.as_tensor(array).to("cuda")
            else:
                tensor = array.to("cuda", self._wp.dtype_to_torch(dtype)).contiguous()
            return self._wp.from_torch(tensor, dtype=dtype, requires_grad=False)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """See `Device.zeros`."""
        with self._torch.cuda.stream(self._stream):
            try:
                tensor = self._torch.zeros(shape, dtype=self._wp.dtype_to_torch(dtype), device="cuda")
            except self._torch.cuda.OutOfMemoryError:
                words = f"the GPU has no room for {shape[0]} episodes of this policy"
                raise UserError(f"{words}; train fewer seeds at a time, or with a smaller n.") from None
            return self._wp.from_torch(tensor, dtype=dtype, requires_grad=False)

    def copy(self, source: Any, target: Any) -> None:
        """See `Device.copy`."""
        self._wp.copy(target, source, stream=self._warp_stream)

    def get(self, array: Any) -> np.ndarray:
        """See `Device.get`."""
        with self._torch.cuda.stream(self._stream):
            return np.asarray(self._wp.to_torch(array).cpu().numpy())

    def native(self, array: Any) -> Any:
        """See `Device.native`."""
        return self._wp.to_torch(array)

    def spread(self, kernel: Any, rows: int, inputs: Inputs, block: int = BLOCK) -> None:
        """See `Device.spread`."""
        stream = self._warp_stream
        self._wp.launch(kernel, rows, inputs=inputs(0), stream=stream, block_dim=block, record_tape=False)

    def consume(self, kernel: Any, rows: int, block: int, inputs: Take) -> Any:
        """See `Device.consume`."""
        threads = min(rows, self._threads(block))
        counter, work = self.zeros((1,), self._wp.int32), self.zeros((threads,), self._wp.int32)
        self._wp.launch(
            kernel,
            threads,
            inputs=inputs(counter, rows, work),
            stream=self._warp_stream,
            block_dim=block,
            record_tape=False,
        )
        return work

    def wait(self) -> None:
        """See `Device.wait`; the thread sleeps, so that others that wait do not fight for the cores."""
        done = self._torch.cuda.Event(blocking=True)
        done.record(self._stream)
        done.synchronize()

    def meet(self) -> None:
        """See `Device.meet`; in this order, because theirs may be recording a graph, which ours then joins."""
        theirs = self._torch.cuda.current_stream()
        self._stream.wait_stream(theirs)
        theirs.wait_stream(self._stream)

    def _threads(self, block: int) -> int:
        """How many threads a kernel may have: its share of what its launch bounds let the GPU hold at a time."""
        from nesht.engines.fused.kernel.episode import BLOCKS

        blocks = int(self._device.sm_count) * BLOCKS
        return block * (blocks if Cuda._open == 1 else max(1, int(OTHERS_LEFT * blocks / Cuda._open)))

    def close(self) -> None:
        """See `Device.close`."""
        self._stream.synchronize()
        with _counting:
            Cuda._open -= 1
