"""The log of decisions: a bounded Redis stream with every placement and move and its terms, for ``windward why``.

An entry has the parameters of its query, too: `why MACHINE` asks again with those of the newest one. The log is bounded
by entries and by bytes. A large answer is reduced to the reasons of the choice: the chosen machine
with its terms, the refusals and the counts; the other machines are left out. Large parameters are left out.
"""

from collections.abc import Iterable

import msgspec

from schemas.names import Names
from schemas.rpc.envelope import Query
from schemas.rpc.results import PlaceResult, UpdateResult
from scorer.wire import Command

ENTRY_BYTES_MAX = 16_384
"""A larger answer is shortened."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_SHOWN_MAX = 20
_WEIGHT = 0.01
"""Weight of the newest entry in the mean size of entries."""
_OVERHEAD_BYTES = 200
"""Bytes of an entry in the stream, besides its answer and its ids."""


def shortened(answer: PlaceResult | UpdateResult | bytes, most: int = ENTRY_BYTES_MAX) -> bytes:
    """Return an answer as JSON of at most so many bytes: first without other machines, then without long lists."""
    whole = answer if isinstance(answer, bytes) else _encode(answer)
    if len(whole) <= most:
        return whole
    found = _decode(answer) if isinstance(answer, bytes) else msgspec.structs.asdict(answer)
    found |= {"machines": None, "candidates": found.get("candidates", [])[:1], "shortened": True}
    if len(short := _encode(found)) > most:
        for name in ("placed", "missing_ids", "warnings", "refusals"):
            if isinstance(found.get(name), list):
                found[name] = found[name][:_SHOWN_MAX]
        found["missing_reasons"] = dict(list(found.get("missing_reasons", {}).items())[:_SHOWN_MAX])
        short = _encode(found)
    if len(short) > most:
        plain = {
            name: value for name, value in found.items() if name == "amounts" or not isinstance(value, list | dict)
        }
        short = _encode(plain | {"placed": [], "candidates": [], "warnings": []})
    return short


class DecisionLog:
    """Collects the entries that are sent with the next answer.

    ``length`` bounds the entries of the stream, 0 keeps none. ``bytes_max`` bounds its bytes: the larger the
    entries of this scorer are on average, the fewer are kept.
    """

    def __init__(self, names: Names, scorer: str, length: int, bytes_max: int = 256 * 2**20) -> None:
        self._bytes_max = bytes_max
        self._mean_bytes = 0.0
        self._key = names.decisions
        self._scorer = scorer
        self._length = length
        self._pending: list[Command] = []

    def note(self, query: Query, instance_ids: Iterable[str], answer: PlaceResult | UpdateResult) -> None:
        """Add the answer to a query to the log, under the ids of its instances."""
        if not self._length:
            return
        ids = "\n".join(instance_ids)  # printable, so none has a line break
        entry = shortened(answer)
        params = bytes(query.params) if len(query.params) <= ENTRY_BYTES_MAX else b"{}"
        size = len(ids) + len(entry) + len(params)
        self._mean_bytes += (size - self._mean_bytes) * (_WEIGHT if self._mean_bytes else 1.0)
        most = max(1, min(self._length, int(self._bytes_max / (self._mean_bytes + _OVERHEAD_BYTES))))
        self._pending.append(
            (
                "XADD", self._key, "MAXLEN", "~", most, "*",
                "ids", ids, "query", query.id, "scorer", self._scorer, "method", query.method,
                "answer", entry, "params", params,
            )
        )  # fmt: skip

    def take(self) -> list[Command]:
        """Return the commands that write the entries added since the last call."""
        pending, self._pending = self._pending, []
        return pending
