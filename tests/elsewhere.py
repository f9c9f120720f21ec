"""Which modules have no test file of their own place, and where they are tested instead.

A module ``a/b.py`` is tested by ``tests/a/test_b.py``. What is here is an exception: a package stands for all its
modules. `tests.test_layout` keeps the list true.
"""

from __future__ import annotations

DOCTESTED = (
    "ops.grafana.pictures.style", "ops.local.kafka.archives",
    "schemas.errors", "schemas.names", "schemas.numbers",
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
        "schemas.process.tables", "schemas.process.terminal", "schemas.process.verbs", "scorer.commands",
    ),
    "tests/integration/test_placed.py": ("ops.doctor",),
    "tests/ops/test_top.py": ("ops.top_app", "ops.top_settings", "ops.top_view"),
    "tests/integration/test_demo.py": ("ops.demo", "ops.demo_tables"),
    "tests/integration/test_exporter.py": ("ops.exporter.__main__",),
    "tests/integration/test_fleet.py": (
        "streams.load_generator.__main__", "streams.load_generator.loop", "streams.load_generator.settings",
        "streams.load_generator.sink",
    ),
    "tests/integration/test_ledger.py": (
        "scorer.ledger.arguments", "scorer.ledger.follower", "scorer.ledger.reader", "scorer.ledger.runner",
        "scorer.ledger.scripts", "scorer.ledger.transition",
    ),
    "tests/integration/test_ledger_check.py": ("scorer.ledger.check", "scorer.ledger.checker", "scorer.ledger.lease"),
    "tests/integration/test_ledger_lost.py": ("scorer.ledger.marker",),
    "tests/integration/test_loader.py": ("scorer.snapshot.loader",),
    "tests/integration/test_full_redis.py": ("streams.redis_health",),
    "tests/integration/test_recovery.py": (
        "streams.app", "streams.faust_app", "streams.holdings", "streams.topic_watch", "streams.transport",
    ),
    "tests/integration/test_rpc.py": (
        "scorer.__main__", "scorer.ledger.sweeper", "scorer.rpc", "scorer.snapshot.refresher", "scorer.wire",
    ),
    "tests/integration/test_stack_broker.py": ("ops.local.apache_kafka", "streams.topics"),
    "tests/integration/test_stack_up.py": ("ops.stack", "ops.stack_settings", "ops.up", "streams.__main__"),
    "tests/integration/test_store.py": ("streams.store",),
    # Modules that are on their way.
    "tests/integration/test_bridge.py": ("streams.bridge",),
    "tests/ops/docs/test_pages.py": ("ops.docs",),
    "tests/ops/packages/test_backend.py": ("ops.extras", "ops.packages", "schemas.process.version"),
    "tests/scorer/ranking/test_learning.py": ("schemas.learned", "scorer.ranking.learned_estimate"),
    "tests/scorer/ranking/test_debits.py": ("scorer.ledger.leavers",),
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
    "tests/scorer/ledger/test_overlay.py": ("scorer.ledger.slots", "scorer.ledger.view"),
    "tests/scorer/ledger/test_seats.py": ("scorer.ledger.facets",),
    "tests/scorer/placement/test_plan.py": (
        "scorer.placement.copies", "scorer.placement.incremental", "scorer.placement.shortlist",
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
    "tests/scorer/rpc/test_results.py": ("schemas.results",),
    "tests/scorer/snapshot/test_builder.py": (
        "scorer.snapshot.arrays", "scorer.snapshot.roster", "scorer.snapshot.snapshot", "scorer.snapshot.windows",
    ),
    "tests/streams/agent/test_sampler.py": ("streams.agent.collectors.base",),
    "tests/streams/agent/test_metrics.py": ("streams.agent.counts",),
    "tests/streams/load_generator/test_replay.py": ("streams.load_generator.messages", "streams.load_generator.source"),
    "tests/streams/test_admission.py": ("streams.clock", "streams.topic_settings"),
    "tests/streams/test_checkpoint.py": ("streams.table",),
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
        "ops.grafana.__main__", "ops.grafana.asked", "ops.grafana.fleet", "ops.grafana.machine", "ops.grafana.parts",
        "ops.grafana.pipeline", "ops.grafana.scorer",
    ),
    "tests/ops/replay/test_command.py": ("ops.replay",),
    "tests/ops/test_rules.py": ("ops.local.prometheus",),
    "tests/integration/test_dashboards.py": ("ops.grafana.prometheus",),
    "tests/test_layout.py": ("ops.cli", "ops.commands"),
}  # fmt: skip
"""By test file: the modules it tests although it does not lie where they lie."""

UNTESTED = {
    "ops.grafana.pictures": "draws the documents' pictures with matplotlib, by hand; seen by eye",
}
"""Modules without a test, and why."""
