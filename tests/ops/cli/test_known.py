"""Unknown names in settings files and variables; `config`; errors as JSON; near names; subcommands."""

import json
import os

import pytest

from ops.cli import known
from ops.cli import main as cli
from ops.cli.commands import COMMANDS, GROUPS
from ops.cli.main import OTHER_WORDS
from schemas.process.flags import hints_of
from schemas.process.settings import SettingsError


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in [name for name in os.environ if name.startswith("WINDWARD_")]:
        monkeypatch.delenv(name)


def test_the_file_of_names_is_current():
    assert known.stored() == known.live()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("[rnak]\ntop = 3", "rnak in {}: no such table; did you mean rank?", id="table"),
        pytest.param("timeout = 3", "timeout in {}: is outside of every table; did you mean timeout", id="outside"),
        pytest.param(
            "[all]\nlog_fromat = 'json'", "log_fromat: no such setting in [all] of {}; did you mean", id="all"
        ),
        pytest.param("[rank]\ntopp = 3", "topp: no such setting in [rank] of {}; did you mean top?", id="key"),
        pytest.param("[agent]\nintervals = 3", "intervals: no such setting in [agent] of {}", id="other command's"),
        pytest.param("[rank]\ntop = 0", "top: expected a whole number of 1 or more, got 0 ([rank] of {})", id="value"),
        pytest.param("[agent]\ninterval_s = '5x'", "interval_s: '5x' is not a duration such as 90s, 5m", id="time"),
    ],
)
def test_a_mistake_in_a_settings_file_is_told_by_name(text, wanted, tmp_path, capsys):
    file = tmp_path / "windward.toml"
    file.write_text(text)
    assert cli.main(["config", "check", str(file)]) == 2
    assert wanted.replace("{}", str(file)) in capsys.readouterr().err


def test_each_mistake_of_a_settings_file_is_told_at_once(tmp_path, capsys):
    """Unknown tables and keys, values by themselves and together; what only an argument gives is no mistake."""
    file = tmp_path / "windward.toml"
    scorer = "[scorer]\nnosuch = 1\nsilent_s = 0.6\n"
    file.write_text(f"[rank]\ntop = 0\nprofile = 3\n{scorer}[rnak]\n[drain]\nttl_s = '5m'\n")
    assert cli.main(["config", "check", str(file)]) == 2
    told = [line.removeprefix("windward config: ") for line in capsys.readouterr().err.splitlines()]
    assert [line.partition(":")[0] for line in told] == ["nosuch", f"rnak in {file}", "top", "profile", "silent_s"]


def test_a_command_refuses_a_file_with_an_unknown_table(tmp_path, capsys):
    file = tmp_path / "windward.toml"
    file.write_text("[rnak]\ntop = 3")
    assert cli.main(["profiles", "--config", str(file)]) == 2
    assert "did you mean rank?" in capsys.readouterr().err


def test_the_help_has_every_command_once_in_its_group(capsys):
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
    assert cli.main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [lines[2], lines[3].split(maxsplit=1)] == ["place:", ["place", COMMANDS["place"][1]]]
    assert [line[:-1] for line in lines if line.endswith(":") and not line.startswith(" ")] == list(GROUPS)


def test_machines_is_a_count_and_a_fleet_file_a_file():
    meant = {
        name: {hints_of(cls)[name] for command in COMMANDS for cls in known.classes(command) if name in hints_of(cls)}
        for name in ("machines", "fleet_file")
    }  # fmt: skip
    assert all("int" in str(kind) for kind in meant["machines"]), meant
    assert meant["fleet_file"] == {str | None}


def test_the_name_of_a_command_is_said_once(tmp_path, capsys):
    assert cli.main(["config", "check", str(tmp_path / "none.toml")]) == 2
    assert capsys.readouterr().err.startswith("windward config: " + str(tmp_path))


def test_a_default_of_several_values_is_shown_as_it_is_given(capsys):
    with pytest.raises(SystemExit):
        cli.main(["exporter", "--help"])
    assert "(default mean,std,p95)" in " ".join(capsys.readouterr().out.split())


def test_an_unknown_variable_is_refused(monkeypatch, capsys):
    """With the near one; those of other commands, and secrets' files, are known."""
    monkeypatch.setenv("WINDWARD_KAFKA", "b:9092")
    monkeypatch.setenv("WINDWARD_REDIS_PASSWORD_FILE", "/dev/null")
    assert cli.main(["profiles"]) == 0
    monkeypatch.setenv("WINDWARD_TOPP", "3")
    assert cli.main(["profiles"]) == 2
    assert "variable WINDWARD_TOPP: no command has such a setting; did you mean WINDWARD_TOP" in capsys.readouterr().err


def test_a_name_that_the_file_lacks_is_looked_for_in_the_commands(monkeypatch):
    monkeypatch.setattr(known, "stored", lambda: {"rank": ["top"]})
    known.refuse_unknown([], {"WINDWARD_KAFKA": "b:9092"})
    with pytest.raises(SettingsError, match="WINDWARD_KAFKAA"):
        known.refuse_unknown([], {"WINDWARD_KAFKAA": "b:9092"})


