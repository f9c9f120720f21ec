"""By folder: the files that test its modules without a test file of their own place.

A module ``a/b.py`` is tested by ``tests/a/test_b.py``, or by the examples in its own docstrings. The others of its
folder are parts of one idea, tested by what they make together, or processes, run as they are by the integration
tests. `tests.test_layout` refuses a folder or a file that does not exist, and a line that no module needs.
"""

from __future__ import annotations

TESTED_BY: dict[str, tuple[str, ...]] = {
    "ops.cli": (
        "tests/integration/commands/test_commands.py",
        "tests/ops/packages/test_backend.py",
        "tests/test_layout.py",
    ),
    "ops.demo": ("tests/integration/stack/test_demo.py",),
    "ops.docs": ("tests/ops/docs/test_pages.py",),
    "ops.doctor": ("tests/integration/ledger/test_placed.py",),
    "ops.exporter": (
        "tests/integration/observe/test_exporter.py",
        "tests/ops/exporter/test_families.py",
        "tests/ops/test_compose.py",
    ),
    "ops.grafana": (
        "tests/integration/observe/test_dashboards.py",
        "tests/ops/test_dashboards.py",
    ),
    "ops.completions": ("tests/ops/completions/test_files.py",),
    "ops.record": (
        "tests/integration/observe/test_record.py",
        "tests/ops/record/test_frames.py",
    ),
    "ops.replay": (
        "tests/ops/replay/play/test_simulation.py",
        "tests/ops/replay/test_command.py",
    ),
    "ops.replay.play": ("tests/ops/replay/play/test_simulation.py",),
    "ops.replay.recorded": ("tests/ops/replay/recorded/test_recorded.py",),
    "ops.replay.traces": ("tests/ops/replay/test_traces.py",),
    "ops.stack": ("tests/integration/stack/test_stack_up.py",),
    "ops.stack.servers": (
        "tests/integration/stack/test_stack_broker.py",
        "tests/ops/stack/servers/test_process.py",
        "tests/ops/test_rules.py",
    ),
    "ops.top": ("tests/ops/top/test_command.py",),
    "schemas": ("tests/test_every_resource.py",),
    "schemas.messages": (
        "tests/integration/stream/test_store.py",
        "tests/scorer/planning/balance/test_proposals.py",
    ),
    "schemas.process": (
        "tests/integration/stream/test_agent.py",
        "tests/integration/commands/test_commands.py",
        "tests/ops/packages/test_backend.py",
        "tests/schemas/process/test_pages.py",
    ),
    "schemas.rpc": (
        "tests/schemas/test_golden.py",
        "tests/scorer/rpc/test_results.py",
    ),
    "schemas.tables": (
        "tests/integration/scorer/test_predictor.py",
        "tests/schemas/tables/test_alignment.py",
        "tests/scorer/ranking/estimates/test_measured_use.py",
        "tests/streams/fold/test_instance_usage.py",
    ),
    "schemas.values": (
        "tests/integration/commands/test_commands.py",
        "tests/schemas/messages/test_sample.py",
    ),
    "scorer": (
        "tests/integration/scorer/test_rpc.py",
        "tests/ops/test_compose.py",
        "tests/scorer/ranking/test_extension.py",
    ),
    "scorer.background": (
        "tests/integration/scorer/test_learner.py",
        "tests/integration/ledger/test_ledger_check.py",
        "tests/integration/scorer/test_predictor.py",
        "tests/integration/scorer/test_rpc.py",
    ),
    "scorer.classes": ("tests/scorer/classes/test_capacity.py",),
    "scorer.client": (
        "tests/integration/ledger/test_events.py",
        "tests/scorer/client/test_clients.py",
    ),
    "scorer.commands.instances": ("tests/integration/commands/test_commands.py",),
    "scorer.commands.machines": (
        "tests/integration/commands/test_commands.py",
        "tests/integration/commands/test_rename.py",
    ),
    "scorer.commands.placing": (
        "tests/integration/commands/test_commands.py",
        "tests/integration/scorer/test_profiles.py",
        "tests/scorer/commands/shared/test_request.py",
    ),
    "scorer.commands.planning": (
        "tests/integration/commands/test_commands.py",
        "tests/scorer/commands/planning/test_capacity.py",
        "tests/scorer/commands/planning/test_drain.py",
        "tests/scorer/commands/planning/test_plan.py",
        "tests/scorer/commands/planning/test_rebalance.py",
    ),
    "scorer.commands.running": (
        "tests/integration/commands/test_commands.py",
        "tests/integration/scorer/test_learner.py",
        "tests/integration/ledger/test_ledger_lost.py",
    ),
    "scorer.commands.shared": (
        "tests/integration/scorer/test_direct.py",
        "tests/scorer/commands/planning/test_rebalance.py",
        "tests/scorer/commands/shared/test_fleet_file.py",
        "tests/scorer/commands/shared/test_request.py",
    ),
    "scorer.kubernetes": ("tests/scorer/kubernetes/test_pods_difference.py",),
    "scorer.kubernetes.evictor": ("tests/integration/kubernetes/test_evictor.py",),
    "scorer.kubernetes.extender": ("tests/scorer/kubernetes/extender/test_extender.py",),
    "scorer.kubernetes.load_watcher": ("tests/integration/kubernetes/test_load_watcher.py",),
    "scorer.kubernetes.pods": ("tests/integration/kubernetes/test_pods.py",),
    "scorer.ledger.record": (
        "tests/integration/scorer/test_fifth_resource.py",
        "tests/integration/ledger/test_ledger.py",
    ),
    "scorer.ledger.store": (
        "tests/integration/ledger/test_ledger.py",
        "tests/integration/ledger/test_ledger_check.py",
        "tests/integration/ledger/test_ledger_lost.py",
    ),
    "scorer.ledger.view": (
        "tests/scorer/ledger/view/test_overlay.py",
        "tests/scorer/ranking/estimates/test_debits.py",
    ),
    "scorer.live": ("tests/integration/scorer/test_loader.py",),
    "scorer.placement.offers": ("tests/scorer/placement/test_placer.py",),
    "scorer.planning": (
        "tests/scorer/planning/balance/test_by_overload.py",
        "tests/scorer/planning/drain/test_drain.py",
    ),
    "scorer.planning.balance": ("tests/scorer/planning/balance/test_by_overload.py",),
    "scorer.planning.thresholds": ("tests/scorer/planning/thresholds/test_low_node_load.py",),
    "scorer.planning.wanted": ("tests/scorer/planning/wanted/test_wanted.py",),
    "scorer.ranking": (
        "tests/contracts/test_plugins.py",
        "tests/scorer/planning/drain/test_evicting.py",
    ),
    "scorer.ranking.formulas": (
        "tests/scorer/ranking/filters/test_masters.py",
        "tests/scorer/ranking/filters/test_selector.py",
        "tests/scorer/ranking/filters/test_taints.py",
        "tests/scorer/ranking/filters/test_usage_threshold.py",
    ),
    "scorer.ranking.kernel": (
        "tests/contracts/test_plugins.py",
        "tests/scorer/ranking/recorded/test_recorded.py",
        "tests/scorer/ranking/scores/test_low_risk_overcommitment.py",
    ),
    "scorer.ranking.machines": (
        "tests/scorer/ranking/estimates/test_debits.py",
        "tests/scorer/ranking/test_rank.py",
    ),
    "scorer.ranking.profiles": (
        "tests/scorer/ranking/profiles/test_profile_file.py",
        "tests/scorer/ranking/test_extension.py",
    ),
    "scorer.ranking.scores": (
        "tests/scorer/ranking/formulas/test_allocation.py",
        "tests/scorer/ranking/test_koordinator.py",
    ),
    "scorer.planner": ("tests/integration/planner/test_planner.py", "tests/scorer/planner/test_drain.py"),
    "scorer.rpc": (
        "tests/scorer/rpc/test_loop.py",
        "tests/scorer/rpc/test_methods.py",
    ),
    "scorer.rpc.methods": (
        "tests/integration/scorer/test_rpc.py",
        "tests/scorer/rpc/methods/test_placements.py",
        "tests/scorer/rpc/test_results.py",
        "tests/scorer/rpc/test_long_answers.py",
    ),
    "scorer.rpc.operators": (
        "tests/integration/planner/test_operators.py",
        "tests/scorer/rpc/operators/test_cordon.py",
    ),
    "scorer.snapshot": ("tests/scorer/snapshot/test_builder.py",),
    "streams": ("tests/integration/stack/test_stack_up.py",),
    "streams.agent": (
        "tests/integration/stream/test_agent.py",
        "tests/streams/agent/instances/test_meter.py",
        "tests/streams/agent/test_settings.py",
    ),
    "streams.agent.collectors": ("tests/streams/agent/sampling/test_sampler.py",),
    "streams.agent.sampling": ("tests/streams/agent/test_metrics.py",),
    "streams.bridge": ("tests/integration/stream/test_bridge.py",),
    "streams.bridge.formats": ("tests/streams/bridge/test_bridge.py",),
    "streams.fold": (
        "tests/streams/fold/test_admission.py",
        "tests/streams/fold/test_windows.py",
        "tests/streams/state/test_checkpoint.py",
        "tests/streams/state/test_partition.py",
    ),
    "streams.load_generator": ("tests/integration/stream/test_fleet.py",),
    "streams.load_generator.source": (
        "tests/streams/load_generator/source/test_recording.py",
        "tests/streams/load_generator/source/test_replay.py",
    ),
    "streams.state": (
        "tests/integration/stream/test_store.py",
        "tests/streams/state/test_partition.py",
        "tests/streams/state/test_resume.py",
    ),
    "streams.worker": (
        "tests/integration/ledger/test_full_redis.py",
        "tests/integration/stream/test_recovery.py",
        "tests/integration/stack/test_stack_broker.py",
        "tests/integration/stream/test_store.py",
        "tests/ops/test_compose.py",
        "tests/streams/fold/test_admission.py",
    ),
}

UNTESTED = {
    "ops.packages.client": "the hook of its build, run by .ci/run: the client does its job in an empty environment",
    "ops.docs": "its command is run as it is by .ci/run, which fails on a link that leads nowhere",
    "ops.packages": "run as it is by .ci/run: each package does its job in an empty environment, or the run fails",
}
"""Folders with modules that no test runs, and why."""
