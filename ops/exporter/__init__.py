"""The exporter: the windowed load of every machine, as Prometheus reads it."""
