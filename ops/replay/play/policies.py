"""A profile as a policy, by the product's code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ops.replay.play.lessons import wants_lessons
from ops.replay.play.roles import Moment
from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.limits import Limit, adds, mosts_in_script, scales_in_script
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing.plan import plan
from scorer.placement.offers.offer import limits
from scorer.placement.placer import CANDIDATES
from scorer.ranking.class_sums import by_class_filter
from scorer.ranking.explanation.explain import summary
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import rank
from scorer.ranking.tables import Tables


class ProfilePolicy:
    """A profile, as a scorer with a ledger of its own would apply it."""

    reference = False

    def __init__(self, profile: Profile, name: str = "") -> None:
        self.name = name or profile.name
        self.profile = profile
        self.refusals: Counter[str] = Counter()
        self.learns = wants_lessons(profile)
        self.counts_by_class = by_class_filter(profile) is not None
        self._known: set[int] = set()
        self._tables = Tables()

    def choose(self, instances: Sequence[int], requests: Sequence[Request], moment: Moment) -> list[int | None]:
        """Rank one request, plan several; candidates that the ledger's limits refuse are skipped."""
        inputs = moment.inputs(self.profile, self._tables)
        snapshot, ledger = inputs.snapshot, inputs.ledger
        if len(requests) > 1:
            planned = plan(requests, inputs)
            for position, why in planned.reasons.items():
                self._refused(instances[position], lambda why=why: why)  # type: ignore[misc]
            return [None if machine is None else snapshot.roster.index[machine] for machine in planned.machines]
        request = requests[0]
        ranking = rank(request, inputs)
        rows = [int(row) for row in ranking.best(CANDIDATES)]
        record = instance_of(request, "", moment.now_s)
        for row, allowed in zip(rows, limits(ranking, rows, request), strict=True):
            if upheld(allowed, record, ledger.on_machine(snapshot.names[row])):
                return [row]
        self._refused(instances[0], lambda: summary(ranking))
        return [None]

    def _refused(self, instance: int, why: Callable[[], str]) -> None:
        """Note the reason of an instance's first refusal only: a reason costs as much as a ranking; many ask again."""
        if instance not in self._known:
            self._known.add(instance)
            self.refusals[why()] += 1


def upheld(allowed: Sequence[Limit], record: Instance, held: Sequence[Instance]) -> bool:
    """Return whether a machine with these instances may take one more, as the reserve script decides it."""
    for limit in allowed:
        added = adds(record, limit.measure)
        if added:
            taken = added + sum(adds(each, limit.measure) for each in held)
            (most,) = mosts_in_script([limit], scales_in_script([(1, *limit.measure)]))
            if 0 <= most < taken:
                return False
    return True
