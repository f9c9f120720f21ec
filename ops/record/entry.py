"""An entry: what one round of the recorder writes, all or nothing.

Entries are MessagePack maps; a reader ignores unknown names, and an absent field has its default. The first entry of a
file has the whole state: ``resources``, every machine in ``facts``, ``operator``, and all live instances (``full``);
its tables of names begin anew. Later entries have what changed.
"""

from __future__ import annotations

import msgspec

from ops.record.figures import Packed


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a machine has."""

    capacity: dict[str, float] = {}
    labels: dict[str, str] = {}


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of the list of decisions: a placement or a move, done or refused."""

    stamp: str
    """Its id in the list, which begins with its time in ms."""
    method: str = ""
    ids: list[str] = []
    query: str = ""
    scorer: str = ""
    answer: bytes = b""
    """JSON, shortened."""


class Gap(msgspec.Struct, frozen=True, omit_defaults=True):
    """Data that a source no longer had when it was read."""

    source: str
    """samples, ledger or decisions."""
    since: float
    until: float
    lost: int = 0
    """Messages or changes lost; 0: how many is not known."""
    why: str = ""


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """The position reached in each source."""

    topic_id: str = ""
    offsets: dict[str, int] = {}
    """By partition: the next offset."""
    epoch: str = ""
    change: int = 0
    decision: str = ""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One round."""

    at: float
    """When it was written, epoch s."""
    version: str = ""
    resources: list[str] = []
    facts: dict[str, Facts] = {}
    gone: list[str] = []
    """Machines that are no longer known."""
    operator: dict[str, bytes] | None = None
    """Operators' rules by machine, JSON; None: unchanged."""
    full: bool = False
    """``instances`` has all live instances after the changed ones; else the changed ones only."""
    instances: list[bytes] = []
    """Records of the ledger, JSON (`scorer.ledger.record.instance`), in the order of their changes."""
    decisions: list[Decision] = []
    pairs: list[str] = []
    """Further rows of ``usage``: machine, tab, instance; an empty instance: usage of none of them."""
    usage: Packed = Packed()
    machines: list[str] = []
    """Further rows of ``load``."""
    load: Packed = Packed()
    gaps: list[Gap] = []
    refused: dict[str, int] = {}
    """Messages that were not used, by reason."""
    position: Position = Position()


encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Entry)


def decode(raw: bytes) -> Entry:
    """Return the entry; raises ValueError."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
