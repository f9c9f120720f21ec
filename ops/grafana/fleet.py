"""The dashboard of the fleet: balance of load, headroom, machines of highest load, refusals of a small request."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.exporter.selection import unit_name
from ops.grafana import parts
from schemas.resources import ABOUT, RESOURCES, UNITS

HERE = '{resource="$resource",window="$window"}'
IMBALANCE: parts.Steps = ((None, "green"), (0.2, "yellow"), (0.3, "red"))
GRAFANA_UNITS = {"cores": "suffix: cores", "bytes": "bytes", "bytes/s": "Bps", "share of time": "percentunit"}
"""Grafana's units; another resource is shown as a plain number."""


def dashboard() -> Dashboard:
    """Return the dashboard."""
    variables = [parts.window_variable(), parts.resource_variable(), *parts.label_variables()]
    return parts.page(
        "windward-fleet",
        "Windward / Fleet",
        "Windowed load of all machines: distribution, imbalance, headroom, hottest machines",
        variables,
        [
            ("Now", _now()),
            ("Load over the machines", _load()),
            ("Machines", _machines()),
            ("Room", _room()),
            ("Priority classes", _classes()),
        ],
    )


def _now() -> list[parts.Panel]:
    return [
        parts.Figures(
            "Machines", "Fresh, stale and silent (never seen) are all machines; figures of load are over the fresh.",
            [("windward:fleet_machines:max", "{{state}}")], "short", width=9, steps=parts.PLAIN,
        ),
        parts.Figures(
            "Imbalance", "Standard deviation of the load over the machines; lower is more even.",
            [('windward:fleet_utilization_stddev_ratio:max{window="$window"}', "{{resource}}")],
            "percentunit", width=6, decimals=1, steps=IMBALANCE,
        ),
        parts.Figures(
            "Take a small request", "Machines that all filters of the profile allow for the exporter's probe request.",
            [("max by (profile) (windward_fleet_probe_feasible_machines)", "{{profile}}")], "short", width=3,
            steps=parts.SOME_IS_GOOD,
        ),
        parts.Figures(
            "Newest sample", "Age of the newest sample of any machine.",
            [("windward:sample_age_seconds:min", "age")], "s", width=3, decimals=1, steps=parts.AGE,
        ),
        parts.Figures(
            "Highest risk", "Largest risk of any machine's worst resource, by mean, deviation and credits.",
            [('max(windward_fleet_risk_ratio{quantile="1.0"})', "risk")], "percentunit", width=3, decimals=0,
            steps=parts.LOAD,
        ),
    ]  # fmt: skip


def _load() -> list[parts.Panel]:
    threshold = 'max by (resource) (windward_fleet_threshold_ratio{resource="$resource"})'
    return [
        parts.Heat(
            "Machines by load: $resource, $window",
            "How many machines have which mean load of the window; dark is many. A fleet in balance is one narrow band.",
            [(f"max by (le) (windward_fleet_machines_by_utilization{HERE})", "{{le}}")],
        ),
        parts.Lines(
            "Quantiles of the load: $resource, $window",
            "Load of the machine at each quantile; dashed the profile's threshold.",
            [(f"windward:fleet_utilization_ratio:max{HERE}", "{{quantile}}"), (threshold, "threshold")],
            "percentunit", steps=parts.LOAD, high=1, limit="threshold",
        ),
        parts.Lines(
            "Imbalance: $resource by window", "Standard deviation of the load over the machines, by window.",
            [('windward:fleet_utilization_stddev_ratio:max{resource="$resource"}', "{{window}}")],
            "percentunit", steps=IMBALANCE,
        ),
        parts.Lines(
            "Mean load: $window", "Mean over the machines, by resource.",
            [('max by (resource) (windward_fleet_utilization_mean_ratio{window="$window"})', "{{resource}}")],
            "percentunit", steps=parts.LOAD, high=1,
        ),
        parts.Lines(
            "Risk", "Risk of each machine's worst resource, quantiles over the machines.",
            [("max by (quantile) (windward_fleet_risk_ratio)", "{{quantile}}")], "percentunit", steps=parts.LOAD, high=1,
        ),
    ]  # fmt: skip


