"""The worlds of a replay: workloads of any size.

worlds         from a load trace: fleet, arrivals in bursts, lives, loads scaled; one a seed
batch_stream   adds batch to one
workload_file  from an ``.npz`` file, by its columns; tables: from a folder of tables
"""
