"""The bounds of the paper's section 4 as functions of a problem's few numbers, as printed and as they can be corrected.

Units: with returns in points and parameters in weights, B is in points, C in points squared, sigma in weights, epsilon
(a length of the gradient) in points per weight, L in points per weight squared, the step size in weights squared per
point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nesht.errors import UserError

CURVATURE = 4 * math.exp(-0.5) / math.sqrt(2 * math.pi)
"""E|z^2 - 1| of a standard normal z, 0.968: what (d + 1) in the paper's smoothness constant can be replaced by."""

SLOPE = math.sqrt(2 / math.pi)
"""E|z| of a standard normal z, 0.798."""


@dataclass(frozen=True)
class Plan:
    """What the theorem asks for to reach a gradient of expected length epsilon on the kept weights."""

    epsilon: float
    step: float
    """The learning rate alpha of plain SGD on raw fitness."""
    generations: int
    """T."""
    n: int
    """Members per generation."""
    rollouts: int
    """Episodes per member, N."""

    @property
    def episodes(self) -> int:
        """T n N."""
        return self.generations * self.n * self.rollouts


@dataclass(frozen=True)
class Analysis:
    """The paper's constants and bounds for one problem."""

    d: int
    """Parameters of the policy."""
    bound: float
    """B: no policy's expected return is larger in magnitude."""
    variance: float
    """C: the variance of one episode's return, at most, at every perturbed policy theta + sigma eps."""
    sigma: float
    """Standard deviation of the perturbations."""
    c: float = 0.25
    """The step size is c / L, 0 < c < 1/2; 1/4 makes c1 smallest."""
    corrected: bool = False
    """Whether to use the sharper constants that the same proof allows: L without d, and C / (n N) in the variance."""

    def __post_init__(self) -> None:
        whole("d (the number of parameters)", self.d)
        positive("bound (the largest expected return, B)", self.bound)
        if not 0 <= self.variance < math.inf:
            raise UserError(f"variance (of an episode's return, C) must be 0 or more, got {self.variance}.")
        positive("sigma (the size of the perturbations)", self.sigma)
        if not 0 < self.c < 0.5:
            raise UserError(f"c (the step size times L) must lie strictly between 0 and 1/2, got {self.c}.")

    @property
    def c1(self) -> float:
        """The theorem's factor of the gradient's variance."""
        return 2 + 2 / (self.c * (1 - 2 * self.c))

    @property
    def c2(self) -> float:
        """The theorem's factor of B / (alpha T)."""
        return (12 - 8 * self.c) / (1 - 2 * self.c)

    @property
    def smoothness(self) -> float:
        """L, the Lipschitz constant of the gradient of the smoothed return: (d + 1) B / sigma^2 in the paper."""
        return (CURVATURE if self.corrected else self.d + 1) * self.bound / self.sigma**2

    @property
    def step(self) -> float:
        """The theorem's step size, alpha = c / L."""
        return self.c / self.smoothness

    @property
    def steepest(self) -> float:
        """The longest gradient that the smoothed return can have: an epsilon above it holds for every policy."""
        return SLOPE * self.bound / self.sigma

    def variance_bound(self, n: int, rollouts: int = 1) -> float:
        """Return the bound on the mean squared error of the gradient with n members and N rollouts each."""
        whole("n (members per generation)", n)
        whole("rollouts (episodes per member, N)", rollouts)
        luck = self.variance / (n * rollouts if self.corrected else rollouts)
        return self.d / self.sigma**2 * (luck + self.bound**2 / n)

    def distance_bound(self, generations: int, n: int, rollouts: int = 1) -> float:
        """Return the epsilon that holds after T generations with n members and N rollouts."""
        whole("generations (T)", generations)
        square = self.c1 * self.variance_bound(n, rollouts) + self.c2 * self.bound / (self.step * generations)
        return math.sqrt(square)

    def plan(self, epsilon: float) -> Plan:
        """Return the numbers of generations, members and rollouts with which the theorem promises epsilon."""
        positive("epsilon (the length of the gradient to reach)", epsilon)
        square = epsilon**2 if epsilon < 1e150 else math.inf
        generations = _up(2 * self.c2 * self.bound / self.step, square)
        per_square = self.c1 * self.d / self.sigma**2
        if self.corrected:
            return Plan(
                epsilon, self.step, generations, _up(2 * per_square * (self.bound**2 + self.variance), square), 1
            )
        n, rollouts = (_up(4 * per_square * part, square) for part in (self.bound**2, self.variance))
        return Plan(epsilon, self.step, generations, n, rollouts)

    def guaranteed(self, episodes: int) -> float:
        """Return the smallest epsilon whose plan needs no more than a number of episodes."""
        whole("episodes (the budget)", episodes)
        low, high = 1.0, 1.0
        while self.plan(high).episodes > episodes:
            high *= 2
        while self.plan(low).episodes <= episodes:
            low /= 2
        for _ in range(100):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.plan(middle).episodes <= episodes else (middle, high)
        return high

    def split(self, episodes: int) -> tuple[int, int]:
        """Return the n and N with n N at most this many episodes a generation whose variance bound is smallest."""
        whole("episodes (of a generation)", episodes)
        # For every n the best N is what is left, and the other way round: one of the two is at most the square root.
        some = range(1, math.isqrt(episodes) + 1)
        pairs = [pair for m in some for pair in ((episodes // m, m), (m, episodes // m))]
        return min(pairs, key=lambda pair: self.variance_bound(*pair))


def positive(name: str, value: float) -> None:
    """Refuse what is not a positive number."""
    if not 0 < value < math.inf:
        raise UserError(f"{name} must be a positive number, got {value}.")


def whole(name: str, value: int) -> None:
    """Refuse what is not a whole number, at least 1."""
    if not (value >= 1 and value % 1 == 0):
        raise UserError(f"{name} must be a whole number, at least 1, got {value}.")


def _up(amount: float, divisor: float) -> int:
    """Return amount / divisor, rounded up, at least 1."""
    found = amount / divisor if divisor > 0 else math.inf
    if not math.isfinite(found):
        raise UserError("these numbers are too far apart to compute with; choose a larger epsilon or sigma.")
    return max(1, math.ceil(found))
