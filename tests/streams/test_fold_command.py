"""``windward fold``: recorded samples in, the windows of the stream app out."""

import io
import json
import re
import sys

import numpy as np
import pytest

from ops.cli.main import main as windward
from schemas.messages.sample import MachineFacts, Moments, Usage, encode
from schemas.resources import RESOURCES
from streams.fold_command import fold_lines, main
from tests.streams import oracle
from tests.streams.batches import START, sample
from tests.support.in_process import refusal

WINDOWS = (300, 900, 3600)


def lines_of(*machines, slots=360, **more):
    return [encode(sample(machine, slot, **more)) for slot in range(slots) for machine in machines]


def fold_json(tmp_path, capsys, lines, *argv):
    path = tmp_path / "samples.jsonl"
    path.write_bytes(b"\n".join(lines))
    code = main([str(path), "--json", *argv], {})
    return code, json.loads(capsys.readouterr().out)


def test_the_windows_are_those_of_the_samples(tmp_path, capsys):
    """Every window, resource and statistic, against the oracle."""
    code, got = fold_json(tmp_path, capsys, lines_of("a", "b"))
    assert code == 0
    assert got["windows_s"] == list(WINDOWS)
    assert got["counts"] == {"accepted": 720}
    assert got["refused"] == []
    assert got["now"] == START + 3593
    assert [row["name"] for row in got["machines"]] == ["a", "b"]
    samples = [sample("a", slot) for slot in range(360)]
    for row in got["machines"]:
        assert (row["at"], row["end"], row["boot"], row["interval_s"]) == (START + 3593, START + 3600, 1, 10)
        assert row["skew_s"] == 0
        assert row["capacity"] == {"cpu": 64.0, "memory": 1.37e11}
        for window_s in WINDOWS:
            resources = row["windows"][str(window_s)]
            assert resources.keys() == {"cpu", "memory"}
            for resource, got_one in resources.items():
                wanted = oracle.window(samples, resource, window_s)
                for name in ("mean", "std", "max", "coverage", "filled"):
                    assert got_one[name] == pytest.approx(wanted[name], rel=1e-6), (window_s, resource, name)
                percentiles = [got_one[f"p{q}"] for q in (50, 90, 95, 99)]
                np.testing.assert_allclose(percentiles, wanted["percentile"], rtol=1e-6)
                assert got_one["warming"] is False


def test_a_short_recording_is_warming(tmp_path, capsys):
    _, got = fold_json(tmp_path, capsys, lines_of("a", slots=60))
    windows = got["machines"][0]["windows"]
    assert [windows[str(w)]["cpu"]["warming"] for w in WINDOWS] == [False, False, True]
    assert windows["3600"]["cpu"]["coverage"] == pytest.approx(1 / 6)


def test_refused_lines_are_named_and_the_rest_is_folded(tmp_path, capsys):
    lines = [b"garbage", b"", encode(sample("a", 0)), b'{"type":"sample","v":2}', encode(sample("a", 0)), b"   "]
    lines.append(b'{"v":1,"type":"\\u001b[2J\\u009b"}')
    path = tmp_path / "samples.jsonl"
    path.write_bytes(b"\r\n".join(lines))
    assert main([str(path), "--json"], {}) == 0
    captured = capsys.readouterr()
    got = json.loads(captured.out)
    assert [(r["line"], r["reason"]) for r in got["refused"]] == [(1, "malformed"), (4, "version"), (7, "malformed")]
    assert got["counts"] == {"accepted": 1, "duplicate": 1, "rejected:malformed": 2, "rejected:version": 1}
    assert [line.split(": ")[0] for line in captured.err.splitlines()] == ["line 1", "line 4", "line 7"]
    assert not re.search("[\x1b\x9b]", captured.err)
    assert "v is 2, this reader knows 1" in captured.err


@pytest.mark.parametrize("text", [b"", b"\n\n", b"garbage\n", b"\xff\xfe\x00"])
def test_nothing_usable_is_exit_1(tmp_path, capsys, text):
    code, got = fold_json(tmp_path, capsys, [text])
    assert code == 1
    assert (got["machines"], got["now"]) == ([], None)


