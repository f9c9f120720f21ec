"""Write the dashboards: ``python -m ops.grafana``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from ops.grafana import fleet, machine, pipeline, scorer

FOLDER = Path(__file__).parent / "dashboards"


def texts() -> dict[str, str]:
    """Return the text of every dashboard by file name."""
    return {
        f"{name}.json": json.dumps(_patched(json.loads(JSONEncoder().encode(module.dashboard().build()))), indent=1)
        + "\n"
        for name, module in (("fleet", fleet), ("machine", machine), ("pipeline", pipeline), ("scorer", scorer))
    }


def _patched(dashboard: dict[str, Any]) -> dict[str, Any]:
    """Return the dashboard with numbered panels and no id, and with two keys of annotations that the types lack.

    An annotation stands at the time of its sample, or at the time that is its value (`machine.AT_VALUE`).
    """
    dashboard["id"] = None
    for number, panel in enumerate(dashboard["panels"], start=1):
        panel["id"] = number
    for annotation in dashboard.get("annotations", {}).get("list", []):
        annotation |= {"titleFormat": annotation["name"], "useValueForTime": annotation["name"] in machine.AT_VALUE}
    return dashboard


def main() -> None:
    """Write every file."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
