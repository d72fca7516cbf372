"""Reading a planar robot off a compiled MuJoCo model; what the kernel cannot simulate is refused by name."""

from __future__ import annotations

import mujoco
import numpy as np

from nesht.engines.fused.planar import WORLD, Capsule, Link, Motor, PlanarModel, Spring, Touch
from nesht.errors import UserError

SMALL = 1e-9
"""Lengths below this count as zero when a model is checked for lying in the plane."""

MOST_LINKS = 24
"""The kernel notes which joints move a contact as the bits of a number; single precision holds these many exactly."""


def read_planar(model: mujoco.MjModel) -> PlanarModel:
    """Read a compiled model; raises UserError, naming the feature, if it needs more than the kernel can do."""
    _refuse_unknown_features(model)
    links, link_of, pose = _read_links(model)
    floor = _floor(model)
    return PlanarModel(
        tuple(links),
        _motors(model),
        tuple(_touches(model, floor, link_of, pose)),
        (float(model.opt.gravity[0]), float(model.opt.gravity[2])),
        float(model.opt.timestep),
        model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4.value,
        float(model.geom_pos[floor, 2]) if floor is not None else 0.0,
    )


def _refuse(feature: str) -> UserError:
    return UserError(f"the fused engine cannot simulate this model: it has {feature}; use --engine batch.")


def _refuse_unknown_features(model: mujoco.MjModel) -> None:
    option, harmless = model.opt, mujoco.mjtDisableBit.mjDSBL_WARMSTART.value
    harmless |= mujoco.mjtDisableBit.mjDSBL_SENSOR.value | mujoco.mjtDisableBit.mjDSBL_MIDPHASE.value
    known = (mujoco.mjtIntegrator.mjINT_EULER.value, mujoco.mjtIntegrator.mjINT_RK4.value)
    features = {
        "tendons": model.ntendon,
        "equality constraints": model.neq,
        "flexible parts": getattr(model, "nflex", 0),
        "contact pairs or exclusions": model.npair + model.nexclude,
        "mocap bodies": model.nmocap,
        "plugins": model.nplugin,
        "actuator activations": model.na,
        "ball or free joints": ~np.isin(
            model.jnt_type, (mujoco.mjtJoint.mjJNT_HINGE.value, mujoco.mjtJoint.mjJNT_SLIDE.value)
        ),
        "joint friction": model.dof_frictionloss,
        "gravity compensation": model.body_gravcomp,
        "joint force limits": model.jnt_actfrclimited,
        "a fluid around it": [option.density, option.viscosity, *option.wind],
        "gravity out of the plane": option.gravity[1],
        "elliptic friction cones": option.cone != mujoco.mjtCone.mjCONE_PYRAMIDAL.value,
        "an impedance ratio other than 1": option.impratio != 1,
        "an integrator other than Euler and RK4": option.integrator not in known,
        "a noslip solver": option.noslip_iterations,
        "disabled parts of the simulation": option.disableflags & ~harmless,
        "overridden contacts": option.enableflags & mujoco.mjtEnableBit.mjENBL_OVERRIDE.value,
        "exact softness": option.enableflags & getattr(mujoco.mjtEnableBit, "mjENBL_DIAGEXACT", 0),
        "bodies out of the plane": np.abs(model.body_pos[:, 1]) > SMALL,
        "springs or dampers that are not linear": [
            *np.ravel(getattr(model, "jnt_stiffnesspoly", 0)),
            *np.ravel(getattr(model, "dof_dampingpoly", 0)),
            *np.ravel(getattr(model, "jnt_springyield", 0)),
        ],
        "motors with damping, armature or delay": [
            *np.ravel(getattr(model, "actuator_damping", 0)),
            *np.ravel(getattr(model, "actuator_dampingpoly", 0)),
            *np.ravel(getattr(model, "actuator_armature", 0)),
            *np.ravel(getattr(model, "actuator_delay", 0)),
        ],
        "disabled motors": option.disableactuator,
        "sticky or moving surfaces": [
            *np.ravel(getattr(model, "geom_adhesion", 0)),
            *np.ravel(getattr(model, "geom_surfacevel", 0)),
        ],
        f"more than {MOST_LINKS} joints": model.njnt > MOST_LINKS,
        "masses out of the plane": np.abs(model.body_ipos[:, 1]) > SMALL,
    }
    for feature, found in features.items():
        if np.any(found):
            raise _refuse(feature)


def _planar_angle(quaternion: np.ndarray, what: str) -> float:
    """Return the angle about +y of a rotation that must be about that axis."""
    w, x, y, z = quaternion
    if abs(x) > SMALL or abs(z) > SMALL:
        raise _refuse(f"{what} turned out of the plane")
    return float(2 * np.arctan2(y, w))


def _turn(angle: float, point: np.ndarray) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([c * point[0] + s * point[1], c * point[1] - s * point[0]])


Pose = tuple[np.ndarray, float]
"""Where a body's frame lies in the frame of its link: (x, z), angle."""


