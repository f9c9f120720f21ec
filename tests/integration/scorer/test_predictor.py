"""Predicted peaks on a real server: one scorer writes them, another goes on from there, all read them."""

import logging

import numpy as np
import pytest

from schemas.names import Names
from scorer.background.predictor import Predictor
from scorer.classes.prediction import Histograms, Peaks
from scorer.commands.shared.fleet_file import FleetState
from scorer.live.loader import Loader
from scorer.wire import Wire
from tests.scorer.fleets import fleet, machine

START_S, LOOK_S = 1_800_000_000.0, 300.0


def seen(now_s: float, prod: float) -> FleetState:
    """A machine of 10 cores: prod uses so much, one that nobody measures asks for a core, the system uses a half."""
    instances = [
        {"id": "p", "machine": "m", "cpu": 8, "usage": {"cpu": prod, "memory": 10}},
        {"id": "q", "machine": "m", "cpu": 1},
        {"id": "b", "machine": "m", "cpu": 2, "priority_class": "batch", "usage": {"cpu": 2, "memory": 10}},
    ]
    there = machine("m", usage={"cpu": 8, "memory": 30}, system={"cpu": 0.5, "memory": 5})
    return fleet(there, instances=instances, now=now_s)


def test_peaks_survive_the_scorer_that_learned_them(wire: Wire, names: Names) -> None:
    """Every second look is another scorer's; after a day the loader of any scorer has the peaks of it."""
    loader = Loader(wire, names)
    first = loader.refresh(["m"])
    assert first is not None
    assert first.predicted is None
    one, other = Predictor(wire, names), Predictor(wire, names)
    for number in range(2 * 288 + 1):
        if number % 24 == 0:
            one, other = other, one
            one.forget()
        now_s = START_S + number * LOOK_S
        offline = seen(now_s, prod=6.0 if number % 10 == 0 else 3.0)
        one.look(offline.snapshot, offline.ledger, now_s)
    snapshot = loader.refresh(["m"])
    assert snapshot is not None
    roster = snapshot.roster
    assert roster.names == ("m",)
    found = Peaks(snapshot.predicted).of(roster, np.array([now_s]))[:, :, 0]
    assert found == pytest.approx(np.array([[0.7, 0.1], [0.05, 0.05]]), rel=0.06)
    assert loader.refresh(["m"]) is None


def test_what_is_learned_is_written_every_five_minutes(wire: Wire, names: Names) -> None:
    """Looks between add to what the next write has: a minute of a peak in five is a fifth of the samples."""
    predictor = Predictor(wire, names)
    for minute in range(11):
        offline = seen(START_S + 60 * minute, prod=3.0)
        predictor.look(offline.snapshot, offline.ledger, START_S + 60 * minute)
        written = Histograms.restored(wire.one("GET", names.predicted_histograms))
        assert written.at.tolist() == [START_S + 300 * (minute // 5)]
    assert written.weights[0, 0].sum() == pytest.approx(11, rel=0.02)


def test_a_value_that_may_not_be_read_stops_nothing(wire: Wire, names: Names, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, and what learns beside it goes on."""
    wire.one("HSET", names.predicted_histograms, "of", "another type")
    offline = seen(START_S, 3.0)
    predictor = Predictor(wire, names)
    with caplog.at_level(logging.WARNING, "windward.scorer"):  # a command that ran here may have left another level
        for _ in range(2):
            predictor.look(offline.snapshot, offline.ledger, START_S)
    assert [record.message for record in caplog.records] == ["scorer.predict.refused"]
    wire.one("DEL", names.predicted_histograms)
    predictor.look(offline.snapshot, offline.ledger, START_S)
    assert Histograms.restored(wire.one("GET", names.predicted_histograms)).names == ["m"]


def test_without_usage_by_instance_nothing_is_written(wire: Wire, names: Names) -> None:
    """Fleets whose agents do not report it pay nothing."""
    offline = fleet(machine("m", usage={"cpu": 8, "memory": 30}))
    Predictor(wire, names).look(offline.snapshot, offline.ledger, START_S)
    assert wire.one("EXISTS", names.predicted, names.predicted_histograms) == 0
