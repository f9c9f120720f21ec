"""The recorder's metrics."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Info

from streams.fold.admission import REASONS

SOURCES = ("samples", "ledger", "decisions")


class Metrics:
    """The recorder's metrics, in a registry of their own."""

    def __init__(self, version: str = "") -> None:
        self.registry = CollectorRegistry()
        of: Any = {"registry": self.registry}
        self.entries = Counter("windward_record_entries", "Entries written", **of)
        self.written = Counter("windward_record_written_bytes", "Bytes written", **of)
        self.figures = Counter("windward_record_figures", "Figures written, by kind", ["kind"], **of)
        self.changes = Counter("windward_record_changes", "Changes of the ledger written", **of)
        self.decisions = Counter("windward_record_decisions", "Decisions written", **of)
        self.refused = Counter("windward_record_messages_refused", "Messages not recorded, by reason", ["reason"], **of)
        self.gaps = Counter("windward_record_gaps", "Times a source no longer had what was next", ["source"], **of)
        self.lost = Counter("windward_record_lost_messages", "Messages the topic kept no longer", **of)
        self.failures = Counter("windward_record_failures", "Rounds that failed", ["part"], **of)
        self.removed = Counter("windward_record_removed_files", "Files removed for room", **of)
        self.size = Gauge("windward_record_size_bytes", "Bytes of all files", **of)
        self.limit = Gauge("windward_record_limit_bytes", "Bytes that all files may have", **of)
        self.oldest = Gauge("windward_record_oldest_timestamp_seconds", "Beginning of the oldest file", **of)
        self.newest = Gauge("windward_record_last_entry_timestamp_seconds", "When the last entry was written", **of)
        Info("windward_record_build", "Version of this recorder", **of).info({"version": version})
        for kind in ("usage", "load"):
            self.figures.labels(kind)
        for reason in (*REASONS, "far", "names"):
            self.refused.labels(reason)
        for source in SOURCES:
            self.gaps.labels(source)
        for part in ("kafka", "redis", "disk"):
            self.failures.labels(part)
