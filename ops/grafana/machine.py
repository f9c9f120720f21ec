"""One machine: its windows, the band of mean and deviation, percentiles, peaks, what is allocated, and when it took instances."""

from grafana_foundation_sdk.builders import dashboard as builders

from ops.grafana.fleet import allocatable
from ops.grafana.page import LABEL, RESOURCE, WINDOW, Row, page, variable
from ops.grafana.panels import AGE, LOAD, SOURCE, Bars, Figures, Lines, Panel, Rows, of_fleet

ONE = 'machine="$machine"'
HERE = f'{{{ONE},resource="$resource",window="$window"}}'
NOT_FRESH = "no such machine, or it has no fresh data, or no exporter answers"
NO_REPORTS = "no agent reports instances of this machine"
UTILIZATION = "windward_machine_utilization_ratio"


def dashboard() -> builders.Dashboard:
    variables = [
        *LABEL,
        variable(
            "machine", "Machine", 'label_values(windward_machine_info{$label=~"$value"}, machine)',
            "The machine; the label before it narrows the choice",
        ),
        RESOURCE,
        WINDOW,
    ]  # fmt: skip
    made = page(
        "windward-machine",
        "Windward / Machine",
        "One machine's load by window, with deviation, percentiles, peaks, allocated amounts and placements",
        variables,
        [
            Row("$machine now", _now()),
            Row("$resource", _load()),
            Row("Placing", _placing()),
            Row("Instances and peaks", _instances(), collapsed=True),
        ],
    )
    for name, expression, color in (
        ("Placements", f"windward_machine_last_placement_timestamp_seconds{{{ONE}}} * 1000", "blue"),
        ("Cordoned", f"windward_machine_cordoned{{{ONE}}}", "orange"),
    ):
        annotation = builders.AnnotationQuery().name(name).datasource(SOURCE).expr(of_fleet(expression))
        made.annotation(annotation.enable(True).icon_color(color))
    return made


AT_VALUE = ("Placements",)
"""Annotations whose time is their value, in ms, not the time of the sample."""


def _now() -> list[Panel]:
    yes = {"1": ("fresh", "green"), "0": ("stale", "red")}
    return [
        Figures(
            "Data", "Fresh while recent enough for the profile; a stale machine takes no instance and shows no load.",
            [(f"max(windward_machine_fresh{{{ONE}}})", "data")], "short", width=3, words=yes, graph=False,
        ),
        Figures(
            "Last sample", "Age of its newest sample.",
            [(f"time() - max(windward_machine_last_sample_timestamp_seconds{{{ONE}}})", "age")], "s", width=3,
            decimals=0, steps=AGE,
        ),
        Figures(
            "Cordon", "Taken out by an operator.",
            [(f"max(windward_machine_cordoned{{{ONE}}})", "cordon")], "short", width=2,
            words={"0": ("in use", "green"), "1": ("cordoned", "orange")}, graph=False,
        ),
        Figures(
            "Instances", "Reserved or confirmed here.",
            [(f"max(windward_machine_instances{{{ONE}}})", "instances")], "short", width=2,
        ),
        Figures(
            "Load: $window", "Mean of the window, of what is allocatable.",
            [(f'max by (resource) ({UTILIZATION}{{{ONE},statistic="mean",window="$window"}})', "{{resource}}")],
            "percentunit", width=7, decimals=0, steps=LOAD, empty=NOT_FRESH, graph=False,
        ),
        allocatable("machine", "What may be used here.", f"{{{ONE}}}", width=7),
    ]  # fmt: skip


