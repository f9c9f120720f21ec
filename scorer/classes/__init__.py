"""Reclaimable capacity: the part of a machine that higher classes leave unused and lower ones may have. Pure.

Classes in falling order: prod, mid, batch, free. Each has a sum of its own, and the sums are never added together:

    class   the sum of                  is at most
    prod    prod's amounts              allocatable * ratio
    mid     mid's amounts               prod's requests less their predicted usage (`reclaimed.mid`)
    batch   batch's amounts             capacity that prod, mid and the system do not use now (`reclaimed.batch`)
    free    batch's and free's amounts  the same as batch: free takes only what batch leaves

reclaimed    what each machine may sell to lower classes, from load and ledger, and the peer's rules for it
strategy     the settings of these rules, and the sums that they compare
class_usage  measured usage by class, and the last reports that it comes from
prediction   predicted peaks of prod and the system, from the last reports

The sums of all machines by a profile are in `scorer.ranking.inputs`, and what no longer fits in
`scorer.planning.drain.evicting`: both ask a profile, and are above the ranking.

R resources in the order of `schemas.resources`, n machines, K instances. Amounts are in base units; where the peer cuts
to whole units (millicores, bytes), this package cuts, too.

Reference: Koordinator, pkg/slo-controller/noderesource (batchresource, midresource) and pkg/koordlet/prediction.
"""
