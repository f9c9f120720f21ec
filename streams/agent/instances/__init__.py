"""Usage by instance on this machine: finds control groups and processes, and reads them at their own interval."""
