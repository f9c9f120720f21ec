"""The exporter: the windowed load of every machine, as a page for Prometheus."""
