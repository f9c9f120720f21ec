"""A made-up machine for each test."""

import pytest

from tests.streams.agent.instances.tree import Tree


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "machine")
