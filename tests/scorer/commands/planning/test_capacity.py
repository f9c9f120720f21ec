"""``windward capacity`` from a file: the count, by label, what limits it, one more machine, and if a zone is lost."""

import json

import pytest

from scorer.commands.planning.capacity import main
from tests.scorer.fleets import machine

KIND = ("--cpu", "2", "--memory", "10G", "--profile", "kubernetes")


@pytest.fixture
def file(tmp_path):
    idle = {"cpu": 0.5, "memory": "5G"}
    machines = [
        machine("a1", 8, "64G", usage=idle, labels={"zone": "a"}),
        machine("a2", 8, "64G", usage=idle, labels={"zone": "a"}),
        machine("b1", 8, "64G", usage=idle, labels={"zone": "b"}),
        machine("b2", 4, "32G", usage=idle, labels={"zone": "b"}),
    ]
    instances = [
        {"id": "x", "machine": "a1", "cpu": 4, "memory": "10G"},
        {"id": "y", "machine": "b2", "cpu": 3, "memory": "10G"},
    ]
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps({"machines": machines, "instances": instances}))
    return str(path)


def run(capsys, file, *words, code=0):
    assert main(["--fleet-file", file, *words], {}) == code
    return capsys.readouterr().out


def as_json(capsys, file, *words):
    return json.loads(run(capsys, file, "--json", *words))


def test_how_many_fit_and_what_limits_them(capsys, file):
    answer = as_json(capsys, file, *KIND, "--by", "zone")
    assert (answer["fit"], answer["machines_with_room"]) == (10, 3)
    assert answer["by"] == {"a": 6, "b": 4}
    assert sum(one["machines"] for one in answer["limits"]) == 4
    assert {one["filter"] for one in answer["limits"]} == {"fits"}
    shown = run(capsys, file, *KIND, "--by", "machine")
    assert shown.startswith("10 more fit, on 3 machines (4 machines, 2 instances, profile kubernetes)")
    assert "a2       4" in shown


def test_one_more_machine(capsys, file):
    found = as_json(capsys, file, *KIND)["one_more_machine"]
    assert [(one["capacity"]["cpu"], one["machines"], one["copies"]) for one in found] == [(8.0, 3, 4), (4.0, 1, 2)]


def test_room_is_kept_for_the_loss_of_a_machine(capsys, file, tmp_path):
    """Of 28 cores the 8 of the largest machine are kept, and 7 are promised: six times two fit."""
    filters = '[[filters]]\nuse = "fits"\nbasis = "requests"\n'
    (safe := tmp_path / "safe.toml").write_text(f'survive = "machine"\n{filters}[[scores]]\nuse = "least_allocated"\n')
    answer = as_json(capsys, file, *KIND[:4], "--profile", str(safe))
    assert answer["fit"] == 6
    assert {one["filter"] for one in answer["limits"]} == {"fits", "survive"}
    assert [one["copies"] for one in answer["one_more_machine"]] == [4, 2]


def test_what_if_a_zone_is_lost(capsys, file, tmp_path):
    """Its instances are placed anew first, then the rest is counted; also by a profile that looks at no labels."""
    (bare := tmp_path / "bare.toml").write_text('[[filters]]\nuse = "fits"\n[[scores]]\nuse = "least_allocated"\n')
    for more in ([], ["--profile", str(bare)]):
        answer = as_json(capsys, file, *KIND, "--if-lost", "zone=a", *more)
        assert answer["lost"] == {"machines": 2, "placed": 1, "homeless": [], "homeless_count": 0}
        assert answer["fit"] == (1 if more else 2)
    assert "without 2 machines: 1 instance placed anew, all find a machine" in run(
        capsys, file, *KIND, "--if-lost", "zone=a"
    )


def test_a_lost_zone_holds_up_no_skew(capsys, file):
    """Its instances, and more, go to the other zone, as if the lost one had never been there."""
    apart = ("--cluster", "c", "--apart-by", "zone", "--skew", "1", "--profile", "kubernetes", "--if-lost", "zone=a")
    assert as_json(capsys, file, *KIND[:4], *apart)["fit"] > 1


def test_none_fits(capsys, file):
    assert run(capsys, file, "--cpu", "100", code=3).startswith("0 more fit")


def test_sizes_that_differ_in_another_resource_are_told_apart(capsys, tmp_path):
    idle = {"cpu": 0.5, "memory": "5G"}
    machines = [machine(f"m{n}", 8, "64G", capacity={"nic": nic}, usage=idle) for n, nic in enumerate(("1G", "10G"))]
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps({"machines": machines, "instances": []}))
    lines = [line for line in run(capsys, str(path), *KIND).splitlines() if line.startswith("one more machine with")]
    assert sorted(line.rpartition(":")[0] for line in lines) == [
        "one more machine with cpu 8, memory 64.0G, nic 1.0G", "one more machine with cpu 8, memory 64.0G, nic 10.0G",
    ]  # fmt: skip
