"""The compiled part: one C function for each filter and score, how rows are made, and the loops over all machines."""
