"""What instances use, read from made-up and real machines."""
