"""Products of halved numbers on tensor cores, in Triton: all that follows a product is in the same kernel."""

import triton
import triton.language as tl


@triton.jit
def _halved(pull, scale, most, RAW: tl.constexpr):
    """Return a pull as it is multiplied: scaled and rounded, if it was not yet."""
    if RAW:
        pull = tl.minimum(tl.maximum(pull * scale, -most), most).to(tl.float16)
    return pull


@triton.jit
def _corner(columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return the rows and columns of this program's block of a result with so many columns."""
    across = tl.cdiv(columns, COLUMNS)
    row, column = tl.program_id(0) // across * ROWS, tl.program_id(0) % across * COLUMNS
    return row + tl.arange(0, ROWS), column + tl.arange(0, COLUMNS)


@triton.jit
def _rectified(total, most):
    """Return what a hidden layer puts out: no less than 0, no more than can be multiplied."""
    return tl.minimum(tl.maximum(total, 0.0), most).to(tl.float16)


@triton.jit
def _gated(total, came, most):
    """Return a pull on what came out of a hidden layer: none where that was nothing."""
    return tl.where(came > 0, tl.minimum(tl.maximum(total, -most), most), 0.0).to(tl.float16)


@triton.jit
def forward(
    x, w1, w2, w3, h1, h2, out, x_count, w_count, rows, in1, in2, in3, c1, c2, outs, x_net, x_row, row1, row2, most,
    KEEP: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
    K0: tl.constexpr, K1: tl.constexpr, N0: tl.constexpr, N1: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """Write what networks of three layers put out, and if it is kept, what came out of the hidden ones.

    A program takes some rows through the whole network. It makes BC units of the first hidden layer at a time, and adds
    what they mean to all units of the second, which it holds. Inputs, and those units, are held in two parts, as the
    sizes of blocks are powers of 2: K0 and K1 inputs, N0 and N1 units; a second part may be empty.
    """
    net, m = tl.program_id(1), tl.program_id(0) * BM + tl.arange(0, BM)
    x += net % x_count * x_net
    w1 += net % w_count * (in1 + 1) * c1
    w2 += net % w_count * (in2 + 1) * c2
    w3 += net % w_count * (in3 + 1) * outs
    there = (m < rows)[:, None]
    k0, n0, few = tl.arange(0, K0), tl.arange(0, N0), tl.arange(0, FEW)
    x0 = tl.load(x + m[:, None] * x_row + k0[None, :], mask=there & (k0 < x_row)[None, :], other=0.0)
    total0 = tl.zeros((BM, N0), tl.float32)
    if K1:
        k1 = K0 + tl.arange(0, K1)
        x1 = tl.load(x + m[:, None] * x_row + k1[None, :], mask=there & (k1 < x_row)[None, :], other=0.0)
    if N1:
        n1 = N0 + tl.arange(0, N1)
        total1 = tl.zeros((BM, N1), tl.float32)
    for at in range(0, c1, BC):
        c = at + tl.arange(0, BC)
        inside, of = (c < c1)[None, :], (c < in2)[:, None]
        bias = tl.load(w1 + in1 * c1 + c, mask=c < c1, other=0.0).to(tl.float32)
        a = tl.load(w1 + k0[:, None] * c1 + c[None, :], mask=(k0 < in1)[:, None] & inside, other=0.0)
        total = tl.dot(x0, a)
        if K1:
            b = tl.load(w1 + k1[:, None] * c1 + c[None, :], mask=(k1 < in1)[:, None] & inside, other=0.0)
            total = tl.dot(x1, b, total)
        y = _rectified(total + bias[None, :], most)
        if KEEP:
            tl.store(h1 + net * rows * row1 + m[:, None] * row1 + c[None, :], y, mask=there & inside)
        d = tl.load(w2 + c[:, None] * c2 + n0[None, :], mask=of & (n0 < c2)[None, :], other=0.0)
        total0 = tl.dot(y, d, total0)
        if N1:
            e = tl.load(w2 + c[:, None] * c2 + n1[None, :], mask=of & (n1 < c2)[None, :], other=0.0)
            total1 = tl.dot(y, e, total1)
    if KEEP:  # what follows the units
        c = c1 + tl.arange(0, BC)
        to = h1 + net * rows * row1 + m[:, None] * row1 + c[None, :]
        tl.store(to, tl.zeros((BM, BC), tl.float16), mask=there & (c < row1)[None, :])
    fine = (few < outs)[None, :]
    said = tl.load(w3 + in3 * outs + few, mask=few < outs, other=0.0).to(tl.float32)[None, :]
    h2 += net * rows * row2 + m[:, None] * row2
    z = _rectified(total0 + tl.load(w2 + in2 * c2 + n0, mask=n0 < c2, other=0.0).to(tl.float32)[None, :], most)
    if KEEP:
        tl.store(h2 + n0[None, :], z, mask=there & (n0 < row2)[None, :])
    said += tl.dot(z, tl.load(w3 + n0[:, None] * outs + few[None, :], mask=(n0 < in3)[:, None] & fine, other=0.0))
    if N1:
        z = _rectified(total1 + tl.load(w2 + in2 * c2 + n1, mask=n1 < c2, other=0.0).to(tl.float32)[None, :], most)
        if KEEP:
            tl.store(h2 + n1[None, :], z, mask=there & (n1 < row2)[None, :])
        said += tl.dot(z, tl.load(w3 + n1[:, None] * outs + few[None, :], mask=(n1 < in3)[:, None] & fine, other=0.0))
    tl.store(out + net * rows * outs + m[:, None] * outs + few[None, :], said, mask=there & fine)


@triton.jit
def back(
    pull, w1, w2, w3, h1, h2, p1, p2, out, rows, in1, in2, in3, c1, c2, outs, row1, row2, first, count, scale, most,
    KEEP: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr, N0: tl.constexpr, N1: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """Turn a pull on what networks put out into those on what came out of their hidden layers, which are kept, ...

    ... or else into that on some of the inputs. See `forward`; pulls within are scaled.
    """
    net, m = tl.program_id(1), tl.program_id(0) * BM + tl.arange(0, BM)
    w1 += net * (in1 + 1) * c1
    w2 += net * (in2 + 1) * c2
    w3 += net * (in3 + 1) * outs
    there = (m < rows)[:, None]
    n0, few = tl.arange(0, N0), tl.arange(0, FEW)
    fine = (few < outs)[None, :]
    given = tl.load(pull + net * rows * outs + m[:, None] * outs + few[None, :], mask=there & fine, other=0.0)
    given = _halved(given, scale, most, True)
    at2 = net * rows * row2 + m[:, None] * row2
    came = tl.load(h2 + at2 + n0[None, :], mask=there & (n0 < row2)[None, :], other=0.0)
    w = tl.load(w3 + n0[:, None] * outs + few[None, :], mask=(n0 < in3)[:, None] & fine, other=0.0)
    z0 = _gated(tl.dot(given, tl.trans(w)), came, most)
    if KEEP:
        tl.store(p2 + at2 + n0[None, :], z0, mask=there & (n0 < row2)[None, :])
    if N1:
        n1 = N0 + tl.arange(0, N1)
        came = tl.load(h2 + at2 + n1[None, :], mask=there & (n1 < row2)[None, :], other=0.0)
        w = tl.load(w3 + n1[:, None] * outs + few[None, :], mask=(n1 < in3)[:, None] & fine, other=0.0)
        z1 = _gated(tl.dot(given, tl.trans(w)), came, most)
        if KEEP:
            tl.store(p2 + at2 + n1[None, :], z1, mask=there & (n1 < row2)[None, :])
    if not KEEP:
        found = tl.zeros((BM, FEW), tl.float32)
    for at in range(0, c1, BC):
        c = at + tl.arange(0, BC)
        of, inside = (c < in2)[:, None], there & (c < row1)[None, :]
        at1 = net * rows * row1 + m[:, None] * row1 + c[None, :]
        gate = tl.load(h1 + at1, mask=inside, other=0.0)
        d = tl.load(w2 + c[:, None] * c2 + n0[None, :], mask=of & (n0 < c2)[None, :], other=0.0)
        total = tl.dot(z0, tl.trans(d))
        if N1:
            e = tl.load(w2 + c[:, None] * c2 + n1[None, :], mask=of & (n1 < c2)[None, :], other=0.0)
            total = tl.dot(z1, tl.trans(e), total)
        y = _gated(total, gate, most)
        if KEEP:
            tl.store(p1 + at1, y, mask=inside)
        else:
            close = w1 + (first + few)[:, None] * c1 + c[None, :]
            a = tl.load(close, mask=(few < count)[:, None] & (c < c1)[None, :], other=0.0)
            found = tl.dot(y, tl.trans(a), found)
    if not KEEP:
        to = out + net * rows * count + m[:, None] * count + few[None, :]
        tl.store(to, found / scale, mask=there & (few < count)[None, :])


@triton.jit
def _plus(a, b):
    return a + b


@triton.jit
def _spread(block, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return a block as it is, but held by threads in the order of memory instead of that of tensor cores.

    What follows it is then read and written as it lies. Without, Triton brings every number that Adam reads or writes
    into the other order and back: seven times instead of once. (Scans keep to the order of memory; this one is of
    single numbers, and so none.)
    """
    return tl.reshape(tl.associative_scan(tl.reshape(block, (ROWS, COLUMNS, 1)), 2, _plus), (ROWS, COLUMNS))


@triton.jit
def _adam(
    gradient, at, half_at, fine, numbers, rounded, first, second, target, target_rounded, mask, corrections,
    beta1, beta2, epsilon, rate, decay, tau, MASKED: tl.constexpr, FOLLOW: tl.constexpr,
):  # fmt: skip
    """Do what torch.optim.Adam does to the numbers at places, then let the target follow."""
    old = tl.load(numbers + at, mask=fine, other=0.0)
    m = tl.load(first + at, mask=fine, other=0.0)
    v = tl.load(second + at, mask=fine, other=0.0)
    if MASKED:
        gradient *= tl.load(mask + at, mask=fine, other=0.0)
    gradient += decay * old
    m += (1.0 - beta1) * (gradient - m)
    v = beta2 * v + (1.0 - beta2) * gradient * gradient
    new = old - rate * tl.load(corrections) * m / (tl.sqrt(v) * tl.load(corrections + 1) + epsilon)
    tl.store(first + at, m, mask=fine)
    tl.store(second + at, v, mask=fine)
    tl.store(numbers + at, new, mask=fine)
    tl.store(rounded + half_at, new.to(tl.float16), mask=fine)
    if FOLLOW:
        follows = tl.load(target + at, mask=fine, other=0.0)
        follows += tau * (new - follows)
        tl.store(target + at, follows, mask=fine)
        tl.store(target_rounded + half_at, follows.to(tl.float16), mask=fine)


@triton.jit
def learn(
    x, pull, numbers, rounded, first, second, target, target_rounded, mask, corrections,
    x_count, rows, inputs, columns, x_net, x_row, p_row, scale, most, beta1, beta2, epsilon, rate, decay, tau,
    RAW: tl.constexpr, MASKED: tl.constexpr, FOLLOW: tl.constexpr,
    BI: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Find the gradient of a block of a layer, or of a part of its bias, and step down it."""
    net = tl.program_id(1)
    i, n = _corner(columns, BI, BN)
    k = tl.arange(0, BK)
    x += net % x_count * x_net
    pull += net * rows * p_row
    here = net * (inputs + 1) * columns
    inside = (n < columns)[None, :]
    if tl.program_id(0) < tl.cdiv(inputs, BI) * tl.cdiv(columns, BN):
        at, fine = here + i[:, None] * columns + n[None, :], (i < inputs)[:, None] & inside
        half_at = tl.max_contiguous(here + i[:, None] * columns + n[None, :], [1, 4])  # as many as of whole numbers
        total = tl.zeros((BI, BN), tl.float32)
        for row in range(0, rows, BK):
            there = ((row + k) < rows)[:, None]
            a = tl.load(x + (row + k)[:, None] * x_row + i[None, :], mask=there, other=0.0)
            known = there
            if RAW:
                known = there & inside
            b = tl.load(pull + (row + k)[:, None] * p_row + n[None, :], mask=known, other=0.0)
            total = tl.dot(tl.trans(a), _halved(b, scale, most, RAW), total)
        total = _spread(total, BI, BN)
        _adam(
            total / scale, at, half_at, fine, numbers, rounded, first, second, target, target_rounded, mask,
            corrections, beta1, beta2, epsilon, rate, decay, tau, MASKED, FOLLOW,
        )  # fmt: skip
    else:
        below = here + inputs * columns + n[None, :]
        sums = tl.zeros((1, BN), tl.float32)
        for row in range(0, rows, BK):
            known = ((row + k) < rows)[:, None] & inside
            b = tl.load(pull + (row + k)[:, None] * p_row + n[None, :], mask=known, other=0.0)
            sums += tl.sum(_halved(b, scale, most, RAW).to(tl.float32), 0, keep_dims=True)
        _adam(
            sums / scale, below, below, inside, numbers, rounded, first, second, target, target_rounded,
            mask, corrections, beta1, beta2, epsilon, rate, decay, tau, MASKED, FOLLOW,
        )  # fmt: skip
