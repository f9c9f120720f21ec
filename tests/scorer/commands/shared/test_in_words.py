"""A decision in words."""

import msgspec
import pytest

from schemas.process.tables import Screen
from scorer.client import Line, PlaceResult
from scorer.commands.instances import why
from scorer.commands.placing import place
from scorer.commands.placing.ranked import in_words
from scorer.ranking.explain import answer as answer_of
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from tests.scorer.fleets import fleet, machine, request

USAGE = {"cpu": {"mean": 9.0, "std": 9.0}, "memory": 40}
PLACED = [{"id": "i", "machine": "m", "cpu": 4, "memory": 10, "placed_ago_s": 60}]


def answer(**asked):
    offline = fleet(machine("m", cpu=32, memory=128, usage=USAGE), instances=PLACED)
    profile = load_profiles().choose("windward")
    return answer_of(rank(request(**asked), offline.inputs(profile)))


def test_a_deployer_reads_what_is_expected_and_how_likely_it_is_too_full():
    found = answer(cpu=2, memory=10, expected={"cpu": 0.5})
    text = "\n".join(in_words(found))
    chance = found.candidates[0].scores["expected_overload"]["chance_above_80_percent"]["cpu"]
    assert text.startswith("m, with the instance:\n  cpu     expected use 0.50 of 2.00 asked (as the request says)\n")
    assert f"chance of more than 80%: {100 * chance:.1f}%" in text
    assert "of that is credit" in text
    assert "expected use 10 of 10 asked (all that is asked)" in text


def test_a_debit_is_told_and_lowers_what_is_used():
    found = answer(cpu=2)
    plain = in_words(found)
    found.candidates[0].resources["cpu"]["debit"] = 3.2
    text = "\n".join(in_words(found))
    assert "3.20 less than measured (debit): of instances that have left" in text
    assert text.split(" full without it")[0] != "\n".join(plain).split(" full without it")[0]


def test_lines_fit_a_terminal():
    found = answer(cpu=2)
    found.expected_from["cpu"] = "learned: 41% of what is asked, from the measured use of instances of its kind"
    lines = in_words(found, Screen(width=80))
    assert max(map(len, lines)) <= 80
    assert any(line.startswith(" " * 9) for line in lines)


@pytest.mark.parametrize("none", [{"candidates": []}, {"machine": None}])
def test_nothing_is_said_of_no_machine(none):
    assert in_words(msgspec.structs.replace(answer(cpu=2), **none)) == []


def placed(count=1):
    lines = [
        Line(id=f"i{n}", machine="m", state="reserved", reserved_at=1.0, expires_at=301.0, version=1)
        for n in range(count)
    ]
    return PlaceResult(**dict(answer(cpu=2)), placed=lines, asked=count)


def test_place_and_why_say_it_of_one_instance():
    """Of a batch they do not: its instances went to many machines. A move says it, too."""
    words = "m, with the instance:\n  cpu  expected use 2.00 of 2.00 asked"
    screen = Screen(width=80)
    assert words in place.show(placed(), screen)
    assert "with the instance" not in place.show(placed(2), screen)
    decision = {"id": "i0", "at": 1.0, "query": "q", "scorer": "s", "method": "place"}
    assert words in why.show(decision | {"answer": msgspec.to_builtins(placed())}, screen)
    record = {"id": "i0", "state": "confirmed", "amounts": [2.0], "moved_from": "other"}
    moved = msgspec.to_builtins(answer(cpu=2)) | record
    shown = why.show(decision | {"method": "update", "answer": moved}, screen)
    assert words in shown
    declared = why.show(decision | {"method": "update", "answer": moved | {"expected": [2.0, -1.0]}}, screen)
    assert words in declared
    assert shown.splitlines()[1] == "i0 moved from other to m"
    assert shown.splitlines()[-1] == "1/1 feasible"
