"""The golden files: a value of each format that is sent or stored, as it is written today.

    python -m tests.golden          # write them all anew

Until the first tag each format has number 1, and the commit that changes one writes its file anew. From the first tag
on a file is never written again: a changed format adds one, and today's reader takes them all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from schemas.messages.sample import decode, encode
from schemas.rpc.envelope import Error, Query, Reply
from schemas.tables.window_table import decode_table, encode_table
from streams.fold.instance_usage import InstanceUsage
from streams.state.checkpoint import (
    decode_vitals,
    encode_hour,
    encode_position,
    encode_usage,
    encode_vitals,
    restore_place,
    restore_usage,
)
from streams.state.manifest import decode_manifest
from tests.schemas import golden_values as messages
from tests.streams import golden_values as states

_HERE = Path(__file__).parent
USAGE = {"partition": 3, "offset": 77, "topic_id": "t", "written_at": states.START * 1.0}


@dataclass(frozen=True)
class Golden:
    """A format: its file, what makes the file's value, and what reads a value and writes it again."""

    path: str
    made: Callable[[], bytes]
    again: Callable[[bytes], bytes]

    @property
    def file(self):
        return _HERE / self.path


def lines(each):
    """Return a function that treats each line of a file."""
    return lambda raw: b"".join(each(line) + b"\n" for line in raw.splitlines())


def _reply(line):
    fields = msgspec.json.decode(line)
    if "result" in fields:
        fields["result"] = msgspec.Raw(msgspec.json.encode(fields["result"]))
    if "error" in fields:
        fields["error"] = msgspec.convert(fields["error"], Error)
    return msgspec.json.encode(Reply(**fields))


def _table(raw):
    table = decode_table(raw)
    return encode_table(table.header, table.columns, table.names)


def _place(write, place):
    def again(raw):
        ring = decode_vitals((_HERE / "streams/state/golden/vitals.v1.bin").read_bytes())
        restore_place(ring, raw, place)
        return write(ring, place)

    return again


def _usage(raw):
    usage = InstanceUsage()
    header = restore_usage(usage, raw)
    return encode_usage(usage, {name: getattr(header, name) for name in USAGE})


def _manifest(raw):
    manifest = decode_manifest(raw)
    return b"" if manifest is None else manifest.encode()


def _of_state(write):
    return lambda: write(states.state().ring)


FORMATS = (
    Golden(
        "schemas/golden/sample.v1.jsonl", lambda: _written(messages.SAMPLES), lines(lambda one: encode(decode(one)))
    ),
    Golden(
        "schemas/golden/machine.v1.json", lambda: _written([messages.FACTS]), lines(lambda one: encode(decode(one)))
    ),
    Golden("schemas/golden/window_table.v1.bin", messages.table, _table),
    Golden("schemas/golden/window_changes.v1.bin", messages.changes, _table),
    Golden(
        "schemas/golden/query.v1.jsonl",
        lambda: _lines(messages.QUERIES),
        lines(lambda one: msgspec.json.encode(msgspec.json.decode(one, type=Query))),
    ),
    Golden("schemas/golden/reply.v1.jsonl", lambda: _lines(messages.REPLIES), lines(_reply)),
    Golden(
        "streams/state/golden/vitals.v1.bin", _of_state(encode_vitals), lambda raw: encode_vitals(decode_vitals(raw))
    ),
    Golden(
        "streams/state/golden/position.v1.bin",
        _of_state(lambda ring: encode_position(ring, states.POSITION)),
        _place(encode_position, states.POSITION),
    ),
    Golden(
        "streams/state/golden/hour.v1.bin",
        _of_state(lambda ring: encode_hour(ring, states.HOUR)),
        _place(encode_hour, states.HOUR),
    ),
    Golden("streams/state/golden/instance_table.v1.bin", lambda: encode_usage(states.usage(), USAGE), _usage),
    Golden("streams/state/golden/manifest.v1.bin", lambda: states.manifest().encode(), _manifest),
)


def _written(found):
    return b"".join(encode(one) + b"\n" for one in found)


def _lines(found):
    return b"".join(msgspec.json.encode(one) + b"\n" for one in found)


if __name__ == "__main__":
    for one in FORMATS:
        one.file.write_bytes(one.made())