def test_the_example_is_good(capsys):
    assert cli.main(["config", "check", "docs/examples/settings.toml"]) == 0
    assert "good" in capsys.readouterr().out


def test_config_show_tells_each_value_and_its_source(monkeypatch, tmp_path, capsys):
    """Default, file, variable, flag; a secret's value is not shown."""
    file = tmp_path / "windward.toml"
    file.write_text("[rank]\ntop = 3\ntimeout = '2s'")
    monkeypatch.setenv("WINDWARD_PREFIX", "other")
    monkeypatch.setenv("WINDWARD_REDIS_PASSWORD", "hush")
    assert cli.main(["config", "show", "rank", "--config", str(file), "--top", "4", "--json"]) == 0
    text = capsys.readouterr().out
    shown = json.loads(text)
    assert shown["top"] == {"value": 4, "source": "flag --top"}
    assert shown["timeout"] == {"value": 2.0, "source": f"[rank] of {file}"}
    assert shown["prefix"] == {"value": "other", "source": "variable WINDWARD_PREFIX"}
    assert shown["redis_url"]["source"] == "default"
    assert "hush" not in text


@pytest.mark.parametrize("command", ["fold", "replay", "instances", "machines", "drain", "plan", "profiles", "config"])
def test_config_show_needs_no_arguments(command, capsys):
    assert cli.main(["config", "show", command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_config_show_refuses_wrong_settings_without_arguments():
    assert cli.main(["config", "show", "rank", "--top", "0"]) == 2
    assert cli.main(["config", "show", "agent", "--kafka-security", "SASL_SSL"]) == 2
    assert cli.main(["config", "show", "replay", "--seeds", "x"]) == 2


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        pytest.param(["plcae"], "no command 'plcae'; did you mean place?", id="command"),
        pytest.param(["status"], "no command 'status'; did you mean doctor or health?", id="another program's word"),
        pytest.param(["cordon", "a"], "no command 'cordon'; did you mean machines cordon?", id="second word alone"),
        pytest.param(["place", "db-1"], "a value goes behind its flag, such as --id", id="no flag"),
        pytest.param(["place", "--cpu", "2", "--memory", "10"], "10 is 10 bytes; did you mean 10G", id="no unit"),
        pytest.param(["rank", "--explian"], "did you mean --explain?", id="flag that has a --no"),
        pytest.param(["instances", "--srt", "x"], "--srt; --help lists the settings", id="flag like none"),
        pytest.param(["machines", "list", "--state", "hot"], "state: expected fresh, stale, silent", id="choices"),
        pytest.param(["place", "--memroy", "1G"], "--memroy; did you mean --memory", id="flag"),
        pytest.param(["machines", "corden", "a"], "no `machines corden`; did you mean cordon", id="second word"),
        pytest.param(["machines", "list", "--sort", "cpus"], "sort: expected machine, cpu, memory", id="choice"),
        pytest.param(["place"], "no amount is requested: give --cpu and --memory (or --best-effort)", id="no amount"),
        pytest.param(["place", "--cpu", "2", "--memory", "10g"], "did you mean 10G?", id="suffix"),
        pytest.param(["place", "--cpu", "2", "--ttl-s", "5x"], "'5x' is not a duration such as 90s", id="duration"),
    ],
)
def test_a_mistake_says_what_was_meant(argv, hint, capsys):
    assert cli.main(argv) == 2
    said = capsys.readouterr().err
    assert hint in said
    assert said.count("\n") == 1


def test_an_error_under_json_is_json(capsys):
    assert cli.main(["place", "--json", "--cpu", "2", "--ttl-s", "soon"]) == 2
    out, err = capsys.readouterr()
    error = json.loads(err)
    assert (out, error["code"], error["field"]) == ("", "INVALID_ARGUMENT", "ttl_s")
    assert "'soon' is not a duration" in error["message"]
    assert cli.main(["health", "--json", "--timeout", "0.1", "--redis-url", "redis://127.0.0.1:1/0"]) == 4
    assert json.loads(capsys.readouterr().err)["code"] == "UNAVAILABLE"


def test_flags_may_stand_before_the_second_word(capsys):
    assert cli.main(["profiles", "--json", "show", "seed"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "seed"


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_fits_and_has_examples(command, capsys):
    """Examples stand before the settings; a second word has its own help."""
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    text = capsys.readouterr().out
    assert "examples:\n  windward " in text
    assert "``" not in text
    if "\nsettings:" in text:
        assert text.index("examples:") < text.index("\nsettings:")
    assert "\nRedis:" not in text or text.index("\noutput:" if "\noutput:" in text else "settings:") < text.index(
        "\nRedis:"
    )


def test_words_of_other_programs_lead_to_commands_that_exist():
    for words, meant in OTHER_WORDS.items():
        assert not set(words) & set(COMMANDS)
        for command in meant:
            assert command == "--version" or command.split()[0] in COMMANDS
