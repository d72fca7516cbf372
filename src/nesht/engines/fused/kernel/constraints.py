"""What pushes back: joint limits and contacts, as MuJoCo's soft constraints.

A constraint with position r (negative where violated), velocity J v and impedance d(r) wants the acceleration
-B J v - K d r, and may push with stiffness D = d / ((1 - d) softness). See "Computation: solver parameters" in
MuJoCo's documentation.
"""

from types import SimpleNamespace

import warp as wp

from nesht.engines.fused.kernel.shapes import Shapes


def build_constraints(shapes: Shapes) -> SimpleNamespace:
    """Return `limits(q, v)` and `contacts(frames..., v)`.

    `limits` gives their number and, for every joint: the side (+1 at a lower limit, -1 at an upper one, 0 inside), D,
    and r; a limit pushes where side a + r is negative. `contacts` gives their number and, for each: its rows of the
    Jacobians of normal and sliding velocity, the friction coefficient mu, D, rn and rt; the edges of its pyramid push
    where (jn a + rn) +- mu (jt a + rt) is negative.
    """
    n, real, vector = shapes.n, shapes.real, shapes.vector
    per_contact, jacobian = shapes.per_contact, shapes.jacobian
    links, ancestors = shapes.model.links, shapes.model.ancestors
    hinge, sign = [link.hinge for link in links], shapes.numbers(link.sign for link in links)
    zero, half, one, two, tiny = shapes.numbers((0, 0.5, 1, 2, 1e-15))
    crossed = real(1e-6 if real is wp.float32 else 1e-14)
    least, most = shapes.numbers((1e-4, 0.9999))

    limited = [link.limits is not None for link in links]
    low, high = (shapes.numbers((link.limits or (0, 0))[k] for link in links) for k in (0, 1))
    margin, invweight = (shapes.numbers(getattr(link, name) for link in links) for name in ("margin", "invweight"))
    limit_spring = [_spring_constants(shapes, link.limit_spring) for link in links]

    points, pairs = shapes.floor_points, shapes.pairs
    n_points, n_pairs = len(points), len(pairs)
    touches = [touch for touch, _ in points] + pairs
    spring = [_spring_constants(shapes, touch.spring) for touch in touches]
    friction, reach, softness = (
        shapes.numbers(getattr(touch, name) for touch in touches) for name in ("friction", "margin", "softness")
    )
    point_link = [touch.capsule.link for touch, _ in points]
    point_x, point_z = (shapes.numbers(end[k] for _, end in points) for k in (0, 1))
    point_radius = shapes.numbers(touch.capsule.radius for touch, _ in points)
    first = [_capsule_constants(shapes, touch.other) for touch in pairs]
    second = [_capsule_constants(shapes, touch.capsule) for touch in pairs]
    near = shapes.numbers(
        (a.length + b.length + a.thickness + b.thickness + touch.margin) ** 2
        for a, b, touch in zip(first, second, pairs, strict=True)
    )
    radii = shapes.numbers(a.thickness + b.thickness for a, b in zip(first, second, strict=True))

    if all(constants.usual for constants in [*limit_spring, *spring]):

        @wp.func
        def impedance(r: real, width: real, d0: real, rise: real, midpoint: real, power: real):
            """MuJoCo's d(r): from d0 up by `rise` over `width`, along two parabolas."""
            x = wp.min(wp.abs(r) / width, one)
            y = wp.where(x <= half, two * x * x, one - two * (one - x) * (one - x))
            return wp.clamp(d0 + y * rise, least, most)

    else:

        @wp.func
        def impedance(r: real, width: real, d0: real, rise: real, midpoint: real, power: real):
            """MuJoCo's d(r), with any midpoint and power."""
            x = wp.min(wp.abs(r) / width, one)
            y = midpoint * wp.pow(x / midpoint, power)
            if x > midpoint:
                y = one - (one - midpoint) * wp.pow((one - x) / (one - midpoint), power)
            return wp.clamp(d0 + y * rise, least, most)

    @wp.func
    def limits(q: vector, v: vector):
        side = vector()
        D = vector()
        residual = vector()
        count = int(0)
        for i in range(n):
            if wp.static(limited[i]):
                below = q[i] - wp.static(low[i]) - wp.static(margin[i])
                above = wp.static(high[i]) - q[i] - wp.static(margin[i])
                r = wp.min(below, above)
                if r < zero:
                    side[i] = wp.where(below < above, one, -one)
                    d = impedance(
                        r,
                        wp.static(limit_spring[i].width),
                        wp.static(limit_spring[i].d0),
                        wp.static(limit_spring[i].rise),
                        wp.static(limit_spring[i].midpoint),
                        wp.static(limit_spring[i].power),
                    )
                    D[i] = d / ((one - d) * wp.static(invweight[i]))
                    residual[i] = (
                        wp.static(limit_spring[i].damping) * side[i] * v[i]
                        + wp.static(limit_spring[i].stiffness) * d * r
                    )
                    count += 1
        return count, side, D, residual

    @wp.func
    def contacts(
        x: vector,
        z: vector,
        c: vector,
        s: vector,
        ux: vector,
        uz: vector,
        height: real,
        v: vector,
    ):
        jn = jacobian()
        jt = jacobian()
        mu = per_contact()
        D = per_contact()
        rn = per_contact()
        rt = per_contact()
        k = int(0)
        for e in range(n_points):
            i = wp.static(point_link[e])
            cx = x[i] + c[i] * wp.static(point_x[e]) + s[i] * wp.static(point_z[e])
            cz = z[i] + c[i] * wp.static(point_z[e]) - s[i] * wp.static(point_x[e])
            distance = height + cz - wp.static(point_radius[e])
            if distance < wp.static(reach[e]):
                cz = half * distance - height  # the contact lies half way between the two surfaces
                vn = zero
                vt = zero
                for j in range(n):
                    if wp.static(ancestors[point_link[e]][j]):
                        if wp.static(hinge[j]):
                            jn[k, j] = -wp.static(sign[j]) * (cx - x[j])
                            jt[k, j] = wp.static(sign[j]) * (cz - z[j])
                        else:
                            jn[k, j] = uz[j]
                            jt[k, j] = ux[j]
                        vn += jn[k, j] * v[j]
                        vt += jt[k, j] * v[j]
                    else:
                        jn[k, j] = zero
                        jt[k, j] = zero
                r = distance - wp.static(reach[e])
                d = impedance(
                    r,
                    wp.static(spring[e].width),
                    wp.static(spring[e].d0),
                    wp.static(spring[e].rise),
                    wp.static(spring[e].midpoint),
                    wp.static(spring[e].power),
                )
                mu[k] = wp.static(friction[e])
                D[k] = d / ((one - d) * wp.static(softness[e]))
                rn[k] = wp.static(spring[e].damping) * vn + wp.static(spring[e].stiffness) * d * r
                rt[k] = wp.static(spring[e].damping) * vt
                k += 1
        for e in range(n_pairs):
            i = wp.static(first[e].link)
            j0 = wp.static(second[e].link)
            # centres and half axes of both capsules
            ax = c[i] * wp.static(first[e].half_x) + s[i] * wp.static(first[e].half_z)
            az = c[i] * wp.static(first[e].half_z) - s[i] * wp.static(first[e].half_x)
            bx = c[j0] * wp.static(second[e].half_x) + s[j0] * wp.static(second[e].half_z)
            bz = c[j0] * wp.static(second[e].half_z) - s[j0] * wp.static(second[e].half_x)
            px = x[i] + c[i] * wp.static(first[e].middle_x) + s[i] * wp.static(first[e].middle_z)
            pz = z[i] + c[i] * wp.static(first[e].middle_z) - s[i] * wp.static(first[e].middle_x)
            qx = x[j0] + c[j0] * wp.static(second[e].middle_x) + s[j0] * wp.static(second[e].middle_z)
            qz = z[j0] + c[j0] * wp.static(second[e].middle_z) - s[j0] * wp.static(second[e].middle_x)
            if (px - qx) * (px - qx) + (pz - qz) * (pz - qz) < wp.static(near[e]):
                s1, s2 = nearest(ax, az, bx, bz, px - qx, pz - qz)
                px = px + s1 * ax
                pz = pz + s1 * az
                qx = qx + s2 * bx
                qz = qz + s2 * bz
                gap = wp.sqrt((qx - px) * (qx - px) + (qz - pz) * (qz - pz))
                distance = gap - wp.static(radii[e])
                # Axes that cross have no distance in the plane; MuJoCo then pushes out of it, which moves nothing.
                if distance < wp.static(reach[n_points + e]) and gap > crossed:
                    nx = (qx - px) / gap
                    nz = (qz - pz) / gap
                    cx = px + nx * (wp.static(first[e].radius) + half * distance)
                    cz = pz + nz * (wp.static(first[e].radius) + half * distance)
                    vn = zero
                    vt = zero
                    for j in range(n):
                        moves = zero  # how the second body's point moves against the first's
                        if wp.static(ancestors[second[e].link][j]):
                            moves += one
                        if wp.static(ancestors[first[e].link][j]):
                            moves -= one
                        if wp.static(hinge[j]):
                            mx = moves * wp.static(sign[j]) * (cz - z[j])
                            mz = -moves * wp.static(sign[j]) * (cx - x[j])
                            jn[k, j] = nx * mx + nz * mz
                            jt[k, j] = nz * mx - nx * mz
                        else:
                            mx = moves * ux[j]
                            mz = moves * uz[j]
                            jn[k, j] = nx * mx + nz * mz
                            jt[k, j] = nz * mx - nx * mz
                        vn += jn[k, j] * v[j]
                        vt += jt[k, j] * v[j]
                    r = distance - wp.static(reach[n_points + e])
                    d = impedance(
                        r,
                        wp.static(spring[n_points + e].width),
                        wp.static(spring[n_points + e].d0),
                        wp.static(spring[n_points + e].rise),
                        wp.static(spring[n_points + e].midpoint),
                        wp.static(spring[n_points + e].power),
                    )
                    mu[k] = wp.static(friction[n_points + e])
                    D[k] = d / ((one - d) * wp.static(softness[n_points + e]))
                    rn[k] = (
                        wp.static(spring[n_points + e].damping) * vn + wp.static(spring[n_points + e].stiffness) * d * r
                    )
                    rt[k] = wp.static(spring[n_points + e].damping) * vt
                    k += 1
        return k, jn, jt, mu, D, rn, rt

    @wp.func
    def nearest(ax: real, az: real, bx: real, bz: real, dx: real, dz: real):
        """Return where on two segments (-1 to 1 along half axes a and b) they are nearest; d is between their middles.

        These are MuJoCo's steps. Parallel capsules, to which it gives two contacts, get one here.
        """
        aa = wp.max(ax * ax + az * az, tiny)
        ab = -(ax * bx + az * bz)
        bb = wp.max(bx * bx + bz * bz, tiny)
        u = -(ax * dx + az * dz)
        w = bx * dx + bz * dz
        det = aa * bb - ab * ab
        s1 = zero
        s2 = w / bb
        if det >= tiny:
            s1 = (bb * u - ab * w) / det
            s2 = (aa * w - ab * u) / det
        if s1 > one:
            s1 = one
            s2 = (w - ab) / bb
        elif s1 < -one:
            s1 = -one
            s2 = (w + ab) / bb
        if s2 > one:
            s2 = one
            s1 = wp.clamp((u - ab) / aa, -one, one)
        elif s2 < -one:
            s2 = -one
            s1 = wp.clamp((u + ab) / aa, -one, one)
        return s1, s2

    return SimpleNamespace(limits=limits, contacts=contacts)


def _spring_constants(shapes: Shapes, spring) -> SimpleNamespace:
    names = ("stiffness", "damping", "d0", "width", "midpoint", "power")
    constants = {name: shapes.real(getattr(spring, name)) for name in names}
    usual = spring.midpoint == 0.5 and spring.power == 2
    return SimpleNamespace(**constants, rise=shapes.real(spring.d1 - spring.d0), usual=usual)


def _capsule_constants(shapes: Shapes, capsule) -> SimpleNamespace:
    (ax, az), (bx, bz) = capsule.ends[0], capsule.ends[-1]
    numbers = {
        "half_x": (ax - bx) / 2,
        "half_z": (az - bz) / 2,
        "middle_x": (ax + bx) / 2,
        "middle_z": (az + bz) / 2,
        "radius": capsule.radius,
    }
    length = float(((ax - bx) ** 2 + (az - bz) ** 2) ** 0.5) / 2
    constants = {name: shapes.real(value) for name, value in numbers.items()}
    return SimpleNamespace(**constants, link=capsule.link, length=length, thickness=capsule.radius)
