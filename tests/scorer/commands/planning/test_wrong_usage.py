"""What the commands that plan from a file refuse, on one line that names the flag."""

from pathlib import Path

import pytest

from schemas.process.settings import SettingsError
from scorer.commands.planning import capacity, drain, plan, rebalance

FILE = str(Path(__file__).parents[4] / "docs" / "examples" / "hot.json")
RULE = ("--rule", "thresholds")


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        (capacity, ["--if-lost", "zone=z"], "if_lost: no machine has the label zone=z"),
        (capacity, ["--if-lost", "zone=a,rack=b"], "if_lost: expected one LABEL=VALUE, got 2"),
        (capacity, ["--cpu", "lots"], "cpu: 'lots' is not an amount"),
        (capacity, ["--profile", "none"], "profile: no profile 'none'"),
        (drain, [], "drain which machines?"),
        (drain, ["a1", "--consolidate", "1"], "consolidate: chooses the machines itself"),
        (drain, ["*"], "'*' would drain every machine"),
        (drain, ["a1", "--undo"], "fleet_file: a file is only planned on"),
        (drain, ["a1", "--apply"], "fleet_file: a file is only planned on"),
        (drain, ["a1", "--wait"], "fleet_file: a file is only planned on"),
        (drain, ["a1", "--profile", "none"], "profile: no profile 'none'"),
        (drain, ["--selector", "= ="], "selector: cannot read"),
        (plan, ["file", "--apply", "--fleet-file", FILE], "apply: a file is only planned on"),
        (plan, ["file", "--prune-labels", "a=b"], "prune_labels: goes with --prune"),
        (plan, ["file", "--apply", "--profile", "mine.toml"], "profile: --apply needs a profile of the scorer"),
        (rebalance, ["--rule", "thresholds"], 'high: rule "thresholds" needs high and low'),
        (rebalance, ["--rule", "repair", "--high", "cpu=65"], 'high: rule "repair" knows no thresholds'),
        (rebalance, ["--prod-high", "cpu=65"], 'prod_high: prod_high and prod_low are of rule "thresholds"'),
        (rebalance, ["--classes", "gold"], "classes: no class 'gold'; there are prod, mid"),
        (rebalance, ["--apply"], "apply: the machines of a file cannot be reserved"),
        (rebalance, [*RULE, "--high", "cup=65", "--low", "cpu=1"], "high: no resource 'cup'; there are cpu, memory"),
        (rebalance, [*RULE, "--high", "cpu=65", "--low", "memory=1"], "high: high and low name the same resources"),
        (rebalance, [*RULE, "--high", "cpu=650", "--low", "cpu=1"], "high.cpu: expected a percentage from 0 to 100"),
        (rebalance, ["--profile", "none"], "profile: no profile 'none'"),
        (rebalance, ["--fleet-file", "nothing.json"], "nothing.json"),
    ],
)
def test_wrong_usage_is_one_line(command, words, message):
    with pytest.raises(SettingsError) as error:
        command.main([*([] if command is plan else ["--fleet-file", FILE]), *words], {})
    assert message in str(error.value)
    assert "\n" not in str(error.value)
