"""The commands of ``windward``: the module that runs each, imported only when it is called, and a summary."""

_PLACE = {
    "place": ("scorer.commands.placing.place", "choose a machine and reserve it"),
    "confirm": ("scorer.commands.instances.confirm", "turn reservations into instances"),
    "update": ("scorer.commands.instances.update", "move, resize or change the role of an instance"),
    "release": ("scorer.commands.instances.release", "end instances or reservations"),
    "why": ("scorer.commands.instances.why", "say why an instance is where it is"),
    "instances": ("scorer.commands.instances.instances", "list, show or import instances"),
    "events": ("scorer.commands.instances.events", "say what happened to instances, and follow it"),
    "plan": ("scorer.commands.planning.plan", "compare wanted instances with the ledger, and make the ledger equal"),
}
_ASK = {
    "rank": ("scorer.commands.placing.rank", "rank the machines, of the scorer or of a file"),
    "capacity": (
        "scorer.commands.planning.capacity",
        "say how many more instances of a kind fit, and what limits them",
    ),
    "health": ("scorer.commands.running.health", "say whether a scorer is ready"),
    "top": ("ops.top.command", "watch the fleet: hottest machines, windows, risk, decisions"),
    "doctor": ("ops.doctor.command", "check all parts, and say what is wrong and what to do"),
}
_MACHINES = {
    "machines": ("scorer.commands.machines.machines", "list, show, label, taint or cordon machines"),
    "drain": ("scorer.commands.planning.drain", "say where the instances of machines would go, cordon and empty them"),
    "rebalance": (
        "scorer.commands.planning.rebalance",
        "say which instances should move away from overloaded machines",
    ),
}
_RUN = {
    "up": ("ops.stack.up", "run the whole stack on this machine until Ctrl-C"),
    "demo": ("ops.demo.command", "show the whole stack running, then stop"),
    "agent": ("streams.agent.__main__", "publish this machine's load"),
    "bridge": ("streams.bridge.__main__", "publish what Telegraf, OpenTelemetry or node_exporter measures"),
    "stream": ("streams.__main__", "fold samples into windows"),
    "scorer": ("scorer.__main__", "answer placement queries"),
    "exporter": ("ops.exporter.__main__", "show the windowed load to Prometheus"),
    "record": ("ops.record.__main__", "keep a bounded recording of the fleet, for replay"),
    "planner": ("scorer.planner.__main__", "answer what takes long, and propose moves on a Redis list"),
    "load-watcher": ("scorer.kubernetes.load_watcher.__main__", "serve the load of all nodes to Trimaran's plugins"),
    "pods": ("scorer.kubernetes.pods.__main__", "keep the ledger equal to the pods of a Kubernetes cluster"),
    "extender": ("scorer.kubernetes.extender.__main__", "score the nodes of a Kubernetes cluster for kube-scheduler"),
    "evictor": ("scorer.kubernetes.evictor.__main__", "evict the pods of a Kubernetes cluster that should move"),
}
_LAB = {
    "replay": ("ops.replay.__main__", "compare profiles on recorded load, in simulated time"),
    "fold": ("streams.fold_command", "print the windows of recorded samples"),
    "fleet": ("streams.load_generator.__main__", "publish the load of a simulated or recorded fleet"),
    "profiles": ("scorer.commands.placing.profiles", "list and show profiles"),
    "learned": ("scorer.commands.running.learned", "show what share of their requests instances really use"),
}
_ADMIN = {
    "ledger": ("scorer.commands.running.ledger", "check and repair the ledger, or accept an emptied one"),
    "config": ("ops.cli.config", "check a settings file, or show a command's settings and their sources"),
}
GROUPS = {"place": _PLACE, "ask": _ASK, "machines": _MACHINES, "run": _RUN, "lab": _LAB, "admin": _ADMIN}
"""The commands by what they are for, as ``windward --help`` lists them."""
COMMANDS = {name: one for group in GROUPS.values() for name, one in group.items()}
