"""The roster: which machine is in which row."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from scorer.snapshot.arrays import Integers
from scorer.snapshot.usages import pair_digest


@dataclass(frozen=True, eq=False)
class Roster:
    """The machines and their rows. Two snapshots with the same machines share one roster, so rows can be compared."""

    names: tuple[str, ...]

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Name to row."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def name_order(self) -> NDArray[np.uint64]:
        """[M] Position of each row's name in alphabetical order, which breaks ties."""
        order = np.empty(len(self.names), np.uint64)
        order[np.argsort(np.array(self.names, dtype=np.str_))] = np.arange(len(self.names))
        return order

    @cached_property
    def name_hash(self) -> NDArray[np.uint64]:
        """[M] `hash_of` each name, which breaks ties at random."""
        return np.array([hash_of(name) for name in self.names], np.uint64)

    @cached_property
    def systems(self) -> Integers:
        """[M] `pair_digest` of each machine's system, its key in the usage by instance."""
        return np.fromiter(map(pair_digest, self.names), np.int64, len(self.names))


def hash_of(text: str) -> int:
    """Return 64 bits of a text, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
