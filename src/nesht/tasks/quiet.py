"""Keep MuJoCo from printing warnings and writing MUJOCO_LOG.TXT where it stands, for as long as we work with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import mujoco


@contextmanager
def quiet_mujoco() -> Iterator[None]:
    """Swallow MuJoCo's warnings inside the block: engines count divergence themselves, per episode."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
