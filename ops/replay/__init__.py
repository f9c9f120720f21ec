"""The replay lab: it compares profiles on the same instances, in simulated time, without a server.

    __main__       the command
    workload       instances and a fleet; workload_file reads them
    traces/        converters from public load traces; minutes makes readings of one minute from longer cells
    worlds         a workload of any size from a trace: fleet, arrivals, lives, loads scaled
    simulation     the loop: readings are folded, arrivals are placed, instances end
    fleet          the true state of a simulation: the machine of each instance, the load of each machine
    measuring      readings to windows to snapshot, by the product's own code
    policies       a profile as a policy; references: random, best fit, an oracle
    measures       figures of one simulation; emptied: how many machines could be emptied
    calibration    stated chances of load above the limit, compared with the observed shares
    comparison     ratios to a baseline with intervals over worlds
    results_file   results of earlier runs
    report, plots  the table, the page of plots

All inputs of a profile come from the product's code: `streams.fold` and the window table, `build_snapshot`,
`LedgerView`, credits, limits, `rank` and the batch code. Only the simulated world itself is written here.
"""