def _read_links(model: mujoco.MjModel) -> tuple[list[Link], list[int], list[Pose]]:
    """Return the links, and for every body its link and its pose in it."""
    links: list[Link] = []
    link_of, pose = [WORLD] * model.nbody, [(np.zeros(2), 0.0)] * model.nbody
    for body in range(1, model.nbody):
        parent = link_of[model.body_parentid[body]]
        origin, turned = pose[model.body_parentid[body]]
        at = origin + _turn(turned, model.body_pos[body, [0, 2]])
        angle = turned + _planar_angle(model.body_quat[body], f"body {model.body(body).name!r}")
        first = model.body_jntadr[body]
        for joint in range(first, first + model.body_jntnum[body]):
            anchor = model.jnt_pos[joint, [0, 2]]
            links.append(_link(model, joint, parent, at + _turn(angle, anchor), angle))
            parent, at, angle = len(links) - 1, -anchor, 0.0
        link_of[body], pose[body] = parent, (at, angle)
    for body in range(1, model.nbody):
        if link_of[body] != WORLD:
            links[link_of[body]] = _with_mass(links[link_of[body]], model, body, pose[body])
    return links, link_of, pose


def _link(model: mujoco.MjModel, joint: int, parent: int, offset: np.ndarray, angle: float) -> Link:
    """Return the link of one joint, without mass."""
    name, axis = model.joint(joint).name, model.jnt_axis[joint]
    hinge = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE.value
    if np.abs(axis[[0, 2]]).max() > SMALL if hinge else abs(axis[1]) > SMALL:
        raise _refuse(f"the joint {name!r}, which moves out of the plane")
    low, high = model.jnt_range[joint]
    if model.jnt_limited[joint] and high - low <= 2 * model.jnt_margin[joint]:
        raise _refuse(f"the joint {name!r}, both of whose limits act at once")
    start = float(model.qpos0[joint])
    sign = float(axis[1]) if hinge else 0.0
    slide = _turn(angle, axis[[0, 2]])
    # Positions count from the initial state: the kernel works with q itself, so its zero is moved here.
    if hinge:
        angle -= sign * start
    else:
        offset = offset - start * slide
    return Link(
        parent=parent,
        hinge=bool(hinge),
        sign=sign,
        axis=(0.0, 0.0) if hinge else (float(slide[0]), float(slide[1])),
        offset=(float(offset[0]), float(offset[1])),
        angle=float(angle),
        mass=0.0,
        centre=(0.0, 0.0),
        inertia=0.0,
        damping=float(model.dof_damping[joint].sum()),
        stiffness=float(model.jnt_stiffness[joint].sum()),
        rest=float(model.qpos_spring[joint]),
        armature=float(model.dof_armature[joint]),
        limits=(float(low), float(high)) if model.jnt_limited[joint] else None,
        margin=float(model.jnt_margin[joint]),
        limit_spring=Spring.of(model.jnt_solref[joint], model.jnt_solimp[joint], model.opt.timestep),
        invweight=float(model.dof_invweight0[joint]),
        start=start,
    )


def _with_mass(link: Link, model: mujoco.MjModel, body: int, pose: Pose) -> Link:
    """Return the link with a body's mass added."""
    mass = float(model.body_mass[body])
    if mass == 0:
        return link
    flat = np.zeros(9)
    mujoco.mju_quat2Mat(flat, model.body_iquat[body])
    turn = flat.reshape(3, 3)
    inertia = float((turn @ np.diag(model.body_inertia[body]) @ turn.T)[1, 1])
    centre = pose[0] + _turn(pose[1], model.body_ipos[body, [0, 2]])
    total = link.mass + mass
    middle = (link.mass * np.array(link.centre) + mass * centre) / total
    parts = ((link.mass, np.array(link.centre), link.inertia), (mass, centre, inertia))
    about = sum(i + m * float(((c - middle) ** 2).sum()) for m, c, i in parts)
    return Link(**{**link.__dict__, "mass": total, "centre": (float(middle[0]), float(middle[1])), "inertia": about})


def _motors(model: mujoco.MjModel) -> tuple[Motor, ...]:
    motors = []
    for i in range(model.nu):
        simple = (
            model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT.value
            and model.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_FIXED.value
            and model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_NONE.value
            and model.actuator_dyntype[i] == mujoco.mjtDyn.mjDYN_NONE.value
            and not model.actuator_forcelimited[i]
        )
        if not simple:
            raise _refuse(f"the actuator {model.actuator(i).name!r}, which is no plain motor on a joint")
        low, high = model.actuator_ctrlrange[i] if model.actuator_ctrllimited[i] else (-np.inf, np.inf)
        gear = model.actuator_gear[i, 0] * model.actuator_gainprm[i, 0]
        motors.append(Motor(int(model.actuator_trnid[i, 0]), float(gear), float(low), float(high)))
    return tuple(motors)


def _floor(model: mujoco.MjModel) -> int | None:
    planes = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE.value)
    if len(planes) > 1:
        raise _refuse("more than one plane")
    if len(planes) == 0:
        return None
    plane = int(planes[0])
    if model.body_weldid[model.geom_bodyid[plane]] != 0 or model.geom_bodyid[plane] != 0:
        raise _refuse("a plane that is not the world's floor")
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.geom_quat[plane])
    if np.abs(turn[[2, 5, 8]] - [0, 0, 1]).max() > SMALL:
        raise _refuse("a floor that is not level")
    return plane


