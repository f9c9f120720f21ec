"""An error of a command on stderr: one line for people, or one JSON object for programs."""

import json
import re
import sys

from schemas.process.tables import readable

_FIELD = re.compile(r"([a-z_][\w.\[\]]*)(?:: | is required)")


class Failure(ValueError):
    """An error that ends a command: one line on stderr and exit code 1 (`ops.cli.main`), no traceback."""


def field_of(message: str) -> str | None:
    """Return the field named at the start of a message, None where it names none.

    >>> field_of("ttl_s: expected a number"), field_of("no answer within 5 s: is a scorer running?")
    ('ttl_s', None)
    """
    found = _FIELD.match(message)
    return found[1] if found else None


def print_failure(command: str, code: str, message: str, *, as_json: bool, with_code: bool = False) -> None:
    """Print why a command failed: ``{"code", "message", "field"}`` or ``windward COMMAND: [CODE: ]message``."""
    if as_json:
        line = json.dumps({"code": code, "message": message, "field": field_of(message)})
    else:
        line = f"windward {command}: {f'{code}: ' if with_code else ''}{message.removeprefix(f'{command}: ')}"
    print(readable(line), file=sys.stderr)  # noqa: T201
