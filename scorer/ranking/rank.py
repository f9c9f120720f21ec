"""Rank: filters, scores, normalisation, weighted total. The same code for live queries, fleet files and replays."""

from __future__ import annotations

from dataclasses import replace

from schemas.rpc.request import Request
from scorer.ledger.view.view import LedgerView
from scorer.ranking.formulas.selectors import check_selectors
from scorer.ranking.inputs import RankingInputs, quiet
from scorer.ranking.machines.kept import Kept
from scorer.ranking.normalise import Among, normalise, weighted_mean
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.ranking import Ranking, ScoreTerm, Verdict
from scorer.ranking.seen import Seen
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.snapshot import Snapshot

_ALL = Request(cpu=1.0, memory=1.0, nic=1.0, disk=1.0)


@quiet
def rank(request: Request, inputs: RankingInputs) -> Ranking:
    """Return all machines filtered and scored for this request.

    Pure: nothing is reserved and no argument is changed, except that values for the next decision are stored in
    ``inputs.kept``. The result does not depend on them. Raises InvalidRequest naming a field that this fleet or profile
    cannot serve (a window that is not kept, a selector that cannot be parsed).
    """
    check_selectors(request)
    seen, profile = Seen(request, inputs), inputs.profile
    feasible, verdicts = run_filters(request, seen, profile)
    total, terms = run_scores(request, seen, profile, feasible)
    return Ranking(request, profile, seen.machines(), feasible, total, verdicts, terms)


def see(request: Request, inputs: RankingInputs) -> None:
    """Bring the kept columns up to date with the ledger, so that the next decision need not."""
    check_selectors(request)
    seen = Seen(request, inputs)
    for load_model in inputs.profile.load_models:
        seen.machines(load_model)


class Warmer:
    """Computes the values that follow from a new snapshot alone, so that the first decision on it need not.

    It may work on another thread than the decisions on another snapshot: only those values are shared.
    """

    def __init__(self, kept: Kept) -> None:
        self._kept = kept.beside()
        self._nothing_placed = LedgerView()
        self._last: tuple[Snapshot, Profile] | None = None

    @quiet
    def warm(self, snapshot: Snapshot, profile: Profile, now_s: float) -> None:
        """Compute for one profile those that were asked for on the last snapshot; at first, those that `rank` needs."""
        last, self._last = self._last, (snapshot, profile)
        inputs = RankingInputs(snapshot, self._nothing_placed, profile, now_s, self._kept)
        if last is None or last[1] is not profile:
            rank(_ALL, replace(inputs, kept=self._kept.beside()))
            return
        before, seen = last[0], Seen(_ALL, inputs)
        for load_model in profile.load_models:
            machines = seen.machines(load_model)
            self._kept.follow(snapshot, machines.fleet.key, machines, before)
        snapshot.columns.follow(before.columns)


def run_filters(request: Request, seen: Seen, profile: Profile) -> tuple[Bools, list[Verdict]]:
    """Return [n] feasible, and the verdict of each filter that ran."""
    usual = seen.machines()
    all_true = feasible = usual.all_true
    verdicts = []
    for each in profile.filters:
        machines = usual if each.load_model is None else seen.machines(each.load_model)
        machines.owner = each.owner
        if each.wanted(request, machines):
            allowed = each.filter(request, machines)
            verdicts.append(Verdict(each, machines, allowed))
            if allowed is not machines.all_true:
                feasible = allowed if feasible is all_true else feasible & allowed
    return feasible, verdicts


def run_scores(request: Request, seen: Seen, profile: Profile, feasible: Bools) -> tuple[Floats, list[ScoreTerm]]:
    """Return [n] total, the weighted mean of the scores that ran, and the term of each of them."""
    terms = []
    among, usual = Among(feasible), seen.machines()
    usual.feasible = feasible
    for each in profile.scores:
        machines = usual if each.load_model is None else seen.machines(each.load_model)
        machines.owner, machines.feasible = each.owner, feasible
        if each.weight > 0 and each.wanted(request, machines):
            raw = each.score(request, machines)
            terms.append(ScoreTerm(each, machines, *normalise(raw, among, each.normalise)))
    return weighted_mean(terms, len(feasible)), terms
