"""The dashboard of the fleet: balance of load, headroom, machines of highest load, refusals of a small request."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.exporter.settings import unit_name
from ops.grafana.page import LABEL, RESOURCE, WINDOW, Row, page
from ops.grafana.panels import (
    AGE,
    ANY_IS_BAD,
    LOAD,
    PLAIN,
    SAMPLE_AGE,
    SOME_IS_GOOD,
    Bars,
    Figures,
    Heat,
    Lines,
    Panel,
    Rows,
    Steps,
    by_quantile,
    each,
)
from schemas.resources import ABOUT, RESOURCES, UNITS

HERE = '{resource="$resource",window="$window"}'
IMBALANCE: Steps = ((None, "green"), (0.2, "yellow"), (0.3, "red"))
STATES = {"fresh": "green", "stale": "red", "silent": "orange", "cordoned": "purple", "warming": "blue"}
LABELLED = 'label_replace(windward_machine_info{$label=~"$value",$label!=""}, "group", "$1", "$label", "(.*)")'
"""The chosen label's value under one name: a label may not be both what machines are joined by and what they are grouped by."""
NO_CLASSES = "no classes in use: the exporter's profile does not count by class"
NO_FRESH = "no machine is known, most are stale, or no exporter answers"
_UNITS = {"cores": "suffix: cores", "bytes": "bytes", "bytes/s": "Bps"}
"""Grafana's units; another resource is shown as a plain number."""


def dashboard() -> Dashboard:
    variables = [WINDOW, RESOURCE, *LABEL]
    return page(
        "windward-fleet",
        "Windward / Fleet",
        "Windowed load of all machines: distribution, imbalance, headroom, hottest machines",
        variables,
        [
            Row("Now", _now()),
            Row("Load over the machines", _load()),
            Row("Machines", _machines()),
            Row("Room", _room()),
            Row("Priority classes", _classes(), collapsed=True),
        ],
    )


def _now() -> list[Panel]:
    return [
        Figures(
            "Machines", "Fresh, stale and silent (never seen) are all machines; figures of load are over the fresh, and left out while most are stale.",
            [("windward:fleet_machines:max", "{{state}}")], "short", width=9, steps=PLAIN,
            own_steps={"stale": ANY_IS_BAD, "silent": ((None, "blue"), (1, "orange"))},
        ),
        Figures(
            "Imbalance", "Standard deviation of the load over the machines; lower is more even.",
            [('windward:fleet_utilization_stddev_ratio:max{window="$window"}', "{{resource}}")], "percentunit", width=6,
            decimals=1, steps=IMBALANCE, empty=NO_FRESH, graph=False,
        ),
        Figures(
            "Take a small request", "Machines that all filters of the profile allow for the exporter's probe request.",
            each("windward_fleet_probe_feasible_machines", "profile"), "short", width=3, steps=SOME_IS_GOOD,
        ),
        Figures(
            "Newest sample", "Age of the newest sample of any machine.",
            [(SAMPLE_AGE, "age")], "s", width=3, decimals=1, steps=AGE,
        ),
        Figures(
            "Highest risk", "Largest risk of any machine's worst resource, by mean, deviation and credits.",
            [('max(windward_fleet_risk_ratio{quantile="1.0"})', "risk")], "percentunit", width=3, decimals=0,
            steps=LOAD, empty=NO_FRESH, graph=False,
        ),
    ]  # fmt: skip


def _load() -> list[Panel]:
    threshold = 'max by (resource) (windward_fleet_threshold_ratio{resource="$resource"})'
    return [
        Heat(
            "Machines by load: $resource, $window",
            "How many machines have which mean load of the window; dark is many. A fleet in balance is one narrow band.",
            [(f"max by (le) (windward_fleet_machines_by_utilization{HERE})", "{{le}}")],
        ),
        Lines(
            "Quantiles of the load: $resource, $window", "Load of the machine at each quantile; dashed the profile's threshold.",
            [*by_quantile("windward:fleet_utilization_ratio:max", f",{HERE[1:-1]}"), (threshold, "threshold")], "percentunit",
            steps=LOAD, high=1, limit="threshold", width=12,
        ),
        Lines(
            "Imbalance: $resource by window", "Standard deviation of the load over the machines, by window.",
            [('windward:fleet_utilization_stddev_ratio:max{resource="$resource"}', "{{window}}")], "percentunit",
            steps=IMBALANCE, width=12, empty=NO_FRESH,
        ),
        Lines(
            "Mean load: $window", "Mean over the machines, by resource.",
            [('max by (resource) (windward_fleet_utilization_mean_ratio{window="$window"})', "{{resource}}")],
            "percentunit", steps=LOAD, high=1, width=12, empty=NO_FRESH,
        ),
        Lines(
            "Risk", "Risk of each machine's worst resource, quantiles over the machines.",
            by_quantile("windward_fleet_risk_ratio"), "percentunit", steps=LOAD, high=1, width=12, empty=NO_FRESH,
        ),
    ]  # fmt: skip


