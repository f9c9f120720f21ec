"""The load watcher's metrics."""

from schemas.process.metrics import Table, counter, gauge

STATUSES = ("200", "404", "503")


class Metrics(Table):
    """The load watcher's metrics, in a registry of their own; every known label begins at 0."""

    PROCESS = "load_watcher"

    answers = counter("windward_load_watcher_answers", "Answers, by HTTP status", status=STATUSES)
    nodes = gauge(
        "windward_load_watcher_nodes", "Nodes of the last answer made, by state", state=("listed", "left_out")
    )
    end = gauge("windward_load_watcher_window_end_timestamp_seconds", "Oldest window end of the last answer made")
    up = gauge("windward_load_watcher_up", "1 while the windows can be read")
