"""Perturbations, members and their ready-to-run policies, made on the device from their keys."""

from types import SimpleNamespace

import warp as wp

from nesht import keys
from nesht.engines.fused.kernel.random import normals, philox, word4
from nesht.engines.fused.kernel.shapes import PRECISIONS

PERTURBATION = wp.constant(wp.uint32(keys.Stream.PERTURBATION.value))


@wp.func
def four_of_direction(seed: wp.uint32, generation: wp.uint32, number: int, block: int):
    """Return four numbers of a direction."""
    return normals(philox(word4(wp.uint32(number), wp.uint32(0), PERTURBATION, wp.uint32(block)), seed, generation))


def build_directions(precision: str) -> wp.Kernel:
    """Return the kernel that writes directions start, start + 1, ... of every run, four numbers a thread."""
    real = PRECISIONS[precision]

    @wp.kernel(name=f"directions_{precision}", module="unique", enable_backward=False)
    def directions(
        seed: wp.array(dtype=wp.uint32),
        generation: wp.array(dtype=wp.uint32),
        start: int,
        first: int,
        out: wp.array3d(dtype=real),
    ):
        row = first + wp.tid()
        blocks = (out.shape[2] + 3) // 4
        block = row % blocks
        number = (row // blocks) % out.shape[1]
        run = row // (blocks * out.shape[1])
        z = four_of_direction(seed[run], generation[run], start + number, block)
        for m in range(4):
            if 4 * block + m < out.shape[2]:
                out[run, number, 4 * block + m] = real(z[m])

    return directions


def build_combine() -> wp.Kernel:
    """Return the kernel that adds up all directions of every run, each times its weight; four numbers a thread."""
    double = wp.float64

    @wp.kernel(name="combine", module="unique", enable_backward=False)
    def combine(
        seed: wp.array(dtype=wp.uint32),
        generation: wp.array(dtype=wp.uint32),
        weights: wp.array2d(dtype=double),
        first: int,
        out: wp.array2d(dtype=double),
    ):
        row = first + wp.tid()
        blocks = (out.shape[1] + 3) // 4
        block = row % blocks
        run = row // blocks
        total = wp.vec4d()
        for number in range(weights.shape[1]):
            z = four_of_direction(seed[run], generation[run], number, block)
            for m in range(4):
                total[m] += weights[run, number] * double(z[m])
        for m in range(4):
            if 4 * block + m < out.shape[1]:
                out[run, 4 * block + m] = total[m]

    return combine


def build_norms(precision: str) -> wp.Kernel:
    """Return the kernel that writes the L1 norm of every member, one direction a thread: of theta + width eps, and of
    theta - width eps if `out` has a place for it.
    """
    real, double = PRECISIONS[precision], wp.float64

    @wp.kernel(name=f"norms_{precision}", module="unique", enable_backward=False)
    def norms(
        seed: wp.array(dtype=wp.uint32),
        generation: wp.array(dtype=wp.uint32),
        theta: wp.array2d(dtype=real),
        width: wp.array2d(dtype=real),
        first: int,
        out: wp.array3d(dtype=double),
    ):
        row = first + wp.tid()
        number = row % out.shape[1]
        run = row // out.shape[1]
        plus = double(0.0)
        minus = double(0.0)
        for block in range((theta.shape[1] + 3) // 4):
            z = four_of_direction(seed[run], generation[run], number, block)
            for m in range(4):
                i = 4 * block + m
                if i < theta.shape[1]:
                    step = width[run, i] * real(z[m])
                    plus += double(wp.abs(theta[run, i] + step))
                    minus += double(wp.abs(theta[run, i] - step))
        out[run, number, 0] = plus
        if out.shape[2] > 1:
            out[run, number, 1] = minus

    return norms


def build_members(precision: str) -> wp.Kernel:
    """Return the kernel that writes theta + sign width eps for every episode, four numbers a thread.

    `number` is the direction of an episode's member, `sign` is +1, -1, or 0 for the policy itself.
    """
    real = PRECISIONS[precision]

    @wp.kernel(name=f"members_{precision}", module="unique", enable_backward=False)
    def members(
        theta: wp.array2d(dtype=real),
        width: wp.array2d(dtype=real),
        seed: wp.array(dtype=wp.uint32),
        generation: wp.array(dtype=wp.uint32),
        run: wp.array(dtype=int),
        number: wp.array(dtype=int),
        sign: wp.array(dtype=int),
        first: int,
        out: wp.array2d(dtype=real),
    ):
        row = first + wp.tid()
        blocks = (out.shape[1] + 3) // 4
        block = row % blocks
        e = row // blocks
        r = run[e]
        z = four_of_direction(seed[r], generation[r], number[e], block)
        for m in range(4):
            i = 4 * block + m
            if i < out.shape[1]:
                out[e, i] = theta[r, i] + real(sign[e]) * width[r, i] * real(z[m])

    return members


def build_fold(precision: str, motors: int) -> wp.Kernel:
    """Return the kernel that makes the rows of `episode.build_linear` from members, one a thread.

    With weights W, bias b and normaliser x -> (x - mean) scale, the real features enter as (W scale) x, the constant is
    b - (W scale) mean over all features, and the distractors add N(0, V), V = (W scale)(W scale)' over them.
    """
    real = PRECISIONS[precision]
    square = wp.types.matrix((motors, motors), real)
    column = wp.types.vector(motors, real)
    zero, tiny = real(0), real(1e-12)

    @wp.kernel(name=f"fold_{precision}_{motors}", module="unique", enable_backward=False)
    def fold(
        members: wp.array2d(dtype=real),
        mean: wp.array2d(dtype=real),
        scale: wp.array2d(dtype=real),
        run: wp.array(dtype=int),
        first: int,
        features: int,
        n_real: int,
        has_bias: int,
        out: wp.array2d(dtype=real),
    ):
        e = first + wp.tid()
        r = run[e]
        constant = column()
        w = column()
        V = square()
        if has_bias != 0:
            for k in range(motors):
                constant[k] = members[e, motors * features + k]
        for i in range(features):
            for k in range(motors):
                w[k] = members[e, k * features + i] * scale[r, i]
                constant[k] -= w[k] * mean[r, i]
            if i < n_real:
                for k in range(motors):
                    out[e, i * motors + k] = w[k]
            else:
                for k in range(motors):
                    for m in range(wp.static(k + 1)):
                        V[k, m] += w[k] * w[m]
        at = n_real * motors
        for k in range(motors):
            out[e, at + k] = constant[k]
        at += motors
        # Cholesky factor of V; a direction without variance gets a zero column
        L = square()
        for k in range(motors):
            for m in range(wp.static(k + 1)):
                s = V[k, m]
                for j in range(m):
                    s -= L[k, j] * L[m, j]
                if wp.static(k == m):
                    L[k, m] = wp.sqrt(wp.max(s, zero))
                else:
                    L[k, m] = wp.where(L[m, m] * L[m, m] > tiny * V[m, m], s / wp.max(L[m, m], tiny), zero)
                out[e, at + wp.static(k * (k + 1) // 2) + m] = L[k, m]

    return fold


def build_all(precision: str, motors: int) -> SimpleNamespace:
    """Return all kernels of this file."""
    return SimpleNamespace(
        directions=build_directions(precision),
        combine=build_combine(),
        norms=build_norms(precision),
        members=build_members(precision),
        fold=build_fold(precision, motors),
    )
