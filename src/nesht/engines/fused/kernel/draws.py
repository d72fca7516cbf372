"""Random numbers of learners, and the distractors of any moment of any episode, made on the device from their keys."""

from functools import cache
from types import SimpleNamespace
from typing import Any

import warp as wp

from nesht import keys
from nesht.engines.fused.kernel.random import Key, normals, uniform, words

NOISE = wp.constant(keys.Stream.NOISE.value)
PERTURBATION = wp.constant(keys.Stream.PERTURBATION.value)


@wp.func
def drawn(seed: wp.int32, step: wp.int32, purpose: int, block: int):
    """Return four numbers for a purpose in a step of a run."""
    key = Key()
    key.seed = wp.uint32(seed)
    key.generation = wp.uint32(step)
    key.member = wp.uint32(purpose)
    key.rollout = wp.uint32(0)
    return words(key, PERTURBATION, block)


@wp.func
def distractors(seed: wp.int32, episode: wp.int32, time: wp.int32, blocks: int, block: int):
    """Return four distractors of a moment that has so many blocks of them, as `FusedVectorEnv` shows it."""
    key = Key()
    key.seed = wp.uint32(seed)
    key.generation = wp.uint32(episode)
    key.member = wp.uint32(0)
    key.rollout = wp.uint32(0)
    return normals(words(key, NOISE, time * blocks + block))


@cache
def build_draws(fast_math: bool, multiplied: Any) -> SimpleNamespace:
    """Return the kernels; every thread makes four numbers, and rows follow each other. Networks multiply that type."""
    options = {"fast_math": fast_math}

    @wp.kernel(name=f"draw_normals_{fast_math}", module="unique", enable_backward=False, module_options=options)
    def draw_normals(seed: wp.array(dtype=int), step: wp.array(dtype=int), purpose: int, out: wp.array2d(dtype=float)):
        i = wp.tid()
        blocks = (out.shape[1] + 3) // 4
        run = i // blocks
        block = i % blocks
        z = normals(drawn(seed[run], step[0], purpose, block))
        for m in range(4):
            if 4 * block + m < out.shape[1]:
                out[run, 4 * block + m] = z[m]

    @wp.kernel(name=f"draw_uniforms_{fast_math}", module="unique", enable_backward=False, module_options=options)
    def draw_uniforms(seed: wp.array(dtype=int), step: wp.array(dtype=int), purpose: int, out: wp.array2d(dtype=float)):
        i = wp.tid()
        blocks = (out.shape[1] + 3) // 4
        run = i // blocks
        block = i % blocks
        w = drawn(seed[run], step[0], purpose, block)
        for m in range(4):
            if 4 * block + m < out.shape[1]:
                out[run, 4 * block + m] = uniform(w[m])

    @wp.kernel(name=f"draw_places_{fast_math}", module="unique", enable_backward=False, module_options=options)
    def draw_places(
        seed: wp.array(dtype=int), step: wp.array(dtype=int), purpose: int, most: int, out: wp.array2d(dtype=wp.int64)
    ):
        """Draw places among the first `step`, or `most` if that is less."""
        i = wp.tid()
        blocks = (out.shape[1] + 3) // 4
        run = i // blocks
        block = i % blocks
        w = drawn(seed[run], step[0], purpose, block)
        count = wp.uint64(wp.min(step[0], most))
        for m in range(4):
            if 4 * block + m < out.shape[1]:
                out[run, 4 * block + m] = wp.int64((wp.uint64(w[m]) * count) >> wp.uint64(32))

    @wp.kernel(name=f"observe_{fast_math}", module="unique", enable_backward=False, module_options=options)
    def observe(
        seed: wp.array(dtype=int),
        rows_per_seed: int,
        moment: wp.array2d(dtype=int),
        later: int,
        seen: wp.array2d(dtype=float),
        out: wp.array2d(dtype=float),
    ):
        """Write what `FusedVectorEnv` shows, `later` than a moment (an episode, a time): real features, distractors."""
        i = wp.tid()
        real = seen.shape[1]
        blocks = (out.shape[1] - real + 3) // 4
        row = i // blocks
        block = i % blocks
        for j in range(block, real, blocks):
            out[row, j] = seen[row, j]
        z = distractors(seed[row // rows_per_seed], moment[row, 0], moment[row, 1] + later, blocks, block)
        for m in range(4):
            if real + 4 * block + m < out.shape[1]:
                out[row, real + 4 * block + m] = z[m]

    @wp.kernel(
        name=f"recall_{fast_math}_{multiplied.__name__}", module="unique", enable_backward=False, module_options=options
    )
    def recall(
        seed: wp.array(dtype=int),
        places: wp.array2d(dtype=wp.int64),
        numbers: wp.array3d(dtype=float),
        moments: wp.array3d(dtype=int),
        real: int,
        features: int,
        actions: int,
        most: float,
        seen: wp.array4d(dtype=multiplied),
        rest: wp.array3d(dtype=float),
    ):
        """Write transitions out of a memory: what was seen and done, then what was seen next, and what came of it."""
        half, run, row, block = wp.tid()
        place = int(places[run, row])
        blocks = (features - real + 3) // 4
        for j in range(block, real, wp.max(blocks, 1)):
            seen[half, run, row, j] = multiplied(wp.clamp(numbers[run, place, half * real + j], -most, most))
        if block < blocks:
            time = moments[run, place, 1] + half
            z = distractors(seed[run], moments[run, place, 0], time, blocks, block)
            for m in range(4):
                if real + 4 * block + m < features:
                    seen[half, run, row, real + 4 * block + m] = multiplied(z[m])
        for j in range(features + block, seen.shape[3], wp.max(blocks, 1)):
            value = float(0.0)
            if half == 0 and j < features + actions:
                value = numbers[run, place, 2 * real + j - features]
            seen[half, run, row, j] = multiplied(value)
        if block == 0:
            rest[half, run, row] = numbers[run, place, 2 * real + actions + half]

    kernels = {"normals": draw_normals, "uniforms": draw_uniforms, "places": draw_places}
    return SimpleNamespace(**kernels, observe=observe, recall=recall)
