"""The ledger: every instance that is placed or reserved.

record/   one instance's record, its rules, limits and transitions. Pure
view/     a scorer's current copy as columns, and overlays on it. Pure
store/    the ledger in Redis: the scripts that change it, its log, its check
"""
