"""The dashboards as Grafana asks for them: queries to a Prometheus, and pictures for the documents."""
