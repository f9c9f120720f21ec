"""The replay lab: what would each profile have done with the same instances, in simulated time, without a server.

    __main__       the command
    workload       instances and a fleet; workload_file reads them
    traces/        converters from public load traces; minutes makes readings of one minute from longer cells
    worlds         a workload of any size from a trace: fleet, arrivals, lives, loads scaled
    simulation     the loop: readings are folded, arrivals are placed, instances end
    fleet          the truth of a simulation: who is where, and what each machine carries
    measuring      readings to windows to snapshot, by the product's own code
    policies       a profile as a policy; references: random, best fit, an oracle
    measures       figures of one simulation; emptied: how many machines could be emptied
    calibration    stated chances of load above the limit against what came
    comparison     ratios to a baseline with intervals over worlds
    results_file   results of earlier runs
    report, plots  the table, the page of plots

Everything a profile decides by is the product's: `streams.fold` and the window table, `build_snapshot`, `LedgerView`,
credits, limits, `rank` and the batch code. Only what the simulated world itself does is written here.
"""
