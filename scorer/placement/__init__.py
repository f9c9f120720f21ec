"""From queries to reservations: one instance or many, with reuse of what the last ranking found.

The course of a decision, each line a module and below it those it calls. All but `placer` is pure: values, the ledger's
view and the time come in, values go out.

    rpc.placements           queries taken together
    |-- coalesce             alike queries in a row become one batch; each gets its own answer
    `-- placer               ranks or plans, reserves in the ledger, again where another scorer was faster
        `-- reuse            the ranking that is kept, or a new one; and why (reasons)
            |-- continuation the ranking that is kept: does it hold, and which machine is next? By copies
            |-- ranking.rank one instance: a new ranking
            `-- plan         many instances: identical ones by copies, others by one ranking after another

    copies                   many identical instances one after the other, or the obstacle to that
    `-- shortlist            the next best among a few machines, with a bound on all others
        `-- incremental      feasibility and scores of all machines with the copies placed so far

    placement                what became of a query: records, why others have none, conflicts

A query like the one before it passes reuse and continuation alone: the next machine is known. Whether that is possible
depends on what each filter and score states of itself (`scorer.ranking.scope`). How often it is so, and why not, is in
the metric ``windward_scorer_ranking_reuse_total{result,reason}``.
"""
