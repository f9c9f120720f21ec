"""What other processes write reaches no terminal raw: answers whose every text is hostile."""

import logging
import re

import msgspec
import pytest
from msgspec import inspect

from ops.doctor.command import report
from ops.doctor.findings import Finding
from ops.top.view import Decision, Moment, Row, frame
from schemas.process.logs import _Formatter
from schemas.process.tables import Column, Screen, readable, table
from schemas.resources import RESOURCES
from schemas.rpc.parameters import RPC
from scorer.client import Event, WindwardError
from scorer.commands.instances.events import _line
from scorer.commands.shared import ask
from scorer.settings import ClientSettings

EVIL = (
    "a\x1b]52;c;aGk=\x07\x1b[2J\x1b[8m\r\nforged\x9b2J\u202eb\x7f\u2066\u200f\xad\u180e\u206a\ufff9\u3164\u2800\ufe0f"
    "\U000e0041\U0001d173\u070f\U00013437\U00016fe4\U0001d159"
)
OBEYED = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f"
    "\ufeff\ufff9-\ufffb\u070f\U00013430-\U0001343f\U00016fe4\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]|^forged",
    re.MULTILINE,
)
STYLES = re.compile("\x1b\\[[012]m")


def hostile(kind):  # noqa: PLR0911 - one for each kind of type
    """Return a value of a type, with the hostile text wherever a text can be."""
    match kind:
        case inspect.StructType():
            return {field.encode_name: hostile(field.type) for field in kind.fields}
        case inspect.UnionType():
            return hostile(next(one for one in kind.types if not isinstance(one, inspect.NoneType)))
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
            return [hostile(kind.item_type)]
        case inspect.TupleType():
            return [hostile(one) for one in kind.item_types]
        case inspect.DictType():
            return dict.fromkeys((hostile(kind.key_type), *RESOURCES), hostile(kind.value_type))
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.BoolType():
            return True
        case inspect.IntType() | inspect.FloatType():
            return 1
        case _:
            return EVIL


def clean(text):
    """Fail where a terminal would obey a text of another, or a row is forged."""
    assert not OBEYED.search(STYLES.sub("", text)), repr(text)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("method", RPC)
def test_no_answer_is_printed_as_it_is(method, as_json, capsys):
    answer = msgspec.convert(hostile(inspect.type_info(RPC[method].result)), RPC[method].result)
    ask.tell(ClientSettings(json=as_json), answer, lambda one, _: "\n".join(_texts(msgspec.to_builtins(one))))
    said = capsys.readouterr().out
    clean(said)
    assert said


def _texts(value):
    if isinstance(value, dict):
        return [text for pair in value.items() for one in pair for text in _texts(one)]
    return [text for one in value for text in _texts(one)] if isinstance(value, list) else [str(value)]


@pytest.mark.parametrize("as_json", [False, True])
def test_errors_and_events_are_one_line(as_json, capsys):
    ask.report(WindwardError("INTERNAL", EVIL), "place", ClientSettings(json=as_json))
    event = msgspec.convert(hostile(inspect.type_info(Event)) | {"expires_at": 5.0}, Event)
    for line in (capsys.readouterr().err.rstrip("\n"), _line(event, as_json=as_json)):
        clean(line)
        assert "\n" not in line


def test_what_needs_a_server_is_readable_too():
    clean(report([Finding(EVIL, "error", EVIL, EVIL)], 80))
    row = Row(machine=EVIL, cpu=(0.1,), cpu_std=0.1, memory=(0.1,), rest={}, risk=0.1, soon=0.1, age_s=1.0)
    moment = readable(Moment(now_s=5.0, windows_s=(60,), rows=(row,), decisions=(Decision(1.0, EVIL),), problem=EVIL))
    clean(frame(moment, moment.rows, Screen(), machines=5, decisions=5))
    clean(table([Column("a")], [[EVIL]]))


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_a_log_line_is_one_line(form):
    ours = logging.LogRecord("windward.x", logging.INFO, "", 1, "a.b", (), None)
    ours.values = {"error": EVIL, "short": "\x9b2J", "at": 1.0, "level": 3}
    for record in (ours, logging.LogRecord("kafka.x", logging.INFO, "", 1, EVIL, (), None)):
        line = _Formatter(form).format(record)
        assert "\n" not in line
        assert re.search(r"^.{0,3}at\"?[=:] ?\"?20\d\d-.*info", line), "a value named as the time or the level"
        assert not re.search("[\x00-\x1f\x80-\x9f\u202e\u2066]", line)
