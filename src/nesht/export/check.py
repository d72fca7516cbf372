"""How far an exported policy is from ours: rounding, and what folding the normaliser in makes of it."""

from __future__ import annotations

import numpy as np

from nesht import keys
from nesht.export.controller import Controller
from nesht.policies.moments import Normaliser
from nesht.policies.network import Network
from nesht.policies.saved import Policy

ROWS = 10_000
"""Random observations to try."""


def largest_difference(policy: Policy, controller: Controller, precision: type[np.floating]) -> float:
    """Return the largest difference in any output over random observations with the moments of training."""
    network = policy.network
    assert isinstance(network, Network)
    normal = keys.generator(0, keys.Stream.NOISE).standard_normal((ROWS, network.inputs))
    seen = policy.moments.mean + policy.moments.std * normal
    features = Normaliser.of(policy.moments)(seen) if policy.normalise else seen.copy()
    ours = network.forward(np.broadcast_to(policy.parameters, (ROWS, network.size)), features)
    return float(np.abs(ours - controller.forward(seen[:, controller.indices].astype(precision))).max())
