"""What runs of an on-policy algorithm do at every step: scales as `VecNormalize` has them, actions, and the record."""

import warp as wp

from nesht.baselines.batched.kernels import HALF_LOG_TWO_PI

LEAST_VARIANCE = wp.constant(wp.float64(1e-8))
CLIP = wp.constant(10.0)
"""What is added to variances, and the bound of what is scaled, in `VecNormalize` of stable-baselines3."""


@wp.func
def moved(value: float, count: wp.float64, mean: wp.float64, var: wp.float64):
    """Return the mean and variance of so many numbers after one more."""
    total = count + wp.float64(1.0)
    off = wp.float64(value) - mean
    return mean + off / total, (var * count + off * off * count / total) / total


@wp.func
def scaled(off: wp.float64, var: wp.float64):
    """Return a distance by its spread, within bounds."""
    return wp.clamp(float(off / wp.sqrt(var + LEAST_VARIANCE)), -CLIP, CLIP)


@wp.func
def scaled_seen(value: float, mean: wp.float64, var: wp.float64):
    """Return a number that was seen, scaled; what a simulation that blew up shows counts as zero."""
    known = value
    if not wp.isfinite(known):
        known = 0.0
    return scaled(wp.float64(known) - mean, var)


@wp.kernel(enable_backward=False)
def take_in(
    rows: wp.array2d(dtype=float),
    count: wp.array(dtype=wp.float64),
    mean: wp.array2d(dtype=wp.float64),
    var: wp.array2d(dtype=wp.float64),
):
    """Take one more row of every run into its running mean and variance."""
    n, j = wp.tid()
    middle, spread = moved(rows[n, j], count[0], mean[n, j], var[n, j])
    mean[n, j] = middle
    var[n, j] = spread


@wp.kernel(enable_backward=False)
def scale_seen(
    seen: wp.array3d(dtype=float),
    mean: wp.array2d(dtype=wp.float64),
    var: wp.array2d(dtype=wp.float64),
    out: wp.array3d(dtype=float),
):
    """Scale observations by what was seen before."""
    n, i, j = wp.tid()
    out[n, i, j] = scaled_seen(seen[n, i, j], mean[n, j], var[n, j])


@wp.kernel(enable_backward=False)
def take_reward(
    reward: wp.array(dtype=float),
    ended: wp.array(dtype=bool),
    gamma: float,
    count: wp.array(dtype=wp.float64),
    mean: wp.array2d(dtype=wp.float64),
    var: wp.array2d(dtype=wp.float64),
    returned: wp.array(dtype=float),
    out: wp.array(dtype=float),
):
    """Take the return so far of every run into its running mean and variance, and scale its reward by their spread."""
    n = wp.tid()
    given = reward[n]
    if not wp.isfinite(given):
        given = 0.0
    now = gamma * returned[n] + given
    middle, spread = moved(now, count[0], mean[n, 0], var[n, 0])
    mean[n, 0] = middle
    var[n, 0] = spread
    out[n] = scaled(wp.float64(given), spread)
    if ended[n]:
        now = 0.0
    returned[n] = now


@wp.kernel(enable_backward=False)
def draw_normal_actions(
    step: wp.array(dtype=int),
    mean: wp.array3d(dtype=float),
    log_std: wp.array3d(dtype=float),
    normal: wp.array2d(dtype=float),
    action: wp.array3d(dtype=float),
    density: wp.array2d(dtype=float),
    bounded: wp.array2d(dtype=float),
):
    """Draw an action of every run and write it down, with the logarithm of its density."""
    n = wp.tid()
    place = step[0] % action.shape[1]
    total = float(0.0)
    for j in range(action.shape[2]):
        m = mean[n, 0, j]
        std = wp.exp(log_std[n, 0, j])
        a = m + std * normal[n, j]
        z = (a - m) / std
        total += -0.5 * z * z - log_std[n, 0, j] - HALF_LOG_TWO_PI
        action[n, place, j] = a
        bounded[n, j] = wp.clamp(a, -1.0, 1.0)
    density[n, place] = total


@wp.kernel(enable_backward=False)
def write_down(
    step: wp.array(dtype=int),
    shown: wp.array2d(dtype=float),
    last: wp.array2d(dtype=float),
    earned: wp.array(dtype=float),
    over: wp.array(dtype=bool),
    ended: wp.array(dtype=bool),
    count: wp.array(dtype=wp.float64),
    mean: wp.array2d(dtype=wp.float64),
    var: wp.array2d(dtype=wp.float64),
    seen: wp.array3d(dtype=float),
    kept: wp.array3d(dtype=float),
    after: wp.array3d(dtype=float),
    reward: wp.array2d(dtype=float),
    ends: wp.array2d(dtype=float),
    cut: wp.array2d(dtype=float),
):
    """Take in what is shown now, and write down the step that led there: `seen` is of its beginning, then of now."""
    n, j = wp.tid()
    place = (step[0] - 1) % kept.shape[1]
    middle, spread = moved(shown[n, j], count[0], mean[n, j], var[n, j])
    mean[n, j] = middle
    var[n, j] = spread
    kept[n, place, j] = seen[n, 0, j]
    after[n, place, j] = scaled_seen(last[n, j], middle, spread)
    seen[n, 0, j] = scaled_seen(shown[n, j], middle, spread)
    if j == 0:
        reward[n, place] = earned[n]
        end = float(0.0)
        short = float(0.0)
        if ended[n]:
            end = 1.0
            if not over[n]:
                short = 1.0
        ends[n, place] = end
        cut[n, place] = short