def _touches(model: mujoco.MjModel, floor: int | None, link_of: list[int], pose: list[Pose]) -> list[Touch]:
    """Return all pairs of geoms that MuJoCo's filters let collide: floor contacts first."""
    touches = []
    colliding = [g for g in range(model.ngeom) if model.geom_contype[g] or model.geom_conaffinity[g]]
    pairs = [(a, b) for i, a in enumerate(colliding) for b in colliding[i + 1 :] if _may_touch(model, a, b)]
    for a, b in sorted(pairs, key=lambda pair: floor not in pair):
        first, second = sorted((a, b), key=lambda geom: model.geom_type[geom])  # MuJoCo's order: plane, sphere, capsule
        other = _capsule(model, second, link_of, pose)
        touches.append(
            _touch(model, first, second, None if first == floor else _capsule(model, first, link_of, pose), other)
        )
    return touches


def _may_touch(model: mujoco.MjModel, a: int, b: int) -> bool:
    """MuJoCo's filters: contact types, the same body, a body and its parent (unless that is the world)."""
    first, second = model.body_weldid[model.geom_bodyid[a]], model.body_weldid[model.geom_bodyid[b]]
    parents = model.body_weldid[model.body_parentid[[first, second]]]
    related = first == second or (0 not in (first, second) and (parents[0] == second or parents[1] == first))
    meet = (model.geom_contype[a] & model.geom_conaffinity[b]) | (model.geom_contype[b] & model.geom_conaffinity[a])
    return bool(meet) and not related


def _capsule(model: mujoco.MjModel, geom: int, link_of: list[int], pose: list[Pose]) -> Capsule:
    body, kind = model.geom_bodyid[geom], model.geom_type[geom]
    if kind not in (mujoco.mjtGeom.mjGEOM_CAPSULE.value, mujoco.mjtGeom.mjGEOM_SPHERE.value) or link_of[body] == WORLD:
        name = mujoco.mjtGeom(kind).name.removeprefix("mjGEOM_").lower()
        raise _refuse(
            f"the colliding {name} {model.geom(geom).name!r} (only capsules and spheres that move can collide)"
        )
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
    half = turn.reshape(3, 3)[:, 2] * (model.geom_size[geom, 1] if kind == mujoco.mjtGeom.mjGEOM_CAPSULE.value else 0.0)
    if abs(half[1]) > SMALL or abs(model.geom_pos[geom, 1]) > SMALL:
        raise _refuse(f"the capsule {model.geom(geom).name!r}, which lies out of the plane")
    origin, angle = pose[body]
    middle = model.geom_pos[geom, [0, 2]]
    points = [origin + _turn(angle, middle + side * half[[0, 2]]) for side in (1, -1)]
    ends = tuple((float(x), float(z)) for x, z in points[: 2 if kind == mujoco.mjtGeom.mjGEOM_CAPSULE.value else 1])
    return Capsule(link_of[body], ends, float(model.geom_size[geom, 0]))


def _touch(model: mujoco.MjModel, a: int, b: int, first: Capsule | None, second: Capsule) -> Touch:
    """Mix the contact parameters of two geoms as MuJoCo does."""
    condim = max(model.geom_condim[a], model.geom_condim[b])
    friction = max(model.geom_friction[a, 0], model.geom_friction[b, 0])
    priorities = model.geom_priority[[a, b]]
    if priorities[0] != priorities[1]:
        stronger = a if priorities[0] > priorities[1] else b
        condim, friction = model.geom_condim[stronger], model.geom_friction[stronger, 0]
        solref, solimp = model.geom_solref[stronger], model.geom_solimp[stronger]
    else:
        mix = model.geom_solmix[[a, b]]
        share = mix[0] / mix.sum() if mix.sum() >= mujoco.mjMINVAL else 0.5
        solimp = share * model.geom_solimp[a] + (1 - share) * model.geom_solimp[b]
        standard = model.geom_solref[a, 0] > 0 and model.geom_solref[b, 0] > 0
        solref = share * model.geom_solref[a] + (1 - share) * model.geom_solref[b]
        solref = solref if standard else np.minimum(model.geom_solref[a], model.geom_solref[b])
    if condim not in (1, 3):
        raise _refuse(f"contacts of condim {condim} (1 and 3, without and with sliding friction, are known)")
    if np.any(model.geom_gap[[a, b]]):
        raise _refuse("contact gaps")
    bodies = model.geom_bodyid[[a, b]]
    return Touch(
        capsule=second,
        other=first,
        spring=Spring.of(solref, solimp, model.opt.timestep),
        friction=float(max(friction, mujoco.mjMINMU)) if condim == 3 else 0.0,
        margin=float(model.geom_margin[a] + model.geom_margin[b]),
        invweight=float(model.body_invweight0[bodies, 0].sum()),
    )
