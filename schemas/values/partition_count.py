"""The number of partitions of the samples topic, as the stream app wrote it: so many window tables are read."""

PARTITIONS_MAX = 100_000
"""More partitions than any broker gives a topic; a reader requests one table for each."""


def partition_count(stored: object) -> int | None:
    """Return the number of partitions; 0 where none is stored, None where the stored value is not a valid number.

    >>> partition_count(b"8"), partition_count(None), partition_count(b"-5"), partition_count(b"9" * 30)
    (8, 0, None, None)
    """
    if stored is None:
        return 0
    if not isinstance(stored, bytes) or not stored.isdigit() or len(stored) > len(str(PARTITIONS_MAX)):
        return None
    count = int(stored)
    return count if count <= PARTITIONS_MAX else None
