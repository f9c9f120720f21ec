"""From columns to the agent's messages: the samples and the facts of one interval of many machines."""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.messages.sample import VERSION, InstanceReport, MachineFacts, Moments, Sample, Usage, encode
from schemas.resources import PRIORITY_CLASSES, RESOURCES
from streams.agent.sampling.backlog import Record
from streams.load_generator.source.source import Columns, Float, Machines

CLASS_SHARES = (0.55, 0.15, 0.25, 0.05)
"""How a machine's usage splits over the priority classes, on average."""


class Messages:
    """Writes the records of a fleet that was started at ``boot``, whole epoch seconds."""

    def __init__(
        self, machines: Machines, boot: int, interval_s: float, *, classes: bool, extra_labels: dict[str, str]
    ) -> None:
        self._machines = machines
        self._boot = boot
        self._interval_s = interval_s
        self._keys = [name.encode() for name in machines.names]
        self._capacity = machines.capacity.T.tolist()
        self._shares = _class_shares(len(self._keys)) if classes else None
        self._extra_labels = extra_labels

    def samples(
        self,
        rows: NDArray[np.int64],
        at_s: Float,
        columns: Columns,
        seq: int,
        reports: Mapping[int, InstanceReport] = MappingProxyType({}),
    ) -> list[Record | None]:
        """Return one record a machine in the order of ``rows``, None without a reading; ``reports`` by position."""
        per_resource = [
            [
                Moments(n, mean, m2, highest, capacity) if n else None
                for n, mean, m2, highest, capacity in zip(
                    np.where(np.isnan(capacities), 0, columns.n[resource]).tolist(),
                    columns.mean[resource].tolist(),
                    columns.m2[resource].tolist(),
                    columns.max[resource].tolist(),
                    capacities.tolist(),
                    strict=True,
                )
            ]
            for resource, capacities in enumerate(self._machines.capacity[:, rows])
        ]
        return [
            self._sample(row, at, seq, moments, reports.get(place))
            for place, (row, at, *moments) in enumerate(zip(rows.tolist(), at_s.tolist(), *per_resource, strict=True))
        ]

    def facts(self, rows: Iterable[int], at_s: float) -> list[Record]:
        return [
            Record(
                self._keys[row],
                encode(
                    MachineFacts(
                        v=VERSION,
                        machine=self._machines.names[row],
                        boot=self._boot,
                        at=at_s,
                        capacity={
                            resource: capacity
                            for resource, capacity in zip(RESOURCES, self._capacity[row], strict=True)
                            if not math.isnan(capacity)
                        },
                        labels={**self._machines.labels[row], **self._extra_labels},
                        agent_version="fleet",
                    )
                ),
            )
            for row in rows
        ]

    def _sample(
        self, row: int, at_s: float, seq: int, moments: Sequence[Moments | None], report: InstanceReport | None
    ) -> Record | None:
        if not any(moments):
            return None
        measured: dict[str, Any] = dict(zip(RESOURCES, moments, strict=True))
        sample = Sample(
            v=VERSION,
            machine=self._machines.names[row],
            boot=self._boot,
            seq=seq,
            at=at_s,
            interval_s=self._interval_s,
            classes=self._classes(row, moments),
            instance_report=report,
            **measured,
        )
        return Record(self._keys[row], encode(sample))

    def _classes(self, row: int, moments: Sequence[Moments | None]) -> dict[str, Usage] | None:
        """Return the machine's mean usage split by priority class."""
        if self._shares is None:
            return None
        means = [found.mean if found else 0.0 for found in moments]
        return {
            name: Usage(*(mean * share for mean in means))
            for name, share in zip(PRIORITY_CLASSES, self._shares[row], strict=True)
        }


def _class_shares(count: int) -> list[list[float]]:
    """Return each machine's split over the classes: the average one, tilted by the machine's number."""
    tilt = 0.5 + (np.arange(count)[:, None] * np.array([1, 3, 5, 7]) % 11) / 10
    shares = np.array(CLASS_SHARES) * tilt
    return (shares / shares.sum(axis=1, keepdims=True)).tolist()  # type: ignore[no-any-return]
