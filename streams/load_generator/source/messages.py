"""From columns to the agent's messages: the samples and the facts of one interval of many machines."""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.messages.sample import VERSION, InstanceReport, MachineFacts, Moments, Sample, encode
from schemas.resources import RESOURCES
from streams.agent.sampling.backlog import Record
from streams.load_generator.source.source import Columns, Float, Machines


class Messages:
    """Writes the records of a fleet that was started at ``boot``, whole epoch seconds."""

    def __init__(self, machines: Machines, boot: int, interval_s: float, *, extra_labels: dict[str, str]) -> None:
        self._machines = machines
        self._boot = boot
        self._interval_s = interval_s
        self._keys = [name.encode() for name in machines.names]
        self._capacity = machines.capacity.T.tolist()
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
            instance_report=report,
            **measured,
        )
        return Record(self._keys[row], encode(sample))
