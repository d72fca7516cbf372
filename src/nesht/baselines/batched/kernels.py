"""What learners do to rows of a batch and to numbers, and runs to every step: few kernels, not many small ones."""

import warp as wp

LOG_STD_LOW = wp.constant(-20.0)
LOG_STD_HIGH = wp.constant(2.0)
"""Bounds of the logarithm of an action's standard deviation in SAC."""
EPSILON = wp.constant(1e-6)
"""Keeps the logarithm of a squashed action's density finite."""
HALF_LOG_TWO_PI = wp.constant(0.9189385332046727)


@wp.kernel(enable_backward=False)
def squash(
    raw: wp.array3d(dtype=float),
    noise: wp.array3d(dtype=float),
    scale: float,
    clip: float,
    action: wp.array3d(dtype=float),
):
    """Turn what actors put out into actions, with clipped noise if there is a scale of it."""
    n, i, j = wp.tid()
    a = wp.tanh(raw[n, i, j])
    if scale > 0.0:
        a = wp.clamp(a + wp.clamp(scale * noise[n, i, j], -clip, clip), -1.0, 1.0)
    action[n, i, j] = a


@wp.kernel(enable_backward=False)
def pull_on_squashed(action: wp.array3d(dtype=float), pull: wp.array3d(dtype=float)):
    """Turn a pull on actions into one on what actors put out."""
    n, i, j = wp.tid()
    pull[n, i, j] = pull[n, i, j] * (1.0 - action[n, i, j] * action[n, i, j])


@wp.kernel(enable_backward=False)
def draw_actions(
    raw: wp.array3d(dtype=float),
    normal: wp.array3d(dtype=float),
    action: wp.array3d(dtype=float),
    density: wp.array2d(dtype=float),
):
    """Draw squashed actions of means and logarithms of deviations; `density` is the logarithm of theirs."""
    n, i = wp.tid()
    actions = normal.shape[2]
    total = float(0.0)
    for j in range(actions):
        log_std = wp.clamp(raw[n, i, actions + j], LOG_STD_LOW, LOG_STD_HIGH)
        z = normal[n, i, j]
        a = wp.tanh(raw[n, i, j] + wp.exp(log_std) * z)
        action[n, i, j] = a
        total += -0.5 * z * z - log_std - HALF_LOG_TWO_PI - wp.log(1.0 - a * a + EPSILON)
    density[n, i] = total


@wp.kernel(enable_backward=False)
def pull_on_drawn(
    raw: wp.array3d(dtype=float),
    normal: wp.array3d(dtype=float),
    action: wp.array3d(dtype=float),
    weight: wp.array(dtype=float),
    critics: int,
    on_action: wp.array3d(dtype=float),
    pull: wp.array3d(dtype=float),
):
    """Turn pulls of critics on actions, and that of the entropy, into one on what actors put out."""
    n, i = wp.tid()
    runs = raw.shape[0]
    actions = normal.shape[2]
    share = weight[n] / float(raw.shape[1])
    for j in range(actions):
        a = action[n, i, j]
        given = raw[n, i, actions + j]
        on = share * 2.0 * a / (1.0 - a * a + EPSILON)
        for critic in range(critics):
            on += on_action[critic * runs + n, i, j]
        on = on * (1.0 - a * a)
        pull[n, i, j] = on
        deviation = float(0.0)
        if given >= LOG_STD_LOW and given <= LOG_STD_HIGH:
            deviation = on * wp.exp(given) * normal[n, i, j] - share
        pull[n, i, actions + j] = deviation


@wp.kernel(enable_backward=False)
def judge(
    value: wp.array3d(dtype=float),
    future: wp.array3d(dtype=float),
    weight: wp.array(dtype=float),
    density: wp.array2d(dtype=float),
    reward: wp.array2d(dtype=float),
    over: wp.array2d(dtype=float),
    critics: int,
    gamma: float,
    scale: float,
    error: wp.array3d(dtype=float),
    pull: wp.array3d(dtype=float),
):
    """Compare what critics say with a reward and the worst of what their targets expect after it."""
    n, i = wp.tid()
    runs = reward.shape[0]
    worst = future[n, i, 0]
    for critic in range(1, critics):
        worst = wp.min(worst, future[critic * runs + n, i, 0])
    wanted = reward[n, i] + (1.0 - over[n, i]) * gamma * (worst - weight[n] * density[n, i])
    for critic in range(critics):
        off = value[critic * runs + n, i, 0] - wanted
        error[critic * runs + n, i, 0] = off
        pull[critic * runs + n, i, 0] = scale * off


