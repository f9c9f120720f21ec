"""Rank: filters, scores, normalisation, weighted total. The same code for live queries, fleet files and replays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.rpc.request import Request
from scorer.ranking.formulas.selectors import check_selectors
from scorer.ranking.inputs import RankingInputs, quiet
from scorer.ranking.kernel import binding
from scorer.ranking.kernel.binding import TIE, address
from scorer.ranking.kernel.layout import AS_IT_IS, CODE, GIVEN, MIN_MAX, MODEL, OF_MEANS, PLAIN, USE
from scorer.ranking.machines.machines import Machines
from scorer.ranking.machines.table import Table
from scorer.ranking.machines.what_if import WhatIf
from scorer.ranking.profiles import plugins
from scorer.ranking.profiles.profile import Compiled
from scorer.ranking.ranking import BEST, Codes, Ranking, ScoreTerm, Verdict, order_of, verdict_of
from scorer.ranking.seen import Seen
from scorer.snapshot.arrays import Bools, Floats, Integers

_HOW = {"none": AS_IT_IS, "min-max": MIN_MAX, "rank": GIVEN}


@quiet
def rank(request: Request, inputs: RankingInputs) -> Ranking:
    """Return all machines filtered and scored for this request.

    Each machine has a row for each load model of the profile, which `scorer.ranking.machines.table` keeps up to date.
    The request becomes a record, and what a filter or a score reads of a machine besides its row becomes columns. Each
    filter looks at the machines that none before it has refused, and notes the number of its reason. Each score gives
    the feasible machines a raw value. Scores of the fleet's variance are given the fleet's mean utilization first.
    Scores that compare machines are brought to 0-100 among the feasible ones. The profile spreads the values; the total
    is their mean by weight. The best machines are found in the same pass, equal ones by name or by lot, and the
    machines of each refusal are counted. All this is done anew for every request: nothing is kept. Nothing is reserved,
    and no argument is changed.

    Raises InvalidRequest naming a field that this fleet or profile cannot serve (a window that is not kept, a selector
    that cannot be parsed).
    """
    decision = Decision(request, inputs)
    decision.evaluate()
    decision.compare()
    return decision.finish()


@quiet
def allowed(request: Request, inputs: RankingInputs) -> Bools:
    """Return [M]: the machines that all filters allow; no score is asked."""
    decision = Decision(request, inputs, scores=False)
    decision.evaluate()
    found: Bools = decision.refused == 0
    return found


@quiet
def refusal_of(request: Request, inputs: RankingInputs, row: int) -> str:
    """Return why the first filter that refuses one machine does; "" where none does. No other machine is looked at."""
    decision = Decision(request, inputs, scores=False)
    decision.refused[:] = -1
    decision.refused[row] = 0
    decision.evaluate()
    return "" if not decision.refused[row] else verdict_of(decision.verdicts, int(decision.refused[row]))[1]


class Decision:
    """One request on one fleet: which filters and scores look at it, and what they read."""

    def __init__(self, request: Request, inputs: RankingInputs, *, scores: bool = True) -> None:
        check_selectors(request)
        self.request, self.inputs, self.profile = request, inputs, inputs.profile
        self.seen = Seen(request, inputs)
        self.machines = self.seen.machines()
        self.count = len(self.machines)
        self.refused: Codes = np.zeros(self.count, np.int32)
        self.kept: list[Any] = []
        """What the C functions' structs point to."""
        self._places: dict[int, tuple[int, ...]] = {}
        self.verdicts: list[Verdict] = []
        self.terms: list[ScoreTerm] = []
        self._filters: list[tuple[Any, ...]] = []
        self._scores: list[tuple[Any, ...]] = []
        self.far = False
        """Whether one more instance changes what is read of other machines, so that each is ranked by itself."""
        for position, placed in enumerate(self.profile.filters, 1):
            machines = self.seen.machines(placed.load_model)
            if not plugins.wanted(placed.filter, request, machines):
                continue
            code, use, reasons = position * CODE, -1, (getattr(placed.filter, "reason", ""),)
            if placed.compiled is not None:
                use, reasons = len(self._filters), placed.filter.reasons
                self._filters.append(self._use(placed.filter, placed.compiled, machines, code=code))
            else:
                self.far = True
            self.verdicts.append(Verdict(placed, machines, code, reasons, use))
        for weighted in self.profile.scores if scores else ():
            machines = self.seen.machines(weighted.load_model)
            if weighted.weight > 0 and plugins.wanted(weighted.score, request, machines):
                self._add_score(weighted, machines)
        self.filters = np.array(self._filters, USE)
        self.scores = np.array(self._scores, USE)

    # ---- what the C functions read

    def _add_score(self, weighted: Any, machines: Machines) -> None:
        raw, use = np.zeros(self.count), -1
        if weighted.compiled is not None:
            use = len(self._scores)
            how = _HOW[weighted.normalise]
            self.far |= how == GIVEN
            self._scores.append(
                self._use(weighted.score, weighted.compiled, machines, how=how, weight=weighted.weight, raw=raw)
            )
        else:
            self.far = True
        self.terms.append(ScoreTerm(weighted, machines, raw, 1.0, 0.0, use))

    def _use(
        self, plugin: Any, compiled: Compiled, machines: Machines, *, code: int = 0, how: int = 0, weight: float = 0.0,
        raw: Floats | None = None,
    ) -> tuple[Any, ...]:  # fmt: skip
        """Return a value of `USE`: a plugin with what it reads."""
        settings = compiled.settings if compiled.settings is not None else plugin.settings(self.request, machines)
        columns, own = plugin.columns(self.request, machines), plugin.own(self.request, machines)
        side = np.ascontiguousarray(np.array(columns, np.float64).T) if columns else None
        added = np.array(own, np.float64) if own else None
        self.far |= plugin.far(self.request, machines)
        self.kept += (settings, side, added)
        return (
            *self._where(machines), address(settings), 0 if side is None else address(side), len(columns),
            compiled.number, code, plugin.inner, how, weight, 1.0, 0.0, 0 if raw is None else address(raw),
            0 if added is None else address(added),
        )  # fmt: skip

    def _where(self, machines: Machines) -> tuple[int, ...]:
        """Return where the rows, those of the what-if, and the query are, once for all plugins that read them."""
        found = self._places.get(id(machines))
        if found is None:
            patched, more, _ = machines.what_if.rows(machines.table)
            read = (machines.table.rows, machines.table.more, patched, more, machines.query)
            self.kept += (machines, *read)
            found = self._places[id(machines)] = tuple(map(address, read))
        return found

    # ---- evaluating

    def evaluate(self) -> None:
        """Put into ``refused`` the first refusal of each machine, and into each term its raw values."""
        if self.scores.size:
            self._tell_means()
        foreign = [place for place, each in enumerate(self.verdicts) if each.use < 0]
        done = 0
        for place in foreign:
            until = sum(each.use >= 0 for each in self.verdicts[:place])
            self._run(self.filters[done:until], self.scores[:0])
            done = until
            self._ask(self.verdicts[place])
        late = [term for term in self.terms if term.use < 0 or _among_feasible(term)]
        self._run(self.filters[done:], self.scores if not late else self.scores[:0])
        if late:
            feasible = self.refused == 0
            for term in self.terms:
                term.machines.feasible = feasible
                if _among_feasible(term):
                    self._means(term.machines, self.refused)
            self._run(self.filters[:0], self.scores)
            for term in late:
                if term.use < 0:
                    term.raw[:] = term.weighted.score(self.request, term.machines)

    def _run(self, filters: NDArray[Any], scores: NDArray[Any]) -> None:
        if filters.size or scores.size:
            binding.evaluate(self.count, filters, scores, self.machines.what_if.struct, self.refused)

    def _tell_means(self) -> None:
        """Put the fleet's means into the queries of the scores that read them."""
        told: list[Machines] = []
        for term in self.terms:
            if term.use >= 0 and self.scores["inner"][term.use] == OF_MEANS and term.machines not in told:
                self._means(term.machines, None)
                told.append(term.machines)

    def _means(self, machines: Machines, among: Codes | None) -> None:
        what_if = machines.what_if
        patched = what_if.rows(machines.table)[0]
        binding.fleet_means(
            self.count, address(machines.table.rows), address(patched), what_if.struct, machines.query, among
        )

    def _ask(self, verdict: Verdict) -> None:
        """Ask a filter of another package."""
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
        """Bring the scores that compare machines to 0-100, and cut those of the means."""
        if (self.scores["inner"] != PLAIN).any():
            binding.compare(self.count, self.refused, self.scores)

    def finish(self) -> Ranking:
        """Return the ranking: values spread, added up and sorted."""
        self.machines.feasible = self.refused == 0
        every = self._spread()
        total, best = np.zeros(self.count), np.empty(min(BEST, self.count), np.int64)
        counts = np.zeros((len(self.profile.filters) + 1) * CODE, np.int64)
        order = order_of(self.machines.roster, self.profile.ties, self.request.id)
        found = binding.finish(self.refused, every, order, total, best, counts)
        for term, slope, start in zip(self.terms, every["slope"].tolist(), every["start"].tolist(), strict=True):
            term.slope, term.start = slope, start
        return Ranking(
            self.request, self.profile, self.machines, self.refused, total, self.verdicts, self.terms, counts, order,
            (self.filters, self.scores), self.kept, best[:found],
        )  # fmt: skip

    def _spread(self) -> NDArray[Any]:
        """Return a `USE` for each term; those that are spread by place have their places as raw values."""
        every = np.zeros(len(self.terms), USE)
        for place, term in enumerate(self.terms):
            how = _HOW[term.weighted.normalise]
            every[place]["how"], every[place]["weight"] = how, term.weighted.weight
            every[place]["slope"] = 1.0
            if how == GIVEN:
                term.raw, every[place]["slope"], every[place]["start"] = _places(term.raw, self.refused == 0)
            every[place]["raw"] = address(term.raw)
        return every

    # ---- many copies

    def place(self, count: int) -> Integers:
        """Return the rows of ``count`` copies of the request, each seeing the ones before; nothing is proposed.

        After `evaluate`, and only where `far` is False.
        """
        what_if = self.machines.what_if.copy()
        what_if.reserve(what_if.count + min(count, self.count))
        models, tables = self._models(what_if)
        read: list[Verdict | ScoreTerm] = [*self.verdicts, *self.terms]
        for each in read:
            uses = self.scores if isinstance(each, ScoreTerm) else self.filters
            if each.use >= 0:
                patched, more, _ = what_if.rows(each.machines.table)
                uses["patched_rows"][each.use], uses["patched_more"][each.use] = address(patched), address(more)
        of_means = [term.machines.table for term in self.terms if self.scores["inner"][term.use] == OF_MEANS]
        order = order_of(self.machines.roster, self.profile.ties, self.request.id)
        return binding.place_copies(
            self.filters, self.scores, models, tables.index(of_means[0]) if of_means else -1, what_if.index,
            what_if.count, self.refused, order, count,
        )  # fmt: skip

    def room(self, most: int) -> Integers:
        """Return [M]: how many copies each machine takes, ``most`` at most; ``refused`` then has what refuses more.

        After `evaluate`, and only where `far` is False.
        """
        what_if = self.machines.what_if
        models, _ = self._models(what_if)
        return binding.room(self.filters, models, what_if.index[: what_if.count], self.refused, most)

    def _models(self, what_if: WhatIf) -> tuple[NDArray[Any], list[Table]]:
        """Return a `MODEL` for each table that a plugin reads."""
        read: list[Verdict | ScoreTerm] = [*self.verdicts, *self.terms]
        machines = {each.machines.table: each.machines for each in read}
        models = np.zeros(max(1, len(machines)), MODEL)
        for place, (table, of) in enumerate(machines.items()):
            patched, more, _ = what_if.rows(table)
            self.kept += (patched, more)
            models[place] = tuple(map(address, (table.making, table.rows, table.more, patched, more, of.query)))
        return models[: len(machines)], list(machines)

    def counts(self) -> Integers:
        """Return how many machines each refusal has, by its number in ``refused``."""
        return np.bincount(self.refused, minlength=(len(self.profile.filters) + 1) * CODE)


def _among_feasible(term: ScoreTerm) -> bool:
    return bool(getattr(term.weighted.score, "among_feasible", False))


def _places(raw: Floats, feasible: Bools) -> tuple[Floats, float, float]:
    """Return the place of each value among those of the feasible machines, equal ones sharing one; slope and start."""
    levels = np.unique(np.rint(raw[feasible] / TIE))
    if levels.size <= 1:
        return raw, 0.0, 100.0
    places: Floats = np.searchsorted(levels, np.rint(raw / TIE), side="right").astype(np.float64) - 1.0
    return places, 100.0 / (levels.size - 1), 0.0
