"""Real Ray, on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray
from real_nodes import STORE, Nodes


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def here() -> Iterator[None]:
    """Ray on this machine, for all tests of a file."""
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=STORE)
    yield
    ray.shutdown()
