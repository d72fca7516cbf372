"""What networks do to every number of a layer, and Adam to every number: float32, or float16 where it is multiplied."""

from typing import Any

import warp as wp


@wp.kernel(enable_backward=False)
def join(
    seen: wp.array3d(dtype=float),
    action: wp.array3d(dtype=float),
    actions: int,
    most: float,
    out: wp.array3d(dtype=Any),
):
    """Write observations, actions, a 1 and zeros: to all networks of a run alike."""
    n, i, j = wp.tid()
    run = n % seen.shape[0]
    width = seen.shape[2]
    four = out[n, i, j]
    for m in range(4):
        at = 4 * j + m
        value = float(0.0)
        if at < width:
            value = seen[run, i, at]
        elif at < width + actions:
            value = action[run, i, at - width]
        elif at == width + actions:
            value = 1.0
        four[m] = four.dtype(wp.clamp(value, -most, most))
    out[n, i, j] = four


@wp.kernel(enable_backward=False)
def rectify(x: wp.array3d(dtype=Any), width: int, most: float):
    """Turn what came out of a layer into what goes into the next."""
    n, i, j = wp.tid()
    four = x[n, i, j]
    for m in range(4):
        if 4 * j + m < width:
            four[m] = four.dtype(wp.clamp(float(four[m]), 0.0, most))
        elif 4 * j + m == width:
            four[m] = four.dtype(1.0)
        else:
            four[m] = four.dtype(0.0)
    x[n, i, j] = four


@wp.kernel(enable_backward=False)
def gate(x: wp.array3d(dtype=Any), width: int, most: float, pull: wp.array3d(dtype=Any)):
    """Let no pull through where a layer put out nothing, nor beyond what it puts out."""
    n, i, j = wp.tid()
    four = x[n, i, j]
    pulls = pull[n, i, j]
    for m in range(4):
        if 4 * j + m >= width or four[m] <= four.dtype(0.0):
            pulls[m] = four.dtype(0.0)
        else:
            pulls[m] = four.dtype(wp.clamp(float(pulls[m]), -most, most))
    pull[n, i, j] = pulls


@wp.kernel(enable_backward=False)
def send_back(
    x: wp.array3d(dtype=Any),
    weight: wp.array3d(dtype=Any),
    pull: wp.array3d(dtype=float),
    width: int,
    scale: float,
    most: float,
    out: wp.array3d(dtype=Any),
):
    """Turn a pull on what the last layer puts out into one on what the layer before it does, and scale it."""
    n, i, j = wp.tid()
    four = x[n, i, j]
    for m in range(4):
        at = 4 * j + m
        total = float(0.0)
        if at < width and four[m] > four.dtype(0.0):
            for o in range(pull.shape[2]):
                total += pull[n, i, o] * float(weight[n, at, o])
        four[m] = four.dtype(wp.clamp(scale * total, -most, most))
    out[n, i, j] = four


@wp.kernel(enable_backward=False)
def round_off(pull: wp.array3d(dtype=float), scale: float, most: float, out: wp.array3d(dtype=Any)):
    """Scale a pull and round it to what is multiplied."""
    n, i, j = wp.tid()
    out[n, i, j] = out.dtype(wp.clamp(scale * pull[n, i, j], -most, most))


@wp.kernel(enable_backward=False)
def tick(powers: wp.array(dtype=wp.float64), beta1: wp.float64, beta2: wp.float64, corrections: wp.array(dtype=float)):
    """Count a step of Adam: its moments begin at zero, and are corrected for that."""
    powers[0] = powers[0] * beta1
    powers[1] = powers[1] * beta2
    corrections[0] = float(wp.float64(1.0) / (wp.float64(1.0) - powers[0]))
    corrections[1] = float(wp.float64(1.0) / wp.sqrt(wp.float64(1.0) - powers[1]))


@wp.kernel(enable_backward=False)
def adam(
    numbers: wp.array(dtype=float),
    rounded: wp.array(dtype=Any),
    gradient: wp.array(dtype=float),
    first: wp.array(dtype=float),
    second: wp.array(dtype=float),
    target: wp.array(dtype=float),
    target_rounded: wp.array(dtype=Any),
    mask: wp.array(dtype=float),
    masked: int,
    corrections: wp.array(dtype=float),
    unscale: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    rate: float,
    decay: float,
    tau: float,
):
    """Do what torch.optim.Adam does, then let the target follow; what is multiplied is rounded."""
    i = wp.tid()
    x = numbers[i]
    g = unscale * gradient[i]
    if i < masked:
        g = g * mask[i]
    g = g + decay * x
    m = first[i] + (1.0 - beta1) * (g - first[i])
    v = beta2 * second[i] + (1.0 - beta2) * g * g
    first[i] = m
    second[i] = v
    x = x - rate * corrections[0] * m / (wp.sqrt(v) * corrections[1] + epsilon)
    numbers[i] = x
    rounded[i] = rounded.dtype(x)
    if tau > 0.0:
        y = target[i] + tau * (x - target[i])
        target[i] = y
        target_rounded[i] = target_rounded.dtype(y)


for one in (wp.float32, wp.float16):
    four = wp.types.vector(length=4, dtype=one)
    wp.overload(join, {"out": wp.array3d(dtype=four)})
    wp.overload(rectify, {"x": wp.array3d(dtype=four)})
    wp.overload(gate, {name: wp.array3d(dtype=four) for name in ("x", "pull")})
    wp.overload(
        send_back, {"x": wp.array3d(dtype=four), "weight": wp.array3d(dtype=one), "out": wp.array3d(dtype=four)}
    )
    wp.overload(round_off, {"out": wp.array3d(dtype=one)})
    wp.overload(adam, {name: wp.array(dtype=one) for name in ("rounded", "target_rounded")})
