"""The methods for operators: taken from their own list, since they change or plan machines."""
