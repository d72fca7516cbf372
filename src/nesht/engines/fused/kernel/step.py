"""One environment step of many environments at a time: state in, action in, state and reward out."""

from types import SimpleNamespace

import warp as wp

from nesht import keys
from nesht.engines.fused.kernel.episode import kept
from nesht.engines.fused.kernel.random import Key, normals, words
from nesht.engines.fused.kernel.shapes import Shapes


def build_steps(shapes: Shapes, task: SimpleNamespace, name: str, fast_math: bool) -> tuple[wp.Kernel, wp.Kernel]:
    """Return the kernels `start` (begin an episode everywhere) and `advance` (one step, a new episode where one ended).

    An episode is named by the key (seed, its number, member, 0), with its environment's seed and member. `name` must
    tell robots and tasks apart.
    """
    n, motors, real = shapes.n, shapes.motors, shapes.real
    vector, controls = shapes.vector, shapes.controls
    n_observed, reset, observe, act = task.n_observed, task.reset, task.observe, task.act
    rows, columns = shapes.contact_store
    noise_stream = keys.Stream.NOISE.value
    options = {"fast_math": fast_math, "max_unroll": 64}

    @wp.func
    def key_of(
        seed: wp.array(dtype=wp.uint32), member: wp.array(dtype=wp.uint32), episode: wp.array(dtype=wp.uint32), i: int
    ):
        key = Key()
        key.seed = seed[i]
        key.generation = episode[i]
        key.member = member[i]
        key.rollout = wp.uint32(0)
        return key

    @wp.func
    def write(out: wp.array2d(dtype=real), i: int, q: vector, v: vector, key: Key, t: int):
        """Write what is observed at step t of an episode."""
        o = observe(q, v)
        for j in range(n_observed):
            out[i, j] = o[j]
        blocks = (out.shape[1] - n_observed + 3) / 4
        for b in range(blocks):
            z = normals(words(key, noise_stream, t * blocks + b))
            for m in range(4):
                j = n_observed + b * 4 + m
                if j < out.shape[1]:
                    out[i, j] = real(z[m])

    @wp.kernel(name=f"start_{name}", module="unique", enable_backward=False, module_options=options)
    def start(
        seed: wp.array(dtype=wp.uint32),
        member: wp.array(dtype=wp.uint32),
        episode: wp.array(dtype=wp.uint32),
        first: int,
        qpos: wp.array2d(dtype=real),
        qvel: wp.array2d(dtype=real),
        out: wp.array2d(dtype=real),
    ):
        i = first + wp.tid()
        key = key_of(seed, member, episode, i)
        q, v = reset(key)
        for j in range(n):
            qpos[i, j] = q[j]
            qvel[i, j] = v[j]
        write(out, i, q, v, key, 0)

    @wp.kernel(name=f"advance_{name}", module="unique", enable_backward=False, module_options=options)
    def advance(
        seed: wp.array(dtype=wp.uint32),
        member: wp.array(dtype=wp.uint32),
        episode: wp.array(dtype=wp.uint32),
        first: int,
        limit: int,
        keep: wp.float32,
        every: int,
        action: wp.array2d(dtype=real),
        qpos: wp.array2d(dtype=real),
        qvel: wp.array2d(dtype=real),
        guess: wp.array2d(dtype=real),
        time: wp.array(dtype=int),
        reward: wp.array2d(dtype=real),
        ended: wp.array2d(dtype=wp.bool),
        final: wp.array2d(dtype=real),
        out: wp.array2d(dtype=real),
    ):
        i = first + wp.tid()
        contact = wp.zeros(shape=(rows, columns), dtype=real)
        q = vector()
        v = vector()
        a = vector()
        u = controls()
        for j in range(n):
            q[j] = qpos[i, j]
            v[j] = qvel[i, j]
            a[j] = guess[i, j]
        for k in range(motors):
            u[k] = action[i, k]
        x = q[0]
        q, v, a, moved, r, up, sane = act(contact, q, v, u, a)
        q[0] = x + moved
        key = key_of(seed, member, episode, i)
        t = time[i] + 1
        reward[i, 0] = wp.where(kept(keep, every, key, t - 1), r, real(0.0))
        reward[i, 1] = r
        terminated = not up or not sane
        truncated = t >= limit and not terminated
        ended[i, 0] = terminated
        ended[i, 1] = truncated
        ended[i, 2] = not sane
        write(final, i, q, v, key, t)
        if terminated or truncated:
            episode[i] = episode[i] + wp.uint32(1)
            key = key_of(seed, member, episode, i)
            q, v = reset(key)
            a = vector()
            t = 0
        for j in range(n):
            qpos[i, j] = q[j]
            qvel[i, j] = v[j]
            guess[i, j] = a[j]
        time[i] = t
        write(out, i, q, v, key, t)

    return start, advance
