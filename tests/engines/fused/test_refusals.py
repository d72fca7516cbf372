"""A model that the kernel cannot simulate is refused by a sentence that names the feature; nothing is ignored."""

from __future__ import annotations

import mujoco
import pytest

from nesht.engines.fused.reading import read_planar
from nesht.errors import UserError
from nesht.tasks.locomotion import LOCOMOTION

FLOOR = '<geom type="plane" size="9 9 1"/>'


def robot(
    joint: str = 'type="hinge" axis="0 1 0"', geom: str = 'type="capsule" size="0.05 0.2"', world: str = FLOOR
) -> str:
    """Return a world with a robot of one link."""
    return f'<worldbody>{world}<body pos="0 0 1"><joint name="j" {joint}/><geom name="g" {geom}/></body></worldbody>'


def robot_with(elements: str) -> str:
    return robot() + elements


def hinge(joint: str) -> str:
    return robot(f'type="hinge" axis="0 1 0" {joint}')


def capsule(geom: str) -> str:
    return robot(geom=f'type="capsule" size="0.05 0.2" {geom}')


def test_a_plain_robot_is_not_refused() -> None:
    """Each of the models below differs from this one by the feature that is refused."""
    assert read_planar(mujoco.MjModel.from_xml_string(f"<mujoco>{robot()}</mujoco>")).links


@pytest.mark.parametrize("env", LOCOMOTION)
def test_none_of_the_environments_is_refused(env: str) -> None:
    model = LOCOMOTION[env].model()
    assert len(read_planar(model).links) == model.nv


@pytest.mark.parametrize(
    ("model", "feature"),
    [
        (robot('type="free"'), "ball or free joints"),
        (robot('type="ball"'), "ball or free joints"),
        (robot('type="hinge" axis="0 0 1"'), "the joint 'j', which moves out of the plane"),
        (robot('type="hinge" axis="0 1 0.1"'), "the joint 'j', which moves out of the plane"),
        (robot('type="slide" axis="1 0.1 0"'), "the joint 'j', which moves out of the plane"),
        (hinge('limited="true" range="-1 1" margin="0.1" frictionloss="1"'), "joint friction"),
        (hinge('limited="true" range="-0.1 0.1" margin="0.2"'), "the joint 'j', both of whose limits act at once"),
        (hinge('actuatorfrcrange="-1 1"'), "joint force limits"),
        (robot_with('<tendon><fixed><joint joint="j" coef="1"/></fixed></tendon>'), "tendons"),
        (robot_with('<equality><joint joint1="j"/></equality>'), "equality constraints"),
        (robot_with('<contact><exclude body1="world" body2="b"/></contact>').replace("<body ", '<body name="b" '),
         "contact pairs or exclusions"),
        (robot_with('<actuator><position joint="j"/></actuator>'), "which is no plain motor"),
        (robot_with('<actuator><motor joint="j" forcerange="-1 1"/></actuator>'), "which is no plain motor"),
        (robot_with('<actuator><general joint="j" dyntype="integrator"/></actuator>'), "actuator activations"),
        (robot_with('<option integrator="implicit"/>'), "an integrator other than Euler and RK4"),
        (robot_with('<option integrator="implicitfast"/>'), "an integrator other than Euler and RK4"),
        (robot_with('<option cone="elliptic"/>'), "elliptic friction cones"),
        (robot_with('<option impratio="2"/>'), "an impedance ratio other than 1"),
        (robot_with('<option density="1000"/>'), "a fluid around it"),
        (robot_with('<option viscosity="0.1"/>'), "a fluid around it"),
        (robot_with('<option wind="1 0 0"/>'), "a fluid around it"),
        (robot_with('<option gravity="0 1 -9.81"/>'), "gravity out of the plane"),
        (robot_with('<option noslip_iterations="3"/>'), "a noslip solver"),
        (robot_with('<option><flag gravity="disable"/></option>'), "disabled parts of the simulation"),
        (robot_with('<option><flag override="enable"/></option>'), "overridden contacts"),
        (capsule("").replace("<body ", '<body gravcomp="1" '), "gravity compensation"),
        (capsule("").replace('pos="0 0 1"', 'pos="0 0.1 1"'), "bodies out of the plane"),
        (capsule("").replace("<body ", '<body euler="90 0 0" '), "turned out of the plane"),
        (capsule('pos="0 0.1 0"'), "masses out of the plane"),
        (capsule('euler="30 0 0"'), "the capsule 'g', which lies out of the plane"),
        (capsule('gap="0.01" margin="0.02"'), "contact gaps"),
        (capsule('condim="4"'), "contacts of condim 4"),
        (capsule('condim="6"'), "contacts of condim 6"),
        (robot(geom='type="box" size="0.1 0.1 0.1"'), "the colliding box 'g'"),
        (robot(world='<geom name="w" type="capsule" size="0.1 0.2"/>'), "the colliding capsule 'w'"),
        (robot(world=2 * FLOOR), "more than one plane"),
        (robot(world='<geom type="plane" size="9 9 1" euler="0 10 0"/>'), "a floor that is not level"),
        (robot(world=f"<body>{FLOOR}</body>"), "a plane that is not the world's floor"),
    ],
)  # fmt: skip
def test_what_cannot_be_simulated_is_refused(model: str, feature: str) -> None:
    with pytest.raises(UserError, match=f"cannot simulate this model: it has .*{feature}.*--engine batch"):
        read_planar(mujoco.MjModel.from_xml_string(f"<mujoco>{model}</mujoco>"))


@pytest.mark.parametrize(
    "model",
    [
        hinge('stiffness="1 2 3"'),
        hinge('damping="1 2 3"'),
        robot_with('<actuator><motor joint="j" damping="2"/></actuator>'),
        robot_with('<actuator><motor joint="j" armature="2"/></actuator>'),
        robot_with('<actuator><motor joint="j" delay="0.01" nsample="4"/></actuator>'),
        robot_with('<actuator><motor joint="j"/></actuator><option actuatorgroupdisable="0"/>'),
        robot_with('<option><flag diagexact="enable"/></option>'),
        capsule('adhesion="5"'),
        robot(world='<geom type="plane" size="9 9 1" surfacevel="1 0 0"/>'),
    ],
)
def test_what_would_be_ignored_is_refused(model: str) -> None:
    """These change what MuJoCo computes; a kernel that did not look at them would be silently wrong."""
    with pytest.raises(UserError, match="cannot simulate this model"):
        read_planar(mujoco.MjModel.from_xml_string(f"<mujoco>{model}</mujoco>"))
