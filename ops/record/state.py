"""Source: facts of the machines, operators' rules and the list of decisions, in Redis."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import redis

from ops.record.entry import Decision, Gap
from schemas.messages.operator import above_nodes, stored_operator_facts
from schemas.messages.sample import MachineFacts, Rejected, decode
from schemas.names import Names
from schemas.values.read_json import by_name, partition_count
from scorer.cluster_wire import WindowsWire
from scorer.rpc.methods.placements import shortened
from scorer.wire import Command, Wire

_AT_ONCE = 1_000
_MOST = 20_000
"""Decisions read at once; more wait for the next round."""
ANSWER_BYTES_MAX = 4_096


class State:
    """What was read last."""

    def __init__(self, wire: Wire, names: Names, decision: str = "", windows: WindowsWire | None = None) -> None:
        """``windows``: the connection to the server of the windows, if it is a separate one."""
        self._wire, self._windows = wire, wire if windows is None else windows
        self._names = names
        self.decision = decision
        """The last decision that was read; "" before the first."""
        self.labels: dict[str, dict[str, str]] = {}
        self.operator: dict[str, bytes] = {}

    def read_machines(self) -> None:
        """Read facts and operators' rules; raises one of `scorer.wire.AWAY`."""
        (count,) = self._ask(("GET", self._names.partitions))
        commands = [("HGETALL", self._names.facts(partition)) for partition in range(partition_count(count) or 0)]
        found = self._answers(self._windows, commands)
        newest: dict[str, MachineFacts] = {}
        for flat in found:
            for raw in flat[1::2]:
                try:
                    facts = decode(raw)
                except Rejected:
                    continue
                known = newest.get(facts.machine)
                if isinstance(facts, MachineFacts) and (known is None or known.at <= facts.at):
                    newest[facts.machine] = facts
        self.labels = {name: dict(facts.labels) for name, facts in newest.items()}
        rules, nodes = map(by_name, self._ask(("HGETALL", self._names.operator), ("HGETALL", self._names.nodes)))
        self.operator = rules | _above(nodes, rules)

    def read_decisions(self) -> tuple[list[Decision], Gap | None]:
        """Return the decisions since the last call, oldest first; raises one of `scorer.wire.AWAY`."""
        key, gap = self._names.decisions, None
        if not self.decision:
            (last,) = self._ask(("XREVRANGE", key, "+", "-", "COUNT", 1))
            self.decision = last[0][0].decode() if last else "0-0"
            return [], None
        (oldest,) = self._ask(("XRANGE", key, "-", "+", "COUNT", 1))
        if oldest and self.decision != "0-0" and _order(oldest[0][0].decode()) > _order(self.decision):
            times = (self.decision, oldest[0][0].decode())
            since, until = (_order(stamp)[0] / 1000 for stamp in times)
            gap = Gap("decisions", since, until, why="the list of decisions was shortened: raise decisions_length")
        found: list[Decision] = []
        last = self.decision
        while len(found) < _MOST:
            (page,) = self._ask(("XRANGE", key, f"({last}", "+", "COUNT", _AT_ONCE))
            for stamp, flat in page:
                last = stamp.decode()
                found.append(_decision(last, dict(zip(flat[::2], flat[1::2], strict=True))))
            if len(page) < _AT_ONCE:
                break
        self.decision = last  # only now: after an error all of them are read again
        return found, gap

    def _ask(self, *commands: Any) -> list[Any]:
        return self._answers(self._wire, commands)

    @staticmethod
    def _answers(wire: WindowsWire, commands: Sequence[Command]) -> list[Any]:
        answers = wire.ask(commands) if commands else []
        for answer in answers:
            if isinstance(answer, redis.ResponseError):
                raise redis.ConnectionError(f"redis_url: {answer}")
        return answers


def _above(nodes: Mapping[str, bytes], rules: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the rules of the machines that are nodes of a cluster, joined with the cluster's facts of them."""
    said, known = (
        {name: rule for name, raw in each.items() if (rule := stored_operator_facts(raw))} for each in (nodes, rules)
    )
    found = above_nodes(said, known)
    return {name: msgspec.json.encode(found[name]) for name in said}


def _order(stamp: str) -> tuple[int, int]:
    """Return the two numbers of a stream entry's id.

    >>> _order("1700000000000-3")
    (1700000000000, 3)
    """
    moment, _, number = stamp.partition("-")
    return int(moment), int(number or 0)


def _decision(stamp: str, fields: dict[bytes, bytes]) -> Decision:
    answer = fields.get(b"answer", b"")
    try:
        answer = shortened(answer, ANSWER_BYTES_MAX)
    except ValueError:  # no JSON: another program wrote it
        answer = b""
    names = (b"method", b"ids", b"query", b"scorer")
    method, ids, query, scorer = (fields.get(name, b"").decode(errors="replace") for name in names)
    return Decision(stamp, method, ids.split("\n"), query, scorer, answer)
