"""The URL of a Redis Cluster, and its slot map: which node has which key. Pure.

    redis+cluster://[USER@]HOST:PORT,HOST:PORT[?OPTION=VALUE]

The hosts are some of the nodes, which are asked for the others. ``rediss+cluster://`` is TLS to all of them.

Each node gets a client or a wire of its own, as one server has. So a partition is written (WATCH, MULTI, EXEC) and read
by the same code everywhere, and one server costs nothing more. redis-py's ``RedisCluster`` (8.1) was rejected:

- its pipeline raises for all nodes where one cannot be connected, so the others' windows would not be read either;
- its look at the slots asks nodes by chance, also one that is away, and all of them while a slot has no node;
- its asynchronous transaction starts a thread with an event loop for each command that it queues.
"""

from binascii import crc_hqx
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

PORT = 6379
SLOTS = 16_384
LOOK_S = 0.2
"""Shortest time between two reads of the slot map."""
RETRY_S = 1.0
"""Shortest time between two tries of a node that is away: each may keep the others waiting."""
PROBE_S = 0.5
"""How long such a try waits for an answer."""

Address = tuple[str, int]


class Nodes(NamedTuple):
    hosts: Sequence[Address]
    node: str
    """The URL of a node, with ``{}`` in place of its host and port."""

    def url(self, address: Address) -> str:
        """Return the URL of a node.

        >>> nodes_in("rediss+cluster://u@a:1,b?protocol=2").url(("::1", 7000))
        'rediss://u@[::1]:7000/0?protocol=2'
        """
        return self.node.format(shown(address))


def shown(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def nodes_in(url: str) -> Nodes | None:
    """Return the parts of a Cluster's URL; None for another URL. Raises ValueError.

    >>> nodes_in("redis+cluster://a:1,b")
    Nodes(hosts=[('a', 1), ('b', 6379)], node='redis://{}/0')
    >>> nodes_in("redis://a")
    """
    scheme, middle, rest = url.partition("+cluster://")
    if not middle:
        return None
    rest, question, options = rest.partition("?")
    authority, _, database = rest.partition("/")
    user, at, hosts = authority.rpartition("@")
    split = [urlsplit(f"//{host}") for host in hosts.split(",")]
    whole = database in ("", "0") and "#" not in url and all(one.hostname for one in split)
    if scheme not in ("redis", "rediss") or not whole:
        raise ValueError("expected redis+cluster://HOST:PORT,HOST:PORT")
    addresses = [(str(one.hostname), one.port or PORT) for one in split]
    kept = f"{user}{at}".replace("{", "{{").replace("}", "}}")
    more = f"{question}{options}".replace("{", "{{").replace("}", "}}")
    return Nodes(addresses, f"{scheme}://{kept}{{}}/0{more}")


def slot_of(key: str | bytes) -> int:
    """Return the slot of a key: of the text in its first braces, if there are any.

    >>> slot_of("windward:v1:windows:{3}:changes") == slot_of(b"{3}")
    True
    """
    raw = key.encode() if isinstance(key, str) else key
    start = raw.find(b"{")
    end = raw.find(b"}", start + 1)
    tag = raw[start + 1 : end] if start >= 0 and end > start + 1 else raw
    return crc_hqx(tag, 0) % SLOTS


class NoNode(Exception):
    """No node is known to have a slot."""


class Topology:
    """Which node has which slots, and which nodes are away. Times are of one clock, in seconds."""

    def __init__(self, nodes: Nodes) -> None:
        self._hosts: list[Address] = list(nodes.hosts)
        """The nodes to read the slot map from, in this order; those that are away come last."""
        self._given = list(nodes.hosts)
        self._starts: list[int] = []
        self._ranges: list[tuple[int, Address]] = []
        """Last slot and node of each range, beside its first slot."""
        self._moved: dict[int, Address] = {}
        self._away: dict[Address, float] = {}
        self._stale = True
        self._looked_at = float("-inf")

    @property
    def primaries(self) -> list[Address]:
        return list(dict.fromkeys(address for _, address in self._ranges))

    @property
    def uncovered(self) -> int:
        ranges = zip(self._starts, self._ranges, strict=True)
        return SLOTS - sum(last - first + 1 for first, (last, _) in ranges)

    def due(self, now_s: float) -> bool:
        """Return whether the slot map is due to be read again."""
        if not self._ranges:
            return True
        return (self._stale or bool(self._away)) and now_s - self._looked_at >= LOOK_S

    def hosts(self) -> list[Address]:
        """Return the nodes to read the slot map from, those that are away last."""
        return sorted(self._hosts, key=lambda host: host in self._away)

    def learn(self, answer: Sequence[Any], asked: Address, now_s: float) -> None:
        """Take a node's answer to ``CLUSTER SLOTS``: first and last slot, then the nodes, the primary first.

        An empty name is that of the node that answered.
        """
        ranges = sorted((int(first), int(last), _address(nodes[0], asked)) for first, last, *nodes in answer)
        replicas = [_address(one, asked) for _, _, *nodes in answer for one in nodes[1:]]
        self._starts = [first for first, _, _ in ranges]
        self._ranges = [(last, address) for _, last, address in ranges]
        self._moved.clear()
        self._stale, self._looked_at = False, now_s
        self._away = {address: since for address, since in self._away.items() if address in self.primaries}
        self._hosts = list(dict.fromkeys([*self.primaries, *replicas, *self._given]))

    def missed(self, now_s: float) -> None:
        self._looked_at = now_s

    def at(self, key: str | bytes) -> Address:
        """Return the node that has a key; raises NoNode."""
        slot = slot_of(key)
        if slot in self._moved:
            return self._moved[slot]
        place = bisect_right(self._starts, slot) - 1
        if place < 0 or self._ranges[place][0] < slot:
            self._stale = True
            raise NoNode(f"no node of the cluster has slot {slot}")
        return self._ranges[place][1]

    def moved(self, slot: int, host: str, port: int, asked: Address) -> Address:
        """Record that a node redirected a slot to another one; return the other node."""
        self._stale = True
        self._moved[slot] = (host or asked[0], port)
        return self._moved[slot]

    def failed(self, address: Address, now_s: float) -> None:
        """Record that a node did not answer, or refused because it has lost the others."""
        self._away[address] = now_s
        self._moved = {slot: one for slot, one in self._moved.items() if one != address}
        self._hosts = [host for host in self._hosts if host != address] + [address]

    def answered(self, address: Address) -> None:
        self._away.pop(address, None)

    def is_away(self, address: Address) -> bool:
        return address in self._away

    def may_try(self, address: Address, now_s: float) -> bool:
        """Return whether commands may be sent to a node: after a failure there is a short pause."""
        return now_s - self._away.get(address, float("-inf")) >= RETRY_S


def _address(node: Sequence[Any], asked: Address) -> Address:
    """Return host and port of a node in ``CLUSTER SLOTS``; an empty host, or ``?``, is that of the answering node."""
    host = node[0].decode() if isinstance(node[0], bytes) else node[0]
    return (host if host not in (None, "", "?") else asked[0]), int(node[1])
