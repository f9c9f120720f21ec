"""The replay lab: it compares profiles on the same instances, in simulated time, without a server.

    __main__       the command; settings its settings, sources the worlds of its sources
    workload       instances and a fleet; workload_file reads them from arrays, workload_tables from a folder of tables
    traces/        converters from public load traces; minutes makes readings of one minute from longer cells
    worlds         a workload of any size from a trace: fleet, arrivals, lives, loads scaled; batch_stream adds batch
    recorded       a workload from a recording of a live fleet, with its recorded_* parts
    simulation     the loop: readings are folded, arrivals are placed, instances end; queue has those that ask
    fleet          the true state of a simulation: the machine of each instance, the load of each machine
    measuring      readings to windows to snapshot, by the product's own code; reports the usage of each instance
    lessons        what a scorer learns of its fleet: expected use, predicted peaks
    policies       a profile as a policy; references: random, best fit, an oracle; batch_references with batch
    contenders     which policies are run in a world; rebalancing moves their instances, evictions evicts some
    measures       figures of one simulation, of classes and memory, too; emptied: how many machines could be emptied
    calibration    stated chances of load above the limit, compared with the observed shares
    comparison     ratios to a baseline with intervals over worlds
    results_file   results of earlier runs
    report, plots  the tables, the page of plots; class_report has the tables of worlds with batch

All inputs of a profile come from the product's code: `streams.fold` and the window table, `build_snapshot`,
`LedgerView`, credits, limits, `rank` and the batch code. Only the simulated world itself is written here.
"""
