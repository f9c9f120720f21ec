"""Plans of changes to a fleet. Pure: the present fleet is the input, a plan with its reasons the result.

balance/      moves that lower the load of hot machines; `thresholds` has the rules of a peer for it
drain/        how to empty machines, or a class of what no longer fits
wanted/       the steps from the ledger's instances to those that a file wants
room          how many more instances of a kind fit
soon_hot      which machines will soon have load above a limit
candidates    which instances may move, and where
violations    groups with more members together than a rule of theirs allows

All of it is tried on one what-if, `scorer.placement.choosing.trial`. The folder is beside `scorer.placement` and not in
it: placing decides one query and reserves, a plan tries many placements on a copy of the ledger and changes nothing.
"""
