"""Where every link is and how it moves: one pass from the root to the tips."""

from types import SimpleNamespace

import warp as wp

from nesht.engines.fused.kernel.shapes import Shapes
from nesht.engines.fused.planar import WORLD


def build_kinematics(shapes: Shapes) -> SimpleNamespace:
    """Return `frames(q, v) -> (x, z, c, s, w, bx, bz, ux, uz, height)`.

    Of every link: origin, cosine and sine of its angle, angular velocity, acceleration of the origin where no joint
    accelerates, direction of a slide; and the height above the floor of what positions are relative to.

    Positions are relative to the links that carry the whole robot (see `PlanarModel.carriers`); the height they give it
    is kept by itself. For a link i with parent p, anchor o and angle a in p's frame, R(phi) being the rotation by phi:

        hinge   x_i = x_p + R(phi_p) o               phi_i = phi_p + a + s q     w_i = w_p + s v
        slide   x_i = x_p + R(phi_p) (o + u q)       phi_i = phi_p + a           w_i = w_p

    and its acceleration where all joint accelerations are zero, w' being the vector (x, z) -> w (z, -x):

        b_i = b_p - w_p^2 (x_i - x_p)     and, for a slide,  + 2 w_p' (R(phi_p) u) v
    """
    model, n = shapes.model, shapes.n
    real, vector = shapes.real, shapes.vector
    links, carriers = model.links, model.carriers
    parent, hinge = [link.parent for link in links], [link.hinge for link in links]
    turned = [link.angle != 0 for link in links]
    offset_x, offset_z = (shapes.numbers(link.offset[k] for link in links) for k in (0, 1))
    axis_x, axis_z = (shapes.numbers(link.axis[k] for link in links) for k in (0, 1))
    angle, sign = shapes.numbers(link.angle for link in links), shapes.numbers(link.sign for link in links)
    above_floor = real(-model.floor)
    zero, one, two = shapes.numbers((0, 1, 2))
    world = WORLD

    @wp.func
    def frames(q: vector, v: vector):
        x = vector()
        z = vector()
        c = vector()
        s = vector()
        w = vector()
        bx = vector()
        bz = vector()
        ux = vector()
        uz = vector()
        phi = vector()
        height = above_floor
        for i in range(n):
            if wp.static(i < carriers):
                height = height + wp.static(offset_z[i]) + wp.static(axis_z[i]) * q[i]
                c[i] = one
                ux[i] = wp.static(axis_x[i])
                uz[i] = wp.static(axis_z[i])
            else:
                px = zero
                pz = zero
                pc = one
                ps = zero
                pw = zero
                pphi = zero
                pbx = zero
                pbz = zero
                if wp.static(parent[i] != world):
                    p = wp.static(parent[i])
                    px = x[p]
                    pz = z[p]
                    pc = c[p]
                    ps = s[p]
                    pw = w[p]
                    pphi = phi[p]
                    pbx = bx[p]
                    pbz = bz[p]
                dx = pc * wp.static(offset_x[i]) + ps * wp.static(offset_z[i])
                dz = pc * wp.static(offset_z[i]) - ps * wp.static(offset_x[i])
                if wp.static(hinge[i]):
                    phi[i] = pphi + wp.static(angle[i]) + wp.static(sign[i]) * q[i]
                    w[i] = pw + wp.static(sign[i]) * v[i]
                    c[i] = wp.cos(phi[i])
                    s[i] = wp.sin(phi[i])
                else:
                    ux[i] = pc * wp.static(axis_x[i]) + ps * wp.static(axis_z[i])
                    uz[i] = pc * wp.static(axis_z[i]) - ps * wp.static(axis_x[i])
                    dx = dx + ux[i] * q[i]
                    dz = dz + uz[i] * q[i]
                    pbx = pbx + two * pw * uz[i] * v[i]
                    pbz = pbz - two * pw * ux[i] * v[i]
                    phi[i] = pphi + wp.static(angle[i])
                    w[i] = pw
                    if wp.static(turned[i]):
                        c[i] = wp.cos(phi[i])
                        s[i] = wp.sin(phi[i])
                    else:
                        c[i] = pc
                        s[i] = ps
                x[i] = px + dx
                z[i] = pz + dz
                bx[i] = pbx - pw * pw * dx
                bz[i] = pbz - pw * pw * dz
        return x, z, c, s, w, bx, bz, ux, uz, height

    return SimpleNamespace(frames=frames)
