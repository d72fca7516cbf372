"""Problems whose smoothed gradient, and the variance of whose gradient estimates, are known in closed form.

With members theta + sigma eps and f the mean of N episodes of each, the estimate is g = 1/(n sigma) sum_i f_i eps_i,
and its mean squared error is exactly

    E |g - grad|^2 = 1/n ( E[F(theta + sigma eps)^2 |eps|^2] / sigma^2 - |grad|^2
                           + E[v(theta + sigma eps) |eps|^2] / (N sigma^2) )

with F the expected return of a policy, v the variance of one episode's return and grad the gradient of the smoothed F.
A problem knows these three expectations. Every one here has a maximum at `top`; where an entry of `top` is zero, the
coordinate is irrelevant.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from nesht import keys
from nesht.errors import UserError
from nesht.strategy import Population
from nesht.theory.bounds import positive, whole


@dataclass(frozen=True)
class Problem(ABC):
    """A return to maximise, with the luck of its episodes; theta is (..., d) everywhere."""

    top: np.ndarray
    """(d,): the best parameters."""
    spread: float = 0.0
    """s: an episode's inputs x ~ N(0, s^2 I) add x.(theta - top) to its return, as in the paper's Example 1."""
    noise: float = 0.0
    """Standard deviation of what luck adds to the return of an episode whatever the policy does."""

    def __post_init__(self) -> None:
        if np.ndim(self.top) != 1 or not np.size(self.top) or not np.isfinite(self.top).all():
            raise UserError(f"top must be a vector of finite numbers, got shape {np.shape(self.top)}.")
        for name in ("spread", "noise"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"{name} is a standard deviation and must be 0 or more, got {getattr(self, name)}.")

    @property
    def d(self) -> int:
        """How many parameters there are."""
        return len(self.top)

    @abstractmethod
    def value(self, theta: np.ndarray) -> np.ndarray:
        """Return F, the expected return."""

    @abstractmethod
    def smoothed(self, theta: np.ndarray, sigma: float) -> np.ndarray:
        """Return F_sigma = E F(theta + sigma eps)."""

    @abstractmethod
    def gradient(self, theta: np.ndarray, sigma: float) -> np.ndarray:
        """Return the gradient of F_sigma."""

    @abstractmethod
    def signal(self, theta: np.ndarray, sigma: float) -> np.ndarray:
        """Return E[F(theta + sigma eps)^2 |eps|^2]."""

    def episode_variance(self, theta: np.ndarray) -> np.ndarray:
        """Return v, the variance of one episode's return: s^2 |theta - top|^2 in Example 1."""
        return self.noise**2 + self.spread**2 * _square(theta - self.top)

    def luck(self, theta: np.ndarray, sigma: float) -> np.ndarray:
        """Return E[v(theta + sigma eps) |eps|^2]."""
        return self.d * self.episode_variance(theta) + self.spread**2 * sigma**2 * self.d * (self.d + 2)

    def estimator_variance(self, theta: np.ndarray, sigma: float, n: int, rollouts: int = 1) -> np.ndarray:
        """Return the exact mean squared error of the NES gradient with n members and N rollouts each."""
        positive("sigma", sigma)
        whole("n (members per generation)", n)
        whole("rollouts", rollouts)
        luck = self.luck(theta, sigma) / rollouts
        return ((self.signal(theta, sigma) + luck) / sigma**2 - _square(self.gradient(theta, sigma))) / n

    def returns(self, population: Population, rollouts: int) -> np.ndarray:
        """Return what every episode of every member came to, (runs, n, rollouts); the same keys give the same luck."""
        members = population.members()
        luck = np.zeros((*members.shape[:2], rollouts))
        for run, (seed, generation) in enumerate(zip(population.seed, population.generation, strict=True)):
            rng = keys.generator(keys.pack(seed, generation), keys.Stream.NOISE)
            if self.noise:
                luck[run] += self.noise * rng.standard_normal(luck[run].shape)
            if self.spread:
                inputs = self.spread * rng.standard_normal((*luck[run].shape, self.d))
                luck[run] += np.einsum("nrd,nd->nr", inputs, members[run] - self.top)
        return self.value(members)[..., None] + luck


