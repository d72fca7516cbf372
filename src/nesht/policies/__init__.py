"""Policies: parameter layout, batched forward pass, normalisation, and the file a trained one is stored in."""

from nesht.policies.convolution import ConvNet
from nesht.policies.moments import Moments, Normaliser
from nesht.policies.network import Network
from nesht.policies.saved import Policy, load_policy

__all__ = ["ConvNet", "Moments", "Network", "Normaliser", "Policy", "load_policy"]
