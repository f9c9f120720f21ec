"""The Grafana dashboards, as code: `python -m ops.grafana` writes dashboards/*.json. Needs the extra ``dev``."""
