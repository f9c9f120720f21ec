"""``windward machines rename``: the ledger in one script, what operators said in one transaction; safe to run again."""

import json
import time

import pytest
import redis

from ops.cli import main as cli
from schemas.values.hosts import host_id
from scorer.client import WindwardError
from scorer.commands.machines.rename import rename
from scorer.ledger.record.instance import copy_with
from scorer.ledger.store.check import Check
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.integration.ledger.test_ledger import follower_of, simple
from tests.window_tables import publish, window_table

OLD = "3d1219c7c4c5404aaa1f6d2a48adfda4"
SAID = {"cordon": True, "labels": {"disk": "ssd"}}


class Fleet:
    """A ledger and operators' words on one server, and what its windows and facts say."""

    def __init__(self, server, wire, names):
        self.server, self.wire, self.names = server, wire, names
        self.ledger = Ledger(wire, names)

    def fill(self):
        """Place two instances on the old name, two elsewhere; cordon and label the old one."""
        wanted = [simple("a", OLD), simple("b", OLD), simple("c", "other"), simple("d", "other")]
        record = copy_with(wanted[0].instance, ports=(7000,), cluster="shop", role="master")
        self.ledger.reserve([wanted[0]._replace(instance=record), *wanted[1:]])
        self.ledger.confirm("a", started_at=1000.0)
        self.server.hset(self.names.operator, OLD, json.dumps(SAID))

    def show(self, ages_s, hosts=None):
        """Publish windows of machines whose samples are this old, and facts that say their hosts."""
        now_s = time.time()
        tables = [window_table([name], at=now_s - age_s) for name, age_s in ages_s.items()]
        facts = [{name: {"v": 1, "host_id": (hosts or {}).get(name, "")}} for name in ages_s]
        publish(self.wire, self.names, tables, facts)

    def rename(self, old=OLD, new="db1"):
        return rename(self.server, self.wire, self.ledger, self.names, old, new)

    def operator(self, name):
        raw = self.server.hget(self.names.operator, name)
        return json.loads(raw) if raw else None


@pytest.fixture
def fleet(valkey, names):
    wire = Wire({"url": valkey.url})
    with redis.Redis.from_url(valkey.url) as server:
        fleet = Fleet(server, wire, names)
        fleet.fill()
        yield fleet
    wire.close()


def test_all_goes_along_in_one_step(fleet):
    """Instances with generation, times and sums; operators' words; the log says the name before."""
    fleet.show({OLD: 5.0})
    follower = follower_of(fleet.ledger)
    before = follower.view.instances
    a, b = before["a"], before["b"]
    done = fleet.rename()
    assert (done["instances"], done["operator"], done["old_is_live"]) == (["a", "b"], SAID, True)
    follower.poll()
    assert follower.reloads == 1, "the log joins on"
    now = follower.view.instances
    assert now["a"] == copy_with(a, machine="db1", version=now["a"].version)
    assert now["b"] == copy_with(b, machine="db1", version=now["b"].version)
    assert {one.machine for one in now.values()} == {"db1", "other"}
    assert not follower.view.leavers.slots.live()[0].size, "nothing was left behind"
    assert fleet.ledger.leavers() == []
    checked = Check(fleet.ledger).run()
    assert (checked.differences, checked.busy) == ([], 0)
    entries = fleet.server.xrange(fleet.ledger.log)
    assert [one[1][b"renamed"] for one in entries[-2:]] == [OLD.encode()] * 2
    assert fleet.ledger.release("b", generation=b.generation).outcomes[0].kind == "done"


def test_the_old_name_is_cordoned_until_its_agent_is_silent(fleet):
    """Run again, the command forgets it, and changes nothing else."""
    fleet.show({OLD: 5.0})
    fleet.rename()
    assert fleet.operator(OLD) == {"cordon": True, "labels": {"renamed": "db1"}}
    change = fleet.server.hget(fleet.ledger.head, "change")
    assert fleet.rename()["operator"] == SAID, "again at once"
    fleet.server.hset(fleet.names.operator, "db1", json.dumps({"labels": {"disk": "ssd"}}))
    fleet.show({OLD: 300.0, "db1": 5.0})
    done = fleet.rename()
    assert (done["instances"], done["operator"]) == ([], {"labels": {"disk": "ssd"}})
    assert fleet.operator(OLD) is None
    assert fleet.server.hexists(fleet.names.forgotten, OLD)
    assert fleet.server.hget(fleet.ledger.head, "change") == change