@dataclass(frozen=True)
class Quadratic(Problem):
    """F = level - curve/2 |theta - top|^2. Smoothing it only lowers it by a constant, curve/2 sigma^2 d."""

    curve: float = 1.0
    level: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.curve < math.inf or not math.isfinite(self.level):
            raise UserError(f"curve must be 0 or more and level a number, got {self.curve} and {self.level}.")

    def value(self, theta: np.ndarray) -> np.ndarray:
        """See `Problem.value`."""
        return self.level - self.curve / 2 * _square(theta - self.top)

    def smoothed(self, theta: np.ndarray, sigma: float) -> np.ndarray:
        """See `Problem.smoothed`."""
        return self.value(theta) - self.curve / 2 * sigma**2 * self.d

    def gradient(self, theta: np.ndarray, sigma: float) -> np.ndarray:
        """See `Problem.gradient`."""
        return -self.curve * (theta - self.top)

    def signal(self, theta: np.ndarray, sigma: float) -> np.ndarray:
        """See `Problem.signal`; E|eps|^4 = d (d + 2), E|eps|^6 = d (d + 2)(d + 4), odd terms vanish."""
        d, f, bend = self.d, self.value(theta), self.curve * sigma**2
        slope = self.curve**2 * sigma**2 * _square(theta - self.top) * (d + 2)
        return f**2 * d + slope - f * bend * d * (d + 2) + bend**2 / 4 * d * (d + 2) * (d + 4)


@dataclass(frozen=True)
class Steps(Problem):
    """A return with jumps: every relevant coordinate within `width` of its best value earns an equal share of `height`.

    F lies between 0 and `height`, so B = height; it is flat wherever it does not jump. An entry of `top` that is zero
    earns nothing.
    """

    width: float = 1.0
    height: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("width", self.width)
        positive("height", self.height)
        if not np.any(self.top):
            raise UserError("top needs at least one entry that is not zero: without one, nothing is relevant.")

    @property
    def _relevant(self) -> np.ndarray:
        return np.asarray(self.top != 0)

    @property
    def _share(self) -> float:
        return self.height / int(self._relevant.sum())

    def value(self, theta: np.ndarray) -> np.ndarray:
        """See `Problem.value`."""
        inside = (np.abs(theta - self.top) <= self.width) & self._relevant
        return self._share * inside.sum(axis=-1)

    def smoothed(self, theta: np.ndarray, sigma: float) -> np.ndarray:
        """See `Problem.smoothed`."""
        low, high = self._edges(theta, sigma)
        return self._share * (_normal(high) - _normal(low)).sum(axis=-1)

    def gradient(self, theta: np.ndarray, sigma: float) -> np.ndarray:
        """See `Problem.gradient`."""
        low, high = self._edges(theta, sigma)
        slope = np.zeros(np.shape(theta))
        slope[..., self._relevant] = self._share / sigma * (_density(low) - _density(high))
        return slope

    def signal(self, theta: np.ndarray, sigma: float) -> np.ndarray:
        """See `Problem.signal`: with p the chance to be inside and q = E[inside eps^2], coordinates are independent."""
        low, high = self._edges(theta, sigma)
        p = _normal(high) - _normal(low)
        q = p - high * _density(high) + low * _density(low)
        every = p.sum(axis=-1)
        mixed = (self.d - 2) * (every**2 - (p * p).sum(axis=-1)) + 2 * (q.sum(axis=-1) * every - (q * p).sum(axis=-1))
        own = (self.d - 1) * every + q.sum(axis=-1)
        return self._share**2 * (mixed + own)

    def _edges(self, theta: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
        """Return where the steps of the relevant coordinates are, in units of sigma from theta."""
        off = (self.top - theta)[..., self._relevant]
        return (off - self.width) / sigma, (off + self.width) / sigma


def example_1(relevant: int, irrelevant: int, spread: float = 1.0, curve: float = 0.0) -> Quadratic:
    """Return the paper's Example 1: f = x.(theta - top) with x ~ N(0, s^2 I) and a top of ones, then zeros.

    To the letter (curve 0) its expected return is zero for every theta: there is luck and nothing to learn. With a
    curve, -curve/2 |theta - top|^2 is added, which makes `top` the best policy and leaves the variance as it is.
    """
    whole("relevant", relevant)
    if not (irrelevant >= 0 and irrelevant % 1 == 0):
        raise UserError(f"irrelevant must be a whole number, 0 or more, got {irrelevant}.")
    return Quadratic(np.concatenate([np.ones(relevant), np.zeros(irrelevant)]), spread=spread, curve=curve)


def _square(vectors: np.ndarray) -> np.ndarray:
    return np.asarray((vectors * vectors).sum(axis=-1))


_erf = np.vectorize(math.erf, otypes=[float])


def _normal(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 + 0.5 * _erf(x / math.sqrt(2)))


def _density(x: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
