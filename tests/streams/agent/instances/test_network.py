"""Traffic of an instance with a network of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streams.agent.instances.network import own_network
from tests.streams.agent.instances.tree import Tree


def test_a_network_of_its_own_is_counted(tree: Tree) -> None:
    """Without the loopback."""
    tree.network(7, received=100, sent=250)
    assert own_network(tree.root, 7) == (100, 250)


def test_the_machines_own_network_is_not_told_apart(tree: Tree) -> None:
    """Unknown, never the machine's traffic."""
    tree.share_network(7)
    assert own_network(tree.root, 7) is None


def test_a_process_that_is_gone_is_an_error(tree: Tree) -> None:
    """For the caller to count."""
    with pytest.raises(FileNotFoundError):
        own_network(tree.root, 8)


@pytest.mark.skipif(not Path("/proc/1/net/dev").exists(), reason="no /proc here")
def test_this_process_has_the_machines_network() -> None:
    """On the real ``/proc``: the inode tells that this process and the first one see the same."""
    same = Path("/proc/1/net/dev").stat().st_ino == Path("/proc/self/net/dev").stat().st_ino
    assert (own_network(Path("/"), os.getpid()) is None) == same
