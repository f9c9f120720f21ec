"""Single values and how they are read: times, amounts, names of hosts, numbers, errors."""
