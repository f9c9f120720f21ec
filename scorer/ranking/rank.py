"""Rank: filters, scores, normalisation, weighted total. The same code for live queries, fleet files and replays."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.rpc.request import Request
from scorer.ledger.record.limits import Limit, one_to_a_port
from scorer.ranking.formulas.selectors import check_selectors
from scorer.ranking.inputs import RankingInputs, Seen, quiet
from scorer.ranking.kernel import binding
from scorer.ranking.kernel.binding import TIE, Models, Uses, best_among, explain, explain_all
from scorer.ranking.kernel.layout import CODE, FOREIGN, OF_MEANS
from scorer.ranking.machines import Machines, Table, WhatIf
from scorer.ranking.profiles import plugins
from scorer.ranking.profiles.profile import Compiled, PlacedFilter, Profile, WeightedScore, with_rules
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.rules import Roster, hash_of

BEST = 5
"""How many of the best machines are found at once: to find a few more costs next to nothing."""
_SORTED = 64
"""More are found by sorting all."""
NO_ROWS: Integers = np.empty(0, np.int64)
Codes = NDArray[np.int32]


@dataclass(eq=False)
class Verdict:
    """One filter that ran."""

    placed: PlacedFilter
    machines: Machines
    """The machines as it saw them."""
    code: int
    """What is added to the number of its reason in `Ranking.refused`."""
    reasons: Sequence[str]
    """By number, from 1."""
    use: int
    """Its place among the C functions of the ranking; -1 for a filter of another package."""
    allowed: Bools | None = None
    """[n] of a filter of another package."""

    @property
    def filter(self) -> Any:
        return self.placed.filter

    def reason(self, number: int) -> str:
        why, named = self.reasons[number - 1], getattr(self.filter, "named", None)
        return why if named is None else str(named(why, self.machines.request))


@dataclass(eq=False)
class ScoreTerm:
    """One score's values: its part of the total is ``slope * raw + start``, times the weight's share. Read-only."""

    weighted: WeightedScore
    machines: Machines
    """The machines as it saw them."""
    raw: Floats
    slope: float
    start: float
    use: int
    """Its place among the C functions of the ranking; -1 for a score of another package."""

    def value(self, row: int) -> float:
        """Return one machine's normalised value."""
        return float(self.raw[row]) * self.slope + self.start


@dataclass(eq=False)
class Ranking:
    """The verdict on every machine."""

    request: Request
    profile: Profile
    machines: Machines
    refused: Codes
    """[n] For the first filter that refused a machine its code and the number of its reason; 0 where none did."""
    total: Floats
    """[n] 0 to 100, higher is better; meaningless where not feasible."""
    verdicts: list[Verdict] = field(repr=False)
    terms: list[ScoreTerm] = field(repr=False)
    counts: Integers = field(repr=False)
    """How many machines each refusal has, by its number in ``refused``."""
    order: NDArray[np.uint64] = field(repr=False)
    """[n] Of equal totals the lowest comes first."""
    uses: tuple[Uses, Uses] = field(repr=False)
    """The C functions of filters and scores, with what they read."""
    _best_rows: Integers = field(default_factory=lambda: NO_ROWS, repr=False)
    near: bool = False
    """Whether the fleet is near the limit of a profile's ``survive``: a change of any machine matters."""

    @cached_property
    def feasible(self) -> Bools:
        """[n] Whether all filters allow a machine."""
        found: Bools = self.refused == 0
        return found

    @property
    def feasible_count(self) -> int:
        """The number of machines that all filters allow."""
        return int(self.counts[0])

    @property
    def chosen(self) -> str | None:
        """The best machine, None when none is feasible."""
        rows = self.best(1)
        return self.machines.name(int(rows[0])) if rows.size else None

    @cached_property
    def best_first(self) -> Integers:
        """Rows of all feasible machines, best first."""
        return self.best(len(self.machines))

    def best(self, count: int) -> Integers:
        """Return the rows of the ``count`` best feasible machines, best first; ties by the profile's rule."""
        if self._best_rows.size < min(count, self.feasible_count):
            self._best_rows = self._best(count, None)
        return self._best_rows[:count]

    def best_among(self, only: Bools, count: int) -> Integers:
        """Return the rows of the best ``count`` feasible machines among ``only`` [n], best first."""
        return self._best(count, np.ascontiguousarray(only))

    def _best(self, count: int, only: Bools | None) -> Integers:
        if count <= _SORTED:
            return best_among(self.refused, self.total, self.order, only, count)
        (rows,) = (self.feasible if only is None else self.feasible & only).nonzero()
        steps = np.rint(self.total[rows] / TIE)
        return rows[np.lexsort((self.order[rows], -steps))][:count]

    def add(self, verdict: Verdict) -> None:
        """Add a verdict whose refusals are in ``refused`` already."""
        self.verdicts.append(verdict)
        self.total[self.refused != 0] = 0.0
        self.counts = np.bincount(self.refused, minlength=self.counts.size + CODE)
        self._best_rows = NO_ROWS

    # ---- one machine

    def said(self, verdict: Verdict | ScoreTerm, row: int) -> tuple[float, Floats | None]:
        """Return a built-in plugin's verdict on one machine, and the numbers behind it, by the function that ranked.

        None for a plugin of another package, which is called by `scorer.ranking.profiles.plugins.detail`.
        """
        if verdict.use < 0:
            return 0.0, None
        is_score = isinstance(verdict, ScoreTerm)
        patch = verdict.machines.what_if.place.get(row, -1)
        return explain(self.uses[is_score], verdict.use, row, patch, is_score=is_score)

    def said_of_all(self, term: ScoreTerm) -> Floats:
        """Return [n, ...]: the numbers behind a built-in score's values, by machine."""
        return explain_all(self.uses[1], term.use, len(self.machines), is_score=True)

    def verdict_of(self, row: int) -> tuple[Verdict, str] | None:
        """Return the first filter that refuses a machine, and its reason; None where none does."""
        code = int(self.refused[row])
        return verdict_of(self.verdicts, code) if code else None


