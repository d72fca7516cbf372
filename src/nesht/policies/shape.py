"""A policy without its parameters, whatever it looks at."""

from __future__ import annotations

from nesht.policies.convolution import ConvNet
from nesht.policies.network import Network

Shape = Network | ConvNet
"""`Network` for features, `ConvNet` for screens; training asks both for the same things."""
