"""Checks the settings of the topics, and says what to change. Pure.

A topic that Windward creates has the right ones. An existing topic keeps its own, so they are checked when a worker
starts. A setting that the broker does not return is not checked.
"""

from __future__ import annotations

from collections.abc import Mapping

RETENTION_MS = 3 * 3_600_000
"""Three hours: one for the ring, the others for the time that a worker may be down."""

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
            f"message.timestamp.type is {found['message.timestamp.type']}: a record's time is its producer's;"
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
    """Return a setting as a number; -1, Kafka's "no limit", when it is not returned."""
    try:
        return int(found.get(name, "-1"))
    except ValueError:
        return -1
