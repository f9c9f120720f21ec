"""Write the dashboards: ``python -m ops.grafana``.

Alerts name their panel (``__dashboardUid__``, ``__panelId__``), and so their panels link to their entries in the runbook.
A panel's number is made of its title: it stays when others come and go. ``--docs-url`` is where the documentation is
served, for links from panels; for links from alerts it is a label in the configuration of Prometheus.
"""

import argparse
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from ops.grafana import fleet, machine, pipeline, scorer
from ops.grafana.page import DOCS_URL

FOLDER = Path(__file__).parent / "dashboards"
ALERTS = Path(__file__).parents[1] / "prometheus" / "rules" / "alerts.yml"


def texts(docs_url: str = DOCS_URL) -> dict[str, str]:
    """Return the text of every dashboard by file name."""
    modules = {"fleet": fleet, "machine": machine, "pipeline": pipeline, "scorer": scorer}
    made = {name: json.loads(JSONEncoder().encode(module.dashboard().build())) for name, module in modules.items()}
    told = alerts_by_panel()
    return {f"{name}.json": json.dumps(_patched(one, told, docs_url), indent=1) + "\n" for name, one in made.items()}


def alerts_by_panel() -> Mapping[tuple[str, int], Sequence[str]]:
    """Return the names of the alerts about each panel, by the dashboard's uid and the panel's number."""
    found: dict[tuple[str, int], list[str]] = {}
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for alert in group["rules"]:
            about = alert["annotations"]
            found.setdefault((about["__dashboardUid__"], int(about["__panelId__"])), []).append(alert["alert"])
    return found


def _patched(dashboard: dict[str, Any], told: Mapping[tuple[str, int], Sequence[str]], docs_url: str) -> dict[str, Any]:
    """Return the dashboard with numbered panels, links and no id, and with two keys of annotations that the types lack.

    An annotation stands at the time of its sample, or at the time that is its value (`machine.AT_VALUE`).
    """
    dashboard["id"] = None
    _close_up(dashboard["panels"])
    for panel in _all(dashboard["panels"]):
        panel["id"] = panel_id(panel["type"], panel["title"])
        alerts = told.get((dashboard["uid"], panel["id"]), ())
        if alerts:
            panel["links"] = [
                {"title": f"Runbook: {name}", "url": f"${{docs}}/runbook.html#{name.lower()}", "targetBlank": True}
                for name in alerts
            ]
    for one in dashboard["templating"]["list"]:
        if one["name"] == "docs":
            one |= {"query": docs_url, "current": {"text": docs_url, "value": docs_url, "selected": True}}
    for annotation in dashboard.get("annotations", {}).get("list", []):
        annotation |= {"titleFormat": annotation["name"], "useValueForTime": annotation["name"] in machine.AT_VALUE}
    return dashboard


def panel_id(kind: str, title: str) -> int:
    """Return a panel's number.

    >>> panel_id("stat", "Lag")
    397589
    """
    return zlib.crc32(f"{kind} {title}".encode()) % 1_000_000


def _all(panels: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield rows and panels, those inside collapsed rows included."""
    for panel in panels:
        yield panel
        yield from panel.get("panels", ())


def _close_up(panels: Sequence[dict[str, Any]]) -> None:
    """Move the panels below a collapsed row up, as Grafana saves them: a collapsed row takes its own height only."""
    above = 0
    for panel in panels:
        inner = panel.get("panels", ())
        bottom = max((one["gridPos"]["y"] + one["gridPos"]["h"] for one in inner), default=0)
        hidden = bottom - panel["gridPos"]["y"] - 1 if inner else 0
        for one in (panel, *inner):
            one["gridPos"]["y"] -= above
        above += hidden


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs-url", default=DOCS_URL, metavar="URL", help="where the documentation is served")
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="FOLDER")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, text in texts(options.docs_url.rstrip("/")).items():
        (options.out / name).write_text(text)


if __name__ == "__main__":
    main()
