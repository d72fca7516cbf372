"""The accelerations: MuJoCo's convex problem, solved by Newton's method to its exact optimum.

    minimise over a   1/2 (a - M^-1 f)' M (a - M^-1 f)  +  sum over constraints  1/2 D min(0, J a + r)^2

The cost is quadratic wherever the set of pushing constraints stays the same, so that a full Newton step that does not
change the set lands on the optimum; otherwise an exact line search along the step goes on.
"""

from types import SimpleNamespace

import warp as wp

from nesht.engines.fused.kernel.constraints import (
    FRICTION,
    NORMAL,
    NORMAL_R,
    NORMAL_STEP,
    PUSH,
    SLIDING,
    SLIDING_R,
    SLIDING_STEP,
)
from nesht.engines.fused.kernel.shapes import Shapes

ITERATIONS = 30
"""Newton steps at most; two or three are usual."""
SEARCHES = 12
"""Steps of a line search at most."""


def build_solver(shapes: Shapes, rows) -> SimpleNamespace:
    """Return `cholesky(A)`, `substitute(L, b)` and `newton(M, f, limits..., contacts..., frames..., guess)`."""
    n, real = shapes.n, shapes.real
    vector, matrix = shapes.vector, shapes.matrix
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
        contact: wp.array2d(dtype=real),
        x: vector,
        z: vector,
        ux: vector,
        uz: vector,
        guess: vector,
    ):
        a = guess
        whole = real(one)
        for k in range(count):
            jn, jt = rows(contact, k, x, z, ux, uz)
            contact[k, NORMAL] = wp.dot(jn, a) + contact[k, NORMAL_R]
            contact[k, SLIDING] = contact[k, FRICTION] * wp.dot(jt, a) + contact[k, SLIDING_R]
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
                normal = contact[k, NORMAL]
                sliding = contact[k, SLIDING]
                push = pushing(normal, sliding)
                if push != 0:
                    ahead = wp.where((push & 1) != 0, one, zero)
                    back = wp.where((push & 2) != 0, one, zero)
                    across = wp.where((push & 4) != 0, two, zero)
                    D = contact[k, PUSH]
                    mu = contact[k, FRICTION]
                    gn = D * (ahead * (normal + sliding) + back * (normal - sliding) + across * normal)
                    gt = D * mu * (ahead * (normal + sliding) - back * (normal - sliding))
                    hnn = D * (ahead + back + across)
                    hnt = D * mu * (ahead - back)
                    htt = D * mu * mu * (ahead + back)
                    jn, jt = rows(contact, k, x, z, ux, uz)
                    for i in range(n):
                        g[i] += gn * jn[i] + gt * jt[i]
                        hn = hnn * jn[i] + hnt * jt[i]
                        ht = hnt * jn[i] + htt * jt[i]
                        for j in range(wp.static(i + 1)):
                            H[i, j] += hn * jn[j] + ht * jt[j]
            step = substitute(cholesky(H), -g)
            # does the full step keep the set of pushing constraints?
            same = bool(True)
            for i in range(n):
                if wp.static(limited[i]):
                    r = side[i] * a[i] + limit_r[i]
                    if (r < zero) != (r + side[i] * step[i] < zero):
                        same = False
            for k in range(count):
                jn, jt = rows(contact, k, x, z, ux, uz)
                normal = contact[k, NORMAL]
                sliding = contact[k, SLIDING]
                normal_step = wp.dot(jn, step)
                sliding_step = contact[k, FRICTION] * wp.dot(jt, step)
                contact[k, NORMAL_STEP] = normal_step
                contact[k, SLIDING_STEP] = sliding_step
                if pushing(normal + normal_step, sliding + sliding_step) != pushing(normal, sliding):
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
                    D = contact[k, PUSH]
                    normal_step = contact[k, NORMAL_STEP]
                    sliding_step = contact[k, SLIDING_STEP]
                    normal = contact[k, NORMAL] + t * normal_step
                    sliding = contact[k, SLIDING] + t * sliding_step
                    if normal + sliding < zero:
                        along = normal_step + sliding_step
                        d1 += D * (normal + sliding) * along
                        d2 += D * along * along
                    if normal - sliding < zero:
                        along = normal_step - sliding_step
                        d1 += D * (normal - sliding) * along
                        d2 += D * along * along
                    if normal < zero:
                        d1 += two * D * normal * normal_step
                        d2 += two * D * normal_step * normal_step
                change = d1 / d2
                t = wp.max(t - change, zero)
                if wp.abs(change) < enough * wp.max(t, one):
                    break
            a = a + t * step
            for k in range(count):
                contact[k, NORMAL] = contact[k, NORMAL] + t * contact[k, NORMAL_STEP]
                contact[k, SLIDING] = contact[k, SLIDING] + t * contact[k, SLIDING_STEP]
        return a

    return SimpleNamespace(cholesky=cholesky, substitute=substitute, newton=newton)
