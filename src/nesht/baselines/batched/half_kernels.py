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
def forward(
    x, weight, out, x_count, w_count, rows, inputs, columns, x_net, x_row, out_row, most,
    RECTIFY: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Write what a layer puts out: x weight + bias, then the largest of that and 0."""
    net = tl.program_id(1)
    m, n = _corner(out_row, BM, BN)
    k = tl.arange(0, BK)
    weight += net % w_count * (inputs + 1) * columns
    x += net % x_count * x_net
    there, inside = (m < rows)[:, None], (n < columns)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, inputs, BK):
        a = tl.load(x + m[:, None] * x_row + (at + k)[None, :], mask=there, other=0.0)
        of = (at + k)[:, None] < inputs
        b = tl.load(weight + (at + k)[:, None] * columns + n[None, :], mask=of & inside, other=0.0)
        total = tl.dot(a, b, total)
    total += tl.load(weight + inputs * columns + n, mask=n < columns, other=0.0).to(tl.float32)[None, :]
    if RECTIFY:
        total = tl.minimum(tl.maximum(total, 0.0), most)
    to = out + net * rows * out_row + m[:, None] * out_row + n[None, :]
    tl.store(to, total.to(out.dtype.element_ty), mask=there & (n < out_row)[None, :])


@triton.jit
def back(
    pull, weight, x, out, x_count, rows, first, count, inputs, columns, p_row, x_net, x_row, out_row, scale, most,
    RAW: tl.constexpr, GATE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Turn a pull on what came out of a layer into one on some that went into it; none where that was nothing."""
    net = tl.program_id(1)
    m, n = _corner(out_row, BM, BN)
    k = tl.arange(0, BK)
    weight += net * (inputs + 1) * columns
    pull += net * rows * p_row
    there, inside = (m < rows)[:, None], (n < count)[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, columns, BK):
        known = there
        if RAW:
            known = there & ((at + k) < columns)[None, :]
        a = _halved(tl.load(pull + m[:, None] * p_row + (at + k)[None, :], mask=known, other=0.0), scale, most, RAW)
        of = ((at + k) < columns)[None, :]
        b = tl.load(weight + (first + n)[:, None] * columns + (at + k)[None, :], mask=inside & of, other=0.0)
        total = tl.dot(a, tl.trans(b), total)
    written = there & (n < out_row)[None, :]
    if GATE:
        came = tl.load(x + net % x_count * x_net + m[:, None] * x_row + n[None, :], mask=written, other=0.0)
        total = tl.where(came > 0, tl.minimum(tl.maximum(total, -most), most), 0.0)
    else:
        total = total / scale
    to = out + net * rows * out_row + m[:, None] * out_row + n[None, :]
    tl.store(to, total.to(out.dtype.element_ty), mask=written)


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
