"""Shell: compares the ledger's sums, counts and times of expiry with those of its instances, and repairs them.

The instances are read, and kept current by the change log, as a scorer does. The rows are read in slices. A row is
compared only with instances of the same version, so that others may write meanwhile. A row of another version is read
again after the log; one that changed before every comparison counts as busy. A repair is one script a machine, which
writes only when the machine is still as it was read.

A repair writes one of the instances again, so that every scorer sees a new version. The instance, its other machine and
its cluster have then changed since they were read, so their differences are left to the next pass (`mend`). Each pass
reads all of the ledger. One pass is enough, unless two connected things are wrong.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schemas.values.read_json import whole
from scorer.ledger.record.instance import (
    LIVE,
    SUMS,
    Instance,
    as_held,
    counts_of,
    read_record,
    record_or_none,
    sound,
    sums_of,
)
from scorer.ledger.record.transition import Difference
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger

SLICE = 200
"""Machines read in one round trip."""
ATTEMPTS_MAX = 20
"""How often a row is read while others change it."""
PASSES_MAX = 5
"""An instance may be wrong itself, on both machines of its move, and in its cluster."""
TIME_S = 0.001
"""Times that differ by less are the same."""

Sums = dict[str, dict[str, int]]


@dataclass
class Checked:
    machines: int = 0
    clusters: int = 0
    differences: list[Difference] = field(default_factory=list)
    busy: int = 0
    """Rows that changed each time they were read: not compared."""
    repaired: int = 0


def instances_on(ledger: Ledger, machines: Sequence[str]) -> dict[str, int]:
    """Return how many instances the ledger has on each machine that has any."""
    rows, _ = ledger.rows(machines, ())
    counts = {
        machine: sum(sums["instances"] for sums in read_row(row)[1].values())
        for machine, row in zip(machines, rows, strict=True)
    }
    return {machine: count for machine, count in counts.items() if count}


def read_row(row: bytes) -> tuple[int, Sums]:
    """Return the version and the sums by class and name in a machine's row.

    >>> read_row(b"7 prod:instances=1,cpu=500000")
    (7, {'prod': {'instances': 1, 'cpu': 500000}})
    """
    version, *groups = row.decode().split() or ["0"]
    sums: Sums = {}
    for group in groups:
        name, _, body = group.partition(":")
        sums[name] = {what: int(amount) for what, _, amount in (one.partition("=") for one in body.split(","))}
    return int(version), sums


def true_sums(instances: Iterable[Instance]) -> Sums:
    """Return the sums over the instances that hold one machine, by class and name, without those that are 0."""
    sums: dict[str, Counter[str]] = {}
    for one in instances:
        sums.setdefault(one.priority_class, Counter()).update(sums_of(one))
    return {name: {what: n for what, n in group.items() if n} for name, group in sums.items()}


def with_unknown(true: Sums, stored: Sums) -> Sums:
    """Return the computed sums, plus the stored ones under names that this release does not compute.

    >>> with_unknown({"prod": {"cpu": 2}}, {"prod": {"cpu": 1, "tape": 7}, "free": {"tape": 3}})
    {'prod': {'cpu': 2, 'tape': 7}}
    """
    unknown = {name: {what: n for what, n in group.items() if what not in SUMS} for name, group in stored.items()}
    return {name: group | unknown.get(name, {}) for name, group in true.items()}


def true_counts(instances: Iterable[Instance]) -> Counter[str]:
    """Return the number of the instances under each name of a count, as ``port 6379``."""
    return Counter(what for one in instances for what in counts_of(one))


def packed(sums: Mapping[str, Mapping[str, int]]) -> str:
    """Return sums in the form of a row, without the version."""
    return " ".join(f"{name}:{','.join(f'{what}={n}' for what, n in group.items())}" for name, group in sums.items())


class Check:
    """Reads the whole ledger, then compares."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._follower = Follower(ledger, around=True)
        self._counts: dict[str, set[str]] = {}

    def run(self) -> Checked:
        """Return the differences. Writes nothing, except that due reservations expire.

        Where a record cannot be read, here or by the scripts, these are the differences: without them all sums would
        seem wrong. Raises UnknownFormat where something else of the ledger cannot be read.
        """
        self._ledger.expire()
        found = Checked()
        self._poll()
        if torn := self._follower.torn:
            in_log = self._ledger.in_log(torn)
            found.differences = [_torn(name, raw, in_log.get(name, b"")) for name, raw in torn.items()]
            return found
        self._counts = self._ledger.counted()
        names = {*self._follower.view.machine_names, *self._ledger.machine_versions(around=True), *self._counts}
        found.machines = len(names)
        self._all(sorted(names), self._machines, found)
        clusters = {one.cluster for one in self._follower.view.instances.values() if one.cluster}
        clusters |= set(self._ledger.cluster_names())
        found.clusters = len(clusters)
        self._all(sorted(clusters), self._clusters, found)
        ending = [one.id for one in self._follower.view.instances.values() if one.state == "reserved" or one.moving]
        self._all(sorted(ending), self._ends, found, max(len(ending), 1))
        return found

    def repair(self, found: Checked, number: int) -> None:
        """Repair these differences under the lease `check`; rows that changed since are left to the next check.

        Raises PermissionError when the lease has passed to another.
        """
        for one in found.differences:
            if one.kind == "record" and not one.sums:
                continue
            outcome = self._ledger.repair(number, one)
            if outcome == "fenced":
                raise PermissionError("another check has begun: its lease is newer")
            found.repaired += outcome == "done"

    def _all(self, names: list[str], compare: Any, found: Checked, most: int = SLICE) -> None:
        for first in range(0, len(names), most):
            part = names[first : first + most]
            for _ in range(ATTEMPTS_MAX):
                if not (part := compare(part, found)):
                    break
            found.busy += len(part)

    def _poll(self) -> None:
        self._follower.poll()
        self._follower.require()

    def _machines(self, names: list[str], found: Checked) -> list[str]:
        """Compare some machines; return those that changed while they were read."""
        whats = {
            name: sorted({*self._counts.get(name, ()), *true_counts(self._follower.view.held_on(name))})
            for name in names
        }
        rows, counts = self._ledger.rows(names, [f"{name} {what}" for name in names for what in whats[name]])
        self._poll()
        again = []
        read = iter(counts)
        for name, row in zip(names, rows, strict=True):
            counted = [(what, next(read)) for what in whats[name]]
            here = [as_held(one, name) for one in self._follower.view.held_on(name)]
            try:
                version, sums = read_row(row)
                said = packed(sums) or "nothing"
            except ValueError:
                version, sums, said = self._follower.version(name), {"": {}}, f"what cannot be read ({row[:80]!r})"
            if version != self._follower.version(name):
                again.append(name)
                continue
            true, number = with_unknown(true_sums(here), sums), true_counts(here)
            wrong = tuple((what, raw, number[what]) for what, raw in counted if _count(raw) != number[what])
            if sums == true and not wrong:
                continue
            what = [f"{said} is {packed(true) or 'nothing'}"] * (sums != true)
            what += [f"{one} {raw.decode(errors='replace') or 0} is {n}" for one, raw, n in wrong]
            some = here[0] if here else None
            found.differences.append(Difference("machine", name, "; ".join(what), row, packed(true), 0, wrong, some))
        return again

    def _clusters(self, names: list[str], found: Checked) -> list[str]:
        self._poll()
        before = self._follower.change
        rows = self._ledger.cluster_rows(names)
        self._poll()
        if self._follower.change != before:
            return names
        members: dict[str, list[Instance]] = {name: [] for name in names}
        for one in self._follower.view.instances.values():
            if one.cluster in members:
                members[one.cluster].append(one)
        for name, row in zip(names, rows, strict=True):
            readable = re.fullmatch(rb"\d+ (\d{1,18})", row or b"0 0")
            count, here = int(readable[1]) if readable else -1, members[name]
            if count != len(here):
                some = here[0] if here else None
                what = f"{count} instances is {len(here)}"
                found.differences.append(Difference("cluster", name, what, row, "", len(here), (), some))
        return []

    def _ends(self, ids: list[str], found: Checked) -> list[str]:
        """Compare the expiries of reservations and moves with the sets that the scripts read."""
        before = {name: self._version(name) for name in ids}
        expiry, moving = self._ledger.ends()
        self._poll()
        again = []
        for name in ids:
            one = self._follower.view.instances.get(name)
            if one is None or one.version != before[name]:
                again += [name] * (one is not None)
                continue
            what = _late("expires", one.expires_at, expiry.get(name)) if one.state == "reserved" else ""
            if one.moving is not None:
                what = what or _late("move ends", one.moving.until, moving.get(name))
            if what:
                found.differences.append(Difference("instance", name, what, b"", instance=one))
        return again

    def _version(self, name: str) -> int:
        one = self._follower.view.instances.get(name)
        return -1 if one is None else one.version


