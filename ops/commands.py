"""The commands of ``windward``: the module that runs each, imported only when it is asked for, and what it does."""

from __future__ import annotations

COMMANDS = {
    "up": ("ops.up", "run the whole stack on this machine until Ctrl-C"),
    "demo": ("ops.demo", "show the whole stack at work, then stop"),
    "agent": ("streams.agent.__main__", "publish this machine's load"),
    "fleet": ("streams.load_generator.__main__", "publish the load of a simulated or recorded fleet"),
    "bridge": ("streams.bridge.__main__", "publish what Telegraf or OpenTelemetry measures"),
    "stream": ("streams.__main__", "fold samples into windows"),
    "fold": ("streams.fold_command", "print the windows of recorded samples"),
    "scorer": ("scorer.__main__", "answer placement queries"),
    "replay": ("ops.replay.__main__", "compare profiles on recorded load, in simulated time"),
    "exporter": ("ops.exporter.__main__", "show the windowed load to Prometheus"),
    "place": ("scorer.commands.place", "choose a machine and reserve it"),
    "rank": ("scorer.commands.rank", "rank the machines, of the scorer or of a file"),
    "confirm": ("scorer.commands.confirm", "turn a reservation into an instance"),
    "update": ("scorer.commands.update", "move, resize or change the role of an instance"),
    "release": ("scorer.commands.release", "end an instance or a reservation"),
    "instances": ("scorer.commands.instances", "list, release or import instances"),
    "ledger": ("scorer.commands.ledger", "check and repair the ledger, or accept an emptied one"),
    "machines": ("scorer.commands.machines", "list, show, label, taint or cordon machines"),
    "rebalance": ("scorer.commands.rebalance", "say which instances should move so that hot machines cool down"),
    "drain": ("scorer.commands.drain", "cordon machines, and say where their instances go"),
    "capacity": ("scorer.commands.capacity", "say how many more instances of a kind fit, and what limits them"),
    "why": ("scorer.commands.why", "say why an instance is where it is"),
    "learned": ("scorer.commands.learned", "show how much of what is asked instances use"),
    "health": ("scorer.commands.health", "ask the scorer how it is"),
    "top": ("ops.top", "watch the fleet: hottest machines, windows, risk, decisions"),
    "doctor": ("ops.doctor", "look at everything, and say what is wrong and what to do"),
    "profiles": ("scorer.commands.profiles", "list and show profiles"),
    "config": ("ops.config", "check a settings file, or show a command's settings and their sources"),
}
