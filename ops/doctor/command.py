"""``windward doctor``: checks every part of a Windward, and says what is wrong and what to do."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections import Counter
from collections.abc import Mapping

from ops.doctor.findings import Finding
from ops.doctor.inspection import Inspection
from ops.doctor.settings import DoctorSettings
from schemas.process.settings import load_settings
from schemas.process.terminal import screen

_MARKS = {"good": "ok", "note": "note", "warning": "WARNING", "error": "ERROR"}
SETTINGS = DoctorSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the checks, print the findings, and return 1 when something is wrong."""
    settings = load_settings(DoctorSettings, "doctor", argv, environ)
    found = Inspection(settings).findings()
    wrong = [one for one in found if one.level in ("warning", "error")]
    if settings.json:
        print(json.dumps({"good": not wrong, "findings": [dataclasses.asdict(one) for one in found]}))  # noqa: T201
    else:
        print(report(found, screen(wide=settings.wide).width))  # noqa: T201
    return 1 if wrong else 0


def report(found: list[Finding], width: int | None) -> str:
    """Return the findings for people: one line each, what to do below it."""
    lines: list[str] = []
    areas, marks = max(len(one.area) for one in found), max(map(len, _MARKS.values()))
    for one in found:
        head = f"{_MARKS[one.level]:{marks}}  {one.area:{areas}}  "
        lines += _wrapped(head, one.found, width)
        if one.do:
            lines += _wrapped(" " * len(head) + "-> ", one.do, width)
    counts = Counter(one.level for one in found)
    return "\n".join([*lines, "", f"{counts['error']} errors, {counts['warning']} warnings, {counts['note']} notes"])


def _wrapped(head: str, text: str, width: int | None) -> list[str]:
    if width is None:
        return [head + text]
    indent = " " * len(head)
    return textwrap.wrap(
        text, max(width, len(head) + 20), initial_indent=head, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
