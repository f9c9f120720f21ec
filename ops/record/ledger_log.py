"""Source: the ledger's change log. Records pass through as they are stored, in the order of their changes.

All live instances are read at first, and whenever the log does not continue from our change: trimmed beyond it, another
epoch, or an earlier last change. Instances that began and ended in between are a gap.
"""

from dataclasses import dataclass, field
from typing import Any

from ops.record.entry import Gap
from schemas.values.read_json import by_name
from scorer.ledger.record.instance import LIVE, read_record
from scorer.ledger.store.scripts import Ledger, records_in

_AT_ONCE = 2_000


@dataclass
class News:
    records: list[bytes] = field(default_factory=list)
    full: bool = False
    """The records are all live instances."""
    gap: Gap | None = None


class LedgerLog:
    """``live``: the records of all live instances by id, as of change ``change`` of epoch ``epoch``."""

    def __init__(self, reader: Ledger, epoch: str = "", change: int = 0, at: float = 0.0) -> None:
        self._reader = reader
        self.epoch, self.change = epoch, change
        self.at = at
        """When the ledger was last read, epoch s."""
        self.live: dict[str, bytes] = {}
        self._loaded = False
        self._news = News()

    def read(self, now_s: float) -> News:
        """Return what changed since the last call. After an error the next call returns all of these changes.

        Raises one of `scorer.wire.AWAY`, and UnknownFormat.
        """
        if not self._loaded:
            self._join(now_s)
        while True:
            epoch, change, raws = self._log()
            records = [read_record(raw) for raw in raws]
            if epoch == self.epoch and change == self.change:
                break
            if epoch != self.epoch or not records or records[0].version != self.change + 1:
                self._news = self._load(now_s)
                continue
            for record, raw in zip(records, raws, strict=True):
                self._news.records.append(raw)
                if record.state in LIVE:
                    self.live[record.id] = raw
                else:
                    self.live.pop(record.id, None)
                self.change = record.version
        self.at = now_s
        news, self._news = self._news, News()
        return news

    def _join(self, now_s: float) -> None:
        """Read the live instances, and the changes since the last recorder stopped if the log has them."""
        epoch, change = self.epoch, self.change
        loaded = self._load(now_s)
        if not epoch:
            self._news = loaded
            return
        if epoch == self.epoch and change <= self.change:
            now = self.change
            self.change = change
            _, _, raws = self._log()
            if (raws and read_record(raws[0]).version == change + 1) or change == now:
                return  # `read` continues from there
            self.change = now
        self._news = News(loaded.records, full=True, gap=self._gap(now_s))

    def _load(self, now_s: float) -> News:
        gap = self._gap(now_s) if self._loaded and self.epoch else self._news.gap
        self.epoch, self.change, _ = self._log(most=1, since=2**53)
        self.live, cursor = {}, b"0"
        while True:
            cursor, flat = self._reader.wire.one("HSCAN", self._reader.instances, cursor, "COUNT", _AT_ONCE)
            self.live.update(by_name(flat))
            if cursor == b"0":
                break
        self._loaded = True
        return News(list(self.live.values()), full=True, gap=gap)

    def _gap(self, now_s: float) -> Gap:
        return Gap("ledger", self.at, now_s, why="the change log was trimmed, or the ledger begun anew")

    def _log(self, most: int = _AT_ONCE, since: int | None = None) -> tuple[str, int, list[bytes]]:
        answers: Any = self._reader.wire.ask(self._reader.log_reads(self.change if since is None else since, most))
        epoch, change, records = self._reader.read_log(answers)
        return epoch, change, records_in(answers[1])[: len(records)]
