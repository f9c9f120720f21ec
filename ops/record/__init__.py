"""``windward record``: a bounded recording of a live fleet, for ``windward replay --last 7d --profile X``.

    __main__      the process
    recorder      one round: what came is gathered and written, with how far it goes
    samples       source: the samples topic, read without a group
    ledger_log    source: the ledger's change log, read as scorers read it
    state         source: facts of the machines, what operators say, decisions
    gathering     samples and reports become figures
    entry         what is written at once; figures: columns of numbers in it
    frames        entries in a file; folder: files by hour, bounded in size
    reading       a recording read again, from one moment to another
    metrics, settings

**Sources.** What instances and machines used comes from Kafka: the samples and the reports in them, a figure each
minute. The windows in Redis know no minute, and a recorder that was away would have lost it; Kafka keeps 3 hours. What
lives where comes from the ledger's change log, which has no gap while it is long enough; the list of decisions says
what was asked and refused. Facts and what operators say are read from Redis, where they are settled. Rejected: a sample
of the scorer's answers (they do not say when an instance ended), the raw messages (ten times the bytes).

**Files.** ``2026-11-22T09-0001.record`` has what was written in that hour (UTC), ``-0002`` what was written after a
restart in it. A file is written under the name ``....open`` and renamed when it is complete. It begins with the whole
state (machines, live instances), so each can be read alone, and the oldest can be removed: they are, so that the folder
never holds more than ``record_bytes``.

**An entry is all or nothing.** One round writes one entry: figures, changes, decisions, and the position in each source
up to which they go. It has a length and a checksum and is synced to the disk. A process that is killed loses what it
had not written, no more, and mostly not even that: the next one reads on from the last position. What a source no
longer has by then is a *gap*: it is written down with its times and the reason, counted, and told by the replay.

**Bounds.** A round holds the samples since the last one; it ends early when they are many. Disk full: the recorder
reads no further, is not ready, and goes on when there is room.
"""
