"""Machine rules: the columns of agents' facts and operators' rules, which change rarely."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.messages.operator import OperatorFacts, Taint, effective
from schemas.messages.sample import MachineFacts
from schemas.resources import RESOURCES
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.usages import pair_digest


@dataclass(frozen=True, eq=False)
class Roster:
    """The machines and their rows. Two snapshots with the same machines share one roster, so rows can be compared."""

    names: tuple[str, ...]

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Name to row."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def name_order(self) -> NDArray[np.uint64]:
        """[M] Position of each row's name in alphabetical order, which breaks ties."""
        order = np.empty(len(self.names), np.uint64)
        order[np.argsort(np.array(self.names, dtype=np.str_))] = np.arange(len(self.names))
        return order

    @cached_property
    def name_hash(self) -> NDArray[np.uint64]:
        """[M] `hash_of` each name, which breaks ties at random."""
        return np.array([hash_of(name) for name in self.names], np.uint64)

    @cached_property
    def systems(self) -> Integers:
        """[M] `pair_digest` of each machine's system, its key in the usage by instance."""
        return np.fromiter(map(pair_digest, self.names), np.int64, len(self.names))


def hash_of(text: str) -> int:
    """Return 64 bits of a text, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


_R = len(RESOURCES)


@dataclass(frozen=True, eq=False)
class LabelColumn:
    """One label of all machines: ``codes`` [M] indexes ``values``; -1 where a machine has no such label."""

    values: tuple[str, ...]
    codes: Integers


class MachineRules:
    """Labels, taints, cordon, shares and thresholds of all machines. Made again only when one of them changes."""

    def __init__(
        self, roster: Roster, facts: Mapping[str, MachineFacts], operator: Mapping[str, OperatorFacts]
    ) -> None:
        said = (
            [effective(operator, name) for name in roster.names] if operator else [OperatorFacts()] * len(roster.names)
        )
        self._said = said
        reported = [facts.get(name) for name in roster.names]
        self._labels: list[Mapping[str, str]] = [
            (fact.labels | rule.labels) if fact else rule.labels for fact, rule in zip(reported, said, strict=True)
        ]
        self._label_keys = frozenset(key for labels in self._labels for key in labels)
        self._label_columns: dict[str, LabelColumn] = {}
        self._unlabelled = LabelColumn((), np.full(len(roster.names), -1, np.int64))
        self.cordon: Bools = np.array([rule.cordon for rule in said], np.bool_)
        self.has_cordon = bool(self.cordon.any())
        self.share = _by_resource([rule.share for rule in said], 1.0)
        self.ratio = _by_resource([rule.ratio for rule in said], np.nan)
        """[R, M] NaN where the operator gives none."""
        self.has_ratio = bool(np.isfinite(self.ratio).any())
        self.reserve = _by_resource([rule.reserve for rule in said], 0.0)
        self.capacity_operator = _by_resource([rule.capacity for rule in said], np.nan)
        self.capacity_agent = _by_resource([fact.capacity if fact else {} for fact in reported], np.nan)
        self.has_capacity_agent = any(fact.capacity for fact in reported if fact)
        self.thresholds = _by_resource([rule.thresholds for rule in said], np.nan)
        self.prod_thresholds = _by_resource([rule.prod_thresholds for rule in said], np.nan)
        self.percentile_thresholds = _by_resource([rule.percentile_thresholds for rule in said], np.nan)
        self.has_thresholds = bool(np.isfinite(self.thresholds).any())
        self.has_prod_thresholds = bool(np.isfinite(self.prod_thresholds).any())
        self.has_percentile_thresholds = bool(np.isfinite(self.percentile_thresholds).any())
        power = [(rule.power.k0, rule.power.k1, rule.power.k2) if rule.power else (0.0, 0.0, 0.0) for rule in said]
        self.power: Floats = np.ascontiguousarray(np.array(power, np.float64).reshape(-1, 3).T)
        self.plain_allocatable = not any(rule.share or rule.reserve or rule.capacity for rule in said)
        codes: dict[tuple[Taint, ...], int] = {}
        self.taint_codes: Integers = np.array([codes.setdefault(rule.taints, len(codes)) for rule in said], np.int64)
        self.taint_sets: tuple[tuple[Taint, ...], ...] = tuple(codes)
        self.taint_effects = {taint.effect for taints in codes for taint in taints}

    def with_facts(self, facts: Mapping[int, MachineFacts | None]) -> MachineRules:
        """Return the rules with other facts in some rows; unaffected columns are shared."""
        rules = copy.copy(self)
        rules._labels = list(self._labels)
        rules.capacity_agent = self.capacity_agent.copy()
        touched: set[str] = set()
        for row, fact in facts.items():
            own = self._said[row].labels
            labels = fact.labels | own if fact else own
            before = self._labels[row]
            touched.update(key for key in {*before, *labels} if before.get(key) != labels.get(key))
            rules._labels[row] = labels
            rules.capacity_agent[:, row] = _by_resource([fact.capacity if fact else {}], np.nan)[:, 0]
            rules.has_capacity_agent |= bool(fact and fact.capacity)
        rules._label_keys = frozenset(key for labels in rules._labels for key in labels)
        rules._label_columns = {key: column for key, column in self._label_columns.items() if key not in touched}
        return rules

    def changed_since(self, other: MachineRules) -> Bools:
        """Return [M]: whether a machine's facts or rules differ from those of ``other``, of the same machines."""
        ours, theirs = self.capacity_agent, other.capacity_agent
        changed: Bools = ((ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs))).any(axis=0)
        unlike = [a is not b and a != b for a, b in zip(self._labels, other._labels, strict=True)]
        if self._said is not other._said:
            unlike = [labels or a != b for labels, a, b in zip(unlike, self._said, other._said, strict=True)]
        return changed | np.array(unlike, np.bool_)

    def with_cordon(self, rows: Sequence[int]) -> MachineRules:
        """Return the rules as if an operator had cordoned these rows, too; all other columns are shared."""
        rules = copy.copy(self)
        rules.cordon = self.cordon.copy()
        rules.cordon[np.array(rows, np.int64)] = True
        rules.has_cordon = bool(rules.cordon.any())
        return rules

    def of_rows(self, rows: Integers) -> MachineRules:
        """Return the columns of some machines, without their labels."""
        rules = copy.copy(self)
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray):
                setattr(rules, name, column[..., rows])
        return rules

    def label(self, key: str) -> LabelColumn:
        """Return one label as a column, made at the first call. A label that no machine has takes no memory."""
        if key not in self._label_keys:
            return self._unlabelled
        column = self._label_columns.get(key)
        if column is None:
            codes: dict[str, int] = {}
            rows = [codes.setdefault(labels[key], len(codes)) if key in labels else -1 for labels in self._labels]
            column = self._label_columns[key] = LabelColumn(tuple(codes), np.array(rows, np.int64))
        return column

    def labels(self, row: int) -> Mapping[str, str]:
        return self._labels[row]


def _by_resource(rows: Sequence[Mapping[str, Any]], absent: float) -> Floats:
    """Return [R, M] from one mapping for each machine."""
    column = np.full((_R, len(rows)), absent)
    if any(rows):
        for place, resource in enumerate(RESOURCES):
            column[place] = [mapping.get(resource, absent) for mapping in rows]
    return column
