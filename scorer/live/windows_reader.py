"""Shell: reads the windows of all partitions from Redis; the one reader of every process and command.

For a partition that changed only the changes are read, and also the base when it is another one. Both are then read by
one command, so that they are of one write. The last good windows are kept where one value of a partition is lost, its
node of a Cluster is away, or its slot is being moved.

A server that was emptied gets its windows back partition by partition, from the start of Kafka's log. A reader that
decides on them keeps the old windows until the new ones have reached the same point of the log (`WrittenUpTo`). While
they are most of the fleet it keeps all of them: machines would be chosen among the few that are rebuilt, the others
being stale.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import redis

from schemas.names import Names
from schemas.tables.partition_windows import PartitionWindows
from schemas.tables.window_table import TableError, decode_table
from scorer.cluster_wire import NotNow, WindowsWire
from scorer.wire import Command

log = logging.getLogger("windward.scorer")

HEAD_BYTES = 512
"""Enough of a table to hold the part of its header that differs from write to write."""

Ask = Callable[[Sequence[Command]], list[Any]]
"""From commands to their answers; it raises when one cannot be had."""


def asking(wire: WindowsWire, *, in_part: bool = False) -> Ask:
    """Return a function that sends commands over this wire, and raises an error among the answers.

    ``in_part``: an answer that a Cluster's node cannot give now is `NotNow` in its place.
    """

    def ask(commands: Sequence[Command]) -> list[Any]:
        answers = wire.ask(commands) if commands else []
        for answer in answers:
            if isinstance(answer, redis.ResponseError) and not (in_part and isinstance(answer, NotNow)):
                raise redis.ConnectionError(f"windows: {answer}") if isinstance(answer, NotNow) else answer
        return answers

    return ask


WrittenUpTo = Callable[[int], int | None]
"""From a partition to the offset up to which its state is written; None: there is no state, or it may not be read."""
REBUILD_S = 3600.0
"""Windows that were lost are kept no longer."""


class HeadWatch:
    """The heads of some values at their last read; another head means that a value changed."""

    def __init__(self, key: Callable[[int], str]) -> None:
        self.key = key
        self._heads: dict[int, bytes] = {}

    def changed(self, ask: Ask, partitions: int) -> list[int]:
        """Return the partitions whose value has another head than the recorded one, and those that no longer exist."""
        heads = (
            ask([("GETRANGE", self.key(each), 0, HEAD_BYTES - 1) for each in range(partitions)]) if partitions else []
        )
        found = [each for each, head in enumerate(heads) if (head or b"") != self._heads.get(each, b"")]
        return found + [each for each in self._heads if each >= partitions]

    def note(self, partition: int, value: bytes | None) -> bool:
        """Record the head of a value that was read; return whether it differs from the previous one."""
        head = (value or b"")[:HEAD_BYTES]
        before = self._heads.pop(partition, b"")
        if head:
            self._heads[partition] = head
        return head != before


class WindowsReader:
    """Keeps the windows of the last read.

    `problems` has what could not be read at the last look, by partition.
    """

    def __init__(self, ask: Ask, names: Names, written_up_to: WrittenUpTo | None = None) -> None:
        """``written_up_to``: keeps lost windows until they are rebuilt; None: they are dropped."""
        self._ask = ask
        self._names = names
        self._written_up_to = written_up_to
        self._watch = HeadWatch(names.window_changes)
        self._newest: dict[int, PartitionWindows] = {}
        self._lost_at: dict[int, float] = {}
        """When the windows of each partition that is being rebuilt were found lost, on the monotonic clock."""
        self._keeps_all = False
        self._is_whole = False
        """Whether all partitions were read at least once."""
        self.by_partition: dict[int, PartitionWindows] = {}
        self.problems: dict[int, str] = {}

    @property
    def windows(self) -> list[PartitionWindows]:
        """The windows of all partitions, in their order."""
        return [self.by_partition[partition] for partition in sorted(self.by_partition)]

    def refresh(self, partitions: int, woken: Iterable[int] | None = None) -> bool:
        """Read the changes in so many partitions; return whether there were any.

        ``woken``: the partitions to look at; None: all.
        """
        if woken is None:
            stale = sorted({*self._watch.changed(self._asked, partitions), *self.problems})
        else:
            stale = [partition for partition in sorted(set(woken)) if partition < partitions]
        present = [partition for partition in stale if partition < partitions]
        answers = self._asked([("GET", self._names.window_changes(partition)) for partition in present])
        changed = [self._drop(partition) for partition in stale if partition >= partitions]
        changed += [self._note(partition, raw) for partition, raw in zip(present, answers, strict=True)]
        self._is_whole = True
        if self._keeps_all or (any(changed) and self._lost_at):
            lost = sum(self._newest[partition].machines_count for partition in self._lost_at)
            most = 2 * lost > sum(one.machines_count for one in self._newest.values())
            self._keeps_all = bool(self._lost_at) and (self._keeps_all or most)
            changed.append(True)
        if self._keeps_all or not any(changed):
            return False
        self.by_partition = dict(self._newest)
        return True

    def _asked(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers. The first read fails as a whole: a part of the fleet must not pass for all of it."""
        answers = self._ask(commands) if commands else []
        for answer in answers:
            if isinstance(answer, NotNow) and not self._is_whole:
                raise redis.ConnectionError(f"windows: {answer}")
        return answers

    def _note(self, partition: int, raw: bytes | NotNow | None) -> bool:
        """Read the changes of a partition, with a new base where needed; return whether its windows changed."""
        if isinstance(raw, NotNow):
            return self._refuse(partition, str(raw))
        if not self._watch.note(partition, raw) and partition not in self.problems:
            return False
        known = self._newest.get(partition)
        try:
            changes = decode_table(raw, partition) if raw else None
            if known is None or changes is None or changes.header.base != known.header.base:
                return self._read_whole(partition)
            return self._take(partition, PartitionWindows(known.base, changes, known))
        except TableError as error:
            return self._refuse(partition, str(error))

    def _take(self, partition: int, windows: PartitionWindows) -> bool:
        known, header = self._newest.get(partition), windows.header
        same_log = known is not None and header.topic_id == known.header.topic_id
        if known is not None and same_log and header.offset < known.header.offset and self._is_kept(partition):
            return self._refuse(partition, "its windows were lost and are being rebuilt")
        self._newest[partition] = windows
        self._lost_at.pop(partition, None)
        self.problems.pop(partition, None)
        return True

    def _is_kept(self, partition: int) -> bool:
        """Return whether windows that were lost are kept."""
        now = time.monotonic()
        return self._written_up_to is not None and now < self._lost_at.setdefault(partition, now) + REBUILD_S

    def _read_whole(self, partition: int) -> bool:
        names = self._names
        (answer,) = self._asked([("MGET", names.windows(partition), names.window_changes(partition))])
        if isinstance(answer, NotNow):
            return self._refuse(partition, str(answer))
        base, changes = answer
        if base is None and changes is None:
            known = self._newest.get(partition)
            if known is not None and self._written_up_to is not None:
                offset = self._written_up_to(partition)
                if (offset is None or offset < known.header.offset) and self._is_kept(partition):
                    return self._refuse(partition, "its windows are lost")
            return self._drop(partition)
        self._watch.note(partition, changes)
        if base is None or changes is None:
            return self._refuse(partition, f"the {'base' if base is None else 'changes'} of its windows are lost")
        tables = decode_table(base, partition), decode_table(changes, partition)
        return self._take(partition, PartitionWindows(*tables, self._newest.get(partition)))

    def _refuse(self, partition: int, problem: str) -> bool:
        if self.problems.get(partition) != problem:
            log.warning("scorer.table.refused", extra={"values": {"partition": partition, "error": problem}})
        self.problems[partition] = problem
        return False

    def _drop(self, partition: int) -> bool:
        self._watch.note(partition, None)
        self.problems.pop(partition, None)
        self._lost_at.pop(partition, None)
        return self._newest.pop(partition, None) is not None


def read_windows(wire: WindowsWire, names: Names, partitions: int) -> WindowsReader:
    """Return a reader that has read all windows once."""
    reader = WindowsReader(asking(wire, in_part=True), names)
    reader.refresh(partitions)
    return reader
