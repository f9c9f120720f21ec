"""A pipeline without a worker, on a broker and a Valkey of the test's own."""

import pytest

from ops.stack.servers.local import LocalValkey
from tests.support.pipeline import Pipeline


@pytest.fixture
def store(tmp_path):
    with LocalValkey(directory=tmp_path / "valkey") as server:
        yield server


@pytest.fixture
def pipeline(request, broker, store, names, tmp_path):
    """The pipeline, of four partitions or as many as a test asks for."""
    one = Pipeline(broker, store.url, names, tmp_path, partitions=getattr(request, "param", 4))
    yield one
    one.close()
