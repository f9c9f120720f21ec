"""The messages of a partition, and the outcome of folding them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from streams.fold.batch import Refused
from streams.fold.instance_usage import Applied


class Arrived(NamedTuple):
    """A message as it came off the log."""

    offset: int
    value: bytes | None
    recorded_at: float
    """The record's time, epoch s: the broker's or the producer's; less than 0 when it has none."""
    key: bytes | None


@dataclass
class Outcome:
    """The outcome of folding some messages: every message is in ``counts`` once."""

    counts: Counter[str] = field(default_factory=Counter)
    ahead: int = 0
    """Records refused for a time too far ahead of the worker's clock."""
    refused: list[tuple[Arrived, Refused]] = field(default_factory=list)
    usage: Applied = field(default_factory=Applied)
    """The outcome for the usage by instance in these messages."""
