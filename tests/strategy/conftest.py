from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session", params=["numpy", "torch"])
def array(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Turns NumPy arrays into those of the backend under test, with the same type of number; np.asarray turns back."""
    if request.param == "numpy":
        return np.array
    torch = pytest.importorskip("torch")
    return lambda values: torch.as_tensor(np.array(values))
