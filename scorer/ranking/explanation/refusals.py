"""Refusals: how many machines each filter refused, and why."""

from collections.abc import Sequence

from schemas.rpc.results import Refusal
from scorer.ranking.kernel.layout import CODE
from scorer.ranking.ranking import Ranking, Verdict
from scorer.snapshot.arrays import Integers


def refusals(ranking: Ranking) -> list[Refusal]:
    """Return the refused machines by filter and reason, most first; a machine counts for its first refusal."""
    return in_words(ranking.verdicts, ranking.counts)


def in_words(verdicts: Sequence[Verdict], counts: Integers) -> list[Refusal]:
    """Return the refusals by some filters; ``counts``: the number of machines by code of `Ranking.refused`."""
    found: dict[tuple[str, str], int] = {}
    by_code = {verdict.code: verdict for verdict in verdicts}
    for code in counts[1:].nonzero()[0].tolist():
        verdict = by_code[(code + 1) // CODE * CODE]
        key = (verdict.filter.name, verdict.reason((code + 1) % CODE))
        found[key] = found.get(key, 0) + int(counts[code + 1])
    order = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [Refusal(filter=name, reason=reason, machines=count) for (name, reason), count in order]
