"""The Prometheus of this machine, scraping the pages of a local stack, with the shipped rules."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ops.stack.servers.process import LOOPBACK, LocalError, LocalProcess, exchange

RULES = Path(__file__).parents[2] / "prometheus" / "rules"
READY_DEADLINE_S = 60.0


class LocalPrometheus(LocalProcess):
    """A Prometheus at ``url``, started by ``with``; its data is kept in ``directory`` for 12 hours.

    ``pages`` are the ports of loopback to scrape by the process's name (``scorer-1``); the job is
    ``windward-`` and the command (``windward-scorer``), as in the shipped configuration.
    """

    def __init__(
        self, pages: Mapping[str, int], *, port: int, interval_s: int, directory: Path, fleet: str = "windward"
    ) -> None:
        self.port = port
        folder = (directory / "prometheus").resolve()
        super().__init__(
            "prometheus",
            [
                prometheus_binary(),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                "--storage.tsdb.retention.time=12h",
                f"--web.listen-address={LOOPBACK}:{port}",
            ],
            log=directory / "prometheus.log",
            ready=lambda: b" 200 " in exchange(port, b"GET /-/ready HTTP/1.0\r\n\r\n", 64),
            ready_deadline_s=READY_DEADLINE_S,
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prometheus.yml").write_text(json.dumps(configuration(pages, interval_s, fleet), indent=1))

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"


def configuration(pages: Mapping[str, int], interval_s: int, fleet: str) -> dict[str, Any]:
    """Return the configuration, as JSON, which is YAML.

    Targets have the label ``fleet``, like the series that they export.
    """
    jobs: dict[str, list[str]] = {}
    for name, port in pages.items():
        jobs.setdefault("windward-" + name.rstrip("-0123456789"), []).append(f"{LOOPBACK}:{port}")
    return {
        "global": {"scrape_interval": f"{interval_s}s", "evaluation_interval": f"{interval_s}s"},
        "rule_files": [str(RULES / "*.yml")],
        "scrape_configs": [
            {
                "job_name": job,
                "honor_labels": True,
                "static_configs": [{"targets": targets, "labels": {"fleet": fleet}}],
            }
            for job, targets in jobs.items()
        ],
    }


def prometheus_binary() -> str:
    """Return the server's executable; LocalError names the ways to get it."""
    found = shutil.which("prometheus")
    if not found:
        raise LocalError(
            "prometheus: no program of that name on the PATH; Debian and Ubuntu: apt-get install prometheus,"
            " else https://prometheus.io/download"
        )
    return found
