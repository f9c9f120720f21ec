"""The fleet of a recording: its machines, with operators' shares and reserves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from ops.record.entry import Facts
from schemas.messages.operator import OperatorFacts, effective, known_operator_facts
from schemas.resources import CPU, RESOURCES
from scorer.snapshot.arrays import Floats


@dataclass(frozen=True, eq=False)
class RecordedFleet:
    """M machines."""

    names: list[str]
    capacity: Floats
    """[R, M] allocatable: capacity times share less reserve; NaN where it is not known."""
    labels: list[dict[str, str]]
    unknown: int
    """Machines without a known number of cores: left out."""


def fleet_of(facts: Mapping[str, Facts], operator: Mapping[str, bytes]) -> RecordedFleet:
    """Return the fleet; operators' rules that cannot be read are ignored.

    >>> found = fleet_of({"m": Facts({"cpu": 8.0}), "n": Facts()}, {"*": b'{"reserve":{"cpu":1}}', "m": b"["})
    >>> found.names, found.capacity[0].tolist(), found.unknown
    (['m'], [7.0], 1)
    """
    said: dict[str, OperatorFacts] = {}
    for name, raw in operator.items():
        try:
            said[name] = known_operator_facts(msgspec.json.decode(raw))[0]
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    names, rows, labels = [], [], []
    for name in sorted(facts):
        rule = effective(said, name)
        capacity = {**facts[name].capacity, **rule.capacity}
        usable = [
            float(capacity.get(each, np.nan)) * float(rule.share.get(each, 1.0)) - float(rule.reserve.get(each, 0.0))
            for each in RESOURCES
        ]
        if usable[CPU] > 0:
            names.append(name)
            rows.append([amount if amount > 0 else np.nan for amount in usable])
            labels.append({**facts[name].labels, **rule.labels})
    capacities = np.array(rows).reshape(-1, len(RESOURCES)).T.copy()
    return RecordedFleet(names, capacities, labels, len(facts) - len(names))
