"""Shell: the windows on a Redis Cluster, with a wire to each node; many commands take one round trip.

All nodes are written to before the first is read from. The answers from a node that is away are `NotNow`, and the
reader keeps its old values of these keys. The first argument of each command is its key.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import redis
from redis.exceptions import AskError, ClusterDownError, MovedError, TryAgainError

from schemas.process.connections import WindowsSettings
from schemas.process.redis_cluster import PROBE_S, Address, NoNode, Topology, nodes_in, shown
from schemas.process.redis_url import in_words
from scorer.wire import AWAY, Command, Wire

NODE_S = 2.0
"""How long to wait for an answer of a node."""


class NotNow(redis.ResponseError):
    """Stands in for an answer whose node is away, or whose slot is being moved."""


class ClusterWire:
    """The nodes of a Cluster, to which commands are sent together."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        """``arguments`` are those of a `Wire`. Raises ValueError for a URL that names no Cluster."""
        nodes = nodes_in(arguments["url"])
        if nodes is None:
            raise ValueError("expected redis+cluster://HOST:PORT,HOST:PORT")
        self._nodes, self._arguments = nodes, arguments
        self._topology = Topology(nodes)
        self._wires: dict[Address, Wire] = {}

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers to the commands, an error as a ``redis.ResponseError`` in its place.

        Raises one of `scorer.wire.AWAY` when no node returns the slot map.
        """
        try:
            return self._ask(commands)
        except BaseException:
            self.close()
            raise

    def each(self, *command: str) -> list[Any]:
        """Return the answer of each node that has slots to a command, as `ask` does."""
        self._look()
        return self._of_nodes([(address, (command,)) for address in self._topology.primaries])

    @property
    def urls(self) -> list[str]:
        """The URL of each node that has slots; raises as `ask` does."""
        self._look()
        return [self._nodes.url(address) for address in self._topology.primaries]

    @property
    def uncovered(self) -> int:
        """The number of slots that no node has; raises as `ask` does."""
        self._look()
        return self._topology.uncovered

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        for wire in self._wires.values():
            wire.close()

    def _ask(self, commands: Sequence[Command]) -> list[Any]:
        self._look()
        answers = self._of_nodes([(self._at(command), (command,)) for command in commands])
        elsewhere = [place for place, answer in enumerate(answers) if isinstance(answer, AskError)]
        if elsewhere:
            again = self._of_nodes([self._redirected(answers[place], commands[place]) for place in elsewhere])
            for place, answer in zip(elsewhere, again, strict=True):
                answers[place] = answer
        return [NotNow(str(one)) if isinstance(one, AskError | TryAgainError) else one for one in answers]

    def _at(self, command: Command) -> Address | None:
        """Return the node that has the key of a command; None where none has."""
        key = command[1]
        try:
            return self._topology.at(key if isinstance(key, bytes) else str(key))
        except NoNode:
            return None

    def _redirected(self, error: AskError, command: Command) -> tuple[Address, tuple[Command, ...]]:
        """Return the node for a redirected command, and update the slot map where the move is permanent."""
        if isinstance(error, MovedError):
            return self._topology.moved(error.slot_id, error.host, error.port, self._asked(command)), (command,)
        return (error.host or self._asked(command)[0], error.port), (("ASKING",), command)

    def _asked(self, command: Command) -> Address:
        address = self._at(command)
        assert address is not None, "a node has answered"
        return address

    def _of_nodes(self, asked: Sequence[tuple[Address | None, Sequence[Command]]]) -> list[Any]:
        """Return the answer to the last command of each group; each group is sent to one node."""
        answers: list[Any] = [NotNow("no node of the cluster has this slot")] * len(asked)
        by_node: dict[Address, list[int]] = defaultdict(list)
        for place, (address, _) in enumerate(asked):
            if address is not None:
                by_node[address].append(place)
        sent = []
        for address, places in by_node.items():
            try:
                if not self._topology.may_try(address, time.monotonic()):
                    raise redis.ConnectionError(f"{shown(address)} is away")
                self._wire(address).begin([command for place in places for command in asked[place][1]])
                sent.append((address, places))
            except AWAY as error:
                self._note_away(address, error, places, answers)
        for address, places in sent:
            timeout_s = PROBE_S if self._topology.is_away(address) else NODE_S
            try:
                found = self._wire(address).finish(sum(len(asked[place][1]) for place in places), timeout_s)
            except AWAY as error:
                self._note_away(address, error, places, answers)
                continue
            self._topology.answered(address)
            for place in places:
                *_, answers[place] = found[: len(asked[place][1])]
                del found[: len(asked[place][1])]
                if isinstance(answers[place], ClusterDownError):
                    self._note_away(address, answers[place], [place], answers)
        return answers

    def _note_away(self, address: Address, error: Exception, places: Sequence[int], answers: list[Any]) -> None:
        now_s = time.monotonic()
        if self._topology.may_try(address, now_s):
            self._topology.failed(address, now_s)
        for place in places:
            answers[place] = NotNow(in_words(error))

    def _wire(self, address: Address) -> Wire:
        if address not in self._wires:
            own = {"url": self._nodes.url(address), "socket_timeout": PROBE_S, "socket_connect_timeout": PROBE_S}
            self._wires[address] = Wire(self._arguments | own)
        return self._wires[address]

    def _look(self) -> None:
        """Read the slot map if that is due; raises redis.ConnectionError while it was never read."""
        if not self._topology.due(time.monotonic()):
            return
        said = ""
        for host in self._topology.hosts():
            try:
                self._wire(host).begin([("CLUSTER", "SLOTS")])
                (answer,) = self._wire(host).finish(1, PROBE_S)
            except AWAY as error:
                said = in_words(error)
                continue
            if not isinstance(answer, redis.ResponseError) and answer:
                self._topology.learn(answer, host, time.monotonic())
                return
            said = f"{shown(host)}: {answer or 'it has no slots'}"
        self._topology.missed(time.monotonic())
        if not self._topology.primaries:
            raise redis.ConnectionError(f"no node of the cluster returns the slot map: {said}")


WindowsWire = Wire | ClusterWire
"""The connection to the windows."""


def wire_to(arguments: dict[str, Any]) -> WindowsWire:
    return ClusterWire(arguments) if "+cluster://" in arguments["url"] else Wire(arguments)


def windows_wire(settings: WindowsSettings) -> WindowsWire | None:
    """Return a wire to the windows; None where they are on the server of ``redis_url``."""
    return wire_to(settings.windows_arguments()) if settings.windows_url else None