def _load() -> list[Panel]:
    mean = f'max by (machine) ({UTILIZATION}{{statistic="mean",{HERE[1:-1]}}})'
    statistics = f'{UTILIZATION}{{statistic=~"p[0-9]+|max",{HERE[1:-1]}}}'
    deviation = f"max by (machine) (windward_machine_utilization_stddev_ratio{HERE})"
    limit = (
        f'max(windward_machine_threshold_ratio{{{ONE},resource="$resource"}})'
        ' or max(windward_fleet_threshold_ratio{resource="$resource"})'
    )
    by_window = f'max by (window) ({UTILIZATION}{{{ONE},resource="$resource",statistic="mean"}})'
    return [
        Lines(
            "Mean by window: $resource", "The same load over windows of each length: short ones follow it, long ones last.",
            [(by_window, "{{window}}"), (limit, "threshold")], "percentunit", steps=LOAD, high=1, limit="threshold",
            width=12,
        ),
        Lines(
            "Mean and deviation: $resource, $window", "The band is one standard deviation of the readings to each side.",
            [(mean, "mean"),
             (f"{mean} + {deviation}", "mean + std"),
             (f"clamp_min({mean} - {deviation}, 0)", "mean - std")], "percentunit", steps=LOAD, high=1,
            band=("mean + std", "mean - std"), width=12, empty=NOT_FRESH,
        ),
        Lines(
            "Percentiles and maximum: $resource, $window",
            "Of the slots of the window; the maximum is of single readings. Shown as far as the exporter does (setting"
            " statistics).",
            [(f'max by (statistic) (label_replace({statistics}, "statistic", "$1 %", "statistic", "p(.*)"))', "{{statistic}}")],
            "percentunit", steps=LOAD, high=1, width=12, empty=NOT_FRESH,
        ),
        Lines(
            "Beside the fleet: $resource, $window", "This machine among all: the median and the 99th percentile of the machines.",
            [(mean, "this machine"),
             *((f'windward:fleet_utilization_ratio:max{{resource="$resource",window="$window",quantile="{quantile}"}}', words)
               for quantile, words in (("0.5", "median of the fleet"), ("0.99", "99 % of the fleet")))],
            "percentunit", steps=LOAD, high=1, width=12, empty=NOT_FRESH,
        ),
        Lines(
            "All resources: $window", "Mean of the window.",
            [(f'max by (resource) ({UTILIZATION}{{{ONE},statistic="mean",window="$window"}})', "{{resource}}")],
            "percentunit", steps=LOAD, high=1, width=24, empty=NOT_FRESH,
        ),
    ]  # fmt: skip


def _instances() -> list[Panel]:
    here = f'{{{ONE},resource="$resource"}}'
    return [
        Lines(
            "Instances and system: $resource",
            "What its instances are measured to use together, as its agent reports them, and what is used beside them.",
            [(f"max(windward_machine_instances_usage_ratio{here})", "instances"),
             (f"max(windward_machine_system_usage_ratio{here})", "system")], "percentunit", steps=LOAD, width=10,
            stacked=True, empty=NO_REPORTS,
        ),
        Bars(
            "Instances by usage: $resource",
            "The fifteen that use the most, of its allocatable; as far as the exporter shows them (setting top_instances).",
            [(f"topk(15, max by (id) (windward_instance_usage_ratio{here}))", "{{id}}")], "percentunit", width=10,
            steps=LOAD, empty="no single instances shown (the exporter's setting top_instances)",
        ),
        Figures(
            "Last report", "Age of its agent's newest report of instances; one comes each minute.",
            [(f"time() - max(windward_machine_last_instance_report_timestamp_seconds{{{ONE}}})", "age")], "s", width=4,
            decimals=0, steps=((None, "green"), (300, "red")), empty=NO_REPORTS,
        ),
        Lines(
            "Peaks of the day: $resource", "Highest one-minute mean since midnight and of the day before, where the exporter shows it.",
            [(f'max by (day) (windward_machine_peak_ratio{{{ONE},resource="$resource"}})', "{{day}}")], "percentunit",
            steps=LOAD, high=1, width=12, empty="no fresh data, or the exporter's setting statistics has no peak",
        ),
    ]  # fmt: skip


def _placing() -> list[Panel]:
    return [
        Lines(
            "Allocated and credit: $resource",
            "Sum of the requests of its instances, and the load expected of them that the window does not show yet.",
            [(f'max(windward_machine_requested_ratio{{{ONE},resource="$resource"}})', "allocated"),
             (f'max(windward_machine_credit_ratio{{{ONE},resource="$resource"}})', "credit")], "percentunit",
            steps=LOAD,
        ),
        Lines(
            "Risk", "By mean, deviation and credits, by resource.",
            [(f"max by (resource) (windward_machine_risk_ratio{{{ONE}}})", "{{resource}}")], "percentunit", steps=LOAD,
            high=1, empty=NOT_FRESH,
        ),
        Lines(
            "Coverage", "Filled share of each window; warming below a half.",
            [(f"max by (window) (windward_machine_coverage_ratio{{{ONE}}})", "{{window}}")], "percentunit",
            steps=((None, "red"), (0.5, "green")), high=1, empty=NOT_FRESH,
        ),
        Rows(
            "Labels", "Those the exporter shows (setting labels).",
            [(f"windward_machine_info{{{ONE}}}", "there", "short")], by="machine", width=24, height=4,
            hidden=("fleet", "instance", "job", "Value"),
        ),
    ]  # fmt: skip
