"""Debits: what ended instances have in the windows is taken out, fades with the window, and bounded from below."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.ledger.record.instance import Instance, copy_with
from scorer.ledger.view.slots import KEPT_S, Leavers, left_behind
from scorer.ranking.inputs import Tables, machines_of
from scorer.ranking.profiles.profile import LoadModel, Profile, ProfileError
from scorer.ranking.profiles.profile_file import parse_profile
from tests.scorer.fleets import STATISTICS, fleet, machine, ranked, see

HOUR = {"windows_s": [300, 900, 3600]}
MODEL = LoadModel(window=3600, debits=True)


def mean(started_ago_s, ended_ago_s, shorter=0.0, window=3600, **more):
    """Return the cpu mean of a machine that an instance of 4 cores left; 8 were measured, of late ``shorter``."""
    late = {"cpu": {"mean": shorter, "max": shorter}, "memory": 0}
    host = machine("m", usage={"cpu": 8, "memory": 0}, windows={"300": late, "900": late}, **more)
    left = {"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": started_ago_s, "ended_ago_s": ended_ago_s}
    model = LoadModel(window=window, debits=True)
    return float(see(fleet(host, leavers=[left], **HOUR), None, model).mean[0, 0])


@pytest.mark.parametrize(
    ("what", "started_ago_s", "ended_ago_s", "expected"),
    [
        ("ran the whole hour and ended just now", 7200, 0, 4.0),
        ("ended half an hour ago", 7200, 1800, 6.0),
        ("ended three quarters of an hour ago", 7200, 2700, 7.0),
        ("ended an hour ago: the window has forgotten it", 7200, 3600, 8.0),
        ("ran for half an hour and ended just now", 1800, 0, 6.0),
        ("ran for a quarter of an hour, half an hour ago", 2700, 1800, 7.0),
        ("ran before the window", 9000, 4000, 8.0),
    ],
)
def test_a_mean_loses_the_share_of_the_window_in_which_it_ran(what, started_ago_s, ended_ago_s, expected):
    """Debit = expected * (share of slots later than the start - share of those later than the end)."""
    assert mean(started_ago_s, ended_ago_s) == pytest.approx(expected), what


def test_time_is_measured_to_the_windows_end_and_never_to_now():
    """While data are late the window forgets nothing: what ended after its end is taken out as far as it is in."""
    assert mean(7200, 1800, age_s=1800) == pytest.approx(4.0)
    assert mean(7200, 0, age_s=1800) == pytest.approx(4.0)
    assert mean(3600, 0, age_s=1800) == pytest.approx(6.0)


def test_it_is_never_below_what_was_measured_since():
    """The longest window that began after the end shows what is there without it; a rise since is not added."""
    assert mean(7200, 1000, shorter=7.0) == pytest.approx(7.0)
    assert mean(7200, 1000, shorter=9.0) == pytest.approx(8.0)
    assert mean(7200, 299, shorter=7.0) == pytest.approx(8 - 4 * (1 - 29 / 360))


@pytest.mark.parametrize(
    ("what", "came_ago_s", "hour", "quarter", "five"),
    [
        ("it came when the other left", 1000, 8.0, 8.0, 8.0),
        ("it came later: the quarter of an hour shows two thirds of it", 600, 4 + 26 / 9 + 2 / 3, 4 + 8 / 3, 8.0),
        ("it came a minute ago: the five minutes show a fifth of it", 60, 4 + 26 / 9 + 1 / 15, 4 + 4 / 15, 4.8),
        ("it came before the other left", 2000, 8 + 10 / 9, 8.0, 8.0),
    ],
)
def test_what_came_since_is_not_counted_twice(what, came_ago_s, hour, quarter, five):
    """4 cores left 1,000 s ago, 4 came, 4 are always there: 8, whatever shorter windows show of what came."""
    more = {"300": {"cpu": {"mean": five}, "memory": 0}, "900": {"cpu": {"mean": quarter}, "memory": 0}}
    host = machine("m", usage={"cpu": hour, "memory": 0}, windows=more)
    left = {"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": 7200, "ended_ago_s": 1000}
    came = {"id": "j", "machine": "m", "cpu": 4, "placed_ago_s": came_ago_s}
    seen = see(fleet(host, leavers=[left], instances=[came], **HOUR), None, MODEL)
    assert seen.mean[0, 0] == pytest.approx(8.0), what
    shown = seen.remaining_mean[0, 0]  # without credits it is never below what was measured since
    assert shown == pytest.approx(min(hour, max(hour - 4 * (1 - 1000 / 3600), quarter))), what


def test_what_came_since_is_in_a_percentile_once():
    """The median of the hour has lost all of the one, and is credited all of the other."""
    late = {"cpu": {"mean": 8, "p50": 8, "max": 8}, "memory": 0}
    host = machine("m", usage={"cpu": {"mean": 8, "p50": 8, "max": 8}, "memory": 0}, windows={"300": late, "900": late})
    left = {"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": 7200, "ended_ago_s": 1000}
    came = {"id": "j", "machine": "m", "cpu": 4, "placed_ago_s": 1000}
    seen = see(fleet(host, leavers=[left], instances=[came], **HOUR), None, MODEL, STATISTICS)
    assert (seen.percentile(50)[0, 0], seen.max[0, 0]) == (8.0, 8.0)


def test_a_percentile_and_a_maximum_lose_all_while_they_show_it():
    """p95 loses all while the instance has more than 5 % of the slots, a maximum while it has any."""
    host = machine("m", usage={"cpu": 8, "memory": 0})
    for ended_ago_s, p95, largest in ((0, 4, 4), (3400, 4, 4), (3430, 8, 4), (3600, 8, 8)):
        left = {"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": 7200, "ended_ago_s": ended_ago_s}
        late = {"cpu": {"mean": 0, "p95": 0, "max": 0}, "memory": 0}
        offline = fleet(host | {"windows": {"300": late, "900": late}}, leavers=[left], **HOUR)
        machines = see(offline, None, MODEL, STATISTICS)
        assert (machines.percentile(95)[0, 0], machines.max[0, 0]) == (p95, largest), ended_ago_s


def test_without_the_setting_nothing_is_taken_out():
    host = machine("m", usage={"cpu": 8, "memory": 0})
    offline = fleet(host, leavers=[{"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": 7200}], **HOUR)
    assert see(offline, None, LoadModel(window=3600)).mean[0, 0] == 8.0


@given(started_ago_s=st.floats(0, 8000), ran=st.floats(0, 1), more_s=st.floats(0, 5000), shorter=st.floats(0, 10))
def test_a_debit_only_fades_and_stays_between_what_was_measured_and_what_is(started_ago_s, ran, more_s, shorter):
    """As the end recedes the mean only rises, up to what was measured; it is never below what was measured since."""
    ended_ago_s = started_ago_s * (1 - ran)
    now, later = (mean(started_ago_s + s, ended_ago_s + s) for s in (0.0, more_s))
    assert 4 - 1e-9 <= now <= 8 + 1e-9
    if ended_ago_s + more_s >= 3600:
        assert later == pytest.approx(8.0)
    assert mean(started_ago_s, ended_ago_s + 1000, shorter) >= min(8.0, shorter) - 1e-9


def test_a_release_takes_effect_at_the_next_decision():
    hosts = [machine(name, usage={"cpu": 8, "memory": 0}) for name in ("a", "b", "c")]
    running = [{"id": f"i{n}", "machine": name, "cpu": 4, "placed_ago_s": 7200} for n, name in enumerate("abc")]
    offline, kept = fleet(*hosts, instances=running, **HOUR), Tables()

    def means():
        return machines_of(offline.inputs(Profile("any"), kept), MODEL).mean[0].tolist()

    assert means() == [8, 8, 8]
    ended = copy_with(offline.ledger.instances["i1"], state="released", ended_at=offline.now_s)
    offline.ledger.apply(ended)
    assert means() == pytest.approx([8, 4, 8])
    np.testing.assert_allclose(see(offline, None, MODEL).mean[0], [8, 4, 8])
    moved = copy_with(offline.ledger.instances["i2"], machine="a", started_at=offline.now_s)
    offline.ledger.apply(moved)
    assert means() == pytest.approx([12, 4, 4])


def test_who_leaves_what_behind():
    """A confirmed instance that ends or moves; no reservation, no resize, and what was not known before."""
    running = Instance(id="i", machine="a", state="confirmed", amounts=(1.0,), started_at=5.0)
    waiting = copy_with(running, state="reserved", started_at=0.0)
    assert left_behind(running, copy_with(running, state="released", ended_at=9.0)).ended_at == 9.0
    moved = left_behind(running, copy_with(running, machine="b", started_at=8.0))
    assert (moved.machine, moved.started_at, moved.ended_at, moved.state) == ("a", 5.0, 8.0, "released")
    assert left_behind(running, copy_with(running, amounts=(2.0,))) is None
    assert left_behind(waiting, copy_with(waiting, state="expired", ended_at=9.0)) is None
    assert left_behind(waiting, running) is None
    assert left_behind(None, copy_with(running, state="released", ended_at=9.0)) is None


def test_leavers_are_bounded_by_number_and_by_time():
    """The oldest goes first; what ended two hours before the newest is forgotten."""
    leavers, gone = Leavers(most=3), Instance(id="", machine="m", state="released", amounts=(1.0,), started_at=1)
    for n in range(5):
        leavers.add(copy_with(gone, id=f"i{n}", ended_at=n + 10), 0)
    assert len(leavers) == len(leavers.slots_on("m")) == 3
    leavers.add(copy_with(gone, id="x", machine="n", ended_at=20 + KEPT_S), 1)
    assert len(leavers) == 1
    assert not leavers.slots_on("m")


def test_debits_go_with_credits_by_the_window_alone():
    """The peers' models have no mirror: a profile that asks for both is refused by name; answers show the debit."""
    with pytest.raises(ProfileError, match="debits"):
        parse_profile('credits = "none"\ndebits = true', "test")
    host = machine("m", usage={"cpu": 8, "memory": 0})
    offline = fleet(host, leavers=[{"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": 7200}], **HOUR)
    found = ranked(offline, {"window": 3600, "debits": True, "scores": [{"use": "global_variance"}]})
    assert found.machines.debit[0, 0] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("what", "said", "expected"),
    [
        ("as measured", {"usage": {"cpu": 3}}, 5.0),
        ("another resource was measured alone", {"usage": {"memory": 1}}, 4.0),
        ("never measured", {}, 4.0),
        ("the report is of long before its end", {"usage": {"cpu": 3}, "usage_age_s": 2000}, 4.0),
        ("a report of before its start", {"usage": {"cpu": 3}, "usage_age_s": 100, "placed_ago_s": 60}, 8 - 4 / 60),
        ("its use was said", {"expected": {"cpu": 1}}, 7.0),
        ("the report is of long after its end: of another", {"usage": {"cpu": 3}, "ended_ago_s": 1800}, 6.0),
    ],
)
def test_what_was_measured_of_it_is_taken_out(what, said, expected):
    """In place of the 4 cores that were expected; 8 were measured of the machine, which it left just now."""
    host = machine("m", usage={"cpu": 8, "memory": 50}, windows={"300": {"cpu": 0}, "900": {"cpu": 0}})
    left = {"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": 7200, "ended_ago_s": 0} | said
    assert see(fleet(host, leavers=[left], **HOUR), None, MODEL).mean[0, 0] == pytest.approx(expected), what
