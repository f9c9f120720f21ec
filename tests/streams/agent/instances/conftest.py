"""A made-up machine for each test."""

import pytest

from tests.streams.agent.instances.tree import Tree


@pytest.fixture
def tree(tmp_path):
    """Return a machine without instances."""
    return Tree(tmp_path / "machine")
