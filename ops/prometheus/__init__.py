"""Prometheus beside Windward: its configuration, recording rules and alerts; promtool's tests of them."""
