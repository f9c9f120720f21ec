"""From queries to reservations: one instance or many, each ranked on the fleet as it is now.

placer      ranks or plans, and reserves in the ledger. Not pure
choosing/   which machine is next

The modules of a decision; below each are those that it calls. All but `placer` are pure: their inputs are values, the
ledger's view and the time, their results values.

    rpc.methods.placements   the answers of `rank` and `place`
    `-- placer               ranks or plans and reserves in the ledger; again when another scorer was faster
        |-- ranking.rank     one instance: one evaluation of all rows
        `-- plan             many instances, kind by kind: alike ones in one loop, each seeing the ones before
            `-- trial        the what-if: the ledger with proposed changes, and what a profile chooses on it

No ranking is kept for the next query, so no answer depends on the queries before it.
"""
