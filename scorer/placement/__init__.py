"""From queries to reservations: one instance or many, with reuse of the last ranking.

placer      ranks or plans, and reserves in the ledger. Not pure
choosing/   which machine is next
offers/     what is put to the ledger, and what becomes of it

The modules of a decision; below each are those that it calls. All but `placer` are pure: values, the ledger's view and
the time come in, values go out.

    rpc.placements           queries taken together
    |-- coalesce             a run of alike queries becomes one batch; each gets its own answer
    `-- placer               ranks or plans and reserves in the ledger; again when another scorer was faster
        `-- reuse            the kept ranking, or a new one; and why (reasons)
            |-- continuation whether the kept ranking holds, and the next machine by it (copies)
            |-- ranking.rank one instance: a new ranking
            `-- plan         many instances: identical ones by copies, others by one ranking after another (trial)

    trial                    the what-if: the ledger with proposed changes, and what a profile chooses on it
    copies                   many identical instances one after the other, or the obstacle to that
    `-- shortlist            the next best among a few machines, with a bound on all others
        `-- incremental      feasibility and scores of all machines with the copies placed so far

    placement                result of a query: records, the reasons of instances without one, conflicts

A query like the one before it needs reuse and continuation only: the next machine is known. Whether that is possible
depends on the scope that each filter and score declares (`scorer.ranking.scope`). The metric
``windward_scorer_ranking_reuse_total{result,reason}`` counts how often it is, and the reasons otherwise.
"""