@wp.kernel(enable_backward=False)
def choose(value: wp.array3d(dtype=float), critics: int, pull: wp.array3d(dtype=float)):
    """Let the actor be pulled by the critic that says least."""
    n, i = wp.tid()
    runs = value.shape[0] // critics
    worst = int(0)
    for critic in range(1, critics):
        if value[critic * runs + n, i, 0] < value[worst * runs + n, i, 0]:
            worst = critic
    for critic in range(critics):
        pull[critic * runs + n, i, 0] = 0.0
    pull[worst * runs + n, i, 0] = -1.0 / float(value.shape[1])


@wp.kernel(enable_backward=False)
def remember(
    step: wp.array(dtype=int),
    seen: wp.array2d(dtype=float),
    after: wp.array2d(dtype=float),
    action: wp.array2d(dtype=float),
    reward: wp.array(dtype=float),
    over: wp.array(dtype=bool),
    moment: wp.array2d(dtype=int),
    numbers: wp.array3d(dtype=float),
    moments: wp.array3d(dtype=int),
):
    """Write a transition of every run in place of the oldest, with zeros where a simulation blew up."""
    n, j = wp.tid()
    place = step[0] % numbers.shape[1]
    real = seen.shape[1]
    actions = action.shape[1]
    value = float(0.0)
    if j < real:
        value = seen[n, j]
    elif j < 2 * real:
        value = after[n, j - real]
    elif j < 2 * real + actions:
        value = action[n, j - 2 * real]
    elif j == 2 * real + actions:
        value = reward[n]
    elif over[n]:
        value = 1.0
    if not wp.isfinite(value):
        value = 0.0
    numbers[n, place, j] = value
    if j < 2:
        moments[n, place, j] = moment[n, j]


@wp.kernel(enable_backward=False)
def move_on(
    shown: wp.array2d(dtype=float),
    terminated: wp.array(dtype=bool),
    truncated: wp.array(dtype=bool),
    blown_up: wp.array(dtype=bool),
    step: wp.array(dtype=int),
    real: wp.array2d(dtype=float),
    moment: wp.array2d(dtype=int),
    diverged: wp.array(dtype=int),
):
    """Let every run see what its environment shows now, in its next moment."""
    n, j = wp.tid()
    real[n, j] = shown[n, j]
    if j == 0:
        moment[n, 1] = moment[n, 1] + 1
        if terminated[n] or truncated[n]:
            moment[n, 0] = moment[n, 0] + 1
            moment[n, 1] = 0
        if blown_up[n]:
            diverged[n] = diverged[n] + 1
        if n == 0:
            step[0] = step[0] + 1


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
    gradient: wp.array(dtype=float),
    first: wp.array(dtype=float),
    second: wp.array(dtype=float),
    target: wp.array(dtype=float),
    mask: wp.array(dtype=float),
    masked: int,
    corrections: wp.array(dtype=float),
    beta1: float,
    beta2: float,
    epsilon: float,
    rate: float,
    decay: float,
    tau: float,
):
    """Do what torch.optim.Adam does, then let the target follow."""
    i = wp.tid()
    x = numbers[i]
    g = gradient[i]
    if i < masked:
        g = g * mask[i]
    g = g + decay * x
    m = first[i] + (1.0 - beta1) * (g - first[i])
    v = beta2 * second[i] + (1.0 - beta2) * g * g
    first[i] = m
    second[i] = v
    x = x - rate * corrections[0] * m / (wp.sqrt(v) * corrections[1] + epsilon)
    numbers[i] = x
    if tau > 0.0:
        target[i] = target[i] + tau * (x - target[i])
