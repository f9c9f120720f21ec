"""``windward record``: a bounded recording of a live fleet, for ``windward replay --last 7d --profile X``.

**Sources.** The usage of instances and machines comes from Kafka: the samples and the reports in them, a figure each
minute. The windows in Redis do not have single minutes, and a recorder that was away could not read them later; Kafka
keeps 3 hours. The instances of each machine come from the ledger's change log, which has no gap while it is long
enough. The list of decisions has the requests and refusals. Facts and operators' rules are read from Redis. Rejected:
a sample of the scorer's answers (they do not say when an instance ended), the raw messages (ten times the bytes).

**Files.** ``2026-11-22T09-0001.record`` has the entries of that hour (UTC), ``-0002`` those after a restart in it. A
file is written under the name ``....open`` and renamed when it is complete. It begins with the whole state (machines,
live instances), so each file can be read alone. The oldest are removed, so that the folder never has more than
``record_bytes``.

**An entry is all or nothing.** One round writes one entry: figures, changes, decisions, and the position in each source
up to which they go. It has a length and a checksum and is synced to the disk. A process that is killed loses at most
what it had not written; the next one reads that again from the last position. Data that a source has lost by then are
a *gap*: it is recorded with its times and the reason, counted, and reported by the replay.

**Bounds.** A round keeps the samples since the last one in memory; it ends early when they are many. While the disk is
full the recorder reads no further and is not ready; it continues when there is room.
"""
