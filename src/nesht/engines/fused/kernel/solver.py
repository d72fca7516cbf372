"""The accelerations: MuJoCo's convex problem, solved by Newton's method to its exact optimum.

    minimise over a   1/2 (a - M^-1 f)' M (a - M^-1 f)  +  sum over constraints  1/2 D min(0, J a + r)^2

The cost is quadratic wherever the set of pushing constraints stays the same, so that a full Newton step that does not
change the set lands on the optimum; otherwise an exact line search along the step goes on.
"""

from types import SimpleNamespace

import warp as wp

from nesht.engines.fused.kernel.shapes import Shapes

ITERATIONS = 30
"""Newton steps at most; two or three are usual."""
SEARCHES = 12
"""Steps of a line search at most."""


def build_solver(shapes: Shapes) -> SimpleNamespace:
    """Return `cholesky(A)`, `substitute(L, b)` and `newton(M, f, limits..., contacts..., guess)`."""
    n, real = shapes.n, shapes.real
    vector, matrix, per_contact, jacobian = shapes.vector, shapes.matrix, shapes.per_contact, shapes.jacobian
    limited = [link.limits is not None for link in shapes.model.links]
    zero, one, two, tiny = shapes.numbers((0, 1, 2, 1e-12))
    enough = real(1e-5 if real is wp.float32 else 1e-12)
    iterations, searches = ITERATIONS, SEARCHES

    @wp.func
    def cholesky(A: matrix):
        """A = L L'; the diagonal of the result holds the inverse of L's."""
        L = matrix()
        for i in range(n):
            for j in range(i):
                s = A[i, j]
                for k in range(j):
                    s -= L[i, k] * L[j, k]
                L[i, j] = s * L[j, j]
            s = A[i, i]
            for k in range(i):
                s -= L[i, k] * L[i, k]
            L[i, i] = one / wp.sqrt(wp.max(s, tiny))
        return L

    @wp.func
    def substitute(L: matrix, b: vector):
        """Solve L L' x = b."""
        x = vector()
        for i in range(n):
            s = b[i]
            for k in range(i):
                s -= L[i, k] * x[k]
            x[i] = s * L[i, i]
        for r in range(n):
            i = wp.static(n - 1 - r)
            s = x[i]
            for k in range(wp.static(n - r), n):
                s -= L[k, i] * x[k]
            x[i] = s * L[i, i]
        return x

    @wp.func
    def pushing(normal: real, sliding: real):
        """Which edges of a contact's pyramid push, as bits: forward, backward, and the two out of the plane."""
        return (
            wp.where(normal + sliding < zero, 1, 0)
            + wp.where(normal - sliding < zero, 2, 0)
            + wp.where(normal < zero, 4, 0)
        )

    @wp.func
    def newton(
        M: matrix,
        f: vector,
        side: vector,
        limit_D: vector,
        limit_r: vector,
        count: int,
        jn: jacobian,
        jt: jacobian,
        mu: per_contact,
        D: per_contact,
        rn: per_contact,
        rt: per_contact,
        guess: vector,
    ):
        a = guess
        whole = real(one)
        normal = per_contact()  # of the acceleration a: jn a + rn, and mu (jt a + rt)
        sliding = per_contact()
        for k in range(count):
            normal[k] = wp.dot(jn[k], a) + rn[k]
            sliding[k] = mu[k] * (wp.dot(jt[k], a) + rt[k])
        normal_step = per_contact()
        sliding_step = per_contact()
        iteration = int(0)
        while iteration < iterations:
            iteration += 1
            # gradient and Hessian at a
            H = matrix()
            H = M
            smooth = M * a - f
            g = vector()
            g = smooth
            for i in range(n):
                if wp.static(limited[i]):
                    r = side[i] * a[i] + limit_r[i]
                    if r < zero:
                        g[i] += side[i] * limit_D[i] * r
                        H[i, i] += limit_D[i]
            for k in range(count):
                push = pushing(normal[k], sliding[k])
                if push != 0:
                    ahead = wp.where((push & 1) != 0, one, zero)
                    back = wp.where((push & 2) != 0, one, zero)
                    across = wp.where((push & 4) != 0, two, zero)
                    d = D[k]
                    m = mu[k]
                    gn = d * (ahead * (normal[k] + sliding[k]) + back * (normal[k] - sliding[k]) + across * normal[k])
                    gt = d * m * (ahead * (normal[k] + sliding[k]) - back * (normal[k] - sliding[k]))
                    hnn = d * (ahead + back + across)
                    hnt = d * m * (ahead - back)
                    htt = d * m * m * (ahead + back)
                    for i in range(n):
                        ni = jn[k, i]
                        ti = jt[k, i]
                        g[i] += gn * ni + gt * ti
                        hn = hnn * ni + hnt * ti
                        ht = hnt * ni + htt * ti
                        for j in range(wp.static(i + 1)):
                            H[i, j] += hn * jn[k, j] + ht * jt[k, j]
            step = substitute(cholesky(H), -g)
            # does the full step keep the set of pushing constraints?
            same = bool(True)
            for i in range(n):
                if wp.static(limited[i]):
                    r = side[i] * a[i] + limit_r[i]
                    if (r < zero) != (r + side[i] * step[i] < zero):
                        same = False
            for k in range(count):
                normal_step[k] = wp.dot(jn[k], step)
                sliding_step[k] = mu[k] * wp.dot(jt[k], step)
                if pushing(normal[k] + normal_step[k], sliding[k] + sliding_step[k]) != pushing(normal[k], sliding[k]):
                    same = False
            if same:
                a = a + step
                break
            # exact line search: Newton's method on the derivative of the cost along the step
            slope = wp.dot(step, smooth)
            curve = wp.dot(step, M * step)
            t = real(whole)
            search = int(0)
            while search < searches:
                search += 1
                d1 = slope + t * curve
                d2 = real(curve)
                for i in range(n):
                    if wp.static(limited[i]):
                        along = side[i] * step[i]
                        r = side[i] * a[i] + limit_r[i] + t * along
                        if r < zero:
                            d1 += limit_D[i] * r * along
                            d2 += limit_D[i] * along * along
                for k in range(count):
                    wn = normal[k] + t * normal_step[k]
                    wt = sliding[k] + t * sliding_step[k]
                    if wn + wt < zero:
                        along = normal_step[k] + sliding_step[k]
                        d1 += D[k] * (wn + wt) * along
                        d2 += D[k] * along * along
                    if wn - wt < zero:
                        along = normal_step[k] - sliding_step[k]
                        d1 += D[k] * (wn - wt) * along
                        d2 += D[k] * along * along
                    if wn < zero:
                        d1 += two * D[k] * wn * normal_step[k]
                        d2 += two * D[k] * normal_step[k] * normal_step[k]
                change = d1 / d2
                t = wp.max(t - change, zero)
                if wp.abs(change) < enough * wp.max(t, one):
                    break
            a = a + t * step
            for k in range(count):
                normal[k] += t * normal_step[k]
                sliding[k] += t * sliding_step[k]
        return a

    return SimpleNamespace(cholesky=cholesky, substitute=substitute, newton=newton)
