"""A planar robot as the kernel sees it: a tree of links, each moved by one hinge or slide.

Planar means: everything moves in the x-z plane. A body with several joints becomes several links, all but the last
without mass; a body without joints is part of the link it is welded to. The frame of a link sits at its joint's anchor.
Rotation is about +y, so an angle a turns (x, z) into (x cos a + z sin a, z cos a - x sin a).

`reading` makes one from a compiled MuJoCo model.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

WORLD = -1
"""The parent of a link that hangs on the world."""

LEAST, MOST = mujoco.mjMINIMP, mujoco.mjMAXIMP
"""MuJoCo's bounds of a constraint's impedance."""


@dataclass(frozen=True)
class Spring:
    """How a soft constraint answers a violation: MuJoCo's `solref` and `solimp`, made ready for use."""

    stiffness: float
    damping: float
    d0: float
    d1: float
    width: float
    midpoint: float
    power: float

    @classmethod
    def of(cls, solref: np.ndarray, solimp: np.ndarray, timestep: float) -> Spring:
        """Read MuJoCo's two ways to write them: positive is (time constant, damping ratio), negative is direct."""
        d0, d1, width, midpoint, power = solimp
        d0, d1 = np.clip([d0, d1], LEAST, MOST)
        if (solref[0] > 0) != (solref[1] > 0):  # MuJoCo then takes its default, with a warning
            solref = np.array([0.02, 1.0])
        if solref[0] > 0:
            time_constant = max(solref[0], 2 * timestep)
            stiffness = 1 / (d1 * time_constant * solref[1]) ** 2
            damping = 2 / (d1 * time_constant)
        else:
            stiffness, damping = -solref[0] / d1**2, -solref[1] / d1
        if width <= mujoco.mjMINVAL:  # no room to rise: MuJoCo takes the mean
            d0 = d1 = (d0 + d1) / 2
        values = (
            stiffness,
            damping,
            d0,
            d1,
            max(width, mujoco.mjMINVAL),
            np.clip(midpoint, LEAST, MOST),
            max(power, 1),
        )
        return cls(*map(float, values))


@dataclass(frozen=True)
class Link:
    """One degree of freedom and what moves rigidly with it; lengths are in the frame of the link or its parent."""

    parent: int
    hinge: bool
    sign: float
    """+1 or -1: a hinge turns about +y or -y."""
    axis: tuple[float, float]
    """The direction of a slide, in the parent's frame."""
    offset: tuple[float, float]
    """The joint's anchor in the parent's frame."""
    angle: float
    """How this link is turned against its parent where the joint is at zero."""
    mass: float
    centre: tuple[float, float]
    inertia: float
    """About the centre of mass."""
    damping: float
    stiffness: float
    rest: float
    """The joint position at which its spring is relaxed."""
    armature: float
    limits: tuple[float, float] | None
    margin: float
    """A limit acts from this distance on."""
    limit_spring: Spring
    invweight: float
    """MuJoCo's estimate of the joint's inverse inertia, which scales the softness of its limit."""
    start: float
    """The joint position of the model's initial state."""


@dataclass(frozen=True)
class Motor:
    """A motor that pushes along one degree of freedom."""

    dof: int
    gear: float
    low: float
    high: float
    """Controls are clamped to this range, as MuJoCo does inside the simulation."""


@dataclass(frozen=True)
class Capsule:
    """A capsule (a sphere where its two ends are one) that is part of a link."""

    link: int
    ends: tuple[tuple[float, float], ...]
    radius: float


@dataclass(frozen=True)
class Touch:
    """A capsule that may touch the floor (`other` None) or another capsule, and how they then push."""

    capsule: Capsule
    other: Capsule | None
    spring: Spring
    friction: float
    """The friction coefficient; 0 is a contact that only pushes."""
    margin: float
    invweight: float
    """Sum of MuJoCo's estimates of the two bodies' inverse masses."""

    @property
    def softness(self) -> float:
        """MuJoCo's diagonal approximation for an edge of the friction pyramid.

        Without friction the four edges are one and the same constraint, so that each is a quarter as stiff.
        """
        return self.invweight * ((1 + self.friction**2) * 2 * self.friction**2 if self.friction else 4.0)


@dataclass(frozen=True)
class PlanarModel:
    """Everything about a robot that the kernel needs."""

    links: tuple[Link, ...]
    motors: tuple[Motor, ...]
    touches: tuple[Touch, ...]
    gravity: tuple[float, float]
    timestep: float
    runge_kutta: bool
    floor: float
    """The height of the floor."""

    @property
    def ancestors(self) -> list[list[bool]]:
        """ancestors[i][j]: whether link j is link i or one that carries it."""
        table = [[False] * len(self.links) for _ in self.links]
        for i in range(len(self.links)):
            j = i
            while j != WORLD:
                table[i][j] = True
                j = self.links[j].parent
        return table

    @property
    def carriers(self) -> int:
        """How many leading slides carry the whole robot.

        The dynamics do not depend on how far they have moved, so that the kernel measures all positions relative to
        the last of them: single precision then does not suffer where the robot has walked far.
        """
        count = 0
        for i, link in enumerate(self.links):
            if link.hinge or link.parent != i - 1 or link.mass or link.angle:
                break
            count = i + 1
        alone = sum(link.parent == WORLD for link in self.links) == 1
        anchored = any(not self.ancestors[i][j] for i in range(count, len(self.links)) for j in range(count))
        return count if alone and not anchored else 0