def mend(ledger: Ledger, number: int) -> Checked:
    """Check and repair under the lease `check`, the head first; return what differed, and how many are repaired.

    Raises PermissionError when the lease has passed to another, UnknownFormat where the ledger cannot be read.
    """
    differences = {(one.kind, one.name): one for one in ledger.mend_head()}
    for _ in range(PASSES_MAX):
        check = Check(ledger)
        found = check.run()
        check.repair(found, number)
        for one in found.differences:
            differences.setdefault((one.kind, one.name), one)
        left = len(found.differences) - found.repaired
        compared = all(one.kind != "record" for one in found.differences)
        if (not left and compared) or not found.repaired:
            break
    return replace(found, differences=[*differences.values()], repaired=len(differences) - left)


def _torn(name: str, raw: bytes, in_log: bytes) -> Difference:
    """Return the difference for a record that cannot be read; an ended record in the log is no replacement."""
    newest = read_record(in_log) if in_log else None
    if newest is None or newest.state not in LIVE:
        own = record_or_none(raw)
        if own is not None and sound(own.id.encode(), raw):
            return Difference("record", name, f"is the record of {own.id}", raw, raw)
        return Difference("record", name, "cannot be read, and the log has it no more: import an inventory", raw)
    what = f"cannot be read; the log has it as of change {newest.version}: {newest.state} on {newest.machine}"
    return Difference("record", name, what, raw, in_log)


def _count(raw: bytes) -> int:
    """Return a stored count, -1 for one that cannot be read."""
    count = whole(raw)
    return -bool(raw) if count is None else count


def _late(what: str, at_s: float, ends_s: float | None) -> str:
    """Return how the expiry in the set differs from that of the record; "" where it does not.

    >>> _late("expires", 12.0, None), _late("expires", 12.0, 15.5), _late("expires", 12.0, 12.0000005)
    ('expires never is 12.000', 'expires 15.500 is 12.000', '')
    """
    if ends_s is not None and abs(ends_s - at_s) < TIME_S:
        return ""
    return f"{what} {'never' if ends_s is None else f'{ends_s:.3f}'} is {at_s:.3f}"
