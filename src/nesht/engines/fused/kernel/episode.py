"""Whole episodes: one thread runs one from its start to its end, then takes the next that waits."""

from types import SimpleNamespace

import warp as wp

from nesht import keys
from nesht.engines.fused.kernel.random import Key, normals, uniform, words
from nesht.engines.fused.kernel.shapes import Shapes
from nesht.policies.network import Network

BLOCK = 64
"""Threads per block on a GPU."""
BLOCKS = 4
"""Blocks that a multiprocessor shall hold at a time: bounds the registers of a thread."""


MASK = wp.constant(keys.Stream.MASK.value)


@wp.func
def kept(keep: wp.float32, every: int, key: Key, step: int):
    """Whether the reward of a step is one that training sees."""
    seen = bool(True)
    if every > 1:
        seen = (step + 1) % every == 0
    elif keep < 1.0:
        w = words(key, MASK, step)
        seen = uniform(w[0]) < keep
    return seen


def build_linear(shapes: Shapes, task: SimpleNamespace) -> SimpleNamespace:
    """Return the policy `linear(...)` of `build_episodes` for linear policies with noise through its marginal law.

    Distractors z enter the action only as W z, which is N(0, W W'): as many numbers as there are motors are drawn and
    multiplied by the Cholesky factor of W W'. A row of `policy` holds the weights of the real features, feature by
    feature, the bias, and the factor, row by row; the normaliser is folded in (see `members.py`).
    """
    real, motors, controls = shapes.real, shapes.motors, shapes.controls
    n, observation = task.n_observed, task.observation
    blocks = -(-motors // 4)
    noise_stream = keys.Stream.NOISE.value
    draws = wp.types.vector(4 * blocks, real)

    @wp.func
    def linear(
        policy: wp.array2d(dtype=real),
        mean: wp.array2d(dtype=real),
        scale: wp.array2d(dtype=real),
        total: wp.array2d(dtype=real),
        squares: wp.array2d(dtype=real),
        o: observation,
        key: Key,
        episode: int,
        run: int,
        step: int,
        distractors: int,
    ):
        u = controls()
        for k in range(motors):
            u[k] = policy[episode, wp.static(n * motors) + k]
        for i in range(n):
            for k in range(motors):
                u[k] += o[i] * policy[episode, i * motors + k]
        if distractors > 0:
            z = draws()
            for b in range(blocks):
                z4 = normals(words(key, noise_stream, step * blocks + b))
                for m in range(4):
                    z[b * 4 + m] = real(z4[m])
            for k in range(motors):
                for m in range(wp.static(k + 1)):
                    u[k] += policy[episode, wp.static((n + 1) * motors + k * (k + 1) // 2) + m] * z[m]
        return u

    return linear


def build_network(shapes: Shapes, task: SimpleNamespace, network: Network) -> SimpleNamespace:
    """Return the policy of `build_episodes` for any network, with every distractor drawn.

    A row of `policy` holds all parameters as `Network` lays them out; moments of the distractors are summed here.
    """
    real, motors, controls = shapes.real, shapes.motors, shapes.controls
    n, observation = task.n_observed, task.observation
    noise_stream = keys.Stream.NOISE.value
    widths = (network.inputs, *network.hidden, network.outputs)
    layers = len(widths) - 1
    weight = [block.start for block in network.blocks if len(block.shape) == 2]
    bias = [block.start for block in network.blocks if len(block.shape) == 1]
    has_bias = network.bias
    units = wp.types.vector(max(widths[1:]), real)
    zero = real(0)

    @wp.func
    def read_feature(
        hidden: units,
        policy: wp.array2d(dtype=real),
        mean: wp.array2d(dtype=real),
        scale: wp.array2d(dtype=real),
        x: real,
        feature: int,
        episode: int,
        run: int,
    ):
        """Add what the first layer makes of one feature."""
        h = hidden
        y = (x - mean[run, feature]) * scale[run, feature]
        for o in range(int(wp.static(widths[1]))):
            h[o] += policy[episode, o * wp.static(widths[0]) + feature] * y
        return h

    @wp.func
    def network_policy(
        policy: wp.array2d(dtype=real),
        mean: wp.array2d(dtype=real),
        scale: wp.array2d(dtype=real),
        total: wp.array2d(dtype=real),
        squares: wp.array2d(dtype=real),
        o: observation,
        key: Key,
        episode: int,
        run: int,
        step: int,
        distractors: int,
    ):
        hidden = units()
        for i in range(n):
            hidden = read_feature(hidden, policy, mean, scale, o[i], i, episode, run)
        blocks = (distractors + 3) / 4
        for b in range(blocks):
            z4 = normals(words(key, noise_stream, step * blocks + b))
            for m in range(4):
                i = b * 4 + m
                if i < distractors:
                    z = real(z4[m])
                    total[episode, wp.static(n) + i] = total[episode, wp.static(n) + i] + z
                    squares[episode, wp.static(n) + i] = squares[episode, wp.static(n) + i] + z * z
                    hidden = read_feature(hidden, policy, mean, scale, z, wp.static(n) + i, episode, run)
        for layer in range(layers):
            if wp.static(layer > 0):
                below = hidden
                for i in range(int(wp.static(widths[layer]))):
                    below[i] = wp.tanh(below[i])
                for j in range(int(wp.static(widths[layer + 1]))):
                    s = real(zero)
                    for i in range(int(wp.static(widths[layer]))):
                        s += policy[episode, wp.static(weight[layer]) + j * wp.static(widths[layer]) + i] * below[i]
                    hidden[j] = s
            if wp.static(has_bias):
                for j in range(int(wp.static(widths[layer + 1]))):
                    hidden[j] += policy[episode, wp.static(bias[layer]) + j]
        u = controls()
        for k in range(motors):
            u[k] = hidden[k]
        return u

    return network_policy


def build_episodes(shapes: Shapes, task: SimpleNamespace, policy_of, name: str, fast_math: bool) -> wp.Kernel:
    """Return the kernel that runs episodes `next[0]` to `stop`; `work` tells how many steps each thread took.

    `name` must tell robots, tasks and policies apart: Warp's cache does not see all of their constants.
    """
    real, vector = shapes.real, shapes.vector
    n, observation = task.n_observed, task.observation
    reset, observe, act = task.reset, task.observe, task.act
    rows, columns = shapes.contact_store
    zero = real(0)

    @wp.kernel(
        name=name,
        module="unique",
        enable_backward=False,
        launch_bounds=(BLOCK, BLOCKS),
        module_options={"fast_math": fast_math, "max_unroll": 64},
    )
    def episodes(
        policy: wp.array2d(dtype=real),
        mean: wp.array2d(dtype=real),
        scale: wp.array2d(dtype=real),
        run: wp.array(dtype=int),
        seed: wp.array(dtype=wp.uint32),
        generation: wp.array(dtype=wp.uint32),
        luck: wp.array(dtype=wp.uint32),
        rollout: wp.array(dtype=wp.uint32),
        next: wp.array(dtype=int),
        stop: int,
        limit: int,
        distractors: int,
        keep: wp.float32,
        every: int,
        outcome: wp.array2d(dtype=real),
        shift: wp.array2d(dtype=real),
        total: wp.array2d(dtype=real),
        squares: wp.array2d(dtype=real),
        work: wp.array(dtype=int),
    ):
        contact = wp.zeros(shape=(rows, columns), dtype=real)
        q = vector()
        v = vector()
        a = vector()
        first = observation()
        summed = observation()
        squared = observation()
        key = Key()
        fitness = real(zero)
        score = real(zero)
        step = int(0)
        r = int(0)
        e = int(-1)
        worked = int(0)
        over = bool(True)
        while e < stop:
            if over:
                e = wp.atomic_add(next, 0, 1)
                if e >= stop:
                    work[wp.tid()] = worked
                    return
                r = run[e]
                key.seed = seed[r]
                key.generation = generation[r]
                key.member = luck[e]
                key.rollout = rollout[e]
                q, v = reset(key)
                a = vector()
                first = observe(q, v)
                summed = observation()
                squared = observation()
                fitness = zero
                score = zero
                step = 0
            o = observe(q, v)
            difference = o - first
            summed = summed + difference
            squared = squared + wp.cw_mul(difference, difference)
            u = policy_of(policy, mean, scale, total, squares, o, key, e, r, step, distractors)
            q, v, a, moved, reward, up, sane = act(contact, q, v, u, a)
            score += reward
            if kept(keep, every, key, step):
                fitness += reward
            step += 1
            worked += 1
            over = not up or not sane or step >= limit
            if over:
                outcome[e, 0] = fitness
                outcome[e, 1] = score
                outcome[e, 2] = real(step)
                outcome[e, 3] = wp.where(sane, real(0.0), real(1.0))
                for i in range(n):
                    shift[e, i] = first[i]
                    total[e, i] = summed[i]
                    squares[e, i] = squared[i]

    return episodes
