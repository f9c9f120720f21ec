"""What a replay says.

measures       figures of one simulation: of load, of memory, by class
calibration    stated chances of load above the limit, compared with the observed shares
comparison     ratios to a baseline with intervals over worlds
results_file   results of earlier runs
report, plots  the tables, the page of plots
"""
