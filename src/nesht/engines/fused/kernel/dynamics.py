"""The mass matrix and the smooth forces: sums over subtrees, from the tips to the root."""

from types import SimpleNamespace

import warp as wp

from nesht.engines.fused.kernel.shapes import Shapes
from nesht.engines.fused.planar import WORLD


def build_dynamics(shapes: Shapes) -> SimpleNamespace:
    """Return `dynamics(frames..., q, v, u) -> (M, f)`, the two sides of M a = f without constraints.

    A unit velocity of joint i gives the subtree it moves (mass m, first moments mx, mz, second moment I, all about the
    origin) the momentum (Px, Pz) and the angular momentum L; M_ij is how much of it joint j feels:

        hinge   P = s (mz - m z_i, m x_i - mx)    L = s (I - z_i mz - x_i mx)    feels  s (L - z_j Px + x_j Pz)
        slide   P = m u                           L = mz u_x - mx u_z            feels  u_x Px + u_z Pz

    The bias force is what the joints feel of the forces that hold every link on its velocity-dependent acceleration,
    gravity included. Springs, dampers and motors act on the joints directly.
    """
    n, motors, model = shapes.n, shapes.motors, shapes.model
    vector, matrix, controls = shapes.vector, shapes.matrix, shapes.controls
    links, ancestors, world = model.links, model.ancestors, WORLD
    parent, hinge = [link.parent for link in links], [link.hinge for link in links]
    heavy = [link.mass > 0 for link in links]
    sign, mass, inertia, damping, stiffness, rest, armature = (
        shapes.numbers(getattr(link, name) for link in links)
        for name in ("sign", "mass", "inertia", "damping", "stiffness", "rest", "armature")
    )
    sprung, damped = [link.stiffness != 0 for link in links], [link.damping != 0 for link in links]
    centre_x, centre_z = (shapes.numbers(link.centre[k] for link in links) for k in (0, 1))
    gx, gz = shapes.numbers(model.gravity)
    dof = [motor.dof for motor in model.motors]
    gear, low, high = (
        shapes.numbers(getattr(motor, name) for motor in model.motors) for name in ("gear", "low", "high")
    )

    @wp.func
    def dynamics(
        x: vector,
        z: vector,
        c: vector,
        s: vector,
        w: vector,
        bx: vector,
        bz: vector,
        ux: vector,
        uz: vector,
        q: vector,
        v: vector,
        u: controls,
    ):
        m = vector()
        mx = vector()
        mz = vector()
        second = vector()
        fx = vector()
        fz = vector()
        torque = vector()
        for i in range(n):
            if wp.static(heavy[i]):
                dx = c[i] * wp.static(centre_x[i]) + s[i] * wp.static(centre_z[i])
                dz = c[i] * wp.static(centre_z[i]) - s[i] * wp.static(centre_x[i])
                cx = x[i] + dx
                cz = z[i] + dz
                w2 = w[i] * w[i]
                m[i] = wp.static(mass[i])
                mx[i] = wp.static(mass[i]) * cx
                mz[i] = wp.static(mass[i]) * cz
                second[i] = wp.static(inertia[i]) + wp.static(mass[i]) * (cx * cx + cz * cz)
                fx[i] = wp.static(mass[i]) * (bx[i] - w2 * dx - gx)
                fz[i] = wp.static(mass[i]) * (bz[i] - w2 * dz - gz)
                torque[i] = cz * fx[i] - cx * fz[i]
        for r in range(n):
            i = wp.static(n - 1 - r)
            if wp.static(parent[n - 1 - r] != world):
                p = wp.static(parent[n - 1 - r])
                m[p] += m[i]
                mx[p] += mx[i]
                mz[p] += mz[i]
                second[p] += second[i]
                fx[p] += fx[i]
                fz[p] += fz[i]
                torque[p] += torque[i]
        M = matrix()
        force = vector()
        for i in range(n):
            if wp.static(hinge[i]):
                si = wp.static(sign[i])
                force[i] = -si * (torque[i] - z[i] * fx[i] + x[i] * fz[i])
                Px = si * (mz[i] - m[i] * z[i])
                Pz = si * (m[i] * x[i] - mx[i])
                L = si * (second[i] - z[i] * mz[i] - x[i] * mx[i])
            else:
                force[i] = -(ux[i] * fx[i] + uz[i] * fz[i])
                Px = m[i] * ux[i]
                Pz = m[i] * uz[i]
                L = mz[i] * ux[i] - mx[i] * uz[i]
            for j in range(wp.static(i + 1)):
                if wp.static(ancestors[i][j]):
                    if wp.static(hinge[j]):
                        felt = wp.static(sign[j]) * (L - z[j] * Px + x[j] * Pz)
                        M[i, j] = felt
                        M[j, i] = felt
                    else:
                        felt = ux[j] * Px + uz[j] * Pz
                        M[i, j] = felt
                        M[j, i] = felt
            M[i, i] += wp.static(armature[i])
            if wp.static(damped[i]):
                force[i] -= wp.static(damping[i]) * v[i]
            if wp.static(sprung[i]):
                force[i] -= wp.static(stiffness[i]) * (q[i] - wp.static(rest[i]))
        for k in range(motors):
            i = wp.static(dof[k])
            force[i] += wp.static(gear[k]) * wp.clamp(u[k], wp.static(low[k]), wp.static(high[k]))
        return M, force

    return SimpleNamespace(dynamics=dynamics)