@pytest.mark.parametrize(
    ("ages_s", "hosts", "refused"),
    [
        pytest.param({OLD: 5.0, "db1": 5.0}, {}, True, id="another machine, as far as is known"),
        pytest.param({OLD: 99.0, "db1": 5.0}, {OLD: "h", "db1": "i"}, True, id="another host"),
        pytest.param({OLD: 99.0, "db1": 5.0}, {OLD: "h", "db1": "h"}, False, id="the same host"),
        pytest.param({OLD: 99.0, "db1": 5.0}, {"db1": host_id(OLD)}, False, id="the host of the machine-id"),
        pytest.param({OLD: 5.0, "db1": 99.0}, {}, False, id="a name that is silent"),
    ],
)
def test_a_live_machine_keeps_its_name(fleet, ages_s, hosts, refused):
    """Unless it is the same host under another name. Refused, nothing changes."""
    fleet.show(ages_s, hosts)
    if not refused:
        assert fleet.rename()["instances"] == ["a", "b"]
        return
    with pytest.raises(WindwardError, match="'db1' is a live machine") as error:
        fleet.rename()
    assert error.value.code == "FAILED_PRECONDITION"
    assert fleet.operator(OLD) == SAID
    assert {one.machine for one in fleet.ledger.all_instances().values()} == {OLD, "other"}


def test_a_name_with_instances_and_an_empty_old_one_are_refused_too(fleet):
    """Another machine may be silent for a while; a live machine without instances would lose its name unasked."""
    fleet.ledger.reserve([simple("e", "db2")])
    fleet.show({OLD: 5.0, "db2": 99.0, "empty": 5.0, "db3": 5.0})
    with pytest.raises(WindwardError, match="'db2' is a machine with 1 instance, and not known to be the same host"):
        fleet.rename(new="db2")
    with pytest.raises(WindwardError, match="'db3' is a live machine"):
        fleet.rename("empty", "db3")
    assert fleet.operator("empty") is None
    fleet.show({OLD: 5.0, "db2": 99.0}, {OLD: "h", "db2": "h"})
    assert fleet.rename(new="db2")["instances"] == ["a", "b"], "one host under two names"


def test_a_change_in_between_is_seen(fleet, monkeypatch):
    """The script compares the version: what was placed after the instances were read goes along, too."""
    fleet.show({OLD: 5.0})
    read, more = Ledger.all_instances, iter([lambda: fleet.ledger.reserve([simple("late", OLD)])])

    def read_then_place(ledger):
        found = read(ledger)
        next(more, lambda: None)()
        return found

    monkeypatch.setattr(Ledger, "all_instances", read_then_place)
    assert fleet.rename()["instances"] == ["a", "b", "late"]


def test_the_command_says_what_to_do_next(fleet, valkey, capsys, monkeypatch):
    monkeypatch.setenv("WINDWARD_REDIS_URL", valkey.url)
    monkeypatch.setenv("WINDWARD_PREFIX", fleet.names.prefix)
    fleet.show({OLD: 5.0})
    assert cli.main(["machines", "rename", OLD, "db1"]) == 0
    out = capsys.readouterr().out
    assert f"{OLD} is db1 now: 2 instances moved; cordoned, label disk=ssd" in out
    assert "set WINDWARD_MACHINE=db1 for its agent" in out
    assert cli.main(["machines", "rename", "othr", "x"]) == 1
    assert "NOT_FOUND: no machine 'othr'" in capsys.readouterr().err
    assert cli.main(["machines", "rename", "x"]) == 2
    assert cli.main(["machines", "rename", "x", "x"]) == 2
    assert cli.main(["machines", "rename", OLD, "db1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["was"] == OLD
