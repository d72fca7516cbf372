"""The environment around the physics: start, observation, reward and end, as in `nesht.tasks.locomotion`."""

from types import SimpleNamespace

import warp as wp

from nesht import keys
from nesht.engines.fused.kernel.random import Key, normals, uniform, words
from nesht.engines.fused.kernel.shapes import Shapes
from nesht.tasks.locomotion import INFINITE, Locomotion

TOO_LARGE = 1e10
"""MuJoCo calls a state bad beyond this."""


def build_task(shapes: Shapes, body: Locomotion, physics_step) -> SimpleNamespace:
    """Return `reset(key)`, `observe(q, v)`, `act(contact, q, v, u, guess)` and the number of observations."""
    n, motors, real = shapes.n, shapes.motors, shapes.real
    vector, controls = shapes.vector, shapes.controls
    n_observed = 2 * n - 1
    observation = wp.types.vector(n_observed, real)
    links = shapes.model.links
    start = shapes.numbers(link.start for link in links)
    scale, cost, bonus = shapes.numbers((body.reset_noise, body.control_cost, body.healthy_reward))
    clip = real(body.velocity_clip or 0.0)
    gaussian, clips, falls = body.gaussian_velocity, body.velocity_clip is not None, body.falls
    bounded, bonus_on_fall = body.state_bound < INFINITE, body.bonus_on_fall
    low_z, high_z, low_angle, high_angle, bound = shapes.numbers((*body.z_range, *body.angle_range, body.state_bound))
    per_second = real(1 / (shapes.model.timestep * body.frame_skip))
    frame_skip = body.frame_skip
    reset_stream = keys.Stream.RESET.value
    zero, one, two, too_large = shapes.numbers((0, 1, 2, TOO_LARGE))
    # Where nothing depends on how far the robot has moved, its first coordinate restarts at 0 every step: a small
    # number keeps its digits.
    forgets_x = shapes.model.carriers > 0 and links[0].limits is None and links[0].stiffness == 0

    @wp.func
    def reset(key: Key):
        """Return the initial state of an episode."""
        q = vector()
        v = vector()
        for i in range(n):
            w = words(key, reset_stream, i)
            q[i] = wp.static(start[i]) + scale * (two * real(uniform(w[0])) - one)
            if wp.static(gaussian):
                z = normals(w)
                v[i] = scale * real(z[2])
            else:
                v[i] = scale * (two * real(uniform(w[1])) - one)
        return q, v

    @wp.func
    def observe(q: vector, v: vector):
        """All positions but the first, then velocities."""
        o = observation()
        for i in range(wp.static(n - 1)):
            o[i] = q[i + 1]
        for i in range(n):
            if wp.static(clips):
                o[wp.static(n - 1) + i] = wp.clamp(v[i], -clip, clip)
            else:
                o[wp.static(n - 1) + i] = v[i]
        return o

    @wp.func
    def is_up(q: vector, v: vector):
        up = bool(True)
        if wp.static(falls):
            up = low_z < q[1] and q[1] < high_z and low_angle < q[2] and q[2] < high_angle
            if wp.static(bounded):
                for i in range(n):
                    up = up and wp.abs(v[i]) < bound
                for i in range(2, n):
                    up = up and wp.abs(q[i]) < bound
        return up

    @wp.func
    def is_sane(q: vector, v: vector, u: controls, reward: real):
        """Whether all are sensible numbers; a comparison with NaN is false. Controls may be huge: they are clamped."""
        sane = wp.isfinite(reward)
        for i in range(n):
            sane = sane and wp.abs(q[i]) < too_large and wp.abs(v[i]) < too_large
        for k in range(motors):
            sane = sane and u[k] == u[k]
        return sane

    @wp.func
    def act(contact: wp.array2d(dtype=real), q: vector, v: vector, u: controls, guess: vector):
        """Take one environment step; returns (q, v, accelerations, distance moved, reward, still up, still sane)."""
        q1 = q
        v1 = v
        a = guess
        if wp.static(forgets_x):
            q1[0] = zero
        before = q1[0]
        for _s in range(int(frame_skip)):
            q1, v1, a = physics_step(contact, q1, v1, u, a)
        moved = q1[0] - before
        squares = zero
        for k in range(motors):
            squares += u[k] * u[k]
        up = is_up(q1, v1)
        reward = moved * per_second - cost * squares
        if wp.static(bonus_on_fall):
            reward = reward + bonus
        else:
            reward = reward + wp.where(up, bonus, zero)
        return q1, v1, a, moved, reward, up, is_sane(q1, v1, u, reward)

    return SimpleNamespace(reset=reset, observe=observe, act=act, n_observed=n_observed, observation=observation)
