"""Values in Redis that numpy reads without a loop: windows, usage by instance, learned use, predicted peaks."""
