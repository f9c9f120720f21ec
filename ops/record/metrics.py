"""The recorder's metrics."""

from schemas.process.metrics import Table, counter, gauge
from streams.fold.admission import REASONS

SOURCES = ("samples", "ledger", "decisions")


class Metrics(Table):
    """The recorder's metrics, in a registry of their own."""

    PROCESS = "record"

    entries = counter("windward_record_entries", "Entries written")
    written = counter("windward_record_written_bytes", "Bytes written")
    figures = counter("windward_record_figures", "Figures written, by kind", kind=("usage", "load"))
    changes = counter("windward_record_changes", "Changes of the ledger written")
    decisions = counter("windward_record_decisions", "Decisions written")
    refused = counter(
        "windward_record_messages_refused", "Messages not recorded, by reason", reason=(*REASONS, "far", "names")
    )
    gaps = counter("windward_record_gaps", "Times a source no longer had what was next", source=SOURCES)
    lost = counter("windward_record_lost_messages", "Messages the topic kept no longer")
    failures = counter("windward_record_failures", "Rounds that failed", part=("kafka", "redis", "disk"))
    removed = counter("windward_record_removed_files", "Files removed for room")
    size = gauge("windward_record_size_bytes", "Bytes of all files")
    limit = gauge("windward_record_limit_bytes", "Bytes that all files may have")
    oldest = gauge("windward_record_oldest_timestamp_seconds", "Beginning of the oldest file")
    newest = gauge("windward_record_last_entry_timestamp_seconds", "When the last entry was written")
