"""What no filter of a profile looks at: a query for it is refused, and a plan gives such an instance no machine.

The cases are made: each field by each path.
"""

import dataclasses

import msgspec
import pytest

from schemas.process.settings import SettingsError
from schemas.rpc.request import InvalidRequest, Request
from scorer.commands.placing import profiles as command
from scorer.commands.placing.rank import RankSettings, _rank
from scorer.placement.choosing.trial import Trial
from scorer.planning.room import room
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile import DEMANDS
from scorer.ranking.profiles.profile_file import parse_profile
from tests.scorer.fleets import fleet, machine, request
from tests.scorer.rpc.test_results import Scorer

BARE = '[[filters]]\nuse = "fits"\n[[scores]]\nuse = "least_allocated"\n'
RULE = [{"instances": {"app": "cart"}, "topology": "machine"}]
ASKED = {
    "machine": ("machine_name", "m1"),
    "not_on": ("machine_name", ["m2"]),
    "selector": ("selector", "disk=ssd"),
    "ports": ("ports", [6379]),
    "affinity": ("affinity", RULE),
    "anti_affinity": ("anti_affinity", RULE),
}


def bare(*filters):
    """Return a profile that looks at room alone, and at what these filters do."""
    return parse_profile("".join(f'[[filters]]\nuse = "{name}"\n' for name in filters) + BARE, "bare")


def small(profile):
    scorer = Scorer()
    current = scorer.service.current
    by_name = {**current.profiles.by_name, "bare": profile}
    current.profiles = dataclasses.replace(current.profiles, by_name=by_name)
    return scorer


def of_file(params, tmp_path):
    mine, query = tmp_path / "bare.toml", tmp_path / "query.json"
    mine.write_text(BARE)
    query.write_bytes(msgspec.json.encode(params))
    given = RankSettings(query=str(query), fleet_file="docs/examples/machines.json", profiles=(str(mine),))
    return _rank(given)


PATHS = {
    "rank": lambda scorer, asked: scorer.ask("rank", **asked),
    "place": lambda scorer, asked: scorer.ask("place", **asked),
    "place, the second of two": lambda scorer, asked: scorer.ask(
        "place", profile="bare", instances=[{"id": "a", "cpu": 1}, {"id": "b"} | asked]
    ),
    "capacity": lambda scorer, asked: scorer.ask("capacity", **asked),
}


@pytest.mark.parametrize("field", DEMANDS)
def test_it_is_refused(field):
    name, value = ASKED[field]
    asked = {"cpu": 1, "profile": "bare", field: value}
    for path in PATHS.values():
        with pytest.raises(InvalidRequest, match=rf"{field}: profile 'bare' has no filter '{name}'"):
            path(small(bare()), asked)
        if field != "affinity":
            path(small(bare(name)), asked)


def test_a_move_is_refused():
    """To a machine of the name, and of an instance that has rules; a size changes as before."""
    scorer = small(bare())
    for name, more in (("a", {}), ("b", {"ports": [80]})):
        scorer.ask("place", id=name, cpu=1, **more)
        scorer.ask("confirm", id=name)
    with pytest.raises(InvalidRequest, match="machine: profile 'bare'"):
        scorer.ask("update", id="a", machine="m3", profile="bare")
    with pytest.raises(InvalidRequest, match="ports: profile 'bare'"):
        scorer.ask("update", id="b", machine="", profile="bare")
    assert scorer.ask("update", id="b", cpu=2, profile="bare")["id"] == "b"


def test_a_plan_leaves_the_instance_where_it_is():
    of = fleet(*(machine(name, usage={"cpu": 1, "memory": 1}) for name in "ab"))
    trial = Trial(of.inputs(bare()))
    asked = request(cpu=1, ports=[80])
    assert trial.best(asked).machine is None
    assert trial.best(asked).why.startswith("ports: profile 'bare' has no filter 'ports'")
    assert not trial.allowed(asked).any()
    assert trial.together([(asked, 2)]) == ([], trial.best(asked).why)
    assert trial.best(request(cpu=1)).machine == "a"
    with pytest.raises(InvalidRequest, match="ports: profile 'bare'"):
        room(asked, trial)


def test_the_profiles_here_look_at_all_demands():
    for profile in load_profiles().by_name.values():
        assert not set(profile.ignores) & set(DEMANDS), profile.name


def test_a_filter_of_another_package_may_look_at_it():

    @dataclasses.dataclass(frozen=True)
    class OwnPorts:
        name = "own_ports"
        looks_at = ("ports",)

    profile = bare()
    own = dataclasses.replace(
        profile, filters=(*profile.filters, dataclasses.replace(profile.filters[0], filter=OwnPorts()))
    )
    assert ("ports" in profile.ignores, "ports" in own.ignores) == (True, False)


def test_the_command_tells_what_is_not_looked_at(tmp_path, capsys):
    mine = tmp_path / "mine.toml"
    mine.write_text(BARE)
    assert command.main(["check", str(mine)], {}) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "mine: 1 filter and 1 score, good"
    assert "  does not look at machine, as machine_name would: a request with it is refused" in shown
    assert "  does not look at prefer, as machine_preference would" in shown


def test_the_command_rank_refuses_it_too(tmp_path):
    assert of_file({"cpu": 1, "profile": "bare"}, tmp_path) == 0
    with pytest.raises(SettingsError, match="ports: profile 'bare' has no filter 'ports'"):
        of_file({"cpu": 1, "profile": "bare", "ports": [80]}, tmp_path)


def test_only_fields_that_there_are():
    assert set(bare().ignores) <= set(Request.__struct_fields__)