def _machines() -> list[Panel]:
    mean = f'max by (machine) (windward_machine_utilization_ratio{{statistic="mean",{HERE[1:-1]}}})'
    hottest = f'topk(15, ({mean}) and on (machine) windward_machine_info{{$label=~"$value"}})'

    def beside(expression: str) -> str:
        return f"{expression} and on (machine) ({hottest})"

    return [
        Rows(
            "Hottest machines: $resource, $window",
            "The fifteen with the highest mean of the window, among those with the chosen label. p95 is there while the"
            " exporter shows it (setting statistics).",
            [(hottest, "mean", "percentunit"),
             (beside(f"max by (machine) (windward_machine_utilization_stddev_ratio{HERE})"), "std", "percentunit"),
             ( beside(f'max by (machine) (windward_machine_utilization_ratio{{statistic="p95",{HERE[1:-1]}}})'), "p95", "percentunit", ),
             (beside("max by (machine) (windward_machine_risk_ratio)"), "risk", "percentunit"),
             ( beside('max by (machine) (windward_machine_requested_ratio{resource="$resource"})'), "allocated", "percentunit", ),
             (beside("max by (machine) (windward_machine_instances)"), "instances", "short"),
             (beside("max by (machine) (windward_machine_cordoned)"), "cordoned", "short")], by="machine", width=16,
            steps=LOAD, empty="no such machine has fresh data, or no exporter answers",
            link="/d/windward-machine?var-machine=${__value.text}&${fleet:queryparam}&${window:queryparam}&${resource:queryparam}"
            "&${datasource:queryparam}&${__url_time_range}",
        ),
        Lines(
            "States", "Fresh, stale and silent machines; what is not fresh takes no new instance.",
            [('windward:fleet_machines:max{state=~"fresh|stale|silent"}', "{{state}}")], "short", height=10,
            stacked=True, colors=STATES,
        ),
        Lines(
            "Soon hot: chance of high CPU within an hour",
            "The ten machines with the highest chance of CPU load above the exporter's setting soon_hot_limit, and the part of"
            " the fleet with a chance above a half.",
            [*each("windward_machine_soon_hot_ratio", "machine"), ("max(windward_fleet_soon_hot_ratio)", "of the fleet")],
            "percentunit", high=1, width=24, empty=NO_FRESH,
        ),
        Bars(
            "Mean by $label: $resource, $window", "Mean load of the machines with each value of the chosen label (at most ten).",
            [(f"topk(10, avg by (group) ({mean} * on (machine) group_left (group) max by (machine, group) ({LABELLED})))",
              "{{group}}")],
            "percentunit", steps=LOAD, width=12, empty="no machine with fresh data has this label, or no exporter answers",
        ),
        Lines(
            "Broken rules", "Groups with more members on a machine, or in a rack, than a rule allows, by cause: what was changed"
            " since they were placed.", each("windward_fleet_rule_violations", "why"), "short", stacked=True, width=12,
            empty="not counted yet, or no planner runs",
        ),
    ]  # fmt: skip


def _room() -> list[Panel]:
    return [
        Lines(
            "Headroom", "What is neither used nor allocated on fresh machines that are not cordoned, of what all machines have. Left out"
            " while most machines are stale: an outage is no full fleet.",
            each("windward_fleet_headroom_ratio", "resource"), "percentunit", high=1,
            empty=NO_FRESH,
            steps=((None, "red"), (0.1, "yellow"), (0.2, "green")),
        ),
        Lines(
            "Allocated", "Sum of the requests of all instances, of what all machines have.",
            each("windward_fleet_requested_ratio", "resource"), "percentunit", steps=LOAD,
        ),
        Lines(
            "Refusals of a small request", "Machines that refuse the probe request, by the first filter that does.",
            each("windward_fleet_probe_refusals", "filter"), "short", stacked=True,
        ),
        Lines(
            "Instances", "In the ledger, by state.", each("windward_fleet_instances", "state"), "short", stacked=True, width=12,
        ),
        Lines(
            "Without a place", "Instances that would find no place if the machine or rack were lost whose loss is the worst."
            " Counted where the planner's profile has survive.", [("max(windward_fleet_without_place_instances)", "instances")],
            "short", width=12, empty="not counted yet, or no planner runs whose profile has survive",
        ),
        allocatable(
            "fleet", "What all machines have together, after the operators' shares and reserves.", share="short", width=24,
            height=8,
        ),
    ]  # fmt: skip


def _classes() -> list[Panel]:
    """Return the panels by priority class, which are empty unless the exporter's profile counts by class."""
    of = '{resource="$resource"}'
    return [
        Lines(
            "Room by class: $resource",
            "What may be allocated to a class, of what all machines have: to prod by ratio, to others what is reclaimable.",
            [(f"max by (class) (windward_fleet_class_room_ratio{of})", "{{class}}")], "percentunit", empty=NO_CLASSES,
        ),
        Lines(
            "Allocated by class: $resource", "What the instances of a class ask for, of what all machines have.",
            [(f"max by (class) (windward_fleet_class_promised_ratio{of})", "{{class}}")], "percentunit", empty=NO_CLASSES,
        ),
        Lines(
            "Used by class: $resource", "What they are measured to use, of what all machines have.",
            [(f"max by (class) (windward_fleet_class_used_ratio{of})", "{{class}}")], "percentunit", stacked=True,
            empty=NO_CLASSES,
        ),
        Bars(
            "Least reclaimable: $resource", "The ten machines with the least room for batch, of what is allocatable there.",
            [(f'bottomk(10, max by (machine) (windward_machine_reclaimable_ratio{{class="batch",{of[1:-1]}}}))', "{{machine}}")],
            "percentunit", width=24, empty=NO_CLASSES,
        ),
    ]  # fmt: skip


def allocatable(
    of: str, about: str, where: str = "", *, share: str = "percentunit", width: int, height: int = 4
) -> Figures:
    """Return the amounts of each resource that the fleet or a machine has; ``share``: the unit of shares of time."""
    units = {name: share if ABOUT[name].is_share else _UNITS.get(UNITS[name], "short") for name in RESOURCES}
    asked = [(f"max(windward_{of}_allocatable_{name}_{unit_name(name)}{where})", name) for name in RESOURCES]
    return Figures(
        "Allocatable", about, asked, "short", width=width, height=height, graph=False, decimals=1, units=units
    )
