"""Draw the dashboards as they were at work, without Grafana: ``python -m tests.grafana.pictures --prometheus URL``.

Each panel is drawn where the dashboard has it, from its own queries on a Prometheus that scraped a running stack:
what the panel shows, not how Grafana paints it. Every variable has its default, collapsed rows stay closed, as when the
dashboard is opened. Needs the extra ``plot``: matplotlib.
"""

import argparse
import json
import sys
import time
import urllib.error
from pathlib import Path

from schemas.values.near import did_you_mean
from tests.grafana.asked import FOLDER, choices
from tests.grafana.prometheus import Prometheus


def main():
    """Draw every dashboard; end with a line on stderr and 1 where Prometheus, machine or matplotlib is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prometheus", required=True, metavar="URL")
    parser.add_argument("--machine", required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--out", type=Path, default=Path("docs/dashboards"))
    options = parser.parse_args()
    try:
        from tests.grafana.pictures.drawing import PanelData, draw
    except ModuleNotFoundError as error:
        sys.exit(f"{error.name} is not installed; it comes with: pip install 'windward[plot]'")
    prometheus = Prometheus(options.prometheus)
    try:
        machines = prometheus.variable("label_values(windward_machine_info, machine)")
    except urllib.error.URLError as error:
        sys.exit(f"no Prometheus on {options.prometheus}: {error.reason}; `windward up --prometheus` starts one")
    if options.machine not in machines:
        near = did_you_mean(options.machine, machines) or f"; it has {len(machines)} machines"
        sys.exit(f"Prometheus has no machine {options.machine!r}{near}")
    options.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(FOLDER.glob("*.json")):
        dashboard = json.loads(path.read_text())
        values = choices(dashboard, prometheus.variable, machine=options.machine) | {"__rate_interval": "1m"}
        data = PanelData(prometheus, values, time.time(), 60 * options.minutes)
        draw(dashboard, data).savefig(options.out / f"{path.stem}.png")


if __name__ == "__main__":
    main()
