"""The dashboards drawn from a running Prometheus, for the documents."""
