"""Labels of machines for Prometheus: names made valid, collisions refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ops.exporter.exposition import escape
from scorer.snapshot.rules import MachineRules

OWN = ("fleet", "machine", "instance", "job")
"""Reserved names: the exporter's own, and those that Prometheus adds."""


def label_name(key: str) -> str:
    """Return a label's key as a valid label name.

    >>> label_name("topology.kubernetes.io/zone"), label_name("1st"), label_name("__x")
    ('topology_kubernetes_io_zone', '_1st', 'x')
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", key)
    if name.startswith("__"):  # Prometheus keeps such names for itself
        name = name.lstrip("_")
    return f"_{name}" if not name or name[0].isdigit() else name


def label_names(keys: Sequence[str]) -> Mapping[str, str]:
    """Return the valid name of each key.

    Raises ValueError when two keys get the same name, or one a name that is taken.
    """
    found: dict[str, str] = {}
    for key in keys:
        name = label_name(key)
        if name in OWN:
            raise ValueError(f"labels: {key!r} would be the label {name}, which is taken")
        if name in found:
            raise ValueError(f"labels: {found[name]!r} and {key!r} would both be the label {name}")
        found[name] = key
    return {key: name for name, key in found.items()}


def label_columns(rules: MachineRules, names: Mapping[str, str], machines: int) -> list[bytes]:
    """Return [M]: each machine's labels of the allow-list as text, each after a comma; absent labels are left out."""
    texts = [b""] * machines
    for key, name in names.items():
        column = rules.label(key)
        written = [f',{name}="{escape(value)}"'.encode() for value in column.values] + [b""]
        texts = [text + written[code] for text, code in zip(texts, column.codes.tolist(), strict=True)]
    return texts
