"""Which modules have no test file of their own place, and where they are tested instead.

A module ``a/b.py`` is tested by ``tests/a/test_b.py``. What is here is an exception, module by module.
`tests.test_layout` refuses a module or a file that does not exist, and a package, which would hide its new modules.
"""

from __future__ import annotations

DOCTESTED = (
    "ops.grafana.pictures.style", "ops.local.kafka.archives",
    "ops.replay.recorded_fleet", "ops.replay.recorded_times",
    "schemas.errors", "schemas.hosts", "schemas.names", "schemas.numbers", "schemas.partition_count",
    "scorer.commands.show", "scorer.ranking.days", "scorer.ranking.rounding",
    "streams.redis_settings",
)  # fmt: skip
"""Short functions whose docstrings are their tests."""

TESTED_BY: dict[str, tuple[str, ...]] = {
    # Processes, commands and servers: run as they are, against a real broker and a real Valkey.
    "tests/integration/test_agent.py": (
        "schemas.process.logs", "streams.agent.__main__", "streams.agent.loop", "streams.agent.producer",
    ),
    "tests/integration/test_commands.py": (
        "ops.config", "schemas.durations", "schemas.near", "schemas.process.failures", "schemas.process.flags",
        "schemas.process.tables", "schemas.process.terminal", "schemas.process.verbs",
        "scorer.commands.confirm", "scorer.commands.drain_live", "scorer.commands.forget", "scorer.commands.health",
        "scorer.commands.known_machines", "scorer.commands.machine_table", "scorer.commands.machines",
        "scorer.commands.one_instance", "scorer.commands.operator_facts", "scorer.commands.place",
        "scorer.commands.release", "scorer.commands.update", "scorer.commands.why",
    ),
    "tests/integration/test_placed.py": ("ops.doctor", "ops.doctor_settings", "ops.inspection"),
    "tests/scorer/rebalance/test_evicting.py": ("scorer.ranking.class_sums",),
    "tests/scorer/reclaim/test_capacity.py": ("scorer.reclaim.peaks", "scorer.reclaim.uses"),
    "tests/ops/test_top.py": ("ops.top_app", "ops.top_settings", "ops.top_view"),
    "tests/integration/test_demo.py": ("ops.demo", "ops.demo_burst", "ops.demo_rebalance", "ops.demo_tables"),
    "tests/integration/test_exporter.py": ("ops.exporter.__main__",),
    "tests/integration/test_record.py": (
        "ops.record.__main__", "ops.record.ledger_log", "ops.record.metrics", "ops.record.samples",
        "ops.record.settings", "ops.record.state",
    ),
    "tests/ops/record/test_frames.py": ("ops.record.entry",),
    "tests/integration/test_fleet.py": (
        "streams.load_generator.__main__", "streams.load_generator.ledger", "streams.load_generator.loop",
        "streams.load_generator.settings", "streams.load_generator.sink",
    ),
    "tests/integration/test_ledger.py": (
        "scorer.ledger.arguments", "scorer.ledger.follower", "scorer.ledger.reader", "scorer.ledger.runner",
        "scorer.ledger.scripts", "scorer.ledger.transition",
    ),
    "tests/integration/test_ledger_check.py": (
        "scorer.ledger.check", "scorer.ledger.checker", "scorer.ledger.lease", "scorer.ledger.mend",
    ),
    "tests/integration/test_ledger_lost.py": ("scorer.commands.ledger", "scorer.ledger.marker"),
    "tests/integration/test_rebalancer.py": (
        "scorer.rebalancer.__main__", "scorer.rebalancer.daemon", "scorer.rebalancer.metrics",
        "scorer.rebalancer.moves_queue", "scorer.rebalancer.settings",
    ),
    "tests/scorer/rebalancer/test_proposals.py": ("schemas.proposal",),
    "tests/integration/test_learner.py": ("scorer.commands.learned", "scorer.rpc.learner"),
    "tests/integration/test_predictor.py": ("schemas.predicted", "scorer.rpc.predictor"),
    "tests/integration/test_loader.py": ("scorer.snapshot.loader", "scorer.snapshot.usage_loader"),
    "tests/integration/test_full_redis.py": ("streams.redis_health",),
    "tests/integration/test_recovery.py": (
        "streams.app", "streams.faust_app", "streams.holdings", "streams.housekeeping", "streams.topic_watch",
        "streams.transport",
    ),
    "tests/integration/test_rpc.py": (
        "scorer.__main__", "scorer.ledger.sweeper", "scorer.rpc.heartbeat", "scorer.rpc.move",
        "scorer.rpc.transitions", "scorer.rpc.update", "scorer.wire",
    ),
    "tests/integration/test_stack_broker.py": (
        "ops.local.apache_kafka", "ops.local.kafka.properties", "streams.topics",
    ),
    "tests/integration/test_stack_up.py": ("ops.stack", "ops.stack_settings", "ops.up", "streams.__main__"),
    "tests/integration/test_direct.py": ("scorer.commands.direct",),
    "tests/integration/test_rename.py": ("scorer.commands.machines_settings", "scorer.commands.rename"),
    "tests/integration/test_store.py": (
        "schemas.worker", "streams.state_writes", "streams.store", "streams.stored_state",
    ),
    "tests/integration/test_bridge.py": ("streams.bridge.__main__", "streams.bridge.settings"),
    "tests/integration/test_profiles.py": ("scorer.commands.profiles",),
    # The documentation, the wheels and what is learned.
    "tests/ops/manual/test_files.py": ("ops.manual.__main__", "ops.manual.pages", "ops.manual.tree"),
    "tests/ops/docs/test_pages.py": (
        "ops.docs.concept_pictures", "ops.docs.decision_page", "ops.docs.drawing", "ops.docs.fleet",
        "ops.docs.class_pictures", "ops.docs.results_pictures",
        "ops.docs.markdown", "ops.docs.planning_pictures", "ops.docs.plugin_pages", "ops.docs.profiles_page",
        "ops.docs.rpc_page", "ops.docs.shapes", "ops.docs.site",
    ),
    "tests/ops/packages/test_backend.py": ("ops.extras", "schemas.process.version"),
    "tests/scorer/ranking/test_learning.py": ("schemas.learned", "scorer.ranking.learned_estimate"),
    "tests/scorer/ranking/test_debits.py": ("scorer.ledger.leavers", "scorer.ranking.remaining"),
    "tests/scorer/rebalance/test_low_node_load.py": (
        "scorer.rebalance.anomaly", "scorer.rebalance.eviction_order", "scorer.rebalance.pool",
        "scorer.rebalance.sides", "scorer.rebalance.thresholds",
    ),
    "tests/scorer/rebalance/test_world.py": (
        "scorer.rebalance.candidates", "scorer.rebalance.draft", "scorer.rebalance.moves", "scorer.rebalance.plan",
        "scorer.rebalance.scene", "scorer.rebalance.totals",
    ),
    "tests/scorer/rebalance/test_drain.py": ("scorer.placement.anew",),
    "tests/scorer/placement/test_wanted.py": ("scorer.placement.differences", "scorer.placement.wanted_steps"),
    "tests/scorer/commands/test_plan.py": ("scorer.commands.plan_apply", "scorer.commands.plan_view"),
    "tests/scorer/commands/test_capacity.py": ("scorer.commands.capacity_mix",),
    "tests/scorer/commands/test_drain.py": ("scorer.commands.drain_view",),
    "tests/scorer/commands/test_rebalance.py": (
        "scorer.commands.balance_settings", "scorer.commands.rebalance_apply", "scorer.commands.rebalance_plot",
        "scorer.commands.rebalance_view",
        "scorer.commands.whole_fleet",
    ),
    "tests/integration/test_fifth_resource.py": ("scorer.placement.as_request",),
    # Settings: every process's are checked together.
    "tests/ops/test_compose.py": ("ops.exporter.settings", "scorer.settings", "streams.settings"),
    # Plugins are held to one contract, and the peers' tables go over several of them.
    "tests/contracts/test_plugins.py": ("scorer.ranking.scope",),
    "tests/scorer/ranking/test_allocation.py": (
        "scorer.ranking.scores.least_allocated", "scorer.ranking.scores.most_allocated",
    ),
    "tests/scorer/ranking/test_koordinator.py": ("scorer.ranking.scores.load_aware",),
    "tests/scorer/ranking/test_extension.py": ("scorer.plugins", "scorer.ranking.plugins"),
    # Small parts of one idea, tested by what they make together.
    "tests/schemas/process/test_pages.py": ("schemas.process.page_server",),
    "tests/schemas/test_golden.py": ("schemas.rpc",),
    "tests/schemas/test_sample.py": ("schemas.scalars",),
    "tests/schemas/test_resource_axis.py": ("schemas.alignment",),
    "tests/scorer/commands/test_fleet_file.py": ("scorer.commands.fleet_fields", "scorer.commands.fleet_table"),
    "tests/scorer/commands/test_request.py": (
        "scorer.commands.ask", "scorer.commands.candidates", "scorer.commands.rank",
    ),
    "tests/scorer/ledger/test_overlay.py": ("scorer.ledger.view",),
    "tests/scorer/ledger/test_seats.py": ("scorer.ledger.facets",),
    "tests/scorer/placement/test_plan.py": (
        "scorer.placement.copies", "scorer.placement.draft", "scorer.placement.incremental",
        "scorer.placement.shortlist",
    ),
    "tests/scorer/placement/test_placer.py": (
        "scorer.placement.batch_placer", "scorer.placement.offer", "scorer.placement.outcomes",
        "scorer.placement.placement",
    ),
    "tests/scorer/placement/test_reuse.py": ("scorer.placement.continuation",),
    "tests/scorer/ranking/filters/test_selector.py": ("scorer.ranking.topology",),
    "tests/scorer/ranking/filters/test_taints.py": ("scorer.ranking.tolerations",),
    "tests/scorer/ranking/filters/test_usage_threshold.py": ("scorer.ranking.statistics", "scorer.ranking.thresholds"),
    "tests/scorer/ranking/filters/test_masters.py": ("scorer.ranking.share",),
    "tests/scorer/ranking/test_profile_file.py": ("scorer.ranking.toml_lines",),
    "tests/scorer/ranking/test_rank.py": (
        "scorer.ranking.candidates", "scorer.ranking.column_kinds", "scorer.ranking.columns", "scorer.ranking.fleet",
        "scorer.ranking.load", "scorer.ranking.machine_facts", "scorer.ranking.machines", "scorer.ranking.promises",
        "scorer.ranking.requested_instance",
    ),
    "tests/scorer/ranking/test_kept.py": ("scorer.ranking.kept_values",),
    "tests/scorer/rpc/test_reuse_count.py": ("scorer.metrics",),
    "tests/scorer/rpc/test_loop.py": ("scorer.rpc.interface", "scorer.rpc.replies"),
    "tests/scorer/rpc/test_methods.py": ("scorer.rpc.service",),
    "tests/scorer/rpc/test_placements.py": ("scorer.rpc.errors", "scorer.rpc.place", "scorer.rpc.inputs"),
    "tests/scorer/rpc/test_results.py": ("schemas.fleet_results", "schemas.results", "scorer.rpc.records"),
    "tests/scorer/rpc/test_slices.py": ("scorer.rpc.listings",),
    "tests/scorer/snapshot/test_builder.py": (
        "scorer.snapshot.arrays", "scorer.snapshot.roster", "scorer.snapshot.snapshot", "scorer.snapshot.windows",
    ),
    "tests/streams/agent/test_sampler.py": ("streams.agent.collectors.base",),
    "tests/streams/agent/test_metrics.py": ("streams.agent.counts",),
    "tests/streams/agent/test_settings.py": ("streams.agent.instances.settings",),
    "tests/streams/agent/instances/test_meter.py": ("streams.agent.totals",),
    "tests/streams/load_generator/test_recording.py": ("streams.load_generator.recording_file",),
    "tests/streams/load_generator/test_replay.py": ("streams.load_generator.messages", "streams.load_generator.source"),
    "tests/streams/bridge/test_bridge.py": (
        "streams.bridge.assembler", "streams.bridge.otel", "streams.bridge.points", "streams.bridge.rates",
        "streams.bridge.telegraf",
    ),
    "tests/streams/test_admission.py": ("streams.clock", "streams.refusals", "streams.topic_settings"),
    "tests/streams/test_checkpoint.py": ("streams.table",),
    "tests/streams/test_partition.py": (
        "streams.arrivals", "streams.leaving",),
    "tests/streams/test_instance_usage.py": ("schemas.instance_table",),
    "tests/streams/test_resume.py": ("streams.manifest",),
    "tests/streams/test_windows.py": ("streams.class_means",),
    "tests/test_every_resource.py": ("schemas.resources",),
    # What people look at.
    "tests/ops/exporter/test_families.py": (
        "ops.exporter.exporter", "ops.exporter.fleet", "ops.exporter.machines", "ops.exporter.pages",
        "ops.exporter.selection", "ops.exporter.state",
    ),
    "tests/ops/local/test_process.py": (
        "ops.local.broker", "ops.local.die_with_parent", "ops.local.lifetime", "ops.local.ports", "ops.local.valkey",
    ),
    "tests/ops/test_dashboards.py": (
        "ops.grafana.__main__", "ops.grafana.asked", "ops.grafana.fleet", "ops.grafana.machine",
        "ops.grafana.parts.newest", "ops.grafana.parts.over_time", "ops.grafana.parts.page", "ops.grafana.parts.style",
        "ops.grafana.parts.variables", "ops.grafana.pipeline", "ops.grafana.record", "ops.grafana.scorer",
        "ops.grafana.stream",
    ),
    # The replay of recorded load.
    "tests/ops/replay/test_command.py": (
        "ops.replay.__main__", "ops.replay.report",
        "ops.replay.settings", "ops.replay.sources",
    ),
    "tests/ops/replay/test_class_report.py": ("ops.replay.report_table",),
    "tests/ops/replay/test_recorded.py": (
        "ops.replay.recorded_lives", "ops.replay.recorded_missing", "ops.replay.recorded_usage",
    ),
    "tests/ops/replay/test_workload_file.py": ("ops.replay.workload_columns", "ops.replay.workload_tables"),
    "tests/ops/replay/test_simulation.py": (
        "ops.replay.emptied", "ops.replay.fleet", "ops.replay.measures", "ops.replay.measuring", "ops.replay.policies",
        "ops.replay.references", "ops.replay.workload",
    ),
    "tests/ops/replay/test_traces.py": (
        "ops.replay.traces.find", "ops.replay.traces.nab", "ops.replay.traces.openb", "ops.replay.traces.planetlab",
        "ops.replay.traces.recording", "ops.replay.traces.smd", "ops.replay.traces.trace",
    ),
    "tests/ops/test_rules.py": ("ops.local.prometheus",),
    "tests/integration/test_dashboards.py": ("ops.grafana.prometheus",),
    "tests/test_layout.py": ("ops.cli", "ops.commands"),
}  # fmt: skip
"""By test file: the modules it tests although it does not lie where they lie."""

UNTESTED = {
    **dict.fromkeys(
        (
            "ops.grafana.pictures.__main__", "ops.grafana.pictures.board", "ops.grafana.pictures.painters",
            "ops.grafana.pictures.legends", "ops.grafana.pictures.panel_data",
        ),
        "draws the documents' pictures with matplotlib, by hand; seen by eye",
    ),
    "ops.docs.__main__": "run as it is by .ci/run, which fails on a link that leads nowhere",
    **dict.fromkeys(
        (
            "ops.packages.__main__", "ops.packages.deb", "ops.packages.environment", "ops.packages.interpreters",
            "ops.packages.wheels",
        ),
        "run as it is by .ci/run: each package does its job in an empty environment, or the run fails",
    ),
}  # fmt: skip
"""Modules without a test, and why."""
