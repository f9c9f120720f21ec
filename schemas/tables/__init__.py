"""Values in Redis that numpy reads without a loop: windows, usage by instance, what was learned and predicted."""