def verdict_of(verdicts: Sequence[Verdict], code: int) -> tuple[Verdict, str]:
    """Return the filter of a refusal, and its reason in words."""
    verdict = next(each for each in verdicts if each.code == code // CODE * CODE)
    return verdict, verdict.reason(code % CODE)


def order_of(roster: Roster, ties: str, request_id: str) -> NDArray[np.uint64]:
    """Return [n] the order of equal machines: by name, or random by machine and instance, equal in all processes."""
    if ties == "name":
        return roster.name_order
    lot = roster.name_hash ^ np.uint64(hash_of(request_id))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finaliser of splitmix64
        lot = (lot ^ (lot >> np.uint64(shift))) * np.uint64(factor)
    return lot ^ (lot >> np.uint64(31))


@quiet
def rank(request: Request, inputs: RankingInputs) -> Ranking:
    """Return all machines filtered and scored for this request.

    Each machine has a row for each load model of the profile, which `scorer.ranking.machines` keeps up to date.
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


def limits(ranking: "Ranking | Decision", rows: Sequence[int], request: Request) -> list[tuple[Limit, ...]]:
    """Return, for each of some machines, the upper limits of its sums and counts with the request.

    Where one measure has two limits, both hold. Each port of a machine is used once, whatever the profile says.
    ``request`` may differ from the ranking's own.
    """
    index, found = np.array(rows, np.int64), list[Limit]()
    own = {id(each.placed): each.machines for each in ranking.verdicts}
    for placed in ranking.profile.limiting:
        asked = own.get(id(placed), ranking.machines).of(request)
        if plugins.wanted(placed.filter, request, asked):
            found += placed.filter.limit(request, asked.take(index))
    known = {limit.measure for limit in found}
    found += [limit for limit in one_to_a_port(request.ports) if limit.measure not in known]
    columns = []
    for each in found:
        most = each.most.tolist() if isinstance(each.most, np.ndarray) else None
        columns.append([each] * len(rows) if most is None else [Limit(each.measure, one, each.reason) for one in most])
    return list(zip(*columns, strict=True)) if columns else [()] * len(rows)


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
        for placed, code, fixed in self.profile.filter_uses:
            machines = self.machines if placed.load_model is None else self.seen.machines(placed.load_model)
            of = placed.compiled
            if of.wanted is not None and not of.wanted(request, machines):
                continue
            use = FOREIGN if of.number == FOREIGN else self._use(self.filters, placed.filter, of, fixed, machines)
            self.far |= use == FOREIGN
            self.verdicts.append(Verdict(placed, machines, code, of.reasons, use))
        for weighted, fixed in self.profile.score_uses if scores else ():
            machines = self.machines if weighted.load_model is None else self.seen.machines(weighted.load_model)
            of = weighted.compiled
            if of.wanted is not None and not of.wanted(request, machines):
                continue
            use = self._use(self.scores, weighted.score, of, fixed, machines)
            raw = self.scores.raw(use)
            self.far |= of.number == FOREIGN or weighted.normalise == "rank"
            self.terms.append(ScoreTerm(weighted, machines, raw, 1.0, 0.0, FOREIGN if of.number == FOREIGN else use))

    def _use(self, uses: Uses, plugin: Any, of: Compiled, fixed: bytes, machines: Machines) -> int:
        """Add a plugin with its inputs; a score of another package gets an entry, too."""
        if not of.reads:
            return uses.add(machines.inputs, fixed)
        self.far |= plugin.far(self.request, machines)
        columns, own = plugin.columns(self.request, machines), plugin.own(self.request, machines)
        return uses.add(machines.inputs, fixed, columns, own)

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
