"""A pipeline without a worker, on a broker and a Valkey of the test's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.stack.servers.local import LocalValkey
from schemas.names import Names
from tests.support.pipeline import Pipeline


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalValkey]:
    with LocalValkey(directory=tmp_path / "valkey") as server:
        yield server


@pytest.fixture
def pipeline(request: Any, broker: Any, store: LocalValkey, names: Names, tmp_path: Path) -> Iterator[Pipeline]:
    """The pipeline, of four partitions or as many as a test asks for."""
    one = Pipeline(broker, store.url, names, tmp_path, partitions=getattr(request, "param", 4))
    yield one
    one.close()
