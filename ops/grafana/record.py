"""The recorder's panels: start, size and gaps of the recording."""

from __future__ import annotations

from ops.grafana import parts
from ops.grafana.parts import RATE


def panels() -> list[object]:
    """Return the panels of the row."""
    return [
        parts.figures(
            "Recorded since", "How far back the recording goes; the oldest files make room for new ones.",
            [("time() - max(windward_record_oldest_timestamp_seconds)", "age")], "s", width=4, height=6, graph=False,
        ),
        parts.figures(
            "Since the last entry", "One is written every minute (write_s).",
            [("time() - max(windward_record_last_entry_timestamp_seconds)", "age")], "s", width=4, height=6, decimals=0,
            steps=((None, "green"), (180, "yellow"), (600, "red")),
        ),
        parts.lines(
            "Size of the recording", "Bytes of all files, and what they may have (record_bytes).",
            [("max(windward_record_size_bytes)", "used"), ("max(windward_record_limit_bytes)", "limit")],
            "bytes", width=8, height=6,
        ),
        parts.lines(
            "Bytes recorded", "Written a second.", [(f"sum(rate(windward_record_written_bytes_total{RATE}))", "written")],
            "Bps", width=8, height=6,
        ),
        parts.lines(
            "Recorded", "A second: figures of machines (load) and instances (usage), changes of the ledger, decisions, entries.",
            [(f"sum by (kind) (rate(windward_record_figures_total{RATE}))", "{{kind}}"),
             (f"sum(rate(windward_record_changes_total{RATE}))", "changes"),
             (f"sum(rate(windward_record_decisions_total{RATE}))", "decisions"),
             (f"sum(rate(windward_record_entries_total{RATE}))", "entries")],
            "ops", width=8, height=6,
        ),
        parts.lines(
            "Not recorded", "In five minutes: gaps by source, messages that Kafka had no longer, messages refused by reason.",
            [("sum by (source) (increase(windward_record_gaps_total[5m]))", "gap: {{source}}"),
             ("sum(increase(windward_record_lost_messages_total[5m]))", "lost messages"),
             ("sum by (reason) (increase(windward_record_messages_refused_total[5m])) > 0", "refused: {{reason}}")],
            "short", width=8, height=6, steps=parts.NONE_IS_GOOD,
        ),
        parts.lines(
            "Failed rounds of the recorder", "In five minutes, by part; and files removed to make room, which is no failure.",
            [("sum by (part) (increase(windward_record_failures_total[5m]))", "{{part}}"),
             ("sum(increase(windward_record_removed_files_total[5m]))", "removed files")],
            "short", width=8, height=6,
        ),
    ]  # fmt: skip
