"""What the settings of a topic must be for Windward, and what to change where they differ. Pure.

A topic that Windward makes has them. One that was there before keeps its own, so they are looked at when a worker
starts. A setting that the broker does not tell is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping

RETENTION_MS = 3 * 3_600_000
"""Three hours: the ring is one, and a worker that is down must find the rest again."""

SAMPLE_BYTES_MIN = 32_768
REJECT_BYTES_MIN = 80_000
"""The longest messages of either topic, with their headers."""


def wrong_settings(found: Mapping[str, str], *, samples: bool) -> list[str]:
    """Return one sentence for each setting that is wrong; ``samples`` is False for the rejects topic.

    >>> wrong_settings({"cleanup.policy": "compact"}, samples=True)
    ['cleanup.policy is compact: samples of a machine are deleted by the next one; set it to delete']
    """
    bytes_min = SAMPLE_BYTES_MIN if samples else REJECT_BYTES_MIN
    problems = []
    if samples and found.get("message.timestamp.type", "LogAppendTime") != "LogAppendTime":
        problems.append(
            f"message.timestamp.type is {found['message.timestamp.type']}: a record's time is what its producer says;"
            " set it to LogAppendTime"
        )
    if samples and 0 <= _number(found, "retention.ms") < RETENTION_MS:
        problems.append(
            f"retention.ms is {found['retention.ms']}: windows that Redis loses cannot be read again;"
            f" set it to {RETENTION_MS} or more"
        )
    if samples and "compact" in found.get("cleanup.policy", "delete"):
        problems.append(
            f"cleanup.policy is {found['cleanup.policy']}: samples of a machine are deleted by the next one;"
            " set it to delete"
        )
    if 0 <= _number(found, "max.message.bytes") < bytes_min:
        problems.append(
            f"max.message.bytes is {found['max.message.bytes']}: the longest messages are refused by the broker;"
            f" set it to {bytes_min} or more"
        )
    return problems


def _number(found: Mapping[str, str], name: str) -> int:
    """Return a setting as a number; -1, which Kafka takes for "no limit", when it is not told."""
    try:
        return int(found.get(name, "-1"))
    except ValueError:
        return -1
