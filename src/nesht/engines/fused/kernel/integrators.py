"""One physics step: Euler with implicit joint damping, or fourth-order Runge-Kutta, as MuJoCo does them."""

from types import SimpleNamespace

import warp as wp

from nesht.engines.fused.kernel.constraints import build_constraints
from nesht.engines.fused.kernel.dynamics import build_dynamics
from nesht.engines.fused.kernel.kinematics import build_kinematics
from nesht.engines.fused.kernel.shapes import Shapes
from nesht.engines.fused.kernel.solver import build_solver


def build_physics(shapes: Shapes) -> SimpleNamespace:
    """Return `physics_step(contact, q, v, u, guess) -> (q, v, a)`.

    `contact` is a thread's own array of `shapes.contact_store` for the solver's work; the accelerations a are the next
    step's first guess.
    """
    n, real = shapes.n, shapes.real
    vector, controls = shapes.vector, shapes.controls
    frames, dynamics = build_kinematics(shapes).frames, build_dynamics(shapes).dynamics
    constraints = build_constraints(shapes)
    solver = build_solver(shapes, constraints.rows)
    limits, contacts = constraints.limits, constraints.contacts
    cholesky, substitute, newton = solver.cholesky, solver.substitute, solver.newton
    h = real(shapes.model.timestep)
    implicit = shapes.numbers(shapes.model.timestep * link.damping for link in shapes.model.links)
    half, sixth, third = shapes.numbers((1 / 2, 1 / 6, 1 / 3))

    @wp.func
    def acceleration(contact: wp.array2d(dtype=real), q: vector, v: vector, u: controls, guess: vector):
        """Return the accelerations and the mass matrix."""
        x, z, c, s, w, bx, bz, ux, uz, height = frames(q, v)
        M, force = dynamics(x, z, c, s, w, bx, bz, ux, uz, q, v, u)
        limit_count, side, limit_D, limit_r = limits(q, v)
        count = contacts(contact, x, z, c, s, ux, uz, height, v)
        a = vector()
        if limit_count + count == 0:
            a = substitute(cholesky(M), force)
        else:
            a = newton(M, force, side, limit_D, limit_r, count, contact, x, z, ux, uz, guess)
        return a, M

    @wp.func
    def euler(contact: wp.array2d(dtype=real), q: vector, v: vector, u: controls, guess: vector):
        """(M + h damping) (v' - v) = h M a,   q' = q + h v'."""
        a, M = acceleration(contact, q, v, u, guess)
        r = M * a
        for i in range(n):
            M[i, i] += wp.static(implicit[i])
        v1 = v + h * substitute(cholesky(M), r)
        return q + h * v1, v1, a

    @wp.func
    def runge_kutta(contact: wp.array2d(dtype=real), q: vector, v: vector, u: controls, guess: vector):
        """The classical fourth-order rule on (q, v)."""
        qs = q
        vs = v
        a = guess
        v_sum = vector()
        a_sum = vector()
        stage = int(0)
        while stage < 4:
            a, M = acceleration(contact, qs, vs, u, a)
            weight = wp.where(stage == 0 or stage == 3, sixth, third)
            ahead = wp.where(stage == 2, h, h * half)
            v_sum = v_sum + weight * vs
            a_sum = a_sum + weight * a
            qs = q + ahead * vs
            vs = v + ahead * a
            stage += 1
        return q + h * v_sum, v + h * a_sum, a

    return SimpleNamespace(physics_step=runge_kutta if shapes.model.runge_kutta else euler)
