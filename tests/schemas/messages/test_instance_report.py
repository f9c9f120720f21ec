"""What instances used, in a sample: what was written is read, what cannot be is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.messages.instance_report import ENTRIES_MAX, InstanceMeans
from schemas.messages.sample import Rejected, Sample, decode
from tests.rows import each_row
from tests.schemas.test_json_schema import allows, load

GOLDEN = (Path(__file__).parents[1] / "golden" / "sample.v1.jsonl").read_bytes().splitlines()[-2:]
REPORT: dict[str, Any] = {"at": 1_790_000_010.5, "interval_s": 60.0, "entries": {"redis-1": {"cpu": 0.5}}}
SAMPLE: dict[str, Any] = {
    "type": "sample", "v": 1, "machine": "m1", "boot": 1, "seq": 1, "at": 1_790_000_010.5, "interval_s": 10,
    "cpu": {"n": 10, "mean": 2.0, "m2": 1.0, "max": 3.0, "capacity": 8.0},
}  # fmt: skip


def read(report: Any) -> Sample:
    message = decode(json.dumps(SAMPLE | {"instance_report": report}).encode())
    assert isinstance(message, Sample)
    return message


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    # name, changes of the report, reason, part of the detail
    ("no end", {"at": None}, "malformed", "`$.instance_report.at`"),
    ("after the sample", {"at": 1_790_000_011.0}, "impossible", "after the sample's end"),
    ("no interval", {"interval_s": 0}, "malformed", "`$.instance_report.interval_s`"),
    ("a part beyond the last", {"part": 2}, "impossible", "part 2 of 1"),
    ("a part too many", {"part": 65, "parts": 65}, "malformed", "`$.instance_report.part`"),
    ("negative usage", {"entries": {"a": {"cpu": -1}}}, "malformed", "instance_report.entries"),
    ("an empty id", {"entries": {"": {"cpu": 1}}}, "malformed", "instance_report.entries"),
    ("a space in the id", {"entries": {"a b": {"cpu": 1}}}, "malformed", "instance_report.entries"),
    ("a line's end in the id", {"entries": {"a\n": {"cpu": 1}}}, "malformed", "instance_report.entries"),
    ("an over-long id", {"entries": {"a" * 254: {"cpu": 1}}}, "malformed", "instance_report.entries"),
    (
        "too many", {"entries": {f"i{n}": {} for n in range(ENTRIES_MAX + 1)}}, "malformed", "instance_report.entries",
    ),
]  # fmt: skip


@each_row(("name", "changes", "reason", "detail"), REFUSED)
def test_what_cannot_be_is_refused_by_name(name: str, changes: dict[str, Any], reason: str, detail: str) -> None:
    with pytest.raises(Rejected) as error:
        read(REPORT | changes)
    assert error.value.reason == reason, name
    assert detail in error.value.detail


def test_a_report_may_leave_out_what_is_not_known() -> None:
    """A resource that cannot be measured is None, never 0; unknown fields and resources are passed over."""
    report = read(REPORT | {"newer": 1, "entries": {"a": {"gpu": 1.0}, "b": {"cpu": 0.0}}}).instance_report
    assert report is not None
    assert (report.system, report.part, report.parts) == (None, 1, 1)
    assert report.entries == {"a": InstanceMeans(), "b": InstanceMeans(cpu=0.0)}
    assert report.entries["a"].cpu is None  # type: ignore[attr-defined]


def test_the_schema_agrees() -> None:
    """The golden samples are valid by the JSON Schema; an entry that is no object is not."""
    schema = load("sample.v1.schema.json")
    assert all(allows(schema, json.loads(line), schema["$defs"]) for line in GOLDEN)
    wrong = SAMPLE | {"instance_report": REPORT | {"entries": {"a": 1}}}
    assert not allows(schema, wrong, schema["$defs"])
