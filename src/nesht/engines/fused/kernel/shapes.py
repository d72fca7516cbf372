"""Types that depend on the robot and on the precision, and its constants in that precision."""

from typing import Any

import warp as wp

from nesht.engines.fused.planar import PlanarModel

PRECISIONS = {"single": wp.float32, "double": wp.float64}


class Shapes:
    """Scalar, vector and matrix types for one robot."""

    def __init__(self, model: PlanarModel, precision: str):
        self.model, self.real = model, PRECISIONS[precision]
        self.n = len(model.links)
        self.motors = len(model.motors)
        self.floor_points = [
            (touch, end) for touch in model.touches if touch.other is None for end in touch.capsule.ends
        ]
        self.pairs = [touch for touch in model.touches if touch.other is not None]
        self.contacts = max(1, len(self.floor_points) + len(self.pairs))
        self.vector = wp.types.vector(self.n, self.real)
        self.matrix = wp.types.matrix((self.n, self.n), self.real)
        self.controls = wp.types.vector(max(1, self.motors), self.real)
        self.contact_store = (self.contacts, 14 if self.pairs else 11)
        """The shape of what the solver notes about contacts: see the columns in `constraints`."""

    def numbers(self, values: Any) -> list[Any]:
        """Return Python numbers as constants of the kernel's precision."""
        return [self.real(float(value)) for value in values]
