"""The worlds of a replay: workloads of any size.

worlds         from a load trace: fleet, arrivals in bursts, lives, loads scaled; one a seed; batch beside prod
workload_file  from an ``.npz`` file or a folder of tables; columns: what each column may hold
minutes        readings of one minute from longer cells
"""
