"""Error messages: bounded in length, and msgspec's validation errors in plain words with the field first."""

import re
import typing
from typing import Any

import msgspec

from schemas.values.near import did_you_mean

ECHO_MAX = 200
"""The most characters of a given value that a message shows."""
_LONG_QUOTE = re.compile(rf"(['\"`])([^'\"`]{{{ECHO_MAX}}})[^'\"`]+")
_MESSAGE_MAX = 1_000
_TOO_LONG = re.compile(r"Expected `\w+` of length <= \d+$")
_KINDS = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "array": "a list",
    "object": "an object", "null": "null",
}  # fmt: skip
_EXPECTED = re.compile(r"Expected `([^`]+)`(?: of length (<=|>=) (\d+)| (>=|>|<=|<) (\S+?))?(?=,|$| )")
_GOT = re.compile(r"got `(\w+)`")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")


def shortened(message: str) -> str:
    """Return a message in which no quotation is longer than `ECHO_MAX`.

    >>> shortened("id: '" + 300 * "x" + "' is unknown") == "id: '" + 200 * "x" + "...' is unknown"
    True
    >>> shortened("x" * 5_000) == "x" * 200 + "... (5000 characters)"
    True
    """
    short = _LONG_QUOTE.sub(r"\1\2...", message)
    return short if len(short) <= _MESSAGE_MAX else f"{short[:ECHO_MAX]}... ({len(message)} characters)"


def in_words(problem: str) -> str:
    """Return msgspec's message about a value in plain words: the expected type, and the given one.

    >>> in_words("Expected `float | null`, got `str`"), in_words("Expected `int` >= 1")
    ('expected a number, got text', 'expected a whole number of 1 or more')
    >>> in_words("Expected `array` of length <= 2, got 3")
    'expected a list of at most 2, got 3'
    >>> in_words("Object contains unknown field `memroy`"), in_words("Object missing required field `id`")
    ("no such field: 'memroy'", "'id' is missing")
    >>> in_words("Invalid enum value 'gold'"), in_words("JSON is malformed")
    ("no such choice: 'gold'", 'JSON is malformed')
    """
    problem = re.sub(r"Object contains unknown field `([^`]*)`", r"no such field: '\1'", problem)
    problem = re.sub(r"Object missing required field `([^`]*)`", r"'\1' is missing", problem)
    problem = problem.replace("Invalid enum value ", "no such choice: ")
    problem = _GOT.sub(lambda found: f"got {_KINDS.get(found[1], found[1])}", problem)
    return _EXPECTED.sub(_expected, problem)


def _expected(found: re.Match[str]) -> str:
    kinds, length, size, sign, bound = found.groups()
    known = [_KINDS.get(kind, kind) for kind in kinds.split(" | ") if kind != "null"] or ["null"]
    words = f"expected {' or '.join(known)}"
    if size:
        unit = " characters" if known[0] == "text" else ""
        return f"{words} of at {'most' if length == '<=' else 'least'} {size}{unit}"
    if bound:
        bound = bound.removesuffix(".0")
        end = {">=": f"of {bound} or more", ">": f"above {bound}", "<=": f"of at most {bound}", "<": f"below {bound}"}
        return f"{words} {end[sign]}"
    return words


def field_error(error: object, otherwise: str = "", given: Any = None, kind: Any = None) -> str:
    """Return a message of msgspec with the field first; ``otherwise`` stands in for a field that it does not name.

    ``given``: the value that was converted; it supplies the size of a text or list that is too long. ``kind``: the
    Struct it was converted to; it supplies names similar to an unknown one, and the valid choices.

    >>> field_error("Expected `int`, got `str` - at `$.cpu.n`")
    'cpu.n: expected a whole number, got text'
    >>> field_error("Expected `object`, got `array`"), field_error("JSON is malformed", "query")
    ('expected an object, got a list', 'query: JSON is malformed')
    >>> field_error("Expected `array` of length <= 2 - at `$.ports`", given={"ports": [1, 2, 3]})
    'ports: expected a list of at most 2, got 3'
    """
    problem, path = split_path(str(error))
    if given is not None and _TOO_LONG.match(problem):
        problem += _size(given, path)
    words = in_words(problem) + (_hint(problem, path, kind) if kind is not None else "")
    if path.startswith("."):
        return f"{path[1:]}: {words}"
    return f"{otherwise}: {words}{path}" if otherwise else words + path


def _hint(problem: str, path: str, kind: Any) -> str:
    """Return names similar to an unknown field, or all names, or the valid choices; "" where none is known."""
    if unknown := re.fullmatch(r"Object contains unknown field `([^`]*)`", problem):
        hints = _fields_at(kind, path)
        near = did_you_mean(unknown[1], hints)
        return near if near or not path or not hints else f"; there are {', '.join(hints)}"
    hints = typing.get_type_hints(kind)
    if problem.startswith("Invalid enum value") and path[1:] in hints:
        return f"; there are {', '.join(map(str, typing.get_args(hints[path[1:]])))}"
    return ""


def _fields_at(kind: Any, path: str) -> dict[str, Any]:
    """Return the fields of the Struct at a path below ``kind``; none where the path may have no Struct or several."""
    for key, _ in _STEP.findall(path):
        inside = _structs_in(kind)
        kind = typing.get_type_hints(inside[0]).get(key) if key and len(inside) == 1 else kind
    inside = _structs_in(kind)
    return typing.get_type_hints(inside[0]) if len(inside) == 1 else {}


def _structs_in(kind: Any) -> list[type[msgspec.Struct]]:
    """Return the Structs in a type: ``A`` for ``tuple[A, ...] | None``."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [kind]
    return [found for part in typing.get_args(kind) for found in _structs_in(part)]


def split_path(message: str) -> tuple[str, str]:
    """Return the problem, and the path of the field behind the ``$`` that ends a message; "" where there is none.

    >>> split_path("Expected `int` - at `$.filters[0].limit`")
    ('Expected `int`', '.filters[0].limit')
    >>> split_path("Expected `int`")
    ('Expected `int`', '')
    """
    problem, found, path = message.rpartition(" - at `$")
    return (problem, path.removesuffix("`")) if found else (message, "")


def _size(given: Any, path: str) -> str:
    """Return the length of the value at a path, as words; the largest when the path does not name the key."""
    values = [given]
    for key, position in _STEP.findall(path):
        try:
            if position == "...":
                values = [each for value in values for each in (value.values() if isinstance(value, dict) else value)]
            else:
                values = [value[int(position)] if position else value[key] for value in values]
        except (KeyError, IndexError, TypeError):
            return ""
    sizes = [len(value) for value in values if hasattr(value, "__len__")]
    return f", got {max(sizes)}" if sizes else ""
