"""What pushes back: joint limits and contacts, as MuJoCo's soft constraints.

A constraint with position r (negative where violated), velocity J v and impedance d(r) wants the acceleration
-B J v - K d r, and may push with stiffness D = d / ((1 - d) softness). See "Computation: solver parameters" in
MuJoCo's documentation.
"""

from types import SimpleNamespace

import warp as wp

from nesht.engines.fused.kernel.shapes import Shapes

POINT_X, POINT_Z, PLUS, FRICTION, PUSH, NORMAL_R, SLIDING_R = map(wp.constant, range(7))
"""Columns of a contact: where, which joints move it (as bits), mu, D, rn, mu rt."""
NORMAL, SLIDING, NORMAL_STEP, SLIDING_STEP = map(wp.constant, range(7, 11))
"""The solver's: jn a + rn and mu (jt a + rt) of the present accelerations a, and how a Newton step changes them."""
MINUS, NORMAL_X, NORMAL_Z = map(wp.constant, range(11, 14))
"""Of contacts between two links: which joints move the first of them, and the direction of the push."""


def build_constraints(shapes: Shapes) -> SimpleNamespace:
    """Return `limits(q, v)`, `contacts(contact, frames..., v)` and `rows(contact, k, frames...)`.

    `limits` gives their number and, for every joint: the side (+1 at a lower limit, -1 at an upper one, 0 inside), D,
    and r; a limit pushes where side a + r is negative. `contacts` writes what it finds into the array `contact`, one
    row each, and gives their number; the edges of a pyramid push where (jn a + rn) +- mu (jt a + rt) is negative. The
    rows jn and jt of the Jacobians are not stored but made again wherever they are needed: a thread of a GPU computes
    faster than it remembers.
    """
    n, real, vector = shapes.n, shapes.real, shapes.vector
    links, ancestors, carriers = shapes.model.links, shapes.model.ancestors, shapes.model.carriers
    # which joints move a link, as the bits of a number
    chain = shapes.numbers(sum(1 << j for j in range(n) if row[j]) for row in ancestors)
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
    def nearest(ax: real, az: real, bx: real, bz: real, dx: real, dz: real):
        """Return where on two segments (-1 to 1 along half axes a and b) they are nearest; d is between their middles.

        These are MuJoCo's steps. Capsules that are parallel to 1e-4, to which it gives two contacts, get one here.
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

    @wp.func
    def rows(contact: wp.array2d(dtype=real), k: int, x: vector, z: vector, ux: vector, uz: vector):
        """Return the rows of contact k in the Jacobians of normal and of sliding velocity."""
        cx = contact[k, POINT_X]
        cz = contact[k, POINT_Z]
        plus = int(contact[k, PLUS])
        jn = vector()
        jt = vector()
        if wp.static(n_pairs == 0):
            for j in range(n):
                moves = one
                if wp.static(j >= carriers):
                    moves = wp.where((plus & wp.static(1 << j)) != 0, one, zero)
                if wp.static(hinge[j]):
                    jn[j] = moves * wp.static(-sign[j]) * (cx - x[j])
                    jt[j] = moves * wp.static(sign[j]) * (cz - z[j])
                else:
                    jn[j] = moves * uz[j]
                    jt[j] = moves * ux[j]
        else:
            minus = int(contact[k, MINUS])
            nx = contact[k, NORMAL_X]
            nz = contact[k, NORMAL_Z]
            for j in range(n):
                # how the second body's point moves against the first's
                moves = wp.where((plus & wp.static(1 << j)) != 0, one, zero)
                moves = moves - wp.where((minus & wp.static(1 << j)) != 0, one, zero)
                mx = moves * ux[j]
                mz = moves * uz[j]
                if wp.static(hinge[j]):
                    mx = moves * wp.static(sign[j]) * (cz - z[j])
                    mz = moves * wp.static(-sign[j]) * (cx - x[j])
                jn[j] = nx * mx + nz * mz
                jt[j] = nz * mx - nx * mz
        return jn, jt

    @wp.func
    def soften(
        contact: wp.array2d(dtype=real),
        k: int,
        r: real,
        d: real,
        stiffness: real,
        damping: real,
        vn: real,
        vt: real,
        soft: real,
        mu: real,
    ):
        """Write down how contact k pushes."""
        contact[k, FRICTION] = mu
        contact[k, PUSH] = d / ((one - d) * soft)
        contact[k, NORMAL_R] = damping * vn + stiffness * d * r
        contact[k, SLIDING_R] = mu * damping * vt

    @wp.func
    def contacts(
        contact: wp.array2d(dtype=real),
        x: vector,
        z: vector,
        c: vector,
        s: vector,
        ux: vector,
        uz: vector,
        height: real,
        v: vector,
    ):
        k = int(0)
        for e in range(n_points):
            i = wp.static(point_link[e])
            cx = x[i] + c[i] * wp.static(point_x[e]) + s[i] * wp.static(point_z[e])
            cz = z[i] + c[i] * wp.static(point_z[e]) - s[i] * wp.static(point_x[e])
            distance = height + cz - wp.static(point_radius[e])
            if distance < wp.static(reach[e]):
                contact[k, POINT_X] = cx
                contact[k, POINT_Z] = half * distance - height  # half way between the two surfaces
                contact[k, PLUS] = wp.static(chain[point_link[e]])
                if wp.static(n_pairs > 0):
                    contact[k, MINUS] = zero
                    contact[k, NORMAL_X] = zero
                    contact[k, NORMAL_Z] = one
                jn, jt = rows(contact, k, x, z, ux, uz)
                r = distance - wp.static(reach[e])
                d = impedance(
                    r,
                    wp.static(spring[e].width),
                    wp.static(spring[e].d0),
                    wp.static(spring[e].rise),
                    wp.static(spring[e].midpoint),
                    wp.static(spring[e].power),
                )
                soften(
                    contact,
                    k,
                    r,
                    d,
                    wp.static(spring[e].stiffness),
                    wp.static(spring[e].damping),
                    wp.dot(jn, v),
                    wp.dot(jt, v),
                    wp.static(softness[e]),
                    wp.static(friction[e]),
                )
                k += 1
        for e in range(n_pairs):
            i = wp.static(first[e].link)
            j = wp.static(second[e].link)
            # centres and half axes of both capsules
            ax = c[i] * wp.static(first[e].half_x) + s[i] * wp.static(first[e].half_z)
            az = c[i] * wp.static(first[e].half_z) - s[i] * wp.static(first[e].half_x)
            bx = c[j] * wp.static(second[e].half_x) + s[j] * wp.static(second[e].half_z)
            bz = c[j] * wp.static(second[e].half_z) - s[j] * wp.static(second[e].half_x)
            px = x[i] + c[i] * wp.static(first[e].middle_x) + s[i] * wp.static(first[e].middle_z)
            pz = z[i] + c[i] * wp.static(first[e].middle_z) - s[i] * wp.static(first[e].middle_x)
            qx = x[j] + c[j] * wp.static(second[e].middle_x) + s[j] * wp.static(second[e].middle_z)
            qz = z[j] + c[j] * wp.static(second[e].middle_z) - s[j] * wp.static(second[e].middle_x)
            if (px - qx) * (px - qx) + (pz - qz) * (pz - qz) < wp.static(near[e]):
                s1, s2 = nearest(ax, az, bx, bz, px - qx, pz - qz)
                dx = qx + s2 * bx - px - s1 * ax
                dz = qz + s2 * bz - pz - s1 * az
                gap = wp.sqrt(dx * dx + dz * dz)
                distance = gap - wp.static(radii[e])
                # Axes that cross have no distance in the plane; MuJoCo then pushes out of it, which moves nothing
                # (friction would; it takes a penetration deeper than both radii).
                if distance < wp.static(reach[n_points + e]) and gap > crossed:
                    nx = dx / gap
                    nz = dz / gap
                    inside = wp.static(first[e].radius) + half * distance
                    contact[k, POINT_X] = px + s1 * ax + nx * inside
                    contact[k, POINT_Z] = pz + s1 * az + nz * inside
                    contact[k, PLUS] = wp.static(chain[second[e].link])
                    contact[k, MINUS] = wp.static(chain[first[e].link])
                    contact[k, NORMAL_X] = nx
                    contact[k, NORMAL_Z] = nz
                    jn, jt = rows(contact, k, x, z, ux, uz)
                    r = distance - wp.static(reach[n_points + e])
                    d = impedance(
                        r,
                        wp.static(spring[n_points + e].width),
                        wp.static(spring[n_points + e].d0),
                        wp.static(spring[n_points + e].rise),
                        wp.static(spring[n_points + e].midpoint),
                        wp.static(spring[n_points + e].power),
                    )
                    soften(
                        contact,
                        k,
                        r,
                        d,
                        wp.static(spring[n_points + e].stiffness),
                        wp.static(spring[n_points + e].damping),
                        wp.dot(jn, v),
                        wp.dot(jt, v),
                        wp.static(softness[n_points + e]),
                        wp.static(friction[n_points + e]),
                    )
                    k += 1
        return k

    return SimpleNamespace(limits=limits, contacts=contacts, rows=rows)


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
