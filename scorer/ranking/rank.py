"""Rank: filters, scores, normalisation, weighted total. The same code for live queries, fleet files and replays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from schemas.rpc.request import Request
from scorer.ranking.formulas.selectors import check_selectors
from scorer.ranking.inputs import RankingInputs, Seen, quiet
from scorer.ranking.kernel import binding
from scorer.ranking.kernel.binding import TIE, Models, Uses
from scorer.ranking.kernel.layout import AS_IT_IS, CODE, FOREIGN, GIVEN, MIN_MAX, OF_MEANS
from scorer.ranking.machines.machines import Machines
from scorer.ranking.machines.table import Table
from scorer.ranking.machines.what_if import WhatIf
from scorer.ranking.profiles import plugins
from scorer.ranking.profiles.profile import Compiled, with_rules
from scorer.ranking.ranking import BEST, Codes, Ranking, ScoreTerm, Verdict, order_of, verdict_of
from scorer.snapshot.arrays import Bools, Floats, Integers

_HOW = {"none": AS_IT_IS, "min-max": MIN_MAX, "rank": GIVEN}


@quiet
def rank(request: Request, inputs: RankingInputs) -> Ranking:
    """Return all machines filtered and scored for this request.

    Each machine has a row for each load model of the profile, which `scorer.ranking.machines.table` keeps up to date.
    The request becomes a record, and further inputs of a filter or a score become columns. Each filter checks the
    machines that no earlier filter has refused, and records the number of its reason. Each score gives the feasible
    machines a raw value. Scores of the fleet's variance are given the fleet's mean utilization first. Scores that
    compare machines are scaled to 0-100 among the feasible ones. The profile spreads the values; the total is their
    mean by weight. The best machines are found in the same pass, equal ones by name or by lot, and the machines of each
    refusal are counted. All this is done anew for every request: nothing is kept. Nothing is reserved, and no argument
    is changed.

    Raises InvalidRequest naming a field that this fleet or profile cannot serve (a window that is not kept, a selector
    that cannot be parsed).
    """
    decision = Decision(request, inputs)
    decision.evaluate()
    decision.compare()
    return decision.finish()


@quiet
def allowed(request: Request, inputs: RankingInputs) -> Bools:
    """Return [M]: the machines that all filters allow; no score is computed."""
    decision = Decision(request, inputs, scores=False)
    decision.evaluate()
    found: Bools = decision.refused == 0
    return found


@quiet
def refusal_of(request: Request, inputs: RankingInputs, row: int) -> str:
    """Return the reason of the first filter that refuses one machine, "" without one; no other machine is checked."""
    decision = Decision(request, inputs, scores=False)
    decision.refused[:] = -1
    decision.refused[row] = 0
    decision.evaluate()
    return "" if not decision.refused[row] else verdict_of(decision.verdicts, int(decision.refused[row]))[1]


class Decision:
    """One request on one fleet: the filters and scores that apply to it, and their inputs."""

    def __init__(self, request: Request, inputs: RankingInputs, *, scores: bool = True) -> None:
        check_selectors(request)
        request = with_rules(inputs.profile.rules, request)
        self.request, self.inputs, self.profile = request, inputs, inputs.profile
        self.seen = Seen(request, inputs)
        self.machines = self.seen.machines()
        self.count = len(self.machines)
        self.refused: Codes = np.zeros(self.count, np.int32)
        self.filters = Uses()
        self.scores = Uses(self.count, len(self.profile.scores))
        self.verdicts: list[Verdict] = []
        self.terms: list[ScoreTerm] = []
        self.far = False
        """Whether one more instance changes other machines' figures, so that each is ranked by itself."""
        for position, placed in enumerate(self.profile.filters, 1):
            machines = self.machines if placed.load_model is None else self.seen.machines(placed.load_model)
            of, code = placed.compiled, position * CODE
            if (of is None or of.asks) and not plugins.wanted(placed.filter, request, machines):
                continue
            use, reasons = -1, (getattr(placed.filter, "reason", ""),) if of is None else of.reasons
            if of is not None:
                use = self.filters.size
                self._use(self.filters, placed.filter, of, machines, code=code)
            self.far |= of is None
            self.verdicts.append(Verdict(placed, machines, code, reasons, use))
        for weighted in self.profile.scores if scores else ():
            if not weighted.weight > 0:
                continue
            machines = self.machines if weighted.load_model is None else self.seen.machines(weighted.load_model)
            of, how = weighted.compiled, _HOW[weighted.normalise]
            if (of is None or of.asks) and not plugins.wanted(weighted.score, request, machines):
                continue
            use = self.scores.size
            raw = self._use(self.scores, weighted.score, of, machines, how=how, weight=weighted.weight)
            self.far |= of is None or how == GIVEN
            self.terms.append(ScoreTerm(weighted, machines, raw, 1.0, 0.0, -1 if of is None else use))

    def _use(self, uses: Uses, plugin: Any, of: Compiled | None, machines: Machines, **more: Any) -> Any:
        """Add a plugin with its inputs; a score of another package gets an entry, too."""
        if of is None:
            return uses.add(machines.inputs, FOREIGN, None, **more)
        if not of.reads:
            return uses.add(machines.inputs, of.number, of.settings, inner=of.inner, **more)
        columns, own = plugin.columns(self.request, machines), plugin.own(self.request, machines)
        self.far |= plugin.far(self.request, machines)
        return uses.add(machines.inputs, of.number, of.settings, columns=columns, own=own, inner=of.inner, **more)

    # ---- evaluating

    def evaluate(self) -> None:
        """Write the first refusal of each machine into ``refused``, and each term's raw values into the term."""
        done = 0
        for place, verdict in enumerate(self.verdicts):
            if verdict.use < 0:
                until = sum(each.use >= 0 for each in self.verdicts[:place])
                self._run(slice(done, until), None)
                done = until
                self._ask(verdict)
        late = [term for term in self.terms if term.use < 0 or _among_feasible(term)]
        self._run(slice(done, None), None if late else self.scores)
        if late:
            feasible = self.refused == 0
            for term in self.terms:
                term.machines.feasible = feasible
                if _among_feasible(term):
                    term.machines.find_means(self.refused)
            self._run(slice(0), self.scores)
            for term in late:
                if term.use < 0:
                    term.raw[:] = term.weighted.score(self.request, term.machines)

    def _run(self, filters: slice, scores: Uses | None) -> None:
        binding.evaluate(self.filters, filters, scores, self.machines.what_if.struct, self.refused)

    def _ask(self, verdict: Verdict) -> None:
        """Call a filter of another package."""
        machines, each = verdict.machines, verdict.filter
        machines.feasible = self.refused == 0
        allowed: Bools = each(self.request, machines)
        verdict.allowed = allowed
        rows = np.flatnonzero((self.refused == 0) & ~allowed)
        if not rows.size:
            return
        some = machines.take(rows)
        why = plugins.reasons(each, self.request, some, np.zeros(rows.size, np.bool_))
        verdict.reasons = list(why)
        for number, mask in reversed(list(enumerate(why.values(), 1))):
            self.refused[rows[mask]] = verdict.code + number

    def compare(self) -> None:
        """Scale the scores that compare machines to 0-100, and cut those that depend on the fleet's means."""
        binding.compare(self.refused, self.scores)

    def finish(self) -> Ranking:
        """Return the ranking: values scaled, added up and sorted."""
        self.machines.feasible = self.refused == 0
        for place, term in enumerate(self.terms):
            if term.weighted.normalise == "rank":
                term.raw, slope, start = _places(term.raw, self.refused == 0)
                self.scores.put(place, term.raw, slope, start)
        order = order_of(self.machines.roster, self.profile.ties, self.request.id)
        reasons = (len(self.profile.filters) + 1) * CODE
        total, best, counts = binding.finish(self.refused, self.scores, order, BEST, reasons)
        spread = zip(self.terms, self.scores.array["slope"].tolist(), self.scores.array["start"].tolist(), strict=True)
        for term, slope, start in spread:
            term.slope, term.start = slope, start
        return Ranking(
            self.request, self.profile, self.machines, self.refused, total, self.verdicts, self.terms, counts, order,
            (self.filters, self.scores), best,
        )  # fmt: skip

    # ---- many copies

    def place(self, kinds: Sequence[tuple[Request, int]]) -> Integers | None:
        """Return the rows of so many copies of each request, each seeing the ones before; nothing is proposed.

        Ends before the first copy that no machine may take; then ``refused`` has why. The requests are equal, the first
        to that of the decision, but for their amounts. None where some are expected to use no part of what others use.
        Only where `far` is False.
        """
        requests, copies = [one for one, _ in kinds], np.array([count for _, count in kinds], np.int64)
        what_if = self.machines.what_if.copy()
        what_if.reserve(what_if.count + min(int(copies.sum()), self.count))
        models, tables = self._models(what_if, requests)
        for queries in models.queries:
            used = queries["expected"] > 0
            if (used != used[0]).any():
                return None
        for uses, each in ((self.filters, self.verdicts), (self.scores, self.terms)):
            for one in each:
                uses.patch(one.use, *what_if.rows(one.machines.table)[:2])
        inner = self.scores.array["inner"]
        of_means = [tables.index(term.machines.table) for term in self.terms if inner[term.use] == OF_MEANS]
        order = order_of(self.machines.roster, self.profile.ties, self.request.id)
        return binding.place_copies(
            self.filters, self.scores, models, of_means[0] if of_means else -1, what_if.struct,
            what_if.index[: what_if.count], self.refused, order, copies,
        )  # fmt: skip

    def room(self, most: int) -> Integers:
        """Return [M]: how many copies each machine takes, at most ``most``; ``refused`` then has why not one more.

        After `evaluate`, and only where `far` is False.
        """
        what_if = self.machines.what_if
        models, _ = self._models(what_if, [self.request])
        return binding.room(self.filters, models, what_if.index[: what_if.count], self.refused, most)

    def _models(self, what_if: WhatIf, requests: Sequence[Request]) -> tuple[Models, list[Table]]:
        """Return the load models that plugins read, and the table of each."""
        read: list[Verdict | ScoreTerm] = [*self.verdicts, *self.terms]
        machines = {each.machines.table: each.machines for each in read}
        models = Models()
        for table, of in machines.items():
            rows, more, _ = what_if.rows(table)
            models.add(table.making, table.rows, table.more, rows, more, of.query, of.queries(requests), table.load)
        return models, list(machines)

    def counts(self) -> Integers:
        """Return how many machines each refusal has, by its number in ``refused``."""
        return np.bincount(self.refused, minlength=(len(self.profile.filters) + 1) * CODE)


def _among_feasible(term: ScoreTerm) -> bool:
    return bool(getattr(term.weighted.score, "among_feasible", False))


def _places(raw: Floats, feasible: Bools) -> tuple[Floats, float, float]:
    """Return the position of each value among the feasible machines' values, and how positions become scores.

    The lowest value has position 0; equal values have the same. A score is slope * position + start.
    """
    levels = np.unique(np.rint(raw[feasible] / TIE))
    if levels.size <= 1:
        return raw, 0.0, 100.0
    places: Floats = np.searchsorted(levels, np.rint(raw / TIE), side="right").astype(np.float64) - 1.0
    return places, 100.0 / (levels.size - 1), 0.0
