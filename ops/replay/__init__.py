"""The replay lab: it compares profiles on the same instances, in simulated time, without a server.

    __main__       the command and its settings
    workload       instances and a fleet: what every source becomes
    traces/        converters from public load traces
    worlds/        workloads of any size from a trace or a file: fleet, arrivals, lives, loads scaled; batch beside them
    recorded/      a workload from a recording of a live fleet
    simulator/     the simulation: readings are folded, arrivals are placed by a policy, instances move and end
    report/        figures, ratios with intervals, tables

All inputs of a profile come from the product's code: `streams.fold.fold` and the window table, `build_snapshot`,
`LedgerView`, credits, limits, `rank` and the batch code. Only the simulated world itself is written here.
"""
