"""The commands of ``windward``: the module that runs each, imported only when it is called, and a summary."""

from __future__ import annotations

GROUPS = {
    "place": ("place", "confirm", "update", "release", "why", "instances", "events", "plan"),
    "ask": ("rank", "capacity", "health", "top", "doctor"),
    "machines": ("machines", "drain", "rebalance"),
    "run": (
        "up",
        "demo",
        "agent",
        "bridge",
        "stream",
        "scorer",
        "exporter",
        "record",
        "rebalancer",
        "load-watcher",
        "pods",
    ),
    "lab": ("replay", "fold", "fleet", "profiles", "learned"),
    "admin": ("ledger", "config"),
}
"""The commands by what they are for, as ``windward --help`` lists them."""

COMMANDS = {
    "up": ("ops.stack.up", "run the whole stack on this machine until Ctrl-C"),
    "demo": ("ops.demo.command", "show the whole stack running, then stop"),
    "agent": ("streams.agent.__main__", "publish this machine's load"),
    "fleet": ("streams.load_generator.__main__", "publish the load of a simulated or recorded fleet"),
    "bridge": ("streams.bridge.__main__", "publish what Telegraf or OpenTelemetry measures"),
    "stream": ("streams.__main__", "fold samples into windows"),
    "fold": ("streams.fold_command", "print the windows of recorded samples"),
    "scorer": ("scorer.__main__", "answer placement queries"),
    "replay": ("ops.replay.__main__", "compare profiles on recorded load, in simulated time"),
    "exporter": ("ops.exporter.__main__", "show the windowed load to Prometheus"),
    "record": ("ops.record.__main__", "keep a bounded recording of the fleet, for replay"),
    "place": ("scorer.commands.placing.place", "choose a machine and reserve it"),
    "rank": ("scorer.commands.placing.rank", "rank the machines, of the scorer or of a file"),
    "confirm": ("scorer.commands.instances.confirm", "turn reservations into instances"),
    "update": ("scorer.commands.instances.update", "move, resize or change the role of an instance"),
    "release": ("scorer.commands.instances.release", "end instances or reservations"),
    "instances": ("scorer.commands.instances.instances", "list, show or import instances"),
    "events": ("scorer.commands.instances.events", "say what happened to instances, and follow it"),
    "ledger": ("scorer.commands.running.ledger", "check and repair the ledger, or accept an emptied one"),
    "machines": ("scorer.commands.machines.machines", "list, show, label, taint or cordon machines"),
    "rebalancer": ("scorer.rebalancer.__main__", "propose moves on a Redis list, round by round"),
    "load-watcher": ("scorer.kubernetes.load_watcher.__main__", "serve the load of all nodes to Trimaran's plugins"),
    "pods": ("scorer.kubernetes.pods.__main__", "keep the ledger equal to the pods of a Kubernetes cluster"),
    "rebalance": (
        "scorer.commands.planning.rebalance",
        "say which instances should move away from overloaded machines",
    ),
    "drain": ("scorer.commands.planning.drain", "say where the instances of machines would go, cordon and empty them"),
    "plan": ("scorer.commands.planning.plan", "compare wanted instances with the ledger, and make the ledger equal"),
    "capacity": (
        "scorer.commands.planning.capacity",
        "say how many more instances of a kind fit, and what limits them",
    ),
    "why": ("scorer.commands.instances.why", "say why an instance is where it is"),
    "learned": ("scorer.commands.running.learned", "show the learned part of what is asked that instances use"),
    "health": ("scorer.commands.running.health", "say whether a scorer is ready"),
    "top": ("ops.top.command", "watch the fleet: hottest machines, windows, risk, decisions"),
    "doctor": ("ops.doctor.command", "check all parts, and say what is wrong and what to do"),
    "profiles": ("scorer.commands.placing.profiles", "list and show profiles"),
    "config": ("ops.cli.config", "check a settings file, or show a command's settings and their sources"),
}