def test_facts_without_samples_are_no_machine(tmp_path, capsys):
    code, got = fold_json(tmp_path, capsys, [encode(MachineFacts(v=1, machine="a", boot=1, at=START))])
    assert (code, got["machines"], got["counts"]) == (1, [], {"facts": 1})


def test_labels_classes_and_peaks_are_shown(tmp_path, capsys):
    lines = [encode(MachineFacts(v=1, machine="a", boot=1, at=START, labels={"zone": "z"}))]
    lines += lines_of("a", slots=30, classes={"batch": Usage(cpu=0.25)})
    lines += lines_of("b", slots=30, nic=Moments(10, 5.0, 0.0, 5.0, 100.0))
    _, got = fold_json(tmp_path, capsys, lines)
    a, b = got["machines"]
    assert (a["labels"], b["labels"]) == ({"zone": "z"}, {})
    assert a["classes"] == {"batch": dict.fromkeys(RESOURCES, 0.0) | {"cpu": 0.25}}
    assert b["classes"] == {}
    assert b["peak_today"]["nic"] == 5.0
    assert a["peak_today"]["cpu"] == pytest.approx(
        max(np.mean([1 + s % 7 for s in range(m, m + 6)]) for m in range(0, 30, 6))
    )
    assert a["peak_yesterday"] == {}
    assert a["peak_since"] == START


def test_windows_and_zone_are_settings(tmp_path, capsys):
    _, got = fold_json(tmp_path, capsys, lines_of("a"), "--windows-s", "60,600", "--time-zone", "Asia/Kathmandu")
    assert got["windows_s"] == [60, 600]
    assert got["machines"][0]["windows"].keys() == {"60", "600"}


def test_a_broken_last_line_changes_nothing():
    lines = [encode(sample("a", slot)) for slot in range(0, 20_000, 3)]
    for zone in ("UTC", "Asia/Kathmandu"):
        good = fold_lines(lines, WINDOWS, zone)
        assert fold_lines([*lines, b"{"], WINDOWS, zone)["machines"] == good["machines"]


def test_batches_do_not_show(monkeypatch):
    lines = [*lines_of("a", "b", slots=100), b"x", *lines_of("c", slots=50)]
    whole = fold_lines(lines, WINDOWS, "UTC")
    for size in (1, 7, 100):
        monkeypatch.setattr("streams.fold_command.BATCH", size)
        assert fold_lines(lines, WINDOWS, "UTC") == whole


def test_standard_input_is_a_file(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n".join(lines_of("a", slots=3)))))
    assert windward(["fold", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"accepted": 3}


def test_the_page_names_machine_window_and_resource(tmp_path, capsys):
    path = tmp_path / "samples.jsonl"
    path.write_bytes(b"\n".join(lines_of("db1.example.org", slots=40)))
    assert main([str(path)], {}) == 0
    shown = capsys.readouterr().out
    for word in ("db1.example.org", "5m", "1h", "cpu", "memory", "warming", "accepted 40"):
        assert word in shown


@pytest.mark.parametrize(
    ("name", "argv", "wanted"),
    [
        ("no file", [], "required: FILE"),
        ("missing file", ["/nowhere.jsonl"], "file: /nowhere.jsonl cannot be read: No such file or directory"),
        ("a directory", ["/"], "file: / cannot be read: Is a directory"),
        ("wrong windows", ["x", "--windows-s", "7"], "windows_s: expected ascending multiples of 10 s up to 3600 s"),
        ("no windows", ["x", "--windows-s", ""], "windows_s: expected ascending multiples"),
        ("unknown zone", ["x", "--time-zone", "Mars/Olympus"], "'Mars/Olympus' (flag --time-zone)"),
    ],
)
def test_wrong_settings_are_one_line_and_exit_2(name, argv, wanted):
    assert wanted in refusal("fold", *argv), name


def test_what_is_printed_is_a_fleet_to_rank(tmp_path, capsys):
    """`windward rank --fleet-file` takes the output as it is."""
    from scorer.commands.shared.fleet_file import read_fleet

    _, got = fold_json(tmp_path, capsys, lines_of("a", slots=30))
    fleet = read_fleet(got)
    assert list(fleet.snapshot.names) == ["a"]
    assert fleet.now_s == got["now"]
