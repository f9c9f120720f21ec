"""The scorer's commands: one module each, with ``main(argv, environ) -> exit code``.

placing/    place, rank, profiles
instances/  confirm, update, release, instances, why
machines/   machines and operators' rules
planning/   drain, plan, rebalance, capacity, and how their steps are carried out
running/    health, ledger, learned
shared/     asking a scorer, reading a fleet, showing
"""