def _machines() -> list[parts.Panel]:
    mean = f'max by (machine) (windward_machine_utilization_ratio{{statistic="mean",{HERE[1:-1]}}})'
    hottest = f"topk(15, {parts.chosen(mean)})"

    def beside(expression: str) -> str:
        return f"{expression} and on (machine) ({hottest})"

    return [
        parts.Rows(
            "Hottest machines: $resource, $window",
            "The fifteen with the highest mean of the window, among those with the chosen label. p95 is there while the"
            " exporter shows it (setting statistics).",
            [
                (hottest, "mean", "percentunit"),
                (beside(f"max by (machine) (windward_machine_utilization_stddev_ratio{HERE})"), "std", "percentunit"),
                (
                    beside(f'max by (machine) (windward_machine_utilization_ratio{{statistic="p95",{HERE[1:-1]}}})'),
                    "p95", "percentunit",
                ),
                (beside("max by (machine) (windward_machine_risk_ratio)"), "risk", "percentunit"),
                (
                    beside('max by (machine) (windward_machine_requested_ratio{resource="$resource"})'), "allocated",
                    "percentunit",
                ),
                (beside("max by (machine) (windward_machine_instances)"), "instances", "short"),
                (beside("max by (machine) (windward_machine_cordoned)"), "cordoned", "short"),
            ],
            by="machine", width=16, steps=parts.LOAD,
            link="/d/windward-machine?var-machine=${__value.text}&${window:queryparam}&${resource:queryparam}"
            "&${datasource:queryparam}&${__url_time_range}",
        ),
        parts.Lines(
            "States", "Fresh, stale and silent machines; what is not fresh takes no new instance.",
            [('windward:fleet_machines:max{state=~"fresh|stale|silent"}', "{{state}}")], "short", width=8, height=10,
            stacked=True,
        ),
        parts.Bars(
            "Mean by $label: $resource, $window", "Mean load of the machines with each value of the chosen label (at most ten).",
            [((f"topk(10, avg by ($label) ({mean} * on (machine) group_left ($label) max by (machine, $label)"
              ' (windward_machine_info{$label=~"$value",$label!=""})))'), "{{$label}}")],
            "percentunit", steps=parts.LOAD, width=12,
        ),
        parts.Lines(
            "Out of use", "Machines that are cordoned, warming or stale.",
            [('windward:fleet_machines:max{state=~"cordoned|warming|stale"}', "{{state}}")], "short", width=12,
        ),
    ]  # fmt: skip


def _room() -> list[parts.Panel]:
    totals = [
        (
            f"max(windward_fleet_allocatable_{name}_{unit_name(name)})",
            name,
            "short" if ABOUT[name].is_share else GRAFANA_UNITS.get(UNITS[name], "short"),
        )
        for name in RESOURCES
    ]
    return [
        parts.Lines(
            "Headroom", "What is neither used nor allocated on fresh machines that are not cordoned, of what all machines have.",
            [("max by (resource) (windward_fleet_headroom_ratio)", "{{resource}}")], "percentunit", width=8, high=1,
            steps=((None, "red"), (0.1, "yellow"), (0.2, "green")),
        ),
        parts.Lines(
            "Allocated", "Sum of the requests of all instances, of what all machines have.",
            [("max by (resource) (windward_fleet_requested_ratio)", "{{resource}}")], "percentunit", width=8,
            steps=parts.LOAD,
        ),
        parts.Lines(
            "Refusals of a small request", "Machines that refuse the probe request, by the first filter that does.",
            [("max by (filter) (windward_fleet_probe_refusals)", "{{filter}}")],
            "short", width=8, stacked=True,
        ),
        parts.Lines(
            "Instances", "In the ledger, by state.",
            [("max by (state) (windward_fleet_instances)", "{{state}}")], "short", width=8, stacked=True,
        ),
        parts.Figures(
            "Allocatable", "What all machines have together, after the operators' shares and reserves.",
            [(expression, name) for expression, name, _ in totals], "short", width=16, height=8, graph=False, decimals=1,
            units={name: unit for _, name, unit in totals},
        ),
    ]  # fmt: skip


def _classes() -> list[parts.Panel]:
    """Return the panels by priority class, which are empty unless the exporter's profile counts by class."""
    of = '{resource="$resource"}'
    return [
        parts.Lines(
            "Room by class: $resource",
            "What may be allocated to a class, of what all machines have: to prod by ratio, to others what is reclaimable.",
            [(f"max by (class) (windward_fleet_class_room_ratio{of})", "{{class}}")], "percentunit", width=8,
        ),
        parts.Lines(
            "Allocated by class: $resource", "What the instances of a class ask for, of what all machines have.",
            [(f"max by (class) (windward_fleet_class_promised_ratio{of})", "{{class}}")], "percentunit", width=8,
        ),
        parts.Lines(
            "Used by class: $resource", "What they are measured to use, of what all machines have.",
            [(f"max by (class) (windward_fleet_class_used_ratio{of})", "{{class}}")], "percentunit", width=8,
            stacked=True,
        ),
        parts.Bars(
            "Least reclaimable: $resource", "The ten machines with the least room for batch, of what is allocatable there.",
            [(f'bottomk(10, max by (machine) (windward_machine_reclaimable_ratio{{class="batch",{of[1:-1]}}}))',
              "{{machine}}")], "percentunit", width=24,
        ),
    ]  # fmt: skip
