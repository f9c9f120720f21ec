"""URLs of a Cluster, slots of keys, and what is known of its nodes; no server is asked."""

from __future__ import annotations

from typing import Any

import pytest
from redis.crc import key_slot

from schemas.names import Names
from schemas.process.redis_cluster import LOOK_S, RETRY_S, SLOTS, Address, NoNode, Topology, nodes_in, slot_of
from tests.rows import each_row

FORMS: list[tuple[str, list[Address], str]] = [
    ("redis+cluster://a:1", [("a", 1)], "redis://n:9/0"),
    ("redis+cluster://a,b:2,c/0", [("a", 6379), ("b", 2), ("c", 6379)], "redis://n:9/0"),
    ("rediss+cluster://u@a/", [("a", 6379)], "rediss://u@n:9/0"),
    ("redis+cluster://[::1]:1,[::2]?protocol=2", [("::1", 1), ("::2", 6379)], "redis://n:9/0?protocol=2"),
    ("redis+cluster://u%7B:p%40w@a?client_name={x}", [("a", 6379)], "redis://u%7B:p%40w@n:9/0?client_name={x}"),
]
WRONG = [
    "redis+cluster://", "redis+cluster:///0", "redis+cluster://a/1", "redis+cluster://a,,b", "redis+cluster://a:x",
    "redis+cluster://[::1", "redis+cluster://a#b", "unix+cluster://a", "redis+cluster://a/main/0",
]  # fmt: skip


@pytest.mark.parametrize(("url", "hosts", "node"), FORMS)
def test_what_a_url_says_of_a_cluster(url: str, hosts: list[Address], node: str) -> None:
    """Some of its nodes, and how each is reached."""
    found = nodes_in(url)
    assert found is not None
    assert (found.hosts, found.url(("n", 9))) == (hosts, node)


@each_row("url", WRONG)
def test_a_url_that_names_no_nodes_is_refused(url: str) -> None:
    """A part is missing, or cannot be read."""
    with pytest.raises(ValueError):
        nodes_in(url)


@pytest.mark.parametrize("url", ["redis://a:1/2", "unix:///run/s", "redis+sentinel://a/main"])
def test_another_url_is_no_cluster(url: str) -> None:
    """It is read elsewhere."""
    assert nodes_in(url) is None


@each_row("key", ["", "a", "{a}b", "x{}y", "{a", "a}{b}", "{{a}}", "p:v1:windows:{12}:changes"])
def test_the_slot_of_a_key_is_that_of_redis(key: str) -> None:
    """As text and as bytes."""
    assert slot_of(key) == slot_of(key.encode()) == key_slot(key.encode())


@pytest.mark.parametrize("prefix", ["windward", "a.b-c_D"])
def test_all_keys_of_a_partition_share_a_slot(prefix: str) -> None:
    """Whatever the prefix: one transaction writes them."""
    names = Names(prefix)
    for number in (0, 7, 123):
        keys = [
            names.windows(number), names.window_changes(number), names.instance_usage(number), names.facts(number),
            names.state(number), names.slots(number, 359), names.peaks(number, 49), names.vitals(number),
        ]  # fmt: skip
        assert {slot_of(key) for key in keys} == {slot_of(f"{{{number}}}")}


def topology(*ranges: tuple[int, int, int], now_s: float = 0.0) -> Topology:
    """Nodes whose first and last slot and port are given; the host is h, the node that was asked a:1."""
    nodes = nodes_in("redis+cluster://a:1,b:2")
    assert nodes is not None
    found = Topology(nodes)
    found.learn([[first, last, [b"h", port, b"id"]] for first, last, port in ranges], ("a", 1), now_s)
    return found


KEY = "{0}"
SLOT = slot_of(KEY)


def test_which_node_has_a_key() -> None:
    """By ranges of slots; one that no node has is told, and looked for again."""
    found = topology((0, SLOT - 1, 1), (SLOT, SLOT, 2), (SLOT + 2, SLOTS - 1, 3))
    assert found.at(KEY) == ("h", 2)
    assert found.primaries == [("h", 1), ("h", 2), ("h", 3)]
    assert found.uncovered == 1
    assert not found.due(2 * LOOK_S)
    with pytest.raises(NoNode, match=str(SLOT)):
        topology((0, SLOT - 1, 1), (SLOT + 1, SLOTS - 1, 3)).at(KEY)
    lost = topology((SLOT + 1, SLOTS - 1, 3))
    with pytest.raises(NoNode):
        lost.at(KEY)
    assert lost.due(LOOK_S)


@pytest.mark.parametrize("host", [b"", None, "?"])
def test_a_node_that_does_not_know_its_name_is_the_one_asked(host: Any) -> None:
    """As before it has met others."""
    found = topology((0, 1, 1))
    found.learn([[0, SLOTS - 1, [host, 7]]], ("a", 1), 0.0)
    assert found.at(KEY) == ("a", 7)


def test_a_slot_that_moved_is_another_node_s_at_once() -> None:
    """Before the next look, which is then due; a message without a host means the host that sent it."""
    found = topology((0, SLOTS - 1, 1))
    assert found.moved(SLOT, "", 5, ("h", 1)) == found.at(KEY) == ("h", 5)
    assert found.at("{1}") == ("h", 1)
    assert not found.due(LOOK_S / 2)
    assert found.due(LOOK_S)
    found.learn([[0, SLOTS - 1, [b"h", 6]]], ("h", 1), LOOK_S)
    assert found.at(KEY) == ("h", 6)


def test_a_node_that_is_away_is_tried_once_a_second_and_asked_last() -> None:
    """The others are looked at until it answers, or has no slots any more."""
    found = topology((0, 99, 1), (100, SLOTS - 1, 2))
    found.failed(("h", 1), 10.0)
    assert found.is_away(("h", 1))
    assert not found.may_try(("h", 1), 10.0 + RETRY_S / 2)
    assert found.may_try(("h", 1), 10.0 + RETRY_S)
    assert found.may_try(("h", 2), 10.0)
    assert found.hosts()[-1] == ("h", 1)
    assert {("a", 1), ("b", 2)} <= set(found.hosts())
    assert found.due(10.0)
    found.learn([[0, 99, [b"h", 1]], [100, SLOTS - 1, [b"h", 2]]], ("h", 2), 10.0)
    assert found.is_away(("h", 1))
    assert found.due(10.0 + 2 * LOOK_S)
    found.learn([[0, 99, [b"h", 3], [b"h", 1]], [100, SLOTS - 1, [b"h", 2]]], ("h", 2), 10.0)
    assert not found.is_away(("h", 1))
    assert ("h", 1) in found.hosts()
    found.failed(("h", 2), 10.0)
    found.answered(("h", 2))
    assert not found.due(10.0 + 2 * LOOK_S)


def test_nothing_is_known_at_first() -> None:
    """It is looked for at once, and again as often as it is asked."""
    nodes = nodes_in("redis+cluster://a:1,b:2")
    assert nodes is not None
    found = Topology(nodes)
    assert found.due(0.0)
    found.missed(0.0)
    assert found.due(0.0)
    assert found.hosts() == [("a", 1), ("b", 2)]
